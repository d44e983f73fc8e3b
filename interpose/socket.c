/* Calls that only sockets know; but for accept (accept.c). */
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

#include "io.h"
#include "os.h"
#include "user.h"

/* ---- receiving ---- */

static long recvfrom_attempt(const struct io *io)
{
	return arch_syscall6(SYS_recvfrom, io->fd, (long)io->buf, (long)io->n,
			     io->flags | MSG_DONTWAIT, (long)io->addr, (long)io->addrlen);
}

static long recvfrom_call(const struct io *io)
{
	return arch_syscall6(SYS_recvfrom, io->fd, (long)io->buf, (long)io->n, io->flags,
			     (long)io->addr, (long)io->addrlen);
}

static long recvmsg_attempt(const struct io *io)
{
	return arch_syscall3(SYS_recvmsg, io->fd, (long)io->buf, io->flags | MSG_DONTWAIT);
}

static long recvmsg_call(const struct io *io)
{
	return arch_syscall3(SYS_recvmsg, io->fd, (long)io->buf, io->flags);
}

/* These never block, or not for what the poller could see; or the kernel counts the calls. */
enum { NOT_FOR_US = MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE | MSG_FASTOPEN | MSG_ZEROCOPY };

/* As the kernel looks at it before it waits. */
static long msg_refused(const struct msghdr *msg)
{
	struct msghdr m;
	struct iovec end;
	long r = user_fetch(&m, msg, sizeof(m));

	if (r != 0 || m.msg_iovlen == 0)
		return r;
	if ((int)m.msg_namelen < 0)
		return -EINVAL;
	if (m.msg_iovlen > IOV_MAX)
		return -EMSGSIZE;
	r = user_fetch(&end, m.msg_iov, sizeof(end));
	return r != 0 ? r : user_fetch(&end, m.msg_iov + m.msg_iovlen - 1, sizeof(end));
}

/* Waits until there is something to receive. What refuses at once a poll does not tell: to look
 * at nothing does, and leaves all there. 0: the call may be made; or -errno. */
static long receivable(struct io *io, const struct msghdr *msg)
{
	for (;;) {
		long r;
		if (io_road(io) == ROAD_CALL)
			return 0;
		r = arch_owncall(SYS_recvfrom, io->fd, 0, 0, MSG_PEEK | MSG_DONTWAIT, 0, 0);
		if (r >= 0)
			return 0;
		if (io_stands(io, r))
			continue;
		if (r != -EAGAIN && r != -ENOSYS && r != -EPERM)
			return r;
		r = msg && !io->asked ? msg_refused(msg) : 0;
		if (r == 0)
			r = io_ready(io);
		if (r == 0)
			r = io_block(io);
		if (r != 0)
			return r < 0 ? r : 0;
	}
}

/* Elsewhere how much is all, and whether it counts, and how long it may take, the kernel knows
 * best. */
static long receive_all(struct io *io, attempt *call)
{
	bool vector = call == recvmsg_call;
	struct thread *t = thread_self();
	long r = 0;

	if (fd_timed(io->fd, POLL_READ) == 0)
		r = receivable(io, vector ? io->buf : NULL);
	if (r < 0)
		return r;
	if (vector ? receive_vector(t, io, &r) : receive_bytes(t, io, &r))
		return r;
	io_moved(io);
	return io_plain(io, call);
}

static long receive(struct io *io, attempt *try, attempt *call)
{
	long r;

	cancel_point();
	if (io->flags & NOT_FOR_US)
		r = io_announced(io, call);
	else if (io->flags & MSG_WAITALL)
		r = receive_all(io, call);
	else
		r = io_do(io, try, try, call);
	io_end(io);
	return io_answer(r);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			socklen_t *len)
{
	struct io io;

	if (!io_self())
		return real_table.recvfrom(fd, buf, n, flags, addr, len);
	io_init(&io, fd, POLL_READ, buf, n, flags);
	io.addr = addr;
	io.addrlen = len;
	return receive(&io, recvfrom_attempt, recvfrom_call);
}

EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return recvfrom(fd, buf, n, flags, NULL, NULL);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct io io;

	if (!io_self())
		return real_table.recvmsg(fd, msg, flags);
	io_init(&io, fd, POLL_READ, msg, 0, flags);
	return receive(&io, recvmsg_attempt, recvmsg_call);
}

static bool is_span(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* Of *t, of which so much is over. */
static void shorten(struct timespec *t, uint64_t by)
{
	int64_t sec = t->tv_sec - (int64_t)(by / 1000000000);
	long ns = t->tv_nsec - (long)(by % 1000000000);

	if (ns < 0) {
		ns += 1000000000;
		sec--;
	}
	*t = sec < 0 ? (struct timespec){ 0 } : (struct timespec){ sec, ns };
}

/* Its time is looked at after each message, and counts from the call on. */
EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	struct thread *t = io_self();
	struct timespec left;
	uint64_t since = 0;
	struct io io;
	long r = 0;

	if (!t)
		return real_table.recvmmsg(fd, msgs, n, flags, timeout);
	cancel_point();
	io_init(&io, fd, POLL_READ, NULL, 0, 0);
	if (timeout) {
		since = nanotime();
		r = user_fetch(&left, timeout, sizeof(left));
		if (r == 0 && !is_span(&left))
			r = -EINVAL;
	}
	if (r == 0 && !(flags & NOT_FOR_US) && n > 0)
		r = receivable(&io, &msgs->msg_hdr);
	if (r == 0) {
		if (timeout)
			shorten(&left, nanotime() - since);
		io_moved(&io);
		do {
			cancel_blocks(t);
			r = arch_syscall6(SYS_recvmmsg, io.fd, (long)msgs, n, flags,
					  timeout ? (long)&left : 0, 0);
			cancel_unblocks(t);
		} while (io_stands(&io, r));
	}
	if (timeout && r > 0 && user_store(timeout, &left, sizeof(left)) != 0)
		r = -EFAULT;
	io_end(&io);
	return (int)io_answer(r);
}

/* ---- sending ---- */

static long sendto_attempt(const struct io *io)
{
	return arch_syscall6(SYS_sendto, io->fd, (long)io->buf, (long)io->n,
			     io->flags | MSG_DONTWAIT, (long)io->addr, (long)io->addrlen);
}

static long sendto_call(const struct io *io)
{
	return arch_syscall6(SYS_sendto, io->fd, (long)io->buf, (long)io->n, io->flags,
			     (long)io->addr, (long)io->addrlen);
}

static long sendmsg_attempt(const struct io *io)
{
	return arch_syscall3(SYS_sendmsg, io->fd, (long)io->buf, io->flags | MSG_DONTWAIT);
}

static long sendmsg_call(const struct io *io)
{
	return arch_syscall3(SYS_sendmsg, io->fd, (long)io->buf, io->flags);
}

/* After r of io->n bytes: the rest. A peer that goes away now ends the call early, without a
 * signal. */
static __attribute__((noinline)) long send_rest(struct io *io, long r)
{
	long done = r;

	while (r > 0 && (size_t)r < io->n && io->road == ROAD_SOCKET) {
		io->buf = (char *)io->buf + r;
		io->n -= (size_t)r;
		r = io_part(io);
		if (r == 0)
			r = io_do(io, sendto_attempt, sendto_attempt, sendto_call);
		if (r > 0)
			done += r;
	}
	return done;
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
		      socklen_t len)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t)
		return real_table.sendto(fd, buf, n, flags, addr, len);
	cancel_look(t);
	io_init(&io, fd, POLL_WRITE, buf, n, flags);
	io.addr = (void *)(uintptr_t)addr;
	io.addrlen = (void *)(uintptr_t)len;
	io_begins(&io, t);
	if (flags & NOT_FOR_US)
		r = io_announced(&io, sendto_call);
	else
		r = io_do(&io, sendto_attempt, sendto_attempt, sendto_call);
	if (r > 0 && (size_t)r < n && !(flags & NOT_FOR_US))
		r = send_rest(&io, r);
	io_end(&io);
	return io_answer(r);
}

EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return sendto(fd, buf, n, flags, NULL, 0);
}

static size_t length_of(const struct msghdr *msg)
{
	size_t sum = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		sum += msg->msg_iov[i].iov_len;
	return sum;
}

/* The rest of a message of which `sent` bytes are gone, and with them what came along. */
static __attribute__((noinline)) long sendmsg_rest(struct io *io, long sent)
{
	const struct msghdr *msg = io->buf;
	const struct iovec *v = msg->msg_iov;
	size_t skip = (size_t)sent;

	for (size_t i = 0; i < msg->msg_iovlen && io->road == ROAD_SOCKET; i++, v++) {
		long r;
		if (skip >= v->iov_len) {
			skip -= v->iov_len;
			continue;
		}
		io->buf = (char *)v->iov_base + skip;
		io->n = v->iov_len - skip;
		r = io_part(io);
		if (r == 0)
			r = io_do(io, sendto_attempt, sendto_attempt, sendto_call);
		if (r > 0 && (size_t)r < io->n)
			r = send_rest(io, r);
		if (r > 0)
			sent += r;
		if (r != (long)(v->iov_len - skip))
			break;
		skip = 0;
	}
	return sent;
}

/* Descriptors may have gone with it. */
static void sent(const struct msghdr *msg)
{
	if (msg->msg_controllen > 0)
		fd_allshared();
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t) {
		r = real_table.sendmsg(fd, msg, flags);
		if (r >= 0)
			sent(msg);
		return r;
	}
	cancel_look(t);
	io_init(&io, fd, POLL_WRITE, msg, 0, flags);
	io_begins(&io, t);
	if (flags & NOT_FOR_US)
		r = io_announced(&io, sendmsg_call);
	else
		r = io_do(&io, sendmsg_attempt, sendmsg_attempt, sendmsg_call);
	if (r >= 0)
		sent(msg);
	if (r > 0 && io.road == ROAD_SOCKET && (size_t)r < length_of(msg))
		r = sendmsg_rest(&io, r);
	io_end(&io);
	return io_answer(r);
}

static long sendmmsg_attempt(const struct io *io)
{
	return arch_syscall4(SYS_sendmmsg, io->fd, (long)io->buf, (long)io->n,
			     io->flags | MSG_DONTWAIT);
}

static long sendmmsg_call(const struct io *io)
{
	return arch_syscall4(SYS_sendmmsg, io->fd, (long)io->buf, (long)io->n, io->flags);
}

static bool is_datagram(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return arch_owncall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&len, 0) ==
		       0 &&
	       type == SOCK_DGRAM;
}

/* What of the first of io's messages has not gone yet. True: it is whole. */
static bool sendmmsg_rest(struct io *io)
{
	struct mmsghdr *m = io->buf;
	size_t all = length_of(&m->msg_hdr);

	if (m->msg_len < all && m->msg_len > 0 && io->road == ROAD_SOCKET) {
		io->buf = &m->msg_hdr;
		m->msg_len = (unsigned)sendmsg_rest(io, m->msg_len);
	}
	return m->msg_len >= all;
}

/* Each message is sent as by itself, and waited for; datagrams as many as go at once. What ends one
 * but the first is not told: there is a count. */
static long sendmmsg_all(struct thread *t, int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	uint32_t stopped = ld_rlx(&t->stopped), handled = ld_rlx(&t->handled);
	bool together = n > 1 && is_datagram(fd), whole = true;
	long r = 0, done = 0;

	waits_anew(t);
	fd_hold(t, fd);
	while (whole && done < n) {
		struct io io;
		io_init(&io, fd_held(t, fd), POLL_WRITE, msgs + done,
			together ? n - (size_t)done : 1, flags);
		io.stopped = stopped;
		io.handled = handled;
		io.follows = done > 0;
		r = io_do(&io, sendmmsg_attempt, sendmmsg_attempt, sendmmsg_call);
		if (r > 0 && !together)
			whole = sendmmsg_rest(&io);
		/* The kernel has waited for all of them. */
		whole = whole && (!together || io.road != ROAD_CALL);
		io_end(&io);
		if (r <= 0)
			break;
		done += r;
	}
	fd_letgo(t);
	return done > 0 ? done : r;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t) {
		r = real_table.sendmmsg(fd, msgs, n, flags);
		for (long i = 0; i < r; i++)
			sent(&msgs[i].msg_hdr);
		return (int)r;
	}
	cancel_point();
	/* The kernel looks at no more. */
	if (n > IOV_MAX)
		n = IOV_MAX;
	io_init(&io, fd, POLL_WRITE, msgs, n, flags);
	if ((flags & NOT_FOR_US) || n == 0)
		r = io_announced(&io, sendmmsg_call);
	else
		r = sendmmsg_all(t, fd, msgs, n, flags);
	for (long i = 0; i < r; i++)
		sent(&msgs[i].msg_hdr);
	return (int)io_answer(r);
}

/* ---- connections ---- */

/* Not of every kind of socket epoll hears it. One of datagrams that is not connected is an error,
 * and reads no more all the same. */
EXPORT int shutdown(int fd, int how)
{
	struct thread *t = io_self();
	int r = real_table.shutdown(fd, how), error = errno;

	if (!t || (r != 0 && error != ENOTCONN))
		return r;
	if (how != SHUT_WR)
		fd_surprised(fd);
	if (netpoll_busy(fd)) {
		netpoll_poke(fd, POLL_READ);
		netpoll_poke(fd, POLL_WRITE);
	}
	/* To who sends there it is the end, too. */
	fd_moved(fd, POLL_READ);
	errno = error;
	return r;
}

/* What it says of the socket may change the road. */
EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (served() && level == SOL_SOCKET) {
		switch (name) {
		case SO_RCVTIMEO:
		case SO_SNDTIMEO:
			fd_timeouts();
			break;
		case SO_RCVLOWAT:
			fd_renewed(fd);
		}
	}
	return real_table.setsockopt(fd, level, name, value, len);
}

/* ---- the fortified names: the check is glibc's ---- */

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	served();
	return n > room ? real_table.__recv_chk(fd, buf, n, room, flags) : recv(fd, buf, n, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			      struct sockaddr *addr, socklen_t *len)
{
	served();
	return n > room ? real_table.__recvfrom_chk(fd, buf, n, room, flags, addr, len)
			: recvfrom(fd, buf, n, flags, addr, len);
}

SAME(__send, send);
