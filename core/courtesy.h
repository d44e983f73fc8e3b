/* Who wakes one that hardly ever runs lets that one go first, and runs on when it waits again: the
 * kernel does as much for its threads. Else the waker may take again what it woke the other for,
 * before it gives way, and the other find it taken each time, for seconds.
 *
 * On each P once in 16 us at most: a lock that is contended must not change hands at every release.
 * Sysmon, who looks now and then who runs, allows so many for the time since; the waker's next way
 * out of the core sees to it. */
#ifndef HEDDLE_COURTESY_H
#define HEDDLE_COURTESY_H

#include "choose.h"
#include "gmp.h"

/* courtesy_due: may sysmon look this time? Then it does so at each P that runs. */
bool courtesy_due(uint64_t now);

/* courtesy_look: gp runs on pp. */
void courtesy_look(struct p *pp, struct g *gp);

/* courtesy_ask: mp's running G makes gp ready, which is to be the next on pp, and its own still. */
void courtesy_ask(struct m *mp, struct p *pp, struct g *gp);

static inline void courtesy(struct m *mp, struct p *pp, struct g *gp)
{
	if (__builtin_expect(ld_rlx(&gp->seen) < ld_rlx(&pp->rarely), 0))
		courtesy_ask(mp, pp, gp);
}

/* courtesy_owed: is gp, which runs on mp, to give way to whom it has woken? Asked once. */
bool courtesy_owed(struct m *mp, const struct g *gp);

/* courtesy_short: do all that wait in the ring of pp, few, hardly ever run? Then the slice of one
 * who computes there is short. Sysmon's. */
bool courtesy_short(const struct p *pp);

#endif
