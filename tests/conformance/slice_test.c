/* Who does nothing but make one short call after the other is stopped like anybody else: others
 * have their turns. */
#include "threads.h"

#include <semaphore.h>
#include <time.h>

enum { TURNS = 20 };

static volatile int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem;

/* Each in a loop of its own, that has next to nothing else. */
#define DOES(name, ...)                                                                            \
	static void *name(void *arg)                                                               \
	{                                                                                          \
		while (!stop) {                                                                    \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		return arg;                                                                        \
	}

DOES(asks_his_tid, gettid())
DOES(tests_for_his_cancellation, pthread_testcancel())
DOES(sets_his_cancellation, pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL))
DOES(comes_to_a_barrier_of_one, pthread_barrier_wait(&barrier))
DOES(locks_a_mutex, pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex))
DOES(locks_to_read, pthread_rwlock_rdlock(&rwlock); pthread_rwlock_unlock(&rwlock))
DOES(posts_and_takes, sem_post(&sem); sem_trywait(&sem))

/* What another used of a cpu until the caller, who slept for a ms, had a turn, at most; in ns. So
 * it is the same on a machine that is busy. */
static uint64_t longest_turn(void *(*fn)(void *))
{
	struct timespec pause = { 0, MS }, cpu;
	uint64_t before = 0, now, most = 0;
	clockid_t clock;
	pthread_t t;

	stop = 0;
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	EXPECT_EQ(pthread_getcpuclockid(t, &clock), 0);
	for (int i = 0; i < TURNS; i++) {
		EXPECT_EQ(nanosleep(&pause, NULL), 0);
		EXPECT_EQ(clock_gettime(clock, &cpu), 0);
		now = (uint64_t)cpu.tv_sec * 1000 * MS + (uint64_t)cpu.tv_nsec;
		if (now - before > most)
			most = now - before;
		before = now;
	}
	stop = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
	return most;
}

TEST(who_only_makes_short_calls_does_not_keep_others_waiting)
{
	/* A slice is 10 ms, and may be over some time before anybody sees it. */
	enum { LONG = 100 };
	static void *(*const calls[])(void *) = {
		asks_his_tid,	       tests_for_his_cancellation,
		sets_his_cancellation, comes_to_a_barrier_of_one,
		locks_a_mutex,	       locks_to_read,
		posts_and_takes,
	};

	EXPECT_EQ(pthread_barrier_init(&barrier, NULL, 1), 0);
	EXPECT_EQ(sem_init(&sem, 0, 0), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		uint64_t ns = longest_turn(calls[i]);
		test_say("  call %u: %llu us at most", (unsigned)i, (unsigned long long)ns / 1000);
		EXPECT(ns < (uint64_t)LONG * MS);
	}
}
