/* Mutexes of every kind: who gets one, who is told off, what is left of it. The same holds
 * natively. */
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct kind {
	int type, robust, protocol, shared;
};

enum { PLAIN = 4, NKINDS = 12, PAGE = 4096 };

static const struct kind kinds[NKINDS] = {
	{ PTHREAD_MUTEX_NORMAL, 0, 0, 0 },
	{ PTHREAD_MUTEX_RECURSIVE, 0, 0, 0 },
	{ PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0 },
	{ PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0 },
	{ PTHREAD_MUTEX_NORMAL, 0, 0, 1 },
	{ PTHREAD_MUTEX_RECURSIVE, 0, 0, 1 },
	{ PTHREAD_MUTEX_NORMAL, 1, 0, 0 },
	{ PTHREAD_MUTEX_ERRORCHECK, 1, 0, 0 },
	{ PTHREAD_MUTEX_RECURSIVE, 1, 0, 1 },
	{ PTHREAD_MUTEX_NORMAL, 0, 1, 0 },
	{ PTHREAD_MUTEX_ERRORCHECK, 0, 1, 0 },
	{ PTHREAD_MUTEX_RECURSIVE, 0, 1, 1 },
};

static void make(pthread_mutex_t *m, const struct kind *kind)
{
	pthread_mutexattr_t attr;

	EXPECT_EQ(pthread_mutexattr_init(&attr), 0);
	EXPECT_EQ(pthread_mutexattr_settype(&attr, kind->type), 0);
	if (kind->robust)
		EXPECT_EQ(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST), 0);
	if (kind->protocol)
		EXPECT_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT), 0);
	if (kind->shared)
		EXPECT_EQ(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
	EXPECT_EQ(pthread_mutex_init(m, &attr), 0);
	pthread_mutexattr_destroy(&attr);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void *mapped(int how)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);

	EXPECT(p != MAP_FAILED);
	return p;
}

/* on_thread: what fn returns, run on a thread of its own. */
static long on_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	void *r;

	EXPECT_EQ(pthread_create(&t, NULL, fn, arg), 0);
	EXPECT_EQ(pthread_join(t, &r), 0);
	return (long)r;
}

static void *tries(void *m)
{
	int r = pthread_mutex_trylock(m);

	if (r == 0)
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
	return (void *)(long)r;
}

static void *unlocks(void *m)
{
	return (void *)(long)pthread_mutex_unlock(m);
}

static void *times_out(void *m)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 8);
	long start = now_us(), took;

	EXPECT_EQ(pthread_mutex_timedlock(m, &until), ETIMEDOUT);
	took = now_us() - start;
	EXPECT(took >= 7000 && took < 1000000);
	return NULL;
}

TEST(a_locked_one_of_any_kind_is_busy_for_others_and_free_once_unlocked)
{
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(pthread_mutex_lock(&m), 0);
		EXPECT_EQ(on_thread(tries, &m), EBUSY);
		on_thread(times_out, &m);
		EXPECT_EQ(pthread_mutex_unlock(&m), 0);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(pthread_mutex_trylock(&m), 0);
		EXPECT_EQ(on_thread(tries, &m), EBUSY);
		EXPECT_EQ(pthread_mutex_unlock(&m), 0);
		EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	}
}

struct counter {
	pthread_mutex_t m;
	long n, rounds;
	int inside;
};

static void *counts(void *arg)
{
	struct counter *c = arg;

	for (long i = 0; i < c->rounds; i++) {
		while (i % 4 == 3 && pthread_mutex_trylock(&c->m) != 0)
			sched_yield();
		if (i % 4 != 3)
			EXPECT_EQ(pthread_mutex_lock(&c->m), 0);
		EXPECT_EQ(c->inside++, 0);
		c->n++;
		EXPECT_EQ(--c->inside, 0);
		EXPECT_EQ(pthread_mutex_unlock(&c->m), 0);
	}
	return NULL;
}

TEST(of_any_number_of_threads_one_is_inside_at_a_time)
{
	static const long numbers[] = { 2, 8, 64 };
	static pthread_t t[64];

	for (int i = 0; i < NKINDS * 3; i++) {
		long threads = numbers[i % 3], rounds = (i / 3 < PLAIN ? 19200 : 1280) / threads;
		struct counter c = { .rounds = rounds };
		make(&c.m, &kinds[i / 3]);
		for (int j = 0; j < threads; j++)
			EXPECT_EQ(pthread_create(&t[j], NULL, counts, &c), 0);
		for (int j = 0; j < threads; j++)
			EXPECT_EQ(pthread_join(t[j], NULL), 0);
		EXPECT_EQ(c.n, threads * rounds);
		EXPECT_EQ(pthread_mutex_destroy(&c.m), 0);
	}
}

/* ---- kinds ---- */
static void as_error_checking(pthread_mutex_t *m)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 1000);

	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_lock(m), EDEADLK);
	EXPECT_EQ(pthread_mutex_trylock(m), EBUSY);
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), EDEADLK);
	until.tv_nsec = -1;
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), EDEADLK);
	EXPECT_EQ(on_thread(unlocks, m), EPERM);
	EXPECT_EQ(on_thread(tries, m), EBUSY);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
}

static void as_recursive(pthread_mutex_t *m)
{
	struct timespec until = { 0, -1 };

	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
	for (int i = 0; i < 300; i++)
		EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_trylock(m), 0);
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), 0);
	EXPECT_EQ(on_thread(unlocks, m), EPERM);
	for (int i = 0; i < 302; i++) {
		if (i % 100 == 1)
			EXPECT_EQ(on_thread(tries, m), EBUSY);
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
	}
	EXPECT_EQ(on_thread(tries, m), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
}

static void as_normal(pthread_mutex_t *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_trylock(m), EBUSY);
	times_out(m);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT_EQ(on_thread(tries, m), 0);
}

TEST(error_checking_ones_tell_of_every_misuse)
{
	pthread_mutex_t fixed = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	as_error_checking(&fixed);
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		if (kinds[i].type == PTHREAD_MUTEX_ERRORCHECK)
			as_error_checking(&m);
	}
}

TEST(recursive_ones_are_unlocked_as_often_as_locked)
{
	pthread_mutex_t fixed = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	as_recursive(&fixed);
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		if (kinds[i].type == PTHREAD_MUTEX_RECURSIVE)
			as_recursive(&m);
	}
}

TEST(normal_and_adaptive_ones_wait_for_themselves)
{
	pthread_mutex_t fixed = PTHREAD_MUTEX_INITIALIZER, m;
	pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

	as_normal(&fixed);
	as_normal(&adaptive);
	make(&m, &kinds[0]);
	as_normal(&m);
	make(&m, &kinds[3]);
	as_normal(&m);
}

TEST(the_owner_is_seen_while_it_is_locked)
{
	for (int i = 0; i < PLAIN; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		for (int j = 0; j < 3; j++) {
			EXPECT_EQ(m.__data.__lock, 0);
			EXPECT_EQ(m.__data.__owner, 0);
			EXPECT_EQ(pthread_mutex_lock(&m), 0);
			if (j > 0)
				on_thread(times_out, &m);
			EXPECT(m.__data.__lock != 0);
			EXPECT_EQ(m.__data.__owner, gettid());
			EXPECT_EQ(pthread_mutex_unlock(&m), 0);
		}
	}
}

static void *sees_itself(void *arg)
{
	pthread_mutex_t *m = arg;

	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(m->__data.__owner, gettid());
	sched_yield();
	EXPECT_EQ(m->__data.__owner, gettid());
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	return NULL;
}

TEST(each_of_many_threads_sees_itself_as_the_owner)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_t t[20];

	for (int i = 0; i < 20; i++)
		pthread_create(&t[i], NULL, sees_itself, &m);
	for (int i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(m.__data.__owner, 0);
	EXPECT_EQ(m.__data.__lock, 0);
}

TEST(a_locked_one_cannot_be_destroyed)
{
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		pthread_mutex_lock(&m);
		/* glibc does not look at robust ones. */
		if (!kinds[i].robust)
			EXPECT_EQ(pthread_mutex_destroy(&m), EBUSY);
		EXPECT_EQ(pthread_mutex_unlock(&m), 0);
		EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	}
}

/* ---- time ---- */
static void *bad_times(void *arg)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	static const struct timespec bad[] = { { 0, -1 }, { 0, 1000000000 }, { LONG_MAX, -1 } };
	static const struct timespec past[] = { { 0, 0 }, { -5, 0 }, { 3, 999999999 } };
	pthread_mutex_t *m = arg;
	int blocks = pthread_mutex_trylock(m);

	if (!blocks)
		pthread_mutex_unlock(m);
	for (int i = 0; i < 6; i++) {
		long start = now_us();
		int r = pthread_mutex_clocklock(m, clocks[i % 2], &bad[i / 2]);
		EXPECT_EQ(r, blocks ? EINVAL : 0);
		if (r == 0)
			EXPECT_EQ(pthread_mutex_unlock(m), 0);
		r = pthread_mutex_clocklock(m, clocks[i % 2], &past[i / 2]);
		EXPECT_EQ(r, blocks ? ETIMEDOUT : 0);
		if (r == 0)
			EXPECT_EQ(pthread_mutex_unlock(m), 0);
		EXPECT(now_us() - start < 1000000);
	}
	EXPECT_EQ(pthread_mutex_clocklock(m, CLOCK_BOOTTIME, &past[0]), EINVAL);
	return NULL;
}

TEST(a_deadline_counts_only_for_one_that_must_wait)
{
	/* By priority only the real clock is sure to be known to the kernel. */
	for (int i = 0; i < NKINDS && !kinds[i].protocol; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		on_thread(bad_times, &m);
		pthread_mutex_lock(&m);
		on_thread(bad_times, &m);
		pthread_mutex_unlock(&m);
	}
}

static void *waits_by_both_clocks(void *arg)
{
	pthread_mutex_t *m = arg;
	struct timespec until = in_ms(CLOCK_MONOTONIC, 20);
	long start = now_us();

	EXPECT_EQ(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &until), ETIMEDOUT);
	EXPECT(now_us() - start >= 19000 && now_us() - start < 1000000);
	start = now_us();
	until = in_ms(CLOCK_REALTIME, 20);
	EXPECT_EQ(pthread_mutex_clocklock(m, CLOCK_REALTIME, &until), ETIMEDOUT);
	EXPECT(now_us() - start >= 19000 && now_us() - start < 1000000);
	until = in_ms(CLOCK_MONOTONIC, 5000);
	EXPECT_EQ(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &until), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT(now_us() - start < 2000000);
	return NULL;
}

TEST(waits_end_at_their_deadline_or_with_the_lock)
{
	for (int i = 0; i < PLAIN; i++) {
		pthread_mutex_t m;
		pthread_t t;
		make(&m, &kinds[i]);
		pthread_mutex_lock(&m);
		pthread_create(&t, NULL, waits_by_both_clocks, &m);
		usleep(50000);
		pthread_mutex_unlock(&m);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

static int handled;

static void handler(int sig)
{
	handled = sig;
}

static void *waits_undisturbed(void *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	pthread_testcancel();
	return NULL;
}

TEST(neither_a_signal_nor_a_cancellation_ends_a_wait)
{
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		pthread_t t;
		make(&m, &kinds[i]);
		signal(SIGUSR1, handler);
		pthread_mutex_lock(&m);
		handled = 0;
		pthread_create(&t, NULL, waits_undisturbed, &m);
		usleep(2000);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_cancel(t), 0);
		usleep(2000);
		EXPECT_EQ(pthread_tryjoin_np(t, NULL), EBUSY);
		pthread_mutex_unlock(&m);
		void *r;
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT(r == PTHREAD_CANCELED);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(handled, SIGUSR1);
	}
}

/* ---- memory that goes with the last user ---- */
struct brief {
	pthread_mutex_t m;
	int users;
	bool slow;
};

static void *last_unmaps(void *arg)
{
	struct brief *b = arg;
	bool last;

	EXPECT_EQ(pthread_mutex_lock(&b->m), 0);
	last = --b->users == 0;
	if (b->slow)
		usleep(600);
	EXPECT_EQ(pthread_mutex_unlock(&b->m), 0);
	if (last) {
		EXPECT_EQ(pthread_mutex_destroy(&b->m), 0);
		EXPECT_EQ(munmap(b, PAGE), 0);
	}
	return NULL;
}

TEST(the_last_to_have_held_one_may_unmap_it)
{
	enum { N = 4 };

	for (int i = 0; i < 160; i++) {
		struct brief *b = mapped(MAP_PRIVATE);
		pthread_t t[N];
		make(&b->m, &kinds[i % PLAIN]);
		b->users = N;
		b->slow = i % 8 >= 6;
		for (int j = 0; j < N; j++)
			pthread_create(&t[j], NULL, last_unmaps, b);
		for (int j = 0; j < N; j++)
			pthread_join(t[j], NULL);
	}
}

/* ---- processes ---- */
static void counts_by_threads(struct counter *c)
{
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, counts, c), 0);
	counts(c);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

TEST(processes_and_their_threads_exclude_each_other)
{
	for (int i = PLAIN; i < NKINDS; i++) {
		struct counter *c = mapped(MAP_SHARED);
		int status;
		if (!kinds[i].shared)
			continue;
		make(&c->m, &kinds[i]);
		c->rounds = 500;
		pid_t pid = fork();
		counts_by_threads(c);
		if (pid == 0)
			_exit(0);
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
		EXPECT_EQ(c->n, 2 * 3 * 500);
		munmap(c, PAGE);
	}
}
