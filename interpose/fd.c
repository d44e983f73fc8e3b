/* The beliefs of fd.h. Owns the table of roads. Next: fdcalls.c, the calls that make, change and
 * end descriptors; io.h, which goes by the table; standin.c, descriptors that end while others use
 * them. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <termios.h>

#include "early.h"
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
	enum { AGES = 1000000000 }; /* seconds */
	struct timeval t = { 0 };

	/* Another process may have set one. */
	if ((!ld_rlx(&any_timeouts) && fd_sole(fd)) ||
	    !option(fd, dir == POLL_READ ? SO_RCVTIMEO : SO_SNDTIMEO, &t, sizeof(t)))
		return 0;
	if (t.tv_sec > AGES)
		t.tv_sec = AGES;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_usec * 1000;
}

static bool reads_no_more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return arch_syscall3(SYS_poll, (long)&p, 1, 0) == 1 && (p.revents & POLLRDHUP);
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
		break;
	case AF_NETLINK:
	case AF_UNIX:
		/* A full queue at the other end is no matter of this one's readiness. */
		if (type != SOCK_STREAM && type != SOCK_SEQPACKET && dir == POLL_WRITE)
			return ROAD_CALL;
		break;
	default:
		return ROAD_CALL;
	}
	/* Less than that is no reason to wake up; only a blocking call knows. */
	if (dir == POLL_READ && option(fd, SO_RCVLOWAT, &low, sizeof(low)) && low > 1)
		return ROAD_CALL;
	/* Shut down: nothing for who does not wait, and the end for who does. */
	if (dir == POLL_READ && type != SOCK_STREAM && reads_no_more(fd))
		return ROAD_CALL;
	/* write() ends a record there, and send() does not. */
	return type == SOCK_STREAM || type == SOCK_DGRAM ? ROAD_SOCKET : ROAD_NOWAIT;
}

/* Devices without a poll of their own are always ready for both. Of those with one only terminals
 * are known to say whenever there is room. */
static enum road road_of_device(int fd, enum polldir dir)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct termios how; /* begins as the kernel's */

	if (dir == POLL_WRITE && arch_syscall3(SYS_ioctl, fd, TCGETS, (long)&how) != 0)
		return ROAD_CALL;
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
			road = road_of_device(fd, dir);
			break;
		}
	}
	fd_learn(fd, dir, road);
	return road;
}

static void forget(int fd)
{
	fd_learn(fd, POLL_READ, ROAD_UNKNOWN);
	fd_learn(fd, POLL_WRITE, ROAD_UNKNOWN);
}

void fd_surprised(int fd)
{
	if (!fd_mute(fd))
		forget(fd);
}

bool fd_mute(int fd)
{
	const struct fd *p = fd_known(fd);

	return p && ld_rlx(&p->road[POLL_WRITE]) == ROAD_MUTE;
}

void fd_unblocked(int fd)
{
	struct statfs fs;
	struct stat st;

	/* But a pipe has had both ends. */
	if (arch_syscall3(SYS_fstat, fd, (long)&st, 0) == 0 && S_ISFIFO(st.st_mode) &&
	    (arch_syscall3(SYS_fcntl, fd, F_GETFL, 0) & O_ACCMODE) == O_RDONLY &&
	    arch_syscall3(SYS_fstatfs, fd, (long)&fs, 0) == 0 && fs.f_type != PIPEFS_MAGIC)
		fd_learn(fd, POLL_WRITE, ROAD_MUTE);
}

void fd_renewed(int fd)
{
	struct fd *p = fd_known(fd);
	int peer;

	if (!p)
		return;
	forget(fd);
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
