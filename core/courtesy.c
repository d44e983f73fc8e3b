#include "courtesy.h"

#include "sched.h"

enum {
	LOOK_NS = 1000 * 1000,
	/* One for so long since the last look. */
	COURTESY_NS = 16 * 1000,
	LEAST = 4,
	MOST = 640,
	/* So many it looks at. */
	FEW = 16,
	UNSEEN = 8, /* at so many looks */
};

/* Sysmon's. */
static uint32_t allowed;

bool courtesy_due(uint64_t now)
{
	static uint64_t last;
	uint64_t n = (now - last) / COURTESY_NS;

	if (now - last < LOOK_NS || choose_policed() || choose_turned())
		return false;
	last = now;
	allowed = n < LEAST ? LEAST : n > MOST ? MOST : (uint32_t)n;
	bump(&sched.looks);
	return true;
}

/* Who was seen at no look since then hardly ever runs. */
static uint64_t seen_by(void)
{
	uint64_t look = ld_rlx(&sched.looks);

	return look > UNSEEN ? look - UNSEEN : 0;
}

void courtesy_look(struct p *pp, struct g *gp)
{
	st_rlx(&gp->seen, ld_rlx(&sched.looks));
	st_rlx(&pp->courtesies, allowed);
	st_rlx(&pp->rarely, seen_by());
}

void courtesy_ask(struct m *mp, struct p *pp, struct g *gp)
{
	struct g *self = ld_rlx(&mp->curg);
	uint32_t left = ld_rlx(&pp->courtesies);

	/* An idle P takes it. On g0 nobody runs; and who is wired would have to stop its M. */
	if (ld_rlx(&sched.npidle) > 0 || !self || ld_rlx(&mp->lockedg) || gp->lockedm)
		return;
	/* Of several, as at a broadcast, the last is the next. */
	if (mp->courteous == self) {
		pp->favoured = gp;
		return;
	}
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
	const struct g *who = mp->courteous;

	/* Whoever has left since, as its slice was over or to wait, owes nothing. */
	mp->courteous = NULL;
	if (likely(who != gp))
		return false;
	/* Others may have taken it, or it another's place. */
	return ld_rlx(&pp->runnext) == pp->favoured && !choose_hard(pp);
}

bool courtesy_short(const struct p *pp)
{
	uint32_t h = ld_acq(&pp->runqhead), n = ld_acq(&pp->runqtail) - h;
	uint64_t rarely = seen_by();

	if (choose_policed() || choose_turned())
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct g *gp = ld_rlx(&pp->runq[(h + i) % RUNQ_SIZE]);
		/* One that computes is not seen while it waits for its turn. */
		if (i == FEW || ld_rlx(&gp->seen) >= rarely || choose_computes(gp))
			return false;
	}
	return n > 0;
}
