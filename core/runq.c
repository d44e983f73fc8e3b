/* The local run queue: a ring of 256 that its owner fills at the tail and empties at the
 * head, from whose head thieves take, and the runnext slot before it.
 *
 * Only the owner moves the tail (WS_I3, GMP_R2), anyone the head, by CAS (GMP_R3); the release
 * of the tail and the acquires of it carry what was written before a put to whoever gets the
 * G (GMP_R4). The owner's put waits for no thief (WS_S4), and of thieves that collide one
 * succeeds (WS_S5).
 *
 * Owns the indices. Compiles against modelled atomics too (tests/model): all shared
 * words go through atomic.h, all else it calls is declared in sched.h. */
#include "fetch.h"
#include "sched.h"

/* Half of the full queue and gp, in one batch, to the global queue. False if a thief made
 * room meanwhile. */
static bool runqputslow(struct p *pp, struct g *gp, uint32_t h, uint32_t t)
{
	struct g *batch[RUNQ_SIZE / 2 + 1];
	struct gqueue q = { NULL, NULL };
	uint32_t n = (t - h) / 2;

	DCHECK(GMP_R6, n == choose_room() / 2);
	for (uint32_t i = 0; i < n; i++)
		batch[i] = ld_rlx(&pp->runq[(h + i) % RUNQ_SIZE]);
	/* Release: the slots are read before a refill by us can overwrite them; pairs with
	 * the acquire of the head in runqput and runqgrab. */
	if (!cas_rel(&pp->runqhead, h, h + n))
		return false;
	batch[n] = gp;
	for (uint32_t i = 0; i <= n; i++)
		gqueue_push(&q, batch[i]);
	count(pp, overflows);
	lock(&sched.lock);
	globrunqputbatch_locked(&q, (int32_t)n + 1);
	unlock(&sched.lock);
	return true;
}

/* Behind the last of the ring, where there is room. */
static inline void put_at(struct p *pp, struct g *gp, uint32_t t)
{
	st_rlx(&pp->runq[t % RUNQ_SIZE], gp);
	/* Release: pairs with the acquire of the tail in runqgrab(). A thief that counts this
	 * slot as full must also see gp in it. */
	st_rel(&pp->runqtail, t + 1);
}

static void put_last(struct p *pp, struct g *gp);

static void __attribute__((noinline)) put_full(struct p *pp, struct g *gp, uint32_t h, uint32_t t)
{
	if (!runqputslow(pp, gp, h, t))
		put_last(pp, gp);
}

static void put_last(struct p *pp, struct g *gp)
{
	/* Acquire: pairs with the release CAS of thieves, who are done reading the slots that
	 * we may overwrite. */
	uint32_t h = ld_acq(&pp->runqhead);
	uint32_t t = ld_rlx(&pp->runqtail);
	DCHECK(GMP_R1, t - h <= RUNQ_SIZE);
	if (unlikely(t - h >= choose_room())) {
		put_full(pp, gp, h, t);
		return;
	}
	put_at(pp, gp, t);
}

/* By a policy all goes to the global queue; without runnext to the tail. In both cases the caller
 * counts on what runnext's exchange is: wakep follows. */
static void __attribute__((noinline)) put_oddly(struct p *pp, struct g *gp)
{
	struct gqueue q = { gp, gp };

	if (choose_policed()) {
		lock(&sched.lock);
		gp->schedlink = NULL;
		globrunqputbatch_locked(&q, 1);
		unlock(&sched.lock);
	} else {
		put_last(pp, gp);
	}
	add_sc(&sched.nmspinning, 0);
}

void runqput(struct p *pp, struct g *gp, bool next)
{
	DCHECK(WS_I10, ld_rlx(&gp->status) == GRUNNABLE);
	if (sched_odd() && (choose_policed() || !choose_runnext())) {
		put_oddly(pp, gp);
		return;
	}
	if (next) {
		/* Sequentially consistent: after it the caller looks for spinners (wakep), and
		 * a spinner that dropped its mark looks here. One of the two must see. */
		gp = xchg_sc(&pp->runnext, gp);
		if (!gp)
			return;
	}
	put_last(pp, gp);
}

void runqputbatch(struct p *pp, struct g *list, int32_t n)
{
	uint32_t h = ld_acq(&pp->runqhead);
	uint32_t t = ld_rlx(&pp->runqtail);
	struct gqueue rest = { NULL, NULL };
	int32_t nrest = 0;

	while (list && t - h < choose_room() && !choose_policed()) {
		struct g *gp = list;
		list = gp->schedlink;
		st_rlx(&pp->runq[t % RUNQ_SIZE], gp);
		t++;
		n--;
	}
	/* Sequentially consistent: wakep follows, as after the exchange in runqput. */
	xchg_sc(&pp->runqtail, t);
	while (list) {
		struct g *gp = list;
		list = gp->schedlink;
		gqueue_push(&rest, gp);
		nrest++;
	}
	DCHECK(WS_S2, nrest == n);
	if (nrest > 0) {
		lock(&sched.lock);
		globrunqputbatch_locked(&rest, nrest);
		unlock(&sched.lock);
	}
}

/* Those that one G makes begin in the order in which it makes them, as threads do natively: there
 * is a program whose second signals the first, which has set the handler. The last of them is in
 * runnext, out of the thieves' way: if the ring's first has yet to begin, too, it goes to the end.
 * Returns  who is still in runnext. Context: perhaps under sched.lock, so only where there is room.
 */
static struct g *__attribute__((noinline)) begins_behind(struct p *pp, struct g *next)
{
	/* Acquire: as in put_last. */
	uint32_t h = ld_acq(&pp->runqhead);
	uint32_t t = ld_rlx(&pp->runqtail);

	if (h == t || t - h >= RUNQ_SIZE || !ld_rlx(&ld_rlx(&pp->runq[h % RUNQ_SIZE])->fresh))
		return next;
	if (cas_acqrel(&pp->runnext, next, NULL))
		put_at(pp, next, t);
	return NULL;
}

/* Who is at that place runs next, if nothing comes in between, and then the one behind him; both
 * may be others' by now. */
static void fetch_next(const struct p *pp, uint32_t at)
{
	enum { STACK_LINES = 2 }; /* the switch's own */

	fetch_context(ld_rlx(&pp->runq[at % RUNQ_SIZE]), STACK_LINES);
	fetch(ld_rlx(&pp->runq[(at + 1) % RUNQ_SIZE]), G_LINES);
}

struct g *runqget(struct p *pp, bool *inherit)
{
	struct g *next = ld_rlx(&pp->runnext);

	if (next && unlikely(ld_rlx(&next->fresh)))
		next = begins_behind(pp, next);
	/* A thief may take runnext between the two, but only the owner fills it, so one
	 * failure means that it is gone. Release: pairs with the look of runqempty(); who finds
	 * nothing here must also see the G that was kicked out of here into the ring. */
	if (next && cas_acqrel(&pp->runnext, next, NULL)) {
		*inherit = true;
		return next;
	}
	*inherit = false;
	for (;;) {
		uint32_t h = ld_acq(&pp->runqhead);
		uint32_t t = ld_rlx(&pp->runqtail);
		if (t == h)
			return NULL;
		struct g *gp = ld_rlx(&pp->runq[h % RUNQ_SIZE]);
		if (t - h > 2)
			fetch_next(pp, h + 1);
		/* Release: the slot is read before it counts as free. */
		if (cas_rel(&pp->runqhead, h, h + 1))
			return gp;
	}
}

bool runqempty(struct p *pp)
{
	/* A G may move from runnext to the ring between two looks, and one from the ring to
	 * the owner's hands; only an unmoved tail makes the three one moment. */
	for (;;) {
		uint32_t h = ld_sc(&pp->runqhead);
		uint32_t t = ld_sc(&pp->runqtail);
		struct g *next = ld_sc(&pp->runnext);
		if (t == ld_sc(&pp->runqtail))
			return h == t && !next;
	}
}

uint32_t runqgrab(struct p *victim, struct p *to, uint32_t to_at, bool stealnext)
{
	bool waited = false;

	for (;;) {
		/* Acquire: pairs with other thieves' and the owner's release. */
		uint32_t h = ld_acq(&victim->runqhead);
		/* Acquire: pairs with the owner's release in runqput. */
		uint32_t t = ld_acq(&victim->runqtail);
		uint32_t n = choose_stealamount(t - h);

		if (n == 0) {
			struct g *next;
			/* Who waited for one that is gone, and sees another, waits no more: there
			 * may be one after the other, and others have work, too. */
			if (!stealnext || waited || !(next = ld_rlx(&victim->runnext)))
				return 0;
			/* WS_I8: it was readied a moment ago, by a G that is about to wait for it
			 * or to run on; taking it at once would send the pair back and forth
			 * between two Ps. */
			waited = steal_backoff(victim, next);
			if (waited)
				continue;
			if (!cas_acq(&victim->runnext, next, NULL))
				continue;
			st_rlx(&to->runq[to_at % RUNQ_SIZE], next);
			return 1;
		}
		/* The head moved on between the two loads: not one moment's picture. */
		if (n > RUNQ_SIZE / 2)
			continue;
		for (uint32_t i = 0; i < n; i++)
			st_rlx(&to->runq[(to_at + i) % RUNQ_SIZE],
			       ld_rlx(&victim->runq[(h + i) % RUNQ_SIZE]));
		/* Release: the slots are read before the owner may fill them again. */
		if (cas_rel(&victim->runqhead, h, h + n))
			return n;
	}
}

struct g *runqsteal(struct p *pp, struct p *victim, bool stealnext)
{
	uint32_t t = ld_rlx(&pp->runqtail);
	uint32_t n = runqgrab(victim, pp, t, stealnext);

	if (n == 0)
		return NULL;
	n--;
	struct g *gp = ld_rlx(&pp->runq[(t + n) % RUNQ_SIZE]);
	if (n == 0)
		return gp;
	DCHECK(GMP_R1, t - ld_acq(&pp->runqhead) + n < RUNQ_SIZE);
	/* Release: as in runqput. */
	st_rel(&pp->runqtail, t + n);
	return gp;
}

void runqdrain_locked(struct p *pp)
{
	struct gqueue q = { NULL, NULL };
	bool inherit;
	struct g *gp;
	int32_t n = 0;

	while ((gp = runqget(pp, &inherit)) != NULL) {
		gqueue_push(&q, gp);
		n++;
	}
	if (n > 0)
		globrunqputbatch_locked(&q, n);
}
