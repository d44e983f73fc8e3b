/* The calls of System V and BSD for signals, which in glibc reach masks and handlers by names of
 * its own, past ours: told by those that are ours. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "signals.h"
#include "thread.h"

typedef void plain(int);

static int mask_one(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	if (sigaddset(&set, sig) < 0)
		return -1;
	return sigprocmask(how, &set, NULL);
}

EXPORT int sighold(int sig)
{
	return mask_one(SIG_BLOCK, sig);
}

EXPORT int sigrelse(int sig)
{
	return mask_one(SIG_UNBLOCK, sig);
}

EXPORT int sigignore(int sig)
{
	struct sigaction act = { .sa_handler = SIG_IGN };

	return sigaction(sig, &act, NULL);
}

EXPORT plain *sigset(int sig, plain *handler)
{
	struct sigaction act = { .sa_handler = handler }, old;
	sigset_t set, before;

	if (handler == SIG_ERR || sig < 1 || sig >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&set);
	if (sigaddset(&set, sig) < 0)
		return SIG_ERR;
	if (handler == SIG_HOLD) {
		if (sigprocmask(SIG_BLOCK, &set, &before) < 0)
			return SIG_ERR;
		if (sigismember(&before, sig))
			return SIG_HOLD;
		return sigaction(sig, NULL, &old) < 0 ? SIG_ERR : old.sa_handler;
	}
	if (sigaction(sig, &act, &old) < 0 || sigprocmask(SIG_UNBLOCK, &set, &before) < 0)
		return SIG_ERR;
	return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

/* sigpause: the name is BSD's, with a mask. */
int bsd_sigpause(int mask) __asm__("sigpause");

static sigset_t set_of(int mask)
{
	sigset_t set;
	unsigned low = (unsigned)mask;

	sigemptyset(&set);
	memcpy(&set, &low, sizeof(low));
	return set;
}

EXPORT int bsd_sigpause(int mask)
{
	sigset_t set = set_of(mask);

	return sigsuspend(&set);
}

static int mask_all(int how, int mask)
{
	sigset_t set = set_of(mask), before;
	int low;

	if (sigprocmask(how, &set, &before) < 0)
		return -1;
	memcpy(&low, &before, sizeof(low));
	return low;
}

EXPORT int sigblock(int mask)
{
	return mask_all(SIG_BLOCK, mask);
}

EXPORT int sigsetmask(int mask)
{
	return mask_all(SIG_SETMASK, mask);
}

EXPORT int siggetmask(void)
{
	return mask_all(SIG_BLOCK, 0);
}

/* Those whose handlers interrupt, also such as signal will set. */
static ATOMIC(uint64_t) interrupting;

bool signal_interrupts(int sig)
{
	return sig > 0 && sig < SIGNALS && (ld_rlx(&interrupting) & signal_bit(sig));
}

EXPORT int siginterrupt(int sig, int interrupt)
{
	struct sigaction act;

	served();
	/* It has a set of its own, for a program that runs natively. */
	if (real_table.siginterrupt(sig, interrupt) < 0 || sigaction(sig, NULL, &act) < 0)
		return -1;
	if (interrupt) {
		or_sc(&interrupting, signal_bit(sig));
		act.sa_flags &= ~SA_RESTART;
	} else {
		and_sc(&interrupting, ~signal_bit(sig));
		act.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &act, NULL);
}
