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

/* wait_foreign: for a kernel thread that is no M. goes_on: no signal ends it; its handler has run
 * already. Locks: lets go of b's. 0 or -errno. */
int wait_foreign(struct bucket *b, struct waiter *w, const struct deadline *deadline, bool goes_on);

/* wake_locked: unlinks w and ends its wait. True if it was us who ended it; then its G is on
 * *list. wake_some_locked: up to n of those whose bitset meets ours, and who wait in a queue of
 * queue.c, or do not. Who is woken there was meant: it may hold a lock then that was counted for
 * it; while at a word a wake may come late, from whoever used it for something that is gone. Locks:
 * b's. */
bool wake_locked(struct bucket *b, struct waiter *w, struct glist *list);
int wake_some_locked(struct bucket *b, uintptr_t addr, int n, uint32_t bitset, bool queued,
		     struct glist *list);

/* queue_forked: in the child of a fork the queues are empty. */
void queue_forked(void);

/* ready_list: readies what a wake collected. mp has a P or is NULL. */
void ready_list(struct m *mp, struct g *self, struct glist *list, int flags);

#endif
