/* What poll, select and epoll_wait share. */
#ifndef HEDDLE_POLL_H
#define HEDDLE_POLL_H

#include "futex.h"
#include "netpoll.h"
#include "thread.h"

enum { NSEC = 1000000000, FEW = 16 };

/* How long a call may wait. for_timespec: false for a time that is none. left_of: in ns, of one
 * that has an end. */
struct patience {
	bool forever;
	bool never; /* only a look */
	bool masked; /* a handler ends it, though something is ready by then */
	uint32_t handled; /* how many handlers had run when the call began */
	struct deadline until;
};
struct patience for_ever(void);
struct patience for_ms(int ms);
bool for_timespec(struct patience *p, const struct timespec *t);
uint64_t left_of(const struct patience *p);

/* interrupted: has a handler run since the call began? Else an interruption is none of the
 * program's. */
bool interrupted(const struct patience *p);

/* The mask of pselect and kin; set may be NULL. A signal that only it lets in comes where nothing
 * is ready, and ends the call; its handler returns to the mask from before. mask_there: 0 or
 * -EFAULT. unmasked: what the call says whose result would be r. */
long mask_there(const sigset_t *set);
void masked(const sigset_t *set, struct patience *p);
bool let_in(const struct patience *p);
long unmasked(const struct patience *p, long r);

/* doze: sleeps for an event on any of them. 0: look again; -ETIMEDOUT; -EINTR, also if a handler
 * ran before the sleep, since the call began; other: the poller refuses. What was closed meanwhile
 * has its stand-in for fd then (standin.c); -EBADF: the only one, and it has none. A cancellation
 * point. */
long doze(struct pollwait *w, int n, const struct patience *p);

/* looked: a call of t that looks for readiness is over. One that found something at once, or was
 * not to wait, and is all that t does, is perhaps how it waits for what another thread is to do. */
void looked(struct thread *t);

/* The waits of a call. waits_room: for n; false without memory. waits_done: also when the thread is
 * cancelled. */
struct waits {
	struct pollwait few[FEW], *w;
	int n;
};
bool waits_room(struct waits *s, size_t n);
void waits_done(struct waits *s);

/* waits_due: of those of which one was closed, and each of which says in events what it is for: is
 * any ready? The kernel's poll sleeps by the old file, and when that wakes it looks at the number:
 * so who is woken for nothing must not look. waits_closed: was one? */
bool waits_due(const struct waits *s);
bool waits_closed(const struct waits *s);

#endif
