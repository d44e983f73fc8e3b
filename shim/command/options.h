/* The options of all subcommands: one table for each, from which come the reading, the help, the
 * advice on a mistake, and by rows.c the man page and the completions. */
#ifndef HEDDLE_COMMAND_OPTIONS_H
#define HEDDLE_COMMAND_OPTIONS_H

#include <stdbool.h>

enum { DONE = 0, FAILED = 1, USAGE = 2, CANNOT_RUN = 126, NOT_FOUND = 127 };

struct option_row {
	const char *name;
	char letter; /* or 0 */
	const char *value; /* what it is called in the help; NULL: it takes none */
	const char *what;
};

struct command {
	const char *name;
	const char *operands; /* words: PID, COMMAND, PROGRAM, FILE, SETTING=VALUE; [optional] */
	const char *what; /* in one line */
	const struct option_row *options; /* ended by one without a name; or NULL */
	const struct option_row *settings; /* likewise: of NAME=VALUE operands */
	const char *more; /* at the end of the help; or NULL */
	int (*run)(const struct command *self, int argc, char **argv);
	bool early; /* options end at the first operand */
};

/* Those that each subcommand has. */
extern const struct option_row common_options[];

struct scan {
	const struct command *command;
	int argc;
	char **argv;
	int next; /* the argument to be looked at */
	const char *value; /* of the option found */
	char **operands;
	int noperands;
};

enum { SCAN_END = -1, SCAN_MISTAKE = -2, SCAN_ANSWERED = -3 };

/* scan_begin: argv[0] is the subcommand. scan_next: the row of the next option, or one of the
 * above: END: the operands are known; MISTAKE: it was told on stderr; ANSWERED: it was asked for
 * help or the version. scan_status: the exit status after the latter two. */
void scan_begin(struct scan *s, const struct command *command, int argc, char **argv);
int scan_next(struct scan *s);
int scan_status(int result);

/* nearest: of names, ended by NULL, the one that word was meant to be, or begins; or NULL. */
const char *nearest(const char *word, const char *const *names);

/* read_number: a whole decimal number of [least, most]; else it says on stderr what is wrong. */
bool read_number(const char *what, const char *text, long least, long most, long *n);

#endif
