/* Calls on descriptors that may block: try without blocking, sleep in the poller, try again.
 * Where that cannot be had the call is announced and made as it is. The program's
 * descriptors are not touched: not their O_NONBLOCK, not their position. */
#ifndef HEDDLE_IO_H
#define HEDDLE_IO_H

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "fd.h"
#include "futex.h"
#include "netpoll.h"
#include "preempt.h"
#include "syscall.h"
#include "thread.h"

enum ioends {
	IO_STANDIN = 1, /* fd stands for the given one, which was closed meanwhile */
	IO_KEEPS = 2, /* the thread keeps the file: struct pollkeep */
};

struct io {
	int fd;
	enum polldir dir;
	enum road road; /* of the last attempt */
	uint32_t ticket;
	int local; /* the type of a socket of AF_UNIX that is sent to, else 0; once asked or begun
		    */
	uint8_t ends; /* what is to be done when it ends: enum ioends */
	bool asked; /* whether it may block; then deadline is known */
	bool timed;
	bool vector; /* buf is one, of n elements */
	bool accepts; /* which is refused at once unless fd listens */
	bool slept; /* and was woken by the poller, for nothing if it sleeps again */
	bool last; /* interrupted, it was tried once more; known if asked */
	bool begun; /* bytes have gone: any handler ends it with so many */
	bool follows; /* on others of its call, which counts them: the same; the two below are given
		       */
	bool yields; /* to a cancellation, by its end, as to a handler */
	uint32_t handled, stopped; /* the thread's, when it began, or was last restarted */
	struct deadline deadline; /* timed, or local */
	uint64_t span; /* timed: which ends so long after it began */
	/* The call's: */
	void *buf;
	size_t n;
	int flags;
	void *addr;
	void *addrlen;
	int given; /* the fd of the call */
};

/* io_init: a call that is about to begin. A store for each word: a compiler that is to make it all
 * zeros does so by an instruction which takes as long as a short read. The rest is written before
 * it is read: when it begins, or blocks. */
static inline void io_init(struct io *io, int fd, enum polldir dir, const void *buf, size_t n,
			   int flags)
{
	io->fd = io->given = fd;
	io->dir = dir;
	io->road = ROAD_UNKNOWN;
	io->ticket = 0;
	io->asked = io->timed = io->vector = io->accepts = false;
	io->slept = io->begun = io->follows = io->yields = false;
	io->ends = 0;
	io->local = 0;
	io->buf = (void *)(uintptr_t)buf;
	io->n = n;
	io->flags = flags;
	io->addr = io->addrlen = NULL;
}

/* One attempt: the result or -errno. */
typedef long attempt(const struct io *io);

/* io_block: after an attempt that found the call would block: sleeps until it may be tried
 * again. Returns 0; 1 if the plain call is to be made; or the -errno that the call is to give.
 * A cancellation point. */
long io_block(struct io *io);

/* io_interrupted: has a handler run that ends the call? */
bool io_interrupted(const struct io *io, const struct thread *t);

/* io_road: by which road this attempt goes; takes the ticket. */
static inline enum road io_road(struct io *io)
{
	io->road = fd_road(io->fd, io->dir);
	if (io->road != ROAD_CALL)
		io->ticket = netpoll_ticket(io->fd, io->dir);
	return io->road;
}

/* io_kept: is fd, which t holds, still what it was when the ticket was taken? Else io->fd is what
 * it is now. */
static inline bool io_kept(struct io *io, const struct thread *t)
{
	int fd = fd_held(t, io->fd);

	if (likely(fd == io->fd))
		return true;
	io->fd = fd;
	return false;
}

/* io_own: a handler may have let go of what t held: then the number is the program's again.
 * io_holds: t holds fd, unless there is no room. */
static inline void io_own(struct io *io, const struct thread *t)
{
	if (unlikely(io->fd != io->given) && !(io->ends & IO_STANDIN) && !fd_holds(t))
		io->fd = io->given;
}

static inline bool io_holds(struct io *io, struct thread *t)
{
	io_own(io, t);
	return fd_holds(t) || fd_hold(t, io->fd);
}

/* io_refused: was the attempt refused because the road was wrong? Then it is known now. */
bool io_refused(struct io *io, long r);

/* io_ready: 1 if fd is ready in its direction, else 0; -errno. */
long io_ready(const struct io *io);

/* io_listens: is fd a socket that listens? It refuses at once what its poll says is not ready. */
bool io_listens(int fd);

/* io_begins: before the first attempt of a call that may be made in parts: the handlers that have
 * run so far do not end it. */
static inline void io_begins(struct io *io, struct thread *t)
{
	waits_anew(t);
	io->handled = ld_rlx(&t->handled);
	io->stopped = ld_rlx(&t->stopped);
}

/* io_part: a part has been sent. 0: the rest may be tried; or why it is not to be. */
long io_part(struct io *io);

/* io_ended: a call that waited for its turn has found the end: 0, or what it would have been told
 * in the kernel. */
long io_ended(const struct io *io);

/* io_end: what is to be done about an io that io_block may have slept for. */
void io_end_slow(struct io *io);
static inline void io_end(struct io *io)
{
	if (unlikely(io->ends != 0))
		io_end_slow(io);
}

/* io_stands: r was said of io's number. Does io keep its file, and was that closed meanwhile? Then
 * it goes on with a stand-in; where there is none, with no descriptor. io_moved: the same, before
 * the number is used. io_stands_in: for these two. */
bool io_moved(struct io *io);
bool io_stands_in(struct io *io);

static inline bool io_stands(struct io *io, long r)
{
	return unlikely(r == -EBADF) && io->ends == IO_KEEPS && io_stands_in(io);
}

/* io_raised: this end of a call may have come with a signal for who made it. */
static inline void io_raised(long r)
{
	if (unlikely(r == -EPIPE || r == -EFBIG))
		core_sigleft();
}

/* Announced calls are of kinds, a bit for each: by descriptor and direction, or by name
 * (handoff.c). What blocked the last time, as a read past the page cache does, is taken to block
 * again: the thread's P goes to others at once. Some, `lasts`, are taken to from the first. */
enum { KINDS_FD = 32, KINDS_NAME = 32 };

static inline uint64_t io_kind(const struct io *io)
{
	return 1ULL << ((uint32_t)io->fd * 2 + io->dir) % KINDS_FD;
}

/* io_lends: before t announces a call: has it lent its P? io_lent: after it, which lasted or not.
 */
static inline bool io_lends(const struct thread *t, uint64_t kind, bool lasts)
{
	return (lasts || unlikely(t->unlike)) && !(t->unlike & kind) == lasts && core_lend();
}

static inline void io_lent(struct thread *t, uint64_t kind, bool lasts, bool lasted)
{
	if (lasted == lasts)
		t->unlike &= ~kind;
	else
		t->unlike |= kind;
}

/* io_announced: the plain call, which may block its kernel thread. */
static inline long io_announced(struct io *io, attempt *call)
{
	struct thread *t = thread_self();
	uint64_t kind = io_kind(io);
	bool lent = io_lends(t, kind, false);
	long r;

	cancel_blocks(t);
	r = call(io);
	io_raised(r);
	if (unlikely(cancel_unblocks(t) != lent)) {
		io_lent(t, kind, false, !lent);
		fd_surprised(io->fd);
	}
	return r;
}

/* io_plain: that, of whatever file it is. */
static inline long io_plain(struct io *io, attempt *call)
{
	long r;

	do
		r = io_announced(io, call);
	while (io_stands(io, r));
	return r;
}

/* io_do: the call, by the roads that it has: sock on sockets, nowait where RWF_NOWAIT is
 * known, call on all others. NULL: by waiting until it is ready. Partial results are the
 * caller's business. */
static inline __attribute__((always_inline)) long io_do(struct io *io, attempt *sock,
							attempt *nowait, attempt *call)
{
	long r;

	for (;;) {
		attempt *try = NULL;
		switch (io_road(io)) {
		case ROAD_SOCKET:
			try = sock;
			break;
		case ROAD_NOWAIT:
			try = nowait;
			break;
		case ROAD_READY:
			break;
		default:
			return io_plain(io, call);
		}
		if (try) {
			r = try(io);
			if (likely(r >= 0)) {
				fd_moved(io->fd, io->dir);
				return r;
			}
		} else {
			r = io_ready(io);
			if (r != 0) {
				r = io_plain(io, call);
				return likely(r != 0) ? r : io_ended(io);
			}
			r = -EAGAIN;
		}
		if (r == -EAGAIN) {
			r = io_block(io);
			if (r != 0)
				return r < 0 ? r : io_plain(io, call);
		} else if (io_stands(io, r)) {
			continue;
		} else if (!io_refused(io, r)) {
			io_raised(r);
			return r;
		}
	}
}

/* io_self: the thread of whoever calls, if the call is ours to serve. */
static inline struct thread *io_self(void)
{
	return likely(served()) ? thread_self() : NULL;
}

/* io_failed: io_answer of an error. In poll.c. */
long io_failed(long r);

static inline long io_answer(long r)
{
	return likely(r >= 0) ? r : io_failed(r);
}

/* receive_bytes, receive_vector: MSG_WAITALL: *r is what recv or recvmsg is to give. False: the
 * call is to be made as it is: it waits for nothing, or cannot be taken in parts. In waitall.c. */
bool receive_bytes(struct thread *t, struct io *io, long *r);
bool receive_vector(struct thread *t, struct io *io, long *r);

#endif
