/* The queues of futex.h: waiting without a value to compare, for condition variables and
 * the like. A wait joins the queue, lets go of the program's lock, and only then parks, so
 * it may be claimed before it is parked; the waker sees to that (await_parked). While handlers
 * interrupt it, another waiter keeps its place.
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

/* ---- who runs handlers meanwhile ---- */

enum { STEPPED_OUT = 1, STEPPED_BACK = 2 };

/* So many forks ago the queues were others. */
static uint32_t forks;

void queue_forked(void)
{
	forks++;
}

/* Leaves gp's place to one that a waker only marks: it takes the wake, as natively who is in the
 * wait does whatever runs on his stack. It is no part of that stack, which the handlers may leave
 * by a jump. False: there is none to keep; another wait of gp's, whose handler this is in, has it,
 * or a waker met the wait at its end, or it was moved to a lock and is over. */
static bool step_out(struct g *gp, struct waiter *w)
{
	struct waiter *by = &gp->placeholder;
	struct bucket *b = lock_bucket_of(w);
	bool out = w->linked && w->counted && !gp->absent;

	if (out) {
		st_rlx(&gp->placeword, (uint64_t)forks << WAIT_BITS | WAIT_PENDING);
		*by = (struct waiter){ .addr = w->addr,
				       .bitset = w->bitset,
				       .counted = true,
				       .then = w->then,
				       .prio = w->prio,
				       .bucket = b,
				       .word = &gp->placeword,
				       .seq = forks,
				       .absent = true };
		gp->absent = true;
		waitq_replace(b, w, by);
	}
	unlock(&b->lock);
	return out;
}

/* Its handlers are over. Returns STEPPED_BACK: w stands there again; 0: it was woken meanwhile, or
 * the place is lost, so that nobody knows; -EINTR: it does not want to go on, and was not woken. */
static int step_back(struct g *gp, struct waiter *w, bool goes_on)
{
	struct waiter *by = &gp->placeholder;
	struct bucket *b = ld_rlx(&by->bucket);
	bool kept = gp->absent && by->seq == forks;

	gp->absent = false;
	if (!kept)
		return 0;
	lock(&b->lock);
	kept = by->linked;
	if (kept && goes_on) {
		w->seq = wait_begin(gp);
		st_rlx(&gp->waiton, (const void *)w->addr);
		waitq_replace(b, by, w);
	} else if (kept) {
		waitq_remove(b, by);
		add_sc(&b->nwait, (uint32_t)-1);
	}
	unlock(&b->lock);
	return !kept ? 0 : goes_on ? STEPPED_BACK : -EINTR_;
}

void queue_forget(void)
{
	struct g *gp = getg();

	if (likely(!gp || !gp->absent))
		return;
	enter(gp);
	step_back(gp, NULL, false);
	outof(gp);
}

/* ---- waiting ---- */

/* stays: if handlers are to run, it has stepped out of the queue for them. */
static int queue_wait_g(struct m *mp, struct g *gp, struct waiter *w,
			const struct deadline *deadline, struct g *woken, bool stays)
{
	enum waitresult how;
	bool out;

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
	out = how == WAIT_INTR && stays && step_out(gp, w);
	if (how != WAIT_READY && !out)
		unlink_late(w);
	if (deadline && how != WAIT_TIMEOUT)
		timer_disarm(&gp->timer);
	if (how == WAIT_TIMEOUT)
		/* The timer runs on the monotonic clock; another may have been set back. */
		return deadline->clock == CLOCK_MONO || time_left(deadline) == 0 ? -ETIMEDOUT_
										 : -EAGAIN_;
	return out ? STEPPED_OUT : how == WAIT_INTR ? -EINTR_ : 0;
}

static __attribute__((noinline)) int among_handlers(struct g *gp, struct waiter *w,
						    bool (*goes_on)(void *, bool after), void *arg)
{
	bool on;

	goes_on(arg, false);
	/* Here they run. */
	outof(gp);
	on = goes_on(arg, true);
	enter(gp);
	return step_back(gp, w, on);
}

/* Pinned, unlike futex_wake; without a look at nwait, for it is all but sure to find one.
 * Returns the G that is to be made ready; the caller itself if that was its own wait, which a
 * broadcast had moved there meanwhile. */
static struct g *wake_one(ATOMIC(uint32_t) *addr)
{
	struct bucket *b = bucket_of(addr);
	struct glist list = { NULL, 0, NULL };

	lock(&b->lock);
	wake_some_locked(b, (uintptr_t)addr, 1, (uint32_t)FUTEX_ANY, false, &list);
	unlock(&b->lock);
	return list.head;
}

int queue_wait(ATOMIC(uint32_t) *count, const struct deadline *deadline,
	       ATOMIC(uint32_t) *(*release)(void *), bool (*goes_on)(void *, bool after), void *arg,
	       ATOMIC(uint32_t) *then, bool *chained)
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
		w.gp = gp;
		w.prio = gp->prio;
		w.seq = wait_begin(gp);
		w.word = &gp->wait;
		st_rlx(&gp->waiton, (const void *)count);
	} else {
		w.word = &ownword;
	}
	waitq_add(b, &w, false);
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
		for (;;) {
			r = queue_wait_g(mp, gp, &w, deadline, woken, goes_on != NULL);
			if (likely(r != STEPPED_OUT))
				break;
			r = among_handlers(gp, &w, goes_on, arg);
			if (r != STEPPED_BACK)
				break;
			mp = ld_rlx(&gp->m);
			woken = NULL;
		}
	} else {
		if (woken)
			injectready(woken);
		lock(&b->lock);
		r = wait_foreign(b, &w, deadline, goes_on != NULL);
	}
	outof(gp);
	/* queue_wakeall had moved it: it was woken in time. */
	if (r != 0 && !w.counted)
		r = 0;
	if (chained)
		*chained = w.chained;
	return r;
}

/* Locks: b's. */
static int wake_counted_locked(struct bucket *b, ATOMIC(uint32_t) *count, int n, struct glist *list)
{
	/* They are counted by whoever had this memory before a fork, and are not here. */
	if (unlikely(!waitq_first(b, (uintptr_t)count)) && ld_rlx(count) != 0)
		st_rlx(count, 0);
	return wake_some_locked(b, (uintptr_t)count, n, (uint32_t)FUTEX_ANY, true, list);
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
void queue_pass(ATOMIC(uint32_t) *count, bool (*keeps)(ATOMIC(uint32_t) *then))
{
	struct bucket *from = bucket_of(count), *to = NULL;
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	struct waiter *w;

	if (ld_rlx(&sched.gomaxprocs) > 1)
		to = lock_both(from, (uintptr_t)count);
	else
		lock(&from->lock);
	w = waitq_first(from, (uintptr_t)count);
	if (w && to && !w->absent && keeps(w->then))
		move_locked(from, to, w);
	else
		wake_counted_locked(from, count, 1, &list);
	unlock_both(from, to);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
}

void queue_wakeall(ATOMIC(uint32_t) *count)
{
	struct bucket *from = bucket_of(count), *to;
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	ATOMIC(uint32_t) *then = NULL;
	struct waiter *w;

	to = lock_both(from, (uintptr_t)count);
	w = waitq_first(from, (uintptr_t)count);
	if (w)
		then = w->then;
	/* A kernel thread goes on as soon as it is woken, here, and may look for those who move
	 * before they have: counted, they are looked for under the lock. */
	if (to)
		add_sc(&to->nwait, 1);
	for (bool woken = false; w;) {
		struct waiter *next = w->next;
		if (w->absent) {
			/* Nor does it go for the lock at once, and wake those who move there. */
			wake_locked(from, w, &list);
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
