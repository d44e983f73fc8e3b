/* Sleeping until a point in time. */
#ifndef HEDDLE_SLEEP_H
#define HEDDLE_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

/* gosleep: sleeps until the clock (as in futex.h's struct deadline) shows `at`.
 * Returns  0, -EINTR if a signal handler must run first, -ENOMEM.
 * Context  a G. Blocks: the G. */
int gosleep(int clock, uint64_t at);

/* gointerrupt: ends the wait that gp is in, if it is in one, with -EINTR.
 * Returns  true if it did. Context: any but a handler. */
struct g;
bool gointerrupt(struct g *gp);

#endif
