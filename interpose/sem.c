/* Semaphores, private to the process, in glibc's layout: the value in the low half of a word,
 * the number of waiters in the high half. Shared and named ones are glibc's own. */
#include <errno.h>
#include <limits.h>
#include <semaphore.h>

#include "futex.h"
#include "thread.h"

struct sem {
	ATOMIC(uint64_t) data;
	int shared;
	int pad;
};

#define WAITER ((uint64_t)1 << 32)
#define LOW(s) ((ATOMIC(uint32_t) *)&(s)->data)

static struct sem *sem_of(sem_t *s)
{
	return (struct sem *)(void *)s;
}

static bool try_take(struct sem *s, uint64_t waiters)
{
	uint64_t d = ld_rlx(&s->data);

	while ((uint32_t)d != 0) {
		/* Acquire: pairs with the release in sem_post. */
		if (cas_acq(&s->data, d, d - 1 - waiters))
			return true;
		d = ld_rlx(&s->data);
	}
	return false;
}

static int take_slow(struct sem *s, const struct deadline *deadline)
{
	struct thread *t = thread_self();
	/* As the kernel has it, which restarts no wait that has a deadline. */
	ATOMIC(uint32_t) *ends = !t ? NULL : deadline ? &t->handled : &t->stopped;
	uint32_t ended = ends ? ld_rlx(ends) : 0;
	int r;

	cancel_begin();
	add_sc(&s->data, WAITER);
	for (;;) {
		if (t)
			waits_anew(t);
		if (try_take(s, WAITER)) {
			r = 0;
			break;
		}
		r = futex_wait(LOW(s), 0, (uint32_t)FUTEX_ANY, deadline, 0);
		if (r == -EINTR && ends && !cancel_pending() && ld_rlx(ends) == ended)
			continue;
		if (r == -ETIMEDOUT || r == -EINTR) {
			add_sc(&s->data, -WAITER);
			break;
		}
	}
	/* What was taken is the caller's: a cancellation waits for the next point. */
	if (r == 0) {
		cancel_over();
		return 0;
	}
	cancel_end();
	errno = -r;
	return -1;
}

static int shared_wait(sem_t *s, clockid_t clock, const struct timespec *until)
{
	bool g = thread_self() != NULL;
	int r;

	cancel_point();
	if (real_table.sem_trywait(s) == 0)
		return 0;
	if (g)
		cancel_enter(s);
	r = until ? real_table.sem_clockwait(s, clock, until) : real_table.sem_wait(s);
	if (g)
		cancel_leave();
	return r;
}

EXPORT GIVES int sem_wait(sem_t *sem)
{
	struct sem *s = sem_of(sem);

	if (!served())
		return real_table.sem_wait(sem);
	if (s->shared)
		return shared_wait(sem, 0, NULL);
	cancel_point();
	return try_take(s, 0) ? 0 : take_slow(s, NULL);
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	struct sem *s = sem_of(sem);
	struct deadline d;
	int r;

	if (!served())
		return real_table.sem_clockwait(sem, clock, until);
	/* Before the look, as glibc has it: a time or clock that is none is an error always. */
	r = deadline_of(&d, clock, until);
	if (r != 0) {
		errno = r;
		return -1;
	}
	if (s->shared)
		return shared_wait(sem, clock, until);
	cancel_point();
	return try_take(s, 0) ? 0 : take_slow(s, &d);
}

EXPORT int sem_timedwait(sem_t *sem, const struct timespec *until)
{
	if (!served())
		return real_table.sem_timedwait(sem, until);
	return sem_clockwait(sem, CLOCK_REALTIME, until);
}

EXPORT GIVES int sem_trywait(sem_t *sem)
{
	if (!served() || sem_of(sem)->shared)
		return real_table.sem_trywait(sem);
	if (try_take(sem_of(sem), 0))
		return 0;
	errno = EAGAIN;
	return -1;
}

EXPORT GIVES int sem_post(sem_t *sem)
{
	struct sem *s = sem_of(sem);
	uint64_t d;

	if (!served() || s->shared)
		return real_table.sem_post(sem);
	do {
		d = ld_rlx(&s->data);
		if ((uint32_t)d == SEM_VALUE_MAX) {
			errno = EOVERFLOW;
			return -1;
		}
		/* Release: pairs with the acquire in try_take. The object may be gone after. */
	} while (!cas_rel(&s->data, d, d + 1));
	if (d >= WAITER)
		futex_wake(LOW(s), 1, (uint32_t)FUTEX_ANY, 0);
	released();
	return 0;
}
