/* C11's threads: a team meets at a condition variable, round after round, with a destructor of its
 * local data and a call that is made once. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

#include "must.h"

enum { TEAM = 12, ROUNDS = 400, SLEEPERS = 100 };
static mtx_t lock;
static cnd_t all_there;
static int there, rounds, made;
static tss_t local;
static once_flag once = ONCE_FLAG_INIT;
static atomic_int freed, slept;

static void make(void)
{
	made++;
}

static void drop(void *p)
{
	free(p);
	atomic_fetch_add(&freed, 1);
}

static void meet(void)
{
	int mine;

	mtx_lock(&lock);
	mine = rounds;
	if (++there == TEAM) {
		there = 0;
		rounds++;
		cnd_broadcast(&all_there);
	}
	while (rounds == mine)
		cnd_wait(&all_there, &lock);
	mtx_unlock(&lock);
}

static int member(void *arg)
{
	MUST(tss_set(local, malloc(100)) == thrd_success);
	call_once(&once, make);
	for (int i = 0; i < ROUNDS; i++)
		meet();
	return *(int *)arg * 3;
}

static int sleeper(void *arg)
{
	(void)arg;
	thrd_sleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	atomic_fetch_add(&slept, 1);
	thrd_exit(5);
}

int main(void)
{
	thrd_t t[SLEEPERS];
	int number[TEAM], result;

	MUST(mtx_init(&lock, mtx_plain) == thrd_success && cnd_init(&all_there) == thrd_success);
	MUST(tss_create(&local, drop) == thrd_success);
	for (int i = 0; i < TEAM; i++) {
		number[i] = i;
		MUST(thrd_create(&t[i], member, &number[i]) == thrd_success);
	}
	for (int i = 0; i < TEAM; i++)
		MUST(thrd_join(t[i], &result) == thrd_success && result == 3 * i);
	MUST(rounds == ROUNDS && made == 1 && freed == TEAM);
	for (int i = 0; i < SLEEPERS; i++)
		MUST(thrd_create(&t[i], sleeper, NULL) == thrd_success);
	for (int i = 0; i < SLEEPERS; i++)
		MUST(thrd_join(t[i], &result) == thrd_success && result == 5);
	MUST(slept == SLEEPERS);
	puts("all good");
	return 0;
}
