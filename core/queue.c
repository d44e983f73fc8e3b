/* The queues of futex.h: waiting without a value to compare, for condition variables and
 * the like. A wait joins the queue, lets go of the program's lock, and only then parks, so
 * it may be claimed before it is parked; the waker sees to that (await_parked). That handlers
 * interrupt it is in placeholder.c.
 * tests/model explores this very file. Next: futexq.h, what this shares with futex.c. */
#include "futex.h"

#include "futexq.h"
#include "sched.h"

enum { EINTR_ = 4, EAGAIN_ = 11, ENOMEM_ = 12, ETIMEDOUT_ = 110, CLOCK_MONO = 1 };

/* A G that is still on its way into its park is made ready only when the one that waits is parked
 * itself: two that were moved to one mutex may each have been woken by the other's release, and
 * would each wait for the other's park for ever. */
static bool unlockf_ready(struct g *gp, void *woken)
{
	(void)gp;
	ready(ld_rlx(&getg()->m), woken);
	return true;
}

/* ---- waiting ---- */

/* -EINTR: of one that stays w stands in the queue still, if it was not woken all the same. */
static int queue_wait_g(struct m *mp, struct g *gp, struct waiter *w,
			const struct deadline *deadline, struct g *woken, bool stays)
{
	enum waitresult how;

	count(mp->p, futexwaits);
	/* As gosleep: before the park, on this M; whoever claims the wait meanwhile waits for
	 * the park. */
	if (deadline &&
	    timer_arm(mp, &gp->timer, timer_when(&gp->timer, deadline->clock, deadline->at), w->seq,
		      gp) < 0) {
		if (wait_claim(gp, w->seq, WAIT_NOMEM)) {
			unlink_late(w);
			if (woken)
				ready(mp, woken);
			return -ENOMEM_;
		}
		deadline = NULL;
	}
	park(mp, gp, woken ? unlockf_ready : NULL, woken, WAIT_FUTEX);
	how = wait_result(gp);
	if (how != WAIT_READY && !(how == WAIT_INTR && stays))
		unlink_late(w);
	if (deadline && how != WAIT_TIMEOUT)
		timer_disarm(&gp->timer);
	if (how == WAIT_TIMEOUT)
		/* The timer runs on the monotonic clock; another may have been set back. */
		return deadline->clock == CLOCK_MONO || time_left(deadline) == 0 ? -ETIMEDOUT_
										 : -EAGAIN_;
	return how == WAIT_INTR ? -EINTR_ : 0;
}

/* The caller itself is returned if that was its own wait, which a broadcast had moved there
 * meanwhile. */
struct g *wake_one(ATOMIC(uint32_t) *addr)
{
	struct bucket *b = bucket_of(addr);
	struct glist list = { NULL, 0, NULL };

	lock(&b->lock);
	wake_some_locked(b, (uintptr_t)addr, 1, (uint32_t)FUTEX_ANY, &list);
	unlock(&b->lock);
	return list.head;
}

int queue_wait(ATOMIC(uint32_t) *count, const struct deadline *deadline, bool first,
	       ATOMIC(uint32_t) *(*release)(void *), bool (*among)(void *, enum queue_among),
	       void *arg, ATOMIC(uint32_t) *then, bool *chained)
{
	struct g *gp = getg();
	struct m *mp = enter(gp);
	struct bucket *b = bucket_of(count);
	ATOMIC(uint64_t) ownword = WAIT_PENDING;
	struct waiter w = { .addr = (uintptr_t)count,
			    .bitset = (uint32_t)FUTEX_ANY,
			    .bucket = b,
			    .counted = true,
			    .then = then };
	ATOMIC(uint32_t) *wake;
	struct g *woken = NULL;
	int r;

	DCHECK(GMP_G5, !gp || !on_g0(gp));
	add_sc(&b->nwait, 1);
	lock(&b->lock);
	if (gp) {
		/* What guards the queue is let go of below, and it is parked before it may run
		 * handlers again. */
		st_rlx(&gp->held, false);
		w.gp = gp;
		w.prio = gp->prio;
		w.seq = wait_begin(gp);
		w.word = &gp->wait;
		w.stays = among != NULL;
		st_rlx(&gp->waiton, (const void *)count);
	} else {
		w.word = &ownword;
	}
	waitq_add(b, &w, first);
	unlock(&b->lock);
	/* From here on the wait may be claimed: a G that does it waits until we are parked
	 * (await_parked), which we will be without blocking before. */
	wake = release(arg);
	if (wake)
		woken = wake_one(wake);
	if (gp && woken && woken != gp) {
		count(mp->p, futexwakes);
		if (likely(ld_acq(&woken->status) == GWAITING)) {
			ready(mp, woken);
			woken = NULL;
		}
	}
	if (woken && woken == gp) {
		/* It is over before it began. */
		r = 0;
	} else if (gp) {
		r = queue_wait_g(mp, gp, &w, deadline, woken, among != NULL);
		/* Those that came while it was on its way here, too. */
		while (among && unlikely(r == -EINTR_ || ld_rlx(&gp->sigdue))) {
			r = among_handlers(gp, &w, r,
					   &(struct stay){ count, deadline, among, arg });
			if (r != STEPPED_BACK)
				break;
			r = queue_wait_g(ld_rlx(&gp->m), gp, &w, deadline, NULL, true);
		}
	} else {
		if (woken)
			injectready(woken);
		if (among) {
			r = wait_foreign_on(&w, &(struct stay){ count, deadline, among, arg });
		} else {
			lock(&b->lock);
			r = wait_foreign(b, &w, deadline, false);
		}
	}
	outof(gp);
	/* queue_wakeall had moved it: it was woken in time. */
	if (r != 0 && !w.counted)
		r = 0;
	if (chained)
		*chained = w.chained;
	return r;
}

/* ---- waking ---- */

/* Acquire: pairs with whoever claims the wait, or ends it. */
static bool is(const struct waiter *w, enum waitresult how)
{
	return ld_acq(w->word) == (w->seq << WAIT_BITS | how);
}

/* Neither gone, nor interrupted, nor among handlers. */
static bool sleeps(const struct waiter *w)
{
	return !w->absent && is(w, WAIT_PENDING);
}

/* One that is about to run handlers, or runs them: it finds the wake afterwards. */
static bool leave_wake(struct bucket *b, struct waiter *w)
{
	if (!w->absent && !(w->stays && is(w, WAIT_INTR)))
		return false;
	waitq_remove(b, w);
	add_sc(&b->nwait, (uint32_t)-1);
	return true;
}

/* Those who sleep first, as the kernel wakes them: handlers may last, or wait for who is woken.
 * first: of those at addr. */
static int wake_from(struct bucket *b, uintptr_t addr, struct waiter *first, int n,
		     struct glist *list)
{
	struct waiter *w, *next;
	int woken = 0;

	for (w = first; w && woken != n; w = next) {
		next = w->next;
		/* Interrupted meanwhile, it has taken it, too. */
		if (w->counted && sleeps(w) &&
		    (wake_locked(b, w, list) || (w->stays && is(w, WAIT_INTR))))
			woken++;
	}
	if (likely(woken == n))
		return woken;
	for (w = waitq_first(b, addr); w && woken != n; w = next) {
		next = w->next;
		if (w->counted && leave_wake(b, w))
			woken++;
	}
	return woken;
}

int wake_queued_locked(struct bucket *b, uintptr_t addr, int n, struct glist *list)
{
	return wake_from(b, addr, waitq_first(b, addr), n, list);
}

/* Locks: b's. */
static int wake_counted_locked(struct bucket *b, ATOMIC(uint32_t) *count, int n, struct glist *list)
{
	struct waiter *first = waitq_first(b, (uintptr_t)count);

	/* They are counted by whoever had this memory before a fork, and are not here. */
	if (unlikely(!first) && ld_rlx(count) != 0)
		st_rlx(count, 0);
	return wake_from(b, (uintptr_t)count, first, n, list);
}

int queue_wake(ATOMIC(uint32_t) *count, int n)
{
	struct bucket *b = bucket_of(count);
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	int woken;

	lock(&b->lock);
	woken = wake_counted_locked(b, count, n, &list);
	unlock(&b->lock);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
	return woken;
}

/* Locks the bucket of the queue, and that of the word to which its first waiter may move,
 * which is NULL if there is none. */
static struct bucket *lock_both(struct bucket *b, uintptr_t count)
{
	struct bucket *to;
	struct waiter *w;

	lock(&b->lock);
	w = waitq_first(b, count);
	if (!w || !w->then)
		return NULL;
	to = bucket_of(w->then);
	if (to == b)
		return to;
	if (to > b) {
		lock(&to->lock);
		return to;
	}
	unlock(&b->lock);
	lock(&to->lock);
	lock(&b->lock);
	w = waitq_first(b, count);
	if (w && w->then && bucket_of(w->then) == to)
		return to;
	unlock(&to->lock);
	return NULL;
}

static void unlock_both(struct bucket *from, struct bucket *to)
{
	if (to && to != from)
		unlock(&to->lock);
	unlock(&from->lock);
}

/* To the word that it gave. Locks: both. */
static void move_locked(struct bucket *from, struct bucket *to, struct waiter *w)
{
	waitq_remove(from, w);
	w->counted = false;
	add_sc(&to->nwait, 1);
	w->addr = (uintptr_t)w->then;
	w->chained = true;
	if (w->gp)
		st_rlx(&w->gp->waiton, (const void *)w->then);
	/* Release: pairs with the acquire in lock_bucket_of. */
	st_rel(&w->bucket, to);
	waitq_add(to, w, false);
	add_sc(&from->nwait, (uint32_t)-1);
}

/* Who is woken by one that holds the lock it needs sleeps again at once, if another P took it up
 * meanwhile: each turn of two such was two wake-ups of kernel threads on a busy machine. With one P
 * nobody takes it up. */
static bool may_pass(void)
{
	return ld_rlx(&sched.gomaxprocs) > 1;
}

void queue_pass(ATOMIC(uint32_t) *count, bool (*keeps)(ATOMIC(uint32_t) *then))
{
	struct bucket *from = bucket_of(count), *to = NULL;
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	struct waiter *w;

	if (may_pass())
		to = lock_both(from, (uintptr_t)count);
	else
		lock(&from->lock);
	w = waitq_first(from, (uintptr_t)count);
	while (w && !(w->counted && sleeps(w)))
		w = w->next;
	if (w && to && w->then && bucket_of(w->then) == to && keeps(w->then))
		move_locked(from, to, w);
	else
		wake_counted_locked(from, count, 1, &list);
	unlock_both(from, to);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
}

void queue_wakeall(ATOMIC(uint32_t) *count, bool (*keeps)(ATOMIC(uint32_t) *then))
{
	struct bucket *from = bucket_of(count), *to;
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	ATOMIC(uint32_t) *then = NULL;
	struct waiter *w;
	bool woken;

	to = lock_both(from, (uintptr_t)count);
	w = waitq_first(from, (uintptr_t)count);
	if (w)
		then = w->then;
	/* A kernel thread goes on as soon as it is woken, here, and may look for those who move
	 * before they have: counted, they are looked for under the lock. */
	if (to)
		add_sc(&to->nwait, 1);
	/* Whoever lets go of it wakes the first of those. */
	woken = to && may_pass() && keeps(then);
	while (w) {
		struct waiter *next = w->next;
		w->all = true;
		if (w->absent) {
			/* Nor does it go for the lock at once, and wake those who move there. */
			leave_wake(from, w);
		} else if (!woken || !to || w->then != then) {
			w->chained = to && next;
			/* One whose time was up, or who was interrupted, is not woken by us. */
			woken |= wake_locked(from, w, &list);
		} else {
			move_locked(from, to, w);
		}
		w = next;
	}
	if (to)
		add_sc(&to->nwait, (uint32_t)-1);
	unlock_both(from, to);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
}
