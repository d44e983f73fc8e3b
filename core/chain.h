/* The next G of a P's own, for whoever chooses there: runqget, but that a chain comes to its end.
 */
#ifndef HEDDLE_CHAIN_H
#define HEDDLE_CHAIN_H

#include "sched.h"

enum { CHAIN_LOOK = 4 };

/* A chain in which so many took over is looked at; NULL: the choice is the global queue's. */
struct g *chain_look(struct m *mp, struct p *pp, struct g *gp, bool *inherit);
void chain_ended(struct p *pp);

/* chain_next: may be NULL where the local queue is not empty. Owner only. */
static inline struct g *chain_next(struct m *mp, struct p *pp, bool *inherit)
{
	struct g *gp = runqget(pp, inherit);

	if (*inherit) {
		if (unlikely(++pp->chain % CHAIN_LOOK == 0))
			return chain_look(mp, pp, gp, inherit);
	} else if (pp->chain > 0) {
		if (pp->chain >= CHAIN_LOOK)
			chain_ended(pp);
		pp->chain = 0;
	}
	return gp;
}

#endif
