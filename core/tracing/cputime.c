/* The keeping of cputime.h. An M's own cpu clock is a call of the kernel, so that short stays are
 * charged by the wall's, and the next long one makes up for it. */
#include "cputime.h"

#include "core.h"
#include "early.h"
#include "sched.h"
#include "trace.h"

enum {
	SHORT_NS = 50 * 1000,
	LOOK_NS = 5 * 1000 * 1000, /* from one look at an M to the next */
	LOOKS = 8,
};

void cputime_begin(struct g *gp)
{
	st_rlx(&gp->cputime, 0);
	st_rlx(&gp->looked, 0);
	st_rlx(&gp->told, 0);
}

FORKS void cputime_forked(void)
{
	and_sc(&tracing, ~(uint32_t)TRACING_CPU);
}

static void charge(struct m *mp, struct g *gp, bool exact)
{
	uint64_t now = nanotime(), spent = now - mp->chargedat, upto = ld_rlx(&mp->charged);
	uint32_t seq = ld_rlx(&mp->chargeseq);

	if (exact || upto == 0 || spent > SHORT_NS) {
		uint64_t cpu = os_threadclock(0);
		spent = upto && cpu > upto ? cpu - upto : 0;
		upto = upto ? upto : cpu;
	}
	mp->chargedat = now;
	st_rlx(&mp->chargeseq, seq + 1);
	/* Release, all three: pair with the acquires in used. Who finds one of the two finds that
	 * they change, until both have. */
	if (gp)
		st_rel(&gp->cputime, ld_rlx(&gp->cputime) + spent);
	st_rel(&mp->charged, upto + spent);
	st_rel(&mp->chargeseq, seq + 2);
}

void cputime_charge(struct m *mp, struct g *gp)
{
	charge(mp, gp, false);
}

static void look(struct m *mp, struct g *gp)
{
	uint64_t cpu = os_threadclock(ld_rlx(&mp->tid)), before = xchg_rlx(&mp->lookedcpu, cpu);

	if (cpu > before)
		add_rlx(&gp->looked, cpu - before);
}

void cputime_looked(struct m *mp, struct g *gp, uint64_t now)
{
	if (now - ld_rlx(&mp->lookedat) < LOOK_NS || ld_rlx(&mp->charged) != 0)
		return;
	st_rlx(&mp->lookedat, now);
	look(mp, gp);
}

/* Of a G that runs elsewhere: what its M has used since it was charged, too. */
static uint64_t used(struct g *gp)
{
	for (int i = 0; i < LOOKS; i++) {
		struct m *mp = ld_acq(&gp->m);
		uint32_t seq = mp ? ld_acq(&mp->chargeseq) : 0;
		uint64_t before = ld_acq(&gp->cputime), upto = mp ? ld_acq(&mp->charged) : 0, cpu;

		if (upto == 0 || ld_acq(&mp->curg) != gp)
			return before;
		cpu = os_threadclock(ld_rlx(&mp->tid));
		if (seq % 2 == 0 && ld_rlx(&mp->chargeseq) == seq)
			return before + (cpu > upto ? cpu - upto : 0);
	}
	/* It is charged all the time, and what it has used since is little. */
	return ld_rlx(&gp->cputime);
}

uint64_t gcputime(struct g *gp)
{
	struct g *self = getg();
	uint64_t told = ld_rlx(&gp->told), ns;

	if (!(ld_rlx(&tracing) & TRACING_CPU))
		or_sc(&tracing, TRACING_CPU);
	if (gp == self) {
		struct m *mp = pin(gp);
		if (unlikely(ld_rlx(&mp->charged) == 0))
			look(mp, gp);
		charge(mp, gp, true);
		ns = ld_rlx(&gp->cputime);
		unpin(gp);
	} else {
		ns = used(gp);
	}
	ns += ld_rlx(&gp->looked);
	/* It asks nobody to believe it, and gp may begin anew. */
	if (on_sysmon())
		return ns;
	/* A clock does not go back. */
	while (told < ns && !cas_rlx(&gp->told, told, ns))
		told = ld_rlx(&gp->told);
	return told < ns ? ns : told;
}
