/* Timers of POSIX: those that are for one thread, or go by its time; what each one's signals
 * missed. */
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "cpuclock.h"
#include "cputimer.h"
#include "io.h"
#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

/* The kernel has counted what a timer's signal missed until a kernel thread took it, and where it
 * was pending since the others are counted with it: so what timer_getoverrun tells is what came
 * with the last that the program heard of. Of each number: plus one, and how many. */
enum { TIMERS = 1024 };
static ATOMIC(uint64_t) overruns[TIMERS];

static ATOMIC(uint64_t) *overrun_of(int timer)
{
	return &overruns[(unsigned)timer % TIMERS];
}

void timer_taken(siginfo_t *info)
{
	if (info->si_code != SI_TIMER)
		return;
	cputimer_taken(info);
	st_rlx(overrun_of(info->si_timerid),
	       ((uint64_t)(uint32_t)info->si_timerid + 1) << 32 | (uint32_t)info->si_overrun);
}

/* The kernel's number; -1: it begins threads, and glibc has it. */
static int number_of(timer_t timer)
{
	intptr_t n = (intptr_t)timer;

	return n >= 0 && n <= INT_MAX ? (int)n : -1;
}

/* r is what the kernel knows. */
static long getoverrun(int number, long r)
{
	uint64_t last = number >= 0 ? ld_rlx(overrun_of(number)) : 0;

	return r >= 0 && last >> 32 == (uint64_t)number + 1 ? (int)(uint32_t)last : r;
}

/* Its expirations are for one kernel thread: the caller's, t, which keeps it. */
static void keep(struct thread *t, struct sigevent *event)
{
	thread_spoil(t, WIRED_TIMER);
	event->_sigev_un._tid = os_gettid();
}

static bool for_thread(const struct sigevent *event, pid_t tid)
{
	return event && event->sigev_notify == SIGEV_THREAD_ID && event->_sigev_un._tid == tid;
}

/* By the first thread, before there is a second: its kernel thread is to stay its own. */
static void made_early(clockid_t clock, const struct sigevent *event)
{
	if (cpu_ofthread(clock) || for_thread(event, os_gettid()))
		wire_first();
}

/* Its number or -errno. t: who calls, or NULL; *event may be changed. */
static long create(struct thread *t, clockid_t clock, struct sigevent *event)
{
	struct thread *of = cpu_owner(clock);
	int number;
	long r;

	if (of) {
		r = cputimer_create(of, clock, event);
	} else {
		if (t && for_thread(event, t->tid))
			keep(t, event);
		r = arch_syscall3(SYS_timer_create, clock, (long)event, (long)&number);
		r = r < 0 ? r : number;
	}
	/* Nobody has heard of it yet, whatever had its number before. */
	if (r >= 0)
		st_rlx(overrun_of((int)r), 0);
	return r;
}

static long drop(int number)
{
	cputimer_deletes(number);
	return arch_syscall3(SYS_timer_delete, number, 0, 0);
}

/* What it has sent before, and is on its way to this thread, comes before the call is over:
 * natively it has come, or never does. */
static long deleted(long r)
{
	if (thread_self() && signals_unblocked())
		signals_run();
	return r;
}

static long create_raw(struct thread *t, clockid_t clock, const struct sigevent *event, int *to)
{
	struct sigevent mine;
	long r;
	int number;

	if (event && user_fetch(&mine, event, sizeof(mine)) != 0)
		return -EFAULT;
	if (!t)
		made_early(clock, event ? &mine : NULL);
	r = create(t, clock, event ? &mine : NULL);
	if (r < 0)
		return r;
	number = (int)r;
	r = user_store(to, &number, sizeof(number));
	if (r != 0)
		drop(number);
	return r;
}

/* What it missed is counted anew. */
static long set_anew(int number, long r)
{
	if (r == 0 && number >= 0)
		st_rlx(overrun_of(number), 0);
	return r;
}

static long settime_raw(int number, int flags, const struct itimerspec *to, struct itimerspec *was)
{
	long r;

	if (!cputimer_settime(number, flags, to, was, &r))
		r = arch_syscall4(SYS_timer_settime, number, flags, (long)to, (long)was);
	return set_anew(number, r);
}

bool timer_call(long nr, const long *a, long *r)
{
	int number = (int)a[0];

	switch (nr) {
	case SYS_timer_create:
		*r = create_raw(thread_self(), (clockid_t)a[0], (const struct sigevent *)a[1],
				(int *)a[2]);
		return true;
	case SYS_timer_settime:
		*r = settime_raw(number, (int)a[1], (const struct itimerspec *)a[2],
				 (struct itimerspec *)a[3]);
		return true;
	case SYS_timer_gettime:
		if (!cputimer_gettime(number, (struct itimerspec *)a[1], r))
			*r = arch_syscall3(nr, number, a[1], 0);
		return true;
	case SYS_timer_getoverrun:
		*r = getoverrun(number, arch_syscall3(nr, number, 0, 0));
		return true;
	case SYS_timer_delete:
		*r = deleted(drop(number));
		return true;
	default:
		return false;
	}
}

/* ---- by glibc's names ---- */

/* Of one that begins a thread each time, by the time of the caller. */
static int create_threads(struct thread *t, clockid_t clock, struct sigevent *event, timer_t *timer)
{
	if (cpu_owner(clock) == t) {
		thread_spoil(t, WIRED_TIMER);
		clock = CLOCK_THREAD_CPUTIME_ID;
	}
	return real_table.timer_create(clock, event, timer);
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	struct thread *t = io_self();
	struct sigevent mine;
	long r;

	if (!t) {
		made_early(clock, event);
		return real_table.timer_create(clock, event, timer);
	}
	if (event && event->sigev_notify == SIGEV_THREAD)
		return create_threads(t, clock, event, timer);
	if (event)
		mine = *event;
	r = create(t, clock, event ? &mine : NULL);
	if (r < 0)
		return (int)io_answer(r);
	*timer = (timer_t)(intptr_t)r;
	return 0;
}

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *to,
			 struct itimerspec *was)
{
	bool ours = served();
	int number = number_of(timer);
	long r;

	if (ours && cputimer_settime(number, flags, to, was, &r))
		r = io_answer(r);
	else
		r = real_table.timer_settime(timer, flags, to, was);
	return (int)(ours ? set_anew(number, r) : r);
}

EXPORT int timer_gettime(timer_t timer, struct itimerspec *is)
{
	long r;

	if (!served() || !cputimer_gettime(number_of(timer), is, &r))
		return real_table.timer_gettime(timer, is);
	return (int)io_answer(r);
}

EXPORT int timer_getoverrun(timer_t timer)
{
	bool ours = served();
	int r = real_table.timer_getoverrun(timer);

	return ours ? (int)getoverrun(number_of(timer), r) : r;
}

EXPORT int timer_delete(timer_t timer)
{
	if (!served())
		return real_table.timer_delete(timer);
	cputimer_deletes(number_of(timer));
	return (int)deleted(real_table.timer_delete(timer));
}
