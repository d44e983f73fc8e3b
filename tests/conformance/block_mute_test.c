/* Descriptors whose poll does not tell all there is to hear, or tells it once: to wait for them is
 * the kernel's. The same holds natively. */
#include "call.h"

#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

static int fd;

/* ---- told once: that a file system was mounted ---- */

static const char mounts[] = "/proc/self/mounts";
static struct event watching;

static void *polls(void *arg)
{
	struct pollfd p = { .fd = open(mounts, O_RDONLY), .events = POLLPRI };

	tick(&watching);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	EXPECT_EQ(p.revents, POLLERR | POLLPRI);
	return arg;
}

static void *selects(void *arg)
{
	int its = open(mounts, O_RDONLY);
	fd_set set;

	FD_ZERO(&set);
	FD_SET(its, &set);
	tick(&watching);
	EXPECT_EQ(select(its + 1, NULL, NULL, &set, NULL), 1);
	return arg;
}

/* By that number of it. */
static void waits_in(int set, int number)
{
	struct epoll_event e = { .events = EPOLLPRI | EPOLLET };

	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, open(mounts, O_RDONLY), &e), 0);
	tick(&watching);
	EXPECT_EQ(epoll_wait(number, &e, 1, -1), 1);
	EXPECT_EQ(e.events, EPOLLERR | EPOLLPRI);
}

static void *has_a_set(void *arg)
{
	int set = epoll_create1(0);

	waits_in(set, set);
	return arg;
}

static void *has_two_numbers(void *arg)
{
	int set = epoll_create1(0);

	waits_in(set, dup(set));
	return arg;
}

/* It is in there before the file is in it. */
static void *has_a_set_of_sets(void *arg)
{
	struct epoll_event e = { .events = EPOLLPRI }, in = { .events = EPOLLIN };
	int inner = epoll_create1(0), outer = epoll_create1(0);

	EXPECT_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &in), 0);
	EXPECT_EQ(epoll_ctl(inner, EPOLL_CTL_ADD, open(mounts, O_RDONLY), &e), 0);
	tick(&watching);
	EXPECT_EQ(epoll_wait(outer, &e, 1, -1), 1);
	return arg;
}

static void *polls_a_set(void *arg)
{
	struct epoll_event e = { .events = EPOLLPRI };
	struct pollfd p = { .fd = epoll_create1(0), .events = POLLIN };

	EXPECT_EQ(epoll_ctl(p.fd, EPOLL_CTL_ADD, open(mounts, O_RDONLY), &e), 0);
	p.fd = dup(p.fd);
	tick(&watching);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	return arg;
}

static void mounts_one(void)
{
	void *(*const watches[])(void *) = { polls,	has_a_set_of_sets, selects,
					     has_a_set, has_two_numbers,   polls_a_set };
	enum { WATCHES = sizeof(watches) / sizeof(*watches) };
	pthread_t t[WATCHES];

	/* Who may not mount anything learns nothing. */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		_exit(0);
	for (int i = 0; i < WATCHES; i++)
		start(&t[i], 1, watches[i], NULL);
	await(&watching, WATCHES);
	settle();
	EXPECT_EQ(mount("none", "/proc", "tmpfs", 0, NULL), 0);
	join(t, WATCHES);
	_exit(0);
}

TEST(who_waits_for_mounts_hears_of_one)
{
	pid_t pid = fork();

	if (pid == 0)
		mounts_one();
	EXPECT_EQ(status_of(pid), 0);
}

/* ---- never told: that there is room, or no writer ---- */

static void *writes_some(void *arg)
{
	EXPECT_EQ(write(fd, "some", 4), 4);
	return arg;
}

TEST(a_device_is_written_to_though_its_poll_says_nothing_of_room)
{
	fd = open("/dev/random", O_RDWR);
	EXPECT(fd >= 0);
	on_thread(writes_some, NULL);
}

static char fifo[] = "/tmp/muteXXXXXX";

/* As one does that is not to wait for a writer yet. */
static void open_fifo(void)
{
	EXPECT(mkdtemp(fifo) != NULL && rmdir(fifo) == 0);
	EXPECT_EQ(mkfifo(fifo, 0600), 0);
	fd = open(fifo, O_RDONLY | O_NONBLOCK);
	EXPECT(fd >= 0);
	EXPECT_EQ(fcntl(fd, F_SETFL, 0), 0);
}

static long reads_one(void)
{
	char c;

	return read(fd, &c, 1);
}

static void *finds_no_writer(void *arg)
{
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(reads_one(), 0);
	return arg;
}

TEST(a_fifo_that_nobody_writes_to_has_an_end)
{
	struct call c = { .fn = reads_one };
	pthread_t t;
	int writer;

	open_fifo();
	on_thread(finds_no_writer, NULL);
	writer = open(fifo, O_WRONLY);
	t = begins(&c);
	EXPECT_EQ(write(writer, "x", 1), 1);
	join(&t, 1);
	EXPECT_EQ(c.result, 1);
	t = begins(&c);
	close(writer);
	join(&t, 1);
	EXPECT_EQ(c.result, 0);
	unlink(fifo);
}

/* ---- refused before it waits ---- */

static void *asks_for_nothing_there_is(void *arg)
{
	static char place[8];
	static struct iovec none[2] = { { place, 0 }, { place, 0 } }, some = { place, 8 };
	static struct iovec many[2000];

	EXPECT_EQ(readv(fd, none, 2), 0);
	FAILS(readv(fd, many, 2000), EINVAL);
	FAILS(preadv2(fd, &some, 1, -1, 1 << 30), EOPNOTSUPP);
	EXPECT_EQ(readv(fd, none, 2), 0);
	return arg;
}

TEST(what_is_wrong_with_a_vector_is_told_at_once)
{
	int writer;

	open_fifo();
	writer = open(fifo, O_WRONLY);
	on_thread(asks_for_nothing_there_is, NULL);
	close(writer);
	unlink(fifo);
}

/* ---- the room is another's ---- */

enum { MESSAGES = 400, LENGTH = 2000 };
static struct sockaddr_nl receiver = { .nl_family = AF_NETLINK };

static void *sends_many(void *arg)
{
	static char message[LENGTH];
	int from = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);

	for (int i = 0; i < MESSAGES; i++)
		EXPECT_EQ(sendto(from, message, LENGTH, 0, (void *)&receiver, sizeof(receiver)),
			  LENGTH);
	close(from);
	return arg;
}

TEST(a_message_of_netlink_waits_for_room_at_the_other_end)
{
	static char message[LENGTH];
	socklen_t len = sizeof(receiver);
	pthread_t t;

	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	EXPECT_EQ(bind(fd, (void *)&receiver, len), 0);
	EXPECT_EQ(getsockname(fd, (void *)&receiver, &len), 0);
	start(&t, 1, sends_many, NULL);
	settle();
	for (int i = 0; i < MESSAGES; i++)
		EXPECT_EQ(recv(fd, message, LENGTH, 0), LENGTH);
	join(&t, 1);
}

/* ---- what another process did ---- */

static void *is_given_no_time(void *arg)
{
	const struct timeval soon = { .tv_usec = 1000 };
	char c;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)) != 0);
	EXPECT_EQ(status_of(pid), 0);
	FAILS(recv(fd, &c, 1, 0), EAGAIN);
	return arg;
}

TEST(a_time_limit_that_a_child_has_set_holds)
{
	int pair[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	fd = pair[0];
	on_thread(is_given_no_time, NULL);
}

/* ---- a descriptor in many sets ---- */

enum { SETS = 520 };

static void *waits_in_its_own_set(void *arg)
{
	struct epoll_event e = { .events = EPOLLIN };
	int set = epoll_create1(0), another = eventfd(0, 0);

	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, another, &e), 0);
	EXPECT_EQ(epoll_wait(set, &e, 1, 0), 0);
	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), 0);
	EXPECT_EQ(epoll_wait(set, &e, 1, -1), 1);
	close(set);
	close(another);
	return arg;
}

TEST(one_descriptor_is_in_more_sets_than_the_kernel_has_nested)
{
	static pthread_t t[SETS];

	fd = eventfd(0, 0);
	start(t, SETS, waits_in_its_own_set, NULL);
	settle();
	EXPECT_EQ(eventfd_write(fd, 1), 0);
	join(t, SETS);
}
