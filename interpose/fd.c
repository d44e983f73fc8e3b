/* The beliefs of fd.h, and the calls that make, change and end descriptors. Owns the table of
 * roads. Next: io.h, which goes by it; standin.c, descriptors that end while others use them. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "io.h"
#include "mode.h"
#include "os.h"

struct fd fd_near[FD_NEAR];
static ATOMIC(struct fd *) far[FD_MAX / FD_NEAR]; /* each as many; made at need, and never ended */
EARLY ATOMIC(uint32_t) fd_epoch = 1;
ATOMIC(uint32_t) fd_end;
static ATOMIC(bool) several; /* tables: fd_unshared */

void fd_rise(int fd)
{
	uint32_t end = ld_rlx(&fd_end);

	if ((unsigned)fd < FD_MAX)
		while (end <= (unsigned)fd && !cas_sc(&fd_end, end, (unsigned)fd + 1))
			end = ld_rlx(&fd_end);
}

struct fd *fd_far(int fd, bool make)
{
	ATOMIC(struct fd *) *at = &far[(unsigned)fd / FD_NEAR % (FD_MAX / FD_NEAR)];
	struct fd *part;

	if ((unsigned)fd >= FD_MAX)
		return NULL;
	/* Acquire: pairs with the CAS by which it was put there. */
	part = ld_acq(at);
	if (!part && make) {
		part = os_reserve(sizeof(fd_near));
		if (os_failed(part))
			return NULL;
		/* Whoever comes second takes the first one's. */
		if (!cas_sc(at, NULL, part)) {
			os_release(part, sizeof(fd_near));
			part = ld_acq(at);
		}
	}
	return part ? &part[(unsigned)fd % FD_NEAR] : NULL;
}

/* Nobody set a time-out on a socket yet. */
static ATOMIC(bool) any_timeouts;

static bool option(int fd, int name, void *value, unsigned len)
{
	return arch_owncall(SYS_getsockopt, fd, SOL_SOCKET, name, (long)value, (long)&len, 0) == 0;
}

int fd_local(int fd)
{
	int domain = 0, type = 0;

	if (!option(fd, SO_DOMAIN, &domain, sizeof(domain)) || domain != AF_UNIX)
		return 0;
	return option(fd, SO_TYPE, &type, sizeof(type)) ? type : 0;
}

int fd_error(int fd, int otherwise)
{
	int error = 0;

	return option(fd, SO_ERROR, &error, sizeof(error)) && error ? error : otherwise;
}

void fd_timeouts(void)
{
	st_rlx(&any_timeouts, true);
}

uint64_t fd_timed(int fd, enum polldir dir)
{
	struct timeval t = { 0 };

	if (!ld_rlx(&any_timeouts) ||
	    !option(fd, dir == POLL_READ ? SO_RCVTIMEO : SO_SNDTIMEO, &t, sizeof(t)))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_usec * 1000;
}

static enum road road_of_socket(int fd, enum polldir dir)
{
	int type = 0, domain = 0, low = 1;
	struct timeval t = { 0 };

	if (!option(fd, SO_TYPE, &type, sizeof(type)) ||
	    !option(fd, SO_DOMAIN, &domain, sizeof(domain)))
		return ROAD_CALL;
	/* Inherited, perhaps. */
	for (int i = 0; i < 2; i++)
		if (option(fd, i ? SO_RCVTIMEO : SO_SNDTIMEO, &t, sizeof(t)) &&
		    (t.tv_sec || t.tv_usec))
			fd_timeouts();
	switch (domain) {
	case AF_INET:
	case AF_INET6:
	case AF_NETLINK:
		break;
	case AF_UNIX:
		/* A full queue at the other end is no matter of this one's readiness. */
		if (type == SOCK_DGRAM && dir == POLL_WRITE)
			return ROAD_CALL;
		break;
	default:
		return ROAD_CALL;
	}
	/* Less than that is no reason to wake up; only a blocking call knows. */
	if (dir == POLL_READ && option(fd, SO_RCVLOWAT, &low, sizeof(low)) && low > 1)
		return ROAD_CALL;
	/* write() ends a record there, and send() does not. */
	return type == SOCK_STREAM || type == SOCK_DGRAM ? ROAD_SOCKET : ROAD_NOWAIT;
}

/* Devices without a poll of their own are always ready for both. */
static enum road road_of_device(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	arch_syscall3(SYS_poll, (long)&p, 1, 0);
	return (p.revents & POLLIN) && (p.revents & POLLOUT) ? ROAD_CALL : ROAD_READY;
}

enum road fd_explore(int fd, enum polldir dir)
{
	enum road road = ROAD_CALL;
	struct stat st;
	long flags;

	if (fd >= FD_MAX || arch_syscall3(SYS_fstat, fd, (long)&st, 0) < 0)
		return ROAD_CALL;
	if (S_ISREG(st.st_mode)) {
		fd_learn(fd, POLL_READ, road);
		fd_learn(fd, POLL_WRITE, road);
		return road;
	}
	flags = arch_syscall3(SYS_fcntl, fd, F_GETFL, 0);
	if (flags < 0)
		return ROAD_CALL;
	if (!(flags & O_NONBLOCK)) {
		switch (st.st_mode & S_IFMT) {
		case S_IFSOCK:
			road = road_of_socket(fd, dir);
			break;
		case S_IFIFO:
		case 0: /* eventfd, timerfd and the like */
			road = ROAD_NOWAIT;
			break;
		case S_IFCHR:
			road = road_of_device(fd);
			break;
		}
	}
	fd_learn(fd, dir, road);
	return road;
}

void fd_surprised(int fd)
{
	fd_learn(fd, POLL_READ, ROAD_UNKNOWN);
	fd_learn(fd, POLL_WRITE, ROAD_UNKNOWN);
}

void fd_renewed(int fd)
{
	struct fd *p = fd_known(fd);
	int peer;

	if (!p)
		return;
	fd_surprised(fd);
	fd_shared(fd);
	peer = ld_rlx(&p->peer);
	if (peer) {
		st_rlx(&fd_known(peer - 1)->peer, 0);
		st_rlx(&p->peer, 0);
	}
}

void fd_shared(int fd)
{
	struct fd *p = fd_known(fd);

	if (p && ld_rlx(&p->sole))
		st_rlx(&p->sole, 0);
}

void fd_allshared(void)
{
	/* 0 says of a descriptor that it is not. */
	if (add_sc(&fd_epoch, 1) + 1 == 0)
		add_sc(&fd_epoch, 1);
}

void fd_unshared(struct thread *t)
{
	t->ownfiles = true;
	/* In this order: what was made before is of a past epoch, what is made after is not sole.
	 */
	st_sc(&several, true);
	fd_allshared();
}

void fd_made(int fd, enum road road, bool nonblocking, uint32_t since)
{
	struct fd *p = fd_place(fd);

	fd_renewed(fd);
	if (!p)
		return;
	if (nonblocking)
		road = ROAD_CALL;
	fd_learn(fd, POLL_READ, road);
	fd_learn(fd, POLL_WRITE, road);
	if (!nonblocking && !ld_sc(&several))
		st_rlx(&p->sole, since);
}

void fd_pair(const int fd[2], enum road road, bool nonblocking, uint32_t since)
{
	struct fd *p[2];

	for (int i = 0; i < 2; i++) {
		fd_made(fd[i], road, nonblocking, since);
		p[i] = fd_known(fd[i]);
	}
	if (!p[0] || !p[1])
		return;
	st_rlx(&p[0]->peer, fd[1] + 1);
	st_rlx(&p[1]->peer, fd[0] + 1);
}

void fd_accepted(int fd, int listener, bool nonblocking, uint32_t since)
{
	/* A listener that is non-blocking itself says nothing of its kind. */
	if (!nonblocking && fd_road(listener, POLL_READ) != ROAD_SOCKET)
		fd_renewed(fd);
	else
		fd_made(fd, ROAD_SOCKET, nonblocking, since);
}

/* ---- the calls ---- */

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

/* Every command takes one word at most. */
static int control(int fd, int cmd, long arg)
{
	struct thread *t = io_self();
	long r;

	if (!served())
		return real_table.fcntl(fd, cmd, arg);
	switch (cmd) {
	case F_SETLKW:
	case F_OFD_SETLKW:
		r = lock_call(t, fd, cmd, arg);
		break;
	case F_SETFL:
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
		fd_renewed(fd);
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		r = arch_syscall3(SYS_fcntl, fd, cmd, arg);
		if (r >= 0) {
			fd_shared(fd);
			fd_renewed((int)r);
		}
		break;
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
	/* The kernel's answer to F_GETOWN needs a second look, which is glibc's. */
	if (served() && cmd == F_GETOWN)
		return real_table.fcntl(fd, cmd, arg);
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
		fd_renewed(fd);
	return (int)io_answer(r);
}

SAME(__close, close);
SAME(__fcntl, fcntl);
SAME(fcntl64, fcntl);
