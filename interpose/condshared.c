/* Process-shared condition variables: glibc's own, in announced calls. With a mutex of ours, which
 * glibc must not touch, a waiter gives glibc a stand-in: a mutex of glibc's, by the address of
 * the condition variable, known in this process only.
 *
 *   waiter: locks the stand-in            signaller: has locked and unlocked the program's mutex
 *           unlocks the program's mutex              locks the stand-in: waits for glibc's wait
 *           glibc's wait: is counted as a            signals: finds the waiter
 *           waiter, unlocks the stand-in
 *
 * Another process cannot lock the program's mutex, so it could not know either that somebody
 * waits. */
#include "condshared.h"

#include "core.h"
#include "futex.h"
#include "mutex.h"
#include "thread.h"

enum { STANDINS = 64 };

static struct standin {
	pthread_mutex_t m;
	ATOMIC(uint32_t) waiters; /* here or about to be */
} standins[STANDINS];

static struct standin *standin_of(const pthread_cond_t *c)
{
	return &standins[((uintptr_t)c * 0x9e3779b97f4a7c15u) >> 58];
}

static int real_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
		     const struct timespec *until)
{
	return until ? real_table.pthread_cond_clockwait(c, m, clock, until)
		     : real_table.pthread_cond_wait(c, m);
}

/* A time before the epoch, of which glibc knows without waiting. */
static bool ends_at_once(const struct timespec *until)
{
	return until && until->tv_sec < 0;
}

static int announced_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
			  const struct timespec *until)
{
	int r;

	if (!thread_self() || ends_at_once(until))
		return real_wait(c, m, clock, until);
	cancel_enter(c);
	r = real_wait(c, m, clock, until);
	cancel_leave();
	return r;
}

struct swapped {
	struct standin *standin;
	pthread_mutex_t *m;
	uint32_t depth;
};

/* Also when the thread is cancelled: glibc has locked the stand-in again. */
static void swap_back(struct swapped *s)
{
	real_table.pthread_mutex_unlock(&s->standin->m);
	add_sc(&s->standin->waiters, (uint32_t)-1);
	mutex_getback(s->m, s->depth, false);
}

int cond_shared_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
		     const struct timespec *until)
{
	ATOMIC(uint32_t) *wake;
	struct deadline d;
	int r = until ? deadline_of(&d, clock, until) : 0;

	/* In this order, as glibc. */
	if (r == 0)
		r = mutex_may_wait(m);
	if (r != 0)
		return r;
	if (!ends_at_once(until))
		cancel_point();
	if (!mutex_word(m))
		return announced_wait(c, m, clock, until);
	struct swapped s __attribute__((cleanup(swap_back))) = { standin_of(c), m, 0 };
	add_sc(&s.standin->waiters, 1);
	real_table.pthread_mutex_lock(&s.standin->m);
	wake = mutex_letgo(m, &s.depth);
	if (wake)
		futex_wake(wake, 1, (uint32_t)FUTEX_ANY, 0);
	return announced_wait(c, &s.standin->m, clock, until);
}

int cond_shared_wake(pthread_cond_t *c, bool all)
{
	struct standin *s = standin_of(c);
	/* Who waits with our mutex counted itself before it let go of it. */
	bool lock = ld_sc(&s->waiters) != 0;
	int r;

	if (lock)
		real_table.pthread_mutex_lock(&s->m);
	r = all ? real_table.pthread_cond_broadcast(c) : real_table.pthread_cond_signal(c);
	if (lock)
		real_table.pthread_mutex_unlock(&s->m);
	return r;
}
