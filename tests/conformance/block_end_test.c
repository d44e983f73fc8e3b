/* Who reads finds the end there, however it comes: sockets of datagrams that are shut down,
 * terminals whose other side goes; and who reads or writes nothing. The same holds natively. */
#include "event.h"
#include "others.h"

#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum { READERS = 3 };

static int source;
static struct event about, ended;

static long by_read(void)
{
	char c[8];

	return read(source, c, sizeof(c));
}

static long by_recvfrom(void)
{
	char c[8];

	return recvfrom(source, c, sizeof(c), 0, NULL, NULL);
}

static long by_recvmsg(void)
{
	char c[8];
	struct iovec v = { c, sizeof(c) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return recvmsg(source, &m, 0);
}

static long (*const ways[])(void) = { by_read, by_recvfrom, by_recvmsg };
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static void *finds_the_end(void *way)
{
	tick(&about);
	EXPECT_EQ(ways[(long)way](), 0);
	tick(&ended);
	return NULL;
}

/* Some sleep there, some come when it is shut down, one that was connected or not. */
static void is_shut_down(int fd, bool connected)
{
	for (long i = 0; i < WAYS; i++) {
		int before = about.n;
		pthread_t t[READERS];

		source = fd;
		for (int k = 0; k < READERS; k++)
			start(t + k, 1, finds_the_end, (void *)i);
		await(&about, before + READERS);
		settle();
		EXPECT_EQ(shutdown(fd, SHUT_RD), connected ? 0 : -1);
		join(t, READERS);
		for (int k = 0; k < 2; k++)
			finds_the_end((void *)i);
	}
	EXPECT_EQ(close(fd), 0);
}

static int udp(bool connected)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(9) };

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connected)
		EXPECT_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void *shuts_down(void *arg)
{
	int pair[2];

	is_shut_down(udp(true), true);
	is_shut_down(udp(false), false);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	is_shut_down(pair[0], true);
	return arg;
}

TEST(a_socket_of_datagrams_that_is_shut_down_has_an_end)
{
	on_thread(shuts_down, NULL);
}

static void *is_hung_up(void *arg)
{
	char c;

	tick(&about);
	FAILS(read(source, &c, 1), EIO);
	/* And when it is over it is the end. */
	await(&ended, *(int *)arg);
	EXPECT_EQ(read(source, &c, 1), 0);
	return arg;
}

static void *hangs_up(void *arg)
{
	for (int i = 1; i <= 5; i++) {
		int master;
		pthread_t t;

		EXPECT_EQ(openpty(&master, &source, NULL, NULL, NULL), 0);
		start(&t, 1, is_hung_up, &i);
		await(&about, i);
		settle();
		EXPECT_EQ(close(master), 0);
		tick(&ended);
		join(&t, 1);
		EXPECT_EQ(close(source), 0);
	}
	return arg;
}

TEST(who_reads_of_a_terminal_as_it_is_hung_up_is_told)
{
	on_thread(hangs_up, NULL);
}

static void *reads_nothing(void *arg)
{
	int master, fd;
	char c = 0;

	EXPECT_EQ(openpty(&master, &fd, NULL, NULL, NULL), 0);
	EXPECT_EQ(read(fd, &c, 0), 0);
	EXPECT_EQ(read(master, &c, 0), 0);
	EXPECT_EQ(write(fd, &c, 0), 0);
	EXPECT_EQ(close(master), 0);
	EXPECT_EQ(close(fd), 0);
	fd = eventfd(0, 0);
	FAILS(read(fd, &c, 0), EINVAL);
	FAILS(write(fd, &c, 0), EINVAL);
	EXPECT_EQ(close(fd), 0);
	return arg;
}

TEST(who_reads_nothing_does_not_wait_for_it)
{
	among_others(reads_nothing, NULL);
}
