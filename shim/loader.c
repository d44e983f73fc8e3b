/* See loader.h. Owns the knowledge of where the lock is: that of the mutexes in the loader's data
 * that a thread holds while it walks, and not after. Where none is found a child of a fork takes it
 * for lost. Refuses to hold it over a fork: who has what glibc's fork waits for may want it. */
#include "loader.h"

#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "early.h"
#include "guard.h"
#include "harvest.h"
#include "lookup.h"
#include "mode.h"
#include "real.h"
#include "thread.h"

EARLY static pthread_mutex_t *list, *loads; /* glibc's */
EARLY static bool lost;

/* Written by every walk: on a cache line that nobody else reads. */
EARLY static struct {
	/* Ours walk one at a time: none takes another for a stranger. */
	_Alignas(64) ATOMIC(uint32_t) alone;
	ATOMIC(uint32_t) walkers, forkers; /* how many */
} now;

/* A program may have one of its own in front of it, with a lock of its own. */
int loader_walk(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	EARLY static int (*walk)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	void *at;

	if (!walk) {
		at = lookup_next("dl_iterate_phdr");
		memcpy(&walk, &at, sizeof(at));
	}
	return walk(fn, arg);
}

/* ---- where it is ---- */

enum { MOST = 8 };

struct search {
	uintptr_t lo, hi;
	pthread_mutex_t *held[MOST];
	int n;
};

static int note_held(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)info;
	(void)size;
	for (uintptr_t at = s->lo; at + sizeof(*list) <= s->hi && s->n < MOST;
	     at += sizeof(void *)) {
		pthread_mutex_t *m = (pthread_mutex_t *)at;
		if (m->__data.__lock == 1 && m->__data.__count == 1 &&
		    m->__data.__owner == tid_self() &&
		    m->__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP)
			s->held[s->n++] = m;
	}
	return 1;
}

void loader_init(void)
{
	void *data = lookup_next("_rtld_global");
	struct search s = { .lo = (uintptr_t)data };

	if (!data)
		return;
	s.hi = s.lo + lookup_size("_rtld_global", data);
	loader_walk(note_held, &s);
	for (int i = 0; i < s.n && !list; i++)
		if (s.held[i]->__data.__lock == 0 && s.held[i]->__data.__owner == 0)
			list = s.held[i];
	/* glibc has the two side by side. */
	if (list && (uintptr_t)(list - 1) >= s.lo &&
	    list[-1].__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP)
		loads = list - 1;
}

/* ---- walks ---- */

static void walked(void)
{
	add_sc(&now.walkers, (uint32_t)-1);
	if (unlikely(ld_sc(&now.forkers) != 0))
		futex_wake(&now.walkers, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static bool take(bool between)
{
	if (between && loads && real_table.pthread_mutex_trylock(loads) != 0)
		return false;
	if (!list || real_table.pthread_mutex_trylock(list) == 0)
		return true;
	if (between && loads)
		real_table.pthread_mutex_unlock(loads);
	return false;
}

/* Either counts itself, and then looks for the other: sequentially consistent, so that a walker
 * goes without, or the forker waits. */
bool loader_take(bool between)
{
	if (lost)
		return false;
	add_sc(&now.walkers, 1);
	if (!unlikely(ld_sc(&now.forkers) != 0)) {
		guard_lock(&now.alone);
		if (take(between))
			return true;
		guard_unlock(&now.alone);
	}
	walked();
	return false;
}

void loader_letgo(bool between)
{
	if (list)
		real_table.pthread_mutex_unlock(list);
	if (between && loads)
		real_table.pthread_mutex_unlock(loads);
	guard_unlock(&now.alone);
	walked();
}

/* ---- forks ---- */

/* Nothing is held meanwhile: a handler may run, and fork. */
void loader_forks(void)
{
	uint32_t n;

	add_sc(&now.forkers, 1);
	while ((n = ld_sc(&now.walkers)) != 0)
		futex_wait(&now.walkers, n, (uint32_t)FUTEX_ANY, NULL, 0);
}

/* It is 0 already where a handler forked meanwhile, in that child. */
void loader_forked(void)
{
	uint32_t n;

	do
		n = ld_sc(&now.forkers);
	while (n != 0 && !cas_sc(&now.forkers, n, n - 1));
}

/* None of ours held it. If nobody else did the list is whole, and stays so: here is one thread. */
void loader_child(bool threads)
{
	st_rlx(&now.walkers, 0);
	st_rlx(&now.forkers, 0);
	if (!list)
		lost = lost || threads;
	else if (real_table.pthread_mutex_trylock(list) == 0)
		real_table.pthread_mutex_unlock(list);
	else
		lost = true;
}

bool loader_lost(void)
{
	return lost;
}
