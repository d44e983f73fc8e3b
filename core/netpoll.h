/* The poller: Gs that wait for a descriptor, and the one M that blocks on their behalf.
 *
 * A waiter first takes a ticket (netpoll_ticket), then tries its call without blocking,
 * then waits with that ticket: an event between the two makes the wait return at once.
 * Any number of Gs may wait on one fd and direction; an event wakes all of them, to try
 * again; but of those that wait for their turn, only the one that waits longest. An fd may
 * be closed and reused without our being told: before an M blocks in the poller, each
 * registration that a wait relied on is made sure of. */
#ifndef HEDDLE_NETPOLL_H
#define HEDDLE_NETPOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "futex.h"

enum polldir { POLL_READ, POLL_WRITE };

/* netpoll_ticket: the number of events so far. Any context. */
uint32_t netpoll_ticket(int fd, enum polldir dir);

/* netpoll_wait: sleeps until an event on fd after the ticket, or the deadline.
 * Returns  0 (try again; so also if it was interrupted when fd was ready), -ETIMEDOUT, -EINTR,
 *          -ENOMEM, -ESTALE (fd was forgotten meanwhile),
 *          or epoll's refusal of the fd: -EPERM (a file that is always ready), -EBADF,
 *          -ENOSPC...
 * Context  a G. Blocks: the G. */
int netpoll_wait(int fd, enum polldir dir, uint32_t ticket, const struct deadline *deadline);

/* One of several descriptors that a G waits for at once. */
struct g;
struct polldesc;

/* A call that waits keeps the file of its descriptor until it is over, as in the kernel, also while
 * it does not sleep: netpoll_forget counts it among those who know of moved. The record is the
 * thread's, for its handlers let go of it. */
typedef ATOMIC(uint64_t) pollcalls;
struct pollkeep {
	ATOMIC(pollcalls *) calls; /* NULL: it keeps none */
	uint32_t file; /* netpoll_file */
	int fd;
};

struct pollwait {
	int fd; /* negative: none */
	uint8_t dirs; /* 1 << enum polldir */
	bool alone; /* the only one of the wait, which ends if fd is forgotten */
	bool turns; /* an event wakes one of those; who was woken sees to the next: netpoll_pass */
	uint32_t ticket[2];
	/* The caller's own. */
	short events; /* as of poll() */
	bool standin; /* fd stands for one that was closed */
	struct pollkeep *keep; /* NULL, or what is to be filled in, if it is not */
	/* The poller's own. */
	bool kept; /* the file is: by moved it is not known */
	int moved; /* as given to netpoll_forget, with -ESTALE; of several, whatever ended it; else
		      -1 */
	bool linked; /* under pd's lock */
	bool added; /* the registration is new */
	struct polldesc *pd;
	struct g *gp;
	uint64_t seq;
	struct pollwait *next, *prev; /* the first's prev is the last */
};

/* netpoll_tickets: netpoll_ticket for each. netpoll_waitany: netpoll_wait for an event on any
 * of them. */
void netpoll_tickets(struct pollwait *w, int n);
int netpoll_waitany(struct pollwait *w, int n, const struct deadline *deadline);

/* netpoll_known: has anybody waited for fd since it was last forgotten? netpoll_busy: does
 * somebody just now? Any context. */
bool netpoll_known(int fd);
bool netpoll_busy(int fd);

/* netpoll_kept: has that file its number still? netpoll_over: the call ends; false: it has not.
 * netpoll_called: is anybody in such a call? Any context. */
static inline bool netpoll_kept(const pollcalls *calls, uint32_t file)
{
	return ld_sc(calls) >> 32 == file;
}
static inline bool netpoll_over(pollcalls *calls, uint32_t file)
{
	uint64_t word;

	do {
		word = ld_sc(calls);
		if (word >> 32 != file)
			return false;
	} while (!cas_sc(calls, word, word - 1));
	return true;
}
bool netpoll_called(int fd);

/* netpoll_file: which file of that number it is. */
uint32_t netpoll_file(int fd);

/* netpoll_poke: there may be an event on fd: whoever waits for it tries again, out of turn too.
 * netpoll_pass: as an event: whoever has an older ticket tries again, and the next whose turn it
 * is. */
void netpoll_poke(int fd, enum polldir dir);
void netpoll_pass(int fd, enum polldir dir);

/* netpoll_own: the first of the poller's own descriptors from that number on; -1: there is none.
 * netpoll_leaves: the program is about to put another in the place of fd: if it is the poller's,
 * that takes another number; or -errno. Context: a G with the process's table of descriptors. */
int netpoll_own(int from);
int netpoll_leaves(int fd);

/* netpoll_takes: does a poll of fd take what it tells? Then it would be ours that hears of it, and
 * not the program's: it is not watched. Any context. netpoll_leave: fd is not to be watched any
 * more: who waits for it tries again. netpoll_taken: such a file is about to be in a set of the
 * program's. Context of these two: as netpoll_leaves. */
bool netpoll_takes(int fd);
void netpoll_leave(int fd);
void netpoll_taken(void);

/* netpoll_end: beyond all descriptors that were ever waited for. */
int netpoll_end(void);

/* netpoll_forget: fd is about to be closed or replaced: the waits for it end with -ESTALE, and
 * moved in their struct. Returns  how many know of moved by it. */
int netpoll_forget(int fd, int moved);

/* netpoll_closed: it has been, or was replaced: whoever came to wait for it since it was forgotten
 * tries again. What was registered for that went with the file. */
void netpoll_closed(int fd);

#endif
