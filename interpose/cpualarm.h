/* What the two halves of cputimer.h share: the records. */
#ifndef HEDDLE_CPUALARM_H
#define HEDDLE_CPUALARM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cputimer.h"
#include "thread.h"

enum { NONE = -1 };

/* A thread, whose record may be another's by now; or a kernel thread that is none of ours. */
struct who {
	struct thread *t;
	pid_t tid;
};

struct cputimer {
	struct cputimer *next; /* of all that there were; never taken off */
	ATOMIC(int) number; /* NONE: it is free */

	/* Under the lock. */
	struct who of, to;
	clockid_t clock;
	int notify, sig;
	union sigval value;
	uint64_t at, every; /* by that clock; at 0: it is not set */

	/* Its signal was given to the kernel, and nobody was seen to take it; what it missed since.
	 */
	ATOMIC(bool) given;
	ATOMIC(uint32_t) missed;

	/* What sysmon looks at: the cpu time of gp at which it may be due; 0: never. */
	ATOMIC(struct g *) gp;
	ATOMIC(uint64_t) alarm;
	ATOMIC(uint32_t) sets; /* how often there was another */

	/* Sysmon's: of the alarm of seen: before until it need not look; what gp had used then, and
	 * whether that was more than before. */
	uint32_t seen;
	uint64_t until, used;
	bool goeson;
};

/* Of all that there were. Without the lock. */
static inline struct cputimer *cputimer_find(int number)
{
	struct cputimer *c = number != NONE ? ld_acq(&cputimers) : NULL;

	while (c && ld_acq(&c->number) != number)
		c = c->next;
	return c;
}

static inline bool who_lives(const struct who *who)
{
	return who->t && who->t->tid == who->tid && !(ld_acq(&who->t->life) & FINISHED);
}

/* The first of the times at or after now, which is one of those that it rings at. */
static inline uint64_t times_since(const struct cputimer *c, uint64_t now)
{
	return c->every ? (now - c->at) / c->every : 0;
}

/* cputimer_watch: it is now by its clock; least: so much its thread is to use before it may ring.
 * Locked. cpualarm_forked: in a child. */
void cputimer_watch(struct cputimer *c, uint64_t now, uint64_t least);
void cpualarm_forked(void);

#endif
