/* syscall(): some numbers have an answer that is a thread's, and some the road of the function of
 * that name; futexes are rawfutex.c's; the rest is announced. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "cpuclock.h"
#include "cputimer.h"
#include "fd.h"
#include "loader.h"
#include "mode.h"
#include "mutex.h"
#include "os.h"
#include "preempt.h"
#include "rawfutex.h"
#include "rawwait.h"
#include "segments.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

/* Younger than some headers. */
enum {
	IORING_SETUP_SINGLE_ISSUER_ = 1 << 12,
	IORING_REGISTER_RING_FDS_ = 20,
	IORING_REGISTER_USE_REGISTERED_RING_ = 1u << 31,
	SYS_pidfd_send_signal_ = 424,
	SYS_futex_waitv_ = 449,
};

static long answer(long r)
{
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* A ring may be one thread's alone, and then knows it by its kernel thread: its maker's, or who
 * enables it. */
static long ring_setup(struct thread *t, const long *a)
{
	const struct io_uring_params *params = (const void *)a[1];
	enum { MAKERS = IORING_SETUP_SINGLE_ISSUER_, ASK = MAKERS | IORING_SETUP_R_DISABLED };
	bool wired = t->wired;
	long r;

	thread_tie(t, WIRED_RING);
	r = arch_syscall3(SYS_io_uring_setup, a[0], a[1], 0);
	if (!wired && (r < 0 || (params->flags & ASK) != MAKERS))
		thread_unwire(t);
	return r;
}

static void ring_register(struct thread *t, uint32_t op)
{
	op &= ~IORING_REGISTER_USE_REGISTERED_RING_;
	/* Numbers of rings that are a kernel thread's own. */
	if (op == IORING_REGISTER_RING_FDS_ || op == IORING_REGISTER_ENABLE_RINGS)
		thread_tie(t, WIRED_RING);
}

static long robust_list(const struct thread *t, void *head, void *size)
{
	static const size_t bytes = ROBUST_HEAD_BYTES;
	long r = user_store(size, &bytes, sizeof(bytes));

	return r ? r : user_store(head, &t->harvest.robust, sizeof(t->harvest.robust));
}

/* Calls whose answer is the thread's, and would be another's from its kernel thread. False:
 * it is none of them. */
static bool thread_call(struct thread *t, long nr, long *a, long *r)
{
	*r = 0;
	switch (nr) {
	case SYS_gettid:
	case SYS_set_tid_address:
		*r = t->tid;
		return true;
	case SYS_sched_yield:
		sched_yield();
		return true;
	case SYS_get_robust_list:
		if (a[0] != 0 && a[0] != t->tid)
			return false;
		*r = robust_list(t, (void *)a[1], (void *)a[2]);
		return true;
	case SYS_set_robust_list:
		if (a[1] != ROBUST_HEAD_BYTES)
			return false;
		robust_set(t, (struct robust_list_head *)a[0]);
		return !t->owns;
	case SYS_rseq:
		/* The area would follow the kernel thread. */
		*r = -ENOSYS;
		return true;
	case SYS_tkill:
		return signal_tid((pid_t)a[0], (int)a[1], r);
	case SYS_tgkill:
		return (pid_t)a[0] == getpid() && signal_tid((pid_t)a[1], (int)a[2], r);
	case SYS_rt_tgsigqueueinfo:
		return (pid_t)a[0] == getpid() &&
		       signal_tid_info((pid_t)a[1], (int)a[2], (const siginfo_t *)a[3], r);
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setfsuid:
	case SYS_setfsgid:
	case SYS_setgroups:
	case SYS_setns:
	case SYS_seccomp:
	case SYS_ioprio_set:
	case SYS_set_mempolicy:
	case SYS_landlock_restrict_self:
	case SYS_keyctl:
	case SYS_add_key:
	case SYS_request_key:
		/* The kernel means a kernel thread. */
		state_changes(t, nr, a);
		return false;
	case SYS_perf_event_open:
		/* It counts what a kernel thread does. */
		if ((pid_t)a[1] == t->tid)
			a[1] = 0;
		if ((pid_t)a[1] == 0)
			thread_spoil(t, WIRED_STATE);
		return false;
	case SYS_io_uring_setup:
		*r = ring_setup(t, a);
		return true;
	case SYS_io_uring_register:
		ring_register(t, (uint32_t)a[1]);
		return false;
	case SYS_execve:
	case SYS_execveat:
		exec_begins();
		*r = arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], 0);
		exec_failed(t);
		return true;
	case SYS_exit:
		thread_vanish(t);
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_getrusage:
		return cpu_call(nr, a, r);
	case SYS_sched_setattr:
	case SYS_sched_getattr:
	case SYS_sched_setaffinity:
	case SYS_sched_getaffinity:
		return policy_call(nr, a, r);
	default:
		return false;
	}
}

/* Calls that go the road of the function of that name, which answers as syscall() does. False: it
 * is none of them. Here those that make, change and end descriptors; rawwait.c's wait for some. */
static bool number_call(long nr, const long *a, long *r)
{
	switch (nr) {
	case SYS_close:
		*r = close((int)a[0]);
		return true;
	case SYS_close_range:
		*r = close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
		return true;
	case SYS_dup:
		*r = dup((int)a[0]);
		return true;
	case SYS_dup2:
		*r = dup2((int)a[0], (int)a[1]);
		return true;
	case SYS_dup3:
		*r = dup3((int)a[0], (int)a[1], (int)a[2]);
		return true;
	case SYS_fcntl:
		*r = fcntl((int)a[0], (int)a[1], a[2]);
		return true;
	case SYS_ioctl:
		*r = ioctl((int)a[0], (unsigned long)a[1], a[2]);
		return true;
	default:
		return false;
	}
}

/* The kernel's struct sigaction. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

enum { SA_RESTORER_ = 0x04000000 };

static long raw_sigaction(int sig, long act, long old)
{
	struct sigaction mine = { 0 }, before;
	struct kernel_action k;

	if (act) {
		if (user_fetch(&k, (const void *)act, sizeof(k)) != 0)
			return -EFAULT;
		mine.sa_handler = k.handler;
		mine.sa_flags = (int)(k.flags & ~(unsigned long)SA_RESTORER_);
		memcpy(&mine.sa_mask, &k.mask, sizeof(k.mask));
	}
	if (sigaction(sig, act ? &mine : NULL, &before) != 0)
		return -errno;
	if (!old)
		return 0;
	/* Its return from handlers, for who gives the same back. */
	memset(&k, 0, sizeof(k));
	arch_syscall4(SYS_rt_sigaction, sig, 0, (long)&k, SIGSET_BYTES);
	k.handler = before.sa_handler;
	k.flags = (k.flags & SA_RESTORER_) | (unsigned)before.sa_flags;
	memcpy(&k.mask, &before.sa_mask, sizeof(k.mask));
	return user_store((void *)old, &k, sizeof(k));
}

/* Those about signals. */
static bool signal_call(long nr, const long *a, long *r)
{
	switch (nr) {
	case SYS_kill:
		*r = kill((pid_t)a[0], (int)a[1]);
		return true;
	case SYS_rt_sigqueueinfo:
		*r = signal_queue_raw((pid_t)a[0], (int)a[1], (const void *)a[2]);
		return true;
	case SYS_pidfd_send_signal_:
		*r = pidfd_send_signal((int)a[0], (int)a[1], (siginfo_t *)a[2], (unsigned)a[3]);
		return true;
	case SYS_rt_sigaction:
		if (a[3] != SIGSET_BYTES || a[0] == 32 || a[0] == 33)
			return false;
		*r = answer(raw_sigaction((int)a[0], a[1], a[2]));
		return true;
	case SYS_rt_sigprocmask:
		if (a[3] != SIGSET_BYTES)
			return false;
		*r = sigprocmask((int)a[0], (const sigset_t *)a[1], (sigset_t *)a[2]);
		return true;
	case SYS_rt_sigpending:
		if (a[1] != SIGSET_BYTES)
			return false;
		*r = sigpending((sigset_t *)a[0]);
		return true;
	case SYS_rt_sigtimedwait:
		if (a[3] != SIGSET_BYTES)
			return false;
		*r = signals_timedwait((const sigset_t *)a[0], (siginfo_t *)a[1],
				       (const struct timespec *)a[2]);
		return true;
	case SYS_rt_sigsuspend:
		if (a[1] != SIGSET_BYTES)
			return false;
		*r = sigsuspend((const sigset_t *)a[0]);
		return true;
	case SYS_pause:
		*r = pause();
		return true;
	case SYS_signalfd:
	case SYS_signalfd4:
		if (a[2] != SIGSET_BYTES)
			return false;
		*r = signalfd((int)a[0], (const sigset_t *)a[1],
			      nr == SYS_signalfd4 ? (int)a[3] : 0);
		return true;
	case SYS_sigaltstack:
		*r = sigaltstack((const stack_t *)a[0], (stack_t *)a[1]);
		return true;
	default:
		return false;
	}
}

/* The kernel knows none of our tids, and by 0 it would take the kernel thread that we are on. */
static bool policy_of_any(long nr, const long *a, long *r)
{
	switch (nr) {
	case SYS_sched_setscheduler:
		*r = sched_setscheduler((pid_t)a[0], (int)a[1], (const struct sched_param *)a[2]);
		return true;
	case SYS_sched_getscheduler:
		*r = sched_getscheduler((pid_t)a[0]);
		return true;
	case SYS_sched_setparam:
		*r = sched_setparam((pid_t)a[0], (const struct sched_param *)a[1]);
		return true;
	case SYS_sched_getparam:
		*r = sched_getparam((pid_t)a[0], (struct sched_param *)a[1]);
		return true;
	case SYS_sched_rr_get_interval:
		*r = sched_rr_get_interval((pid_t)a[0], (struct timespec *)a[1]);
		return true;
	default:
		return false;
	}
}

static bool function_call(long nr, const long *a, long *r)
{
	return raw_wait(nr, a, r) || number_call(nr, a, r) || signal_call(nr, a, r) ||
	       state_call(nr, a, r) || policy_of_any(nr, a, r);
}

/* The functions are points of cancellation, and syscall() is not, but for an asynchronous one. A
 * handler that runs meanwhile sets it aside (sighandler.c). */
static bool uncancelled_call(struct thread *t, long nr, const long *a, long *r)
{
	bool served;

	if (ld_rlx(&t->cancel) & ASYNC)
		return function_call(nr, a, r);
	st_rlx(&t->uncancelled, true);
	served = function_call(nr, a, r);
	st_rlx(&t->uncancelled, false);
	return served;
}

static bool clone3_shares(const void *args)
{
	uint64_t flags = 0;

	/* What cannot be read is the kernel's to refuse. */
	return user_fetch(&flags, args, sizeof(flags)) != 0 || (flags & CLONE_VM) != 0;
}

/* A process of its own, which is made with no hook of glibc's. */
static bool makes_process(long nr, const long *a)
{
	switch (nr) {
	case SYS_fork:
		return true;
	case SYS_clone:
		return !(a[0] & CLONE_VM);
	case SYS_clone3:
		return a[0] && !clone3_shares((const void *)a[0]);
	default:
		return false;
	}
}

static long make_process(long nr, const long *a)
{
	struct thread *t = process_making(true);
	long r;

	process_forking();
	loader_forks();
	r = arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r == 0)
		heddle_forked();
	else
		loader_forked();
	process_made(t, (pid_t)r);
	process_forked();
	return r;
}

/* A child that has this thread's memory must not find it announced. */
static bool shares_memory(long nr)
{
	return nr == SYS_clone || nr == SYS_clone3 || nr == SYS_vfork;
}

EXPORT long syscall(long nr, ...)
{
	struct thread *t = served() ? thread_self() : NULL;
	uint32_t handled;
	long a[6], r;
	bool ours = false;
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (nr == SYS_futex && served() && (a[1] & FUTEX_PRIVATE_FLAG)) {
		r = private_futex(a, &ours);
		if (ours)
			return answer(r);
	}
	if (nr == SYS_futex_waitv_ && served())
		futex_waits_on_many();
	if (served() && makes_process(nr, a))
		return answer(make_process(nr, a));
	/* Also before there is a second thread. */
	if (nr == SYS_pkey_alloc && served())
		core_keys();
	if (nr == SYS_arch_prctl && served())
		segments_ask(a[0]);
	state_kept(nr, a);
	if (!t && served() && number_call(nr, a, &r))
		return r;
	if (!t && served() && timer_call(nr, a, &r))
		return answer(r);
	if (shares_memory(nr))
		return answer(arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
	/* In glibc's text, which a program may have told the kernel to let pass. */
	if (!t) {
		if (nr == SYS_landlock_restrict_self && served())
			heddle_shuts_in();
		r = real_table.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (r == 0 && state_sets_filter(nr, a))
			state_filters();
		return r;
	}
	if (thread_call(t, nr, a, &r) || timer_call(nr, a, &r))
		return answer(r);
	if (uncancelled_call(t, nr, a, &r))
		return r;
	handled = ld_rlx(&t->handled);
	/* A signal 32 that was on its way when the call was announced is none of the program's. */
	do {
		entersyscall();
		r = arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		exitsyscall();
	} while (r == -EINTR && ld_rlx(&t->handled) == handled);
	return answer(r);
}
