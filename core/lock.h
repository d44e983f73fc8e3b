/* Locks and notes of the core itself: they block kernel threads, never Gs.
 *
 * A mutex is held for a few hundred instructions, only with the G pinned, on a g0, or
 * on a kernel thread that is no M; never across a park (G5). A note is a one-shot
 * event: one sleeper, one waker, cleared before the next use. */
#ifndef HEDDLE_LOCK_H
#define HEDDLE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* The order in which locks are taken: a lock may be taken while holding only locks of
 * lower rank. Debug builds check it. HACKING.md has the table with reasons. */
enum lockrank {
	RANK_FUTEX = 0, /* a bucket, born zeroed; two in order of address */
	RANK_STOP, /* stop-the-world */
	RANK_POLLFD, /* one fd's waiters */
	RANK_TIMERS, /* one P's heap; two heaps in order of P */
	RANK_SCHED, /* sched.lock */
	RANK_GLIST, /* dead Gs */
	RANK_STACK, /* stack arenas */
	RANK_LEAF,
};

struct mutex {
	ATOMIC(uint32_t) key; /* 0 free, 1 held */
	ATOMIC(uint32_t) sleepers; /* threads that sleep, or are about to */
	uint8_t rank;
};

#define MUTEX_INIT(r)                                                                              \
	{                                                                                          \
		.key = 0, .rank = (r)                                                              \
	}

/* lock, unlock: unlock releases, but is no full fence: who must look for others' marks after
 * it needs one of its own (wakep_global). */
void lock(struct mutex *l);
bool trylock(struct mutex *l);
void unlock(struct mutex *l);

struct note {
	ATOMIC(uint32_t) key; /* 0 clear, 1 woken */
	/* The word in its place, where another process may wake, too; or NULL. Set by the one that
	 * sleeps there, before anybody counts on waking it. */
	ATOMIC(ATOMIC(uint32_t) *) shared;
};

void noteclear(struct note *n);
void notewakeup(struct note *n);
void notesleep(struct note *n);

/* notetsleep: true if woken, false if ns went by first. */
bool notetsleep(struct note *n, int64_t ns);

#endif
