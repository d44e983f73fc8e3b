/* What is soon needed is asked for before, so that who needs it does not wait for memory: what many
 * Gs have has left the caches by the time that it is one's turn. Never wrong, only in vain. */
#ifndef HEDDLE_FETCH_H
#define HEDDLE_FETCH_H

#include "cpu.h"
#include "gmp.h"

enum { G_LINES = 2 }; /* of a struct g: what a switch touches */

/* fetch: so many cache lines from there on. */
static inline void fetch(const void *at, int lines)
{
	for (int i = 0; i < lines; i++)
		arch_fetch((const char *)at + i * CACHE_LINE);
}

/* fetch_context: what gp, which waits, needs to run: so many lines of its stack, its thread block
 * and its host. On its way into the park it has a context of before; and who runs it already may
 * write there. */
static inline __attribute__((no_sanitize("thread"))) void fetch_context(const struct g *gp,
									int lines)
{
	fetch((const void *)gp->sched.sp, lines);
	fetch((const void *)gp->fsbase, 1);
	fetch(ghost_of(gp), 1);
}

#endif
