/* Guests: who comes back from a call that blocked, finds no idle P and has little to do before the
 * next one is let in on a P whose G computes, in the midst of its slice, as the kernel does. */
#ifndef HEDDLE_GUEST_H
#define HEDDLE_GUEST_H

#include <stdbool.h>

#include "gmp.h"

/* guest_lends: gp, the running G, pinned, is about to lend its P for a call.
 * guest_returns: a call has ended whose P was lent or taken, and a P is to be won.
 * guest_back: it has one again; the call, in which it lost `had`, ended at that nanotime.
 * Returns  was it worth it that the P was others'? */
void guest_lends(struct g *gp);
void guest_returns(struct g *gp);
bool guest_back(struct g *gp, const struct p *had, uint64_t ended);

/* guest_is: is gp, which has no P, a guest? It goes before others in the global queue then, and
 * guest_asks: has one of them let in, by the P that mp had, for choice.
 * guest_wired: would it be, but that it has its own M anyway? It goes before others, too, and
 * sysmon asks. Context: mp's g0, without a P, no lock held. */
bool guest_is(struct m *mp, struct g *gp);
bool guest_wired(const struct g *gp);
void guest_asks(const struct m *mp);

/* guest_none: there was an idle P. */
static inline void guest_none(struct g *gp)
{
	gp->guest = false;
	gp->home = NULL;
}

/* sysmon_serves: a guest has come, and a P was asked to let it in; sysmon sees soon whether it did.
 * at_once: none could be: it asks one. In sysmon.c. */
void sysmon_serves(bool at_once);

/* guest_goes: mp has picked gp. True: the M that gp was on has it, and mp's P, and mp has slept.
 * The kernel has a thread that sleeps most of the time run at once when it wakes; were gp to run on
 * mp, that of its host, it would wait in its next call's end for those that compute. Context: mp's
 * g0. */
bool guest_goes(struct m *mp, struct g *gp);

/* guest_ended: gp has, and another thread is to be told by it. */
static inline void guest_ended(struct g *gp)
{
	gp->doubt = 0;
	gp->guest = false;
}

#endif
