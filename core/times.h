/* How long Gs were runnable before they ran, and why they parked: kept for each P by its owner,
 * only when times_on() was called. Then each switch reads the clock. Summed in summary.c. */
#ifndef HEDDLE_TIMES_H
#define HEDDLE_TIMES_H

#include <stdint.h>

#include "atomic.h"

enum {
	TIMES_SUBS = 8, /* buckets to each power of two, so that one is no wider than an eighth */
	TIMES_BUCKETS = 40 * TIMES_SUBS, /* up to some 18 minutes; the last has all beyond */
	TIMES_REASONS = 8,
};

struct times {
	ATOMIC(uint32_t) waits[TIMES_BUCKETS];
	ATOMIC(uint64_t) longest;
	ATOMIC(uint64_t) parks[TIMES_REASONS]; /* by enum waitreason */
};

/* times_bucket: where a time of ns is counted. times_upto: the longest of a bucket. */
static inline uint32_t times_bucket(uint64_t ns)
{
	uint32_t power, at;

	if (ns < TIMES_SUBS)
		return (uint32_t)ns;
	power = 63 - (uint32_t)__builtin_clzll(ns);
	at = (power - 2) * TIMES_SUBS + (uint32_t)(ns >> (power - 3) & (TIMES_SUBS - 1));
	return at < TIMES_BUCKETS ? at : TIMES_BUCKETS - 1;
}

static inline uint64_t times_upto(uint32_t bucket)
{
	uint32_t power = bucket / TIMES_SUBS + 2;

	if (bucket < TIMES_SUBS)
		return bucket;
	return ((uint64_t)(TIMES_SUBS + bucket % TIMES_SUBS + 1) << (power - 3)) - 1;
}

#endif
