/* Where the program's handlers run. Ours stands before each: if the signal finds a G in the
 * program's code its handler runs there and then. If it finds the scheduler, on a stack and
 * a thread block that are none of the program's, a G that is on its way into or out of the
 * core takes it when it has left it; else sigroute.c finds another thread. */
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

typedef void plain(int);

/* In x86_64/handler.S. As the kernel's, with all three, whatever was asked for. */
void handler_call(int sig, siginfo_t *info, void *uc, plain *fn);

static void run_handler(const struct action *action, int sig, siginfo_t *info, void *uc)
{
	if (!action->handler) {
		action_default(sig, action);
		/* Not to this kernel thread, which the G may leave before it lets it in again. */
		arch_syscall3(SYS_kill, getpid(), sig, 0);
		return;
	}
	timer_taken(info);
	handler_call(sig, info, uc, action->handler);
}

static uint64_t mask_in(const ucontext_t *uc)
{
	uint64_t mask;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	return mask;
}

/* The mask while the handler of sig runs that interrupted one with that mask. */
static uint64_t handler_mask(const struct action *action, int sig, uint64_t mask)
{
	mask |= action->mask & ~UNBLOCKABLE;
	return action->flags & SA_NODEFER ? mask : mask | signal_bit(sig);
}

/* The G may have waited for a P, and another handler been set, for the first may be no more. */
static const struct action *take(const struct action *seen, int sig, uint64_t mask)
{
	const struct action *action = action_take(sig);

	if (action != seen) {
		mask = handler_mask(action, sig, mask);
		gsigprocmask(SIG_SETMASK, &mask, NULL);
	}
	return action;
}

/* What the thread is in the midst of. The handler is in the midst of nothing, and may not return.
 */
struct aside {
	uint32_t interruptible;
	uintptr_t waitsat;
	uint64_t awaits;
	int32_t accepts;
	uint64_t unmasked;
	uint32_t handled, stopped, slept;
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
	a->handled = ld_rlx(&t->handled);
	a->stopped = ld_rlx(&t->stopped);
	a->slept = t->slept;
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
	const struct action *action = action_look(sig);
	struct thread *t = thread_self();
	uint64_t before, interrupted, after, found = mask_in(uc);
	bool late = cputimer_own(t, info) && !ld_rlx(&t->awaits_any);
	bool first = ld_rlx(&t->masked), decides;
	struct aside aside;

	set_aside(t, &aside);
	/* What comes when its handler is over, which blocked it, finds a call that is to be made
	 * again, or has ended. */
	decides = aside.handled == aside.slept;
	if (first)
		return_to(aside.unmasked, uc);
	st_rlx(&t->masked, false);
	interrupted = mask_in(uc);
	before = core_sigbegin(handler_mask(action, sig, found));
	action = take(action, sig, found);
	if (first)
		before = aside.unmasked;
	accept_leaves(t);
	fd_letgo(t);
	uc->uc_stack = altstack_begin(t);
	/* The kernel's last is the first to run, on top of the others. */
	if (signals_unblocked())
		signals_run();
	run_handler(action, sig, info, uc);
	/* The child of a fork that it made goes on where the thread was, in a call of ours perhaps.
	 */
	if (unlikely(!thread_self()) && !heddle_start()) {
		memcpy(&uc->uc_sigmask, &before, sizeof(before));
		return;
	}
	/* As if it had come before the call; or as what is none. */
	late = late || !action->handler;
	/* Those that ran amid were for calls of this one's. */
	st_rlx(&t->handled, aside.handled + !late);
	st_rlx(&t->stopped, aside.stopped + (!late && decides && !(action->flags & SA_RESTART)));
	t->slept = aside.slept;
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

/* By what the thread did itself, and would do again. */
static bool is_fault(int sig, const siginfo_t *info)
{
	return (SIGNALS_OF_FAULTS & signal_bit(sig)) && info->si_code > 0;
}

static bool of_memory(int sig, const siginfo_t *info)
{
	return is_fault(sig, info) &&
	       (sig == SIGSEGV || (sig == SIGBUS && info->si_code != BUS_MCEERR_AO));
}

/* Was it sent to the process, and not to the kernel thread that it found? The clocks of cpu time
 * and timers are for who runs; SIGPIPE and SIGXFSZ come as if by this process's own kill. */
static bool for_process(int sig, const siginfo_t *info)
{
	if (!actions_ours())
		return false;
	switch (info->si_code) {
	case SI_USER:
		return info->si_pid != getpid() || !(SIGS_OF_CALLS & signal_bit(sig));
	case SI_QUEUE:
	case SI_MESGQ:
	case SI_ASYNCIO:
		return true;
	case SI_KERNEL:
		return !(SIGNALS_OF_FAULTS & signal_bit(sig)) && !signal_of_clock(sig, info) &&
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

static void handle_natively(int sig, siginfo_t *info, void *uc)
{
	const struct action *action = action_take(sig);

	os_sigmask(handler_mask(action, sig, mask_in(uc)));
	run_handler(action, sig, info, uc);
}

/* In the core, at the program's memory, which the handler may open: so do collectors and snapshots
 * that are told of writes by them. Put off it would be there again for ever. */
static void handle_in_core(int sig, siginfo_t *info, void *uc)
{
	struct g *gp = core_sigfault();

	if (gp) {
		handle_natively(sig, info, uc);
		core_sigfaulted(gp);
	} else {
		/* At the core's own: it is the end. */
		action_default(sig, action_look(sig));
	}
}

void on_signal(int sig, siginfo_t *info, void *uc)
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
		if (t)
			handle(sig, info, uc, place == SIGPLACE_CALL);
		else
			handle_natively(sig, info, uc);
	} else if (of_memory(sig, info)) {
		handle_in_core(sig, info, uc);
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
