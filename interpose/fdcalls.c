/* The calls that make, change and end descriptors: what fd.h believes of these is told here. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fd.h"
#include "fdowner.h"
#include "io.h"
#include "mode.h"

/* The first from there on that is heddle's, and natively would not be there: programs close all
 * that may be open, or ask which are. -1: none. */
static int ours_from(const struct thread *t, int from)
{
	int own, standin;

	if (!t || t->ownfiles)
		return -1;
	own = netpoll_own(from);
	standin = standin_from(from);
	return own < 0 || (standin >= 0 && standin < own) ? standin : own;
}

static bool is_ours(const struct thread *t, int fd)
{
	return fd >= 0 && ours_from(t, fd) == fd;
}

EXPORT int close(int fd)
{
	struct thread *t;
	long r;

	if (!served())
		return real_table.close(fd);
	t = thread_self();
	if (!t) {
		fd_renewed(fd);
		return real_table.close(fd);
	}
	cancel_point();
	if (unlikely(is_ours(t, fd)))
		return (int)io_answer(-EBADF);
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
	bool serves = served();
	int fd;

	if (serves && is_ours(thread_self(), old))
		return (int)io_answer(-EBADF);
	fd = real_table.dup(old);
	if (serves && fd >= 0) {
		fd_shared(old);
		fd_renewed(fd);
	}
	return fd;
}

/* The new number takes the place of an open one. 0 or -errno. */
static long replacing(int old, int new)
{
	struct thread *t = thread_self();

	if (is_ours(t, old))
		return -EBADF;
	if (old == new || arch_syscall3(SYS_fcntl, old, F_GETFD, 0) < 0)
		return 0;
	if (t && !t->ownfiles && netpoll_leaves(new) < 0)
		return -EMFILE;
	fd_shared(old);
	fd_closing(new);
	return 0;
}

static int replaced(int old, int new, int r)
{
	if (r >= 0 && old != new)
		fd_closed(new);
	return r;
}

EXPORT int dup2(int old, int new)
{
	long r;

	if (!served())
		return real_table.dup2(old, new);
	r = replacing(old, new);
	if (r < 0)
		return (int)io_answer(r);
	return replaced(old, new, real_table.dup2(old, new));
}

EXPORT int __dup2(int old, int new)
{
	return dup2(old, new);
}

EXPORT int dup3(int old, int new, int flags)
{
	long r;

	if (!served() || (flags & ~O_CLOEXEC) != 0)
		return real_table.dup3(old, new, flags);
	r = replacing(old, new);
	if (r < 0)
		return (int)io_answer(r);
	return replaced(old, new, real_table.dup3(old, new, flags));
}

/* Those of which anything is known: a million and more may be meant, by who closes all from one on.
 */
static void for_range(unsigned lo, unsigned hi, void (*fn)(int fd))
{
	struct thread *t = thread_self();
	unsigned end = ld_sc(&fd_end), waited = t ? (unsigned)netpoll_end() : 0;

	end = end > waited ? end : waited;
	for (unsigned fd = lo; fd <= hi && fd < end; fd++)
		if (!is_ours(t, (int)fd))
			fn((int)fd);
}

/* The kernel's, but for those of ours that are among them. */
static long close_others(unsigned lo, unsigned hi, unsigned flags)
{
	const struct thread *t = thread_self();
	int ours;

	while (lo <= INT_MAX && (ours = ours_from(t, (int)lo)) >= 0 && (unsigned)ours <= hi) {
		unsigned end = (unsigned)ours;
		long r = lo < end ? arch_syscall3(SYS_close_range, lo, end - 1, flags) : 0;
		if (r < 0 || end == hi)
			return r;
		lo = end + 1;
	}
	return arch_syscall3(SYS_close_range, lo, hi, flags);
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
	r = ours_from(thread_self(), 0) < 0 || lo > hi
		    ? real_table.close_range(lo, hi, flags)
		    : (int)io_answer(close_others(lo, hi, (unsigned)flags));
	if (closes)
		for_range(lo, hi, fd_closed);
	return r;
}

/* For kernels that close one after the other only. */
static void close_each_from(unsigned lo)
{
	const struct thread *t = thread_self();
	struct rlimit limit = { 0, 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned fd = lo; fd < limit.rlim_cur && fd < FD_MAX; fd++)
		if (!is_ours(t, (int)fd))
			arch_syscall3(SYS_close, fd, 0, 0);
}

EXPORT void closefrom(int lo)
{
	unsigned from = lo > 0 ? (unsigned)lo : 0;

	if (served())
		for_range(from, FD_MAX, fd_closing);
	if (!served() || ours_from(thread_self(), (int)from) < 0)
		real_table.closefrom(lo);
	else if (close_others(from, UINT_MAX, 0) < 0)
		close_each_from(from);
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
	if (!nonblocking)
		fd_unblocked(fd);
	for (int dir = 0; dir < 2 && nonblocking; dir++)
		fd_learn(fd, (enum polldir)dir, ROAD_CALL);
}

/* Every command takes one word at most. */
static int control(int fd, int cmd, long arg)
{
	struct thread *t = io_self();
	long r;

	if (!served() && cmd != F_SETOWN_EX)
		return real_table.fcntl(fd, cmd, arg);
	if (unlikely(is_ours(t, fd)))
		return (int)io_answer(-EBADF);
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
