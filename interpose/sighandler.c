/* Where the program's handlers run. Ours stands before each: if the signal finds a G in the
 * program's code its handler runs there and then. If it finds the scheduler, on a stack and
 * a thread block that are none of the program's, a G that is on its way into or out of the
 * core takes it when it has left it; else sigroute.c finds another thread.
 * Owns the table of handlers. Refuses SIG_DFL and SIG_IGN, which are the kernel's. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "cputimer.h"
#include "fd.h"
#include "fdowner.h"
#include "lookup.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "wire.h"

/* Of the flags that the kernel has from glibc, which tells it who asks. */
enum { RESTORER = 0x04000000 };

typedef void plain(int);
typedef void full(int, siginfo_t *, void *);

/* Whose handlers they are: a child of vfork sets its own, and has this memory. */
static pid_t home;

/* Of each signal what the program set; read in handlers. */
static struct action {
	ATOMIC(plain *) handler;
	ATOMIC(uint32_t) flags;
	ATOMIC(uint64_t) mask;
} actions[SIGNALS];

/* The handler of sig; one that was to run but once goes to one who asks. The kernel does not hear
 * of that before the next signal comes: a late nudge would be one to it. */
static plain *take_handler(int sig)
{
	plain *handler = ld_acq(&actions[sig].handler);

	if (!(ld_rlx(&actions[sig].flags) & (uint32_t)SA_RESETHAND) || !handler)
		return handler;
	return cas_acq(&actions[sig].handler, handler, SIG_DFL) ? handler : SIG_DFL;
}

static void run_handler(int sig, siginfo_t *info, void *uc)
{
	plain *handler = take_handler(sig);
	full *fn;

	if (!handler) {
		signal_handled(sig, false);
		real_table.signal(sig, SIG_DFL);
		/* Not to this kernel thread, which the G may leave before it lets it in again. */
		arch_syscall3(SYS_kill, getpid(), sig, 0);
		return;
	}
	timer_taken(info);
	if (ld_rlx(&actions[sig].flags) & SA_SIGINFO) {
		memcpy(&fn, &handler, sizeof(fn));
		fn(sig, info, uc);
	} else {
		handler(sig);
	}
}

static uint64_t mask_in(const ucontext_t *uc)
{
	uint64_t mask;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	return mask;
}

/* The mask while the handler of sig runs that interrupted *uc. */
static uint64_t handler_mask(int sig, const ucontext_t *uc)
{
	uint64_t mask = mask_in(uc) | (ld_rlx(&actions[sig].mask) & ~UNBLOCKABLE);

	return ld_rlx(&actions[sig].flags) & SA_NODEFER ? mask : mask | signal_bit(sig);
}

/* What the thread is in the midst of. The handler is in the midst of nothing, and may not return.
 */
struct aside {
	uint32_t interruptible;
	uintptr_t waitsat;
	uint64_t awaits;
	int32_t accepts;
	uint64_t unmasked;
	bool connects, alert, uncancelled, becoming, awaits_any;
};

static void set_aside(struct thread *t, struct aside *a)
{
	a->interruptible = ld_rlx(&t->interruptible);
	a->waitsat = ld_rlx(&t->waitsat);
	a->awaits = ld_rlx(&t->awaits);
	if (a->awaits)
		sigwait_over(t);
	a->accepts = ld_rlx(&t->accepts);
	a->unmasked = t->unmasked;
	a->connects = ld_rlx(&t->connects);
	st_rlx(&t->connects, false);
	a->alert = ld_rlx(&t->alert);
	a->uncancelled = ld_rlx(&t->uncancelled);
	a->awaits_any = ld_rlx(&t->awaits_any);
	a->becoming = ld_rlx(&t->becoming);
	if (a->becoming)
		exec_lets_go(t);
	st_rlx(&t->interruptible, NO_WAIT);
	st_rlx(&t->waitsat, 0);
	st_rlx(&t->alert, false);
	st_rlx(&t->uncancelled, false);
	st_rlx(&t->awaits_any, false);
}

/* With all signals blocked until it is there again. */
static void go_on(struct thread *t, const struct aside *a)
{
	st_rlx(&t->waitsat, a->waitsat);
	st_sc(&t->awaits, a->awaits);
	st_rlx(&t->accepts, a->accepts);
	t->unmasked = a->unmasked;
	st_rlx(&t->connects, a->connects);
	st_rlx(&t->alert, a->alert);
	st_rlx(&t->uncancelled, a->uncancelled);
	st_rlx(&t->awaits_any, a->awaits_any);
	if (a->becoming)
		exec_holds(t);
	cancel_resume(t, (enum interruptible)a->interruptible);
}

/* What else the kernel thread blocks stays. */
static void return_to(uint64_t mask, ucontext_t *uc)
{
	mask |= mask_in(uc) & ~gmask();
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
}

/* On a G, in the program's code or in an announced call. */
static void handle(int sig, siginfo_t *info, ucontext_t *uc, bool call)
{
	struct thread *t = thread_self();
	uint32_t flags = ld_rlx(&actions[sig].flags);
	uint64_t before, interrupted, after, during = handler_mask(sig, uc);
	bool late = cputimer_own(t, info) && !ld_rlx(&t->awaits_any);
	bool first = ld_rlx(&t->masked);
	struct aside aside;

	set_aside(t, &aside);
	if (first)
		return_to(aside.unmasked, uc);
	st_rlx(&t->masked, false);
	interrupted = mask_in(uc);
	before = core_sigbegin(during);
	if (first)
		before = aside.unmasked;
	accept_leaves(t);
	fd_letgo(t);
	uc->uc_stack = altstack_begin(t);
	run_handler(sig, info, uc);
	/* The child of a fork that it made goes on where the thread was, in a call of ours perhaps.
	 */
	if (unlikely(!thread_self()) && !heddle_start()) {
		memcpy(&uc->uc_sigmask, &before, sizeof(before));
		return;
	}
	/* As if it had come before the call. */
	if (!late)
		st_rlx(&t->handled, ld_rlx(&t->handled) + 1);
	if (!late && !(flags & SA_RESTART))
		st_rlx(&t->stopped, ld_rlx(&t->stopped) + 1);
	/* The handler may have changed what it returns to. */
	altstack_end(t, &uc->uc_stack);
	after = mask_in(uc);
	if (after == interrupted)
		after = before;
	if (first)
		aside.unmasked = after;
	core_sigend(uc, after, call);
	go_on(t, &aside);
	if (signals_unblocked_here())
		signals_here();
	if (aside.alert)
		gnotify_self();
}

static void on_signal(int sig, siginfo_t *info, void *uc);

static void on_signal_moved(int sig, void *info, void *uc)
{
	on_signal(sig, info, uc);
}

/* With SA_ONSTACK: to where the program wants the handler, and its frame. */
static bool move(const struct thread *t, int sig, const siginfo_t *info, void *uc)
{
	uintptr_t alt = (uintptr_t)t->altstack.ss_sp;

	return core_sigmove(sig, info, uc, alt, alt ? t->altstack.ss_size : 0, on_signal_moved);
}

/* Did a filter of the program's stop a call? */
static bool refused(int sig, const siginfo_t *info)
{
	enum { BY_FILTER = 1 };

	return sig == SIGSYS && info->si_code == BY_FILTER;
}

static uint64_t faults(void)
{
	return signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) | signal_bit(SIGFPE) |
	       signal_bit(SIGTRAP) | signal_bit(SIGSYS);
}

/* By what the thread did itself, and would do again. */
static bool is_fault(int sig, const siginfo_t *info)
{
	return (faults() & signal_bit(sig)) && info->si_code > 0;
}

/* Was it sent to the process, and not to the kernel thread that it found? The clocks of cpu time
 * and timers are for who runs; SIGPIPE and SIGXFSZ come as if by this process's own kill. */
static bool for_process(int sig, const siginfo_t *info)
{
	if (getpid() != home)
		return false;
	switch (info->si_code) {
	case SI_USER:
		return info->si_pid != home || !(SIGS_OF_CALLS & signal_bit(sig));
	case SI_QUEUE:
	case SI_MESGQ:
	case SI_ASYNCIO:
		return true;
	case SI_KERNEL:
		return !(faults() & signal_bit(sig)) && !signal_of_clock(sig, info) &&
		       !((sig == SIGIO || sig == SIGURG) && owner_here());
	default:
		return signal_of_child(sig, info);
	}
}

static bool given_away(int sig, const siginfo_t *info)
{
	bool given;

	/* First: in a child of vfork, which may be killed at any time, the count is its parent's.
	 */
	if (!for_process(sig, info))
		return false;
	signals_moving(1);
	given = signal_choice(sig, info);
	signals_moving(-1);
	return given;
}

static void on_signal(int sig, siginfo_t *info, void *uc)
{
	struct thread *t = thread_self();
	bool marked = signal_marked(info);
	int saved = errno;
	enum sigplace place;
	struct g *gp;

	/* In a lock that is no more, say. */
	if (is_fault(sig, info))
		gfaulted();
	place = core_sigplace();
	if (refused(sig, info) && core_sigrefused(uc)) {
		/* Nobody hears of it. */
	} else if (!marked && given_away(sig, info)) {
		signals_push_soon(sig);
	} else if (place != SIGPLACE_CORE && !(t && ld_rlx(&t->deaf))) {
		if (t && move(t, sig, info, uc))
			return;
		if (marked && !(t && signal_claim(t, sig, info)))
			return;
		if (t) {
			handle(sig, info, uc, place == SIGPLACE_CALL);
		} else {
			os_sigmask(handler_mask(sig, uc));
			run_handler(sig, info, uc);
		}
	} else {
		signals_moving(1);
		gp = core_sigtake(sig);
		if (!marked && gp)
			signal_lend(ghost_of(gp), sig, info);
		else if (!marked)
			signal_put_off(sig, info);
		signals_moving(-1);
	}
	errno = saved;
}

/* The kernel's, by the C library's own: a library of the program's may have another, behind ours,
 * which keeps some for itself and tells others what it would have them hear. Known from
 * handlers_find on. */
typedef int sets(int, const struct sigaction *, struct sigaction *);
static sets *kernels;

int signal_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	return kernels ? kernels(sig, act, old) : real_table.sigaction(sig, act, old);
}

static bool ours(const struct sigaction *act)
{
	return (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == on_signal;
}

/* Must ours stay although the program wants the default? A nudge may be under way, and would stop
 * or end the process. */
static bool stays(int sig)
{
	struct sigaction now;

	return !((signals_ignored_by_default | faults()) & signal_bit(sig)) &&
	       signal_action(sig, NULL, &now) == 0 && ours(&now);
}

/* Notes the program's and makes it ours. */
static void take_over(int sig, struct sigaction *act)
{
	uint64_t mask;

	if (act->sa_handler == SIG_IGN || (act->sa_handler == SIG_DFL && !stays(sig)))
		return;
	memcpy(&mask, &act->sa_mask, sizeof(mask));
	st_rlx(&actions[sig].mask, mask);
	st_rlx(&actions[sig].flags, (uint32_t)act->sa_flags);
	/* Release: pairs with the acquire in take_handler. */
	st_rel(&actions[sig].handler, act->sa_handler);
	act->sa_sigaction = on_signal;
	act->sa_flags |= SA_SIGINFO;
	act->sa_flags &= (int)~SA_RESETHAND; /* take_handler */
	/* handle() sets the program's. */
	sigfillset(&act->sa_mask);
}

void handlers_find(void)
{
	void *at = kernels ? NULL : lookup_libc("sigaction");

	if (!kernels)
		kernels = real_table.sigaction;
	if (at)
		memcpy(&kernels, &at, sizeof(kernels));
}

/* Until there is a second thread the program's handlers are the kernel's business: masks of its
 * sigsuspend, alternate stacks, calls of glibc's that pass by sigaction (sigset, siginterrupt). */
void handlers_start(void)
{
	struct sigaction act;

	handlers_find();
	home = getpid();
	for (int sig = 1; sig < SIGNALS; sig++) {
		if (signal_action(sig, NULL, &act) != 0 || act.sa_handler == SIG_DFL ||
		    act.sa_handler == SIG_IGN || ours(&act))
			continue;
		take_over(sig, &act);
		signal_action(sig, &act, NULL);
		signal_handled(sig, true);
	}
}

/* In a child of one thread. */
void handlers_forked(uint64_t set)
{
	for (int sig = 1; sig < SIGNALS; sig++) {
		struct sigaction act = { .sa_handler = ld_rlx(&actions[sig].handler),
					 .sa_flags = (int)ld_rlx(&actions[sig].flags) };
		uint64_t mask = ld_rlx(&actions[sig].mask);
		if (!(set & signal_bit(sig)))
			continue;
		memcpy(&act.sa_mask, &mask, sizeof(mask));
		signal_action(sig, &act, NULL);
	}
}

/* As the program set it; where the kernel has it, it is ours. */
static int set(int sig, const struct sigaction *act, struct sigaction *before)
{
	struct sigaction mine = *act;
	int r;

	take_over(sig, &mine);
	/* First: from then on the kernel acts upon one wherever it is let in. */
	if (!ours(&mine))
		signal_handled(sig, false);
	r = signal_action(sig, &mine, before);
	if (r == 0 && ours(&mine))
		signal_handled(sig, true);
	if (r == 0 && signal_ignores(sig, &mine))
		signal_discard(sig);
	return r;
}

/* By another's, which may keep it for itself: then the kernel has what it had. */
static int set_behind(int sig, const struct sigaction *act, struct sigaction *before)
{
	struct sigaction now;
	int r = real_table.sigaction(sig, act, before);

	if (r == 0 && signal_action(sig, NULL, &now) == 0 && !ours(&now))
		r = set(sig, &now, NULL);
	return r;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before;
	plain *handler;
	uint64_t masked;
	uint32_t flags;
	int r;

	if (!served() || sig <= 0 || sig >= SIGNALS || !heddle_started() ||
	    (!thread_self() && getpid() != home))
		return real_table.sigaction(sig, act, old);
	handler = ld_rlx(&actions[sig].handler);
	flags = ld_rlx(&actions[sig].flags);
	masked = ld_rlx(&actions[sig].mask);
	if (act && handler)
		signals_pull();
	if (!act)
		r = real_table.sigaction(sig, NULL, &before);
	else if (kernels == real_table.sigaction)
		r = set(sig, act, &before);
	else
		r = set_behind(sig, act, &before);
	if (r == 0 && old) {
		*old = before;
		if (ours(&before)) {
			old->sa_handler = handler;
			old->sa_flags = (int)flags | (before.sa_flags & RESTORER);
			memcpy(&old->sa_mask, &masked, sizeof(masked));
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
