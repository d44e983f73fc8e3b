/* Timers: a 4-ary heap for each P, ordered by deadline, that thieves and sysmon may run.
 *
 * A timer ends one wait of one G: when it is due, the G's wait word is claimed with
 * WAIT_TIMEOUT for the sequence number the timer was armed with. So a timer that fires
 * late can not end a later wait, and disarming need not wait for one that is firing. */
#ifndef HEDDLE_TIMER_H
#define HEDDLE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "lock.h"

struct g;
struct m;
struct p;
struct timers;

struct timer {
	uint64_t when; /* CLOCK_MONOTONIC ns; under the heap's lock while armed */
	uint64_t seq; /* the wait it ends */
	struct g *g;
	ATOMIC(struct timers *) heap; /* NULL: not armed */
	uint32_t index; /* its place there, under the heap's lock */
	int32_t clock; /* the clock of deadline */
	uint64_t deadline; /* what was asked for, on that clock */
};

struct timers {
	struct mutex lock;
	uint32_t n; /* under lock */
	uint32_t cap;
	struct timer **heap;
	ATOMIC(uint64_t) first; /* when the earliest is due; 0: none. Written under lock */
	int32_t pid;
};

#endif
