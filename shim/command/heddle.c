/* The heddle command: which subcommand is meant. Without one it is `run`. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

static const struct command *const commands[] = {
	&command_run,  &command_ps,  &command_top,    &command_stats,
	&command_dump, &command_ctl, &command_doctor,
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static int usage(FILE *to, int status)
{
	fputs("usage: heddle [run] [options] [--] COMMAND [ARGUMENT...]\n"
	      "       heddle SUBCOMMAND [options] [operands]\n\n",
	      to);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-7s %s\n", commands[i]->name, commands[i]->what);
	fputs("\nheddle SUBCOMMAND --help says more.\n", to);
	return status;
}

/* A word that is neither a subcommand nor a program may be a subcommand misspelt. */
static const char *meant(const char *word)
{
	const char *names[COMMANDS + 1] = { NULL };

	for (int i = 0; i < COMMANDS; i++)
		names[i] = commands[i]->name;
	return nearest(word, names);
}

int main(int argc, char **argv)
{
	static char run[] = "run";
	int status;

	if (argc < 2)
		return usage(stderr, USAGE);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage(stdout, DONE);
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i]->name) == 0)
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	argv[0] = run;
	status = command_run.run(&command_run, argc, argv);
	if (status == NOT_FOUND && argv[1][0] != '-' && meant(argv[1]))
		fprintf(stderr, "heddle: did you mean heddle %s?\n", meant(argv[1]));
	return status;
}
