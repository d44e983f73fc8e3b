/* One call in a thread of its own, asleep in it when begins() returns. */
#ifndef CONFORMANCE_CALL_H
#define CONFORMANCE_CALL_H

#include "common.h"

struct call {
	long (*fn)(void);
	long result;
	int error;
};

static inline void *makes_call(void *arg)
{
	struct call *c = arg;

	tick(&entered);
	errno = KEPT;
	c->result = c->fn();
	c->error = errno;
	tick(&returned);
	return NULL;
}

static inline pthread_t begins(struct call *c)
{
	pthread_t t;

	entered.n = returned.n = 0;
	EXPECT_EQ(pthread_create(&t, NULL, makes_call, c), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(returned.n, 0);
	return t;
}

#endif
