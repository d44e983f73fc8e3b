/* What the kernel says to those who block on sockets when it is over, and to those whom it does not
 * let wait. The same holds natively. */
#include "pair.h"

#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>

static int ends[2];

static void pair_of(int domain, int fd[2])
{
	int narrow = domain == AF_UNIX ? 4608 : 65536;

	if (domain == AF_UNIX)
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	else
		tcp_pair(fd);
	EXPECT_EQ(setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &narrow, sizeof(narrow)), 0);
	EXPECT_EQ(setsockopt(fd[0], SOL_SOCKET, SO_RCVBUF, &narrow, sizeof(narrow)), 0);
}

/* ---- the other end goes away while one waits for room ---- */

enum { BIG = 8 << 20 };
static char big[BIG];
static long sent;
static int failure, whole;

static void *sends(void *how)
{
	size_t n = whole ? 3 : BIG;
	struct iovec v[2] = { { big, n / 2 }, { big, n - n / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct mmsghdr mm = { .msg_hdr = m };

	switch ((long)how) {
	case 0:
		sent = write(ends[1], big, n);
		break;
	case 1:
		sent = writev(ends[1], v, 2);
		break;
	case 2:
		sent = send(ends[1], big, n, 0);
		break;
	case 3:
		sent = sendmsg(ends[1], &m, 0);
		break;
	default:
		sent = sendmmsg(ends[1], &mm, 1, 0);
	}
	failure = errno;
	return NULL;
}

/* A thread waits for room in this call; then it has none. */
static void waits_for_room(long how, int domain, void (*goes)(void))
{
	pthread_t t;

	pair_of(domain, ends);
	if (whole)
		fill(ends[1]);
	start(&t, 1, sends, (void *)how);
	settle();
	goes();
	join(&t, 1);
	EXPECT_EQ(handled.n, 0);
}

static void closes(void)
{
	EXPECT_EQ(close(ends[0]), 0);
}

static void reads_no_more(void)
{
	EXPECT_EQ(shutdown(ends[0], SHUT_RD), 0);
}

static void writes_no_more(void)
{
	EXPECT_EQ(shutdown(ends[1], SHUT_WR), 0);
}

/* It learns the socket's error, which then is gone; and no signal comes, as it does to those who
 * only then begin. */
TEST(who_waits_for_room_learns_why_there_will_be_none)
{
	char c;

	handle(SIGPIPE, SA_RESTART);
	whole = true;
	for (long how = 0; how < 5; how++) {
		waits_for_room(how, AF_UNIX, closes);
		EXPECT_EQ(sent, -1);
		EXPECT_EQ(failure, ECONNRESET);
		EXPECT_EQ(recv(ends[1], &c, 1, 0), 0);
		FAILS(send(ends[1], &c, 1, 0), EPIPE);
		EXPECT_EQ(handled.n, 1);
		handled.n = 0;
		EXPECT_EQ(close(ends[1]), 0);

		waits_for_room(how, AF_UNIX, reads_no_more);
		EXPECT_EQ(sent, -1);
		EXPECT_EQ(failure, EPIPE);
		EXPECT_EQ(close(ends[0]), 0);
		EXPECT_EQ(close(ends[1]), 0);

		waits_for_room(how, AF_UNIX, writes_no_more);
		EXPECT_EQ(sent, -1);
		EXPECT_EQ(failure, EPIPE);
		EXPECT_EQ(close(ends[0]), 0);
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* What went counts. Of a local stream the error is gone with it; of tcp it is the next call's. */
TEST(of_what_is_sent_in_part_the_part_counts)
{
	char c;

	handle(SIGPIPE, SA_RESTART);
	for (long how = 0; how < 4; how++) {
		waits_for_room(how, AF_UNIX, closes);
		EXPECT(sent > 0 && sent < BIG);
		EXPECT_EQ(recv(ends[1], &c, 1, 0), 0);
		EXPECT_EQ(close(ends[1]), 0);

		waits_for_room(how, AF_INET, closes);
		EXPECT(sent > 0 && sent < BIG);
		FAILS(recv(ends[1], &c, 1, 0), ECONNRESET);
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* ---- refused at once ---- */

static void *is_refused(void *arg)
{
	struct iovec v = { big, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	int fd[2], l = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_UNIX, SOCK_STREAM, 0);

	EXPECT_EQ(pipe(fd), 0);
	FAILS(recv(fd[0], big, 1, MSG_WAITALL), ENOTSOCK);
	FAILS(recvmsg(fd[0], &m.msg_hdr, MSG_WAITALL), ENOTSOCK);
	FAILS(recvmmsg(fd[0], &m, 1, 0, NULL), ENOTSOCK);
	EXPECT_EQ(close(fd[0]), 0);
	EXPECT_EQ(close(fd[1]), 0);

	EXPECT_EQ(listen(l, 1), 0);
	FAILS(recv(l, big, 1, MSG_WAITALL), ENOTCONN);
	FAILS(recvmmsg(l, &m, 1, 0, NULL), ENOTCONN);
	EXPECT_EQ(bind(u, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)), 0);
	EXPECT_EQ(listen(u, 1), 0);
	FAILS(recv(u, big, 1, MSG_WAITALL), EINVAL);
	EXPECT_EQ(close(l), 0);
	EXPECT_EQ(close(u), 0);

	pair_of(AF_UNIX, fd);
	FAILS(recvmsg(fd[0], nowhere, MSG_WAITALL), EFAULT);
	FAILS(recvmmsg(fd[0], nowhere, 1, 0, NULL), EFAULT);
	FAILS(recvmmsg(fd[0], &m, 1, 0, nowhere), EFAULT);
	m.msg_hdr.msg_iov = nowhere;
	FAILS(recvmsg(fd[0], &m.msg_hdr, MSG_WAITALL), EFAULT);
	m.msg_hdr.msg_iovlen = 100000;
	FAILS(recvmmsg(fd[0], &m, 1, 0, NULL), EMSGSIZE);
	EXPECT_EQ(close(fd[0]), 0);
	EXPECT_EQ(close(fd[1]), 0);
	return arg;
}

TEST(what_is_refused_is_not_waited_for)
{
	in_threads(2, is_refused);
}

/* ---- recvmmsg's time ---- */

static struct timespec left;

static void *receives_two(void *arg)
{
	char c[2];
	struct iovec v[2] = { { c, 1 }, { c + 1, 1 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };

	return (void *)(long)recvmmsg(*(int *)arg, m, 2, 0, &left);
}

/* It counts from the call on, and is looked at after each message. */
TEST(the_time_of_recvmmsg_counts_before_the_first_message)
{
	pthread_t t;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	left.tv_nsec = 1 * MS;
	start(&t, 1, receives_two, &ends[0]);
	settle();
	usleep(5000);
	EXPECT_EQ(send(ends[1], "a", 1, 0), 1);
	EXPECT_EQ(result_of(t), 1);
	EXPECT_EQ(left.tv_sec, 0);
	EXPECT_EQ(left.tv_nsec, 0);

	left = (struct timespec){ 3000, 0 };
	start(&t, 1, receives_two, &ends[0]);
	settle();
	usleep(5000);
	EXPECT_EQ(send(ends[1], "ab", 2, 0), 2);
	EXPECT_EQ(send(ends[1], "cd", 2, 0), 2);
	EXPECT_EQ(result_of(t), 2);
	EXPECT(left.tv_sec < 3000 && left.tv_nsec > 0);
}

/* ---- errors that nobody takes ---- */

static void *receives(void *arg)
{
	char c;

	tick(&entered);
	EXPECT_EQ(recv(*(int *)arg, &c, 1, 0), 1);
	return NULL;
}

/* A poll is over at once, and the call is not. */
TEST(who_receives_sleeps_beside_a_queue_of_errors)
{
	struct sockaddr_in at, none;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), gone = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	pthread_t t;
	char c;

	own_address(fd, &at);
	/* That one hears nobody but itself, and nobody else gets the port. */
	own_address(gone, &none);
	EXPECT_EQ(connect(gone, (struct sockaddr *)&none, sizeof(none)), 0);
	EXPECT_EQ(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)), 0);
	EXPECT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&none, sizeof(none)), 1);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	FAILS(recv(fd, &c, 1, 0), ECONNREFUSED);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	EXPECT_EQ(p.revents, POLLERR);
	start(&t, 1, receives, &fd);
	await(&entered, 1);
	settle();
	EXPECT_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
	join(&t, 1);
}

/* ---- handlers ---- */

static long (*sends_much)(void);
static char much[1 << 20];

static long in_send(void)
{
	return send(ends[1], much, sizeof(much), 0);
}

static long in_write(void)
{
	return write(ends[1], much, sizeof(much));
}

static long in_writev(void)
{
	struct iovec v = { much, sizeof(much) };

	return writev(ends[1], &v, 1);
}

static long in_sendmsg(void)
{
	struct iovec v = { much, sizeof(much) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return sendmsg(ends[1], &m, 0);
}

static void *sends_a_part(void *arg)
{
	long r = sends_much();

	EXPECT(r > 0 && r < (long)sizeof(much));
	return arg;
}

/* One signal is enough, sent when a part has gone. */
TEST(a_handler_that_comes_with_the_first_part_is_not_missed)
{
	static long (*const ways[])(void) = { in_send, in_write, in_writev, in_sendmsg };

	handle(SIGUSR1, SA_RESTART);
	for (int i = 0; i < 200; i++) {
		pthread_t t;
		int n = 0;
		sends_much = ways[i % 4];
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		start(&t, 1, sends_a_part, NULL);
		while (n == 0)
			EXPECT_EQ(ioctl(ends[0], FIONREAD, &n), 0);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		EXPECT_EQ(close(ends[0]), 0);
		EXPECT_EQ(close(ends[1]), 0);
	}
}
