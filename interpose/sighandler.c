/* Where the program's handlers run. Ours stands before each: if the signal finds a G in the
 * program's code its handler runs there and then. If it finds the scheduler, on a stack and
 * a thread block that are none of the program's, the signal is put off to a thread kept
 * for that; whichever thread the kernel picked, it was the process that was meant.
 * Owns the table of handlers. Refuses SIG_DFL and SIG_IGN, which are the kernel's. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "futex.h"
#include "os.h"
#include "preempt.h"
#include "sleep.h"
#include "syscall.h"
#include "thread.h"

enum { SIGNALS = 65 };

typedef void plain(int);
typedef void full(int, siginfo_t *, void *);

/* Of each signal what the program set; read in handlers. */
static struct action {
	ATOMIC(plain *) handler;
	ATOMIC(uint32_t) flags;
} actions[SIGNALS];

/* Put off: one of each number, as pending signals are, and what came with it. */
static struct {
	ATOMIC(uint64_t) set;
	siginfo_t info[SIGNALS];
	ATOMIC(uint32_t) wake; /* futex word of the thread that runs them */
} off;

static void run_handler(int sig, siginfo_t *info, void *uc)
{
	plain *handler = ld_acq(&actions[sig].handler);
	struct thread *t = thread_self();
	full *fn;

	if (t && !(ld_rlx(&actions[sig].flags) & SA_RESTART))
		st_rlx(&t->norestart, true);
	if (t && ld_rlx(&t->masked))
		gnotify_self();
	if (!handler)
		return;
	if (ld_rlx(&actions[sig].flags) & SA_SIGINFO) {
		memcpy(&fn, &handler, sizeof(fn));
		fn(sig, info, uc);
	} else {
		handler(sig);
	}
}

static void on_signal(int sig, siginfo_t *info, void *uc)
{
	int saved = errno;

	switch (core_sigplace()) {
	case SIGPLACE_PROGRAM:
		run_handler(sig, info, uc);
		break;
	case SIGPLACE_CALL:
		/* The handler may call the core, which this G has left. */
		exitsyscall();
		run_handler(sig, info, uc);
		entersyscall();
		break;
	case SIGPLACE_CORE:
		off.info[sig] = *info;
		if (gself_in_core()) {
			/* As soon as it has left the core. */
			or_sc(&thread_self()->signals, (uint64_t)1 << (sig - 1));
			gnotify_self();
			return;
		}
		/* Release: pairs with the acquire in run_put_off. */
		or_sc(&off.set, (uint64_t)1 << (sig - 1));
		core_sigdefer();
		return;
	}
	errno = saved;
}

bool signals_restart(void)
{
	struct thread *t = thread_self();

	return t && !xchg_acq(&t->norestart, false);
}

/* On the G itself: what was sent to it while it could not take it. With what came with the
 * last of that number, where it was a signal that we saw. */
void signals_run(void)
{
	struct thread *t = thread_self();
	uint64_t set = xchg_acq(&t->signals, 0);

	for (int sig = 1; sig < SIGNALS; sig++) {
		siginfo_t info = off.info[sig];
		if (!(set >> (sig - 1) & 1))
			continue;
		if (info.si_signo != sig) {
			info.si_signo = sig;
			info.si_code = SI_TKILL;
			info.si_pid = getpid();
			info.si_uid = getuid();
		}
		arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), os_gettid(), sig, (long)&info);
	}
}

void signals_wake(void)
{
	add_sc(&off.wake, 1);
	futex_wake(&off.wake, 1, (uint32_t)FUTEX_ANY, 0);
}

/* To the first thread, which the kernel would have chosen, and which programs expect to be
 * interrupted: where it runs or is blocked in the kernel; or as soon as it runs. */
static bool to_first(int sig)
{
	struct thread *first = thread_first();
	uint64_t bit = (uint64_t)1 << (sig - 1);
	int32_t tid = gtid(first->gp);

	if ((ld_acq(&first->life) & FINISHED) || (gmask_of(first->gp) & bit))
		return false;
	if (tid != 0 && arch_syscall3(SYS_tgkill, getpid(), tid, sig) == 0)
		return true;
	or_sc(&first->signals, bit);
	gnotify(first->gp);
	return true;
}

void *signals_thread(void *arg)
{
	(void)arg;
	for (;;) {
		uint32_t word = ld_acq(&off.wake);
		uint64_t set = xchg_acq(&off.set, 0);
		for (int sig = 1; sig < SIGNALS; sig++) {
			siginfo_t info;
			ucontext_t uc;
			if (!(set >> (sig - 1) & 1))
				continue;
			info = off.info[sig];
			memset(&uc, 0, sizeof(uc));
			if (!to_first(sig))
				run_handler(sig, &info, &uc);
		}
		if (set == 0)
			futex_wait(&off.wake, word, (uint32_t)FUTEX_ANY, NULL, 0);
	}
	return NULL;
}

static bool ours(const struct sigaction *act)
{
	return (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == on_signal;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction mine, before;
	plain *handler;
	uint32_t flags;
	int r;

	if (!served() || sig <= 0 || sig >= SIGNALS)
		return real_table.sigaction(sig, act, old);
	handler = ld_rlx(&actions[sig].handler);
	flags = ld_rlx(&actions[sig].flags);
	if (act) {
		mine = *act;
		if (act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN) {
			st_rlx(&actions[sig].flags, (uint32_t)act->sa_flags);
			/* Release: pairs with the acquire in run_handler. */
			st_rel(&actions[sig].handler, act->sa_handler);
			mine.sa_sigaction = on_signal;
			mine.sa_flags |= SA_SIGINFO;
			/* The alternate stack is the M's, which a handler that is put to sleep
			 * cannot keep; only an overflown stack has no other way. */
			if (sig != SIGSEGV && sig != SIGBUS)
				mine.sa_flags &= ~SA_ONSTACK;
		}
	}
	r = real_table.sigaction(sig, act ? &mine : NULL, &before);
	if (r == 0 && old) {
		*old = before;
		if (ours(&before)) {
			old->sa_handler = handler;
			old->sa_flags = (int)flags;
		}
	}
	return r;
}

static plain *set_plain(int sig, plain *handler, int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (!(flags & SA_NODEFER))
		sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
}

EXPORT plain *signal(int sig, plain *handler)
{
	return served() ? set_plain(sig, handler, SA_RESTART) : real_table.signal(sig, handler);
}

EXPORT plain *bsd_signal(int sig, plain *handler)
{
	return signal(sig, handler);
}

EXPORT plain *ssignal(int sig, plain *handler)
{
	return signal(sig, handler);
}

EXPORT plain *__sysv_signal(int sig, plain *handler)
{
	return served() ? set_plain(sig, handler, (int)(SA_RESETHAND | SA_NODEFER))
			: real_table.__sysv_signal(sig, handler);
}

EXPORT plain *sysv_signal(int sig, plain *handler)
{
	return __sysv_signal(sig, handler);
}
