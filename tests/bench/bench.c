/* What the plain programs of `make bench` share: the command line, how long to measure, teams
 * of threads. See bench.h. */
#include "bench.h"
#include "shape.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A trial of ENOUGH ns says how many operations make a measurement of AIM. */
enum { ENOUGH = 10 * 1000000, AIM = 200 * 1000000 };

/* Whether shape.c counts our instructions. */
static bool shaped;

/* How many instructions a look at the clock takes is the machine's to say, and none of ours. */
uint64_t bench_now(void)
{
	struct timespec t;

	if (shaped)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void bench_wrong(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s (errno: %s)\n", file, line, what, strerror(errno));
	_exit(1);
}

void bench_figure(double value, const char *unit)
{
	printf("%.6g %s\n", value, unit);
	fflush(stdout);
}

void bench_spawn(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	errno = pthread_create(thread, NULL, fn, arg);
	MUST(errno == 0);
}

uint64_t bench_work(uint64_t n)
{
	uint64_t x = 1;

	while (n-- > 0) {
		x = x * 6364136223846793005 + 1442695040888963407;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

uint64_t bench_median(uint64_t *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static struct {
	void (*fn)(unsigned i, uint64_t n);
	uint64_t n;
	pthread_barrier_t start;
	struct {
		pthread_t thread;
		uint64_t from, to;
	} * member;
} team;

static void *team_member(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	pthread_barrier_wait(&team.start);
	team.member[i].from = bench_now();
	if (shaped && i == 0) {
		team.fn(i, team.n - BENCH_OPS);
		bench_mark();
		team.fn(i, BENCH_OPS);
		bench_mark();
	} else {
		team.fn(i, team.n);
	}
	team.member[i].to = bench_now();
	return arg;
}

/* Each takes its own times: when main gets to run is no part of the figure. */
uint64_t bench_team(unsigned threads, void (*fn)(unsigned i, uint64_t n), uint64_t n)
{
	uint64_t from = UINT64_MAX, to = 0;

	team.fn = fn;
	team.n = n;
	team.member = calloc(threads, sizeof(*team.member));
	MUST(team.member);
	MUST(pthread_barrier_init(&team.start, NULL, threads) == 0);
	for (uintptr_t i = 0; i < threads; i++)
		bench_spawn(&team.member[i].thread, team_member, (void *)i);
	for (uintptr_t i = 0; i < threads; i++) {
		void *result;
		MUST(pthread_join(team.member[i].thread, &result) == 0);
		MUST(result == (void *)i);
		if (team.member[i].from < from)
			from = team.member[i].from;
		if (team.member[i].to > to)
			to = team.member[i].to;
	}
	pthread_barrier_destroy(&team.start);
	free(team.member);
	return to - from;
}

void *bench_same(void *arg)
{
	return arg;
}

/* For who compares what goes on beside it: measurement after measurement, until it is killed, with
 * the cpu's time beside the clock's. */
static void measure_on(const struct row *r, uint64_t n)
{
	for (;;) {
		struct timespec t0, t1;
		uint64_t ns;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
		ns = r->timed(n);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
		printf("%.6g %.6g\n", (double)ns / (double)n,
		       ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) /
			       (double)n);
		fflush(stdout);
	}
}

/* A team marks the operations of its first member; who is alone marks his own. */
static void be_counted(const struct row *r)
{
	uint64_t multiple = r->multiple ? r->multiple : 1;

	r->timed(BENCH_WARM * multiple);
	shaped = true;
	if (!team.fn)
		bench_mark();
	r->timed(team.fn ? (BENCH_WARM + BENCH_OPS) * multiple : BENCH_OPS);
	if (!team.fn)
		bench_mark();
}

static void measure(const struct row *r)
{
	uint64_t multiple = r->multiple ? r->multiple : 1, n = multiple;

	if (r->threaded) {
		pthread_t t;
		bench_spawn(&t, bench_same, NULL);
		MUST(pthread_join(t, NULL) == 0);
	}
	if (getenv("BENCH_SHAPE")) {
		be_counted(r);
		return;
	}
	/* The lesser of two: one may have been held up from without. */
	for (;;) {
		uint64_t ns = r->timed(n), again = r->timed(n);
		double more;
		if (again < ns)
			ns = again;
		more = AIM / (double)(ns + 1);
		if (more > 50)
			more = 50;
		if (more > 1)
			n = (uint64_t)((double)n * more) / multiple * multiple + multiple;
		if (ns >= ENOUGH)
			break;
	}
	if (getenv("BENCH_ON"))
		measure_on(r, n / 4 / multiple * multiple + multiple);
	bench_figure((double)r->timed(n) / (double)n, "ns");
}

int main(int argc, char **argv)
{
	for (const struct row *r = bench_rows; r->name; r++) {
		if (argc < 2) {
			puts(r->name);
		} else if (strcmp(r->name, argv[1]) == 0) {
			if (r->once)
				r->once(argc - 2, argv + 2);
			else
				measure(r);
			return 0;
		}
	}
	if (argc < 2)
		return 0;
	fprintf(stderr, "%s: no such row: %s\n", argv[0], argv[1]);
	return 2;
}
