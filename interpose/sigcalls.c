/* Signals as far as a thread's own state goes: masks, alternate stacks, and a plain
 * pthread_kill. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "os.h"
#include "sleep.h"
#include "syscall.h"
#include "thread.h"

static int mask(int how, const sigset_t *set, sigset_t *old)
{
	/* The kernel's own that glibc keeps for itself. */
	enum { RESERVED = 3, FIRST_RESERVED = 31 };
	uint64_t want = 0, before;
	int r;

	if (set) {
		memcpy(&want, set, sizeof(want));
		want &= ~((uint64_t)RESERVED << FIRST_RESERVED);
	}
	r = gsigprocmask(how, set ? &want : NULL, &before);
	if (r == 0 && old)
		memcpy(old, &before, sizeof(before));
	return -r;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!served() || !thread_self())
		return real_table.pthread_sigmask(how, set, old);
	return mask(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int r;

	if (!served() || !thread_self())
		return real_table.sigprocmask(how, set, old);
	r = mask(how, set, old);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

/* The kernel's alternate stack is the M's: what the program sets is recorded. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	struct thread *t = served() ? thread_self() : NULL;

	if (!t)
		return real_table.sigaltstack(stack, old);
	if (old)
		*old = t->altstack;
	if (!stack)
		return 0;
	if (stack->ss_flags & ~(SS_DISABLE | SS_ONSTACK)) {
		errno = EINVAL;
		return -1;
	}
	if (!(stack->ss_flags & SS_DISABLE) && stack->ss_size < (size_t)MINSIGSTKSZ) {
		errno = ENOMEM;
		return -1;
	}
	t->altstack = *stack;
	return 0;
}

/* To its own process: the caller takes it, if it does not block it; so it is delivered before
 * the call returns, as it would be if the caller were the only one to take it. */
EXPORT int kill(pid_t pid, int sig)
{
	long r;

	if (!served() || !thread_self() || pid != getpid() || sig <= 0 || sig > 64 ||
	    (gmask() >> (sig - 1) & 1))
		return real_table.kill(pid, sig);
	r = arch_syscall3(SYS_tgkill, pid, os_gettid(), sig);
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
}

EXPORT int pthread_kill(pthread_t thread, int sig)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	pid_t pid = getpid();
	int32_t tid;

	if (!t)
		return real_table.pthread_kill(thread, sig);
	if (sig < 0 || sig > 64 || sig == 32 || sig == 33)
		return EINVAL;
	if (sig == 0 || (ld_acq(&t->life) & FINISHED))
		return 0;
	tid = t == thread_self() ? os_gettid() : gtid(t->gp);
	if (tid != 0)
		return (int)-arch_syscall3(SYS_tgkill, pid, tid, sig);
	/* Asleep or queued: its handler runs as it does. */
	or_sc(&t->signals, (uint64_t)1 << (sig - 1));
	gnotify(t->gp);
	/* It may have begun to run before it could see that. */
	tid = gtid(t->gp);
	if (tid != 0 && (and_sc(&t->signals, ~((uint64_t)1 << (sig - 1))) >> (sig - 1) & 1))
		return (int)-arch_syscall3(SYS_tgkill, pid, tid, sig);
	return 0;
}
