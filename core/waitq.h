/* Queues of waiters keyed by address: a bucket is a treap of addresses, whose nodes are
 * the first waiters there, each heading a list of the others, as Go's semaRoot.
 * Knows nothing of Gs; all calls need the bucket's lock. */
#ifndef HEDDLE_WAITQ_H
#define HEDDLE_WAITQ_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "lock.h"

struct g;

struct waiter {
	uintptr_t addr;
	uint32_t bitset;
	bool counted; /* *addr counts those who wait there; written under the bucket's lock */
	ATOMIC(uint32_t) *then; /* where queue_move may move it; NULL: nowhere */
	bool chained; /* others were moved to `then` with it; written before its wait ends */
	bool linked; /* in a queue; under the bucket's lock */
	uint8_t prio; /* goes before those of less */
	ATOMIC(struct bucket *) bucket; /* whose; changed by a requeue, under both locks */

	/* How to end its wait: claim *word, from sequence seq. */
	ATOMIC(uint64_t) *word;
	uint64_t seq;
	struct g *gp; /* NULL: a kernel thread that sleeps on word itself, or */
	bool absent; /* the place of one who runs handlers: placeholder.c */
	bool stays; /* a signal does not end it: then it stands here till its G has seen that */
	bool all; /* woken with all others; written before its wait ends */

	/* Of one address, oldest first; only the first is in the treap. */
	struct waiter *next, *prev;
	struct waiter *last; /* of the first: the youngest */
	struct waiter *parent, *left, *right; /* of the first */
	uint32_t ticket; /* of the first: the treap's heap order */
};

struct bucket {
	struct mutex lock;
	/* Waiters in the queue, and those on their way there. Written by waiters before
	 * they look at the value, read by wakers after they changed it. */
	ATOMIC(uint32_t) nwait;
	struct waiter *root;
} __attribute__((aligned(64)));

/* waitq_first: the oldest waiter of addr, or NULL; go on by ->next. */
struct waiter *waitq_first(struct bucket *b, uintptr_t addr);
void waitq_add(struct bucket *b, struct waiter *w, bool atfront);
void waitq_remove(struct bucket *b, struct waiter *w);

/* waitq_replace: `by`, of the same address and priority, stands where w stood. */
void waitq_replace(struct bucket *b, struct waiter *w, struct waiter *by);

/* waitq_check: true if the treap and its lists are whole. For tests and debug builds. */
bool waitq_check(const struct bucket *b);

#endif
