/* A call holds its file, and not the number, also while it has been woken and has yet to run: that
 * number may be closed by then, or be another's. The same holds natively. */
#include "event.h"
#include "others.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { ROUNDS = 20 };

static struct event entered;
static int ends[2];

static long by_read(char *c)
{
	return read(ends[0], c, 1);
}

static long by_readv(char *c)
{
	struct iovec v = { c, 1 };

	return readv(ends[0], &v, 1);
}

static long by_recv(char *c)
{
	return recv(ends[0], c, 1, 0);
}

static long by_recvmsg(char *c)
{
	struct iovec v = { c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return recvmsg(ends[0], &m, 0);
}

static long by_recvmmsg(char *c)
{
	struct iovec v = { c, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

	EXPECT_EQ(recvmmsg(ends[0], &m, 1, 0, NULL), 1);
	return m.msg_len;
}

static long (*const ways[])(char *c) = { by_read, by_readv, by_recv, by_recvmsg, by_recvmmsg };
enum { WAYS = sizeof(ways) / sizeof(*ways) };

/* The byte, or 0 for the end. */
static void *receives(void *way)
{
	char c = 0;

	tick(&entered);
	EXPECT(ways[(long)way](&c) >= 0);
	return (void *)(long)c;
}

/* As soon as it is woken, before it can have run where there is one P. Who is between its look at
 * the number and the kernel takes what is another's: that is rare. */
static void is_another_s(void (*wakes)(void), char wanted)
{
	int wrong = 0;

	for (long i = 0; i < ROUNDS * WAYS; i++) {
		int other[2], number;
		pthread_t t;
		void *got;

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		number = ends[0];
		entered.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, receives, (void *)(i % WAYS)), 0);
		await(&entered, 1);
		settle();
		wakes();
		EXPECT_EQ(close(number), 0);
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
		EXPECT_EQ(other[0], number);
		EXPECT_EQ(write(other[1], "s", 1), 1);
		EXPECT_EQ(pthread_join(t, &got), 0);
		wrong += (char)(long)got != wanted;
		EXPECT_EQ(close(other[0]) + close(other[1]) + close(ends[1]), 0);
	}
	EXPECT(wrong <= ROUNDS * WAYS / 10);
}

static void shuts_down(void)
{
	EXPECT_EQ(shutdown(ends[0], SHUT_RDWR), 0);
}

static void sends(void)
{
	EXPECT_EQ(write(ends[1], "x", 1), 1);
}

TEST(who_is_shut_down_finds_the_end_though_the_number_is_another_s)
{
	is_another_s(shuts_down, 0);
}

TEST(who_is_sent_a_byte_has_it_though_the_number_is_another_s)
{
	is_another_s(sends, 'x');
}

/* Of us it is told that there is no such descriptor. Has it another file's byte? */
static void *receives_or_not(void *all)
{
	char c[3];
	long n;

	tick(&entered);
	n = all ? recv(ends[0], c, 3, MSG_WAITALL) : by_read(c);
	if (n < 0)
		EXPECT_EQ(errno, EBADF);
	return (void *)(long)(n > 0 && memchr(c, 's', (size_t)n));
}

static bool takes_another_s(bool parts)
{
	struct rlimit all, few;
	int other[2];
	pthread_t t;
	void *got;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	EXPECT_EQ(write(other[1], "s", 1), 1);
	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){ (rlim_t)ends[0] + 1, all.rlim_max };
	entered.n = 0;
	if (parts)
		sends();
	EXPECT_EQ(pthread_create(&t, NULL, receives_or_not, parts ? ends : NULL), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	EXPECT_EQ(dup(0), -1);
	sends();
	EXPECT_EQ(close(ends[0]), 0);
	EXPECT_EQ(dup2(other[0], ends[0]), ends[0]);
	send(ends[1], "x", 1, MSG_NOSIGNAL);
	EXPECT_EQ(pthread_join(t, &got), 0);
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
	EXPECT_EQ(close(other[0]) + close(other[1]) + close(ends[0]) + close(ends[1]), 0);
	return got != NULL;
}

TEST(no_byte_of_another_file_is_taken_where_no_number_is_free)
{
	int wrong = 0;

	for (int i = 0; i < ROUNDS; i++)
		wrong += takes_another_s(i % 2);
	EXPECT(wrong <= ROUNDS / 10);
}

/* ---- who has sent a part ---- */

enum { MUCH = 1 << 20 };
static char much[MUCH], some[MUCH];

static void *writes_much(void *arg)
{
	tick(&entered);
	return (void *)write(ends[0], arg, MUCH);
}

TEST(the_rest_is_written_though_the_number_was_closed)
{
	for (int i = 0; i < ROUNDS; i++) {
		ssize_t sum, r;
		pthread_t t;
		void *wrote;

		EXPECT_EQ(i % 2 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		if (i % 2) {
			int in = ends[0];
			ends[0] = ends[1];
			ends[1] = in;
		}
		entered.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, writes_much, much), 0);
		await(&entered, 1);
		settle();
		sum = read(ends[1], some, sizeof(some));
		EXPECT_EQ(close(ends[0]), 0);
		while ((r = read(ends[1], some, sizeof(some))) > 0)
			sum += r;
		EXPECT_EQ(sum, MUCH);
		EXPECT_EQ(pthread_join(t, &wrote), 0);
		EXPECT_EQ((long)wrote, MUCH);
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* ---- streams ---- */

static void *receives_there(void *fd)
{
	char c = 0;

	tick(&entered);
	EXPECT_EQ(read((int)(long)fd, &c, 1), 1);
	return (void *)(long)c;
}

TEST(who_reads_has_the_file_though_its_stream_was_opened_anew)
{
	pthread_t t;
	void *got;
	FILE *f;

	EXPECT_EQ(pipe(ends), 0);
	f = fdopen(ends[0], "r");
	start(&t, 1, receives_there, (void *)(long)ends[0]);
	await(&entered, 1);
	settle();
	EXPECT(freopen("/dev/null", "r", f) == f);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, &got), 0);
	EXPECT_EQ((char)(long)got, 'x');
	EXPECT_EQ(fgetc(f), EOF);
}

/* The number of one that could not be is free. */
static void *finds_nothing(void *arg)
{
	uint64_t n;
	int fd = ends[0];
	FILE *f = fdopen(fd, "r");

	EXPECT(!freopen("/nowhere/at/all", "r", f));
	EXPECT_EQ(eventfd(0, EFD_NONBLOCK), fd);
	FAILS(read(fd, &n, sizeof(n)), EAGAIN);
	return arg;
}

TEST(a_number_that_a_stream_has_lost_is_another_file_s)
{
	EXPECT_EQ(pipe(ends), 0);
	run(1, finds_nothing, NULL);
}
