/* The heaps of timer.h. Owns their memory and timers.first, which others read without
 * the lock to learn whether a look is worth it. Runs nothing but wait_claim under a
 * heap's lock: what a timer wakes is readied after it. */
#include "poller.h"
#include "sched.h"

enum {
	ARITY = 4,
	FIRST_CAP = 512, /* a page of pointers; committed by touch */
	ENOMEM_ = 12,
	CLOCK_REAL = 0,
	SYSMON_SLACK_NS = 50 * 1000,
};

int timers_init(struct timers *ts, int32_t pid)
{
	ts->lock.rank = RANK_TIMERS;
	ts->pid = pid;
	ts->cap = FIRST_CAP;
	ts->heap = os_reserve(FIRST_CAP * sizeof(*ts->heap));
	return os_failed(ts->heap) ? -ENOMEM_ : 0;
}

void timers_free(struct timers *ts)
{
	os_release(ts->heap, ts->cap * sizeof(*ts->heap));
}

static bool grow(struct timers *ts)
{
	struct timer **heap = os_reserve(2 * (size_t)ts->cap * sizeof(*heap));

	if (os_failed(heap))
		return false;
	for (uint32_t i = 0; i < ts->n; i++)
		heap[i] = ts->heap[i];
	timers_free(ts);
	ts->heap = heap;
	ts->cap *= 2;
	return true;
}

static void place(struct timers *ts, uint32_t at, struct timer *t)
{
	ts->heap[at] = t;
	t->index = at;
}

static void siftup(struct timers *ts, uint32_t at)
{
	struct timer *t = ts->heap[at];

	while (at > 0) {
		uint32_t parent = (at - 1) / ARITY;
		if (ts->heap[parent]->when <= t->when)
			break;
		place(ts, at, ts->heap[parent]);
		at = parent;
	}
	place(ts, at, t);
}

static void siftdown(struct timers *ts, uint32_t at)
{
	struct timer *t = ts->heap[at];

	for (;;) {
		uint32_t child = at * ARITY + 1, best = child;
		if (child >= ts->n)
			break;
		for (uint32_t i = child + 1; i < child + ARITY && i < ts->n; i++)
			if (ts->heap[i]->when < ts->heap[best]->when)
				best = i;
		if (t->when <= ts->heap[best]->when)
			break;
		place(ts, at, ts->heap[best]);
		at = best;
	}
	place(ts, at, t);
}

/* Sequentially consistent: pairs with the looks of pollers and of sysmon, which publish
 * when they will wake and then look here. */
static void publish_first(struct timers *ts)
{
	uint64_t first = ts->n ? ts->heap[0]->when : 0;

	if (ld_rlx(&ts->first) != first)
		st_sc(&ts->first, first);
}

static bool insert_locked(struct timers *ts, struct timer *t)
{
	if (ts->n == ts->cap && !grow(ts))
		return false;
	st_rel(&t->heap, ts);
	ts->heap[ts->n] = t;
	siftup(ts, ts->n++);
	return true;
}

static void remove_locked(struct timers *ts, struct timer *t)
{
	uint32_t at = t->index;
	struct timer *last = ts->heap[--ts->n];

	DCHECK(GMP_G4, ts->heap[at] == t);
	if (last != t) {
		place(ts, at, last);
		siftdown(ts, at);
		siftup(ts, last->index);
	}
	st_rel(&t->heap, NULL);
}

uint64_t timer_when(struct timer *t, int clock, uint64_t at)
{
	uint64_t now = os_clock(clock), mono = nanotime();
	uint64_t left = at > now ? at - now : 0;

	t->clock = clock;
	t->deadline = at;
	if (clock == CLOCK_REAL)
		netpoll_watchclock();
	/* As far as a signed clock goes: later is never. */
	return left < INT64_MAX - mono ? mono + left : INT64_MAX;
}

/* Every heap is gone through: it is as rare as somebody setting the clock. */
void timers_clockset(void)
{
	struct p **allp = ld_acq(&sched.allp);
	int32_t n = ld_acq(&sched.gomaxprocs);

	for (int32_t i = 0; i < n; i++) {
		struct timers *ts = &allp[i]->timers;
		lock(&ts->lock);
		for (uint32_t j = 0; j < ts->n; j++) {
			struct timer *t = ts->heap[j];
			if (t->clock == CLOCK_REAL)
				t->when = timer_when(t, CLOCK_REAL, t->deadline);
		}
		for (uint32_t j = ts->n; j-- > 0;)
			siftdown(ts, j);
		publish_first(ts);
		unlock(&ts->lock);
	}
}

int timer_arm(struct m *mp, struct timer *t, uint64_t when, uint64_t seq, struct g *gp)
{
	struct timers *ts = &ld_rlx(&mp->p)->timers;
	struct g *self = getg();
	bool first, ok;

	if (when == 0)
		when = 1;
	lock(&ts->lock);
	t->when = when;
	t->seq = seq;
	t->g = gp;
	ok = insert_locked(ts, t);
	first = ok && t->index == 0;
	publish_first(ts);
	unlock(&ts->lock);
	if (!ok)
		return -ENOMEM_;
	/* This P looks at its timers whenever it schedules; if what it runs next does not let it,
	 * sysmon must: L2. Who parks with nobody queued here leaves that to g0, which says it when
	 * it runs somebody: mostly it goes idle, and sysmon is left alone. */
	if (first && (self == gp ? !runqempty(ld_rlx(&mp->p)) : !self || !on_g0(self)))
		timers_tell(when);
	return 0;
}

/* Sysmon publishes sysmonwake, then looks at first, at who is idle, and asks core_config.clocked.
 */
void timers_tell(uint64_t first)
{
	if (first + SYSMON_SLACK_NS < ld_sc(&sched.sysmonwake))
		notewakeup(&sched.sysmonnote);
}

void core_clocked(uint64_t when)
{
	timers_tell(when);
}

void timer_disarm(struct timer *t)
{
	struct timers *ts;

	/* It may be moved to another heap between the look and the lock. */
	while ((ts = ld_acq(&t->heap)) != NULL) {
		lock(&ts->lock);
		if (ld_rlx(&t->heap) == ts) {
			remove_locked(ts, t);
			publish_first(ts);
			unlock(&ts->lock);
			return;
		}
		unlock(&ts->lock);
	}
}

/* Takes what is due; the Gs whose wait ended by it go to *list. Returns their number. */
static int expire(struct timers *ts, uint64_t now, struct glist *list)
{
	int ran = 0;

	lock(&ts->lock);
	while (ts->n > 0 && ts->heap[0]->when <= now) {
		struct timer *t = ts->heap[0];
		struct g *gp = t->g;
		uint64_t seq = t->seq;

		remove_locked(ts, t);
		ran++;
		/* From the claim on the G is ours; without it t may be armed anew at once. */
		if (wait_claim(gp, seq, WAIT_TIMEOUT)) {
			gp->schedlink = list->head;
			list->head = gp;
			list->n++;
		}
	}
	publish_first(ts);
	unlock(&ts->lock);
	return ran;
}

/* In the order of their deadlines, which expire() turned around. */
static void reverse(struct glist *list)
{
	struct g *done = NULL, *gp = list->head;

	while (gp) {
		struct g *rest = gp->schedlink;
		gp->schedlink = done;
		done = gp;
		gp = rest;
	}
	list->head = done;
}

bool timers_due(struct p *pp)
{
	uint64_t first = ld_rlx(&pp->timers.first);

	pp->timerseen = arch_cycles();
	return first != 0 && first <= nanotime();
}

bool checktimers(struct m *mp, struct p *pp, uint64_t *now, uint64_t *until)
{
	struct glist list = { NULL, 0, NULL };
	uint64_t first = ld_acq(&pp->timers.first);
	int ran;

	if (pp == mp->p)
		pp->timerseen = arch_cycles();
	if (first == 0)
		return false;
	if (*now == 0)
		*now = nanotime();
	if (first > *now) {
		if (*until == 0 || first < *until)
			*until = first;
		return false;
	}
	ran = expire(&pp->timers, *now, &list);
	count_by(mp->p, timersfired, (uint64_t)ran);
	reverse(&list);
	injectglist(mp, &list);
	first = ld_acq(&pp->timers.first);
	if (first != 0 && (*until == 0 || first < *until))
		*until = first;
	return ran > 0;
}

int runtimers_nop(struct p *pp, uint64_t now, struct glist *list)
{
	uint64_t first = ld_acq(&pp->timers.first);
	int ran = 0;

	if (first != 0 && first <= now)
		ran = expire(&pp->timers, now, list);
	reverse(list);
	return ran;
}

uint32_t timers_count(struct timers *ts)
{
	uint32_t n;

	lock(&ts->lock);
	n = ts->n;
	unlock(&ts->lock);
	return n;
}

int timers_reserve(struct timers *ts, uint32_t more)
{
	int r = 0;

	lock(&ts->lock);
	while (r == 0 && ts->cap - ts->n < more)
		r = grow(ts) ? 0 : -ENOMEM_;
	unlock(&ts->lock);
	return r;
}

void timers_move(struct timers *from, struct timers *to)
{
	struct timers *low = from->pid < to->pid ? from : to;
	struct timers *high = low == from ? to : from;

	lock(&low->lock);
	lock(&high->lock);
	while (from->n > 0) {
		struct timer *t = from->heap[from->n - 1];
		from->n--;
		CHECK(GMP_P5, insert_locked(to, t));
	}
	publish_first(from);
	publish_first(to);
	unlock(&high->lock);
	unlock(&low->lock);
}

void timers_orphaned(uint64_t first)
{
	/* Sysmon publishes sysmonwake, then looks at this. */
	st_sc(&sched.orphans, true);
	timers_tell(first);
}

static uint64_t next_of(bool idle_too)
{
	struct p **allp = ld_acq(&sched.allp);
	int32_t n = ld_acq(&sched.gomaxprocs);
	uint64_t next = 0;

	for (int32_t i = 0; i < n; i++) {
		uint64_t first = ld_sc(&allp[i]->timers.first);
		if (!idle_too && (ld_sc(&sched.idlepmask[i / 64]) >> (i % 64) & 1))
			continue;
		if (first != 0 && (next == 0 || first < next))
			next = first;
	}
	return next;
}

uint64_t timers_next(void)
{
	return next_of(true);
}

uint64_t timers_nextbusy(void)
{
	return next_of(false);
}
