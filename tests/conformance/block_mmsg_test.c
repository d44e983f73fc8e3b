/* Several messages by one call: each is sent whole, and waited for as by itself; what ends the
 * call in the midst leaves a count. The same holds natively. */
#include "pair.h"

#include <netinet/in.h>
#include <sys/uio.h>

enum { PART = 100000, PARTS = 3 };
static char parts[PART], came[PARTS * PART];
static struct mmsghdr m[PARTS];
static struct iovec v[PARTS];
static int ends[2];

static void prepare(void)
{
	memset(m, 0, sizeof(m));
	for (int i = 0; i < PART; i++)
		parts[i] = (char)(i * 7 + i / 251);
	for (int i = 0; i < PARTS; i++) {
		v[i] = (struct iovec){ parts, PART };
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
}

/* All of it is more than both buffers hold, and one message too. */
static void opens(bool tcp)
{
	int size = 16384;

	prepare();
	if (tcp)
		tcp_pair(ends);
	else
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
}

static void closes(void)
{
	EXPECT_EQ(close(ends[0]), 0);
	EXPECT_EQ(close(ends[1]), 0);
}

static void *sends(void *arg)
{
	long r;

	(void)arg;
	tick(&entered);
	errno = KEPT;
	r = sendmmsg(ends[1], m, PARTS, 0);
	EXPECT(r < 0 || errno == KEPT);
	tick(&returned);
	return (void *)r;
}

static pthread_t sends_until_full(void)
{
	pthread_t t;

	entered.n = returned.n = 0;
	start(&t, 1, sends, NULL);
	await(&entered, 1);
	settle();
	EXPECT_EQ(returned.n, 0);
	return t;
}

TEST(each_of_several_messages_on_a_stream_is_sent_whole)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		opens(i);
		t = sends_until_full();
		read_all(ends[0], came, sizeof(came));
		EXPECT_EQ(result_of(t), PARTS);
		for (int k = 0; k < PARTS; k++) {
			EXPECT_EQ(m[k].msg_len, PART);
			EXPECT(memcmp(came + k * PART, parts, PART) == 0);
		}
		EXPECT_EQ(drain(ends[0]), 0);
		closes();
	}
}

TEST(a_handler_ends_it_with_what_is_sent)
{
	for (int i = 0; i < 4; i++) {
		pthread_t t;
		handle(SIGUSR1, i < 2 ? 0 : SA_RESTART);
		opens(i % 2);
		t = sends_until_full();
		/* One is gone, of the second a part. */
		read_all(ends[0], came, PART);
		settle();
		EXPECT_EQ(returned.n, 0);
		interrupt(t, SIGUSR1, &returned, 1);
		EXPECT_EQ(result_of(t), 2);
		EXPECT_EQ(m[0].msg_len, PART);
		EXPECT(m[1].msg_len > 0 && m[1].msg_len < PART);
		EXPECT_EQ(m[2].msg_len, 0);
		read_all(ends[0], came, m[1].msg_len);
		EXPECT(memcmp(came, parts, m[1].msg_len) == 0);
		FAILS(recv(ends[0], came, 1, MSG_DONTWAIT), EAGAIN);
		closes();
	}
}

/* ---- datagrams, of which as many go at once as there is room for ---- */

enum { GRAMS = 300 };
static struct mmsghdr gram[GRAMS];
static struct iovec one_byte = { parts, 1 };

static void *sends_grams(void *arg)
{
	tick(&entered);
	*(long *)arg = sendmmsg(ends[1], gram, GRAMS, 0);
	tick(&returned);
	return NULL;
}

TEST(a_handler_ends_datagrams_for_a_full_receiver_with_their_count)
{
	long sent = 0;
	pthread_t t;
	char c;

	handle(SIGUSR1, 0);
	for (int i = 0; i < GRAMS; i++)
		gram[i].msg_hdr = (struct msghdr){ .msg_iov = &one_byte, .msg_iovlen = 1 };
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
	start(&t, 1, sends_grams, &sent);
	await(&entered, 1);
	settle();
	EXPECT_EQ(returned.n, 0);
	/* Once: it does not begin to wait again. */
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	await(&returned, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT(sent > 0 && sent < GRAMS);
	for (long i = 0; i < sent; i++)
		EXPECT_EQ(recv(ends[0], &c, 1, MSG_DONTWAIT), 1);
	FAILS(recv(ends[0], &c, 1, MSG_DONTWAIT), EAGAIN);
	closes();
}

TEST(each_has_the_time_of_one)
{
	struct timeval limit = { .tv_usec = 50000 };

	for (int i = 0; i < 2; i++) {
		long since = now_ms();
		opens(i);
		EXPECT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
		EXPECT_EQ(sendmmsg(ends[1], m, PARTS, 0), 1);
		EXPECT(took(since, 38));
		EXPECT(m[0].msg_len > 0 && m[0].msg_len < PART);
		EXPECT_EQ(m[1].msg_len, 0);
		closes();
	}
}

TEST(an_error_behind_the_first_is_not_told)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	prepare();
	for (int i = 0; i < PARTS; i++)
		v[i].iov_len = 10;
	v[1].iov_base = nowhere;
	EXPECT_EQ(sendmmsg(ends[1], m, PARTS, 0), 1);
	EXPECT_EQ(m[0].msg_len, 10);
	FAILS(sendmmsg(ends[1], m + 1, 2, 0), EFAULT);
	FAILS(sendmmsg(ends[1], nowhere, 2, 0), EFAULT);
	FAILS(sendmmsg(-1, m, 2, 0), EBADF);
	EXPECT_EQ(sendmmsg(ends[1], nowhere, 0, 0), 0);
	EXPECT_EQ(recv(ends[0], came, sizeof(came), 0), 10);
	/* The peer goes away. */
	prepare();
	handle(SIGPIPE, SA_RESTART);
	closes();
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(close(ends[0]), 0);
	FAILS(sendmmsg(ends[1], m, PARTS, 0), EPIPE);
	EXPECT_EQ(handled.n, 1);
	FAILS(sendmmsg(ends[1], m, PARTS, MSG_NOSIGNAL), EPIPE);
	EXPECT_EQ(handled.n, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(the_peer_goes_away_after_a_part)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		opens(i);
		handle(SIGPIPE, SA_RESTART);
		t = sends_until_full();
		read_all(ends[0], came, PART);
		settle();
		EXPECT_EQ(close(ends[0]), 0);
		EXPECT_EQ(result_of(t), 2);
		EXPECT(m[1].msg_len > 0 && m[1].msg_len < PART);
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* ---- receiving ---- */

static void *receives(void *arg)
{
	static char room[PARTS][8];
	struct mmsghdr r[PARTS];
	struct iovec at[PARTS];

	memset(r, 0, sizeof(r));
	for (int i = 0; i < PARTS; i++) {
		at[i] = (struct iovec){ room[i], 8 };
		r[i].msg_hdr.msg_iov = &at[i];
		r[i].msg_hdr.msg_iovlen = 1;
	}
	tick(&entered);
	long n = recvmmsg(ends[0], r, PARTS, (int)(long)arg, NULL);
	if (n > 0)
		EXPECT(r[0].msg_len == 1 && room[0][0] == 'a');
	if (n > 1)
		EXPECT(r[1].msg_len == 2 && room[1][0] == 'b');
	tick(&returned);
	return (void *)n;
}

static void send_both(void)
{
	EXPECT_EQ(send(ends[1], "a", 1, 0), 1);
	EXPECT_EQ(send(ends[1], "bb", 2, 0), 2);
}

TEST(a_receive_of_several_waits_for_one_or_for_all)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
		entered.n = returned.n = 0;
		start(&t, 1, receives, (void *)(long)(i ? MSG_WAITFORONE : 0));
		await(&entered, 1);
		settle();
		EXPECT_EQ(send(ends[1], "a", 1, 0), 1);
		if (i == 0) {
			settle();
			EXPECT_EQ(returned.n, 0);
			EXPECT_EQ(send(ends[1], "bb", 2, 0), 2);
			settle();
			EXPECT_EQ(returned.n, 0);
			EXPECT_EQ(send(ends[1], "ccc", 3, 0), 3);
		}
		EXPECT_EQ(result_of(t), i ? 1 : 3);
		/* What is there is all taken. */
		send_both();
		start(&t, 1, receives, (void *)(long)MSG_WAITFORONE);
		EXPECT_EQ(result_of(t), 2);
		closes();
	}
}
