/* Mutexes and notes that block kernel threads. Owns the debug record of held ranks.
 *
 * The mutex is the classic three-state futex lock: a taker that finds it held spins a
 * little, then marks it 2 and sleeps; the holder wakes one sleeper if it finds a 2. */
#include "lock.h"

#include "check.h"
#include "cpu.h"
#include "gmp.h"
#include "os.h"
#include "tls.h"

enum { SPINS = 4, SPIN_PAUSES = 30 };

static void lock_slow(struct mutex *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (ld_rlx(&l->key) == 0 && cas_acq(&l->key, 0, 1))
			return;
		for (int j = 0; j < SPIN_PAUSES; j++)
			arch_relax();
	}
	/* Whoever leaves this loop holds the lock as 2: there may be others behind it, and
	 * a needless wake-up is cheaper than a lost one. */
	while (xchg_acq(&l->key, 2) != 0)
		futexsleep(&l->key, 2, -1);
}

void lock(struct mutex *l)
{
	lockrank_push(l);
	/* Acquire: pairs with the release in unlock. */
	if (!cas_acq(&l->key, 0, 1))
		lock_slow(l);
}

bool trylock(struct mutex *l)
{
	if (!cas_acq(&l->key, 0, 1))
		return false;
	lockrank_push(l);
	return true;
}

void unlock(struct mutex *l)
{
	lockrank_pop(l);
	/* Release: pairs with the acquire in lock. Sequentially consistent, because who queued
	 * under the lock looks for spinners next (wakep). */
	if (xchg_sc(&l->key, 0) == 2)
		futexwakeup(&l->key, 1);
}

void noteclear(struct note *n)
{
	st_rlx(&n->key, 0);
}

void notewakeup(struct note *n)
{
	/* Release: pairs with the acquire in notesleep; the sleeper sees all before it. */
	xchg_rel(&n->key, 1);
	futexwakeup(&n->key, 1);
}

void notesleep(struct note *n)
{
	while (ld_acq(&n->key) == 0)
		futexsleep(&n->key, 0, -1);
}

bool notetsleep(struct note *n, int64_t ns)
{
	uint64_t until = nanotime() + (uint64_t)ns;
	for (;;) {
		if (ld_acq(&n->key) != 0)
			return true;
		int64_t left = (int64_t)(until - nanotime());
		if (left <= 0)
			return false;
		futexsleep(&n->key, 0, left);
	}
}
