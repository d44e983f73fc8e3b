/* Threads that are there beside the one that is tested, each a load of its own kind. */
#ifndef CONFORMANCE_OTHERS_H
#define CONFORMANCE_OTHERS_H

#include "threads.h"

static _Atomic bool others_end;

static inline void *yields_on(void *arg)
{
	while (!others_end)
		sched_yield();
	return arg;
}

static inline void *sleeps_on(void *arg)
{
	while (!others_end)
		usleep(3000);
	return arg;
}

/* fn on a thread of its own, beside one that yields and one that sleeps. */
static inline void among_others(void *(*fn)(void *), void *arg)
{
	pthread_t t[2];

	others_end = false;
	start(&t[0], 1, yields_on, NULL);
	start(&t[1], 1, sleeps_on, NULL);
	on_thread(fn, arg);
	others_end = true;
	join(t, 2);
}

#endif
