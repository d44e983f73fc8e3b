/* epoll sets: waiting in them, changing them meanwhile, sharing them. The same holds natively. */
#include "common.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

static int set, ends[2];

static void add(int epfd, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	EXPECT_EQ(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &e), 0);
}

/* ---- each call ---- */

static void opens(struct wait *w)
{
	EXPECT_EQ(pipe(w->fd), 0);
	w->more = epoll_create1(0);
	add(w->more, w->fd[0], EPOLLIN, 1234567890123);
}

static long checked(long r, const struct epoll_event *e)
{
	if (r > 0) {
		EXPECT_EQ(e->events, EPOLLIN);
		EXPECT_EQ(e->data.u64, 1234567890123);
	}
	return r;
}

static long in_epoll_wait(struct wait *w)
{
	struct epoll_event e[4];

	return checked(epoll_wait(w->more, e, 4, -1), e);
}

static long in_epoll_wait_timed(struct wait *w)
{
	struct epoll_event e[4];

	return checked(epoll_wait(w->more, e, 4, 25000), e);
}

static long in_epoll_pwait(struct wait *w)
{
	struct epoll_event e[4];
	sigset_t none;

	sigemptyset(&none);
	return checked(epoll_pwait(w->more, e, 4, -1, &none), e);
}

static long in_epoll_pwait2(struct wait *w)
{
	struct epoll_event e[4];
	struct timespec t = { .tv_sec = 25 };

	return checked(epoll_pwait2(w->more, e, 4, &t, NULL), e);
}

static long by_number(struct wait *w)
{
	struct epoll_event e[4];

	return checked(syscall(SYS_epoll_wait, w->more, e, 4, -1), e);
}

static long in_poll(struct wait *w)
{
	struct pollfd p = { .fd = w->more, .events = POLLIN };

	return poll(&p, 1, -1);
}

/* A set in a set. */
static void opens_nested(struct wait *w)
{
	int inner;

	opens(w);
	inner = w->more;
	w->more = epoll_create1(EPOLL_CLOEXEC);
	add(w->more, inner, EPOLLIN, 1234567890123);
}

/* A set to which the descriptor is added while it is waited in. */
static void opens_empty(struct wait *w)
{
	EXPECT_EQ(pipe(w->fd), 0);
	feeds_pipe(w);
	w->more = epoll_create1(0);
}

static void adds(struct wait *w)
{
	add(w->more, w->fd[0], EPOLLIN, 1234567890123);
}

static void opens_for_nothing(struct wait *w)
{
	opens_empty(w);
	add(w->more, w->fd[0], 0, 1);
}

static void modifies(struct wait *w)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 1234567890123 };

	EXPECT_EQ(epoll_ctl(w->more, EPOLL_CTL_MOD, w->fd[0], &e), 0);
}

BLOCKS(epoll_wait, .open = opens, .block = in_epoll_wait, .release = feeds_pipe, .wants = 1)
BLOCKS(epoll_wait_timed, .open = opens, .block = in_epoll_wait_timed, .release = feeds_pipe,
       .wants = 1)
BLOCKS(epoll_pwait, .open = opens, .block = in_epoll_pwait, .release = feeds_pipe, .wants = 1)
BLOCKS(epoll_pwait2, .open = opens, .block = in_epoll_pwait2, .release = feeds_pipe, .wants = 1)
BLOCKS_UNCANCELLED(SYS_epoll_wait_, .open = opens, .block = by_number, .release = feeds_pipe,
		   .wants = 1)
BLOCKS(poll_of_an_epoll, .open = opens, .block = in_poll, .release = feeds_pipe, .wants = 1)
BLOCKS(epoll_wait_nested, .open = opens_nested, .block = in_epoll_wait, .release = feeds_pipe,
       .wants = 1)
BLOCKS(epoll_wait_until_one_is_added, .open = opens_empty, .block = in_epoll_wait, .release = adds,
       .wants = 1)
BLOCKS(epoll_wait_until_one_is_modified, .open = opens_for_nothing, .block = in_epoll_wait,
       .release = modifies, .wants = 1)

/* ---- times, and what is refused ---- */

static void *waits_in_vain(void *arg)
{
	struct timespec t = { .tv_nsec = 20 * MS }, bad = { .tv_nsec = -1 };
	struct epoll_event e[2] = { 0 };
	int s = epoll_create1(EPOLL_CLOEXEC), fd[2];

	EXPECT_EQ(pipe(fd), 0);
	add(s, fd[0], EPOLLIN, 5);
	errno = KEPT;
	TAKES(0, EXPECT_EQ(epoll_wait(s, e, 2, 0), 0));
	TAKES(20, EXPECT_EQ(epoll_wait(s, e, 2, 20), 0));
	TAKES(20, EXPECT_EQ(epoll_pwait(s, e, 2, 20, NULL), 0));
	TAKES(20, EXPECT_EQ(epoll_pwait2(s, e, 2, &t, NULL), 0));
	EXPECT_EQ(errno, KEPT);
	FAILS(epoll_wait(s, e, 0, -1), EINVAL);
	FAILS(epoll_wait(s, e, (int)endless, -1), EINVAL);
	FAILS(epoll_wait(fd[0], e, 2, -1), EINVAL);
	FAILS(epoll_wait(-1, e, 2, -1), EBADF);
	FAILS(epoll_pwait2(s, e, 2, &bad, NULL), EINVAL);
	FAILS(epoll_ctl(s, EPOLL_CTL_ADD, fd[0], e), EEXIST);
	FAILS(epoll_ctl(s, EPOLL_CTL_DEL, fd[1], e), ENOENT);
	FAILS(epoll_ctl(s, EPOLL_CTL_ADD, s, e), EINVAL);
	EXPECT_EQ(write(fd[1], "x", 1), 1);
	FAILS(epoll_wait(s, nowhere, 2, -1), EFAULT);
	EXPECT_EQ(epoll_wait(s, e, 2, -1), 1);
	EXPECT_EQ(e[0].data.u64, 5);
	/* Closed everywhere, it leaves the set. */
	close(fd[0]);
	TAKES(20, EXPECT_EQ(epoll_wait(s, e, 2, 20), 0));
	close(fd[1]);
	close(s);
	return arg;
}

TEST(a_wait_is_as_long_as_asked_for_and_tells_what_is_wrong)
{
	twice(waits_in_vain);
}

/* ---- sets shared by threads ---- */

enum { SOURCES = 40, ROUNDS = 20 };
static int sources[SOURCES];
static _Atomic int delivered[SOURCES], busy[SOURCES];
static struct event all;

static void (*take)(struct epoll_event *e);

static void *serves(void *arg)
{
	struct epoll_event e[3];

	for (;;) {
		int n = epoll_wait(set, e, 3, -1);
		EXPECT(n >= 1 && n <= 3);
		for (int i = 0; i < n; i++) {
			if (e[i].data.u64 == SOURCES)
				return arg;
			take(&e[i]);
		}
	}
}

/* EPOLLONESHOT: whoever gets it has it alone until he arms it again. */
static void takes_oneshot(struct epoll_event *e)
{
	uint64_t k = e->data.u64, value;

	EXPECT_EQ(e->events, EPOLLIN);
	EXPECT_EQ(atomic_fetch_add(&busy[k], 1), 0);
	EXPECT_EQ(read(sources[k], &value, sizeof(value)), sizeof(value));
	atomic_fetch_add(&delivered[k], (int)value);
	sched_yield();
	EXPECT_EQ(atomic_fetch_sub(&busy[k], 1), 1);
	e->events = EPOLLIN | EPOLLONESHOT;
	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_MOD, sources[k], e), 0);
	ticks(&all, (int)value);
}

/* EPOLLET: each edge is told at least once, so nothing is lost; values are read by one. */
static void takes_edge(struct epoll_event *e)
{
	uint64_t k = e->data.u64, value;

	if (read(sources[k], &value, sizeof(value)) < 0) {
		EXPECT_EQ(errno, EAGAIN);
		return;
	}
	atomic_fetch_add(&delivered[k], (int)value);
	ticks(&all, (int)value);
}

static void serve(void (*fn)(struct epoll_event *), uint32_t events)
{
	pthread_t t[6];
	uint64_t one = 1;
	int stop = eventfd(1, 0);

	set = epoll_create1(0);
	for (unsigned i = 0; i < SOURCES; i++) {
		sources[i] = eventfd(0, EFD_NONBLOCK);
		add(set, sources[i], EPOLLIN | events, i);
	}
	take = fn;
	start(t, 6, serves, NULL);
	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < SOURCES; i++)
			EXPECT_EQ(write(sources[(i * 7 + r) % SOURCES], &one, sizeof(one)), 8);
		if (r % 4 == 0)
			await(&all, (r + 1) * SOURCES);
	}
	await(&all, SOURCES * ROUNDS);
	add(set, stop, EPOLLIN, SOURCES);
	join(t, 6);
	EXPECT_EQ(all.n, SOURCES * ROUNDS);
	for (int i = 0; i < SOURCES; i++)
		EXPECT_EQ(delivered[i], ROUNDS);
}

TEST(a_oneshot_event_is_one_thread_s_alone)
{
	serve(takes_oneshot, EPOLLONESHOT);
}

TEST(no_edge_is_lost_among_threads)
{
	serve(takes_edge, EPOLLET);
}

/* One edge, many that wait: exactly one of them is told. The others wait for the end. */
static void *waits_for_an_edge(void *arg)
{
	struct epoll_event e;

	tick(&entered);
	EXPECT_EQ(epoll_wait(set, &e, 1, -1), 1);
	if (e.data.u64 == 1)
		tick(&all);
	return arg;
}

static void one_is_told(uint32_t events)
{
	pthread_t t[6];

	set = epoll_create1(0);
	EXPECT_EQ(pipe(ends), 0);
	add(set, ends[0], EPOLLIN | events, 1);
	entered.n = all.n = 0;
	start(t, 6, waits_for_an_edge, NULL);
	await(&entered, 6);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	await(&all, 1);
	settle();
	add(set, eventfd(1, 0), EPOLLIN, 2);
	join(t, 6);
	EXPECT_EQ(all.n, 1);
}

TEST(one_edge_wakes_one_of_many)
{
	one_is_told(EPOLLET);
	one_is_told(EPOLLONESHOT);
}

/* Level: all that wait are told while it lasts. */
TEST(a_level_is_told_to_all)
{
	pthread_t t[6];

	set = epoll_create1(0);
	EXPECT_EQ(pipe(ends), 0);
	add(set, ends[0], EPOLLIN, 1);
	start(t, 6, waits_for_an_edge, NULL);
	await(&entered, 6);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	join(t, 6);
	EXPECT_EQ(all.n, 6);
}

/* ---- what the set says of a descriptor ---- */

static void *looks(void *arg)
{
	struct epoll_event e[2];
	int s = epoll_create1(0), fd[2], twin;
	char c[8];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	add(s, fd[0], EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 7);
	EXPECT_EQ(epoll_wait(s, e, 2, -1), 1);
	EXPECT_EQ(e[0].events, EPOLLOUT);
	/* An edge is told once, even if a read through the same descriptor came between. */
	EXPECT_EQ(epoll_wait(s, e, 2, 0), 0);
	EXPECT_EQ(write(fd[1], "abc", 3), 3);
	EXPECT_EQ(epoll_wait(s, e, 2, -1), 1);
	EXPECT_EQ(e[0].events, EPOLLIN | EPOLLOUT);
	EXPECT_EQ(read(fd[0], c, 1), 1);
	EXPECT_EQ(epoll_wait(s, e, 2, 0), 0);
	EXPECT_EQ(read(fd[0], c, 8), 2);
	EXPECT_EQ(write(fd[1], "d", 1), 1);
	EXPECT_EQ(epoll_wait(s, e, 2, -1), 1);
	EXPECT_EQ(read(fd[0], c, 8), 1);
	/* A second descriptor of the same keeps it in the set. */
	twin = dup(fd[0]);
	close(fd[0]);
	EXPECT_EQ(shutdown(fd[1], SHUT_WR), 0);
	EXPECT_EQ(epoll_wait(s, e, 2, -1), 1);
	EXPECT_EQ(e[0].events, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	EXPECT_EQ(e[0].data.u64, 7);
	close(twin);
	EXPECT_EQ(epoll_wait(s, e, 2, 0), 0);
	close(fd[1]);
	close(s);
	return arg;
}

TEST(edges_levels_and_twins_are_the_kernel_s)
{
	pthread_t t;

	looks(NULL);
	EXPECT_EQ(pthread_create(&t, NULL, looks, NULL), 0);
	looks(NULL);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* Blocking calls of other threads on the same descriptor do not disturb the set. */
static void *reads_all(void *arg)
{
	char c;
	long n = 0;

	while (read(ends[0], &c, 1) == 1)
		n++;
	*(long *)arg = n;
	return NULL;
}

TEST(a_descriptor_in_a_set_is_read_by_threads_that_block)
{
	struct epoll_event e;
	pthread_t t[3];
	long n[3], sum = 0;

	set = epoll_create1(0);
	EXPECT_EQ(pipe(ends), 0);
	add(set, ends[0], EPOLLIN | EPOLLET, 3);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, reads_all, &n[i]), 0);
	settle();
	for (int i = 0; i < 300; i++) {
		EXPECT_EQ(write(ends[1], "x", 1), 1);
		if (i % 30 == 0)
			/* The edge is told unless all was read before this asks. */
			EXPECT(epoll_wait(set, &e, 1, 1) >= 0);
	}
	close(ends[1]);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
		sum += n[i];
	}
	EXPECT_EQ(sum, 300);
	EXPECT_EQ(epoll_wait(set, &e, 1, -1), 1);
	EXPECT_EQ(e.events & EPOLLHUP, EPOLLHUP);
	EXPECT_EQ(e.data.u64, 3);
}

/* ---- the set changes while others wait in it ---- */

static void *counts_events(void *arg)
{
	struct epoll_event e[8];

	for (;;) {
		int n = epoll_wait(set, e, 8, -1);
		EXPECT(n >= 1);
		for (int i = 0; i < n; i++) {
			uint64_t value;
			int fd = (int)e[i].data.u64;
			if (fd == ends[0])
				return arg;
			/* Another may have read it, or have seen it closed. */
			if (read(fd, &value, sizeof(value)) == sizeof(value))
				ticks(&all, (int)value);
		}
	}
}

TEST(descriptors_come_and_go_in_a_set_that_is_waited_in)
{
	pthread_t t[4];
	uint64_t one = 1;

	set = epoll_create1(0);
	EXPECT_EQ(pipe(ends), 0);
	start(t, 4, counts_events, NULL);
	for (int i = 1; i <= 200; i++) {
		int fd = eventfd(0, EFD_NONBLOCK);
		add(set, fd, EPOLLIN, (uint64_t)fd);
		EXPECT_EQ(write(fd, &one, sizeof(one)), 8);
		await(&all, i);
		EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
		EXPECT_EQ(close(fd), 0);
	}
	add(set, ends[0], EPOLLIN, (uint64_t)ends[0]);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	join(t, 4);
}

/* ---- the mask that holds while one waits ---- */

static void *waits_unblocked(void *arg)
{
	struct epoll_event e;
	sigset_t usr, none;

	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &usr, NULL), 0);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	EXPECT_EQ(handled.n, 0);
	FAILS(epoll_pwait(set, &e, 1, -1, &none), EINTR);
	EXPECT_EQ(handled.n, 1);
	tick(&entered);
	FAILS(epoll_pwait(set, &e, 1, -1, &none), EINTR);
	EXPECT_EQ(handled.n, 2);
	tick(&entered);
	FAILS(epoll_pwait2(set, &e, 1, NULL, &none), EINTR);
	EXPECT_EQ(handled.n, 3);
	return arg;
}

TEST(epoll_pwait_waits_under_the_mask_it_is_given)
{
	pthread_t t;

	handle(SIGUSR1, SA_RESTART);
	set = epoll_create1(0);
	EXPECT_EQ(pthread_create(&t, NULL, waits_unblocked, NULL), 0);
	for (int i = 1; i <= 2; i++) {
		await(&entered, i);
		settle();
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
