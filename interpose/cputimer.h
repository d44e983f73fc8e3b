/* Timers that go by the cpu time of one of our threads, of which the kernel knows nothing. Each has
 * a number of the kernel's: that of a timer which is never set. All others are the kernel's:
 * timer.c. */
#ifndef HEDDLE_CPUTIMER_H
#define HEDDLE_CPUTIMER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "atomic.h"

struct cputimer;
struct thread;

/* timer_call: the system call nr about a timer, as syscall() does it; false: the kernel is to be
 * asked. By any thread. In timer.c. */
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

/* cputimer_taken: the program is about to hear of that signal of a timer's: what was missed since
 * it was sent is added. cputimer_own: of one that goes by t's time: natively no wait of t's is
 * ended by that, for it comes while t uses some. Context: handlers, too. */
void cputimer_taken(siginfo_t *info);
bool cputimer_own(const struct thread *t, const siginfo_t *info);

/* cputimers_look: core_config.clocked. cputimers_ring: by signals_thread: those that it found due.
 * cputimers_forked: in a child, which has none. */
uint64_t cputimers_look(uint64_t now, bool idle);
void cputimers_ring(void);
void cputimers_forked(void);

/* cputimers_stop .. cputimers_go: about a call that makes the process another program: none rings.
 * Context  announced. */
void cputimers_stop(void);
void cputimers_go(void);

/* All that there were. cputimers_enter .. cputimers_leave: the lock of all, about which no handler
 * runs, and under which each rings; the one returns what the other wants. */
extern ATOMIC(struct cputimer *) cputimers;
uint64_t cputimers_enter(void);
void cputimers_leave(uint64_t mask);

#endif
