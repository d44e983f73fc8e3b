/* The rings of trace.h: writing. Whoever takes events out is elsewhere, and in nobody's way. */
#include "trace.h"

#include "cputime.h"
#include "early.h"
#include "sched.h"

ATOMIC(uint32_t) tracing;

static ATOMIC(struct ring *) rings;

/* Kernel threads that are no M are few, and share one. */
static struct mutex others_lock = MUTEX_INIT(RANK_LEAF);
static ATOMIC(struct ring *) others;

void trace_on(bool on)
{
	if (on)
		or_sc(&tracing, TRACING_RINGS);
	else
		and_sc(&tracing, ~(uint32_t)TRACING_RINGS);
}

struct ring *trace_rings(void)
{
	/* Acquire: pairs with the release in ring_new. */
	return ld_acq(&rings);
}

static struct ring *ring_new(uint32_t mid)
{
	struct ring *r = os_reserve(sizeof(*r));

	if (os_failed(r))
		return NULL;
	r->mid = mid;
	/* Release: who finds it finds a whole one. */
	do
		r->next = ld_rlx(&rings);
	while (!cas_rel(&rings, r->next, r));
	return r;
}

/* The M on whose behalf the caller is in the core; NULL: it is none. */
static struct m *own_m(struct m *mp)
{
	struct g *self;

	if (mp)
		return mp;
	self = getg();
	return self && (on_g0(self) || ld_rlx(&self->status) == GPINNED) ? ld_rlx(&self->m) : NULL;
}

static inline struct ring *ring_of(struct m *mp)
{
	struct ring *r = mp->ring;

	if (unlikely(!r))
		r = mp->ring = ring_new(mp->id);
	return r;
}

/* The next slot, with its time; NULL: there is none, and that is counted. */
static inline struct traceevent *begin(struct ring *r)
{
	struct traceevent *ev;
	uint64_t n = ld_rlx(&r->n);

	/* Acquire: pairs with the release of who took it out: the slot is read. */
	if (n - ld_acq(&r->taken) >= RING_EVENTS) {
		bump(&r->lost);
		return NULL;
	}
	ev = &r->events[n % RING_EVENTS];
	ev->when = nanotime();
	return ev;
}

static inline void end(struct ring *r)
{
	uint64_t n = ld_rlx(&r->n) + 1, waiting = n - ld_rlx(&r->taken);

	/* Release: pairs with the acquire of who takes it out. */
	st_rel(&r->n, n);
	if (unlikely(waiting == 1 || waiting == RING_EVENTS / 2))
		trace_wake(waiting == 1);
}

static void put(struct ring *r, const struct traceevent *what)
{
	struct traceevent *ev = begin(r);
	uint64_t when;

	if (!ev)
		return;
	when = ev->when;
	*ev = *what;
	ev->when = when;
	end(r);
}

static void record(struct m *mp, const struct traceevent *what)
{
	struct ring *r;

	mp = own_m(mp);
	if (mp) {
		r = ring_of(mp);
		if (r)
			put(r, what);
		return;
	}
	lock(&others_lock);
	r = ld_rlx(&others);
	if (!r) {
		r = ring_new(UINT32_MAX);
		st_rlx(&others, r);
	}
	if (r)
		put(r, what);
	unlock(&others_lock);
}

/* Whoever records an event of a G owns the G at that moment. */
static uint64_t waits_for(const struct g *gp, uint32_t why)
{
	if (why != (TRACE_PARK | WAIT_FUTEX) && why != (TRACE_PARK | WAIT_READ) &&
	    why != (TRACE_PARK | WAIT_WRITE))
		return 0;
	return (uintptr_t)ld_rlx(&gp->waiton);
}

static uint64_t running_on(struct m *mp)
{
	struct g *gp;

	mp = own_m(mp);
	gp = mp ? ld_rlx(&mp->curg) : NULL;
	return gp ? gp->goid : 0;
}

static void ring_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg)
{
	struct traceevent ev = { .goid = gp->goid, .p = TRACE_NOP, .kind = (uint8_t)kind };

	switch (kind) {
	case TRACE_RUN:
	case TRACE_BACK:
		ev.p = (uint16_t)arg;
		break;
	case TRACE_STOP:
		ev.why = (uint8_t)arg;
		ev.arg = waits_for(gp, arg);
		break;
	case TRACE_READY:
		ev.other = running_on(mp);
		break;
	case TRACE_STEAL:
		ev.p = (uint16_t)mp->p->id;
		ev.arg = arg;
		record(mp, &ev);
		return;
	default:
		ev.why = (uint8_t)arg;
	}
	bump(&gp->traceseq);
	ev.seq = gp->traceseq;
	record(mp, &ev);
	if (kind == TRACE_NEW)
		tracer_names(mp, gp);
}

void trace_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg)
{
	uint32_t on = ld_rlx(&tracing);

	if (on & TRACING_TIMES)
		times_event(mp, kind, gp, arg);
	if ((on & TRACING_CPU) && (kind == TRACE_STOP || kind == TRACE_RUN))
		cputime_charge(mp, kind == TRACE_STOP ? gp : NULL);
	if (on & TRACING_RINGS)
		ring_event(mp, kind, gp, arg);
}

/* By far the most frequent: so it is written where it is to be. */
void trace_switched(struct m *mp, struct g *from, uint32_t why, struct g *to)
{
	uint32_t on = ld_rlx(&tracing);
	struct traceevent *ev;
	struct ring *r;

	if (on & TRACING_TIMES) {
		times_event(mp, TRACE_STOP, from, why);
		times_event(mp, TRACE_RUN, to, 0);
	}
	if (on & TRACING_CPU)
		cputime_charge(mp, from);
	if (!(on & TRACING_RINGS))
		return;
	bump(&from->traceseq);
	bump(&to->traceseq);
	r = ring_of(mp);
	ev = r ? begin(r) : NULL;
	if (!ev)
		return;
	ev->goid = to->goid;
	ev->other = from->goid;
	ev->arg = waits_for(from, why);
	ev->seq = to->traceseq;
	ev->otherseq = from->traceseq;
	ev->p = (uint16_t)mp->p->id;
	ev->kind = TRACE_SWITCH;
	ev->why = (uint8_t)why;
	end(r);
}

void trace_named(struct m *mp, struct g *gp, const char name[TRACE_NAME_LEN])
{
	struct traceevent ev = { .goid = gp->goid, .p = TRACE_NOP, .kind = TRACE_NAME };

	for (; ev.why < TRACE_NAME_LEN; ev.why = (uint8_t)(ev.why + sizeof(ev.arg))) {
		__builtin_memcpy(&ev.arg, name + ev.why, sizeof(ev.arg));
		record(mp, &ev);
	}
}

void trace_read(void (*fn)(uint32_t mid, const struct traceevent *ev, void *arg), void *arg)
{
	for (struct ring *r = trace_rings(); r; r = r->next) {
		uint64_t n = ld_acq(&r->n);
		for (uint64_t i = ld_rlx(&r->taken); i < n; i++)
			fn(r->mid, &r->events[i % RING_EVENTS], arg);
		/* Release: the slots are read. */
		st_rel(&r->taken, n);
	}
}

FORKS void trace_forked(void)
{
	trace_on(false);
	st_rlx(&rings, NULL);
	st_rlx(&others, NULL);
	st_rlx(&others_lock.key, 0);
	st_rlx(&others_lock.sleepers, 0);
}
