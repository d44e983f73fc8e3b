/* The poller: Gs that wait for a descriptor, and the one M that blocks on their behalf.
 *
 * A waiter first takes a ticket (netpoll_ticket), then tries its call without blocking,
 * then waits with that ticket: an event between the two makes the wait return at once.
 * Any number of Gs may wait on one fd and direction; an event wakes all of them, to try
 * again. An fd may be closed and reused without our being told: before an M blocks in the
 * poller, each registration that a wait relied on is made sure of. */
#ifndef HEDDLE_NETPOLL_H
#define HEDDLE_NETPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include "futex.h"

enum polldir { POLL_READ, POLL_WRITE };

/* netpoll_ticket: the number of events so far. Any context. */
uint32_t netpoll_ticket(int fd, enum polldir dir);

/* netpoll_wait: sleeps until an event on fd after the ticket, or the deadline.
 * Returns  0 (try again), -ETIMEDOUT, -EINTR, -ENOMEM, or epoll's refusal of the fd:
 *          -EPERM (a file that is always ready), -EBADF, -ENOSPC...
 * Context  a G. Blocks: the G. */
int netpoll_wait(int fd, enum polldir dir, uint32_t ticket, const struct deadline *deadline);

/* netpoll_forget: fd is about to be closed or replaced: its waiters try again. */
void netpoll_forget(int fd);

/* ---- for the scheduler ---- */
struct glist;

/* netpoll: the Gs that have become ready, GWAITING and claimed; waits for one or for
 * netpoll_break up to ns (0: not at all, negative: without end). */
struct glist netpoll(int64_t ns);

/* netpoll_break: the M that blocks in netpoll, or the next one to do so, returns. */
void netpoll_break(void);

/* netpoll_verify: makes sure of up to n registrations that waits rely on. Not for sysmon,
 * whose descriptors are not the program's. */
void netpoll_verify(int n);
bool netpoll_anywaiters(void);

/* netpoll_anyunsure: waits rely on registrations that have not been made sure of since. */
bool netpoll_anyunsure(void);

/* netpoll_watchclock: from here on timers_clockset() is called when the real-time clock is
 * set. Without the means for it, waits by that clock end late after it was set forward. */
void netpoll_watchclock(void);

/* ---- a backend: how the kernel is asked ---- */
struct pollevent {
	uint64_t data; /* as given to add */
	bool dir[2];
};

struct pollbackend {
	int (*init)(void); /* 0 or -errno */
	/* add: report each new event on fd, and one now if it is ready, with data.
	 * Already there: only make sure, with data. 0 or -errno. */
	int (*add)(int fd, uint64_t data);
	void (*forget)(int fd);
	/* wait: up to n events; fewer, or 0, also after wake. */
	int (*wait)(struct pollevent *ev, int n, int64_t ns);
	void (*wake)(void);
	void (*watchclock)(void);
	/* forked: the descriptors are the parent's; the child's copies are closed. */
	void (*forked)(void);
};

extern const struct pollbackend poll_epoll __attribute__((visibility("hidden")));

#endif
