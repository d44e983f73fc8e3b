/* Clocks of the cpu time that a thread has used. */
#ifndef HEDDLE_CPUCLOCK_H
#define HEDDLE_CPUCLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct thread;

/* cpu_call: a raw call that asks for a thread's cpu time. False: it does not. */
bool cpu_call(long nr, const long *a, long *r);

/* cpu_owner: of which thread of ours it is the clock; NULL: of none. cpu_tid: the tid that it
 * names; 0: the caller's. cpu_clock: what that clock of t's shows, in ns. Of a kernel thread that
 * is none of ours, or was not known as such yet, cpu_ofthread: is it its own, by that name? */
struct thread *cpu_owner(int clock);
pid_t cpu_tid(int clock);
uint64_t cpu_clock(struct thread *t, int clock);
bool cpu_ofthread(int clock);

/* cpu_forgotten: what was said of t's cpu time was of another thread. */
void cpu_forgotten(struct thread *t);

#endif
