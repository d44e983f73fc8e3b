/* The debug build's checks. debuglevel comes from HEDDLE_DEBUG: 1 checks what is at
 * hand, 2 also walks whole structures at each schedule() and draws every choice of the
 * scheduler from the seed. */
#ifndef HEDDLE_DCHECK_H
#define HEDDLE_DCHECK_H

struct m;
struct mutex;

extern int debuglevel __attribute__((visibility("hidden")));

#define DCHECK(id, cond) CHECK(id, cond)

/* dcheck_schedule: walks what mp's view allows: its P, its queue, the idle lists, the
 * global queue. On g0, with no lock held. */
void dcheck_schedule(struct m *mp);

/* The order of locks: told of each one taken and let go. */
void lockrank_push(struct mutex *l);
void lockrank_pop(struct mutex *l);

#endif
