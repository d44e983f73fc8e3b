/* Signals sent to the process that arrived where no code of the program's can run: on a
 * scheduler's stack, or between two Gs. A thread kept for that finds a thread of the
 * program's that does not block them; if there is none, they are held until one unblocks
 * them or waits for them. Next: sigpend.c, how a thread gets one. */
#include "early.h"
#include "signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "cputimer.h"
#include "futex.h"
#include "os.h"
#include "preempt.h"
#include "syscall.h"
#include "thread.h"

/* One of each number, as pending signals are. */
FORKED static _Alignas(64) struct {
	ATOMIC(uint64_t) set;
	struct pending held;
	/* Those of the kernel's or out of held that are on their way to a thread or into held. */
	ATOMIC(uint32_t) moving;
	ATOMIC(uint32_t) wake; /* futex word of signals_thread */
} off;

const struct pending *signals_holds(void)
{
	return &off.held;
}

/* Of the signals with a handler those that some thread did not block, once: one that all block
 * meanwhile is held here instead of in the kernel. */
FORKED static ATOMIC(uint64_t) with_handler, unblocked;

/* But those that a descriptor shows: it shows what the kernel holds. */
static ATOMIC(uint64_t) shown;

static uint64_t handled(void)
{
	return ld_sc(&with_handler) & ~ld_sc(&shown);
}

uint64_t signals_let_in(void)
{
	return handled() & ld_sc(&unblocked);
}

/* Who read them before another changed them may be the later of the two to say so. */
static void accept_signals(void)
{
	uint64_t set, all;

	if (!heddle_started())
		return;
	do {
		set = signals_let_in();
		all = handled();
		core_sigaccept(set, all);
	} while (set != signals_let_in() || all != handled());
}

void signals_open(uint64_t mask)
{
	if (unlikely((~mask & ~ld_rlx(&unblocked)) != 0)) {
		or_sc(&unblocked, ~mask);
		accept_signals();
	}
}

void signal_handled(int sig, bool handled)
{
	if (handled)
		or_sc(&with_handler, signal_bit(sig));
	else
		and_sc(&with_handler, ~signal_bit(sig));
	accept_signals();
}

bool signal_has_handler(int sig)
{
	return (ld_sc(&with_handler) & signal_bit(sig)) != 0;
}

bool signal_ignores(int sig, const struct sigaction *act)
{
	return act->sa_handler == SIG_IGN ||
	       (act->sa_handler == SIG_DFL && (signals_ignored_by_default & signal_bit(sig)));
}

bool signal_ignored(int sig)
{
	struct sigaction act;

	return signal_action(sig, NULL, &act) == 0 && signal_ignores(sig, &act);
}

void signal_discard(int sig)
{
	siginfo_t info;

	if (!heddle_started())
		return;
	while (signal_unhold(sig, &info))
		continue;
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct thread *t = ghost_of(gp);
		while (t && signal_claim(t, sig, &info))
			continue;
	}
}

FORKS void signals_forked(void)
{
	handlers_forked();
	st_rlx(&with_handler, 0);
	st_rlx(&unblocked, 0);
	pending_forked(&off.held);
	st_rlx(&off.moving, 0);
	st_rlx(&off.set, 0);
	siginfo_forked();
}

uint64_t signals_held(void)
{
	return ld_sc(&off.held.set);
}

bool signal_unhold(int sig, siginfo_t *info)
{
	return pending_claim(&off.held, sig, info);
}

void signals_moving(int n)
{
	add_sc(&off.moving, (uint32_t)n);
}

void signals_settle(void)
{
	while (ld_sc(&off.moving) != 0)
		os_yield();
}

void signals_wake(void)
{
	add_sc(&off.wake, 1);
	futex_wake(&off.wake, 1, (uint32_t)FUTEX_ANY, FUTEX_EARLY);
}

void signal_return(int sig, const siginfo_t *info)
{
	/* What a user sent only that thread may send so whose tid is the process's. */
	if (arch_syscall3(SYS_rt_sigqueueinfo, getpid(), sig, (long)info) != 0)
		arch_syscall3(SYS_kill, getpid(), sig, 0);
}

static bool may_take(struct thread *t, int sig)
{
	/* The first has no G until the scheduler is being started; who takes it then is itself. */
	return t && t->gp && !gdead(t->gp) && !thread_over(t) &&
	       (!(gmask_of(t->gp) & signal_bit(sig)) || (ld_sc(&t->awaits) & signal_bit(sig)));
}

bool signal_of_child(int sig, const siginfo_t *info)
{
	return sig == SIGCHLD && info->si_code >= CLD_EXITED && info->si_code <= CLD_CONTINUED;
}

bool signal_of_clock(int sig, const siginfo_t *info)
{
	return info->si_code == SI_KERNEL && (sig == SIGPROF || sig == SIGVTALRM || sig == SIGXCPU);
}

/* Whom the kernel would have chosen, and programs expect to be interrupted: the thread that made
 * the child, NULL if it is not known; whoever uses the cpu whose time is over, as profilers have
 * it; else the first. */
static struct thread *choice(int sig, const siginfo_t *info)
{
	struct g *gp;

	if (signal_of_child(sig, info))
		return process_maker(info->si_pid);
	gp = signal_of_clock(sig, info) ? core_sigcomputes(sig) : NULL;
	return gp ? ghost_of(gp) : thread_first();
}

/* info: NULL if it is not known. */
static struct thread *find_thread(int sig, const siginfo_t *info)
{
	struct thread *self = thread_self(), *best = info ? choice(sig, info) : NULL;

	if (may_take(best, sig))
		return best;
	if (may_take(thread_first(), sig))
		return thread_first();
	for (struct g *gp = geach(NULL); gp; gp = geach(gp))
		if (ghost_of(gp) != self && may_take(ghost_of(gp), sig))
			return ghost_of(gp);
	return NULL;
}

bool signal_choice(int sig, const siginfo_t *info)
{
	struct thread *t = choice(sig, info);

	if (thread_self() == t || !may_take(t, sig))
		return false;
	signal_lend(t, sig, info);
	return true;
}

void signals_push_soon(int sig)
{
	/* Release: pairs with the acquire in signals_thread. */
	or_sc(&off.set, signal_bit(sig));
	core_sigdefer();
}

/* At once, so that a thread which is about to end finds it; others must push. */
void signal_put_off(int sig, const siginfo_t *info)
{
	struct g *wired = core_sigwired();
	struct thread *t = wired ? ghost_of(wired) : NULL;

	/* It may have been meant for the one whose kernel thread this is. */
	if (!may_take(t, sig))
		t = find_thread(sig, info);
	if (t)
		signal_lend(t, sig, info);
	else
		pending_add(&off.held, sig, info);
	signals_push_soon(sig);
}

static bool blocks(const struct thread *t, int sig)
{
	return (gmask_of(t->gp) & signal_bit(sig)) && !(ld_sc(&t->awaits) & signal_bit(sig));
}

/* Who unblocks one meanwhile waits for us, who must not be stopped; nor may a handler run here,
 * which would wait for us, too, when it is done. */
static void begin_move(void)
{
	gpin();
	signals_moving(1);
}

static void end_move(void)
{
	signals_moving(-1);
	gunpin();
}

void signals_pass_on(struct thread *t, uint64_t set)
{
	siginfo_t info;

	begin_move();
	for (int sig = 1; sig < SIGNALS && set; sig++) {
		uint32_t n = pending_count(&t->lent, sig);
		if (!(set & signal_bit(sig)) || !blocks(t, sig))
			continue;
		while (n-- > 0 && pending_claim(&t->lent, sig, &info))
			signal_put_off(sig, &info);
	}
	end_move();
}

void signals_unhold_here(struct thread *t, uint64_t set)
{
	siginfo_t info;

	signals_moving(1);
	for (int sig = 1; sig < SIGNALS; sig++)
		while ((set & signals_held() & signal_bit(sig)) && signal_unhold(sig, &info))
			signal_lend(t, sig, &info);
	signals_moving(-1);
}

void signals_unhold(struct thread *t, uint64_t set)
{
	gpin();
	signals_unhold_here(t, set);
	gunpin();
}

/* One that was let in before the descriptor was made. */
static void give_kernel(int sig)
{
	siginfo_t info;

	begin_move();
	while ((ld_sc(&shown) & signal_bit(sig)) && signal_unhold(sig, &info))
		signal_return(sig, &info);
	end_move();
}

void signals_shown(uint64_t set)
{
	or_sc(&shown, set);
	accept_signals();
	if (!heddle_started())
		return;
	/* Who has taken one from the kernel holds it when this is over. */
	signals_settle();
	if (likely((signals_held() & set) == 0))
		return;
	/* There its sender's name may be given, too. */
	if (thread_self())
		ghome();
	for (int sig = 1; sig < SIGNALS; sig++)
		if (signals_held() & set & signal_bit(sig))
			give_kernel(sig);
}

/* Who has just unblocked it finds it held or lent. */
static void move_to(struct thread *t, int sig)
{
	siginfo_t info;

	begin_move();
	if (signal_unhold(sig, &info))
		signal_lend(t, sig, &info);
	end_move();
}

void signal_push_lent(struct thread *t, int sig)
{
	/* It blocks it since: then it looks for itself, or we see it here. */
	if (blocks(t, sig))
		signals_pass_on(t, signal_bit(sig));
	else
		signal_push(t, sig);
}

static void push_all(int sig)
{
	uint64_t bit = signal_bit(sig);
	struct thread *t;

	/* A second look after it was said to be held: who unblocks it does the reverse. */
	while ((signals_held() & bit) && (t = find_thread(sig, NULL)))
		move_to(t, sig);
	give_kernel(sig);
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		t = ghost_of(gp);
		if (t && (ld_sc(&t->lent.set) & bit))
			signal_push_lent(t, sig);
	}
}

bool signal_timer(struct thread *t, int sig, const siginfo_t *info)
{
	if (!signal_has_handler(sig) || (ld_sc(&shown) & signal_bit(sig)))
		return false;
	if (may_take(t, sig)) {
		signal_lend(t, sig, info);
		signal_push_lent(t, sig);
	} else {
		pending_add(&off.held, sig, info);
		push_all(sig);
	}
	return true;
}

void *signals_thread(void *arg)
{
	(void)arg;
	for (;;) {
		uint32_t word = ld_acq(&off.wake);
		uint64_t set = xchg_acq(&off.set, 0);

		for (int sig = 1; sig < SIGNALS; sig++)
			if (set & signal_bit(sig))
				push_all(sig);
		cputimers_ring();
		if (set == 0)
			futex_wait(&off.wake, word, (uint32_t)FUTEX_ANY, NULL, 0);
	}
	return NULL;
}
