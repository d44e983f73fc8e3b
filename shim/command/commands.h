/* The subcommands, one file each. What reads the table: the command itself, and rows.c, which tells
 * it to the man page and the completions. */
#ifndef HEDDLE_COMMAND_COMMANDS_H
#define HEDDLE_COMMAND_COMMANDS_H

#include "options.h"

extern const struct command command_run;
extern const struct command command_ab;
extern const struct command command_explore;
extern const struct command command_ps;
extern const struct command command_stats;
extern const struct command command_dump;
extern const struct command command_doctor;
extern const struct command command_top;
extern const struct command command_ctl;
extern const struct command command_trace;

/* All of them, in the order of the help; ended by NULL. In commands.c. */
extern const struct command *const commands[];

/* the_only: the one process that heddle serves, of those that one may look into; 0: there are
 * none, or several: it was said on stderr. In ps.c. */
int the_only(const char *subcommand);

#endif
