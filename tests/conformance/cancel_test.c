/* Cancellation that does not wait for a cancellation point. The same holds natively. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready;
static _Atomic int cleaned;
static int ends[2];
static volatile long sum;

static void clean(void *arg)
{
	cleaned += *(int *)arg;
}

/* What follows is told when it runs inside of a call, for only there the compiler counts with an
 * exception. */

static void __attribute__((noipa)) computes(void)
{
	sem_post(&ready);
	for (;;)
		sum += sum * 3 + 1;
}

static void __attribute__((noipa)) computes_in_libc(void)
{
	static char a[20000], b[20000];

	sem_post(&ready);
	for (;;)
		sum += memcmp(a, b, sizeof(a));
}

static void __attribute__((noipa)) makes_short_calls(void)
{
	struct timespec now;

	sem_post(&ready);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (pthread_mutex_trylock(&mutex) == 0)
			pthread_mutex_unlock(&mutex);
		sum += gettid();
	}
}

static void __attribute__((noipa)) yields(void)
{
	sem_post(&ready);
	for (;;)
		sched_yield();
}

static void __attribute__((noipa)) locks(void)
{
	sem_post(&ready);
	pthread_mutex_lock(&mutex);
	EXPECT(!"reached");
}

static void __attribute__((noipa)) waits(void)
{
	sem_t none;

	sem_init(&none, 0, 0);
	sem_post(&ready);
	for (;;)
		sem_wait(&none);
}

static void __attribute__((noipa)) reads(void)
{
	char c;

	sem_post(&ready);
	for (;;)
		syscall(SYS_read, ends[0], &c, 1);
}

static void *is_cancelled(void *arg)
{
	void (*fn)(void);
	int one = 1;

	memcpy(&fn, arg, sizeof(fn));
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	fn();
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel_in(void (*fn)(void), int rounds)
{
	for (int i = 0; i < rounds; i++) {
		pthread_t t;
		void *r;
		cleaned = 0;
		EXPECT_EQ(pthread_create(&t, NULL, is_cancelled, &fn), 0);
		EXPECT_EQ(sem_wait(&ready), 0);
		if (i % 3)
			usleep((unsigned)i * 100);
		EXPECT_EQ(pthread_cancel(t), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT(r == PTHREAD_CANCELED);
		EXPECT_EQ(cleaned, 1);
	}
}

TEST(an_asynchronous_cancellation_ends_a_thread_that_computes)
{
	sem_init(&ready, 0, 0);
	cancel_in(computes, 20);
	cancel_in(computes_in_libc, 20);
	cancel_in(makes_short_calls, 20);
	cancel_in(yields, 20);
}

TEST(an_asynchronous_cancellation_ends_a_thread_that_waits)
{
	sem_init(&ready, 0, 0);
	pthread_mutex_lock(&mutex);
	cancel_in(locks, 10);
	pthread_mutex_unlock(&mutex);
	cancel_in(waits, 10);
	EXPECT_EQ(pipe(ends), 0);
	cancel_in(reads, 10);
}

static void *computes_among_many(void *arg)
{
	int one = 1;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	computes();
	pthread_cleanup_pop(0);
	return arg;
}

/* More than run at a time: some are stopped in the midst of their work. */
TEST(asynchronous_cancellations_end_all_of_20_threads)
{
	pthread_t t[20];
	void *r;

	sem_init(&ready, 0, 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, computes_among_many, NULL), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(sem_wait(&ready), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(pthread_cancel(t[i]), 0);
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(pthread_join(t[i], &r), 0);
		EXPECT(r == PTHREAD_CANCELED);
	}
	EXPECT_EQ(cleaned, 20);
}

static _Atomic int enabled;

static void *disables(void *arg)
{
	int one = 1;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_post(&ready);
	for (int i = 0; i < 20; i++)
		usleep(100);
	enabled = 1;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	computes();
	pthread_cleanup_pop(0);
	return arg;
}

TEST(an_asynchronous_cancellation_waits_until_it_is_enabled)
{
	pthread_t t;

	sem_init(&ready, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, disables, NULL), 0);
	EXPECT_EQ(sem_wait(&ready), 0);
	EXPECT_EQ(pthread_cancel(t), 0);
	/* What it gives back is not asked: glibc 2.36 forgets it. */
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(enabled, 1);
	EXPECT_EQ(cleaned, 1);
}
