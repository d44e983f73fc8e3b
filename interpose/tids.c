/* The numbers of threads, as gettid says them; calls that name a thread by one, or send to one a
 * signal with a value; timers. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpuclock.h"
#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

enum { LAST_TID = (1 << 30) - 1 /* what fits into a mutex beside the flags */ };

static ATOMIC(int32_t) lasttid = FIRST_TID;

void thread_number(struct thread *t)
{
	int32_t tid = add_rlx(&lasttid, 1);

	t->tid = tid <= LAST_TID ? tid : FIRST_TID + tid % (LAST_TID - FIRST_TID);
	cpu_forgotten(t);
}

struct thread *thread_numbered(pid_t tid)
{
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct thread *t = ghost_of(gp);
		if (t && t->tid == tid && !gdead(gp) && !(ld_acq(&t->life) & FINISHED))
			return t;
	}
	return NULL;
}

struct thread *thread_by_tid(pid_t tid)
{
	return served() && thread_self() ? thread_numbered(tid) : NULL;
}

bool signal_tid(pid_t tid, int sig, long *r)
{
	struct thread *t = thread_by_tid(tid);

	if (t)
		*r = -pthread_kill(t->harvest.thread, sig);
	return t != NULL;
}

EXPORT int tgkill(pid_t pid, pid_t tid, int sig)
{
	long r;

	if (!served() || pid != getpid() || !signal_tid(tid, sig, &r))
		return real_table.tgkill(pid, tid, sig);
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
}

bool signal_tid_info(pid_t tid, int sig, const siginfo_t *info, long *r)
{
	struct thread *t = thread_by_tid(tid);
	siginfo_t copy = { 0 };

	if (!t)
		return false;
	if (user_fetch(&copy, info, SIGINFO_BYTES) != 0) {
		*r = -EFAULT;
		return true;
	}
	if (sig <= 0 || sig > 64 || sig == 32 || sig == 33) {
		*r = sig == 0 ? 0 : -EINVAL;
		return true;
	}
	copy.si_signo = sig;
	*r = signal_thread(t, sig, &copy);
	return true;
}

EXPORT int pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	siginfo_t info;

	if (!t)
		return real_table.pthread_sigqueue(thread, sig, value);
	if (sig < 0 || sig > 64 || sig == 32 || sig == 33)
		return EINVAL;
	if (sig == 0 || (ld_acq(&t->life) & FINISHED))
		return 0;
	siginfo_make(&info, sig, SI_QUEUE);
	info.si_value = value;
	return (int)-signal_thread(t, sig, &info);
}

/* ---- timers ---- */

/* The kernel has counted what a timer's signal missed until a kernel thread took it, and where it
 * was pending since the others are counted with it: so what timer_getoverrun tells is what came
 * with the last that the program heard of. Of each number: plus one, and how many. */
enum { TIMERS = 1024 };
static ATOMIC(uint64_t) overruns[TIMERS];

static ATOMIC(uint64_t) *overrun_of(int timer)
{
	return &overruns[(unsigned)timer % TIMERS];
}

void timer_taken(const siginfo_t *info)
{
	if (info->si_code == SI_TIMER)
		st_rlx(overrun_of(info->si_timerid), ((uint64_t)(uint32_t)info->si_timerid + 1)
								     << 32 |
							     (uint32_t)info->si_overrun);
}

/* The kernel's number; -1: it begins threads, and glibc has it. */
static int number_of(timer_t timer)
{
	intptr_t n = (intptr_t)timer;

	return n >= 0 && n <= INT_MAX ? (int)n : -1;
}

EXPORT int timer_getoverrun(timer_t timer)
{
	bool ours = served();
	int n = number_of(timer), r = real_table.timer_getoverrun(timer);
	uint64_t last = ours && n >= 0 ? ld_rlx(overrun_of(n)) : 0;

	return r >= 0 && last >> 32 == (uint64_t)n + 1 ? (int)(uint32_t)last : r;
}

static int create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	int r = real_table.timer_create(clock, event, timer), n = r == 0 ? number_of(*timer) : -1;

	/* Nobody has heard of it yet, whatever had its number before. */
	if (n >= 0)
		st_rlx(overrun_of(n), 0);
	return r;
}

/* It is by the cpu time of one kernel thread, or its expirations are for one: the caller's, which
 * it keeps. */
EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	struct thread *t = served() ? thread_self() : NULL;
	struct sigevent mine;

	if (cpu_isown(clock)) {
		thread_spoil(t, WIRED_TIMER);
		clock = CLOCK_THREAD_CPUTIME_ID;
	}
	if (!t || !event || event->sigev_notify != SIGEV_THREAD_ID ||
	    event->_sigev_un._tid != t->tid)
		return create(clock, event, timer);
	mine = *event;
	thread_spoil(t, WIRED_TIMER);
	mine._sigev_un._tid = os_gettid();
	return create(clock, &mine, timer);
}
