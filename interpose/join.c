/* Joining and detaching. The word `life` decides who takes back a thread that has ended: the
 * one that joins, the one that detaches, or the thread itself if it was detached before. Those that
 * did not come along in a fork have ended, and nothing of them is taken back. */
#include <errno.h>

#include "futex.h"
#include "thread.h"

static int may_join(struct thread *self, struct thread *t)
{
	uint32_t life;

	do {
		life = ld_acq(&t->life);
		if ((life & (FINISHED | JOINED)) == (FINISHED | JOINED))
			return ESRCH;
		if (life & DETACHED)
			return EINVAL;
		/* A circle, unless a cancellation is to break it: of the other, or of this one
		 * here. */
		if (self &&
		    (t == self ||
		     (ld_acq(&t->joins) == self && !(ld_acq(&t->cancel) & (CANCELED | EXITING)))) &&
		    (ld_acq(&self->cancel) & (CANCELED | DISABLED | EXITING)) != CANCELED)
			return EDEADLK;
		/* Somebody else joins it. */
		if (life & JOINED)
			return EINVAL;
	} while (!cas_sc(&t->life, life, life | JOINED));
	return 0;
}

/* The thread may be joined by another. */
static void join_cancelled(struct thread *self, struct thread *t)
{
	st_rlx(&self->joins, NULL);
	and_sc(&t->life, ~(uint32_t)JOINED);
	cancel_point();
}

static int join(pthread_t thread, void **result, const struct deadline *deadline)
{
	struct thread *self = thread_self(), *t = thread_known(thread);
	bool here = thread_here(t);
	int r;

	r = may_join(self, t);
	if (r != 0)
		return r;
	if (!here && !(or_sc(&t->life, FINISHED) & FINISHED))
		t->result = NULL;
	/* As in glibc, only a wait is a point of cancellation. Acquire: pairs with the or of
	 * thread_finish, as below. */
	if (self && !thread_over(t)) {
		st_rlx(&self->joins, t);
		cancel_announce(self);
		if (cancel_pending())
			join_cancelled(self, t);
	}
	for (;;) {
		uint32_t life = ld_acq(&t->life);
		if (life & FINISHED)
			break;
		r = futex_wait(&t->life, life, (uint32_t)FUTEX_ANY, deadline, 0);
		if (r == -ETIMEDOUT)
			break;
		if (r == -EINTR && cancel_pending())
			join_cancelled(self, t);
	}
	if (self) {
		st_rlx(&self->interruptible, 0);
		st_rlx(&self->joins, NULL);
	}
	if (!thread_over(t)) {
		and_sc(&t->life, ~(uint32_t)JOINED);
		return ETIMEDOUT;
	}
	if (result)
		*result = t->result;
	if (here && !t->main)
		thread_free(t);
	cancel_over();
	return 0;
}

EXPORT int pthread_join(pthread_t t, void **result)
{
	if (!served() || !thread_known(t))
		return real_table.pthread_join(t, result);
	return join(t, result, NULL);
}

EXPORT int pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock,
				const struct timespec *until)
{
	struct timespec at;
	struct deadline d;
	bool valid;
	int r;

	if (!served() || !thread_known(t))
		return real_table.pthread_clockjoin_np(t, result, clock, until);
	if (!until)
		return join(t, result, NULL);
	/* glibc tries a time that is none again and again, but for one before the epoch. */
	valid = valid_nsec(until);
	at = (struct timespec){ until->tv_sec, valid ? until->tv_nsec : 0 };
	r = deadline_of(&d, clock, &at);
	if (r != 0)
		return r;
	return join(t, result, valid || at.tv_sec < 0 ? &d : NULL);
}

EXPORT int pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *until)
{
	return pthread_clockjoin_np(t, result, CLOCK_REALTIME, until);
}

EXPORT int pthread_tryjoin_np(pthread_t thread, void **result)
{
	struct thread *t = served() ? thread_known(thread) : NULL;

	if (!t)
		return real_table.pthread_tryjoin_np(thread, result);
	if (thread_here(t) && !thread_over(t))
		return EBUSY;
	return join(thread, result, NULL);
}

EXPORT int pthread_detach(pthread_t thread)
{
	struct thread *t = served() ? thread_known(thread) : NULL;
	uint32_t before;

	if (!t)
		return real_table.pthread_detach(thread);
	do {
		before = ld_acq(&t->life);
		if ((before & (FINISHED | JOINED)) == (FINISHED | JOINED))
			return ESRCH;
		if (before & DETACHED)
			return EINVAL;
		/* Who joins takes it back, and must find it: as in glibc nothing is done. */
		if (before & JOINED)
			return 0;
	} while (!cas_sc(&t->life, before, before | DETACHED));
	if ((before & FINISHED) && !t->main && thread_here(t))
		thread_free(t);
	return 0;
}
