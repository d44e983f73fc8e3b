/* Threads that compute without pause: how long all take, how evenly they run, how long one
 * beside them that sleeps has to wait. */
#include "bench.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* All that many threads have to do takes a cpu about 0.4 s. */
enum { CROWD = 16, CROWD_STEPS = 24000000 };

static void *computes(void *arg)
{
	*(uint64_t *)arg = bench_work(CROWD_STEPS);
	return arg;
}

static void crowd(int argc, char **argv)
{
	static uint64_t result[CROWD];
	pthread_t t[CROWD];
	uint64_t t0 = bench_now(), ns;

	(void)argc;
	(void)argv;
	for (int i = 0; i < CROWD; i++)
		bench_spawn(&t[i], computes, &result[i]);
	for (int i = 0; i < CROWD; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	ns = bench_now() - t0;
	for (int i = 1; i < CROWD; i++)
		MUST(result[i] == result[0]);
	MUST(result[0] == bench_work(CROWD_STEPS));
	bench_figure((double)ns / 1e6, "ms");
}

static bool stop;

static bool stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

static struct hog {
	pthread_t thread;
	uint64_t work;
} __attribute__((aligned(128))) hogs[8];

static void *spins(void *arg)
{
	struct hog *h = arg;

	while (!stopped()) {
		bench_work(1000);
		__atomic_store_n(&h->work, h->work + 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void start_hogs(int n)
{
	for (int i = 0; i < n; i++)
		bench_spawn(&hogs[i].thread, spins, &hogs[i]);
}

static void stop_hogs(int n)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < n; i++)
		MUST(pthread_join(hogs[i].thread, NULL) == 0);
}

static void sleep_ns(long ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	MUST(nanosleep(&t, NULL) == 0);
}

/* The least work that one of 8 did in 2 s, as a part of the most. */
static void fairness(int argc, char **argv)
{
	uint64_t least = UINT64_MAX, most = 0;

	(void)argc;
	(void)argv;
	start_hogs(8);
	sleep_ns(2000000000);
	for (int i = 0; i < 8; i++) {
		uint64_t work = __atomic_load_n(&hogs[i].work, __ATOMIC_RELAXED);
		if (work < least)
			least = work;
		if (work > most)
			most = work;
	}
	stop_hogs(8);
	MUST(most > 0);
	bench_figure((double)least / (double)most, "of-most");
}

/* How much longer than 1 ms a sleep of 1 ms takes beside a hog. */
enum { SLEEPS = 200 };
static uint64_t late[SLEEPS];

static void *sleeps(void *arg)
{
	for (int i = 0; i < SLEEPS; i++) {
		uint64_t t0 = bench_now(), ns;
		sleep_ns(1000000);
		ns = bench_now() - t0;
		MUST(ns >= 1000000);
		late[i] = ns - 1000000;
	}
	return arg;
}

static void lateness(int argc, char **argv)
{
	pthread_t t;

	(void)argc;
	(void)argv;
	start_hogs(1);
	bench_spawn(&t, sleeps, NULL);
	MUST(pthread_join(t, NULL) == 0);
	stop_hogs(1);
	MUST(hogs[0].work > 0);
	bench_figure((double)bench_median(late, SLEEPS) / 1e3, "µs");
	bench_figure((double)late[SLEEPS - 1 - SLEEPS / 100] / 1e3, "µs");
}

/* One computes, one sleeps for 5 ms, both are new each time. */
enum { MIXED = 60, MIXED_STEPS = 1000000, MIXED_NS = 5000000 };

static void *works_once(void *arg)
{
	*(uint64_t *)arg = bench_work(MIXED_STEPS);
	return arg;
}

static void *naps_once(void *arg)
{
	sleep_ns(MIXED_NS);
	return arg;
}

static void mixed(int argc, char **argv)
{
	uint64_t t0 = bench_now(), right = bench_work(MIXED_STEPS), found;

	(void)argc;
	(void)argv;
	for (int i = 0; i < MIXED; i++) {
		pthread_t worker, napper;
		bench_spawn(&worker, works_once, &found);
		bench_spawn(&napper, naps_once, NULL);
		MUST(pthread_join(worker, NULL) == 0 && pthread_join(napper, NULL) == 0);
		MUST(found == right);
	}
	bench_figure((double)(bench_now() - t0) / 1e6 / MIXED, "ms");
}

/* How long a computation takes beside 8 threads that block in stdio again and again, of which
 * nobody tells the scheduler: each reads lines of a pipe, into which one comes each 5 ms. */
enum { READERS = 8, BESIDE_STEPS = 150000000 };
static int feeds[READERS];

static void *reads_lines(void *arg)
{
	FILE *f = arg;
	char line[16];
	long n = 0;

	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	MUST(n > 0);
	return NULL;
}

static void *feeds_all(void *arg)
{
	while (!stopped()) {
		for (int i = 0; i < READERS; i++)
			MUST(write(feeds[i], "line\n", 5) == 5);
		sleep_ns(5000000);
	}
	return arg;
}

static void *computes_beside(void *arg)
{
	*(uint64_t *)arg = bench_work(BESIDE_STEPS);
	return arg;
}

static void unannounced(int argc, char **argv)
{
	pthread_t reader[READERS], feeder, worker[2];
	uint64_t found[2], t0;

	(void)argc;
	(void)argv;
	for (int i = 0; i < READERS; i++) {
		int ends[2];
		MUST(pipe(ends) == 0);
		feeds[i] = ends[1];
		bench_spawn(&reader[i], reads_lines, fdopen(ends[0], "r"));
	}
	bench_spawn(&feeder, feeds_all, NULL);
	t0 = bench_now();
	for (int i = 0; i < 2; i++)
		bench_spawn(&worker[i], computes_beside, &found[i]);
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(worker[i], NULL) == 0);
	t0 = bench_now() - t0;
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	MUST(pthread_join(feeder, NULL) == 0);
	for (int i = 0; i < READERS; i++) {
		MUST(close(feeds[i]) == 0);
		MUST(pthread_join(reader[i], NULL) == 0);
	}
	MUST(found[0] == found[1]);
	bench_figure((double)t0 / 1e6, "ms");
}

const struct row bench_rows[] = {
	{ .name = "crowd-16", .once = crowd },
	{ .name = "mixed", .once = mixed },
	{ .name = "unannounced-8", .once = unannounced },
	{ .name = "fairness-8", .once = fairness },
	{ .name = "lateness", .once = lateness },
	{ 0 },
};
