/* The numbers of threads, as gettid says them; calls that name a thread by one, or send to one a
 * signal with a value. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpuclock.h"
#include "cputimer.h"
#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"

enum { LAST_TID = (1 << 30) - 1 /* what fits into a mutex beside the flags */ };

static ATOMIC(int32_t) lasttid = FIRST_TID;

static inline void number(struct thread *t)
{
	int32_t tid = add_rlx(&lasttid, 1);

	t->forks = ld_rlx(&once_forks);
	t->tid = tid <= LAST_TID ? tid : FIRST_TID + tid % (LAST_TID - FIRST_TID);
	cpu_forgotten(t);
}

/* No timer rings for whoever had the record before. */
static __attribute__((noinline)) void number_unrung(struct thread *t)
{
	uint64_t mask = cputimers_enter();

	number(t);
	cputimers_leave(mask);
}

void thread_number(struct thread *t)
{
	if (unlikely(ld_acq(&cputimers) != NULL))
		number_unrung(t);
	else
		number(t);
}

struct thread *thread_numbered(pid_t tid)
{
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct thread *t = ghost_of(gp);
		if (t && t->tid == tid && !gdead(gp) && !thread_over(t))
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
	if (thread_over(t))
		return ESRCH;
	if (sig < 0 || sig > 64 || sig == 32 || sig == 33)
		return EINVAL;
	if (sig == 0)
		return 0;
	siginfo_make(&info, sig, SI_QUEUE);
	info.si_value = value;
	return (int)-signal_thread(t, sig, &info);
}
