/* The futex of futex.h over the queues of waitq.h. Owns the buckets.
 *
 * No wake-up is lost because the waiter counts itself before it looks at the value, and
 * the waker changes the value before it looks at the count; both looks are sequentially
 * consistent. A wait ends by a claim on its wait word: by a waker, under the bucket's
 * lock and after unlinking; or by a timer or signal, without the lock, in which case the
 * waiter unlinks itself. The bucket's lock is released only after the parking G's context
 * is saved (it is the park's unlockf). tests/model explores this very file. */
#include "futex.h"

#include "early.h"
#include "futexq.h"
#include "guest.h"
#include "sched.h"

enum {
	BUCKETS = 1024,
	EINTR_ = 4,
	EAGAIN_ = 11,
	ENOMEM_ = 12,
	ETIMEDOUT_ = 110,
	CLOCK_MONO = 1,
};

static struct bucket buckets[BUCKETS];

struct bucket *bucket_of(const void *addr)
{
	uint64_t z = (uintptr_t)addr * 0x9e3779b97f4a7c15u;
	struct bucket *b = &buckets[z >> 54];

	_Static_assert(BUCKETS == 1 << 10, "the shift above");
	return b;
}

struct bucket *lock_bucket_of(struct waiter *w)
{
	for (;;) {
		/* Acquire: pairs with the release in futex_requeue. */
		struct bucket *b = ld_acq(&w->bucket);
		lock(&b->lock);
		if (ld_rlx(&w->bucket) == b)
			return b;
		unlock(&b->lock);
	}
}

/* The wait ended without a waker: w must be in no queue when its stack frame goes. Taking
 * the lock also waits for a waker that is unlinking it just now. */
void unlink_late(struct waiter *w)
{
	struct bucket *b = lock_bucket_of(w);

	if (w->linked) {
		waitq_remove(b, w);
		add_sc(&b->nwait, (uint32_t)-1);
	}
	unlock(&b->lock);
}

int64_t time_left(const struct deadline *d)
{
	uint64_t now = os_clock(d->clock);
	uint64_t left = d->at > now ? d->at - now : 0;
	return left < INT64_MAX ? (int64_t)left : INT64_MAX;
}

static bool unlockf(struct g *gp, void *arg)
{
	struct bucket *b = arg;
	(void)gp;
	unlock(&b->lock);
	return true;
}

struct timedpark {
	struct bucket *bucket;
	struct waiter *w;
	uint64_t when;
};

/* The timer may fire as soon as it is armed, and the G run on; but it cannot leave
 * futex_wait, where w and arg live, before it had the bucket's lock. */
static bool unlockf_timed(struct g *gp, void *arg)
{
	struct timedpark *t = arg;
	struct bucket *b = t->bucket;
	uint64_t seq = t->w->seq;
	bool ok = timer_arm(ld_rlx(&getg()->m), &gp->timer, t->when, seq, gp) == 0;

	if (!ok)
		ok = !wait_claim(gp, seq, WAIT_NOMEM);
	unlock(&b->lock);
	return ok;
}

static int wait_g(struct m *mp, struct g *gp, struct bucket *b, struct waiter *w,
		  const struct deadline *deadline, uint64_t when)
{
	struct timedpark timed = { b, w, when };

	count(mp->p, futexwaits);
	st_rlx(&gp->waiton, (const void *)w->addr);
	if (deadline)
		park(mp, gp, unlockf_timed, &timed, WAIT_FUTEX);
	else
		park(mp, gp, unlockf, b, WAIT_FUTEX);
	switch (wait_result(gp)) {
	case WAIT_TIMEOUT:
		unlink_late(w);
		/* The timer runs on the monotonic clock; another may have been set back. */
		return deadline->clock == CLOCK_MONO || time_left(deadline) == 0 ? -ETIMEDOUT_ : 0;
	case WAIT_INTR:
		unlink_late(w);
		break;
	case WAIT_NOMEM:
		unlink_late(w);
		return -ENOMEM_;
	default:
		break;
	}
	if (deadline)
		timer_disarm(&gp->timer);
	return wait_result(gp) == WAIT_INTR ? -EINTR_ : 0;
}

/* The same for a kernel thread that is no M: it sleeps on its own word. */
int wait_foreign(struct bucket *b, struct waiter *w, const struct deadline *deadline, bool stays)
{
	ATOMIC(uint32_t) *low = (ATOMIC(uint32_t) *)w->word;
	uint64_t pending = w->seq << WAIT_BITS | WAIT_PENDING;
	int r = 0;

	unlock(&b->lock);
	/* Acquire: pairs with the waker's claim. */
	while (ld_acq(w->word) == pending) {
		if (r == -EINTR_ && stays)
			return r;
		if (r == -EINTR_ || (deadline && time_left(deadline) == 0)) {
			uint64_t over = w->seq << WAIT_BITS |
					(r == -EINTR_ ? WAIT_INTR : WAIT_TIMEOUT);
			if (!cas_acqrel(w->word, pending, over))
				break;
			unlink_late(w);
			return r == -EINTR_ ? -EINTR_ : -ETIMEDOUT_;
		}
		r = futexsleep(low, (uint32_t)pending, deadline ? time_left(deadline) : -1);
	}
	return 0;
}

int futex_wait(ATOMIC(uint32_t) *addr, uint32_t value, uint32_t bitset,
	       const struct deadline *deadline, int flags)
{
	struct g *gp = getg();
	struct m *mp = enter(gp);
	struct bucket *b = bucket_of(addr);
	ATOMIC(uint64_t) ownword = WAIT_PENDING;
	struct waiter w = { .addr = (uintptr_t)addr, .bitset = bitset, .bucket = b };
	uint64_t when = 0;
	int r;

	DCHECK(GMP_G5, !gp || !on_g0(gp));
	if (gp && deadline)
		when = timer_when(&gp->timer, deadline->clock, deadline->at);
	/* Sequentially consistent, before the look at the value: see the top. */
	add_sc(&b->nwait, 1);
	lock(&b->lock);
	if (ld_sc(addr) != value) {
		unlock(&b->lock);
		add_sc(&b->nwait, (uint32_t)-1);
		outof(gp);
		return -EAGAIN_;
	}
	if (gp) {
		w.gp = gp;
		w.prio = gp->prio;
		w.seq = wait_begin(gp);
		w.word = &gp->wait;
	} else {
		w.word = &ownword;
	}
	waitq_add(b, &w, (flags & FUTEX_LIFO) != 0);
	r = gp ? wait_g(mp, gp, b, &w, deadline, when) : wait_foreign(b, &w, deadline, false);
	outof(gp);
	return r;
}

/* Unlinks w and ends its wait. True if it was us who ended it; then its G is on *list.
 * Locks: its bucket's. */
bool wake_locked(struct bucket *b, struct waiter *w, struct glist *list)
{
	struct g *gp = w->gp;
	ATOMIC(uint64_t) *word = w->word;
	uint64_t pending = w->seq << WAIT_BITS | WAIT_PENDING;

	waitq_remove(b, w);
	add_sc(&b->nwait, (uint32_t)-1);
	/* Acquire and release: the waiter sees what we did before the wake. A kernel thread
	 * may leave, and w with it, as soon as this has succeeded. */
	if (!cas_acqrel(word, pending, w->seq << WAIT_BITS | WAIT_READY))
		return false;
	if (!gp) {
		futexwakeup((ATOMIC(uint32_t) *)word, 1);
		return true;
	}
	gp->schedlink = NULL;
	if (list->head)
		list->last->schedlink = gp;
	else
		list->head = gp;
	list->last = gp;
	list->n++;
	return true;
}

int wake_some_locked(struct bucket *b, uintptr_t addr, int n, uint32_t bitset, struct glist *list)
{
	struct waiter *w = waitq_first(b, addr);
	int woken = 0;

	while (w && (n < 0 || woken < n)) {
		struct waiter *next = w->next;
		if ((w->bitset & bitset) != 0 && !w->counted && wake_locked(b, w, list))
			woken++;
		w = next;
	}
	return woken;
}

/* Readies what a wake collected. */
void ready_list(struct m *mp, struct g *self, struct glist *list, int flags)
{
	if (mp) {
		count_by(mp->p, futexwakes, (uint64_t)list->n);
	} else if (flags & FUTEX_EARLY) {
		if (ready_early(list))
			sysmon_serves(false);
		return;
	}
	if (list->n != 1 || !mp) {
		injectglist(mp, list);
		return;
	}
	ready(mp, list->head);
	/* Straight to the waiter, which is in runnext; our turn comes by the local queue. */
	if ((flags & FUTEX_HANDOFF) && !on_g0(self))
		leave(mp, self, POST_YIELD, NULL, NULL);
}

int futex_wake(ATOMIC(uint32_t) *addr, int n, uint32_t bitset, int flags)
{
	struct bucket *b = bucket_of(addr);
	struct glist list = { NULL, 0, NULL };
	struct g *self;
	struct m *mp;
	int woken;

	if (flags & FUTEX_FENCED) {
		if (ld_sc(&b->nwait) == 0)
			return 0;
		/* A read-modify-write, so that the caller's change of *addr, however it was made,
		 * comes before this look: see the top. */
	} else if (add_sc(&b->nwait, 0) == 0) {
		return 0;
	}
	self = getg();
	mp = enter(self);
	lock(&b->lock);
	woken = wake_some_locked(b, (uintptr_t)addr, n, bitset, &list);
	unlock(&b->lock);
	if (list.head)
		ready_list(mp, self, &list, flags);
	outof(self);
	return woken;
}

bool futex_hand(ATOMIC(uint32_t) *addr, ATOMIC(int32_t) *token, int32_t value)
{
	struct bucket *b = bucket_of(addr);
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	bool handed = false;

	lock(&b->lock);
	/* Whoever is found here cannot leave before the lock is free, and keeps the object till
	 * then; without one it might be gone as soon as the token is there:
	 *
	 *   waiter: its time is up, unlinked       we: set the token
	 *           takes the token, unlocks,          look: nobody waits
	 *           frees the object                   take the token back, out of what is no more
	 */
	if (waitq_first(b, (uintptr_t)addr)) {
		/* Release: pairs with the acquire of who takes it. Before the wake: a kernel
		 * thread looks for it as soon as it is woken. */
		st_rel(token, value);
		handed = wake_some_locked(b, (uintptr_t)addr, 1, (uint32_t)FUTEX_ANY, &list) > 0 ||
			 !cas_rlx(token, value, 0);
	}
	unlock(&b->lock);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
	return handed;
}

void futex_free(ATOMIC(uint32_t) *addr, uint32_t waited)
{
	struct bucket *b = bucket_of(addr);
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);

	lock(&b->lock);
	/* Release: pairs with the acquire of who takes it. As in futex_hand: who is found here
	 * keeps the object; with nobody it may be gone from here on. Who comes to wait compares
	 * under this lock. */
	if (waitq_first(b, (uintptr_t)addr)) {
		st_rel(addr, waited);
		/* Their time is up: nobody waits. */
		if (wake_some_locked(b, (uintptr_t)addr, 1, (uint32_t)FUTEX_ANY, &list) == 0)
			cas_rlx(addr, waited, 0);
	} else {
		st_rel(addr, 0);
	}
	unlock(&b->lock);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
}

int futex_requeue(ATOMIC(uint32_t) *addr, int nwake, ATOMIC(uint32_t) *addr2, int nmove, bool check,
		  uint32_t value)
{
	struct bucket *from = bucket_of(addr), *to = bucket_of(addr2);
	struct bucket *low = from < to ? from : to, *high = low == from ? to : from;
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	struct waiter *w;
	int done;

	lock(&low->lock);
	if (high != low)
		lock(&high->lock);
	if (check && ld_sc(addr) != value) {
		done = -EAGAIN_;
		goto out;
	}
	/* As in queue_wakeall: a kernel thread that is woken here may look for the others at once.
	 */
	add_sc(&to->nwait, 1);
	done = wake_some_locked(from, (uintptr_t)addr, nwake, ~(uint32_t)0, &list);
	w = addr == addr2 ? NULL : waitq_first(from, (uintptr_t)addr);
	for (int moved = 0; w && (nmove < 0 || moved < nmove);) {
		struct waiter *next = w->next;
		if (w->counted) {
			w = next;
			continue;
		}
		waitq_remove(from, w);
		add_sc(&to->nwait, 1);
		w->addr = (uintptr_t)addr2;
		if (w->gp)
			st_rlx(&w->gp->waiton, (const void *)addr2);
		/* Release: pairs with the acquire in lock_bucket_of. */
		st_rel(&w->bucket, to);
		waitq_add(to, w, false);
		add_sc(&from->nwait, (uint32_t)-1);
		w = next;
		moved++;
		done++;
	}
	add_sc(&to->nwait, (uint32_t)-1);
out:
	if (high != low)
		unlock(&high->lock);
	unlock(&low->lock);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
	return done;
}

/* Or the kernel would have each child fetch, page by page, what nobody has touched. */
void futex_forking(void)
{
	enum { PAGE = 4096 };
	EARLY static bool looked;

	if (looked)
		return;
	looked = true;
	for (size_t i = 0; i < BUCKETS; i += PAGE / sizeof(buckets[0]))
		(void)ld_rlx(&buckets[i].nwait);
	(void)ld_rlx(&buckets[BUCKETS - 1].nwait);
}

FORKS void futex_forked(void)
{
	static const struct bucket empty;

	queue_forked();
	/* A look costs no copy of the page. */
	for (int i = 0; i < BUCKETS; i++)
		if (ld_rlx(&buckets[i].nwait) != 0 || ld_rlx(&buckets[i].lock.key) != 0)
			buckets[i] = empty;
}
