/* Semaphores: counts, deadlines, errors, signals, names, other processes, and the end of one.
 * The same holds natively. */
#include "event.h"

#include <semaphore.h>
#include <sys/time.h>

enum { MOST = 64 };

static pthread_t threads[MOST];
static sem_t sem, back;

static int value(sem_t *s)
{
	int n = -1;

	EXPECT_EQ(sem_getvalue(s, &n), 0);
	return n;
}

/* ---- counting ---- */

TEST(a_semaphore_counts)
{
	EXPECT_EQ(sem_init(&sem, 0, 3), 0);
	EXPECT_EQ(value(&sem), 3);
	EXPECT_EQ(sem_wait(&sem), 0);
	EXPECT_EQ(sem_trywait(&sem), 0);
	EXPECT_EQ(value(&sem), 1);
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(value(&sem), 2);
	EXPECT_EQ(sem_wait(&sem), 0);
	EXPECT_EQ(sem_wait(&sem), 0);
	FAILS(sem_trywait(&sem), EAGAIN);
	EXPECT_EQ(value(&sem), 0);
}

TEST(a_value_has_a_limit)
{
	FAILS(sem_init(&sem, 0, (unsigned)SEM_VALUE_MAX + 1), EINVAL);
	EXPECT_EQ(sem_init(&sem, 0, SEM_VALUE_MAX), 0);
	FAILS(sem_post(&sem), EOVERFLOW);
	EXPECT_EQ(value(&sem), SEM_VALUE_MAX);
	EXPECT_EQ(sem_wait(&sem), 0);
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(value(&sem), SEM_VALUE_MAX);
}

static void *times_out(void *arg)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	struct timespec until;

	for (int i = 0; i < 2; i++) {
		until = in_ms(clocks[i], 20);
		FAILS(sem_clockwait(&sem, clocks[i], &until), ETIMEDOUT);
		EXPECT(just_past(clocks[i], &until));
	}
	until = in_ms(CLOCK_REALTIME, 20);
	FAILS(sem_timedwait(&sem, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	FAILS(sem_timedwait(&sem, &until), ETIMEDOUT);
	return arg;
}

TEST(a_wait_with_a_deadline_ends_at_it_and_not_before)
{
	sem_init(&sem, 0, 0);
	times_out(NULL);
	run(8, times_out, NULL);
	/* Those that gave up left no trace. */
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(value(&sem), 1);
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(sem_timedwait(&sem, &(struct timespec){ .tv_sec = 1 }), 0);
}

static void *asks_badly(void *arg)
{
	struct timespec bad = in_ms(CLOCK_REALTIME, 1000);

	bad.tv_nsec = 1000000000;
	FAILS(sem_timedwait(&sem, &bad), EINVAL);
	bad.tv_nsec = -1;
	FAILS(sem_clockwait(&sem, CLOCK_MONOTONIC, &bad), EINVAL);
	return arg;
}

TEST(a_deadline_that_is_none_is_an_error)
{
	sem_init(&sem, 0, 0);
	asks_badly(NULL);
	run(1, asks_badly, NULL);
}

/* ---- among threads ---- */

static void *answers(void *arg)
{
	for (long i = 0; i < (long)arg; i++) {
		EXPECT_EQ(sem_wait(&sem), 0);
		EXPECT_EQ(sem_post(&back), 0);
	}
	return NULL;
}

TEST(two_threads_play_ping_pong)
{
	enum { N = 3000 };

	sem_init(&sem, 0, 0);
	sem_init(&back, 0, 0);
	start(threads, 1, answers, (void *)(long)N);
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(value(&back), 0);
		EXPECT_EQ(sem_post(&sem), 0);
		EXPECT_EQ(sem_wait(&back), 0);
	}
	join(threads, 1);
	EXPECT_EQ(value(&sem), 0);
}

static _Atomic int inside, entries;

static void *enters(void *arg)
{
	for (int i = 0; i < 100; i++) {
		struct timespec far = in_ms(CLOCK_REALTIME, 20000);
		EXPECT_EQ(i % 2 ? sem_wait(&sem) : sem_timedwait(&sem, &far), 0);
		EXPECT(atomic_fetch_add(&inside, 1) < 5);
		atomic_fetch_add(&entries, 1);
		if (i % 4 == 0)
			sched_yield();
		atomic_fetch_sub(&inside, 1);
		EXPECT_EQ(sem_post(&sem), 0);
	}
	return arg;
}

TEST(of_64_threads_never_more_than_the_value_are_inside)
{
	sem_init(&sem, 0, 5);
	run(64, enters, NULL);
	EXPECT_EQ(entries, 6400);
	EXPECT_EQ(value(&sem), 5);
}

static void *posts(void *arg)
{
	for (int i = 0; i < 200; i++)
		EXPECT_EQ(sem_post(&sem), 0);
	return arg;
}

static void *takes(void *arg)
{
	for (int i = 0; i < 200; i++)
		EXPECT_EQ(sem_wait(&sem), 0);
	return arg;
}

TEST(each_post_ends_exactly_one_wait)
{
	sem_init(&sem, 0, 0);
	start(threads, 32, takes, NULL);
	start(threads + 32, 32, posts, NULL);
	join(threads, 64);
	EXPECT_EQ(value(&sem), 0);
}

static void *takes_and_unmaps(void *arg)
{
	EXPECT_EQ(sem_wait(arg), 0);
	EXPECT_EQ(sem_destroy(arg), 0);
	EXPECT_EQ(munmap(arg, PAGE), 0);
	return NULL;
}

TEST(a_semaphore_may_be_unmapped_as_soon_as_the_wait_is_over)
{
	for (int i = 0; i < 300; i++) {
		sem_t *s = mapped(MAP_PRIVATE);
		sem_init(s, 0, 0);
		start(threads, 1, takes_and_unmaps, s);
		for (int j = 0; j < i % 5; j++)
			sched_yield();
		EXPECT_EQ(sem_post(s), 0);
		join(threads, 1);
	}
}

/* ---- signals ---- */

static _Atomic int handled;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
}

static void on_signal_post(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
	EXPECT_EQ(sem_post(&sem), 0);
}

/* The third call posts. */
static void on_third_post(int sig)
{
	(void)sig;
	if (atomic_fetch_add(&handled, 1) == 2)
		EXPECT_EQ(sem_post(&sem), 0);
}

static void alarm_each_ms(long ms)
{
	struct itimerval t = { { 0, ms * 1000 }, { 0, ms * 1000 } };

	EXPECT_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

TEST(a_handler_may_post)
{
	sem_init(&sem, 0, 0);
	handle_with(SIGUSR1, on_signal_post, SA_RESTART);
	start(threads, 2, takes, NULL);
	for (int i = 0; i < 400; i++)
		EXPECT_EQ(raise(SIGUSR1), 0);
	join(threads, 2);
	EXPECT_EQ(handled, 400);
	EXPECT_EQ(value(&sem), 0);
}

TEST(a_handler_may_post_what_the_main_thread_waits_for)
{
	sem_init(&sem, 0, 0);
	handle_with(SIGALRM, on_third_post, SA_RESTART);
	alarm_each_ms(10);
	EXPECT_EQ(sem_wait(&sem), 0);
	EXPECT(handled >= 3);
	alarm_each_ms(0);
	EXPECT_EQ(value(&sem), 0);
}

TEST(a_handler_may_post_among_threads_that_sleep)
{
	sem_init(&sem, 0, 0);
	sem_init(&back, 0, 0);
	start(threads, 3, answers, (void *)1);
	handle_with(SIGALRM, on_third_post, SA_RESTART);
	alarm_each_ms(10);
	EXPECT_EQ(sem_wait(&back), 0);
	alarm_each_ms(0);
	EXPECT(handled >= 3);
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(sem_post(&sem), 0);
	join(threads, 3);
	EXPECT_EQ(value(&back), 2);
}

static void *answers_back(void *arg)
{
	sem_wait(&back);
	return arg;
}

static void is_interrupted(void)
{
	struct timespec far = in_ms(CLOCK_REALTIME, 20000);

	handled = 0;
	handle_with(SIGALRM, on_signal, 0);
	alarm_each_ms(20);
	FAILS(sem_wait(&sem), EINTR);
	EXPECT(handled > 0);
	FAILS(sem_timedwait(&sem, &far), EINTR);
	EXPECT(handled > 1);
	/* Which only a wait without a deadline outlives. */
	handle_with(SIGALRM, on_signal, SA_RESTART);
	FAILS(sem_timedwait(&sem, &far), EINTR);
	alarm_each_ms(0);
	EXPECT_EQ(value(&sem), 0);
	EXPECT_EQ(sem_post(&sem), 0);
	EXPECT_EQ(sem_wait(&sem), 0);
}

TEST(a_handler_ends_a_wait_of_the_only_thread_with_eintr)
{
	sem_init(&sem, 0, 0);
	is_interrupted();
}

TEST(a_handler_ends_a_wait_of_the_main_thread_with_eintr)
{
	sem_init(&sem, 0, 0);
	sem_init(&back, 0, 0);
	start(threads, 4, answers_back, NULL);
	settle();
	is_interrupted();
}

/* ---- beyond the process ---- */

TEST(a_semaphore_may_have_a_name)
{
	char name[64];
	sem_t *a, *b;
	int status;

	snprintf(name, sizeof(name), "/conformance-%d", (int)getpid());
	EXPECT(sem_open(name, 0) == SEM_FAILED);
	EXPECT_EQ(errno, ENOENT);
	a = sem_open(name, O_CREAT | O_EXCL, 0600, 2);
	EXPECT(a != SEM_FAILED);
	EXPECT(sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED);
	EXPECT_EQ(errno, EEXIST);
	b = sem_open(name, O_CREAT, 0600, 9);
	EXPECT(a == b);
	EXPECT_EQ(value(b), 2);
	EXPECT_EQ(sem_wait(a), 0);
	EXPECT_EQ(sem_wait(b), 0);
	FAILS(sem_trywait(a), EAGAIN);
	if (fork() == 0) {
		sem_t *mine = sem_open(name, 0);
		EXPECT(mine != SEM_FAILED);
		EXPECT_EQ(sem_post(mine), 0);
		EXPECT_EQ(sem_close(mine), 0);
		_exit(0);
	}
	EXPECT_EQ(sem_wait(a), 0);
	wait(&status);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(sem_close(b), 0);
	EXPECT_EQ(sem_unlink(name), 0);
	FAILS(sem_unlink(name), ENOENT);
	EXPECT_EQ(sem_post(a), 0);
	EXPECT_EQ(value(a), 1);
	EXPECT_EQ(sem_close(a), 0);
}

static void *echoes(void *arg)
{
	sem_t *pair = arg;

	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(sem_wait(&pair[0]), 0);
		EXPECT_EQ(sem_post(&pair[1]), 0);
	}
	return NULL;
}

TEST(a_shared_semaphore_counts_in_all_processes)
{
	sem_t *pair = mapped(MAP_SHARED);
	struct timespec until;
	int status;

	EXPECT_EQ(sem_init(&pair[0], 1, 0), 0);
	EXPECT_EQ(sem_init(&pair[1], 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		if (fork() != 0)
			continue;
		run(3, echoes, pair);
		_exit(0);
	}
	until = in_ms(CLOCK_MONOTONIC, 20);
	FAILS(sem_clockwait(&pair[1], CLOCK_MONOTONIC, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
	start(threads, 1, echoes, pair);
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(sem_post(&pair[0]), 0);
		if (i % 2)
			EXPECT_EQ(sem_wait(&pair[1]), 0);
	}
	for (int i = 0; i < 500; i++)
		EXPECT_EQ(sem_wait(&pair[1]), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT(wait(&status) > 0);
		EXPECT_EQ(status, 0);
	}
	join(threads, 1);
	EXPECT_EQ(value(&pair[0]), 0);
	EXPECT_EQ(value(&pair[1]), 0);
}
