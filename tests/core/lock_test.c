/* The core's own locks and notes: exclusion and waking of kernel threads, and the debug
 * build's watch over the order of locks. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "host.h"
#include "sched.h"

/* ---- the order of locks ---- */

static struct mutex low = MUTEX_INIT(RANK_POLLFD), high = MUTEX_INIT(RANK_SCHED);
static struct mutex high_too = MUTEX_INIT(RANK_SCHED);
static struct mutex bucket = MUTEX_INIT(RANK_FUTEX), bucket_too = MUTEX_INIT(RANK_FUTEX);

static void on_a_g(void)
{
	start_with(1, without_sysmon);
	/* Who holds a lock may not be stopped. */
	pin(getg());
}

static void high_before_low(void)
{
	on_a_g();
	lock(&high);
	lock(&low);
}

static void high_before_low_by_trylock(void)
{
	on_a_g();
	lock(&high);
	EXPECT(trylock(&low));
}

static void two_of_one_rank(void)
{
	on_a_g();
	lock(&high);
	lock(&high_too);
}

static void unlock_of_a_stranger(void)
{
	on_a_g();
	lock(&low);
	unlock(&high);
}

static void lock_of_one_that_may_be_stopped(void)
{
	start_with(1, without_sysmon);
	lock(&high);
}

TEST(a_lock_taken_by_one_that_may_be_stopped_is_caught)
{
	if (has_dcheck())
		expect_broken("WS_I9", lock_of_one_that_may_be_stopped);
	else
		skipped("DCHECK is empty");
}

TEST(locks_out_of_order_are_caught)
{
	if (!has_dcheck()) {
		skipped("DCHECK is empty");
		return;
	}
	expect_broken("WS_I9", high_before_low);
	expect_broken("WS_I9", high_before_low_by_trylock);
	expect_broken("WS_I9", two_of_one_rank);
	expect_broken("WS_I9", unlock_of_a_stranger);
}

TEST(locks_in_order_and_two_buckets_are_fine)
{
	on_a_g();
	for (int i = 0; i < 1000; i++) {
		lock(&bucket);
		lock(&bucket_too);
		lock(&low);
		lock(&high);
		/* Let go in any order. */
		unlock(&bucket);
		unlock(&low);
		unlock(&high);
		unlock(&bucket_too);
		/* What was let go may be taken again, however low it ranks. */
		EXPECT(trylock(&low));
		unlock(&low);
	}
	unpin(getg());
}

static bool unlock_high(struct g *gp, void *arg)
{
	(void)gp;
	unlock(arg);
	return false;
}

static void park_with_a_lock(void)
{
	on_a_g();
	lock(&low);
	park(getg()->m, getg(), NULL, NULL, WAIT_PARK);
}

static void park_with_a_second_lock(void)
{
	on_a_g();
	lock(&low);
	lock(&high);
	park(getg()->m, getg(), unlock_high, &high, WAIT_PARK);
}

static void yield_with_a_lock(void)
{
	on_a_g();
	lock(&low);
	unpin(getg());
	goyield();
}

TEST(a_park_with_a_lock_held_is_caught)
{
	if (!has_dcheck()) {
		skipped("DCHECK is empty");
		return;
	}
	expect_broken("GMP_G5", park_with_a_lock);
	expect_broken("GMP_G5", park_with_a_second_lock);
	expect_broken("GMP_G5", yield_with_a_lock);
}

TEST(a_park_may_hold_the_lock_that_it_lets_go)
{
	on_a_g();
	for (int i = 0; i < 1000; i++) {
		lock(&high);
		park(getg()->m, getg(), unlock_high, &high, WAIT_PARK);
		EXPECT_EQ(high.key, 0);
	}
	unpin(getg());
}

/* ---- exclusion, with kernel threads that are no Ms ---- */

enum { THREADS = 4, TURNS = 100000 };

static struct mutex mutex = MUTEX_INIT(RANK_LEAF);
static uint64_t counter; /* under mutex, and not atomic */
static int inside;

static void nap(void)
{
	struct timespec ts = { 0, 20 * 1000 };
	nanosleep(&ts, NULL);
}

static void *count_under_lock(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		if (arg && i % 16 == 0) {
			while (!trylock(&mutex))
				sched_yield();
		} else {
			lock(&mutex);
		}
		inside++;
		EXPECT_EQ(inside, 1);
		counter++;
		/* Long enough for the others to give up spinning and sleep. */
		if (i % 1024 == 0)
			nap();
		inside--;
		unlock(&mutex);
	}
	return NULL;
}

static void exclusion(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, count_under_lock, i % 2 ? &mutex : NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(counter, THREADS * TURNS);
	EXPECT_EQ(mutex.key, 0);
	EXPECT_EQ(mutex.sleepers, 0);
}

TEST(one_thread_at_a_time_holds_a_lock)
{
	osinit();
	exclusion();
}

/* Before osinit() the kernel refuses the barrier that sleepers want. */
TEST(one_thread_at_a_time_holds_a_lock_without_membarrier)
{
	exclusion();
}

static int turns; /* under mutex */

static void *sleep_for_the_lock(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++) {
		lock(&mutex);
		turns++;
		unlock(&mutex);
	}
	return NULL;
}

static void sleepers(void)
{
	pthread_t threads[THREADS];

	lock(&mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sleep_for_the_lock, NULL);
	/* They sleep, or are about to. */
	while (ld_acq(&mutex.sleepers) != THREADS)
		sched_yield();
	EXPECT(!trylock(&mutex));
	EXPECT_EQ(turns, 0);
	unlock(&mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(turns, THREADS * 100);
	EXPECT_EQ(mutex.sleepers, 0);
}

TEST(who_sleeps_for_a_lock_is_woken_when_it_is_free)
{
	osinit();
	EXPECT(os_membarrier());
	sleepers();
}

TEST(who_naps_for_a_lock_gets_it_when_it_is_free)
{
	EXPECT(!os_membarrier());
	sleepers();
}

/* ---- notes ---- */

enum { MS = 1000 * 1000 };

static struct note ping, pong;
static int message; /* written before a note, read after it */

static void *answer(void *arg)
{
	(void)arg;
	for (int i = 1; i <= 20000; i++) {
		notesleep(&ping);
		noteclear(&ping);
		EXPECT_EQ(message, 2 * i);
		message++;
		notewakeup(&pong);
	}
	return NULL;
}

TEST(what_is_written_before_a_wake_up_is_read_after_it)
{
	pthread_t other;

	pthread_create(&other, NULL, answer, NULL);
	for (int i = 1; i <= 20000; i++) {
		message = 2 * i;
		notewakeup(&ping);
		/* Both kinds of sleep. */
		if (i % 2)
			notesleep(&pong);
		else
			EXPECT(notetsleep(&pong, 20 * 1000ll * MS));
		noteclear(&pong);
		EXPECT_EQ(message, 2 * i + 1);
	}
	pthread_join(other, NULL);
}

TEST(a_wake_up_before_the_sleep_is_kept)
{
	notewakeup(&ping);
	notesleep(&ping);
	EXPECT(notetsleep(&ping, 0));
	noteclear(&ping);
	EXPECT(!notetsleep(&ping, 0));
}

TEST(a_timed_sleep_ends_no_earlier_than_its_time)
{
	for (int64_t ns = 1; ns < 40 * MS; ns = ns * 3 + 1000) {
		uint64_t t = now_ns();
		EXPECT(!notetsleep(&ping, ns));
		EXPECT(now_ns() - t >= (uint64_t)ns);
	}
	EXPECT(!notetsleep(&ping, -1));
}
