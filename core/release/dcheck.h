/* No debug checks: the twin of debug/dcheck.h. */
#ifndef HEDDLE_DCHECK_H
#define HEDDLE_DCHECK_H

struct m;
struct mutex;

enum { debuglevel = 0 };

#define DCHECK(id, cond) ((void)sizeof(cond))

static inline void dcheck_schedule(struct m *mp)
{
	(void)mp;
}

static inline void lockrank_push(struct mutex *l)
{
	(void)l;
}

static inline void lockrank_pop(struct mutex *l)
{
	(void)l;
}

#endif
