/* A program that is to be run: where it is, and whether heddle can serve it. */
#ifndef HEDDLE_COMMAND_TARGET_H
#define HEDDLE_COMMAND_TARGET_H

#include <limits.h>

enum verdict {
	TARGET_SERVED,
	TARGET_NATIVE, /* it runs, but not on heddle */
	TARGET_REFUSED, /* what is loaded before a program cannot be loaded before this one */
	TARGET_MISSING, /* there is none, or it is no program: who runs it will say so */
};

struct target {
	char path[PATH_MAX]; /* of the file that the kernel will load: a script's interpreter */
	const char *why; /* if it is not served; else NULL */
};

enum verdict target_check(const char *command, struct target *t);

#endif
