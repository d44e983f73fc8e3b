/* What is known of a descriptor: by which road a call on it goes that may block. It is never
 * more than a belief, for a descriptor can be closed, replaced and changed behind our back
 * and by other processes: each road finds out when it is the wrong one, and a call that goes
 * the wrong road does the right thing, if at a higher price. */
#ifndef HEDDLE_FD_H
#define HEDDLE_FD_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"
#include "netpoll.h"

enum road {
	ROAD_UNKNOWN,
	ROAD_CALL, /* announce the plain call: files, and what the program made non-blocking */
	ROAD_SOCKET, /* the call with MSG_DONTWAIT, else park */
	ROAD_NOWAIT, /* the call with RWF_NOWAIT, else park */
	ROAD_READY, /* park until it is ready, then announce the plain call */
	/* For writing, of what is not written to, and for which to wait is the kernel's: a FIFO
	 * whose poll may not tell its end, an epoll set that ours must not look at. */
	ROAD_MUTE,
};

enum { FD_MAX = 1 << 20, FD_NEAR = 4096 };

/* Of each descriptor: the road of either direction; the epoch since which it is ours alone, made
 * here as a blocking one and never duplicated, so that nobody can have changed it in secret; and,
 * in a pair that was made here, the other end. An epoch ends with whatever may give descriptors
 * to others: a fork, a message. */
struct fd {
	ATOMIC(uint8_t) road[2];
	ATOMIC(uint16_t) held; /* fd_hold */
	ATOMIC(uint32_t) sole; /* 0: it is not */
	ATOMIC(int32_t) peer; /* plus one; 0: none */
};

extern struct fd fd_near[FD_NEAR] __attribute__((visibility("hidden")));
extern ATOMIC(uint32_t) fd_epoch __attribute__((visibility("hidden")));
extern ATOMIC(uint32_t) fd_end __attribute__((visibility("hidden"))); /* beyond all in the table */

/* fd_far: as the two below, of a descriptor that is not among the first. fd_rise: fd_end is beyond
 * it from here on. */
struct fd *fd_far(int fd, bool make);
void fd_rise(int fd);

/* fd_known: where it stands; NULL: nothing is believed, or fd is none. fd_place: the same, and room
 * is made for it; NULL: there is none. One table for all would be 12 MB, and mlockall takes all of
 * them, or fails for them: it counts what is mapped, touched or not. */
static inline struct fd *fd_known(int fd)
{
	return __builtin_expect((unsigned)fd < FD_NEAR, 1) ? &fd_near[fd] : fd_far(fd, false);
}

static inline struct fd *fd_place(int fd)
{
	if (__builtin_expect((unsigned)fd >= ld_rlx(&fd_end), 0))
		fd_rise(fd);
	return __builtin_expect((unsigned)fd < FD_NEAR, 1) ? &fd_near[fd] : fd_far(fd, true);
}

/* fd_explore: finds out, by asking the kernel. */
enum road fd_explore(int fd, enum polldir dir);

static inline enum road fd_road(int fd, enum polldir dir)
{
	const struct fd *p = fd_known(fd);
	enum road road = p ? (enum road)ld_rlx(&p->road[dir]) : ROAD_UNKNOWN;

	return __builtin_expect(road != ROAD_UNKNOWN, 1) ? road : fd_explore(fd, dir);
}

static inline void fd_learn(int fd, enum polldir dir, enum road road)
{
	struct fd *p = road == ROAD_UNKNOWN ? fd_known(fd) : fd_place(fd);

	/* What is untouched stays so. */
	if (p && ld_rlx(&p->road[dir]) != (uint8_t)road)
		st_rlx(&p->road[dir], (uint8_t)road);
}

/* fd_made: fd is new, of this road both ways, and ours alone if it blocks; since: fd_epoch from
 * before it was made. fd_pair: the two ends, as fd_made. */
void fd_made(int fd, enum road road, bool nonblocking, uint32_t since);
void fd_pair(const int fd[2], enum road road, bool nonblocking, uint32_t since);

/* fd_shared: it has a second number from here on. fd_allshared: any may be somebody else's, too;
 * to be said before they are given away, and again after it. */
void fd_shared(int fd);
void fd_allshared(void);

static inline bool fd_sole(int fd)
{
	const struct fd *p = fd_known(fd);

	return p && ld_rlx(&p->sole) == ld_rlx(&fd_epoch);
}

/* fd_unshared: t, which runs, has a table of descriptors of its own: a number there is another file
 * than in everybody else's, so the poller cannot watch it, nor a stand-in be left for it, and of no
 * number anything is known for sure any more. */
struct thread;
void fd_unshared(struct thread *t);

/* fd_moved: bytes have gone through fd: who waits at the other end, in the other direction,
 * need not wait for the kernel's word. */
static inline void fd_moved(int fd, enum polldir dir)
{
	const struct fd *p = fd_known(fd);
	int peer = p ? ld_rlx(&p->peer) : 0;

	if (peer && netpoll_busy(peer - 1))
		netpoll_poke(peer - 1, dir == POLL_READ ? POLL_WRITE : POLL_READ);
}

/* fd_renewed: fd is a new file, or was changed. */
void fd_renewed(int fd);

/* fd_accepted: fd came out of the listening socket; since: as of fd_made. */
void fd_accepted(int fd, int listener, bool nonblocking, uint32_t since);

/* fd_surprised: an announced call on it took long: it may not be what we believe. */
void fd_surprised(int fd);

/* fd_unblocked: fd does not return at once from now on: who opened a FIFO so, before anybody wrote
 * to it, hears of no end by a poll. fd_mute: is it for the kernel to wait for (ROAD_MUTE)? */
void fd_unblocked(int fd);
bool fd_mute(int fd);

/* fd_closing: fd is about to be closed or replaced. Who is asleep in a call on it goes on
 * with the old file, as natively: a stand-in holds it for them, whose number they find in
 * their pollwait. fd_closed: it has been: who came between the two looks again. */
void fd_closing(int fd);
void fd_closed(int fd);

/* standin_use: the running thread, in a call, has become a user of the stand-in *fd. standin_done:
 * it is none any more. standin_from: the first stand-in from that number on; -1: there is none. */
int standin_from(int from);
void standin_use(const int *fd);
void standin_done(const int *fd);

/* standin_kept: was the file closed that t, which runs, in ghold, keeps (struct pollkeep)? Then it
 * has become a user of its stand-in, *fd; -1: there is none. standin_over: it keeps it no more. */
bool standin_kept(struct thread *t, int *fd);
void standin_over(struct thread *t);

/* fd_hold: the running thread t is in a call on fd, asleep or not, and on one other at most: if fd
 * is closed meanwhile it goes on with the old file, as natively. False: there is no room for it.
 * fd_holds: is there any? fd_held: fd, or the number that stands for it since it was closed.
 * fd_letgo: of none any more; for any t. The handlers of the program's run without: natively the
 * call has ended then. fd_leaves: nor does t, which ends, use a stand-in. */
bool fd_holds(const struct thread *t);
bool fd_hold(struct thread *t, int fd);
int fd_held(const struct thread *t, int fd);
void fd_letgo(struct thread *t);
void fd_leaves(struct thread *t);

/* fd_disconnected: fd, a socket, is connected no more, nor about to be: who else holds it hears of
 * that, by held_disconnected. fd_others: does anybody else hold it? */
void fd_disconnected(const struct thread *but, int fd);
bool held_disconnected(const struct thread *t);
bool fd_others(int fd);

/* fd_fails .. fd_failed: the connection of fd, which t holds, has failed. False: somebody else is
 * about to say so: fd_failing. */
bool fd_fails(int fd);
void fd_failed(int fd);
bool fd_failing(int fd);

/* fd_forked: in the child, which has none of those who held or slept. */
void fd_forked(void);

/* fd_local: the type of a socket of AF_UNIX; 0: it is none. fd_error: the socket's error, which it
 * takes; or else. */
int fd_local(int fd);
int fd_error(int fd, int otherwise);

/* fd_timed: how long a call may block (SO_RCVTIMEO, SO_SNDTIMEO), in ns; 0: for ever.
 * fd_timeouts: some socket of the process may have one. */
uint64_t fd_timed(int fd, enum polldir dir);
void fd_timeouts(void);

#endif
