/* Boehm's collector, which stops every thread by a signal and reads its stack and registers: what a
 * thread holds there alone must live through collections, however the thread waits. */
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "must.h"

struct node {
	struct node *next;
	long value;
};
enum { TEAM = 12, READERS = 6, LENGTH = 300 };
static int ends[READERS][2];

static struct node *list(long seed, int n)
{
	struct node *head = NULL;

	for (int i = 0; i < n; i++) {
		struct node *x = GC_MALLOC(sizeof(*x));
		x->value = seed + i;
		x->next = head;
		head = x;
	}
	return head;
}

static int whole(const struct node *x, long seed, int n)
{
	for (; x; x = x->next)
		if (x->value != seed + --n)
			return 0;
	return n == 0;
}

static int deep(long seed, int depth)
{
	struct node *mine = list(seed + depth, 30);

	if (depth > 0 && !deep(seed, depth - 1))
		return 0;
	if (depth % 8 == 0)
		sched_yield();
	return whole(mine, seed + depth, 30);
}

static void *works(void *arg)
{
	long seed = (long)arg * 1000;

	for (int i = 0; i < 300; i++) {
		struct node *mine = list(seed, LENGTH);
		MUST(deep(seed, 30) && whole(mine, seed, LENGTH));
	}
	return list(seed, 10);
}

static void *reads(void *arg)
{
	long me = (long)arg;
	struct node *mine = list(me, LENGTH);
	char c;

	MUST(read(ends[me][0], &c, 1) == 1);
	MUST(whole(mine, me, LENGTH));
	return NULL;
}

int main(void)
{
	pthread_t team[TEAM], reader[READERS];
	void *result;

	GC_INIT();
	for (long i = 0; i < READERS; i++) {
		MUST(pipe(ends[i]) == 0);
		MUST(pthread_create(&reader[i], NULL, reads, (void *)i) == 0);
	}
	for (long i = 0; i < TEAM; i++)
		MUST(pthread_create(&team[i], NULL, works, (void *)i) == 0);
	for (int i = 0; i < 30; i++) {
		GC_gcollect();
		list(77, 1000);
	}
	for (long i = 0; i < TEAM; i++) {
		MUST(pthread_join(team[i], &result) == 0);
		GC_gcollect();
		MUST(whole(result, i * 1000, 10));
	}
	for (int i = 0; i < READERS; i++)
		MUST(write(ends[i][1], "x", 1) == 1);
	for (int i = 0; i < READERS; i++)
		MUST(pthread_join(reader[i], NULL) == 0);
	puts("all good");
	return 0;
}
