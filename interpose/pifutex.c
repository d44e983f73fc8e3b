/* Priority-inheriting futexes by syscall(), the private ones. The word has its owner's tid, which
 * the kernel knows of no thread; so they are served here, by the kernel's rules for words: who
 * waits sets FUTEX_WAITERS, which sends the owner here to unlock. Nobody's priority is raised; no
 * circle of more than one is found, and nobody hears that the owner has ended while he waited. */
#include <errno.h>
#include <linux/futex.h>

#include "futex.h"
#include "rawfutex.h"
#include "signals.h"
#include "thread.h"

static long lock_pi(struct thread *t, ATOMIC(uint32_t) *word, bool try, const struct deadline *d)
{
	uint32_t me = (uint32_t)t->tid;
	int again = 0;

	/* With the bit, once it waited: there may be others. */
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
		/* Or he has let go meanwhile, and ended. */
		if (!thread_numbered((pid_t)owner) && ld_rlx(word) == was)
			return -ESRCH;
		if (try)
			return -EAGAIN;
		if (!(was & FUTEX_WAITERS) && !cas_rlx(word, was, was | FUTEX_WAITERS))
			continue;
		me |= FUTEX_WAITERS;
		/* Handlers run amid, and do not end it. Who was woken in vain keeps his place. */
		if (futex_wait(word, was | FUTEX_WAITERS, (uint32_t)FUTEX_ANY, d, again) ==
		    -ETIMEDOUT)
			return -ETIMEDOUT;
		again = FUTEX_LIFO;
	}
}

static long unlock_pi(const struct thread *t, ATOMIC(uint32_t) *word)
{
	if ((ld_rlx(word) & FUTEX_TID_MASK) != (uint32_t)t->tid)
		return -EPERM;
	/* Whoever is woken finds the bit alone, and keeps it for the others. */
	futex_free(word, FUTEX_WAITERS);
	return 0;
}

long pi_futex(struct thread *t, ATOMIC(uint32_t) *word, int cmd, const struct deadline *d)
{
	if (cmd == FUTEX_UNLOCK_PI)
		return unlock_pi(t, word);
	return lock_pi(t, word, cmd == FUTEX_TRYLOCK_PI, d);
}
