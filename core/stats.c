/* Summing the counters. */
#include "stats.h"

#include "sched.h"

void stats_sum(struct stats *to)
{
	int32_t n = MAX_PROCS;

#define X(name, text) to->name = ld_rlx(&sched.nopstats.name);
	STATS(X)
#undef X
	/* Ps above GOMAXPROCS keep what they counted. */
	for (int32_t i = 0; i < n; i++) {
		struct p *pp = ld_acq(&sched.allp[i]);
		if (!pp)
			break;
#define X(name, text) to->name += ld_rlx(&pp->stats.name);
		STATS(X)
#undef X
	}
}
