/* The cpu time of Gs. Until somebody asks for one's, sysmon's looks are all there is to go by; from
 * then on each switch charges the G that it leaves, on the road of the trace's events: what is off
 * costs them nothing. */
#ifndef HEDDLE_CPUTIME_H
#define HEDDLE_CPUTIME_H

#include <stdint.h>

struct g;
struct m;

/* cputime_begin: of one that begins to be. cputime_forked: in the child of a fork nobody has asked
 * yet. */
void cputime_begin(struct g *gp);
void cputime_forked(void);

/* cputime_charge: what mp's kernel thread has used since the last time is gp's; NULL: nobody's.
 * Context: on mp, pinned or on its g0. */
void cputime_charge(struct m *mp, struct g *gp);

/* cputime_looked: mp is found to run gp at now. */
void cputime_looked(struct m *mp, struct g *gp, uint64_t now);

#endif
