/* Barriers, private to the process, and spin locks. Process-shared barriers are glibc's own,
 * told by the word where its pthread_barrier_init says so. */
#include <errno.h>
#include <string.h>

#include "futex.h"
#include "thread.h"

/* In glibc's: in, current_round, count, shared, out. */
struct barrier {
	ATOMIC(uint32_t) in;
	ATOMIC(uint32_t) round;
	uint32_t count;
	int shared;
	ATOMIC(uint32_t) inside; /* those that have not left yet */
};

_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "it lies in the program's");

static struct barrier *barrier_of(pthread_barrier_t *b)
{
	return (struct barrier *)(void *)b;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *attr, unsigned n)
{
	served();
	return real_table.pthread_barrier_init(b, attr, n);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *b)
{
	struct barrier *bar = barrier_of(b);
	uint32_t round;
	int r = 0;

	if (!served())
		return real_table.pthread_barrier_wait(b);
	if (bar->shared) {
		bool g = thread_self() != NULL;
		if (g)
			entersyscall();
		r = real_table.pthread_barrier_wait(b);
		if (g)
			exitsyscall();
		return r;
	}
	add_sc(&bar->inside, 1);
	round = ld_acq(&bar->round);
	if (add_sc(&bar->in, 1) + 1 == bar->count) {
		st_rlx(&bar->in, 0);
		/* Sequentially consistent: publishes what all did before, and the empty `in`. */
		add_sc(&bar->round, 1);
		futex_wake(&bar->round, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
		r = PTHREAD_BARRIER_SERIAL_THREAD;
	} else {
		while (ld_acq(&bar->round) == round)
			futex_wait(&bar->round, round, (uint32_t)FUTEX_ANY, NULL, 0);
	}
	/* Release: pairs with the acquire in destroy. */
	add_sc(&bar->inside, (uint32_t)-1);
	return r;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *b)
{
	struct barrier *bar = barrier_of(b);

	if (!served() || bar->shared)
		return real_table.pthread_barrier_destroy(b);
	while (ld_acq(&bar->inside) != 0)
		sched_yield();
	return 0;
}

/* 1 free, 0 or less held: as glibc's trylock, unlock and init have it. */
EXPORT int pthread_spin_lock(pthread_spinlock_t *l)
{
	enum { SPINS = 100 };
	ATOMIC(int32_t) *word = (ATOMIC(int32_t) *)l;

	if (!served())
		return real_table.pthread_spin_lock(l);
	for (int i = 0; xchg_acq(word, 0) != 1; i++) {
		/* Spinning helps only while the holder runs on another P. */
		while (ld_rlx(word) != 1) {
			if (i++ < SPINS && core_canspin(0))
				core_dospin();
			else
				sched_yield();
		}
	}
	return 0;
}
