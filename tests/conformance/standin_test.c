/* Who waits for what has been closed meanwhile, and leaves the call without an end of it: it keeps
 * nothing open, as the kernel's calls do not. The same holds natively. */
#include "event.h"

#include <poll.h>

static int ends[2];
static struct event entered;

static void reads(int fd)
{
	char c;

	EXPECT(read(fd, &c, 1) < 0);
}

static void polls(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	EXPECT(poll(&p, 1, -1) < 0);
}

static void selects(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	EXPECT(select(fd + 1, &set, NULL, NULL, NULL) < 0);
}

static void (*const calls[])(int) = { reads, polls, selects };
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

enum { TIMES = 100 };

static void close_under(void *(*fn)(void *), void *arg, pthread_t *t)
{
	EXPECT_EQ(pipe(ends), 0);
	entered.n = 0;
	EXPECT_EQ(pthread_create(t, NULL, fn, arg), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(close(ends[0]), 0);
	/* The call has the pipe still. */
	settle();
	EXPECT_EQ(write(ends[1], "", 0), 0);
}

/* Nobody reads from it any more. */
static void nobody_is_left(void)
{
	EXPECT(write(ends[1], "x", 1) < 0 && errno == EPIPE);
	EXPECT_EQ(close(ends[1]), 0);
}

/* ---- cancelled ---- */

static void *is_cancelled(void *arg)
{
	tick(&entered);
	calls[(long)arg](ends[0]);
	return NULL;
}

TEST_IN(20, who_is_cancelled_keeps_nothing_open)
{
	pthread_t t;
	void *r;

	signal(SIGPIPE, SIG_IGN);
	for (long i = 0; i < TIMES; i++) {
		close_under(is_cancelled, (void *)(i % CALLS), &t);
		EXPECT_EQ(pthread_cancel(t), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT(r == PTHREAD_CANCELED);
		nobody_is_left();
	}
}

/* ---- a handler that does not come back ---- */

static void exits(int sig)
{
	pthread_exit((void *)(long)sig);
}

static void *is_interrupted(void *arg)
{
	tick(&entered);
	calls[(long)arg](ends[0]);
	return NULL;
}

TEST_IN(20, who_ends_in_a_handler_keeps_nothing_open)
{
	struct sigaction action = { .sa_handler = exits };
	pthread_t t;
	void *r;

	signal(SIGPIPE, SIG_IGN);
	EXPECT_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (long i = 0; i < TIMES; i++) {
		close_under(is_interrupted, (void *)(i % CALLS), &t);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT_EQ((long)r, SIGUSR1);
		nobody_is_left();
	}
}

/* ---- one that comes back ---- */

static void returns(int sig)
{
	(void)sig;
}

static void *finds_it_closed(void *arg)
{
	char c;

	tick(&entered);
	errno = 0;
	EXPECT_EQ(read(ends[0], &c, 1), -1);
	EXPECT_EQ(errno, EBADF);
	return arg;
}

/* The call begins anew then. */
TEST_IN(20, a_handler_that_returns_finds_the_number_closed)
{
	struct sigaction action = { .sa_handler = returns, .sa_flags = SA_RESTART };
	pthread_t t;

	signal(SIGPIPE, SIG_IGN);
	EXPECT_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < TIMES; i++) {
		close_under(finds_it_closed, NULL, &t);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		nobody_is_left();
	}
}

static int others[2];

static void *finds_another(void *arg)
{
	char c = 0;

	tick(&entered);
	EXPECT_EQ(read(ends[0], &c, 1), 1);
	EXPECT_EQ(c, 'y');
	return arg;
}

TEST_IN(20, a_handler_that_returns_finds_another_file_by_the_number)
{
	struct sigaction action = { .sa_handler = returns, .sa_flags = SA_RESTART };
	pthread_t t;

	signal(SIGPIPE, SIG_IGN);
	EXPECT_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < TIMES; i++) {
		close_under(finds_another, NULL, &t);
		EXPECT_EQ(pipe(others), 0);
		EXPECT_EQ(dup2(others[0], ends[0]), ends[0]);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(write(others[1], "y", 1), 1);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		nobody_is_left();
		close(ends[0]);
		close(others[0]);
		close(others[1]);
	}
}
