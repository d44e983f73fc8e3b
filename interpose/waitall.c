/* A receive with MSG_WAITALL on a stream, TCP's or a local one: taken in parts, each without
 * waiting, with the thread asleep in the poller between two. Natively it is one call, which knows
 * how much it has and ends where a new one would go on; so before each part but the first it is
 * looked what there is:
 *
 *   an error, TCP         is the next call's: a new call would take it
 *   an error, local       is taken, and lost
 *   the mark              of urgent data ends it: a new call would pass it
 *   descriptors           that came along end it with their bytes: MSG_CTRUNC, for there is no
 *                         room for them here
 *   a handler, the time   end it with what there is; a cancellation, too, and acts at the next
 *
 * Refuses what cannot be looked at: senders that are told apart (SO_PASSCRED and the like), room
 * for control data or a name, a queue of errors beside the error (SO_ZEROCOPY, SO_TIMESTAMPING),
 * protocols above TCP, TCP's MSG_PEEK. There the call is announced once there is something. What
 * two who read one stream may find otherwise: the one takes what the other has just seen, and in
 * that moment the connection is reset: the error is gone then. */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io.h"
#include "os.h"
#include "user.h"

enum { PASSPIDFD = 76 /* SO_PASSPIDFD, which older headers lack */ };
enum { FEW = 8, MOST = 0x7ffff000 /* what the kernel takes at once */ };

struct parts {
	struct msghdr msg; /* the rest */
	struct iovec v[FEW];
	size_t left;
	int local; /* as io.local */
	bool last; /* it was announced, and waited for all */
	int flags; /* of the message */
};

/* 0: unset, or unknown here. */
static int option(int fd, int level, int name)
{
	char value[16] = "";
	socklen_t len = sizeof(value);
	int set;

	if (arch_owncall(SYS_getsockopt, fd, level, name, (long)value, (long)&len, 0) != 0 ||
	    len == 0)
		return 0;
	memcpy(&set, value, sizeof(set));
	return set;
}

/* Can it be taken in parts? */
static bool parts_of(int fd, int *local)
{
	int domain = option(fd, SOL_SOCKET, SO_DOMAIN);

	*local = domain == AF_UNIX ? SOCK_STREAM : 0;
	if (*local)
		return !option(fd, SOL_SOCKET, SO_PASSCRED) &&
		       !option(fd, SOL_SOCKET, SO_PASSSEC) && !option(fd, SOL_SOCKET, PASSPIDFD);
	return (domain == AF_INET || domain == AF_INET6) &&
	       option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP &&
	       !option(fd, IPPROTO_TCP, TCP_ULP) && !option(fd, SOL_SOCKET, SO_ZEROCOPY) &&
	       !option(fd, SOL_SOCKET, SO_TIMESTAMPING);
}

/* Negative: it cannot be asked. */
static int asked(int fd, unsigned what)
{
	int n = 0;

	return arch_owncall(SYS_ioctl, fd, what, (long)&n, 0, 0, 0) == 0 ? n : -1;
}

/* ---- attempts ---- */

static long part(const struct io *io)
{
	struct parts *p = io->buf;
	long r;

	if (!p->local && p->msg.msg_iovlen == 1)
		return arch_syscall6(SYS_recvfrom, io->fd, (long)p->msg.msg_iov->iov_base,
				     (long)p->msg.msg_iov->iov_len, io->flags | MSG_DONTWAIT, 0, 0);
	r = arch_owncall(SYS_recvmsg, io->fd, (long)&p->msg, io->flags | MSG_DONTWAIT, 0, 0, 0);
	if (r >= 0)
		p->flags |= p->msg.msg_flags;
	return r;
}

static long all(const struct io *io)
{
	struct parts *p = io->buf;
	long r = arch_syscall3(SYS_recvmsg, io->fd, (long)&p->msg, io->flags);

	p->last = true;
	if (r >= 0)
		p->flags |= p->msg.msg_flags;
	return r;
}

/* ---- what there is ---- */

enum sight { NOTHING, SOMETHING, AGAIN, OVER };

/* In this order: what is seen broken has all its bytes there, and what stands before a mark that is
 * not reached is to be read. */
static enum sight look(const struct io *io)
{
	struct pollfd f = { .fd = io->fd, .events = POLLIN | POLLRDHUP };
	struct parts *p = io->buf;
	int n, mark;

	arch_syscall3(SYS_poll, (long)&f, 1, 0);
	n = asked(io->fd, SIOCINQ);
	mark = asked(io->fd, SIOCATMARK);
	if (n < 0 || mark != 0)
		return OVER;
	if (n > 0)
		return SOMETHING;
	if (f.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) {
		if (p->local && (f.revents & POLLERR))
			fd_error(io->fd, 0);
		return OVER;
	}
	return f.revents ? AGAIN : NOTHING;
}

static long next(struct thread *t, struct io *io)
{
	long r;

	for (;;) {
		io->ticket = netpoll_ticket(io->fd, POLL_READ);
		if (!io_kept(io, t))
			continue;
		switch (look(io)) {
		case OVER:
			return 0;
		case AGAIN:
			continue;
		case SOMETHING:
			r = part(io);
			/* Else somebody was faster. */
			if (r != -EAGAIN)
				return r;
			continue;
		case NOTHING:
			r = io_block(io);
			if (r != 0)
				return r < 0 ? r : io_announced(io, all);
		}
	}
}

/* ---- the call ---- */

/* n bytes have come, of which the next part is not. */
static void advance(struct parts *p, size_t n)
{
	p->left -= n;
	while (p->msg.msg_iovlen > 0 && n >= p->msg.msg_iov->iov_len) {
		n -= p->msg.msg_iov->iov_len;
		p->msg.msg_iov++;
		p->msg.msg_iovlen--;
	}
	if (p->msg.msg_iovlen > 0) {
		p->msg.msg_iov->iov_base = (char *)p->msg.msg_iov->iov_base + n;
		p->msg.msg_iov->iov_len -= n;
	}
}

/* After r bytes: the rest. */
static long rest(struct thread *t, struct io *io, long r)
{
	bool before = ld_rlx(&t->uncancelled);
	struct parts *p = io->buf;
	long done = 0;

	io->begun = true;
	io->yields = !before;
	if (!(ld_rlx(&t->cancel) & ASYNC))
		st_rlx(&t->uncancelled, true);
	io_moved(io);
	if (!(io->ends & IO_STANDIN))
		fd_hold(t, io->fd);
	while (r > 0) {
		fd_moved(io->fd, POLL_READ);
		done += r;
		advance(p, (size_t)r);
		if (p->left == 0 || p->last || (p->flags & MSG_CTRUNC))
			break;
		r = next(t, io);
	}
	fd_letgo(t);
	st_rlx(&t->uncancelled, before);
	return done;
}

static long in_parts(struct thread *t, struct io *io, struct parts *p)
{
	long r;

	io->buf = p;
	if (!io->asked)
		io_begins(io, t);
	r = io_do(io, part, part, all);
	if (r <= 0 || (size_t)r == p->left || p->last || (p->flags & MSG_CTRUNC))
		return r;
	/* A handler that has run since it began, and before it first slept, ends it as well. */
	if (!io->asked)
		io->follows = true;
	return rest(t, io, r);
}

/* The bytes that p is to take, if it can; else 0. */
static size_t takes(struct parts *p, const struct iovec *v, size_t n)
{
	p->left = 0;
	for (size_t i = 0; i < n; i++) {
		p->v[i] = v[i];
		if (v[i].iov_len > MOST - p->left)
			return 0;
		p->left += v[i].iov_len;
	}
	p->msg = (struct msghdr){ .msg_iov = p->v, .msg_iovlen = n };
	return p->left;
}

static bool is_there(const struct io *io, const struct parts *p)
{
	int n = asked(io->fd, SIOCINQ);

	return n >= 0 && (size_t)n >= p->left;
}

static bool can_part(const struct io *io, struct parts *p)
{
	return !(io->flags & ~(MSG_WAITALL | MSG_TRUNC | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)) &&
	       asked(io->fd, SIOCINQ) >= 0 && asked(io->fd, SIOCATMARK) >= 0 &&
	       option(io->fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM && parts_of(io->fd, &p->local);
}

static bool receive(struct thread *t, struct io *io, struct parts *p, long *r)
{
	if (is_there(io, p) || !can_part(io, p))
		return false;
	*r = in_parts(t, io, p);
	/* A filter of the program's lets pass only what it does itself. */
	return *r != -EPERM && *r != -ENOSYS;
}

bool receive_bytes(struct thread *t, struct io *io, long *r)
{
	struct parts p = { .flags = 0 };
	struct iovec v = { io->buf, io->n };
	bool done;

	if (io->addr || io_road(io) != ROAD_SOCKET || !takes(&p, &v, 1))
		return false;
	done = receive(t, io, &p, r);
	io->buf = v.iov_base;
	return done;
}

bool receive_vector(struct thread *t, struct io *io, long *r)
{
	struct msghdr *msg = io->buf, m;
	struct parts p = { .flags = io->flags & MSG_CMSG_CLOEXEC };
	struct iovec v[FEW];
	size_t none = 0;
	bool done;

	if (io_road(io) != ROAD_SOCKET || user_fetch(&m, msg, sizeof(m)) != 0 || m.msg_name ||
	    (m.msg_control && m.msg_controllen) || m.msg_iovlen > FEW || m.msg_iovlen == 0 ||
	    user_fetch(v, m.msg_iov, m.msg_iovlen * sizeof(*v)) != 0 || !takes(&p, v, m.msg_iovlen))
		return false;
	done = receive(t, io, &p, r);
	if (io->buf == msg)
		return done;
	io->buf = msg;
	if (done && *r >= 0 &&
	    (user_store(&msg->msg_flags, &p.flags, sizeof(p.flags)) != 0 ||
	     user_store(&msg->msg_controllen, &none, sizeof(none)) != 0))
		*r = -EFAULT;
	return done;
}
