/* The calls that make, change and end descriptors: what fd.h believes of these is told here. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fd.h"
#include "fdowner.h"
#include "io.h"
#include "mode.h"

EXPORT int close(int fd)
{
	long r;

	if (!served())
		return real_table.close(fd);
	if (!io_self()) {
		fd_renewed(fd);
		return real_table.close(fd);
	}
	cancel_point();
	fd_closing(fd);
	/* It may block: a lingering socket, a file on a network. */
	entersyscall();
	r = arch_syscall3(SYS_close, fd, 0, 0);
	exitsyscall();
	fd_closed(fd);
	return (int)io_answer(r);
}

EXPORT int socket(int domain, int type, int protocol)
{
	bool ours = served();
	uint32_t since = ld_sc(&fd_epoch);
	int fd = real_table.socket(domain, type, protocol);

	if (ours && fd >= 0) {
		bool plain = (domain == AF_INET || domain == AF_INET6) &&
			     ((type & 15) == SOCK_STREAM || (type & 15) == SOCK_DGRAM);
		fd_made(fd, plain ? ROAD_SOCKET : ROAD_UNKNOWN, type & SOCK_NONBLOCK, since);
	}
	return fd;
}

EXPORT int socketpair(int domain, int type, int protocol, int fd[2])
{
	bool ours = served();
	uint32_t since = ld_sc(&fd_epoch);
	int r = real_table.socketpair(domain, type, protocol, fd);

	if (ours && r == 0)
		fd_pair(fd, (type & 15) == SOCK_STREAM ? ROAD_SOCKET : ROAD_UNKNOWN,
			type & SOCK_NONBLOCK, since);
	return r;
}

EXPORT int pipe2(int fd[2], int flags)
{
	bool ours = served();
	uint32_t since = ld_sc(&fd_epoch);
	int r = real_table.pipe2(fd, flags);

	if (ours && r == 0)
		fd_pair(fd, ROAD_NOWAIT, flags & O_NONBLOCK, since);
	return r;
}

EXPORT int pipe(int fd[2])
{
	return pipe2(fd, 0);
}

EXPORT int __pipe(int fd[2])
{
	return pipe2(fd, 0);
}

EXPORT int dup(int old)
{
	bool ours = served();
	int fd = real_table.dup(old);

	if (ours && fd >= 0) {
		fd_shared(old);
		fd_renewed(fd);
	}
	return fd;
}

/* The new number takes the place of an open one. */
static void replacing(int old, int new)
{
	if (old == new || arch_syscall3(SYS_fcntl, old, F_GETFD, 0) < 0)
		return;
	fd_shared(old);
	fd_closing(new);
}

static int replaced(int old, int new, int r)
{
	if (r >= 0 && old != new)
		fd_closed(new);
	return r;
}

EXPORT int dup2(int old, int new)
{
	if (!served())
		return real_table.dup2(old, new);
	replacing(old, new);
	return replaced(old, new, real_table.dup2(old, new));
}

EXPORT int __dup2(int old, int new)
{
	return dup2(old, new);
}

EXPORT int dup3(int old, int new, int flags)
{
	if (!served() || (flags & ~O_CLOEXEC) != 0)
		return real_table.dup3(old, new, flags);
	replacing(old, new);
	return replaced(old, new, real_table.dup3(old, new, flags));
}

/* Those of which anything is known: a million and more may be meant, by who closes all from one on.
 */
static void for_range(unsigned lo, unsigned hi, void (*fn)(int fd))
{
	unsigned end = ld_sc(&fd_end), waited = thread_self() ? (unsigned)netpoll_end() : 0;

	end = end > waited ? end : waited;
	for (unsigned fd = lo; fd <= hi && fd < end; fd++)
		fn((int)fd);
}

EXPORT int close_range(unsigned lo, unsigned hi, int flags)
{
	const unsigned known = CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE;
	bool closes = served() && lo <= hi && !((unsigned)flags & CLOSE_RANGE_CLOEXEC);
	int r;

	/* The thread's own table, that is, not its kernel thread's. */
	if (io_self() && lo <= hi && ((unsigned)flags & CLOSE_RANGE_UNSHARE) &&
	    !((unsigned)flags & ~known) && unshare(CLONE_FILES) != 0)
		return -1;
	if (closes)
		for_range(lo, hi, fd_closing);
	r = real_table.close_range(lo, hi, flags);
	if (closes)
		for_range(lo, hi, fd_closed);
	return r;
}

EXPORT void closefrom(int lo)
{
	unsigned from = lo > 0 ? (unsigned)lo : 0;

	if (served())
		for_range(from, FD_MAX, fd_closing);
	real_table.closefrom(lo);
	if (served())
		for_range(from, FD_MAX, fd_closed);
}

/* Again, if what interrupted it is another thread's. */
static long lock_call(struct thread *t, int fd, int cmd, long arg)
{
	uint32_t handled = t ? ld_rlx(&t->handled) : 0;
	long r;

	if (!t)
		return arch_syscall3(SYS_fcntl, fd, cmd, arg);
	cancel_blocks(t);
	do
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
	while (r == -EINTR && ld_rlx(&t->handled) == handled);
	cancel_unblocks(t);
	return r;
}

/* It was made to block or not to, by this process. */
static void fd_switched(int fd, bool nonblocking)
{
	fd_renewed(fd);
	if (nonblocking)
		for (int dir = 0; dir < 2; dir++)
			fd_learn(fd, (enum polldir)dir, ROAD_CALL);
}

/* Every command takes one word at most. */
static int control(int fd, int cmd, long arg)
{
	struct thread *t = io_self();
	long r;

	if (!served() && cmd != F_SETOWN_EX)
		return real_table.fcntl(fd, cmd, arg);
	switch (cmd) {
	case F_SETLKW:
	case F_OFD_SETLKW:
		r = lock_call(t, fd, cmd, arg);
		break;
	case F_SETFL:
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
		fd_switched(fd, r == 0 && (arg & O_NONBLOCK));
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
		if (r >= 0) {
			fd_shared(fd);
			fd_renewed((int)r);
		}
		break;
	case F_SETOWN_EX:
		r = owner_set(t, fd, (const void *)arg);
		break;
	case F_GETOWN_EX:
		r = owner_get(fd, (void *)arg);
		break;
	case F_GETOWN: {
		/* The kernel's answer may look like an error. */
		struct f_owner_ex owner;
		r = owner_get(fd, &owner);
		if (r == 0)
			return owner.type == F_OWNER_PGRP ? -owner.pid : owner.pid;
		break;
	}
	default:
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
	}
	return (int)io_answer(r);
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	return control(fd, cmd, arg);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	long arg, r;

	va_start(args, request);
	arg = va_arg(args, long);
	va_end(args);
	if (served() && request == FIONBIO)
		fd_renewed(fd);
	if (!io_self())
		return (int)io_answer(arch_syscall3(SYS_ioctl, fd, (long)request, arg));
	entersyscall();
	r = arch_syscall3(SYS_ioctl, fd, (long)request, arg);
	exitsyscall();
	if (request == FIONBIO)
		fd_switched(fd, r == 0 && *(const int *)arg);
	return (int)io_answer(r);
}

SAME(__close, close);
SAME(__fcntl, fcntl);
SAME(fcntl64, fcntl);
