/* Barriers, private to the process, and spin locks. Process-shared barriers are glibc's own,
 * told by the word where its pthread_barrier_init says so. */
#include <errno.h>
#include <string.h>

#include "futex.h"
#include "thread.h"

/* In glibc's: in, current_round, count, shared, out. */
struct barrier {
	/* Low: in, high: round. As one: a thread more than the count must not arrive in a
	 * round and take it for the one before. */
	_Alignas(8) ATOMIC(uint64_t) inround;
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

EXPORT GIVES int pthread_barrier_wait(pthread_barrier_t *b)
{
	struct barrier *bar = barrier_of(b);
	ATOMIC(uint32_t) *rounds = (ATOMIC(uint32_t) *)&bar->inround + 1;
	uint64_t d, next;
	bool last;
	int r = 0;

	if (!served())
		return real_table.pthread_barrier_wait(b);
	if (bar->shared) {
		bool g = thread_self() != NULL;
		if (g)
			wait_enter();
		r = real_table.pthread_barrier_wait(b);
		if (g)
			exitsyscall();
		return r;
	}
	add_sc(&bar->inside, 1);
	do {
		d = ld_rlx(&bar->inround);
		last = (uint32_t)d + 1 == bar->count;
		next = last ? ((d >> 32) + 1) << 32 : d + 1;
		/* Sequentially consistent: publishes what all did before. */
	} while (!cas_sc(&bar->inround, d, next));
	if (last) {
		futex_wake(rounds, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
		r = PTHREAD_BARRIER_SERIAL_THREAD;
	} else {
		while (ld_acq(rounds) == (uint32_t)(d >> 32))
			futex_wait(rounds, (uint32_t)(d >> 32), (uint32_t)FUTEX_ANY, NULL, 0);
	}
	/* Release: pairs with the acquire in destroy. */
	add_sc(&bar->inside, (uint32_t)-1);
	released();
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
EXPORT GIVES int pthread_spin_lock(pthread_spinlock_t *l)
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
