/* Counters, one set for each P, written by the P's owner with relaxed stores on the
 * P's own line and read by anyone. Advisory: nothing that must be right reads them.
 * One row a counter; stats.c sums them, reports print them by these names. */
#ifndef HEDDLE_STATS_H
#define HEDDLE_STATS_H

#include <stdint.h>

#include "atomic.h"

#define STATS(X)                                                                                   \
	X(switches, "contexts switched to")                                                        \
	X(created, "Gs started")                                                                   \
	X(recycled, "of those, from a free list")                                                  \
	X(finished, "Gs ended")                                                                    \
	X(parks, "times a G was put to sleep")                                                     \
	X(readies, "times a G was made runnable")                                                  \
	X(points, "points at which a policy was asked")                                            \
	X(yields, "times a G gave way of its own will")                                            \
	X(courteous, "times one gave way to whom it had woken")                                    \
	X(preempts, "times a G was made to give way")                                              \
	X(spins, "of those, as it was spinning")                                                   \
	X(guests, "of those, to let one in who came back")                                         \
	X(preemptputoff, "times it could not be where it stood")                                   \
	X(steals, "grabs that took something")                                                     \
	X(stolen, "Gs taken by them")                                                              \
	X(stealmisses, "rounds over all Ps that found nothing")                                    \
	X(overflows, "local queues that overflowed")                                               \
	X(globalgets, "Gs taken from the global queue")                                            \
	X(syscallslow, "calls that came back without a P")                                         \
	X(retakecall, "Ps retaken from announced calls")                                           \
	X(retakeblock, "Ps retaken from Ms blocked unannounced")                                   \
	X(timersfired, "timers that ran")                                                          \
	X(pollready, "Gs made runnable by netpoll")                                                \
	X(mstops, "Ms put to sleep")                                                               \
	X(mstarts, "Ms woken or made")                                                             \
	X(futexwaits, "futex waits that parked")                                                   \
	X(futexwakes, "futex waiters woken")

struct stats {
#define X(name, text) ATOMIC(uint64_t) name;
	STATS(X)
#undef X
};

/* stats_sum: the counters of all Ps and of sysmon, added up. */
void stats_sum(struct stats *to);

#endif
