/* What futex.c and queue.c share: the buckets, and how a wait there ends. */
#ifndef HEDDLE_FUTEXQ_H
#define HEDDLE_FUTEXQ_H

#include "futex.h"
#include "waitq.h"

struct glist;
struct m;

struct bucket *bucket_of(const void *addr);

/* lock_bucket_of: locks the bucket in which w waits or waited: a requeue may move it meanwhile. */
struct bucket *lock_bucket_of(struct waiter *w);

/* time_left: ns until the deadline. */
int64_t time_left(const struct deadline *d);

/* unlink_late: the wait ended without a waker: w must be in no queue when its frame goes. */
void unlink_late(struct waiter *w);

/* wait_foreign: for a kernel thread that is no M. stays: a signal, whose handler has run, does not
 * end the wait: then it is in the queue all the same. Locks: lets go of b's. 0 or -errno. */
int wait_foreign(struct bucket *b, struct waiter *w, const struct deadline *deadline, bool stays);

/* wake_locked: unlinks w and ends its wait. True if it was us who ended it; then its G is on
 * *list. wake_some_locked: up to n of those whose bitset meets ours, and who wait for a word at
 * that address; n < 0: all. wake_queued_locked: the same of those in the queue. Locks: b's. */
bool wake_locked(struct bucket *b, struct waiter *w, struct glist *list);
int wake_some_locked(struct bucket *b, uintptr_t addr, int n, uint32_t bitset, struct glist *list);
int wake_queued_locked(struct bucket *b, uintptr_t addr, int n, struct glist *list);

/* wake_one: of those who wait for that word, without a look at nwait. Returns the G that is to be
 * made ready, or NULL. Pinned, unlike futex_wake. */
struct g *wake_one(ATOMIC(uint32_t) *addr);

/* ---- placeholder.c ---- */

enum { STEPPED_BACK = 1 };

/* A wait that goes on after handlers: queue_wait's arguments. */
struct stay {
	ATOMIC(uint32_t) *count;
	const struct deadline *deadline;
	bool (*among)(void *, enum queue_among);
	void *arg;
};

/* among_handlers: gp's wait has ended with r, or was interrupted (-EINTR) and stands in the queue
 * still; and handlers are to run. Returns STEPPED_BACK: it goes on; or r, or how it ended
 * meanwhile. wait_foreign_on: wait_foreign, for as long as it takes. */
int among_handlers(struct g *gp, struct waiter *w, int r, const struct stay *s);
int wait_foreign_on(struct waiter *w, const struct stay *s);

/* queue_forked: in the child of a fork the queues are empty. */
void queue_forked(void);

/* ready_list: readies what a wake collected. mp has a P or is NULL. */
void ready_list(struct m *mp, struct g *self, struct glist *list, int flags);

#endif
