/* Calls that block on sockets, each on several kinds. The same holds natively; what sockets
 * mean beyond blocking is in block_sockopt_test.c. */
#include "pair.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

/* ---- pairs of sockets: what is sent into fd[1] comes out of fd[0] ---- */

static void opens_stream(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
}

static void opens_dgram(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, w->fd), 0);
}

static void opens_seqpacket(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, w->fd), 0);
}

static int listens_tcp(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	EXPECT_EQ(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
	EXPECT_EQ(listen(fd, 16), 0);
	return fd;
}

static void opens_tcp(struct wait *w)
{
	struct sockaddr_in at;
	int l = listens_tcp(&at);

	w->fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(connect(w->fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
	w->fd[0] = accept(l, NULL, NULL);
	EXPECT(w->fd[0] >= 0);
	EXPECT_EQ(close(l), 0);
}

static void opens_udp(struct wait *w)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	w->fd[0] = socket(AF_INET, SOCK_DGRAM, 0);
	w->fd[1] = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(bind(w->fd[0], (struct sockaddr *)&at, sizeof(at)), 0);
	EXPECT_EQ(getsockname(w->fd[0], (struct sockaddr *)&at, &len), 0);
	EXPECT_EQ(connect(w->fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
}

static void feeds(struct wait *w)
{
	EXPECT_EQ(send(w->fd[1], "x", 1, 0), 1);
}

/* ---- receiving ---- */

static long in_read(struct wait *w)
{
	char c[8] = "";
	long r = read(w->fd[0], c, sizeof(c));

	EXPECT(r != 1 || c[0] == 'x');
	return r;
}

static long in_readv(struct wait *w)
{
	char c[8];
	struct iovec v[2] = { { c, 4 }, { c + 4, 4 } };

	return readv(w->fd[0], v, 2);
}

static long in_recv(struct wait *w)
{
	char c[8] = "";
	long r = recv(w->fd[0], c, sizeof(c), 0);

	EXPECT(r != 1 || c[0] == 'x');
	return r;
}

static long in_recv_peek(struct wait *w)
{
	char c[8];

	return recv(w->fd[0], c, sizeof(c), MSG_PEEK);
}

static long in_recv_waitall(struct wait *w)
{
	char c[8] = "";
	long r = recv(w->fd[0], c, 3, MSG_WAITALL);

	EXPECT(r != 3 || memcmp(c, "abc", 3) == 0);
	return r;
}

static long in_recvfrom(struct wait *w)
{
	char c[8];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return recvfrom(w->fd[0], c, sizeof(c), 0, (struct sockaddr *)&from, &len);
}

static long in_recvmsg(struct wait *w)
{
	char c[8];
	struct iovec v[2] = { { c, 4 }, { c + 4, 4 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	long r = recvmsg(w->fd[0], &m, 0);

	EXPECT(r < 0 || m.msg_flags == 0 || m.msg_flags == MSG_EOR);
	return r;
}

/* Returns when it has one: it was told not to wait for the others. */
static long in_recvmmsg(struct wait *w)
{
	char c[8];
	struct iovec v[2] = { { c, 4 }, { c + 4, 4 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = v + 1, .msg_iovlen = 1 } } };
	int r = (int)recvmmsg(w->fd[0], m, 2, MSG_WAITFORONE, NULL);

	EXPECT(r <= 0 || m[0].msg_len == 1);
	return r;
}

static void feeds_in_parts(struct wait *w)
{
	EXPECT_EQ(send(w->fd[1], "a", 1, 0), 1);
	settle();
	EXPECT_EQ(w->returned.n, 0);
	EXPECT_EQ(send(w->fd[1], "bc", 2, 0), 2);
}

#define ON(kind, name, fn)                                                                         \
	BLOCKS(name##_##kind, .open = opens_##kind, .block = fn, .release = feeds, .wants = 1,     \
	       .how = RESTARTS)

ON(stream, read, in_read)
ON(tcp, read, in_read)
ON(udp, readv, in_readv)
ON(stream, recv, in_recv)
ON(dgram, recv, in_recv)
ON(seqpacket, recv, in_recv)
ON(tcp, recv, in_recv)
ON(udp, recv, in_recv)
ON(tcp, recv_peek, in_recv_peek)
ON(udp, recvfrom, in_recvfrom)
ON(tcp, recvfrom, in_recvfrom)
ON(udp, recvmsg, in_recvmsg)
ON(stream, recvmsg, in_recvmsg)
ON(seqpacket, recvmsg, in_recvmsg)
ON(udp, recvmmsg, in_recvmmsg)
ON(dgram, recvmmsg, in_recvmmsg)
HOLDS_UP_NOBODY(recv_waitall_tcp, .open = opens_tcp, .block = in_recv_waitall,
		.release = feeds_in_parts, .wants = 3)
HOLDS_UP_NOBODY(recv_waitall_stream, .open = opens_stream, .block = in_recv_waitall,
		.release = feeds_in_parts, .wants = 3)

/* ---- sending into full buffers ---- */

static void shrinks(struct wait *w)
{
	int small = 4608;

	EXPECT_EQ(setsockopt(w->fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	EXPECT_EQ(setsockopt(w->fd[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
}

static void opens_full_stream(struct wait *w)
{
	opens_stream(w);
	shrinks(w);
	fill(w->fd[1]);
}

static void opens_full_dgram(struct wait *w)
{
	opens_dgram(w);
	shrinks(w);
	fill(w->fd[1]);
}

static void opens_full_seqpacket(struct wait *w)
{
	opens_seqpacket(w);
	shrinks(w);
	fill(w->fd[1]);
}

static void drains(struct wait *w)
{
	drain_until_returned(w, w->fd[0]);
}

static long in_write(struct wait *w)
{
	return write(w->fd[1], "abc", 3);
}

static long in_writev(struct wait *w)
{
	struct iovec v[2] = { { "ab", 2 }, { "c", 1 } };

	return writev(w->fd[1], v, 2);
}

static long in_send(struct wait *w)
{
	return send(w->fd[1], "abc", 3, 0);
}

static long in_sendto(struct wait *w)
{
	return sendto(w->fd[1], "abc", 3, MSG_NOSIGNAL, NULL, 0);
}

static long in_sendmsg(struct wait *w)
{
	struct iovec v[2] = { { "ab", 2 }, { "c", 1 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	return sendmsg(w->fd[1], &m, 0);
}

static long in_sendmmsg(struct wait *w)
{
	struct iovec v[2] = { { "ab", 2 }, { "c", 1 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = v + 1, .msg_iovlen = 1 } } };
	int r = sendmmsg(w->fd[1], m, 2, 0);

	EXPECT(r < 2 || (m[0].msg_len == 2 && m[1].msg_len == 1));
	return r;
}

#define FULL(kind, name, fn, n)                                                                    \
	BLOCKS(name##_full_##kind, .open = opens_full_##kind, .block = fn, .release = drains,      \
	       .wants = n, .how = RESTARTS)

FULL(stream, write, in_write, 3)
FULL(seqpacket, writev, in_writev, 3)
FULL(stream, send, in_send, 3)
FULL(dgram, send, in_send, 3)
FULL(stream, sendto, in_sendto, 3)
FULL(dgram, sendto, in_sendto, 3)
FULL(stream, sendmsg, in_sendmsg, 3)
FULL(dgram, sendmmsg, in_sendmmsg, 2)
FULL(seqpacket, sendmmsg, in_sendmmsg, 2)

/* Of tcp, what was sent moves on to the receiver for a while, so that none is full for sure:
 * these send more than both buffers hold. */
enum { BIG = 1 << 20 };
static char big[BIG];

static void opens_narrow_tcp(struct wait *w)
{
	int narrow = 65536;
	FILE *file = tmpfile();

	opens_tcp(w);
	EXPECT_EQ(setsockopt(w->fd[1], SOL_SOCKET, SO_SNDBUF, &narrow, sizeof(narrow)), 0);
	EXPECT_EQ(setsockopt(w->fd[0], SOL_SOCKET, SO_RCVBUF, &narrow, sizeof(narrow)), 0);
	EXPECT(file != NULL);
	w->more = fileno(file);
	EXPECT_EQ(ftruncate(w->more, BIG), 0);
}

static long in_big_write(struct wait *w)
{
	return write(w->fd[1], big, BIG);
}

static long in_big_send(struct wait *w)
{
	return send(w->fd[1], big, BIG, MSG_NOSIGNAL);
}

static long in_big_sendmsg(struct wait *w)
{
	struct iovec v[2] = { { big, BIG / 2 }, { big + BIG / 2, BIG / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	return sendmsg(w->fd[1], &m, 0);
}

static long in_big_writev(struct wait *w)
{
	struct iovec v[2] = { { big, BIG / 2 }, { big + BIG / 2, BIG / 2 } };

	return writev(w->fd[1], v, 2);
}

static long in_big_sendfile(struct wait *w)
{
	return sendfile(w->fd[1], w->more, NULL, BIG);
}

#define NARROW(name, fn)                                                                           \
	HOLDS_UP_NOBODY(name##_of_a_mib_tcp, .open = opens_narrow_tcp, .block = fn,                \
			.release = drains, .wants = BIG)

NARROW(write, in_big_write)
NARROW(writev, in_big_writev)
NARROW(send, in_big_send)
NARROW(sendmsg, in_big_sendmsg)
NARROW(sendfile, in_big_sendfile)

/* ---- connections ---- */

struct listener {
	struct sockaddr_un at;
	socklen_t len;
};

static int listens_unix(struct listener *l, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	*l = (struct listener){ .at.sun_family = AF_UNIX, .len = sizeof(l->at) };
	/* No name given: the kernel finds an abstract one. */
	EXPECT_EQ(bind(fd, (struct sockaddr *)&l->at, sizeof(sa_family_t)), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)&l->at, &l->len), 0);
	EXPECT_EQ(listen(fd, backlog), 0);
	return fd;
}

static void opens_unix_listener(struct wait *w)
{
	w->own = malloc(sizeof(struct listener));
	w->fd[0] = listens_unix(w->own, 4);
}

static void opens_tcp_listener(struct wait *w)
{
	w->own = malloc(sizeof(struct sockaddr_in));
	w->fd[0] = listens_tcp(w->own);
}

static void connects_unix(struct wait *w)
{
	struct listener *l = w->own;

	w->fd[1] = socket(AF_UNIX, SOCK_STREAM, 0);
	EXPECT_EQ(connect(w->fd[1], (struct sockaddr *)&l->at, l->len), 0);
}

static void connects_tcp(struct wait *w)
{
	w->fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(connect(w->fd[1], w->own, sizeof(struct sockaddr_in)), 0);
}

static long in_accept(struct wait *w)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	int fd = accept(w->fd[0], (struct sockaddr *)&from, &len);

	if (fd >= 0) {
		EXPECT_EQ(fcntl(fd, F_GETFL), O_RDWR);
		EXPECT_EQ(fcntl(fd, F_GETFD), 0);
	}
	return fd;
}

static long in_accept4(struct wait *w)
{
	int fd = accept4(w->fd[0], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		char c;
		EXPECT_EQ(fcntl(fd, F_GETFL), O_RDWR | O_NONBLOCK);
		EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		FAILS(read(fd, &c, 1), EAGAIN);
		errno = KEPT;
	}
	return fd;
}

BLOCKS(accept_unix, .open = opens_unix_listener, .block = in_accept, .release = connects_unix,
       .wants = ANY, .how = RESTARTS)
BLOCKS(accept_tcp, .open = opens_tcp_listener, .block = in_accept, .release = connects_tcp,
       .wants = ANY, .how = RESTARTS)
BLOCKS(accept4_tcp, .open = opens_tcp_listener, .block = in_accept4, .release = connects_tcp,
       .wants = ANY, .how = RESTARTS)
BLOCKS(accept4_unix, .open = opens_unix_listener, .block = in_accept4, .release = connects_unix,
       .wants = ANY, .how = RESTARTS)

static void opens_full_listener(struct wait *w)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct listener *l = w->own = malloc(sizeof(*l));

	w->fd[0] = listens_unix(l, 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&l->at, l->len), 0);
	w->more = fd;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connect(fd, (struct sockaddr *)&l->at, l->len), EAGAIN);
	close(fd);
	w->fd[1] = socket(AF_UNIX, SOCK_STREAM, 0);
}

static long in_connect(struct wait *w)
{
	struct listener *l = w->own;

	return connect(w->fd[1], (struct sockaddr *)&l->at, l->len);
}

static void accepts_one(struct wait *w)
{
	int fd = accept(w->fd[0], NULL, NULL);

	EXPECT(fd >= 0);
	EXPECT_EQ(close(fd), 0);
}

BLOCKS(connect_to_a_full_backlog, .open = opens_full_listener, .block = in_connect,
       .release = accepts_one, .wants = 0, .how = RESTARTS)

/* ---- by number, as some runtimes call ---- */

static long by_number_recvfrom(struct wait *w)
{
	char c[8];

	return syscall(SYS_recvfrom, w->fd[0], c, sizeof(c), 0, NULL, NULL);
}

static long by_number_accept4(struct wait *w)
{
	return syscall(SYS_accept4, w->fd[0], NULL, NULL, 0);
}

static long by_number_sendto(struct wait *w)
{
	return syscall(SYS_sendto, w->fd[1], "abc", 3, 0, NULL, 0);
}

BLOCKS_UNCANCELLED(SYS_recvfrom_, .open = opens_tcp, .block = by_number_recvfrom, .release = feeds,
		   .wants = 1, .how = RESTARTS)
BLOCKS_UNCANCELLED(SYS_accept4_, .open = opens_tcp_listener, .block = by_number_accept4,
		   .release = connects_tcp, .wants = ANY, .how = RESTARTS)
BLOCKS_UNCANCELLED(SYS_sendto_, .open = opens_full_stream, .block = by_number_sendto,
		   .release = drains, .wants = 3, .how = RESTARTS)

/* ---- a server and its clients ---- */

enum { CLIENTS = 16, ROUNDS = 50 };
static struct sockaddr_in server;

static void *echoes(void *arg)
{
	int fd = (int)(long)arg;
	char buf[64];
	ssize_t r;

	while ((r = recv(fd, buf, sizeof(buf), 0)) > 0)
		EXPECT_EQ(send(fd, buf, (size_t)r, 0), r);
	EXPECT_EQ(r, 0);
	EXPECT_EQ(close(fd), 0);
	return NULL;
}

static void *accepts(void *arg)
{
	static pthread_t t[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		int fd = accept((int)(long)arg, NULL, NULL);
		EXPECT(fd >= 0);
		EXPECT_EQ(pthread_create(&t[i], NULL, echoes, (void *)(long)fd), 0);
	}
	join(t, CLIENTS);
	return NULL;
}

static void *asks(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char buf[24], back[24];

	EXPECT_EQ(connect(fd, (struct sockaddr *)&server, sizeof(server)), 0);
	for (int i = 0; i < ROUNDS; i++) {
		size_t n = (size_t)snprintf(buf, sizeof(buf), "%ld:%d", (long)arg, i);
		EXPECT_EQ(send(fd, buf, n, 0), n);
		EXPECT_EQ(recv(fd, back, n, MSG_WAITALL), n);
		EXPECT(memcmp(buf, back, n) == 0);
	}
	EXPECT_EQ(close(fd), 0);
	return NULL;
}

TEST(a_thread_for_each_connection_serves_them_all)
{
	int l = listens_tcp(&server);
	pthread_t t[CLIENTS], s;

	EXPECT_EQ(pthread_create(&s, NULL, accepts, (void *)(long)l), 0);
	start_numbered(t, CLIENTS, asks);
	join(t, CLIENTS);
	EXPECT_EQ(pthread_join(s, NULL), 0);
}

/* One listener, several that accept: each connection goes to one of them. */
static _Atomic int accepted;

static void *accepts_until_shut(void *arg)
{
	int fd;

	while ((fd = accept((int)(long)arg, NULL, NULL)) >= 0) {
		atomic_fetch_add(&accepted, 1);
		EXPECT_EQ(close(fd), 0);
	}
	EXPECT_EQ(errno, EINVAL);
	return NULL;
}

TEST(several_accepters_share_a_listener_and_shutdown_wakes_them_all)
{
	int l = listens_tcp(&server);
	pthread_t t[6];

	start(t, 6, accepts_until_shut, (void *)(long)l);
	for (int i = 0; i < 60; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char c;
		EXPECT_EQ(connect(fd, (struct sockaddr *)&server, sizeof(server)), 0);
		EXPECT_EQ(recv(fd, &c, 1, 0), 0);
		EXPECT_EQ(close(fd), 0);
	}
	EXPECT_EQ(accepted, 60);
	settle();
	EXPECT_EQ(shutdown(l, SHUT_RD), 0);
	join(t, 6);
}

TEST(connect_says_at_once_that_nobody_listens)
{
	struct sockaddr_in at;
	struct listener un;
	int l = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	int u = listens_unix(&un, 1), error;
	socklen_t len = sizeof(error);
	struct pollfd p;
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	/* Bound, so that no other process listens there. */
	own_address(l, &at);
	FAILS(connect(fd, (struct sockaddr *)&at, sizeof(at)), ECONNREFUSED);
	EXPECT_EQ(close(l), 0);
	EXPECT_EQ(close(u), 0);
	u = socket(AF_UNIX, SOCK_STREAM, 0);
	FAILS(connect(u, (struct sockaddr *)&un.at, un.len), ECONNREFUSED);
	EXPECT_EQ(close(fd), 0);
	FAILS(connect(fd, (struct sockaddr *)&at, sizeof(at)), EBADF);
	FAILS(connect(u, (struct sockaddr *)&at, sizeof(at)), EINVAL);

	/* Told not to wait, it goes on by itself. */
	l = listens_tcp(&at);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	error = connect(fd, (struct sockaddr *)&at, sizeof(at));
	EXPECT(error == 0 || errno == EINPROGRESS);
	p = (struct pollfd){ .fd = fd, .events = POLLOUT };
	EXPECT_EQ(poll(&p, 1, -1), 1);
	EXPECT_EQ(p.revents, POLLOUT);
	EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	EXPECT_EQ(error, 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
