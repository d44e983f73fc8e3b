/* Runs a scenario: every execution of it, or one given schedule. Read explore.c. */
#ifndef HEDDLE_MODEL_EXPLORE_H
#define HEDDLE_MODEL_EXPLORE_H

#include "model.h"

struct outcome {
	bool failed;
	char why[1024];
	char schedule[4096]; /* of the execution that failed */
	unsigned long executions, states;
	double seconds;
};

/* explore_all: with at most that many preemptions and old values together (negative: any
 * number), until one execution fails or limit seconds of cpu time are over. */
void explore_all(const struct model_test *test, int departures, double limit, struct outcome *out);

/* explore_one: replays the schedule and prints each step. False if it is no schedule. */
bool explore_one(const struct model_test *test, const char *schedule, struct outcome *out);

#endif
