/* Bringing the scheduler up. Owns nothing afterwards but what it was told. */
#include "core.h"
#include "asleep.h"
#include "cputime.h"
#include "early.h"
#include "filters.h"
#include "mthread.h"

#include "policies/plan.h"
#include "policies/turns.h"
#include "poller.h"
#include "procs.h"
#include "report.h"
#include "sched.h"
#include "summary.h"
#include "trace.h"
#include "view.h"

enum { MAX_MS = 10000, ENOMEM_ = 12, EALREADY_ = 114, CLOCK_REAL = 0 };

static bool points;

static void forget_sched(void)
{
	static const struct sched fresh = SCHED_FRESH;

	setg(NULL);
	sched = fresh;
}

static void forget_all(struct m *m0, struct m *sysmonm)
{
	preempt_undo();
	if (sysmonm)
		mfree(sysmonm);
	if (m0)
		mfree(m0);
	forget_sched();
}

FORKS void core_forked(void)
{
	turns_forked();
	forget_sched();
	futex_forked();
	netpoll_forked();
	preempt_forked();
	stack_forked();
	mthread_forked();
	view_forked();
	filters_forked();
	tracer_forked();
	cputime_forked();
	os_forked();
}

int core_init(const struct core_config *config)
{
	static struct core_config own;
	struct m *m0, *sysmonm = NULL;
	struct g *gp;
	bool complained;
	int r, procs;

	if (sched.up)
		return -EALREADY_;
	own = *config;
	osinit();
	if (arch_has_tiles())
		arch_use_tiles();
	st_rlx(&sched.nobarrier, !os_membarrier());
	debug_init(own.debuglevel);
	sched.seed = own.seed ? own.seed : os_clock(CLOCK_REAL);
	sched.maxmcount = own.maxmcount ? own.maxmcount : MAX_MS;
	st_rlx(&sched.softmcount, mcount_limit(own.softmcount));
	sched.ncpu = procs_affinity();
	sched.born = sched.now = sched.lastpoll = nanotime();
	sched.slice = CHOOSE_SLICE_NS;
	sched.name = own.name;
	points = false;
	if (own.policy)
		points = plan_begin(own.policy, own.ownpolicy, own.turns);
	sched.sysmonwake = UINT64_MAX;
	mthread_init(&own);
	glist_init(own.tls);
	report_init(own.schedtrace, own.scheddetail, own.alldead);
	/* There it is for who looks for mistakes, run after run. */
	asleep_init(own.asleep, points ? ASLEEP_SOON_NS : ASLEEP_EVERY_NS);
	tracer_init(own.trace, own.traceopen - 1, own.tracelimit, own.name);
	r = preempt_init(own.preempt);
	if (r < 0)
		return r;
	procs = procs_default(own.gomaxprocs, &complained);
	r = -ENOMEM_;
	m0 = malloc_m();
	gp = !m0 ? NULL : own.was ? gagain(own.was) : gnew();
	if (gp)
		sysmonm = malloc_m();
	if (!sysmonm)
		goto fail;
	gp->goid = add_rlx(&sched.goidgen, 1) + 1;
	r = procs_init(m0, procs);
	if (r < 0)
		goto fail;
	gp->head.host = own.host;
	gp->stack.lo = own.stacklo;
	gp->stack.hi = own.stackhi;
	if (own.self)
		*own.self = gp;
	madopt(m0, gp);
	cputime_begin(gp);
	cputime_looked(m0, gp, sched.now);
	sched.firstg = gp;
	sched.foreignmask = ld_rlx(&gp->sigmask);
	gmask_set(gp, sched.foreignmask);
	/* sysmon counts as an M, but as none that could wake a G of itself. */
	sched.mcount = sched.mpeak = 2;
	sched.nmsys = 1;
	sched.sysmonm = sysmonm;
	if (own.alone)
		netpoll_room();
	r = newosproc(sysmonm);
	if (r < 0) {
		procs_undo(m0);
		goto fail;
	}
	sched.up = true;
	count(ld_rlx(&m0->p), created);
	trace_new(m0, gp);
	trace_back(m0, m0->p, gp);
	/* They count the first G themselves. */
	if (own.times)
		times_on();
	mthread_settle();
	unpin(gp);
	return 0;
fail:
	forget_all(m0, sysmonm);
	return r;
}

void core_keys(void)
{
	arch_use_pkru();
}

void core_tiles(void)
{
	arch_use_tiles();
}

bool core_points(void)
{
	return points;
}

void core_turnsend(void)
{
	turns_over();
}

bool core_canspin(int i)
{
	enum { ACTIVE_SPIN = 4 };
	struct g *gp = getg();
	struct m *mp = gp ? ld_rlx(&gp->m) : NULL;
	struct p *pp = mp ? ld_rlx(&mp->p) : NULL;

	/* Advisory: the P may go any moment. Others that wait for it would rather run; but where
	 * each switch is a call of the kernel's, two of them cost them more than this. */
	return i < ACTIVE_SPIN && sched.ncpu > 1 && pp &&
	       ld_rlx(&sched.gomaxprocs) > ld_rlx(&sched.npidle) + ld_rlx(&sched.nmspinning) + 1 &&
	       (runqempty(pp) || !arch_fsgsbase);
}

bool core_othersrun(void)
{
	return ld_rlx(&sched.gomaxprocs) > ld_rlx(&sched.npidle) + 1;
}

void core_dospin(void)
{
	enum { PAUSES = 30 };
	for (int i = 0; i < PAUSES; i++)
		arch_relax();
}
