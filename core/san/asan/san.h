/* AddressSanitizer's view of a switch: it must know the bounds of the stack it is on. */
#ifndef HEDDLE_SAN_H
#define HEDDLE_SAN_H

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <stdbool.h>

#include "gmp.h"

/* For reports, which read without locks what others write: a torn picture does no harm. */
#define SAN_RACY

enum { SAN_ASYNC_PREEMPT = false };

/* A recycled stack carries the poison of frames that were left without returning. */
static inline void san_fiber_new(struct g *gp)
{
	ASAN_UNPOISON_MEMORY_REGION((void *)gp->stack.lo, gp->stack.hi - gp->stack.lo);
	gp->fiber = 0;
}

static inline void san_fiber_adopt(struct g *gp)
{
	gp->fiber = 0;
}

static inline void san_fiber_switch(struct g *from, struct g *to)
{
	__sanitizer_start_switch_fiber(&from->fiber, (void *)to->stack.lo,
				       to->stack.hi - to->stack.lo);
}

static inline void san_fiber_arrived(struct g *gp)
{
	__sanitizer_finish_switch_fiber(gp->fiber, 0, 0);
}

static inline void san_fiber_free(struct g *gp)
{
	(void)gp;
}

#endif
