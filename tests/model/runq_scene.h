/* What the runq scenarios have in common. Read stage.h first. */
#ifndef HEDDLE_MODEL_RUNQ_SCENE_H
#define HEDDLE_MODEL_RUNQ_SCENE_H

#include "stage.h"

enum { GS = 8, PS = 3 };

extern struct p ps[PS];
extern struct g gs[GS];
#define p0 (&ps[0])
#define p1 (&ps[1])
#define p2 (&ps[2])

/* begin: first call of a TEST; the indices of all rings stand at `at`. fill: p0 holds the
 * first n Gs before the threads start; nput: how many are put that way. */
void begin(uint32_t at);
void fill(int n);
extern int nput;

/* On threads. put: the G of that number, with its field written, into p0. get: from p0.
 * steal: into pp. keep: what was got counts as run on pp, and its field must be visible. */
void put(int i, bool next);
void get(void);
void steal(struct p *pp, struct p *victim, bool next);
void keep(struct p *pp, struct g *gp);
extern struct g *took[PS][GS];
extern int ntook[PS];

/* Thieves: once from p0; _all_: runnext too. */
void steal_into_p1(void *arg);
void steal_into_p2(void *arg);
void steal_all_into_p1(void *arg);
void steal_all_into_p2(void *arg);

/* all_there: each of the first n Gs was taken once, or lies in one place. check: the same for
 * nall, as model_finally wants it. */
void all_there(int n);
void check(void);
extern int nall;

#endif
