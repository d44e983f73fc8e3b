/* The scheduler of a process at one moment, more or less: it runs on while it is read, so what
 * was read of one thing may not fit what was read of another. */
#ifndef HEDDLE_COMMAND_SCENE_H
#define HEDDLE_COMMAND_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "look.h"

/* All are numbers, in the order of these lists; addresses are the process's. */
#define SCHED_FIELDS(X)                                                                            \
	X(gomaxprocs)                                                                              \
	X(allp)                                                                                    \
	X(allg)                                                                                    \
	X(allm)                                                                                    \
	X(npidle)                                                                                  \
	X(nmspinning)                                                                              \
	X(runqsize)                                                                                \
	X(mcount)                                                                                  \
	X(nmidle)                                                                                  \
	X(softmcount)                                                                              \
	X(sysmonm)
#define G_FIELDS(X)                                                                                \
	X(goid)                                                                                    \
	X(status)                                                                                  \
	X(m)                                                                                       \
	X(lockedm)                                                                                 \
	X(waitreason)                                                                              \
	X(waitsince)                                                                               \
	X(waiton)                                                                                  \
	X(timerheap)                                                                               \
	X(timerwhen)                                                                               \
	X(sp)                                                                                      \
	X(frame)                                                                                   \
	X(stacklo)                                                                                 \
	X(stackhi)                                                                                 \
	X(host)                                                                                    \
	X(alllink)
#define M_FIELDS(X)                                                                                \
	X(id)                                                                                      \
	X(tid)                                                                                     \
	X(p)                                                                                       \
	X(curg)                                                                                    \
	X(spinning)                                                                                \
	X(blocked)                                                                                 \
	X(lockedg)                                                                                 \
	X(g0lo)                                                                                    \
	X(g0hi)                                                                                    \
	X(alllink)
#define P_FIELDS(X)                                                                                \
	X(id)                                                                                      \
	X(status)                                                                                  \
	X(m)                                                                                       \
	X(schedtick)                                                                               \
	X(runqhead)                                                                                \
	X(runqtail)                                                                                \
	X(runnext)                                                                                 \
	X(timers)                                                                                  \
	X(schedwhen)
#define THREAD_FIELDS(X)                                                                           \
	X(named)                                                                                   \
	X(main)                                                                                    \
	X(own)                                                                                     \
	X(tid)                                                                                     \
	X(wired)                                                                                   \
	X(joins)                                                                                   \
	X(fn)

#define X(name) uint64_t name;
struct sched_seen {
	SCHED_FIELDS(X)
};
struct thread_seen {
	THREAD_FIELDS(X)
};
struct g_seen {
	G_FIELDS(X)
	uint64_t at;
	struct thread_seen thread; /* of its host; zero if it has none */
	char name[32]; /* the thread's; "" if it has none */
};
struct m_seen {
	M_FIELDS(X)
	uint64_t at;
};
struct p_seen {
	P_FIELDS(X)
	uint64_t at;
};
#undef X

struct counter {
	const char *name, *text;
	uint64_t value;
};

enum { MAX_COUNTERS = 64 };

struct scene {
	struct sched_seen sched;
	struct g_seen *gs; /* those alive, in the order of their ids */
	struct m_seen *ms;
	struct p_seen *ps;
	int ngs, nms, nps;
	int ncounters;
	struct counter counters[MAX_COUNTERS];
	uint64_t now; /* CLOCK_MONOTONIC, ns */
};

/* scene_read: all of it; NULL if it cannot be read, say because the process has ended. With
 * gs false the Gs are only counted. */
struct scene *scene_read(const struct view *v, bool gs);
void scene_free(struct scene *s);

/* scene_running: the Gs that run now on the Ps of s, by address; returns how many. */
int scene_running(const struct view *v, const struct scene *s, uint64_t *gs, int room);

/* scene_again: reads anew what may have changed of g; false if it cannot. */
bool scene_again(const struct view *v, struct g_seen *g);

/* scene_age: for how long, in ns, a G has waited, or had its P; 0: not known. To some 10 ms. */
uint64_t scene_age(const struct view *v, const struct scene *s, const struct g_seen *g);

/* scene_status: G's status without the mark of a claim. scene_g, scene_m: by address; or NULL.
 * scene_host: the G of that thread's record. scene_counter: by name, 0 if there is none. */
uint64_t scene_status(const struct view *v, const struct g_seen *g);
const struct g_seen *scene_g(const struct scene *s, uint64_t at);
const struct m_seen *scene_m(const struct scene *s, uint64_t at);
const struct g_seen *scene_host(const struct scene *s, uint64_t host);
uint64_t scene_counter(const struct scene *s, const char *name);

#endif
