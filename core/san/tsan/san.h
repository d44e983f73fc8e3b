/* ThreadSanitizer's fibers: each G and each g0 is one. Signal handlers must not carry a
 * G away while the sanitizer's runtime is on its stack, so there is no preemption. */
#ifndef HEDDLE_SAN_H
#define HEDDLE_SAN_H

#include <sanitizer/tsan_interface.h>
#include <stdbool.h>

#include "gmp.h"

/* For reports, which read without locks what others write: a torn picture does no harm. */
#define SAN_RACY __attribute__((no_sanitize("thread"), noinline))

enum { SAN_ASYNC_PREEMPT = false };

static inline void san_fiber_new(struct g *gp)
{
	gp->fiber = __tsan_create_fiber(0);
}

static inline void san_fiber_adopt(struct g *gp)
{
	gp->fiber = __tsan_get_current_fiber();
}

/* Two contexts in a row on one M are ordered: they are one kernel thread. A G that moves
 * to another M is ordered by the core's atomics alone, so a missing one is found. */
static inline void san_fiber_switch(struct g *from, struct g *to)
{
	(void)from;
	__tsan_switch_to_fiber(to->fiber, 0);
}

static inline void san_fiber_arrived(struct g *gp)
{
	(void)gp;
}

static inline void san_fiber_free(struct g *gp)
{
	__tsan_destroy_fiber(gp->fiber);
	gp->fiber = 0;
}

#endif
