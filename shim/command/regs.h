/* The registers of a G: where its stack is to be unwound from. */
#ifndef HEDDLE_COMMAND_REGS_H
#define HEDDLE_COMMAND_REGS_H

#include <stdbool.h>
#include <stdint.h>

#include "look.h"
#include "scene.h"

/* The callee-saved ones, and where it is. */
struct regs {
	uint64_t rip, rsp, rbp, rbx, r12, r13, r14, r15;
	bool exact; /* rip is an instruction that was interrupted, not where a call returns to */
};

/* A kernel thread that is held still; of a G that is off the cpu, none. */
struct held {
	pid_t tid; /* 0: none */
	int sig; /* that it was to get */
};

/* regs_of: NULL and *r, or why not, in words. If its G runs, the kernel thread is held still from
 * here to regs_done, unless it sleeps in a call that a stop would end early. *g is read anew if it
 * does not fit what its kernel thread does. */
const char *regs_of(const struct view *v, const struct scene *s, struct g_seen *g, struct regs *r,
		    struct held *held);
void regs_done(const struct held *held);

#endif
