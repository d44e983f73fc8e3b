/* Which policies a series tries, with which seeds: drawn from the seed of the series and the number
 * of the run alone. */
#include "hunt.h"

#include <math.h>

#include "ab/statistics.h"

/* A mistake of depth d is met by pct with depth d, or more: it has d - 1 places where the order
 * must change. Few have more than three. Where there are many threads, or the change is one of many
 * that would do, the others are quicker. */
static const struct {
	const char *name;
	int depth; /* 0: no pct */
} kinds[] = {
	{ "pct", 1 }, { "pct", 3 },   { "pct", 2 }, { "random", 0 }, { "pct", 3 },
	{ "pct", 2 }, { "chaos", 0 }, { "pct", 3 }, { "pct", 4 },    { "pct", 2 },
};

/* Over how many points the changes lie: all that it has, as was seen in its first run; or those
 * near its beginning, for a long run is full of places that are all alike. */
static long steps_of(long points, struct chance *c)
{
	enum { LEAST = 8, UNKNOWN = 1000 };
	long all = points ? points : UNKNOWN;
	double part = (double)chance_below(c, 1000) / 1000;

	if (all <= LEAST || chance_below(c, 2) == 0)
		return all > LEAST ? all : LEAST;
	return (long)(LEAST * pow((double)all / LEAST, part));
}

struct lot hunt_lot(const struct hunt *h, int n)
{
	enum { KINDS = sizeof(kinds) / sizeof(*kinds), MOST_SEED = 1000000000 };
	struct chance c = { h->seed ^ (uint64_t)n * 0x9e3779b97f4a7c15u };
	struct lot lot = { .number = n };
	int kind = (n - 1) % KINDS;

	/* As many digits as are typed without a mistake. */
	lot.seed = 1 + chance_next(&c) % MOST_SEED;
	if (kinds[kind].depth == 0)
		snprintf(lot.policy, sizeof(lot.policy), "%s", kinds[kind].name);
	else
		snprintf(lot.policy, sizeof(lot.policy), "%s:depth=%d,steps=%ld", kinds[kind].name,
			 kinds[kind].depth, steps_of(h->points, &c));
	return lot;
}
