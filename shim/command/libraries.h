/* The libraries that a program asks for, and those ask for, as the loader would find them; but it
 * is not asked, for to run a stranger's loader is to run the stranger. */
#ifndef HEDDLE_COMMAND_LIBRARIES_H
#define HEDDLE_COMMAND_LIBRARIES_H

#include <limits.h>
#include <stdint.h>

#include "elf.h"

enum { MAX_LIBRARIES = 256 };

struct library {
	char name[ELF_NAME];
	char path[PATH_MAX]; /* "": not found */
	uint64_t tls, calls; /* see elf.h */
};

/* libraries_of: fills in at most MAX_LIBRARIES; returns how many. */
int libraries_of(const char *program, struct library *to);

#endif
