/* Condition variables, private to the process. A waiter is in the queue before it lets go of
 * the mutex, so a signal needs no sequence number and wakes exactly one; the object holds
 * the number of those in the queue and nothing else of ours, and a waiter that was woken
 * does not touch it again, so that it may be destroyed at once. A broadcast wakes one and
 * moves the others to the mutex; and so does a signal with its one, if the caller holds that.
 *
 * Process-shared ones are in condshared.c. Which they are, and their clock, is read from the
 * word where glibc's pthread_cond_init puts it: found by looking, once. */
#include <errno.h>
#include <string.h>

#include "condshared.h"
#include "futex.h"
#include "mutex.h"
#include "thread.h"

/* In no header, but glibc has them for all time. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*fn)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

enum { WORDS = sizeof(pthread_cond_t) / sizeof(uint32_t) };

#define COUNT(c) ((ATOMIC(uint32_t) *)(c))

static struct {
	ATOMIC(bool) known;
	int word;
	uint32_t shared, monotonic;
} flags;

static uint32_t flag_of(int *word, bool shared)
{
	union {
		pthread_cond_t cond;
		uint32_t words[WORDS];
	} u;
	pthread_condattr_t attr;

	memset(&u, 0, sizeof(u));
	pthread_condattr_init(&attr);
	if (shared)
		pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	else
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	real_table.pthread_cond_init(&u.cond, &attr);
	pthread_condattr_destroy(&attr);
	for (*word = WORDS - 1; *word > 0 && u.words[*word] == 0; --*word)
		continue;
	return u.words[*word];
}

static void find_flags(void)
{
	int word;
	uint32_t shared = flag_of(&word, true), monotonic = flag_of(&word, false);

	flags.shared = shared;
	flags.monotonic = monotonic;
	flags.word = word;
	st_rel(&flags.known, true);
}

static inline uint32_t flags_of(const pthread_cond_t *c)
{
	if (unlikely(!ld_acq(&flags.known)))
		find_flags();
	return ((const uint32_t *)c)[flags.word];
}

static bool is_shared(const pthread_cond_t *c)
{
	return (flags_of(c) & flags.shared) != 0;
}

struct letgo {
	pthread_mutex_t *m;
	uint32_t depth;
	bool away; /* from the wait, in handlers */
	struct _pthread_cleanup_buffer left;
};

static ATOMIC(uint32_t) *letgo(void *arg)
{
	struct letgo *l = arg;

	return mutex_letgo(l->m, &l->depth);
}

/* A handler has ended the thread, or jumps out of the wait. glibc's wait has the mutex again then,
 * and who cleans up after it lets go of that. */
static void leaves(void *arg)
{
	struct letgo *l = arg;

	l->away = false;
	queue_forget(l);
	mutex_getback(l->m, l->depth, false);
}

/* What interrupts it is a handler, or a cancellation. By glibc's list of those frames whose end it
 * sees to: longjmp goes by it, too. A thread that is not ours glibc cancels, where it waits. */
static bool among(void *arg, enum queue_among now)
{
	struct letgo *l = arg;

	if (now == QUEUE_LEAVES) {
		l->away = true;
		_pthread_cleanup_push(&l->left, leaves, l);
	} else if (now == QUEUE_INTERRUPTED) {
		real_table.pthread_testcancel();
	} else {
		_pthread_cleanup_pop(&l->left, 0);
		l->away = false;
	}
	return !cancel_pending();
}

/* An exception may leave a handler, too, past that list: natively without the mutex. */
static void letgo_over(struct letgo *l)
{
	if (unlikely(l->away))
		queue_forget(l);
}

static int private_wait(pthread_cond_t *c, pthread_mutex_t *m, const struct deadline *deadline)
{
	struct letgo l __attribute__((cleanup(letgo_over))) = { .m = m };
	struct thread *t = thread_self();
	int r = mutex_may_wait(m), back;
	bool chained = false;

	if (r != 0)
		return r;
	/* Of a time before the epoch glibc knows without waiting. */
	if (likely(!deadline || deadline->at != 0))
		cancel_begin();
	/* Whoever holds it still is not to wait for it. */
	r = queue_wait(COUNT(c), deadline, false, letgo, among, &l,
		       mutex_nested(m) ? NULL : mutex_word(m), &chained);
	if (t)
		st_rlx(&t->interruptible, 0);
	back = mutex_getback(m, l.depth, chained);
	/* Only a wait that it ended: one that was woken has taken a signal. */
	if (r == -EINTR)
		cancel_point();
	else
		cancel_over();
	return back ? back : r == -ETIMEDOUT ? ETIMEDOUT : 0;
}

EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (!served())
		return real_table.pthread_cond_wait(c, m);
	return is_shared(c) ? cond_shared_wait(c, m, 0, NULL) : private_wait(c, m, NULL);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				  const struct timespec *until)
{
	struct deadline d;
	int r;

	if (!served())
		return real_table.pthread_cond_clockwait(c, m, clock, until);
	if (is_shared(c))
		return cond_shared_wait(c, m, clock, until);
	r = deadline_of(&d, clock, until);
	return r ? r : private_wait(c, m, &d);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *until)
{
	if (!served())
		return real_table.pthread_cond_timedwait(c, m, until);
	return pthread_cond_clockwait(
		c, m, flags_of(c) & flags.monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

EXPORT GIVES int pthread_cond_signal(pthread_cond_t *c)
{
	if (!served())
		return real_table.pthread_cond_signal(c);
	if (is_shared(c))
		return cond_shared_wake(c, false);
	/* Acquire: a waiter counts itself before it lets go of the mutex. */
	if (ld_acq(COUNT(c)) != 0)
		queue_pass(COUNT(c), mutex_keeps);
	released();
	return 0;
}

EXPORT GIVES int pthread_cond_broadcast(pthread_cond_t *c)
{
	if (!served())
		return real_table.pthread_cond_broadcast(c);
	if (is_shared(c))
		return cond_shared_wake(c, true);
	if (ld_acq(COUNT(c)) != 0)
		queue_wakeall(COUNT(c), mutex_keeps);
	released();
	return 0;
}

EXPORT int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	served();
	return real_table.pthread_cond_init(c, attr);
}

EXPORT int pthread_cond_destroy(pthread_cond_t *c)
{
	if (!served() || is_shared(c))
		return real_table.pthread_cond_destroy(c);
	/* One whose time ran out may be about to leave. */
	while (ld_acq(COUNT(c)) != 0)
		sched_yield();
	return 0;
}
