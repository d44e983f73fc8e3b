/* What a policy of your own is: a shared object that exports one `struct heddle_policy
 * heddle_policy`.
 *
 *     cc -shared -fPIC -I<where this file is> -o mine.so mine.c
 *     heddle run --policy ./mine.so COMMAND
 *
 * The scheduler keeps the runnable threads; the policy says which of them goes next, by a rank of
 * each (rank: the least goes first, among equals the one that waits longest), or by choosing one
 * itself (pick_next). With neither, the longest waiting goes first. There is one queue, unless the
 * policy says who steals from whom (steal): then each processor has its own.
 *
 * Its functions are called one at a time, under the scheduler's lock, on a stack of 64 KiB and on
 * whatever kernel thread it happens to be. They must not call anything that could wait, nor
 * allocate, nor let go of a lock that threads use; they have the words `mine` in each thread for
 * their own. One that breaks a rule (picks who is not runnable, picks or steals nobody while
 * somebody is, does not come back) is said on stderr, and the program goes on under heddle's own
 * policy. */
#ifndef HEDDLE_POLICY_H
#define HEDDLE_POLICY_H

#include <stdint.h>

#define HEDDLE_POLICY_VERSION 2

/* Why a thread is runnable, when it is made so. */
enum heddle_reason {
	HEDDLE_NEW, /* it begins */
	HEDDLE_LOCK, /* it waited for a lock, a condition or another thread */
	HEDDLE_SLEEP,
	HEDDLE_READ,
	HEDDLE_WRITE,
	HEDDLE_OTHER,
	HEDDLE_CALL, /* it comes back from a call that blocked */
	HEDDLE_YIELD, /* it gave way */
	HEDDLE_SLICE, /* its slice was over */
};

/* All but `mine` is for reading. Times are ns of CLOCK_MONOTONIC. */
struct heddle_thread {
	uint64_t id; /* from 1, never twice */
	uint64_t born;
	uint64_t ran; /* ns that it had a cpu, as far as the scheduler knows */
	uint64_t waits; /* how often it has waited for something */
	uint64_t ready; /* since when it is runnable */
	int32_t reason; /* enum heddle_reason */
	int32_t last; /* the processor (0 to GOMAXPROCS - 1) on which it ran last; -1: none */
	char name[16]; /* as pthread_setname_np has it; empty: none */
	union {
		void *p;
		uint64_t n;
	} mine[4]; /* zero at the start */
};

/* Any function may be NULL. */
struct heddle_policy {
	uint32_t version; /* HEDDLE_POLICY_VERSION */
	const char *name;

	/* begin: before the first thread; what followed the file's name and a comma ("" for
	 * nothing), and the seed. Not 0: it will not serve. */
	int (*begin)(const char *arguments, uint64_t seed);

	void (*on_start)(struct heddle_thread *t);
	void (*on_ready)(struct heddle_thread *t, int processor);
	void (*on_exit)(struct heddle_thread *t);

	uint64_t (*rank)(struct heddle_thread *t);

	/* pick_next: one that was made ready and not picked since, for that processor. */
	struct heddle_thread *(*pick_next)(int processor);

	/* slice: ns that it may run while others wait; 0: the usual. Asked when it is picked. */
	uint64_t (*slice)(struct heddle_thread *t);

	/* steal: each processor has a queue of its own, of those that were made ready there. It is
	 * asked for one whose queue is empty: whom it takes from, and how many (more than there
	 * are: all). Those go that have waited longest, the first at once, the others into the
	 * queue of the thief. queued: how many wait for each of so many processors. Not with
	 * pick_next. */
	uint32_t (*steal)(int thief, const uint32_t *queued, int processors, int *victim);
};

#endif
