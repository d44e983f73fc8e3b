/* Events of the scheduler, in a ring for each M that the M alone writes: bounded memory,
 * no lock, the oldest are overwritten. Off, an event is one load and a branch; the twin in
 * notrace/ has not even that. */
#ifndef HEDDLE_TRACE_H
#define HEDDLE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "gmp.h"

enum tracekind {
	TRACE_RUN, /* G starts to run here; arg: P */
	TRACE_STOP, /* G stops running; arg: enum postkind << 8 | enum waitreason */
	TRACE_READY, /* G was made runnable here */
	TRACE_STEAL, /* G was taken; arg: the victim's P */
	TRACE_MSTOP, /* this M goes to sleep */
	TRACE_NEW, /* G begins to be: no event of the rings */
};

struct traceevent {
	uint64_t when; /* nanotime */
	uint64_t goid;
	uint32_t kind;
	uint32_t arg;
};

enum {
	TRACING_RINGS = 1,
	TRACING_TIMES = 2, /* times.h */
};

extern ATOMIC(uint32_t) tracing __attribute__((visibility("hidden")));

void trace_init(void);

/* trace_on: starts or stops recording. Rings are made at each M's first event. */
void trace_on(bool on);

/* trace_read: calls fn for each event that the rings hold, M by M, oldest first.
 * Context  while nothing is recorded: events written meanwhile may be torn. */
void trace_read(void (*fn)(uint32_t mid, const struct traceevent *ev, void *arg), void *arg);

void trace_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg);

/* times_event: what times.h keeps of it. In times.c. */
void times_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg);

#define trace_if(mp, kind, gp, arg)                                                                \
	do {                                                                                       \
		if (__builtin_expect(ld_rlx(&tracing) != 0, false))                                \
			trace_event((mp), (kind), (gp), (arg));                                    \
	} while (0)

#define trace_new(gp) trace_if(NULL, TRACE_NEW, (gp), 0)
#define trace_run(mp, gp) trace_if(mp, TRACE_RUN, (gp), (uint32_t)(mp)->p->id)
#define trace_stop(mp, gp, why)                                                                    \
	trace_if(mp, TRACE_STOP, (gp), (uint32_t)(why) << 8 | (gp)->waitreason)
#define trace_ready(mp, gp) trace_if(mp, TRACE_READY, (gp), 0)
#define trace_steal(mp, gp, victim) trace_if(mp, TRACE_STEAL, (gp), (uint32_t)(victim)->id)
#define trace_mstop(mp) trace_if(mp, TRACE_MSTOP, NULL, 0)

#endif
