/* Adding up for summary.h: counters, and the histograms of all Ps. */
#include "summary.h"

#include "san.h"
#include "sched.h"
#include "tracer.h"

/* The bucket below which so many of the times lie. */
static uint64_t at_most(const uint64_t *buckets, uint64_t n)
{
	uint64_t below = 0;
	uint32_t i = 0;

	while (i < TIMES_BUCKETS - 1 && (below += buckets[i]) < n)
		i++;
	return times_upto(i);
}

SAN_RACY void summary_read(struct summary *to)
{
	struct p **allp = ld_acq(&sched.allp);

	_Static_assert((int)WAIT_REASONS <= (int)TIMES_REASONS, "a place for each");
	*to = (struct summary){ .procs = ld_rlx(&sched.gomaxprocs) };
	stats_sum(&to->stats);
	to->lived = nanotime() - sched.born;
	/* And the starter, and the tracer. */
	to->kthreads = ld_rlx(&sched.mpeak) + 1 + tracer_threads();
	to->peakgs = ld_rlx(&sched.peakgs);
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink)
		to->calls += ld_rlx(&mp->syscalltick);
	for (int32_t n = 0; n < MAX_PROCS && ld_acq(&allp[n]); n++) {
		struct times *t = &allp[n]->times;
		for (uint32_t i = 0; i < TIMES_BUCKETS; i++) {
			to->waits[i] += ld_rlx(&t->waits[i]);
			to->waited += ld_rlx(&t->waits[i]);
		}
		for (uint32_t i = 0; i < TIMES_REASONS; i++)
			to->parks[i] += ld_rlx(&t->parks[i]);
		if (ld_rlx(&t->longest) > to->longest)
			to->longest = ld_rlx(&t->longest);
	}
	if (to->waited == 0)
		return;
	to->p50 = at_most(to->waits, (to->waited + 1) / 2);
	to->p99 = at_most(to->waits, to->waited - to->waited / 100);
	/* A bucket ends beyond the longest that is in it. */
	if (to->p99 > to->longest)
		to->p99 = to->longest;
	if (to->p50 > to->longest)
		to->p50 = to->longest;
}
