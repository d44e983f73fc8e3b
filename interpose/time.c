/* Sleeping, and points in time as the program gives them. */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "cpuclock.h"
#include "futex.h"
#include "os.h"
#include "sleep.h"
#include "thread.h"
#include "user.h"

enum { NSEC = 1000000000, TICK_NS = 4 * 1000 * 1000 };

bool valid_nsec(const struct timespec *at)
{
	return at->tv_nsec >= 0 && at->tv_nsec < NSEC;
}

int deadline_of(struct deadline *d, clockid_t clock, const struct timespec *at)
{
	if (!valid_nsec(at))
		return EINVAL;
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	d->clock = clock;
	/* Before the epoch: over. Beyond what fits: never. */
	if (at->tv_sec < 0)
		d->at = 0;
	else if ((uint64_t)at->tv_sec >= INT64_MAX / NSEC)
		d->at = INT64_MAX;
	else
		d->at = (uint64_t)at->tv_sec * NSEC + (uint64_t)at->tv_nsec;
	return 0;
}

static struct timespec timespec_of(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / NSEC), .tv_nsec = (long)(ns % NSEC) };
	return t;
}

/* The clocks by which a G can sleep. */
static bool can_sleep_by(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
	       clock == CLOCK_TAI;
}

/* Returns 0, EINTR or EINVAL. */
static int sleep_until(clockid_t clock, uint64_t at)
{
	struct thread *t = thread_self();
	uint32_t handled = ld_rlx(&t->handled);
	int r;

	/* One that is interrupted for nothing goes on. */
	do {
		cancel_begin();
		r = gosleep(clock, at);
		cancel_end();
	} while (r == -EINTR && ld_rlx(&t->handled) == handled);
	return -r;
}

/* of: whose cpu time it is, if anybody's. */
static uint64_t now_by(struct thread *of, clockid_t clock)
{
	return of ? cpu_clock(of, clock) : os_clock(clock);
}

/* Another thread's cpu time goes on by no more than time does. Once it has ended it does not. */
static int sleep_by(struct thread *of, clockid_t clock, uint64_t at)
{
	pid_t tid = of ? of->tid : 0;
	uint64_t now;
	int r = 0;

	if (!of)
		return sleep_until(clock, at);
	while (r == 0 && ((now = cpu_clock(of, clock)) < at || of->tid != tid)) {
		uint64_t left = now < at ? at - now : 0;
		r = sleep_until(CLOCK_MONOTONIC, nanotime() + (left > TICK_NS ? left : TICK_NS));
	}
	return r;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *left)
{
	struct deadline d;
	struct thread *of;
	uint64_t now;
	int r;

	if (!served() || !thread_self() || clock == CLOCK_THREAD_CPUTIME_ID)
		return real_table.clock_nanosleep(clock, flags, time, left);
	/* Also of one that the kernel refuses. */
	cancel_point();
	of = cpu_owner(clock);
	if (of == thread_self())
		return EINVAL;
	if (!of && !can_sleep_by(clock))
		return real_table.clock_nanosleep(clock, flags, time, left);
	if (user_readable(time, sizeof(*time)) != 0)
		return EFAULT;
	if (time->tv_sec < 0)
		return EINVAL;
	r = deadline_of(&d, CLOCK_MONOTONIC, time);
	if (r != 0)
		return r;
	if (flags & TIMER_ABSTIME)
		return sleep_by(of, clock, d.at);
	/* A span is the same by either clock, and the monotonic one cannot be set. */
	if (clock == CLOCK_REALTIME)
		clock = CLOCK_MONOTONIC;
	now = now_by(of, clock);
	d.at = d.at > INT64_MAX - now ? INT64_MAX : now + d.at;
	r = sleep_by(of, clock, d.at);
	if (r == EINTR && left) {
		struct timespec rest;
		now = now_by(of, clock);
		rest = timespec_of(d.at > now ? d.at - now : 0);
		if (user_store(left, &rest, sizeof(rest)) != 0)
			r = EFAULT;
	}
	return r;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
	int r;

	if (!served() || !thread_self())
		return real_table.nanosleep(time, left);
	r = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

EXPORT int usleep(useconds_t us)
{
	struct timespec t = timespec_of((uint64_t)us * 1000);

	if (!served() || !thread_self())
		return real_table.usleep(us);
	return nanosleep(&t, NULL);
}

EXPORT unsigned sleep(unsigned s)
{
	struct timespec t = { .tv_sec = (time_t)s }, left = { 0 };
	int r;

	if (!served() || !thread_self())
		return real_table.sleep(s);
	r = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left);
	if (r == 0)
		return 0;
	errno = r;
	return (unsigned)left.tv_sec;
}

/* So many yields to others of ours are one to other kernel threads, if those run some of ours. */
enum { KERNEL_EVERY = 32 };

EXPORT int sched_yield(void)
{
	struct thread *t = served() ? thread_self() : NULL;

	/* To those of its priority; and these the kernel knows. */
	if (!t || (unlikely(t->wired) && (t->policy == SCHED_FIFO || t->policy == SCHED_RR)))
		return real_table.sched_yield();
	/* Whom it waits for may run on another kernel thread, or be about to, if the kernel lets
	 * it: with more of them than cpus to be had, a spinner would use up its time first; and
	 * so would several that yield to each other. */
	if (!gosched() || unlikely(t->wired) ||
	    unlikely(++t->yields % KERNEL_EVERY == 0 && core_othersrun())) {
		entersyscall();
		real_table.sched_yield();
		exitsyscall();
	}
	return 0;
}

/* For programs of before glibc 2.34: exports.sh. */
EXPORT int old_yield(void);
EXPORT int old_yield(void)
{
	return sched_yield();
}
__asm__(".symver old_yield, pthread_yield@GLIBC_2.2.5");
