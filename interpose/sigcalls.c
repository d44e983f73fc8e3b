/* Signals as far as a thread's own state goes: masks, alternate stacks, what is pending for
 * it and waiting for that, and a plain pthread_kill. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "io.h"
#include "os.h"
#include "poll.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"

int signals_mask(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t want = 0, before;
	int r;

	if (set) {
		memcpy(&want, set, sizeof(want));
		want &= ~UNBLOCKABLE;
	}
	r = gsigprocmask(how, set ? &want : NULL, &before);
	if (r == 0 && set) {
		struct thread *t = thread_self();
		uint64_t lent = ld_sc(&t->lent.set) & gmask();
		signals_open(gmask());
		if (unlikely(lent != 0))
			signals_pass_on(t, lent);
		if (signals_unblocked())
			signals_run();
	}
	if (r == 0 && old)
		memcpy(old, &before, sizeof(before));
	return -r;
}

void signals_return(uint64_t mask)
{
	sigset_t set;

	/* As a rule it stays, and the kernel need not be asked. */
	if ((mask & ~UNBLOCKABLE) == gmask())
		return;
	memcpy(&set, &mask, sizeof(mask));
	signals_mask(SIG_SETMASK, &set, NULL);
}

/* As the kernel: what cannot be written is found when the mask has been set. */
static int mask_call(int how, const sigset_t *set, sigset_t *old)
{
	bool lost = old && user_writable(old, SIGSET_BYTES) != 0;
	int r;

	if (set && user_readable(set, SIGSET_BYTES) != 0)
		return EFAULT;
	r = signals_mask(how, set, lost ? NULL : old);
	return r == 0 && lost ? EFAULT : r;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!served() || !thread_self())
		return real_table.pthread_sigmask(how, set, old);
	return mask_call(how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int r;

	if (!served() || !thread_self())
		return real_table.sigprocmask(how, set, old);
	r = mask_call(how, set, old);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

/* The kernel's: the stack is set for no more than one handler, until that ends. linux/signal.h has
 * it, which does not go with signal.h. */
#define SS_AUTODISARM (1 << 31)

bool on_altstack(const struct thread *t)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0), lo = (uintptr_t)t->altstack.ss_sp;

	return t->altstack.ss_sp && !(t->altstack.ss_flags & SS_AUTODISARM) &&
	       at - lo < t->altstack.ss_size;
}

/* The kernel's least, where glibc's MINSIGSTKSZ grows with the cpu's state. */
enum { LEAST_STACK = 2048 };

/* As the kernel does. */
static long take_altstack(struct thread *t, const stack_t *stack)
{
	int mode = stack->ss_flags & ~SS_AUTODISARM;

	if (mode != 0 && mode != SS_DISABLE && mode != SS_ONSTACK)
		return -EINVAL;
	if (mode != SS_DISABLE && stack->ss_size < LEAST_STACK)
		return -ENOMEM;
	t->altstack = *stack;
	if (mode == SS_DISABLE)
		t->altstack.ss_sp = NULL;
	return 0;
}

static long set_altstack(struct thread *t, const stack_t *stack)
{
	stack_t mine;

	if (user_fetch(&mine, stack, sizeof(mine)) != 0)
		return -EFAULT;
	return on_altstack(t) ? -EPERM : take_altstack(t, &mine);
}

static stack_t altstack(const struct thread *t)
{
	static const stack_t none = { .ss_flags = SS_DISABLE };

	return t->altstack.ss_sp ? t->altstack : none;
}

stack_t altstack_begin(struct thread *t)
{
	stack_t was = altstack(t);

	if (was.ss_flags & SS_AUTODISARM)
		t->altstack.ss_sp = NULL;
	return was;
}

void altstack_end(struct thread *t, const stack_t *was)
{
	if (!on_altstack(t))
		(void)take_altstack(t, was);
}

/* The kernel's alternate stack is the M's: what the program sets is recorded. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	struct thread *t = served() ? thread_self() : NULL;
	stack_t before;
	long r = 0;

	if (!t)
		return real_table.sigaltstack(stack, old);
	before = altstack(t);
	before.ss_flags &= SS_AUTODISARM | SS_DISABLE;
	if (on_altstack(t))
		before.ss_flags |= SS_ONSTACK;
	if (stack)
		r = set_altstack(t, stack);
	/* As the kernel: when it has been set. */
	if (r == 0 && old)
		r = user_store(old, &before, sizeof(before));
	return (int)io_answer(r);
}

long signal_self(int sig)
{
	long r;

	entersyscall();
	r = arch_syscall3(SYS_tgkill, getpid(), os_gettid(), sig);
	exitsyscall();
	return r;
}

EXPORT int pthread_kill(pthread_t thread, int sig)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	siginfo_t info;

	if (!t)
		return real_table.pthread_kill(thread, sig);
	if (sig == 32 || sig == 33 || (!thread_over(t) && (sig < 0 || sig > 64)))
		return EINVAL;
	if (sig == 0 || thread_over(t))
		return 0;
	if (t == thread_self() && !(gmask() & signal_bit(sig)))
		return (int)-signal_self(sig);
	siginfo_make(&info, sig, SI_TKILL);
	return (int)-signal_thread(t, sig, &info);
}
__asm__(".symver pthread_kill, pthread_kill@@@GLIBC_2.34");

/* Of programs of before glibc 2.34, which so ask whether one has ended. Before: one that the signal
 * finds may end for it at once. */
EXPORT int old_kill(pthread_t thread, int sig);
EXPORT int old_kill(pthread_t thread, int sig)
{
	const struct thread *t = served() ? thread_of(thread) : NULL;

	if (t && thread_over(t) && sig != 32 && sig != 33)
		return ESRCH;
	return pthread_kill(thread, sig);
}
__asm__(".symver old_kill, pthread_kill@GLIBC_2.2.5");

EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
	uint64_t set;
	int r;

	if (!served())
		return real_table.signalfd(fd, mask, flags);
	r = real_table.signalfd(fd, mask, flags);
	if (r >= 0) {
		memcpy(&set, mask, sizeof(set));
		signals_shown(set);
	}
	return r;
}

EXPORT int raise(int sig)
{
	int r;

	if (!served() || !thread_self())
		return real_table.raise(sig);
	r = pthread_kill(pthread_self(), sig);
	if (r == 0)
		return 0;
	errno = r;
	return -1;
}

/* ---- pending signals ---- */

EXPORT int sigpending(sigset_t *set)
{
	struct thread *t = served() ? thread_self() : NULL;
	uint64_t more;
	int r = real_table.sigpending(set);

	if (!t || r != 0)
		return r;
	more = signals_of(t) | signals_held();
	for (int sig = 1; sig < SIGNALS; sig++)
		if ((more & signal_bit(sig)) && (gmask() & signal_bit(sig)))
			sigaddset(set, sig);
	return 0;
}

/* One of those in set that are pending here; 0: none. */
static int take_pending(struct thread *t, uint64_t set, siginfo_t *info)
{
	uint64_t held = signals_held(), mine = signals_of(t);

	for (int sig = 1; sig < SIGNALS; sig++) {
		uint64_t bit = signal_bit(sig);
		if (!(set & bit))
			continue;
		if ((mine & bit) && signal_claim(t, sig, info))
			return sig;
		if ((held & bit) && signal_unhold(sig, info))
			return sig;
	}
	return 0;
}

static long kernel_wait(uint64_t set, siginfo_t *info, const struct timespec *time)
{
	return arch_syscall4(SYS_rt_sigtimedwait, (long)&set, (long)info, (long)time, sizeof(set));
}

void signals_unfeed(struct thread *t)
{
	static const struct timespec now = { 0, 0 };

	for (int sig = 1; sig < SIGNALS && ld_rlx(&t->fed); sig++) {
		siginfo_t info;
		if (!(ld_rlx(&t->fed) & signal_bit(sig)))
			continue;
		while (kernel_wait(signal_bit(sig), &info, &now) == sig) {
			if (signal_marked(&info))
				continue;
			/* One of the process's goes back to it. */
			signal_return(sig, &info);
			break;
		}
		and_sc(&t->fed, ~signal_bit(sig));
	}
}

void sigwait_over(struct thread *t)
{
	st_sc(&t->awaits, 0);
	while (ld_sc(&t->feeders) != 0)
		os_yield();
	signals_unfeed(t);
}

/* Of a call that began at `since` with that much time: what is left. */
static struct timespec left_of_span(const struct timespec *time, uint64_t since)
{
	uint64_t gone = nanotime() - since;
	struct timespec left = { time->tv_sec - (time_t)(gone / NSEC),
				 time->tv_nsec - (long)(gone % NSEC) };

	if (left.tv_nsec < 0) {
		left.tv_nsec += NSEC;
		left.tv_sec--;
	}
	return left.tv_sec < 0 ? (struct timespec){ 0, 0 } : left;
}

/* As the kernel's, of what is pending for the thread alone, too. In an announced call. */
static long wait_fed(struct thread *t, uint64_t want, siginfo_t *info, const struct timespec *time)
{
	uint64_t since = time ? nanotime() : 0;
	uint32_t handled = ld_rlx(&t->handled);
	const struct timespec *wait = time;
	struct timespec left;

	for (;;) {
		long r = take_pending(t, want, info);
		if (r == 0)
			r = kernel_wait(want, info, wait);
		/* A nudge says no more than to look; and not every interruption is the program's.
		 */
		if (!(r > 0 && signal_marked(info)) &&
		    !(r == -EINTR && ld_rlx(&t->handled) == handled))
			return r;
		if (time) {
			left = left_of_span(time, since);
			wait = &left;
		}
	}
}

int signals_timedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time)
{
	struct thread *t = thread_self();
	siginfo_t mine;
	uint64_t want, lent;
	long r;

	if (user_readable(set, SIGSET_BYTES) != 0 ||
	    (time && user_readable(time, sizeof(*time)) != 0))
		return (int)io_answer(-EFAULT);
	memcpy(&want, set, sizeof(want));
	want &= ~UNBLOCKABLE;
	cancel_blocks(t);
	/* First said, then looked: who sends does the reverse. Announced, so that the kernel thread
	 * to which it sends is this one. */
	st_sc(&t->awaits, want);
	r = wait_fed(t, want, &mine, time);
	sigwait_over(t);
	/* What came last of all. */
	if (r == -EAGAIN) {
		int late = take_pending(t, want, &mine);
		r = late > 0 ? late : r;
	}
	/* And what came besides is not for who waits no more. */
	lent = ld_sc(&t->lent.set) & gmask();
	if (unlikely(lent != 0))
		signals_pass_on(t, lent);
	cancel_unblocks(t);
	if (r > 0)
		timer_taken(&mine);
	if (r > 0 && info && user_store(info, &mine, sizeof(mine)) != 0)
		r = -EFAULT;
	return (int)io_answer(r);
}

/* What pthread_kill and raise have sent glibc gives for what kill has. */
EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time)
{
	int r;

	if (!served() || !thread_self())
		return real_table.sigtimedwait(set, info, time);
	r = signals_timedwait(set, info, time);
	if (r > 0 && info && info->si_code == SI_TKILL)
		info->si_code = SI_USER;
	return r;
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return served() && thread_self() ? sigtimedwait(set, info, NULL)
					 : real_table.sigwaitinfo(set, info);
}

EXPORT int sigwait(const sigset_t *set, int *sig)
{
	int r;

	if (!served() || !thread_self())
		return real_table.sigwait(set, sig);
	do
		r = sigtimedwait(set, NULL, NULL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno;
	*sig = r;
	return 0;
}

/* ---- waiting for a handler ---- */

static int wait_for_handler(const sigset_t *set)
{
	struct patience p = for_ever();

	if (mask_there(set) != 0)
		return (int)io_answer(-EFAULT);
	masked(set, &p);
	st_rlx(&thread_self()->awaits_any, true);
	while (doze(NULL, 0, &p) != -EINTR)
		continue;
	unmasked(&p, -EINTR);
	st_rlx(&thread_self()->awaits_any, false);
	errno = EINTR;
	return -1;
}

EXPORT int sigsuspend(const sigset_t *set)
{
	if (!served() || !thread_self())
		return real_table.sigsuspend(set);
	cancel_point();
	return wait_for_handler(set);
}

/* What sigpause() is for programs of our time. */
EXPORT int __xpg_sigpause(int sig)
{
	sigset_t set;

	if (!served() || !thread_self())
		return real_table.__xpg_sigpause(sig);
	signals_mask(SIG_BLOCK, NULL, &set);
	if (sigdelset(&set, sig) < 0)
		return -1;
	return sigsuspend(&set);
}

EXPORT int pause(void)
{
	if (!served() || !thread_self())
		return real_table.pause();
	cancel_point();
	return wait_for_handler(NULL);
}

/* ---- jumps ---- */

/* Out of a handler, as a rule: the mask comes with the jump, and past pthread_sigmask. The C
 * library would set it once more. */
static struct __jmp_buf_tag *with_mask_set(struct __jmp_buf_tag *env, struct __jmp_buf_tag *own)
{
	uint64_t mask;

	if (!env->__mask_was_saved || !thread_self())
		return env;
	memcpy(&mask, &env->__saved_mask, sizeof(mask));
	signals_return(mask);
	*own = *env;
	own->__mask_was_saved = 0;
	return own;
}

EXPORT void siglongjmp(sigjmp_buf env, int value)
{
	struct __jmp_buf_tag own;

	if (served())
		env = with_mask_set(env, &own);
	real_table.siglongjmp(env, value);
	__builtin_unreachable();
}

EXPORT void longjmp(jmp_buf env, int value)
{
	siglongjmp(env, value);
}

EXPORT void _longjmp(jmp_buf env, int value)
{
	siglongjmp(env, value);
}

EXPORT void __longjmp_chk(jmp_buf env, int value)
{
	struct __jmp_buf_tag own;

	if (served())
		env = with_mask_set(env, &own);
	real_table.__longjmp_chk(env, value);
	__builtin_unreachable();
}

SAME(__sigsuspend, sigsuspend);
