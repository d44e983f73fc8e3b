/* The keeping of times.h, on the road of the trace's events: what is off costs them nothing. */
#include "times.h"

#include "sched.h"
#include "summary.h"
#include "trace.h"

bool times_on(void)
{
	st_rlx(&sched.peakgs, 1);
	st_rlx(&sched.alive, 1);
	or_sc(&tracing, TRACING_TIMES);
	return true;
}

static void ran(struct p *pp, struct g *gp)
{
	uint64_t since = ld_rlx(&gp->runnablesince), ns;

	if (since == 0)
		return;
	st_rlx(&gp->runnablesince, 0);
	ns = nanotime() - since;
	bump(&pp->times.waits[times_bucket(ns)]);
	if (ns > ld_rlx(&pp->times.longest))
		st_rlx(&pp->times.longest, ns);
}

static void stopped(struct p *pp, struct g *gp, uint32_t why)
{
	if (why & TRACE_PARK) {
		if (pp)
			bump(&pp->times.parks[gp->waitreason]);
	} else if (why == POST_EXIT) {
		add_rlx(&sched.alive, (uint32_t)-1);
	} else {
		st_rlx(&gp->runnablesince, nanotime());
	}
}

static void begun(void)
{
	uint32_t n = add_rlx(&sched.alive, 1) + 1, most = ld_rlx(&sched.peakgs);

	while (n > most && !cas_rlx(&sched.peakgs, most, n))
		most = ld_rlx(&sched.peakgs);
}

void times_event(struct m *mp, enum tracekind kind, struct g *gp, uint32_t arg)
{
	switch (kind) {
	case TRACE_RUN:
		ran(ld_rlx(&mp->p), gp);
		break;
	case TRACE_STOP:
		stopped(ld_rlx(&mp->p), gp, arg);
		break;
	case TRACE_NEW:
		begun();
		break;
	case TRACE_READY:
		st_rlx(&gp->runnablesince, nanotime());
		break;
	default:
		break;
	}
}
