/* Waiting for one another: condition variables, semaphores, a barrier, a queue. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* An operation of the ping-pongs is a round trip. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned[2] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };
static uint64_t turns;

static void cond_player(unsigned me, uint64_t n)
{
	pthread_mutex_lock(&lock);
	for (uint64_t i = 0; i < n; i++) {
		while (turns % 2 != me)
			pthread_cond_wait(&turned[me], &lock);
		turns++;
		pthread_cond_signal(&turned[1 - me]);
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t pingpong_cond(uint64_t n)
{
	uint64_t ns;

	turns = 0;
	ns = bench_team(2, cond_player, n);
	MUST(turns == 2 * n);
	return ns;
}

static void *sleeper(void *arg)
{
	(void)arg;
	MUST(sleep(1000000) == 0);
	return NULL;
}

/* Beside one who sleeps for long: no switch is dearer for it. */
static uint64_t pingpong_sleeper(uint64_t n)
{
	static bool sleeps;
	pthread_t id;

	if (!sleeps)
		MUST(pthread_create(&id, NULL, sleeper, NULL) == 0);
	sleeps = true;
	return pingpong_cond(n);
}

/* Both at one condition variable. */
static pthread_cond_t either = PTHREAD_COND_INITIALIZER;

static void broadcast_player(unsigned me, uint64_t n)
{
	pthread_mutex_lock(&lock);
	for (uint64_t i = 0; i < n; i++) {
		while (turns % 2 != me)
			pthread_cond_wait(&either, &lock);
		turns++;
		pthread_cond_broadcast(&either);
	}
	pthread_mutex_unlock(&lock);
}

static uint64_t pingpong_broadcast(uint64_t n)
{
	uint64_t ns;

	turns = 0;
	ns = bench_team(2, broadcast_player, n);
	MUST(turns == 2 * n);
	return ns;
}

static sem_t sem[2];

static void sem_player(unsigned me, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		MUST(sem_wait(&sem[me]) == 0);
		turns++;
		MUST(sem_post(&sem[1 - me]) == 0);
	}
}

static uint64_t by_sems(void (*player)(unsigned, uint64_t), int shared, uint64_t n)
{
	uint64_t ns;

	turns = 0;
	sem_init(&sem[0], shared, 1);
	sem_init(&sem[1], shared, 0);
	ns = bench_team(2, player, n);
	MUST(turns == 2 * n);
	sem_destroy(&sem[0]);
	sem_destroy(&sem[1]);
	return ns;
}

static uint64_t pingpong_sem(uint64_t n)
{
	return by_sems(sem_player, 0, n);
}

/* Each tied to its kernel thread by what that alone knows of it: a directory of its own. */
static void wired_player(unsigned me, uint64_t n)
{
	MUST(unshare(CLONE_FS) == 0);
	sem_player(me, n);
}

static uint64_t pingpong_wired(uint64_t n)
{
	return by_sems(wired_player, 0, n);
}

/* Which other processes might use, too: glibc's own. */
static uint64_t pingpong_shared(uint64_t n)
{
	return by_sems(sem_player, 1, n);
}

/* A round: everybody does its share of WORK_NS, then all meet. The figure is the round's time
 * beyond the work's, which so many cpus as the argument says share. */
enum { MEMBERS = 64, WORK_NS = 86000, CALIBRATE = 100000, ROUNDS = 2000 };
static pthread_barrier_t barrier;
static uint64_t share_steps;
static uint64_t round_of[MEMBERS];
static uint64_t serials;

static void barrier_member(unsigned i, uint64_t n)
{
	for (uint64_t r = 0; r < n; r++) {
		int result;
		bench_work(share_steps);
		round_of[i] = r;
		result = pthread_barrier_wait(&barrier);
		MUST(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
		/* My neighbour is in this round, or past it by at most one. */
		MUST(__atomic_load_n(&round_of[(i + 1) % MEMBERS], __ATOMIC_RELAXED) - r <= 1);
		if (result == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	}
}

static void barrier_64(int argc, char **argv)
{
	int cpus = argc > 0 ? atoi(argv[0]) : 1;
	uint64_t best = UINT64_MAX, ns;

	MUST(cpus > 0);
	for (int i = 0; i < 50; i++) {
		uint64_t t0 = bench_now();
		bench_work(CALIBRATE);
		ns = bench_now() - t0;
		if (ns < best)
			best = ns;
	}
	share_steps = (uint64_t)WORK_NS * CALIBRATE / MEMBERS / best;
	MUST(pthread_barrier_init(&barrier, NULL, MEMBERS) == 0);
	ns = bench_team(MEMBERS, barrier_member, ROUNDS);
	MUST(serials == ROUNDS);
	bench_figure((double)ns / ROUNDS - (double)WORK_NS / cpus, "ns");
}

/* Four put, four take, through a ring of 64: an operation is an item. */
enum { SIDE = 4, RING = 64 };
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static uint64_t ring[RING], ring_head, ring_tail, taken_sum;

static void put(uint64_t item)
{
	pthread_mutex_lock(&lock);
	while (ring_tail - ring_head == RING)
		pthread_cond_wait(&not_full, &lock);
	ring[ring_tail++ % RING] = item;
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&lock);
}

static uint64_t take(void)
{
	uint64_t item;

	pthread_mutex_lock(&lock);
	while (ring_tail == ring_head)
		pthread_cond_wait(&not_empty, &lock);
	item = ring[ring_head++ % RING];
	pthread_cond_signal(&not_full);
	pthread_mutex_unlock(&lock);
	return item;
}

static void queue_member(unsigned i, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t k = 0; k < n / SIDE; k++) {
		if (i < SIDE)
			put(k + 1);
		else
			sum += take();
	}
	__atomic_add_fetch(&taken_sum, sum, __ATOMIC_RELAXED);
}

static uint64_t queue_4_4(uint64_t n)
{
	uint64_t ns, each = n / SIDE;

	ring_head = ring_tail = taken_sum = 0;
	ns = bench_team(2 * SIDE, queue_member, n);
	MUST(ring_head == n && ring_tail == n);
	MUST(taken_sum == SIDE * (each * (each + 1) / 2));
	return ns;
}

const struct row bench_rows[] = {
	{ .name = "pingpong-cond", .timed = pingpong_cond },
	{ .name = "pingpong-sleeper", .timed = pingpong_sleeper },
	{ .name = "pingpong-broadcast", .timed = pingpong_broadcast },
	{ .name = "pingpong-sem", .timed = pingpong_sem },
	{ .name = "pingpong-wired", .timed = pingpong_wired },
	{ .name = "pingpong-shared", .timed = pingpong_shared },
	{ .name = "barrier-64", .once = barrier_64 },
	{ .name = "queue-4+4", .timed = queue_4_4, .multiple = SIDE },
	{ 0 },
};
