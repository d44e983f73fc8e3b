/* Waits in queues that go on after handlers, as futex.h promises of queue_wait. While a G runs them
 * another waiter, of its struct, keeps its place: no part of its stack, which the handlers may
 * leave by a jump. A waker that finds nobody asleep gives it the wake, and who leaves the wait for
 * good passes that on. Owns those kernel threads that are no Ms and wait so. tests/model explores
 * this very file. */
#include "early.h"
#include "futex.h"

#include "core.h"
#include "futexq.h"
#include "keep.h"
#include "sched.h"

enum { EINTR_ = 4, ETIMEDOUT_ = 110 };

/* So many forks ago the queues were others. */
FORKED static uint32_t forks;

/* A kernel thread that is no M, in a wait. Not on its stack, either: a thread that ends there is
 * past those frames when it is cleaned up. */
struct foreign {
	struct waiter w;
	ATOMIC(uint64_t) word;
	const void *arg;
	struct foreign *next;
};

FORKED static struct {
	struct mutex lock;
	struct foreign *waiting, *unused;
} foreigners;

FORKS void queue_forked(void)
{
	forks++;
	foreigners = (__typeof__(foreigners)){ .waiting = NULL };
}

static void take_out(struct bucket *b, struct waiter *w)
{
	waitq_remove(b, w);
	add_sc(&b->nwait, (uint32_t)-1);
}

/* ---- who runs handlers ---- */

/* Leaves gp's place to one that takes a wake for it; or, if it has one already, remembers that it
 * is to be passed on. False: neither; its time was up, or another wait of gp's, whose handler this
 * is in, has the placeholder. *r: how the wait ended. An interrupted one that is not in the queue
 * was woken. */
static bool step_out(struct g *gp, struct waiter *w, const struct stay *s, int *r)
{
	struct bucket *b = lock_bucket_of(w);
	bool waits = w->linked && w->counted, keeps;

	if (*r == -EINTR_ && !waits)
		*r = 0;
	keeps = !gp->absent && (waits || *r == 0);
	if (keeps) {
		gp->absent = s->arg;
		gp->placeholder = (struct waiter){ .addr = (uintptr_t)s->count,
						   .bitset = w->bitset,
						   .counted = true,
						   .then = w->then,
						   .prio = w->prio,
						   .bucket = bucket_of(s->count),
						   .seq = forks,
						   .absent = true,
						   .all = w->all };
	}
	if (keeps && waits)
		waitq_replace(b, w, &gp->placeholder);
	else if (w->linked)
		take_out(b, w);
	unlock(&b->lock);
	return keeps;
}

/* Its handlers are over. Returns STEPPED_BACK: w stands there again; 0: it was woken meanwhile, or
 * before, or the place is lost, so that nobody knows; else why it does not go on. */
static int step_back(struct g *gp, struct waiter *w, const struct stay *s, bool on)
{
	struct waiter *by = &gp->placeholder;
	struct bucket *b = ld_rlx(&by->bucket);
	int r = 0;

	gp->absent = NULL;
	if (by->seq != forks)
		return 0;
	lock(&b->lock);
	if (by->linked)
		r = !on						 ? -EINTR_
		    : s->deadline && time_left(s->deadline) == 0 ? -ETIMEDOUT_
								 : STEPPED_BACK;
	if (r == STEPPED_BACK) {
		w->seq = wait_begin(gp);
		st_rlx(&gp->waiton, (const void *)w->addr);
		waitq_replace(b, by, w);
	} else if (r != 0) {
		take_out(b, by);
	}
	unlock(&b->lock);
	return r;
}

int among_handlers(struct g *gp, struct waiter *w, int r, const struct stay *s)
{
	bool keeps = step_out(gp, w, s, &r), on;

	/* Those who were moved with it do not wait for its handlers; nor is it the end of theirs.
	 */
	if (w->chained) {
		struct g *next = wake_one(w->then);
		if (next)
			ready(ld_rlx(&gp->m), next);
		w->chained = false;
	}
	s->among(s->arg, QUEUE_LEAVES);
	outof(gp);
	/* Here they run. */
	enter(gp);
	on = s->among(s->arg, QUEUE_BACK);
	return keeps ? step_back(gp, w, s, on) : r;
}

/* ---- a kernel thread that is no M ---- */

static struct foreign *foreign_new(const void *arg)
{
	struct foreign *f;

	lock(&foreigners.lock);
	f = foreigners.unused;
	if (f)
		foreigners.unused = f->next;
	unlock(&foreigners.lock);
	if (!f && os_failed(f = keep(sizeof(*f))))
		return NULL;
	f->arg = arg;
	lock(&foreigners.lock);
	f->next = foreigners.waiting;
	foreigners.waiting = f;
	unlock(&foreigners.lock);
	return f;
}

/* No longer waiting; NULL: it is not. */
static struct foreign *foreign_of(const void *arg)
{
	struct foreign **at, *f;

	lock(&foreigners.lock);
	for (at = &foreigners.waiting; *at && (*at)->arg != arg; at = &(*at)->next)
		continue;
	f = *at;
	if (f)
		*at = f->next;
	unlock(&foreigners.lock);
	return f;
}

static void foreign_free(struct foreign *f)
{
	lock(&foreigners.lock);
	f->next = foreigners.unused;
	foreigners.unused = f;
	unlock(&foreigners.lock);
}

/* f takes w's place. False: it was woken already. */
static bool stands_in(struct foreign *f, struct waiter *w)
{
	struct bucket *b = lock_bucket_of(w);
	bool waits = w->linked;

	if (waits) {
		st_rlx(&f->word, w->seq << WAIT_BITS | WAIT_PENDING);
		f->w = *w;
		f->w.word = &f->word;
		waitq_replace(b, w, &f->w);
	}
	unlock(&b->lock);
	return waits;
}

int wait_foreign_on(struct waiter *w, const struct stay *s)
{
	struct foreign *f = foreign_new(s->arg);
	int r = 0;

	if (!f)
		return wait_foreign(lock_bucket_of(w), w, s->deadline, false);
	if (stands_in(f, w)) {
		s->among(s->arg, QUEUE_LEAVES);
		while ((r = wait_foreign(lock_bucket_of(&f->w), &f->w, s->deadline, true)) ==
		       -EINTR_)
			s->among(s->arg, QUEUE_INTERRUPTED);
		s->among(s->arg, QUEUE_BACK);
		w->counted = f->w.counted;
		w->chained = f->w.chained;
	}
	if (foreign_of(s->arg))
		foreign_free(f);
	return r;
}

/* ---- who leaves for good ---- */

/* Of one on its own word. Acquire: pairs with wake_locked's claim. */
static bool was_woken(const struct waiter *w)
{
	return ld_acq(w->word) == (w->seq << WAIT_BITS | WAIT_READY);
}

static void give_up(struct waiter *w)
{
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);
	struct bucket *b = lock_bucket_of(w);

	if (w->linked)
		take_out(b, w);
	else if (!w->all && (w->absent || was_woken(w)))
		wake_queued_locked(b, w->addr, 1, &list);
	unlock(&b->lock);
	if (list.head)
		ready_list(mp, self, &list, 0);
	outof(self);
}

void queue_forget(const void *arg)
{
	struct g *gp = getg();
	struct foreign *f;

	if (!gp) {
		f = arg ? foreign_of(arg) : NULL;
		if (f) {
			give_up(&f->w);
			foreign_free(f);
		}
	} else if (unlikely(gp->absent != NULL) && (!arg || gp->absent == arg)) {
		gp->absent = NULL;
		if (gp->placeholder.seq == forks)
			give_up(&gp->placeholder);
	}
}
