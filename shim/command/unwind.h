/* Call stacks in another process, by libunwind. */
#ifndef HEDDLE_COMMAND_UNWIND_H
#define HEDDLE_COMMAND_UNWIND_H

#include <stdint.h>

#include "modules.h"
#include "regs.h"

enum { MAX_FRAMES = 128 };

struct stack {
	int n;
	uint64_t pc[MAX_FRAMES]; /* an address inside the call, or where it was interrupted */
	bool cut; /* there may be more */
};

/* unwind: from r down to the thread's start. Ends where it cannot go on. */
void unwind(struct modules *ms, const struct regs *r, struct stack *to);

#endif
