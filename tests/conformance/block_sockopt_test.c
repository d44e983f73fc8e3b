/* What sockets mean to those who block on them: time limits, flags of one call, nothing to
 * send, the ends of a connection. The same holds natively. */
#include "pair.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

static int ends[2];

static void udp_pair(int fd[2])
{
	struct sockaddr_in at;

	fd[0] = socket(AF_INET, SOCK_DGRAM, 0);
	fd[1] = socket(AF_INET, SOCK_DGRAM, 0);
	own_address(fd[0], &at);
	EXPECT_EQ(connect(fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
}

static void unix_pair(int type, int fd[2])
{
	EXPECT_EQ(socketpair(AF_UNIX, type, 0, fd), 0);
}

/* ---- SO_RCVTIMEO and SO_SNDTIMEO ---- */

static void limit(int fd, int which, int ms)
{
	struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	EXPECT_EQ(setsockopt(fd, SOL_SOCKET, which, &t, sizeof(t)), 0);
}

/* The kernel counts these times in ticks, of which the first may be nearly over. */
#define TAKES_TICKS(ms, ...) TAKES_ABOUT(ms, 12, __VA_ARGS__)

static void *is_limited_in_receiving(void *arg)
{
	int fd[2], twin;
	char c[8];
	struct iovec v = { c, sizeof(c) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

	for (int kind = 0; kind < 4; kind++) {
		switch (kind) {
		case 0:
			tcp_pair(fd);
			break;
		case 1:
			udp_pair(fd);
			break;
		case 2:
			unix_pair(SOCK_STREAM, fd);
			break;
		default:
			unix_pair(SOCK_DGRAM, fd);
		}
		limit(fd[0], SO_RCVTIMEO, 20);
		TAKES_TICKS(20, FAILS(recv(fd[0], c, 8, 0), EAGAIN));
		TAKES_TICKS(20, FAILS(read(fd[0], c, 8), EAGAIN));
		TAKES_TICKS(20, FAILS(recvmsg(fd[0], &m, 0), EAGAIN));
		TAKES_TICKS(20, FAILS(readv(fd[0], &v, 1), EAGAIN));
		TAKES_TICKS(20, FAILS(recvmmsg(fd[0], &mm, 1, 0, NULL), EAGAIN));
		FAILS(recv(fd[0], c, 8, MSG_DONTWAIT), EAGAIN);
		/* By another name for it. */
		twin = dup(fd[0]);
		limit(twin, SO_RCVTIMEO, 40);
		TAKES_TICKS(40, FAILS(recv(fd[0], c, 8, 0), EAGAIN));
		EXPECT_EQ(send(fd[1], "x", 1, 0), 1);
		EXPECT_EQ(recv(twin, c, 8, 0), 1);
		/* Of several wanted, those that came before the time was over. */
		if (kind == 0 || kind == 2) {
			EXPECT_EQ(send(fd[1], "abc", 3, 0), 3);
			TAKES_TICKS(40, EXPECT_EQ(recv(fd[0], c, 8, MSG_WAITALL), 3));
		}
		close(twin);
		close(fd[0]);
		close(fd[1]);
	}
	return arg;
}

TEST(a_receive_is_over_after_SO_RCVTIMEO)
{
	in_threads(2, is_limited_in_receiving);
}

static void *is_limited_in_sending(void *arg)
{
	static const char big[1 << 20];
	int fd[2], twin;

	for (int kind = 0; kind < 3; kind++) {
		long r;
		switch (kind) {
		case 0:
			tcp_pair(fd);
			break;
		case 1:
			unix_pair(SOCK_STREAM, fd);
			break;
		default:
			unix_pair(SOCK_SEQPACKET, fd);
		}
		int small = 4608;
		EXPECT_EQ(setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		EXPECT_EQ(setsockopt(fd[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
		twin = dup(fd[1]);
		limit(twin, SO_SNDTIMEO, 30);
		/* What goes in before the time is over is counted. */
		if (kind != 2) {
			TAKES_TICKS(30, r = send(fd[1], big, sizeof(big), 0));
			EXPECT(r > 0 && r < (long)sizeof(big));
		}
		/* Of tcp, room comes back with what the kernel acknowledges by itself; that no
		 * more will come only time tells. */
		for (int quiet = 0; quiet < 3; quiet++) {
			if (fill(fd[1]) > 0)
				quiet = 0;
			usleep(500);
		}
		TAKES_TICKS(30, FAILS(send(fd[1], "x", 1, 0), EAGAIN));
		TAKES_TICKS(30, FAILS(write(fd[1], "x", 1), EAGAIN));
		FAILS(send(fd[1], "x", 1, MSG_DONTWAIT), EAGAIN);
		close(twin);
		close(fd[0]);
		close(fd[1]);
	}
	return arg;
}

TEST(a_send_is_over_after_SO_SNDTIMEO)
{
	in_threads(2, is_limited_in_sending);
}

static void *is_limited_in_accepting(void *arg)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(at);
	int l = socket(AF_UNIX, SOCK_STREAM, 0), a, b;

	EXPECT_EQ(bind(l, (struct sockaddr *)&at, sizeof(sa_family_t)), 0);
	EXPECT_EQ(getsockname(l, (struct sockaddr *)&at, &len), 0);
	EXPECT_EQ(listen(l, 0), 0);
	limit(l, SO_RCVTIMEO, 30);
	TAKES_TICKS(30, FAILS(accept(l, NULL, NULL), EAGAIN));
	TAKES_TICKS(30, FAILS(accept4(l, NULL, NULL, 0), EAGAIN));
	/* And in connecting, where nobody accepts. */
	a = socket(AF_UNIX, SOCK_STREAM, 0);
	b = socket(AF_UNIX, SOCK_STREAM, 0);
	EXPECT_EQ(connect(a, (struct sockaddr *)&at, len), 0);
	limit(b, SO_SNDTIMEO, 30);
	TAKES_TICKS(30, FAILS(connect(b, (struct sockaddr *)&at, len), EAGAIN));
	close(a);
	close(b);
	close(l);
	return arg;
}

TEST(an_accept_and_a_connect_are_over_after_their_time)
{
	in_threads(2, is_limited_in_accepting);
}

/* With a time limit, signal(7) says, no receive goes on after a handler. */
static void *receives_limited(void *arg)
{
	char c;

	tick(&entered);
	FAILS(recv(ends[0], &c, 1, 0), EINTR);
	tick(&returned);
	return arg;
}

TEST(a_receive_with_a_time_limit_is_interrupted_even_under_SA_RESTART)
{
	pthread_t t;

	handle(SIGUSR1, SA_RESTART);
	unix_pair(SOCK_STREAM, ends);
	limit(ends[0], SO_RCVTIMEO, 20000);
	EXPECT_EQ(pthread_create(&t, NULL, receives_limited, NULL), 0);
	await(&entered, 1);
	interrupt(t, SIGUSR1, &returned, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* recvmmsg's own time is looked at after each message. */
static void *receives_several(void *arg)
{
	struct timespec t = { .tv_nsec = 20 * MS };
	char c[3];
	struct iovec v[3] = { { c, 1 }, { c + 1, 1 }, { c + 2, 1 } };
	struct mmsghdr m[3];
	int fd[2];

	udp_pair(fd);
	memset(m, 0, sizeof(m));
	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
		EXPECT_EQ(send(fd[1], &"abc"[i], 1, 0), 1);
	}
	EXPECT_EQ(recvmmsg(fd[0], m, 3, 0, &t), 3);
	EXPECT(memcmp(c, "abc", 3) == 0);
	EXPECT_EQ(send(fd[1], "d", 1, 0), 1);
	EXPECT_EQ(recvmmsg(fd[0], m, 3, MSG_WAITFORONE, NULL), 1);
	EXPECT_EQ(c[0], 'd');
	EXPECT_EQ(recvmmsg(fd[0], m, 0, 0, NULL), 0);
	FAILS(recvmmsg(fd[0], m, 3, MSG_DONTWAIT, NULL), EAGAIN);
	t.tv_nsec = -1;
	FAILS(recvmmsg(fd[0], m, 3, 0, &t), EINVAL);
	close(fd[0]);
	close(fd[1]);
	return arg;
}

TEST(recvmmsg_gives_what_is_there)
{
	in_threads(2, receives_several);
}

/* ---- flags of one call, flags of the descriptor ---- */

static void *does_not_wait(void *arg)
{
	int fd[2], twin, on = 1, flags;
	char c[4] = "";
	struct iovec v = { c, 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	unix_pair(SOCK_STREAM, fd);
	FAILS(recv(fd[0], c, 4, MSG_DONTWAIT), EAGAIN);
	FAILS(recvmsg(fd[0], &m, MSG_DONTWAIT), EAGAIN);
	FAILS(recvfrom(fd[0], c, 4, MSG_DONTWAIT | MSG_PEEK, NULL, NULL), EAGAIN);
	EXPECT_EQ(recv(fd[0], c, 0, MSG_DONTWAIT), -1);
	fill(fd[1]);
	FAILS(send(fd[1], c, 4, MSG_DONTWAIT), EAGAIN);
	FAILS(sendmsg(fd[1], &m, MSG_DONTWAIT), EAGAIN);
	drain(fd[0]);

	flags = fcntl(fd[0], F_GETFL);
	EXPECT_EQ(flags, O_RDWR);
	twin = dup(fd[0]);
	EXPECT_EQ(ioctl(twin, FIONBIO, &on), 0);
	EXPECT_EQ(fcntl(fd[0], F_GETFL), O_RDWR | O_NONBLOCK);
	FAILS(read(fd[0], c, 4), EAGAIN);
	FAILS(recv(fd[0], c, 4, 0), EAGAIN);
	FAILS(recv(fd[0], c, 4, MSG_WAITALL), EAGAIN);
	EXPECT_EQ(send(fd[1], "ab", 2, 0), 2);
	EXPECT_EQ(recv(fd[0], c, 4, MSG_WAITALL), 2);
	nonblocking(fd[0], false);
	EXPECT_EQ(fcntl(twin, F_GETFL), O_RDWR);

	/* What one looks at is there still. */
	EXPECT_EQ(send(fd[1], "cd", 2, 0), 2);
	EXPECT_EQ(recv(fd[0], c, 4, MSG_PEEK), 2);
	EXPECT_EQ(recv(fd[0], c, 1, MSG_PEEK), 1);
	EXPECT_EQ(c[0], 'c');
	EXPECT_EQ(recv(fd[0], c, 4, 0), 2);
	EXPECT(memcmp(c, "cd", 2) == 0);
	close(twin);
	close(fd[0]);
	close(fd[1]);
	return arg;
}

TEST(flags_of_a_call_and_of_a_descriptor_refuse_at_once)
{
	in_threads(2, does_not_wait);
}

/* ---- datagrams, also of length 0 ---- */

static void *sends_datagrams(void *arg)
{
	int fd[2];
	char c[8];

	for (int kind = 0; kind < 2; kind++) {
		struct iovec v = { c, 2 };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
		if (kind == 0)
			udp_pair(fd);
		else
			unix_pair(SOCK_DGRAM, fd);
		EXPECT_EQ(send(fd[1], NULL, 0, 0), 0);
		EXPECT_EQ(send(fd[1], "abcd", 4, 0), 4);
		EXPECT_EQ(write(fd[1], "", 0), 0);
		EXPECT_EQ(send(fd[1], "efgh", 4, 0), 4);
		EXPECT_EQ(send(fd[1], "ijkl", 4, 0), 4);
		EXPECT_EQ(recv(fd[0], c, 8, 0), 0);
		EXPECT_EQ(recv(fd[0], c, 8, MSG_PEEK), 4);
		/* Reading a part of one throws the rest of it away. */
		EXPECT_EQ(recvmsg(fd[0], &m, 0), 2);
		EXPECT_EQ(m.msg_flags & MSG_TRUNC, MSG_TRUNC);
		EXPECT(memcmp(c, "ab", 2) == 0);
		EXPECT_EQ(read(fd[0], c, 8), 0);
		EXPECT_EQ(recv(fd[0], c, 1, MSG_TRUNC), 4);
		/* Asking for nothing takes one too. */
		EXPECT_EQ(recv(fd[0], c, 0, 0), 0);
		FAILS(recv(fd[0], c, 8, MSG_DONTWAIT), EAGAIN);
		close(fd[0]);
		close(fd[1]);
	}
	unix_pair(SOCK_SEQPACKET, fd);
	EXPECT_EQ(send(fd[1], "abcd", 4, 0), 4);
	EXPECT_EQ(send(fd[1], "ef", 2, 0), 2);
	EXPECT_EQ(recv(fd[0], c, 1, 0), 1);
	EXPECT_EQ(recv(fd[0], c, 8, MSG_WAITALL), 2);
	close(fd[1]);
	EXPECT_EQ(recv(fd[0], c, 8, 0), 0);
	close(fd[0]);
	return arg;
}

TEST(datagrams_keep_their_bounds_and_may_be_empty)
{
	in_threads(2, sends_datagrams);
}

static void *receives_an_empty_one(void *arg)
{
	char c[8];

	tick(&entered);
	errno = KEPT;
	EXPECT_EQ(recv(ends[0], c, arg ? 8 : 0, 0), 0);
	EXPECT_EQ(errno, KEPT);
	tick(&returned);
	return NULL;
}

/* On a datagram socket even a receive of no bytes waits for a message. */
TEST(a_receive_of_nothing_waits_for_a_datagram)
{
	pthread_t t[4];

	udp_pair(ends);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, receives_an_empty_one, i % 2 ? ends : NULL),
			  0);
	await(&entered, 4);
	settle();
	EXPECT_EQ(returned.n, 0);
	for (int i = 1; i <= 4; i++) {
		EXPECT_EQ(send(ends[1], "", 0, 0), 0);
		await(&returned, i);
	}
	join(t, 4);
}

static _Atomic int taken[200];
static struct event alltaken;

static void *takes_messages(void *arg)
{
	int n;

	while (recv(ends[0], &n, sizeof(n), 0) == sizeof(n) && n >= 0) {
		atomic_fetch_add(&taken[n], 1);
		tick(&alltaken);
	}
	return arg;
}

static void each_gets_one(int type)
{
	pthread_t t[WAITERS];
	int end = -1;

	unix_pair(type, ends);
	start(t, WAITERS, takes_messages, NULL);
	for (int i = 0; i < 200; i++) {
		EXPECT_EQ(send(ends[1], &i, sizeof(i), 0), sizeof(i));
		if (i % 20 == 0)
			await(&alltaken, i + 1);
	}
	await(&alltaken, 200);
	for (int i = 0; i < 200; i++)
		EXPECT_EQ(taken[i], 1);
	for (int i = 0; i < WAITERS; i++)
		EXPECT_EQ(send(ends[1], &end, sizeof(end), 0), sizeof(end));
	join(t, WAITERS);
	FAILS(recv(ends[0], &end, sizeof(end), MSG_DONTWAIT), EAGAIN);
}

TEST(of_many_receivers_each_datagram_goes_to_one)
{
	each_gets_one(SOCK_DGRAM);
}

TEST(of_many_receivers_each_packet_goes_to_one)
{
	each_gets_one(SOCK_SEQPACKET);
}

/* ---- the ends of a connection ---- */

static void *receives_the_end(void *arg)
{
	char c;

	tick(&entered);
	EXPECT_EQ(recv(ends[0], &c, 1, 0), 0);
	tick(&returned);
	return arg;
}

static void shutdown_wakes(void)
{
	pthread_t t[4];
	char c;

	entered.n = returned.n = 0;
	start(t, 4, receives_the_end, NULL);
	await(&entered, 4);
	settle();
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(shutdown(ends[0], SHUT_RD), 0);
	join(t, 4);
	EXPECT_EQ(recv(ends[0], &c, 1, 0), 0);
}

TEST(shutdown_wakes_those_who_read)
{
	unix_pair(SOCK_STREAM, ends);
	shutdown_wakes();
	tcp_pair(ends);
	shutdown_wakes();
}

TEST(the_other_end_wakes_those_who_read_by_going_away)
{
	for (int how = 0; how < 4; how++) {
		pthread_t t[3];
		if (how % 2)
			tcp_pair(ends);
		else
			unix_pair(SOCK_SEQPACKET, ends);
		entered.n = 0;
		start(t, 3, receives_the_end, NULL);
		await(&entered, 3);
		settle();
		if (how < 2)
			EXPECT_EQ(shutdown(ends[1], SHUT_WR), 0);
		else
			EXPECT_EQ(close(ends[1]), 0);
		join(t, 3);
		EXPECT_EQ(close(ends[0]), 0);
	}
}

static void *sends_until_broken(void *arg)
{
	static const char big[1 << 16];

	tick(&entered);
	while (send(ends[1], big, sizeof(big), arg ? MSG_NOSIGNAL : 0) > 0)
		;
	EXPECT(errno == EPIPE || errno == ECONNRESET);
	tick(&returned);
	return NULL;
}

TEST(a_sender_learns_that_the_other_end_is_gone)
{
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		handle(SIGPIPE, SA_RESTART);
		handled.n = entered.n = 0;
		unix_pair(SOCK_STREAM, ends);
		EXPECT_EQ(pthread_create(&t, NULL, sends_until_broken, i ? ends : NULL), 0);
		await(&entered, 1);
		settle();
		if (i < 2)
			EXPECT_EQ(close(ends[0]), 0);
		else
			EXPECT_EQ(shutdown(ends[1], SHUT_WR), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		EXPECT_EQ(handled.n, i == 0);
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* Both ways at once on one socket: readers and writers do not stand in each other's way. */
enum { BYTES = 1 << 19 };

static void *pours(void *arg)
{
	static const char junk[8000];

	for (int left = BYTES; left > 0;) {
		size_t n = left < (int)sizeof(junk) ? (size_t)left : sizeof(junk);
		EXPECT_EQ(send((int)(long)arg, junk, n, 0), n);
		left -= (int)n;
	}
	return NULL;
}

static void *drinks(void *arg)
{
	char buf[5000];

	for (int left = BYTES; left > 0;) {
		size_t n = left < (int)sizeof(buf) ? (size_t)left : sizeof(buf);
		ssize_t r = recv((int)(long)arg, buf, n, 0);
		EXPECT(r > 0);
		left -= (int)r;
	}
	return NULL;
}

static void both_ways(void)
{
	pthread_t t[4];

	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(pthread_create(&t[i], NULL, pours, (void *)(long)ends[i]), 0);
		EXPECT_EQ(pthread_create(&t[2 + i], NULL, drinks, (void *)(long)ends[i]), 0);
	}
	join(t, 4);
	close(ends[0]);
	close(ends[1]);
}

TEST(a_socket_is_read_and_written_at_once)
{
	tcp_pair(ends);
	both_ways();
	unix_pair(SOCK_STREAM, ends);
	both_ways();
}

/* ---- descriptors passed along ---- */

static void *passes_descriptors(void *arg)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char c = 'f';
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	for (int i = 0; i < 20; i++) {
		int p[2];
		EXPECT_EQ(pipe(p), 0);
		memset(&control, 0, sizeof(control));
		control.h.cmsg_len = CMSG_LEN(sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.h), &p[0], sizeof(int));
		EXPECT_EQ(sendmsg(ends[1], &m, 0), 1);
		EXPECT_EQ(close(p[0]), 0);
		EXPECT_EQ(write(p[1], &i, sizeof(i)), sizeof(i));
		EXPECT_EQ(close(p[1]), 0);
	}
	return arg;
}

TEST(a_descriptor_comes_through_a_socket_that_one_waits_on)
{
	pthread_t t;

	unix_pair(SOCK_STREAM, ends);
	EXPECT_EQ(pthread_create(&t, NULL, passes_descriptors, NULL), 0);
	for (int i = 0; i < 20; i++) {
		union {
			struct cmsghdr h;
			char room[CMSG_SPACE(sizeof(int))];
		} control;
		char c;
		struct iovec v = { &c, 1 };
		struct msghdr m = { .msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control) };
		int fd, n;
		EXPECT_EQ(recvmsg(ends[0], &m, MSG_CMSG_CLOEXEC), 1);
		EXPECT_EQ(control.h.cmsg_type, SCM_RIGHTS);
		memcpy(&fd, CMSG_DATA(&control.h), sizeof(int));
		EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		read_all(fd, &n, sizeof(n));
		EXPECT_EQ(n, i);
		EXPECT_EQ(read(fd, &c, 1), 0);
		EXPECT_EQ(close(fd), 0);
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
