/* Chains: Gs of which each makes the next one ready and gives way to it, in one slice. While others
 * wait, a chain lasts no longer than what ran on its P since the one before, nor than so many of
 * those slices did on average, though never less than 10 us. Beside Gs that compute it
 * so has its half of the time, until its slice ends; beside those that run for a moment they need
 * not wait for that end.
 *
 * Else two of a crowd that wait for a lock and wake each other, in vain as long as a third one has
 * it, have the P for 10 ms, and the third one waits for that; natively he would run meanwhile. */
#include "chain.h"

#include "cpu.h"

enum { LEAST_CYCLES = ARCH_CYCLES_20US / 2, SLICES = 16 };

void chain_ended(struct p *pp)
{
	pp->chainended = arch_cycles();
	pp->chaintick = ld_rlx(&pp->schedtick);
}

static uint64_t may_last(const struct p *pp, uint64_t now)
{
	uint64_t others = now - pp->chainended, some;
	uint32_t slices = ld_rlx(&pp->schedtick) - pp->chaintick;

	if (pp->chainended == 0)
		return LEAST_CYCLES;
	some = slices > SLICES ? others / slices * SLICES : others;
	return some > LEAST_CYCLES ? some : LEAST_CYCLES;
}

/* Moves gp from the head of all that wait to the end. */
static struct g *give_way(struct m *mp, struct p *pp, struct g *gp, bool local, bool *inherit)
{
	if (ld_rlx(&sched.runqsize) == 0) {
		runqput(pp, gp, false);
	} else {
		lock(&sched.lock);
		globrunqput_locked(gp);
		unlock(&sched.lock);
	}
	*inherit = false;
	gp = local ? runqget(pp, inherit) : NULL;
	chain_ended(pp);
	pp->chain = 0;
	/* Those who looked for work may have left it to us, who would have run it next. Not here,
	 * where who parks holds the lock of what he waits for. */
	mp->owes = true;
	return gp;
}

struct g *chain_look(struct m *mp, struct p *pp, struct g *gp, bool *inherit)
{
	bool local = ld_rlx(&pp->runqhead) != ld_rlx(&pp->runqtail);
	uint64_t now;

	if (!local && ld_rlx(&sched.runqsize) == 0) {
		pp->chainmay = 0;
		return gp;
	}
	now = arch_cycles();
	if (pp->chain == CHAIN_LOOK) {
		pp->chainbegan = now;
		pp->chainmay = may_last(pp, now);
	}
	if (now - pp->chainbegan < pp->chainmay)
		return gp;
	return give_way(mp, pp, gp, local, inherit);
}
