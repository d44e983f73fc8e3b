/* A program that is to be run: where it is, and whether heddle can serve it. */
#ifndef HEDDLE_COMMAND_TARGET_H
#define HEDDLE_COMMAND_TARGET_H

#include <limits.h>
#include <stdbool.h>

enum verdict {
	TARGET_SERVED,
	TARGET_NATIVE, /* it runs, but not on heddle */
	TARGET_REFUSED, /* what is loaded before a program cannot be loaded before this one */
	TARGET_MISSING, /* there is none that could run, natively or not */
};

struct target {
	char path[PATH_MAX]; /* of the file that the kernel will load: a script's interpreter */
	const char *why; /* if it is not served; else NULL */
	bool script; /* path is who runs it */
	bool gives_rights; /* to others than who asks: they cannot be served */
};

enum verdict target_check(const char *command, struct target *t);

#endif
