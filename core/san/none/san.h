/* No sanitizer: the empty twin of san/tsan/san.h and san/asan/san.h. A fiber is the
 * sanitizer's idea of a context; it must be told of each switch just before it. */
#ifndef HEDDLE_SAN_H
#define HEDDLE_SAN_H

#include <stdbool.h>

#include "gmp.h"

/* For reports, which read without locks what others write: a torn picture does no harm. */
#define SAN_RACY

/* True if a signal handler may carry a G away in the middle of anything. */
enum { SAN_ASYNC_PREEMPT = true };

static inline void san_fiber_new(struct g *gp)
{
	(void)gp;
}

static inline void san_fiber_adopt(struct g *gp)
{
	(void)gp;
}

static inline void san_fiber_switch(struct g *from, struct g *to)
{
	(void)from;
	(void)to;
}

/* The first thing on a context after a switch to it. */
static inline void san_fiber_arrived(struct g *gp)
{
	(void)gp;
}

static inline void san_fiber_free(struct g *gp)
{
	(void)gp;
}

#endif
