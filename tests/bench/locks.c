/* Locks: what one costs that nobody else wants, alone in the process and after a thread has
 * come and gone; and what one costs that many want. */
#include "bench.h"

#include <pthread.h>
#include <semaphore.h>

/* n times a call that must be true, after what prepares it. */
#define FREE(name, prepare, call)                                                                  \
	static uint64_t name(uint64_t n)                                                           \
	{                                                                                          \
		uint64_t t0;                                                                       \
		prepare;                                                                           \
		t0 = bench_now();                                                                  \
		for (uint64_t i = 0; i < n; i++)                                                   \
			MUST(call);                                                                \
		return bench_now() - t0;                                                           \
	}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t sem;
static pthread_key_t key;
/* Declared const, it would be called once. */
static pthread_t (*volatile self)(void) = pthread_self;

static void new_key(void)
{
	static bool made;

	if (!made)
		MUST(pthread_key_create(&key, NULL) == 0);
	made = true;
	MUST(pthread_setspecific(key, &key) == 0);
}

FREE(free_mutex, , pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0)
FREE(free_rdlock, , pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0)
FREE(free_wrlock, , pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0)
FREE(free_sem, MUST(sem_init(&sem, 0, 1) == 0), sem_wait(&sem) == 0 && sem_post(&sem) == 0)
FREE(free_self, pthread_t me = self(), self() == me)
FREE(free_getspecific, new_key(), pthread_getspecific(key) == &key)

static uint64_t count, twin;

static void mutex_member(unsigned i, uint64_t n)
{
	(void)i;
	while (n-- > 0) {
		pthread_mutex_lock(&mutex);
		count++;
		pthread_mutex_unlock(&mutex);
	}
}

static uint64_t contended(unsigned threads, uint64_t n)
{
	uint64_t ns;

	count = 0;
	ns = bench_team(threads, mutex_member, n / threads);
	MUST(count == n);
	return ns;
}

static uint64_t mutex_2(uint64_t n)
{
	return contended(2, n);
}

static uint64_t mutex_64(uint64_t n)
{
	return contended(64, n);
}

static uint64_t mutex_1000(uint64_t n)
{
	return contended(1000, n);
}

/* One that the kernel hands over, and some work with it. */
static pthread_mutex_t inherits;

static void pi_member(unsigned i, uint64_t n)
{
	enum { STEPS = 5000 };

	(void)i;
	while (n-- > 0) {
		MUST(pthread_mutex_lock(&inherits) == 0);
		count++;
		bench_work(STEPS);
		MUST(pthread_mutex_unlock(&inherits) == 0);
	}
}

static uint64_t mutex_pi_8(uint64_t n)
{
	pthread_mutexattr_t attr;
	uint64_t ns;

	count = 0;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	MUST(pthread_mutex_init(&inherits, &attr) == 0);
	ns = bench_team(8, pi_member, n / 8);
	MUST(count == n);
	MUST(pthread_mutex_destroy(&inherits) == 0);
	return ns;
}

/* One in a hundred writes. */
static void rwlock_member(unsigned i, uint64_t n)
{
	for (uint64_t k = i; k < n + i; k++) {
		if (k % 100 == 99) {
			pthread_rwlock_wrlock(&rwlock);
			count++;
			twin++;
		} else {
			pthread_rwlock_rdlock(&rwlock);
			MUST(*(volatile uint64_t *)&count == *(volatile uint64_t *)&twin);
		}
		pthread_rwlock_unlock(&rwlock);
	}
}

static uint64_t rwlock_64(uint64_t n)
{
	uint64_t ns, writes = 0;

	for (unsigned i = 0; i < 64; i++)
		writes += (n / 64 + i) / 100;
	count = twin = 0;
	ns = bench_team(64, rwlock_member, n / 64);
	MUST(count == writes && twin == writes);
	return ns;
}

const struct row bench_rows[] = {
	{ .name = "mutex-alone", .timed = free_mutex },
	{ .name = "mutex-threaded", .timed = free_mutex, .threaded = true },
	{ .name = "rdlock-alone", .timed = free_rdlock },
	{ .name = "rdlock-threaded", .timed = free_rdlock, .threaded = true },
	{ .name = "wrlock-alone", .timed = free_wrlock },
	{ .name = "wrlock-threaded", .timed = free_wrlock, .threaded = true },
	{ .name = "sem-alone", .timed = free_sem },
	{ .name = "sem-threaded", .timed = free_sem, .threaded = true },
	{ .name = "self-alone", .timed = free_self },
	{ .name = "self-threaded", .timed = free_self, .threaded = true },
	{ .name = "getspecific-alone", .timed = free_getspecific },
	{ .name = "getspecific-threaded", .timed = free_getspecific, .threaded = true },
	{ .name = "mutex-2", .timed = mutex_2, .multiple = 2 },
	{ .name = "mutex-64", .timed = mutex_64, .multiple = 64 },
	{ .name = "mutex-1000", .timed = mutex_1000, .multiple = 1000 },
	{ .name = "mutex-pi-8", .timed = mutex_pi_8, .multiple = 8 },
	{ .name = "rwlock-64", .timed = rwlock_64, .multiple = 64 },
	{ 0 },
};
