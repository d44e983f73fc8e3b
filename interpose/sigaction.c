/* What the program has the signals do: sigaction and its kin. Owns the table of that. Refuses
 * SIG_DFL and SIG_IGN, which are the kernel's, but where one may come that is no more than a nudge.
 *
 * A handler goes with its flags and its mask, and a signal may come while another is set: so each
 * set of the three is written once, and stays. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "early.h"
#include "lookup.h"
#include "os.h"
#include "signals.h"
#include "thread.h"

/* Of the flags that the kernel has from glibc, which tells it who asks. */
enum { RESTORER = 0x04000000 };

typedef void plain(int);

/* Whose handlers they are: a child of vfork sets its own, and has this memory. */
static pid_t home;

/* What the program set last, and all that it ever set of each signal. */
static ATOMIC(const struct action *) current[SIGNALS];
static ATOMIC(const struct action *) known[SIGNALS];

bool actions_ours(void)
{
	return getpid() == home;
}

/* ---- sets of three ---- */

/* One that nobody has seen. NULL: there is no memory. */
static struct action *fresh(void)
{
	enum { MANY = 100 };
	struct chunk {
		ATOMIC(uint32_t) used;
		struct action of[MANY];
	} * more;
	static ATOMIC(struct chunk *) chunk;

	for (;;) {
		/* Acquire: pairs with the release of who brought it. */
		struct chunk *c = ld_acq(&chunk);
		uint32_t i = c ? add_rlx(&c->used, 1) : MANY;
		if (i < MANY)
			return &c->of[i];
		more = os_reserve(sizeof(*more));
		if (os_failed(more))
			return NULL;
		if (!cas_acqrel(&chunk, c, more))
			os_release(more, sizeof(*more));
	}
}

/* The one with these; after: NULL, or what it leaves when it has been taken. */
static const struct action *action_of(int sig, plain *handler, const struct sigaction *act,
				      const struct action *after)
{
	const struct action *a;
	struct action *made;
	uint64_t mask;

	memcpy(&mask, &act->sa_mask, sizeof(mask));
	for (a = ld_acq(&known[sig]); a; a = a->older)
		if (a->handler == handler && a->flags == act->sa_flags && a->mask == mask)
			return a;
	made = fresh();
	if (!made)
		return NULL;
	made->handler = handler;
	made->flags = act->sa_flags;
	made->mask = mask;
	made->after = after ? after : made;
	/* Release: pairs with the acquire above. Two may find it missing: that is no harm. */
	do
		made->older = ld_acq(&known[sig]);
	while (!cas_rel(&known[sig], made->older, made));
	return made;
}

static const struct action *action_to_note(int sig, const struct sigaction *act)
{
	const struct action *after = NULL;

	if (act->sa_flags & (int)SA_RESETHAND) {
		after = action_of(sig, SIG_DFL, act, NULL);
		if (!after)
			return NULL;
	}
	return action_of(sig, act->sa_handler, act, after);
}

/* Acquire: pairs with the release in take_over, and in known. */
const struct action *action_look(int sig)
{
	return ld_acq(&current[sig]);
}

/* The kernel does not hear of one that was to run but once before the next signal comes: a late
 * nudge would be one to it. */
const struct action *action_take(int sig)
{
	const struct action *a;

	do
		a = action_look(sig);
	while (a->after != a && actions_ours() && !cas_acq(&current[sig], a, a->after));
	return a;
}

static void tell(const struct action *a, struct sigaction *act)
{
	act->sa_handler = a->handler;
	act->sa_flags = a->flags;
	memcpy(&act->sa_mask, &a->mask, sizeof(a->mask));
}

/* ---- the kernel's ---- */

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

	return !((signals_ignored_by_default | SIGNALS_OF_FAULTS) & signal_bit(sig)) &&
	       signal_action(sig, NULL, &now) == 0 && ours(&now);
}

static void make_ours(struct sigaction *act)
{
	act->sa_sigaction = on_signal;
	act->sa_flags |= SA_SIGINFO;
	act->sa_flags &= (int)~SA_RESETHAND; /* action_take */
	/* handle() sets the program's. sigfillset would leave out signal 32: whoever is stopped by
	 * it here goes on on another kernel thread, and the frame of ours would give that one the
	 * signal stack of this. */
	memset(&act->sa_mask, 0xff, sizeof(act->sa_mask));
}

/* Notes the program's and makes it ours; *was is what was noted before. False: there is no memory.
 */
static bool take_over(int sig, struct sigaction *act, const struct action **was)
{
	const struct action *action;

	*was = action_look(sig);
	if (act->sa_handler == SIG_IGN || (act->sa_handler == SIG_DFL && !stays(sig)))
		return true;
	action = action_to_note(sig, act);
	if (!action)
		return false;
	*was = xchg_sc(&current[sig], action);
	make_ours(act);
	return true;
}

/* Another may set it meanwhile. */
void action_default(int sig, const struct action *seen)
{
	const struct action *a;
	struct sigaction act = { 0 };

	signal_handled(sig, false);
	real_table.signal(sig, SIG_DFL);
	while ((a = action_look(sig)) != seen) {
		seen = a;
		tell(a, &act);
		make_ours(&act);
		signal_action(sig, &act, NULL);
		signal_handled(sig, true);
	}
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
	const struct action *was;
	struct sigaction act;

	handlers_find();
	home = getpid();
	for (int sig = 1; sig < SIGNALS; sig++) {
		if (signal_action(sig, NULL, &act) != 0 || act.sa_handler == SIG_DFL ||
		    act.sa_handler == SIG_IGN || ours(&act) || !take_over(sig, &act, &was))
			continue;
		signal_action(sig, &act, NULL);
		signal_handled(sig, true);
	}
}

/* In a child of one thread. */
FORKS void handlers_forked(void)
{
	for (int sig = 1; sig < SIGNALS; sig++) {
		const struct action *a = action_look(sig);
		struct sigaction act;
		if (!a || signal_action(sig, NULL, &act) != 0 || !ours(&act))
			continue;
		tell(a, &act);
		signal_action(sig, &act, NULL);
	}
}

/* As the program set it; where the kernel has it, it is ours. *was is what was noted before. */
static int set(int sig, const struct sigaction *act, struct sigaction *before,
	       const struct action **was)
{
	struct sigaction mine = *act;
	int r;

	if (!take_over(sig, &mine, was)) {
		errno = ENOMEM;
		return -1;
	}
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
static int set_behind(int sig, const struct sigaction *act, struct sigaction *before,
		      const struct action **was)
{
	struct sigaction now;
	int r = real_table.sigaction(sig, act, before);

	*was = action_look(sig);
	if (r == 0 && signal_action(sig, NULL, &now) == 0 && !ours(&now))
		r = set(sig, &now, NULL, was);
	return r;
}

/* What the kernel says, who has it from the C library. *was: what was noted then. */
static void tell_old(int sig, const struct action *was, const struct sigaction *before,
		     struct sigaction *old)
{
	*old = *before;
	if (!ours(before))
		return;
	/* The first was noted just now, by another. */
	tell(was ? was : action_look(sig), old);
	old->sa_flags |= before->sa_flags & RESTORER;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	const struct action *was;
	struct sigaction before;
	int r;

	if (!served() || sig <= 0 || sig >= SIGNALS || !heddle_started())
		return real_table.sigaction(sig, act, old);
	was = action_look(sig);
	if (!thread_self() && !actions_ours()) {
		r = real_table.sigaction(sig, act, &before);
	} else if (!act) {
		r = real_table.sigaction(sig, NULL, &before);
	} else {
		if (was && was->handler)
			signals_pull();
		r = kernels == real_table.sigaction ? set(sig, act, &before, &was)
						    : set_behind(sig, act, &before, &was);
	}
	if (r == 0 && old)
		tell_old(sig, was, &before, old);
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
	return served() ? set_plain(sig, handler, signal_interrupts(sig) ? 0 : SA_RESTART)
			: real_table.signal(sig, handler);
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
