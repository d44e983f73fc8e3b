/* Mutexes and notes that block kernel threads.
 *
 * Taking a free mutex is one locked instruction, letting it go is none: a plain store, then
 * a look whether anybody sleeps. The full fence that such a look needs between the two is
 * the sleeper's business, who has time: it counts itself, makes every thread of the process
 * pass a barrier (membarrier), and only then looks at the key a last time.
 *
 *   unlocker: key = 0                sleeper: sleepers++
 *             looks at sleepers               barrier
 *                                             looks at key, sleeps while it is 1
 *
 * If the unlocker looked before the barrier, its store is out by the end of the barrier and
 * the sleeper sees 0; if it looks after, it sees the sleeper. */
#include "lock.h"

#include "check.h"
#include "cpu.h"
#include "gmp.h"
#include "os.h"
#include "sched.h"
#include "tls.h"

enum { SPINS = 4, SPIN_PAUSES = 30, NAP_NS = 200 * 1000 };

static void lock_slow(struct mutex *l)
{
	int64_t ns;

	for (int i = 0; i < SPINS; i++) {
		if (ld_rlx(&l->key) == 0 && cas_acq(&l->key, 0, 1))
			return;
		for (int j = 0; j < SPIN_PAUSES; j++)
			arch_relax();
	}
	add_sc(&l->sleepers, 1);
	/* Where the kernel refuses the barrier, a nap instead of a sleep. */
	ns = os_membarrier() ? -1 : NAP_NS;
	if (l->rank == RANK_SCHED && choose_policed())
		ns = NAP_NS;
	while (!cas_acq(&l->key, 0, 1)) {
		futexsleep(&l->key, 1, ns);
		if (l->rank == RANK_SCHED && choose_policed())
			own_watch();
	}
	add_sc(&l->sleepers, (uint32_t)-1);
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
	/* Release: pairs with the acquire in lock. Then the look, in this order for the compiler;
	 * for the cpu see the top. */
	st_rel(&l->key, 0);
	compiler_barrier();
	if (ld_rlx(&l->sleepers) != 0)
		futexwakeup(&l->key, 1);
}

static inline ATOMIC(uint32_t) *word_of(struct note *n)
{
	ATOMIC(uint32_t) *shared = ld_rlx(&n->shared);

	return shared ? shared : &n->key;
}

static void note_wait(struct note *n, int64_t ns)
{
	ATOMIC(uint32_t) *word = word_of(n);

	if (word != &n->key)
		futexsleep_shared(word, 0, ns);
	else
		futexsleep(word, 0, ns);
}

void noteclear(struct note *n)
{
	st_rlx(word_of(n), 0);
}

void notewakeup(struct note *n)
{
	ATOMIC(uint32_t) *word = word_of(n);

	/* Release: pairs with the acquire in notesleep; the sleeper sees all before it. */
	xchg_rel(word, 1);
	if (word != &n->key)
		futexwakeup_shared(word, 1);
	else
		futexwakeup(word, 1);
}

void notesleep(struct note *n)
{
	while (ld_acq(word_of(n)) == 0)
		note_wait(n, -1);
}

bool notetsleep(struct note *n, int64_t ns)
{
	uint64_t until = nanotime() + (uint64_t)ns;
	for (;;) {
		if (ld_acq(word_of(n)) != 0)
			return true;
		int64_t left = (int64_t)(until - nanotime());
		if (left <= 0)
			return false;
		note_wait(n, left);
	}
}
