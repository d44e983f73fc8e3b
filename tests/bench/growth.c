/* What an operation costs among many threads: `growth SUBJECT N`. Each is measured in its second
 * round, when the threads and their stacks are there. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned threads;

/* All the operations of a round, of which each thread has its share. */
static uint64_t share(uint64_t all)
{
	return all / threads > 0 ? all / threads : 1;
}

static void measure(int argc, char **argv, void (*fn)(unsigned i, uint64_t n), uint64_t all)
{
	uint64_t n;

	MUST(argc == 1 && atoi(argv[0]) > 0);
	threads = (unsigned)atoi(argv[0]);
	n = share(all);
	bench_team(threads, fn, 1);
	bench_figure((double)bench_team(threads, fn, n) / (double)(n * threads), "ns");
}

/* One after the other, then all are joined. */
static void create(int argc, char **argv)
{
	uint64_t ns = 0, n;
	pthread_t *t;

	MUST(argc == 1 && atoi(argv[0]) > 0);
	threads = (unsigned)atoi(argv[0]);
	n = share(50000);
	t = calloc(threads, sizeof(*t));
	MUST(t);
	for (uint64_t round = 0; round <= n; round++) {
		uint64_t t0 = bench_now();
		for (unsigned i = 0; i < threads; i++)
			bench_spawn(&t[i], bench_same, &t[i]);
		for (unsigned i = 0; i < threads; i++) {
			void *result;
			MUST(pthread_join(t[i], &result) == 0 && result == &t[i]);
		}
		if (round > 0)
			ns += bench_now() - t0;
	}
	free(t);
	bench_figure((double)ns / (double)(n * threads), "ns");
}

static void yields(unsigned i, uint64_t n)
{
	(void)i;
	while (n-- > 0)
		MUST(sched_yield() == 0);
}

static void yield(int argc, char **argv)
{
	measure(argc, argv, yields, 1000000);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t count;

static void locks(unsigned i, uint64_t n)
{
	(void)i;
	while (n-- > 0) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
	}
}

static void mutex(int argc, char **argv)
{
	measure(argc, argv, locks, 2000000);
	MUST(count == threads + threads * share(2000000));
}

/* A token goes round: each waits for it by a semaphore of his own. */
static sem_t *turn;
static uint64_t hops;

static void hop(unsigned i, uint64_t n)
{
	while (n-- > 0) {
		MUST(sem_wait(&turn[i]) == 0);
		hops++;
		MUST(sem_post(&turn[(i + 1) % threads]) == 0);
	}
}

static void ring(int argc, char **argv)
{
	MUST(argc == 1 && atoi(argv[0]) > 0);
	turn = calloc((size_t)atoi(argv[0]), sizeof(*turn));
	MUST(turn);
	for (int i = 0; i < atoi(argv[0]); i++)
		MUST(sem_init(&turn[i], 0, i == 0) == 0);
	measure(argc, argv, hop, 100000);
	MUST(hops == threads + threads * share(100000));
}

/* A byte to and fro between two, beside n who wait. */
enum { BYTES = 20000 };
static int there[2], back[2];
static pthread_barrier_t gate;

static void *waits(void *arg)
{
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	return arg;
}

static void player(unsigned i, uint64_t n)
{
	for (uint64_t k = 0; k < n; k++) {
		char c = (char)k;
		if (i == 0)
			MUST(write(there[1], &c, 1) == 1);
		MUST(read(i == 0 ? back[0] : there[0], &c, 1) == 1);
		MUST(c == (char)k);
		if (i == 1)
			MUST(write(back[1], &c, 1) == 1);
	}
}

static void pipe_beside(int argc, char **argv)
{
	pthread_t *t;
	unsigned n;

	MUST(argc == 1 && atoi(argv[0]) > 0);
	n = (unsigned)atoi(argv[0]);
	t = calloc(n, sizeof(*t));
	MUST(t && pipe(there) == 0 && pipe(back) == 0);
	MUST(pthread_barrier_init(&gate, NULL, n + 1) == 0);
	for (unsigned i = 0; i < n; i++)
		bench_spawn(&t[i], waits, NULL);
	pthread_barrier_wait(&gate);
	bench_team(2, player, 256);
	bench_figure((double)bench_team(2, player, BYTES) / BYTES, "ns");
	pthread_barrier_wait(&gate);
	for (unsigned i = 0; i < n; i++)
		MUST(pthread_join(t[i], NULL) == 0);
}

const struct row bench_rows[] = {
	{ .name = "create", .once = create },	 { .name = "yield", .once = yield },
	{ .name = "ring", .once = ring },	 { .name = "mutex", .once = mutex },
	{ .name = "pipe", .once = pipe_beside }, { 0 },
};
