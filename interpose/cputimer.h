/* Timers that go by the cpu time of one of our threads, of which the kernel knows nothing. Each has
 * a number of the kernel's: that of a timer which is never set. All others are the kernel's:
 * timer.c. */
#ifndef HEDDLE_CPUTIMER_H
#define HEDDLE_CPUTIMER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct thread;

/* timer_call: the system call nr about a timer, as syscall() does it; false: the kernel is to be
 * asked. In timer.c. */
bool timer_call(long nr, const long *a, long *r);

/* cputimer_create: by that clock of of's; *event: what it brings, NULL: as the kernel has it.
 * Returns its number or -errno. The others: false: that number is none of these; else *r is as the
 * kernel would answer. cputimer_deletes: it rings no more, and the number may go.
 * Context  the program's, its handlers, too. */
long cputimer_create(struct thread *of, clockid_t clock, const struct sigevent *event);
bool cputimer_settime(int number, int flags, const struct itimerspec *to, struct itimerspec *was,
		      long *r);
bool cputimer_gettime(int number, struct itimerspec *is, long *r);
void cputimer_deletes(int number);

/* cputimers_look: core_config.clocked. cputimers_ring: by signals_thread: those that it found due.
 * cputimers_forked: in a child, which has none. */
uint64_t cputimers_look(uint64_t now);
void cputimers_ring(void);
void cputimers_forked(void);

#endif
