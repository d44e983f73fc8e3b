/* The slow half of io.h: sleeping for a descriptor. */
#include "io.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "os.h"
#include "signals.h"
#include "user.h"

bool io_refused(struct io *io, long r)
{
	/* A socket no more, or not one yet. */
	if (io->road == ROAD_SOCKET && r == -ENOTSOCK) {
		fd_renewed(io->fd);
		return fd_road(io->fd, io->dir) != ROAD_SOCKET;
	}
	/* Vectors go by RWF_NOWAIT on sockets, too, which older kernels refuse. And filters refuse
	 * what the program has not called. */
	if (r == -ENOSYS || (r == -EPERM && !io->accepts) ||
	    (r == -EOPNOTSUPP && (io->road == ROAD_NOWAIT || io->vector))) {
		fd_learn(io->fd, io->dir, ROAD_READY);
		return true;
	}
	return false;
}

long io_ready(const struct io *io)
{
	struct pollfd p = { .fd = io->fd, .events = io->dir == POLL_READ ? POLLIN : POLLOUT };
	long r;

	do
		r = arch_syscall3(SYS_poll, (long)&p, 1, 0);
	while (r == -EINTR);
	/* POLLNVAL, too: the call will say so. */
	return r;
}

bool io_listens(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	arch_owncall(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, (long)&on, (long)&len, 0);
	return on;
}

/* A terminal where the read must begin in the kernel: one that hands out bytes by their number or
 * by time, which only a blocking read counts; or in whose background the process is, which that
 * stops. Of the other side, a pseudo-terminal's master, neither is so, though it tells the same. */
static bool begins_there(int fd)
{
	struct termios how; /* begins as the kernel's */
	pid_t front;
	int number;

	if (arch_syscall3(SYS_ioctl, fd, TCGETS, (long)&how) != 0 ||
	    arch_syscall3(SYS_ioctl, fd, TIOCGPTN, (long)&number) == 0)
		return false;
	if (!(how.c_lflag & ICANON) && (how.c_cc[VMIN] != 1 || how.c_cc[VTIME] != 0))
		return true;
	return arch_syscall3(SYS_ioctl, fd, TIOCGPGRP, (long)&front) == 0 && front != getpgrp();
}

/* Does its poll ever say that there is room? Of fanotify, a signalfd and the like it never does,
 * and a write does not wait there: it answers a request, or is refused. */
static bool tells_room(int fd)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char path[32], name[sizeof(eventfd)];
	struct stat st;
	ssize_t r;

	if (fstat(fd, &st) != 0 || (st.st_mode & S_IFMT) != 0)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Without /proc nothing is known. */
	r = readlink(path, name, sizeof(name));
	return r < 0 || (r == sizeof(eventfd) - 1 && memcmp(name, eventfd, (size_t)r) == 0);
}

/* What the kernel says to a sender whom it wakes, and not to one who begins. On a local stream:
 * the socket's error, which is gone then, or EPIPE, but no SIGPIPE; to send nothing is to ask.
 * On others what has been sent counts, and the error is the next call's. 0: nothing, try. */
static long woken(const struct io *io)
{
	struct pollfd p = { .fd = io->fd };
	long r;

	if (io->local == SOCK_STREAM) {
		r = arch_owncall(SYS_sendto, io->fd, 0, 0, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
		return r == -EPIPE ? -fd_error(io->fd, EPIPE) : 0;
	}
	if (!io->begun || io->road != ROAD_SOCKET)
		return 0;
	r = arch_syscall3(SYS_poll, (long)&p, 1, 0);
	return r == 1 && (p.revents & POLLHUP) ? -EPIPE : 0;
}

static void takes_standin(struct io *io, int fd)
{
	io->ends |= IO_STANDIN;
	io->fd = fd;
	standin_use(&io->fd);
}

bool io_stands_in(struct io *io)
{
	bool closed;
	int fd;

	/* A handler lets go of what is kept. */
	ghold();
	closed = standin_kept(thread_self(), &fd);
	if (closed)
		takes_standin(io, fd);
	gunhold();
	return closed;
}

static inline bool moved(struct io *io, const struct thread *t)
{
	const pollcalls *calls = io->ends == IO_KEEPS ? ld_rlx(&t->keep.calls) : NULL;

	return calls && unlikely(!netpoll_kept(calls, t->keep.file)) && io_stands_in(io);
}

bool io_moved(struct io *io)
{
	return moved(io, thread_self());
}

long io_part(struct io *io)
{
	const struct thread *t = thread_self();
	long r;

	moved(io, t);
	if (!io->asked && !io->begun)
		io->local = io->road == ROAD_SOCKET ? fd_local(io->fd) : 0;
	/* A handler that ran since the part has gone, and before the first sleep, ends it. */
	if (!io->asked)
		io->follows = true;
	io->begun = true;
	io->flags |= MSG_NOSIGNAL;
	/* There, each part has the whole time. */
	if (io->timed && io->local)
		io->deadline.at = nanotime() + io->span;
	r = woken(io);
	return moved(io, t) ? 0 : r;
}

/* Is it for the kernel to say what is wrong with it, before it waits? flags: the file's. */
static bool is_refused(const struct io *io, long flags)
{
	long wrong = io->dir == POLL_READ ? O_WRONLY : O_RDONLY;
	const struct iovec *v = io->buf;
	size_t sum = 0;

	if ((flags & O_ACCMODE) == wrong)
		return true;
	/* The kernel's own addresses are below 0. */
	if (!io->vector)
		return (intptr_t)io->buf < 0;
	if (io->flags != 0 || io->n > IOV_MAX || user_readable(v, io->n * sizeof(*v)) != 0)
		return true;
	for (size_t i = 0; i < io->n; i++)
		sum |= v[i].iov_len;
	return sum == 0;
}

/* May the call block at all, and how long? As io_block. */
static long ask(struct io *io)
{
	if (!fd_sole(io->fd) || io->road == ROAD_READY) {
		long flags = arch_syscall3(SYS_fcntl, io->fd, F_GETFL, 0);
		/* No descriptor, as the call will say, or a filter's word. */
		if (flags < 0)
			return 1;
		if (flags & O_NONBLOCK) {
			fd_learn(io->fd, io->dir, ROAD_CALL);
			return -EAGAIN;
		}
		if (io->road == ROAD_READY && is_refused(io, flags))
			return 1;
	}
	io->asked = true;
	if (io->accepts && !io_listens(io->fd))
		return 1;
	if (io->road == ROAD_READY && io->dir == POLL_READ &&
	    (fd_mute(io->fd) || begins_there(io->fd)))
		return 1;
	if (io->road == ROAD_READY && io->dir == POLL_WRITE && !tells_room(io->fd)) {
		fd_learn(io->fd, io->dir, ROAD_CALL);
		return 1;
	}
	if (io->dir == POLL_WRITE && io->road != ROAD_READY)
		io->local = fd_local(io->fd);
	io->span = fd_timed(io->fd, io->dir);
	if (io->span != 0) {
		io->timed = true;
		io->deadline.clock = CLOCK_MONOTONIC;
		io->deadline.at = nanotime() + io->span;
	}
	return 0;
}

/* Who was woken, and found nothing. A queue of errors that nobody takes (MSG_ERRQUEUE) is an event
 * to each poll, and to the call it is nothing: only the kernel can wait beside it. And a socket of
 * datagrams that was shut down has nothing for who does not wait, and the end for who does. */
static bool is_the_kernels(const struct io *io)
{
	short wanted = io->dir == POLL_READ ? POLLIN | POLLRDHUP : POLLOUT;
	struct pollfd p = { .fd = io->fd, .events = wanted };

	if (arch_syscall3(SYS_poll, (long)&p, 1, 0) != 1)
		return false;
	if (p.revents & POLLRDHUP)
		fd_learn(io->fd, io->dir, ROAD_CALL);
	return p.revents == POLLERR || (p.revents & POLLRDHUP);
}

/* May a socket have been shut down by another of its numbers, or in another process? If it is one
 * of datagrams the event of that is gone, and would not be told again. */
static bool shut_elsewhere(const struct io *io)
{
	return io->road == ROAD_SOCKET && io->dir == POLL_READ && !io->accepts && !fd_sole(io->fd);
}

/* signal(7): with a time-out the call is never restarted. */
bool io_interrupted(const struct io *io, const struct thread *t)
{
	return ld_rlx(&t->stopped) != io->stopped || (io->yields && cancel_asked(t)) ||
	       ((io->timed || io->begun || io->follows) && ld_rlx(&t->handled) != io->handled);
}

/* Who is interrupted between two sleeps may once more, unless that may block. */
static bool tries_again(struct io *io)
{
	bool may = !io->last && !io->accepts && io->road != ROAD_READY;

	io->last = true;
	return may;
}

/* If a handler has run: as the kernel has it, with whatever the number is now. */
static void begins_anew(struct io *io, const struct thread *t)
{
	if (ld_rlx(&t->handled) == io->handled)
		return;
	io->handled = ld_rlx(&t->handled);
	io_end(io);
}

enum { LOOK_AGAIN = 1000000000 };

static inline long sleep_once(struct io *io, struct thread *t)
{
	struct pollwait w = {
		.fd = io->fd, .dirs = (uint8_t)(1 << io->dir), .alone = true, .turns = io->accepts
	};
	const struct deadline *until;
	struct deadline look;
	bool again;
	long r;

	if (!io->asked) {
		io->last = false;
		if (!io->follows)
			io_begins(io, t);
		r = ask(io);
		if (r != 0)
			return r;
	}
	if (t->ownfiles || ((io->slept || shut_elsewhere(io)) && is_the_kernels(io)))
		return 1;
	w.ticket[io->dir] = io->ticket;
	/* It may have been another's that it was tried on. From the ticket on its close is seen. */
	if (moved(io, t))
		return 0;
	if (!io->accepts && !fd_holds(t) && (io->ends & IO_KEEPS || !ld_rlx(&t->keep.calls))) {
		w.keep = &t->keep;
		io->ends |= IO_KEEPS;
	}
	/* That the other end reads no more, no poll tells. */
	look = (struct deadline){ CLOCK_MONOTONIC, io->local ? nanotime() + LOOK_AGAIN : 0 };
	again = io->local && !(io->timed && io->deadline.at < look.at);
	until = again ? &look : io->timed ? &io->deadline : NULL;
	cancel_begin();
	alert(t);
	/* Also by a handler that ran between two sleeps; what came before it goes before it, as
	 * in netpoll_wait. */
	if (!io_interrupted(io, t))
		r = netpoll_waitany(&w, 1, until);
	else
		r = io->slept && tries_again(io) ? 0 : -EINTR;
	st_rlx(&t->alert, false);
	st_rlx(&t->interruptible, NO_WAIT);
	switch (r) {
	case 0:
		io->slept = true;
		signals_pull();
		return io->dir != POLL_WRITE || moved(io, t) ? 0 : woken(io);
	case -ETIMEDOUT:
		return !again ? -EAGAIN : moved(io, t) ? 0 : woken(io);
	case -EINTR:
		cancel_point();
		if (io_interrupted(io, t))
			return -EINTR;
		begins_anew(io, t);
		return 0;
	case -ESTALE:
		if (!w.kept) {
			io_end(io);
			if (w.moved < 0)
				return -EBADF;
			takes_standin(io, w.moved);
		} else if (!io_stands_in(io) && ld_rlx(&t->handled) == io->handled) {
			return -EBADF;
		}
		if (io_interrupted(io, t))
			return -EINTR;
		/* Before or after it was closed, who knows. */
		io->handled = ld_rlx(&t->handled);
		return 0;
	default:
		/* The poller cannot watch it, or has no room. */
		fd_learn(io->fd, io->dir, ROAD_CALL);
		return 1;
	}
}

long io_block(struct io *io)
{
	struct thread *t = thread_self();
	long r = sleep_once(io, t);

	return (r >= 0 || r == -EBADF) && moved(io, t) ? 0 : r;
}

long io_ended(const struct io *io)
{
	struct termios how;

	/* So a terminal answers once it is hung up. */
	if (io->slept && io->dir == POLL_READ &&
	    arch_syscall3(SYS_ioctl, io->fd, TCGETS, (long)&how) == -EIO)
		return -EIO;
	return 0;
}

void io_end_slow(struct io *io)
{
	struct thread *t = thread_self(); /* none in a child that runs natively */

	if (io->ends & IO_STANDIN) {
		standin_done(&io->fd);
		io->fd = io->given;
	}
	if ((io->ends & IO_KEEPS) && t)
		standin_over(t);
	io->ends = 0;
}
