/* connect. Natively one call begins a connection and waits for it; only O_NONBLOCK, which is not
 * ours to set, would part the two. So TCP's call is made as it is, announced, and while it sleeps
 * sysmon calls it out of the kernel (gpursue), as any signal would: the connection is under way
 * then. What comes of it the poller tells; the answer is that of the call made again, which waits
 * for nothing.
 *
 * It is not made again where it would begin anew, for want of a connection: it is looked first.
 *
 *   closed, the error taken      what the kernel's own end does to the socket, connect to AF_UNSPEC
 *                                does, whoever disconnected it meanwhile
 *   closed by somebody else      fd_hold: the old file
 *   connected elsewhere          EISCONN is success
 *   another waits there, too     one of them takes the error; fd_disconnected
 *
 * Refuses to do so where nothing is under way in between: a local socket whose listener's queue is
 * full begins nothing, and no event says that there is room. That, and all that is not TCP, is
 * announced. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "io.h"
#include "os.h"
#include "preempt.h"
#include "user.h"

static long connect_call(const struct io *io)
{
	return arch_syscall3(SYS_connect, io->fd, (long)io->addr, (long)io->addrlen);
}

static bool is_tcp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return arch_owncall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, (long)&protocol,
			    (long)&len, 0) == 0 &&
	       protocol == IPPROTO_TCP;
}

/* Of the connection, or -errno. */
static long state_of(int fd)
{
	struct tcp_info info;
	socklen_t len = offsetof(struct tcp_info, tcpi_ca_state);
	long r;

	info.tcpi_state = 0;
	r = arch_owncall(SYS_getsockopt, fd, SOL_TCP, TCP_INFO, (long)&info, (long)&len, 0);
	return r < 0 ? r : info.tcpi_state;
}

static bool under_way(long state)
{
	return state == TCP_SYN_SENT || state == TCP_SYN_RECV;
}

/* The announced call; -EINTR, too, if sysmon called it out. */
static long begin(struct thread *t, const struct io *io)
{
	long r;

	st_rlx(&t->connects, true);
	cancel_blocks(t);
	gpursue(t->gp);
	r = connect_call(io);
	gescaped();
	st_rlx(&t->connects, false);
	cancel_unblocks(t);
	/* That may have been a canceller's. */
	if (unlikely(ld_sc(&t->cancel) & CANCELED))
		gpursue(t->gp);
	return r;
}

/* It came back with r, and others may wait here: of an error one hears what it is, and says so. The
 * kernel knows of none where one of ours took it who had not yet disconnected the socket. */
static long ended(const struct thread *t, const struct io *io, long r)
{
	/* In this order: failed does the reverse. */
	if (r == -ECONNABORTED && (fd_failing(io->fd) || held_disconnected(t)))
		return -EPIPE;
	if (r < 0 && unlikely(fd_others(io->fd)) && state_of(io->fd) == TCP_CLOSE)
		fd_disconnected(t, io->fd);
	return r;
}

bool connect_due(void *uc)
{
	return ld_rlx(&thread_self()->connects) && core_sigcallout(uc, SYS_connect);
}

/* Not connected, though it was under way, or is said to have been: as the kernel ends the call of
 * one that waits; of several, one hears why. */
static long failed(const struct thread *t, const struct io *io, bool slept)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	long r = -EPIPE;

	if (!fd_fails(io->fd))
		return r;
	if (!held_disconnected(t))
		r = -fd_error(io->fd, !slept ? 0 : fd_others(io->fd) ? EPIPE : ECONNABORTED);
	/* Whoever took the error in the kernel holds it still, or has said so. */
	if (held_disconnected(t))
		r = -EPIPE;
	if (r < 0 && r != -EPIPE) {
		arch_syscall3(SYS_connect, io->fd, (long)&none, sizeof(none));
		fd_disconnected(t, io->fd);
	}
	fd_failed(io->fd);
	return r < 0 ? r : 1;
}

/* Waits for what is under way. 1: nothing was. late: the answer when the time is over. */
static long await(struct thread *t, struct io *io, long late)
{
	bool slept = false;
	long r, state;

	for (;;) {
		io_holds(io, t);
		io->ticket = netpoll_ticket(io->fd, POLL_WRITE);
		if (!io_kept(io, t))
			continue;
		state = state_of(io->fd);
		/* Closed just now: what was left in its place is looked at. */
		if (unlikely(state == -EBADF) && !io_kept(io, t))
			continue;
		if (!under_way(state))
			break;
		slept = true;
		r = io_block(io);
		if (r == -EAGAIN)
			return late;
		if (r < 0)
			return r;
		/* Not to be polled; or closed before it was. */
		if (r > 0 && io_kept(io, t))
			return io_announced(io, connect_call);
	}
	if (state < 0)
		return state == -EBADF ? state : io_announced(io, connect_call);
	if (held_disconnected(t))
		return -EPIPE;
	if (state != TCP_CLOSE) {
		r = io_announced(io, connect_call);
		if (unlikely(r == -EBADF) && !io_kept(io, t))
			r = io_announced(io, connect_call);
		return r == -EISCONN ? 0 : r;
	}
	return failed(t, io, slept);
}

static long connect_tcp(struct thread *t, struct io *io)
{
	long late = -EINPROGRESS, r;

	io->asked = true;
	io_begins(io, t);
	io->span = fd_timed(io->fd, POLL_WRITE);
	if (io->span != 0) {
		io->timed = true;
		io->deadline = (struct deadline){ CLOCK_MONOTONIC, nanotime() + io->span };
		if (under_way(state_of(io->fd)))
			late = -EALREADY;
	}
	do {
		if (!io_holds(io, t))
			return io_announced(io, connect_call);
		r = begin(t, io);
		r = ended(t, io, r);
		if (r == -EINTR && !io_interrupted(io, t))
			r = await(t, io, late);
	} while (r > 0);
	fd_letgo(t);
	return r;
}

/* Somebody else may wait for the connection that this ends. */
static void disconnects(const struct thread *t, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct fd *p = fd_known(fd);
	sa_family_t family;

	if (p && unlikely(ld_sc(&p->held)) && len >= sizeof(family) &&
	    user_fetch(&family, &addr->sa_family, sizeof(family)) == 0 && family == AF_UNSPEC)
		fd_disconnected(t, fd);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t)
		return real_table.connect(fd, addr, len);
	cancel_point();
	io_init(&io, fd, POLL_WRITE, NULL, 0, 0);
	io.addr = (void *)(uintptr_t)addr;
	io.addrlen = (void *)(uintptr_t)len;
	disconnects(t, fd, addr, len);
	r = is_tcp(fd) ? connect_tcp(t, &io) : io_announced(&io, connect_call);
	io_end(&io);
	return (int)io_answer(r);
}
