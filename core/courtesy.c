#include "courtesy.h"

#include "sched.h"

enum {
	COURTESIES = 4,
	LOOK_NS = 1000 * 1000,
	/* Who was not seen at so many looks hardly ever runs. */
	UNSEEN = 8,
};

bool courtesy_due(uint64_t now)
{
	static uint64_t last;

	if (now - last < LOOK_NS || choose_policed() || choose_turned())
		return false;
	last = now;
	bump(&sched.looks);
	return true;
}

void courtesy_look(struct p *pp, struct g *gp)
{
	uint64_t look = ld_rlx(&sched.looks);

	st_rlx(&gp->seen, look);
	st_rlx(&pp->courtesies, COURTESIES);
	st_rlx(&pp->rarely, look > UNSEEN ? look - UNSEEN : 0);
}

void courtesy_ask(struct m *mp, struct p *pp, struct g *gp)
{
	struct g *self = ld_rlx(&mp->curg);
	uint32_t left = ld_rlx(&pp->courtesies);

	/* An idle P takes it. On g0 nobody runs; and who is wired would have to stop its M. */
	if (ld_rlx(&sched.npidle) > 0 || !self || ld_rlx(&mp->lockedg) || gp->lockedm)
		return;
	if (left == 0) {
		st_rlx(&pp->rarely, 0);
		return;
	}
	/* Sysmon may allow more at this moment: one may be lost, or come twice. */
	st_rlx(&pp->courtesies, left - 1);
	pp->favoured = gp;
	mp->courteous = self;
	st_rlx(&mp->preemptmissed, true);
}

bool courtesy_owed(struct m *mp, const struct g *gp)
{
	struct p *pp = mp->p;

	if (likely(mp->courteous != gp))
		return false;
	mp->courteous = NULL;
	/* Others may have taken it, or it another's place. */
	return ld_rlx(&pp->runnext) == pp->favoured && !choose_hard(pp);
}
