/* How things are written for people: numbers, times, names of strangers, colours. */
#ifndef HEDDLE_COMMAND_SAY_H
#define HEDDLE_COMMAND_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { SAY_TIME = 16, SAY_COUNT = 32 };

/* say_time: "3.2s", "5m07s", "2h14m", "12d03h". say_count: with commas. Both return buf. */
const char *say_time(char *buf, uint64_t ns);
const char *say_count(char *buf, uint64_t n);

/* say_clean: what a terminal would act on becomes '?'. */
void say_clean(char *text);

/* say_command: the command line of a process, cleaned, in one line; its name where it has none. */
void say_command(pid_t pid, char *buf, size_t size);

/* say_colours: may there be colours on standard output? bold, dim, plain: the sequences, or "". */
bool say_colours(void);
const char *bold(void);
const char *dim(void);
const char *plain(void);

/* say_json: a string in quotes. */
void say_json(const char *text);
void say_json_to(FILE *to, const char *text);

/* say_pid: reads the PID operand of a subcommand; else it says what is wrong. */
bool say_pid(const char *command, int noperands, char **operands, pid_t *pid);

#endif
