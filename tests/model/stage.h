/* The stage on which runq.c and futex.c act: the parts of the scheduler around them, as small
 * as their contracts in sched.h, os.h and lock.h allow. Read stage.c, then a scenario. */
#ifndef HEDDLE_MODEL_STAGE_H
#define HEDDLE_MODEL_STAGE_H

#include "model.h"
#include "sched.h"

enum { ACTORS = 5 };

/* A G with an M and a P of its own, on a model thread. */
struct actor {
	struct g g;
	struct m m;
	struct p p;
	bool late; /* its deadline has passed */
	int readied; /* times */
};

extern struct actor actors[ACTORS];

/* stage_begin: everything anew. First call in each TEST. */
void stage_begin(void);

/* stage_g: a thread that is a G; actors[i] in the order of the calls. stage_foreign: one that
 * is a kernel thread of its own. */
struct g *stage_g(const char *name, void (*fn)(void *), void *arg);
void stage_foreign(const char *name, void (*fn)(void *), void *arg);

/* stage_parked: a condition for model_until: that G has been parked, in full. */
bool stage_parked(const void *gp);

/* Set by the scenario after stage_begin. */
extern bool stage_nomem; /* timers cannot be had */
extern int stage_signals; /* that many sleeps of foreign threads may end by a signal */
extern void (*stage_unlocking)(struct mutex *l); /* called with l still held */

/* What happened. */
extern struct g *stage_order[16]; /* who was readied, in order */
extern int stage_nready, stage_handoffs;

#endif
