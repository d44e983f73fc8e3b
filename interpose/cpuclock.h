/* Clocks of the cpu time that a thread has used. */
#ifndef HEDDLE_CPUCLOCK_H
#define HEDDLE_CPUCLOCK_H

#include <stdbool.h>

/* cpu_call: a raw call that asks for a thread's cpu time. False: it does not.
 * cpu_isown: is that the running thread's clock, by whatever name? */
bool cpu_call(long nr, const long *a, long *r);
bool cpu_isown(int clock);

/* cpu_forgotten: what was said of t's cpu time was of another thread. */
struct thread;
void cpu_forgotten(struct thread *t);

#endif
