/* Many threads that sleep at a gate. `parked create N`: what the first creation of one takes,
 * until all are asleep. `parked memory N`: what one takes of the machine's memory, the kernel's
 * share included, by how much MemAvailable falls. `or-fewer` after N: as many as the kernel
 * permits will do. */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate = PTHREAD_COND_INITIALIZER, all_there = PTHREAD_COND_INITIALIZER;
static long wanted, there;
static bool or_fewer, open;

static void *waits_at_gate(void *arg)
{
	pthread_mutex_lock(&lock);
	if (++there == wanted)
		pthread_cond_signal(&all_there);
	while (!open)
		pthread_cond_wait(&gate, &lock);
	there--;
	pthread_mutex_unlock(&lock);
	return arg;
}

static double available_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[256];
	double kib = -1;

	MUST(f);
	while (kib < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lf", &kib) != 1)
			kib = -1;
	fclose(f);
	MUST(kib >= 0);
	return kib;
}

static pthread_t *t;

static void prepare(int argc, char **argv)
{
	wanted = argc > 0 ? atol(argv[0]) : 10000;
	or_fewer = argc > 1 && strcmp(argv[1], "or-fewer") == 0;
	MUST(wanted > 0);
	t = calloc((size_t)wanted, sizeof(*t));
	MUST(t);
	for (long i = 0; i < wanted; i++) /* its pages are not the threads' */
		__atomic_store_n(&t[i], (pthread_t)1, __ATOMIC_RELAXED);
}

static void fill_gate(void)
{
	for (long i = 0; i < wanted; i++) {
		int e = pthread_create(&t[i], NULL, waits_at_gate, NULL);
		if (e == EAGAIN && or_fewer && i > 0) {
			pthread_mutex_lock(&lock);
			wanted = i;
			pthread_mutex_unlock(&lock);
		} else {
			errno = e;
			MUST(e == 0);
		}
	}
	pthread_mutex_lock(&lock);
	while (there < wanted)
		pthread_cond_wait(&all_there, &lock);
	pthread_mutex_unlock(&lock);
}

static void empty_gate(void)
{
	pthread_mutex_lock(&lock);
	open = true;
	pthread_cond_broadcast(&gate);
	pthread_mutex_unlock(&lock);
	for (long i = 0; i < wanted; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	MUST(there == 0);
	free(t);
}

static void create(int argc, char **argv)
{
	uint64_t t0;

	prepare(argc, argv);
	t0 = bench_now();
	fill_gate();
	t0 = bench_now() - t0;
	empty_gate();
	bench_figure((double)t0 / 1e3 / (double)wanted, "µs");
}

/* What a process before us had, its page tables above all, comes back up to a second after
 * its end; while it does, ours would seem to take less than nothing. */
static double settled_kib(void)
{
	struct timespec pause = { 0, 200000000 };
	double now = available_kib(), last;

	for (int i = 0; i < 15; i++) {
		last = now;
		nanosleep(&pause, NULL);
		now = available_kib();
		if (now - last < 4096)
			break;
	}
	return now;
}

static void memory(int argc, char **argv)
{
	struct timespec settle = { 0, 50000000 };
	double before, after;

	prepare(argc, argv);
	before = settled_kib();
	fill_gate();
	nanosleep(&settle, NULL);
	after = available_kib();
	empty_gate();
	bench_figure((before - after) / (double)wanted, "KiB");
}

const struct row bench_rows[] = {
	{ .name = "create", .once = create },
	{ .name = "memory", .once = memory },
	{ 0 },
};
