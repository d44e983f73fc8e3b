/* Events of the scheduler, in a ring for each M that the M alone writes: bounded memory, no lock
 * but for those that are no M. tracer.c takes them out; what finds its ring full is counted, and
 * lost. Off, an event is one load and a branch; the twin in notrace/ has not even that. */
#ifndef HEDDLE_TRACE_H
#define HEDDLE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "gmp.h"
#include "tracer.h"

enum tracekind {
	TRACE_NEW, /* G begins to be */
	TRACE_NAME, /* arg: eight letters of its name, from the letter `why` on */
	TRACE_READY, /* G was made runnable; other: by whom, or 0 */
	TRACE_RUN, /* G starts to run on p */
	TRACE_SWITCH, /* and `other` stops there: why, arg, as of TRACE_STOP */
	TRACE_STOP, /* G stops running; why: TRACE_WHY; arg: what it waits for */
	TRACE_TAKEN, /* its P was taken; why: true in an announced call */
	TRACE_BACK, /* after that: it runs on p */
	TRACE_STEAL, /* G came to p from the queue of the P arg */
};

/* Why one stops: a postkind, or this and a waitreason. */
enum { TRACE_PARK = 0x80 };
#define TRACE_WHY(kind, gp)                                                                        \
	((kind) == POST_PARK ? (uint32_t)TRACE_PARK | (gp)->waitreason : (uint32_t)(kind))

enum { RING_EVENTS = 4096, TRACE_NOP = 0xffff };

struct traceevent {
	uint64_t when; /* nanotime */
	uint64_t goid;
	uint64_t other;
	uint64_t arg;
	uint32_t seq, otherseq; /* how many events of goid and of other there were, lost ones too */
	uint16_t p; /* or TRACE_NOP */
	uint8_t kind, why;
};

struct ring {
	ATOMIC(uint64_t) n; /* events ever written; the slot of the next is n % RING_EVENTS */
	ATOMIC(uint64_t) lost;
	uint32_t mid; /* UINT32_MAX: of all that are no M */
	struct ring *next; /* of all rings, which never shrink */
	/* Of who takes them out: */
	ATOMIC(uint64_t) taken __attribute__((aligned(CACHE_LINE)));
	uint64_t at, upto; /* in this round */
	uint64_t told; /* of lost */
	struct ring *link; /* of those that have something */
	struct traceevent events[RING_EVENTS];
};

enum {
	TRACING_RINGS = 1,
	TRACING_TIMES = 2, /* times.h */
	TRACING_CPU = 4, /* cputime.h */
};

extern ATOMIC(uint32_t) tracing __attribute__((visibility("hidden")));

/* trace_on: starts or stops recording. Rings are made at each M's first event. */
void trace_on(bool on);

/* trace_rings: all there are, linked by next. trace_read: takes out all events, calling fn for
 * each, M by M, oldest first. Context: one taker at a time. */
struct ring *trace_rings(void);
void trace_read(void (*fn)(uint32_t mid, const struct traceevent *ev, void *arg), void *arg);

/* trace_forked: in the child of a fork, whose Ms are to have rings of their own. */
void trace_forked(void);

/* trace_wake: a ring has its first event, or is half full. In tracer.c. */
void trace_wake(bool first);

void trace_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg);
void trace_switched(struct m *mp, struct g *from, uint32_t why, struct g *to);
void trace_named(struct m *mp, struct g *gp, const char name[TRACE_NAME_LEN]);

/* times_event: what times.h keeps of it. In times.c. */
void times_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg);

#define trace_if(...)                                                                              \
	do {                                                                                       \
		if (__builtin_expect(ld_rlx(&tracing) != 0, false))                                \
			trace_event(__VA_ARGS__);                                                  \
	} while (0)

/* trace_loses: who has more events than can be written finds its ring full nearly each time: that
 * is short, and needs no clock. gp is the one whose event it was; its next one's number says that
 * one is missing. */
static inline bool trace_loses(struct m *mp, struct g *gp)
{
	struct ring *r = mp ? mp->ring : NULL;

	if (!r || ld_rlx(&tracing) != TRACING_RINGS ||
	    ld_rlx(&r->n) - ld_rlx(&r->taken) < RING_EVENTS)
		return false;
	bump(&gp->traceseq);
	bump(&r->lost);
	return true;
}

#define trace_new(mp, gp) trace_if(mp, TRACE_NEW, (gp), 0)
#define trace_ready(mp, gp)                                                                        \
	do {                                                                                       \
		if (__builtin_expect(ld_rlx(&tracing) != 0, false) && !trace_loses((mp), (gp)))    \
			trace_event((mp), TRACE_READY, (gp), 0);                                   \
	} while (0)
#define trace_run(mp, gp) trace_if(mp, TRACE_RUN, (gp), (uint32_t)(mp)->p->id)
#define trace_stop(mp, gp, kind) trace_if(mp, TRACE_STOP, (gp), TRACE_WHY(kind, gp))
#define trace_taken(gp, call) trace_if(NULL, TRACE_TAKEN, (gp), (call))
#define trace_back(mp, pp, gp) trace_if(mp, TRACE_BACK, (gp), (uint32_t)(pp)->id)
#define trace_steal(mp, gp, victim) trace_if(mp, TRACE_STEAL, (gp), (uint32_t)(victim)->id)

/* trace_switch: from stops and `to` runs in its place: one event for the two. If it is lost, the
 * next of `to` does not fit: one that was not seen to run cannot stop. */
#define trace_switch(mp, from, kind, to)                                                           \
	do {                                                                                       \
		if (__builtin_expect(ld_rlx(&tracing) != 0, false) && !trace_loses((mp), (from)))  \
			trace_switched((mp), (from), TRACE_WHY(kind, from), (to));                 \
	} while (0)

#endif
