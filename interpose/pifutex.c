/* Priority-inheriting futexes by syscall(), the private ones. The word has its owner's tid, which
 * the kernel knows of no thread; so they are served here, by the kernel's rules for words: who
 * waits sets FUTEX_WAITERS, which sends the owner here to unlock. Nobody's priority is raised. */
#include <errno.h>
#include <linux/futex.h>

#include "futex.h"
#include "rawfutex.h"
#include "signals.h"
#include "thread.h"

static long lock_pi(struct thread *t, ATOMIC(uint32_t) *word, bool try, const struct deadline *d)
{
	uint32_t me = (uint32_t)t->tid;

	/* With the bit, once it waited: there may be others, and an unlock that found none clears
	 * it late. */
	for (;;) {
		uint32_t was = ld_rlx(word), owner = was & FUTEX_TID_MASK;
		if (owner == 0) {
			/* Acquire: pairs with the exchange in unlock_pi. */
			if (cas_acq(word, was, was | me))
				return 0;
			continue;
		}
		if (owner == (uint32_t)t->tid)
			return -EDEADLK;
		if (try)
			return -EAGAIN;
		/* Or he has let go meanwhile, and ended. */
		if (!thread_numbered((pid_t)owner) && ld_rlx(word) == was)
			return -ESRCH;
		if (!(was & FUTEX_WAITERS) && !cas_rlx(word, was, was | FUTEX_WAITERS))
			continue;
		me |= FUTEX_WAITERS;
		/* Handlers run amid, and do not end it. */
		if (futex_wait(word, was | FUTEX_WAITERS, (uint32_t)FUTEX_ANY, d, 0) == -ETIMEDOUT)
			return -ETIMEDOUT;
	}
}

static long unlock_pi(const struct thread *t, ATOMIC(uint32_t) *word)
{
	if ((ld_rlx(word) & FUTEX_TID_MASK) != (uint32_t)t->tid)
		return -EPERM;
	/* Whoever is woken finds it, and keeps the bit for the others. */
	xchg_sc(word, FUTEX_WAITERS);
	if (futex_wake(word, 1, (uint32_t)FUTEX_ANY, 0) == 0)
		cas_rlx(word, FUTEX_WAITERS, 0);
	return 0;
}

long pi_futex(struct thread *t, ATOMIC(uint32_t) *word, int cmd, const struct deadline *d)
{
	if (cmd == FUTEX_UNLOCK_PI)
		return unlock_pi(t, word);
	return lock_pi(t, word, cmd == FUTEX_TRYLOCK_PI, d);
}
