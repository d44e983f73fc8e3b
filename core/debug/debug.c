/* The debug build's own code: what a broken invariant prints, the order of locks, and the
 * walks over whole structures. Twin: release/debug.c. */
#include "fault.h"
#include "preempt.h"
#include "sched.h"
#include "text.h"

int debuglevel;
ATOMIC(int32_t) fault_after[FAULT_KINDS] = { -1, -1, -1, -1 };

void debug_init(int level)
{
	debuglevel = level;
}

/* The M of the caller, if its locks are to be followed. */
static struct m *own_m(void)
{
	struct g *gp = getg();
	return gp ? ld_rlx(&gp->m) : NULL;
}

void lockrank_push(struct mutex *l)
{
	struct m *mp = own_m();

	if (!mp)
		return;
	/* Else it might be stopped while it holds it, by one whose M then waits for it. */
	CHECK(WS_I9, core_sigplace() == SIGPLACE_CORE);
	/* Two of one rank: only buckets and heaps, in order of address; not checked here. */
	for (uint32_t i = 0; i < mp->nheld; i++)
		CHECK(WS_I9,
		      mp->held[i] < l->rank || (mp->held[i] == l->rank &&
						(l->rank == RANK_FUTEX || l->rank == RANK_TIMERS)));
	CHECK(WS_I9, mp->nheld < sizeof(mp->held));
	mp->held[mp->nheld++] = l->rank;
}

void lockrank_pop(struct mutex *l)
{
	struct m *mp = own_m();

	if (!mp)
		return;
	for (uint32_t i = mp->nheld; i-- > 0;) {
		if (mp->held[i] != l->rank)
			continue;
		for (; i + 1 < mp->nheld; i++)
			mp->held[i] = mp->held[i + 1];
		mp->nheld--;
		return;
	}
	bool held = false;
	CHECK(WS_I9, held);
}

/* The owner's view of its queue. */
static void check_runq(struct p *pp)
{
	uint32_t t = ld_rlx(&pp->runqtail);
	uint32_t h = ld_acq(&pp->runqhead);
	struct g *next = ld_acq(&pp->runnext);

	CHECK(GMP_R1, t - h <= RUNQ_SIZE);
	if (next && ld_rlx(&pp->runnext) == next)
		CHECK(GMP_R5, ld_rlx(&next->status) == GRUNNABLE || ld_rlx(&pp->runnext) != next);
	for (uint32_t i = h; i != t; i++) {
		struct g *gp = ld_rlx(&pp->runq[i % RUNQ_SIZE]);
		uint32_t status = ld_rlx(&gp->status);
		/* A thief may have taken it since; the head tells. */
		if ((int32_t)(i - ld_acq(&pp->runqhead)) < 0)
			continue;
		CHECK(GMP_G3, status == GRUNNABLE);
		CHECK(WS_I1, gp != next || (int32_t)(i - ld_acq(&pp->runqhead)) < 0 ||
				     ld_acq(&pp->runnext) != next);
	}
}

static void check_lists(void)
{
	int32_t n = 0;

	lock(&sched.lock);
	for (struct g *gp = sched.runq.head; gp; gp = gp->schedlink, n++) {
		CHECK(GMP_G3, ld_rlx(&gp->status) == GRUNNABLE);
		CHECK(GMP_R7, gp->schedlink || gp == sched.runq.tail);
	}
	CHECK(GMP_R7, n + plan_queued_locked() == sched.runqsize);
	n = 0;
	for (struct p *pp = sched.pidle; pp; pp = pp->link, n++) {
		CHECK(GMP_P2, ld_rlx(&pp->status) == PIDLE && !ld_rlx(&pp->m));
		CHECK(GMP_P6, ld_rlx(&sched.idlepmask[pp->id / 64]) >> (pp->id % 64) & 1);
	}
	CHECK(GMP_P6, n == ld_rlx(&sched.npidle));
	n = 0;
	for (struct m *mp = sched.midle; mp; mp = mp->schedlink, n++)
		CHECK(GMP_M1, !ld_rlx(&mp->p) && !ld_rlx(&mp->curg) && !ld_rlx(&mp->spinning));
	CHECK(GMP_M1, n == sched.nmidle);
	/* The count runs ahead by those that gave up their P, but not yet their mark. */
	CHECK(WS_I6, ld_rlx(&sched.nmspinning) >= 0 && ld_rlx(&sched.nmspinning) <= sched.mcount);
	for (int32_t i = ld_rlx(&sched.gomaxprocs); i < MAX_PROCS; i++) {
		/* Acquire: pairs with the release in makeps, which holds no lock. */
		struct p *pp = ld_acq(&sched.allp[i]);
		if (!pp)
			break;
		CHECK(GMP_P5, ld_rlx(&pp->status) == PDEAD && runqempty(pp));
	}
	unlock(&sched.lock);
}

void dcheck_schedule(struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);

	CHECK(GMP_P1, pp && ld_rlx(&pp->m) == mp && ld_rlx(&pp->status) == PRUNNING);
	CHECK(GMP_M3, !ld_rlx(&mp->curg));
	CHECK(WS_I2, mp->post.kind == POST_NONE);
	if (debuglevel < 2)
		return;
	check_runq(pp);
	check_lists();
}
