/* accept. A connection wakes one of those who wait for it here, and whoever was woken is answerable
 * for it: it takes what is there and, if there is more, wakes the next. However it leaves, and
 * before a handler of the program's runs, which may do anything, it looks whether something is
 * there:
 *
 *   woken for a connection; a handler runs         B sleeps beside it for ever
 *   looks first, and wakes B                       B takes it
 *
 * Two who see one connection both go to take it, and the kernel puts one to sleep, with its kernel
 * thread, until the next. Since one is woken that is rare: of 32,000 connections to 100 accepters,
 * at eight Ps, none was found there.
 *
 * Refuses to do: what others accept, behind our back or in other processes, it learns of by
 * looking. */
#include <sys/socket.h>

#include "io.h"

static long accept_call(const struct io *io)
{
	return arch_syscall4(SYS_accept4, io->fd, (long)io->addr, (long)io->addrlen, io->flags);
}

/* The look comes last: what comes after it wakes somebody itself. */
static void pass(int fd)
{
	struct io io;

	io_init(&io, fd, POLL_READ, NULL, 0, 0);
	if (netpoll_busy(fd) && io_ready(&io) != 0)
		netpoll_pass(fd, POLL_READ);
}

void accept_leaves(struct thread *t)
{
	int fd = ld_rlx(&t->accepts) - 1;

	if (fd < 0)
		return;
	pass(fd);
	/* Last: a handler that runs before does it again. */
	compiler_barrier();
	st_rlx(&t->accepts, 0);
}

static long accept_one(struct thread *t, struct io *io)
{
	for (;;) {
		long r = 1;
		io_own(io, t);
		if (io_road(io) != ROAD_CALL) {
			if (!io_kept(io, t))
				continue;
			st_rlx(&t->accepts, io->fd + 1);
			compiler_barrier();
			r = io_ready(io);
			/* It is to find what it was woken for, though that is closed meanwhile. */
			if (r == 0) {
				io_holds(io, t);
				r = io_block(io);
			}
			if (r == 0)
				continue;
		}
		if (r > 0)
			r = io_announced(io, accept_call);
		/* It was closed since it was looked at. */
		if (likely(r >= 0) || io_kept(io, t))
			return r;
	}
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	uint32_t since = ld_sc(&fd_epoch);
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t)
		return real_table.accept4(fd, addr, len, flags);
	cancel_point();
	io_init(&io, fd, POLL_READ, NULL, 0, flags);
	io.addr = addr;
	io.addrlen = len;
	io.accepts = true;
	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		r = -EINVAL;
	else
		r = accept_one(t, &io);
	accept_leaves(t);
	if (r >= 0)
		fd_accepted((int)r, io.fd, flags & SOCK_NONBLOCK, since);
	fd_letgo(t);
	io_end(&io);
	return (int)io_answer(r);
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return io_self() ? accept4(fd, addr, len, 0) : real_table.accept(fd, addr, len);
}
