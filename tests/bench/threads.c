/* Threads: creating and joining them, giving way among them; and forks. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t create_join(uint64_t n)
{
	uint64_t t0 = bench_now();

	for (uintptr_t i = 0; i < n; i++) {
		pthread_t t;
		void *result;
		bench_spawn(&t, bench_same, (void *)i);
		MUST(pthread_join(t, &result) == 0 && result == (void *)i);
	}
	return bench_now() - t0;
}

enum { BATCH = 1000 };

static uint64_t create_join_batch(uint64_t n)
{
	static pthread_t t[BATCH];
	uint64_t t0 = bench_now();

	for (uint64_t done = 0; done < n; done += BATCH) {
		for (uintptr_t i = 0; i < BATCH; i++)
			bench_spawn(&t[i], bench_same, (void *)i);
		for (uintptr_t i = 0; i < BATCH; i++) {
			void *result;
			MUST(pthread_join(t[i], &result) == 0 && result == (void *)i);
		}
	}
	return bench_now() - t0;
}

static void yielder(unsigned i, uint64_t n)
{
	(void)i;
	while (n-- > 0)
		MUST(sched_yield() == 0);
}

static uint64_t yield_2(uint64_t n)
{
	return bench_team(2, yielder, n / 2);
}

static uint64_t yield_100(uint64_t n)
{
	return bench_team(100, yielder, n / 100);
}

/* Two make one thread after the other, which the other cpu has to steal if it is to run at once,
 * and wait for its word. */
static void *says_so(void *arg)
{
	MUST(sem_post(arg) == 0);
	return arg;
}

static void stealer(unsigned i, uint64_t n)
{
	sem_t said;

	(void)i;
	MUST(sem_init(&said, 0, 0) == 0);
	while (n-- > 0) {
		pthread_t t;
		bench_spawn(&t, says_so, &said);
		MUST(sem_wait(&said) == 0);
		MUST(pthread_join(t, NULL) == 0);
	}
	sem_destroy(&said);
}

static uint64_t steal(uint64_t n)
{
	return bench_team(2, stealer, n / 2);
}

/* By a process that has no other thread. */
static uint64_t fork_exit(uint64_t n)
{
	uint64_t t0 = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		MUST(pid > 0 && waitpid(pid, NULL, 0) == pid);
	}
	return bench_now() - t0;
}

const struct row bench_rows[] = {
	{ .name = "create-join", .timed = create_join },
	{ .name = "create-join-1000", .timed = create_join_batch, .multiple = BATCH },
	{ .name = "yield-2", .timed = yield_2, .multiple = 2 },
	{ .name = "yield-100", .timed = yield_100, .multiple = 100 },
	{ .name = "steal", .timed = steal, .multiple = 2 },
	{ .name = "fork", .timed = fork_exit },
	{ 0 },
};
