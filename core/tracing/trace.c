/* The rings of trace.h. */
#include "trace.h"

#include "sched.h"

enum { RING_EVENTS = 16384 };

struct ring {
	ATOMIC(uint64_t) n; /* events ever written; the slot of the next is n % RING_EVENTS */
	struct traceevent events[RING_EVENTS];
};

ATOMIC(uint32_t) tracing;

void trace_init(void)
{
}

void trace_on(bool on)
{
	if (on)
		or_sc(&tracing, TRACING_RINGS);
	else
		and_sc(&tracing, ~(uint32_t)TRACING_RINGS);
}

static void ring_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg)
{
	struct g *self = getg();
	struct ring *r;
	struct traceevent *ev;
	uint64_t n;

	/* A thread that is no M has no ring: what it readies shows when it runs. */
	if (!mp)
		mp = self && on_g0(self) ? self->m : NULL;
	if (!mp)
		return;
	r = ld_rlx(&mp->ring);
	if (!r) {
		r = os_reserve(sizeof(*r));
		if (os_failed(r))
			return;
		/* Release: pairs with the acquire in trace_read. */
		st_rel(&mp->ring, r);
	}
	n = ld_rlx(&r->n);
	ev = &r->events[n % RING_EVENTS];
	ev->when = nanotime();
	ev->goid = gp ? gp->goid : 0;
	ev->kind = kind;
	ev->arg = arg;
	st_rel(&r->n, n + 1);
}

void trace_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg)
{
	uint32_t on = ld_rlx(&tracing);

	if (on & TRACING_TIMES)
		times_event(mp, kind, gp, arg);
	if ((on & TRACING_RINGS) && kind != TRACE_NEW)
		ring_event(mp, kind, gp, arg);
}

void trace_read(void (*fn)(uint32_t mid, const struct traceevent *ev, void *arg), void *arg)
{
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink) {
		struct ring *r = ld_acq(&mp->ring);
		uint64_t n = r ? ld_acq(&r->n) : 0;
		for (uint64_t i = n > RING_EVENTS ? n - RING_EVENTS : 0; i < n; i++)
			fn(mp->id, &r->events[i % RING_EVENTS], arg);
	}
}
