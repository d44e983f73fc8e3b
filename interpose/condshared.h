/* Condition variables that other processes use too. */
#ifndef HEDDLE_CONDSHARED_H
#define HEDDLE_CONDSHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* cond_shared_wait: pthread_cond_clockwait; until NULL: without an end. cond_shared_wake: signals
 * one, or all. */
int cond_shared_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
		     const struct timespec *until);
int cond_shared_wake(pthread_cond_t *c, bool all);

#endif
