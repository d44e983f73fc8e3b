/* The heddle command: which subcommand is meant. Without one it is `run`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

enum { NAMES = 32 };

static int usage(FILE *to, int status)
{
	fputs("usage: heddle [run] [options] [--] COMMAND [ARGUMENT...]\n"
	      "       heddle SUBCOMMAND [options] [operands]\n\n",
	      to);
	for (int i = 0; commands[i]; i++)
		fprintf(to, "  %-7s %s\n", commands[i]->name, commands[i]->what);
	fputs("\nheddle SUBCOMMAND --help says more.\n", to);
	return status;
}

/* A word that is neither a subcommand nor a program may be one of ours, misspelt. */
static const char *meant(const char *word)
{
	const char *names[NAMES] = { "--help", "--version" };
	int n = 2;

	for (int i = 0; commands[i] && n < NAMES - 1; i++)
		names[n++] = commands[i]->name;
	return nearest(word, names);
}

static int subcommand(int argc, char **argv)
{
	static char run[] = "run";
	int status;

	if (argc < 2)
		return usage(stderr, USAGE);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage(stdout, DONE);
	for (int i = 0; commands[i]; i++)
		if (strcmp(argv[1], commands[i]->name) == 0)
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	argv[0] = run;
	status = command_run.run(&command_run, argc, argv);
	if (status == NOT_FOUND && argv[1][0] != '-' && meant(argv[1]))
		fprintf(stderr, "heddle: did you mean heddle %s?\n", meant(argv[1]));
	return status;
}

/* An answer that reached nobody is none. */
int main(int argc, char **argv)
{
	int status = subcommand(argc, argv);

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "heddle: standard output: %s\n", strerror(errno));
	return status == DONE ? FAILED : status;
}
