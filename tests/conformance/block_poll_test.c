/* poll, ppoll, select, pselect. The same holds natively. */
#include "common.h"

#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

static int ends[2];

/* ---- each call, on several kinds of descriptors ---- */

static void opens_socket(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
}

static long in_poll(struct wait *w)
{
	struct pollfd p[3] = { { .fd = -1, .events = POLLIN, .revents = 77 },
			       { .fd = w->fd[0], .events = POLLIN },
			       { .fd = w->fd[0], .events = 0 } };
	int r = poll(p, 3, -1);

	if (r > 0) {
		EXPECT_EQ(p[0].revents, 0);
		EXPECT_EQ(p[1].revents, POLLIN);
		EXPECT_EQ(p[2].revents, 0);
	}
	return r;
}

static long in_poll_out(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[1], .events = POLLOUT };
	int r = poll(&p, 1, 25000);

	EXPECT(r != 1 || p.revents == POLLOUT);
	return r;
}

static long in_ppoll(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };
	struct timespec t = { .tv_sec = 25 };

	return ppoll(&p, 1, &t, NULL);
}

static long in_select(struct wait *w)
{
	fd_set r, e;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&e);
	FD_SET(w->fd[0], &r);
	FD_SET(w->fd[0], &e);
	n = select(w->fd[0] + 1, &r, NULL, &e, NULL);
	if (n > 0) {
		EXPECT(FD_ISSET(w->fd[0], &r));
		EXPECT(!FD_ISSET(w->fd[0], &e));
	}
	return n;
}

static long in_select_out(struct wait *w)
{
	struct timeval t = { .tv_sec = 25 };
	fd_set r, o;

	FD_ZERO(&r);
	FD_ZERO(&o);
	FD_SET(w->fd[1], &o);
	return select(w->fd[1] + 1, &r, &o, NULL, &t);
}

static long in_pselect(struct wait *w)
{
	struct timespec t = { .tv_sec = 25 };
	fd_set r;

	FD_ZERO(&r);
	FD_SET(w->fd[0], &r);
	return pselect(w->fd[0] + 1, &r, NULL, NULL, &t, NULL);
}

static long by_number(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };

	return syscall(SYS_poll, &p, 1, -1);
}

BLOCKS(poll_pipe, .open = opens_pipe, .block = in_poll, .release = feeds_pipe, .wants = 1)
BLOCKS(poll_socket, .open = opens_socket, .block = in_poll, .release = feeds_pipe, .wants = 1)
BLOCKS(poll_full_pipe, .open = opens_full_pipe, .block = in_poll_out, .release = drains_pipe,
       .wants = 1)
BLOCKS(ppoll_pipe, .open = opens_pipe, .block = in_ppoll, .release = feeds_pipe, .wants = 1)
BLOCKS(select_pipe, .open = opens_pipe, .block = in_select, .release = feeds_pipe, .wants = 1)
BLOCKS(select_socket, .open = opens_socket, .block = in_select, .release = feeds_pipe, .wants = 1)
BLOCKS(select_full_pipe, .open = opens_full_pipe, .block = in_select_out, .release = drains_pipe,
       .wants = 1)
BLOCKS(pselect_pipe, .open = opens_pipe, .block = in_pselect, .release = feeds_pipe, .wants = 1)
BLOCKS_UNCANCELLED(SYS_poll_, .open = opens_pipe, .block = by_number, .release = feeds_pipe,
		   .wants = 1)

/* ---- times ---- */

static void *waits_in_vain(void *arg)
{
	int fd[2];
	struct pollfd p[2];
	struct timeval tv = { .tv_usec = 30000 };
	struct timespec ts = { .tv_nsec = 30 * MS };
	fd_set r;

	EXPECT_EQ(pipe(fd), 0);
	p[0] = (struct pollfd){ .fd = fd[0], .events = POLLIN, .revents = -1 };
	p[1] = (struct pollfd){ .fd = -5, .events = POLLIN, .revents = -1 };
	for (int i = 0; i < 3; i++) {
		errno = KEPT;
		TAKES(15 * i, EXPECT_EQ(poll(p, 2, 15 * i), 0));
		EXPECT_EQ(p[0].revents, 0);
		EXPECT_EQ(p[1].revents, 0);
		EXPECT_EQ(errno, KEPT);
	}
	TAKES(15, EXPECT_EQ(poll(NULL, 0, 15), 0));
	TAKES(30, EXPECT_EQ(ppoll(p, 2, &ts, NULL), 0));
	EXPECT_EQ(ts.tv_nsec, 30 * MS);

	/* Linux says what is left of select's time; pselect's is not touched. */
	FD_ZERO(&r);
	FD_SET(fd[0], &r);
	TAKES(30, EXPECT_EQ(select(fd[0] + 1, &r, NULL, NULL, &tv), 0));
	EXPECT(!FD_ISSET(fd[0], &r));
	EXPECT_EQ(tv.tv_sec, 0);
	EXPECT_EQ(tv.tv_usec, 0);
	FD_SET(fd[0], &r);
	TAKES(30, EXPECT_EQ(pselect(fd[0] + 1, &r, NULL, NULL, &ts, NULL), 0));
	EXPECT_EQ(ts.tv_nsec, 30 * MS);
	tv.tv_usec = 15000;
	TAKES(15, EXPECT_EQ(select(0, NULL, NULL, NULL, &tv), 0));
	EXPECT_EQ(write(fd[1], "x", 1), 1);
	tv.tv_sec = 2 * SLOW_MS / 1000;
	FD_SET(fd[0], &r);
	EXPECT_EQ(select(fd[0] + 1, &r, NULL, NULL, &tv), 1);
	EXPECT(tv.tv_sec >= SLOW_MS / 1000);
	EXPECT(tv.tv_sec < 2 * SLOW_MS / 1000 || tv.tv_usec == 0);
	/* All are asked, even without waiting. */
	EXPECT_EQ(poll(p, 2, 0), 1);
	EXPECT_EQ(p[0].revents, POLLIN);
	close(fd[0]);
	close(fd[1]);
	return arg;
}

TEST(a_wait_is_as_long_as_asked_for)
{
	in_threads(3, waits_in_vain);
}

static void *selects_some_time(void *arg)
{
	struct timeval t = { .tv_sec = 20 };
	long long since = now_ms();
	fd_set r;

	FD_ZERO(&r);
	FD_SET(ends[0], &r);
	tick(&entered);
	EXPECT_EQ(select(ends[0] + 1, &r, NULL, NULL, &t), 1);
	long long spent = now_ms() - since, left = t.tv_sec * 1000 + t.tv_usec / 1000;
	EXPECT(left <= 20000 - 25 && left + spent >= 20000 - 1000 &&
	       left + spent <= 20000 + SLOW_MS);
	return arg;
}

TEST(select_says_what_is_left_of_its_time)
{
	pthread_t t;

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pthread_create(&t, NULL, selects_some_time, NULL), 0);
	await(&entered, 1);
	settle();
	/* What is left is less by this time. */
	usleep(40000);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *polls_for_a_time(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	int ms = (int)(long)arg;

	for (int i = 0; i < 5; i++)
		TAKES(ms, EXPECT_EQ(poll(&p, 1, ms), 0));
	return NULL;
}

TEST(many_wait_for_as_many_times_each)
{
	pthread_t t[40];

	EXPECT_EQ(pipe(ends), 0);
	for (long i = 0; i < 40; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, polls_for_a_time, (void *)(i * 3 + 1)), 0);
	join(t, 40);
}

/* ---- what is refused ---- */

static void *is_refused(void *arg)
{
	struct timespec bad = { .tv_nsec = -1 }, late = { .tv_nsec = 1000000000 };
	struct timeval badv = { .tv_sec = -1 }, zero = { 0 };
	struct pollfd p[3];
	struct rlimit limit;
	int fd[2], closed, file = open("/proc/self/exe", O_RDONLY);
	fd_set r;

	EXPECT_EQ(pipe(fd), 0);
	p[0] = (struct pollfd){ .fd = fd[0], .events = POLLIN };
	FAILS(ppoll(p, 1, &bad, NULL), EINVAL);
	FAILS(ppoll(p, 1, &late, NULL), EINVAL);
	FAILS(pselect(0, NULL, NULL, NULL, &bad, NULL), EINVAL);
	FAILS(select(0, NULL, NULL, NULL, &badv), EINVAL);
	FAILS(select(-1, NULL, NULL, NULL, &zero), EINVAL);
	FAILS(poll(nowhere, 1, 0), EFAULT);
	FAILS(poll(nowhere, 1, -1), EFAULT);
	FAILS(select(1, nowhere, NULL, NULL, &zero), EFAULT);
	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	FAILS(poll(p, (nfds_t)limit.rlim_cur + 1, 0), EINVAL);
	FAILS(poll(p, endless, -1), EINVAL);

	/* A number that is no descriptor: POLLNVAL, at once; EBADF of select. */
	closed = dup(fd[0]);
	EXPECT(closed < FD_SETSIZE);
	close(closed);
	p[1] = (struct pollfd){ .fd = closed, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	EXPECT_EQ(poll(p, 3, -1), 1);
	EXPECT_EQ(p[0].revents, 0);
	EXPECT_EQ(p[1].revents, POLLNVAL);
	EXPECT_EQ(p[2].revents, 0);
	FD_ZERO(&r);
	FD_SET(closed, &r);
	FAILS(select(closed + 1, &r, NULL, NULL, NULL), EBADF);
	EXPECT(FD_ISSET(closed, &r));

	/* Files are always ready; an end that is alone says so, asked or not. */
	p[1] = (struct pollfd){ .fd = file, .events = POLLIN | POLLOUT };
	EXPECT_EQ(poll(p, 2, -1), 1);
	EXPECT_EQ(p[1].revents, POLLIN | POLLOUT);
	FD_ZERO(&r);
	FD_SET(file, &r);
	EXPECT_EQ(select(file + 1, &r, NULL, NULL, NULL), 1);
	close(fd[1]);
	p[0].events = 0;
	EXPECT_EQ(poll(p, 1, -1), 1);
	EXPECT_EQ(p[0].revents, POLLHUP);
	FD_ZERO(&r);
	FD_SET(fd[0], &r);
	EXPECT_EQ(select(fd[0] + 1, &r, NULL, NULL, NULL), 1);
	close(fd[0]);
	close(file);
	EXPECT_EQ(pipe(fd), 0);
	close(fd[0]);
	p[0] = (struct pollfd){ .fd = fd[1], .events = POLLOUT };
	EXPECT_EQ(poll(p, 1, -1), 1);
	EXPECT_EQ(p[0].revents, POLLOUT | POLLERR);
	close(fd[1]);
	return arg;
}

/* Not at the same time in several: descriptors are closed and looked for. */
TEST(bad_arguments_and_descriptors_are_told)
{
	twice(is_refused);
}

static void *selects_high(void *arg)
{
	struct rlimit limit;
	struct timeval zero = { 0 };
	unsigned long bits[4096 / sizeof(long)] = { 0 };
	int high = 1500, fd[2];

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < 2000) {
		limit.rlim_cur = 2000;
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
	EXPECT_EQ(pipe(fd), 0);
	EXPECT_EQ(dup2(fd[0], high), high);
	/* A larger set than the type: the kernel takes it. */
	bits[high / 64] = 1UL << high % 64;
	EXPECT_EQ(select(high + 1, (fd_set *)bits, NULL, NULL, &zero), 0);
	EXPECT_EQ(bits[high / 64], 0);
	EXPECT_EQ(write(fd[1], "x", 1), 1);
	bits[high / 64] = 1UL << high % 64;
	EXPECT_EQ(select(high + 1, (fd_set *)bits, NULL, NULL, NULL), 1);
	EXPECT_EQ(bits[high / 64], 1UL << high % 64);
	/* What lies above the highest descriptor there is is not looked at. */
	EXPECT_EQ(select(4096 * 8, (fd_set *)bits, NULL, NULL, NULL), 1);
	close(high);
	close(fd[0]);
	close(fd[1]);
	return arg;
}

TEST(select_takes_sets_larger_than_its_type)
{
	twice(selects_high);
}

/* ---- many ---- */

enum { MANY = 300 };
static int many[MANY][2];

static void *polls_many(void *arg)
{
	struct pollfd p[MANY];

	for (int i = 0; i < MANY; i++)
		p[i] = (struct pollfd){ .fd = many[i][0], .events = POLLIN };
	for (int seen = 0; seen < MANY;) {
		int r = poll(p, MANY, -1), n = 0;
		EXPECT(r > 0);
		for (int i = 0; i < MANY; i++) {
			if (p[i].fd < 0 || p[i].revents == 0)
				continue;
			EXPECT_EQ(p[i].revents, POLLIN);
			p[i].fd = -p[i].fd - 1;
			n++;
		}
		EXPECT_EQ(n, r);
		seen += r;
	}
	tick(&returned);
	return arg;
}

TEST(many_poll_the_same_many)
{
	struct rlimit limit;
	pthread_t t[6];

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 2000 ? limit.rlim_max : 2000;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(pipe(many[i]), 0);
	start(t, 6, polls_many, NULL);
	for (int i = 0; i < MANY; i++) {
		EXPECT_EQ(write(many[i * 7 % MANY][1], "x", 1), 1);
		if (i % 50 == 0)
			settle();
	}
	join(t, 6);
	EXPECT_EQ(returned.n, 6);
}

static void *selects_many(void *arg)
{
	int seen[100] = { 0 };

	for (int sum = 0; sum < 100;) {
		fd_set r;
		int high = 0, n;
		FD_ZERO(&r);
		for (int i = 0; i < 100; i++)
			if (!seen[i]) {
				FD_SET(many[i][0], &r);
				high = many[i][0] > high ? many[i][0] : high;
			}
		n = select(high + 1, &r, NULL, NULL, NULL);
		EXPECT(n > 0);
		for (int i = 0; i < 100; i++)
			if (!seen[i] && FD_ISSET(many[i][0], &r)) {
				seen[i] = 1;
				n--;
				sum++;
			}
		EXPECT_EQ(n, 0);
	}
	return arg;
}

TEST(many_select_the_same_many)
{
	pthread_t t[6];

	for (int i = 0; i < 100; i++)
		EXPECT_EQ(pipe(many[i]), 0);
	start(t, 6, selects_many, NULL);
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(write(many[i * 7 % 100][1], "x", 1), 1);
		if (i % 20 == 0)
			settle();
	}
	join(t, 6);
}

/* The same descriptor for reading and writing, and twice: each entry has its own answer. */
static void *polls_twice(void *arg)
{
	struct pollfd p[4] = { { .fd = ends[0], .events = POLLIN },
			       { .fd = ends[0], .events = POLLIN | POLLPRI },
			       { .fd = ends[0], .events = POLLIN | POLLRDNORM },
			       { .fd = ends[1], .events = POLLIN } };

	tick(&entered);
	EXPECT_EQ(poll(p, 4, -1), 3);
	EXPECT_EQ(p[0].revents, POLLIN);
	EXPECT_EQ(p[1].revents, POLLIN);
	EXPECT_EQ(p[2].revents, POLLIN | POLLRDNORM);
	EXPECT_EQ(p[3].revents, 0);
	p[0].events = POLLIN | POLLOUT;
	EXPECT_EQ(poll(p, 1, -1), 1);
	EXPECT_EQ(p[0].revents, POLLIN | POLLOUT);
	return arg;
}

TEST(a_descriptor_may_be_polled_several_times_in_one_call)
{
	pthread_t t;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(pthread_create(&t, NULL, polls_twice, NULL), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- the mask that holds while one waits ---- */

static void *waits_unblocked(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	sigset_t usr, none, old;
	fd_set r;

	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &usr, NULL), 0);
	/* One that is pending is taken at once. */
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	EXPECT_EQ(handled.n, 0);
	FAILS(ppoll(&p, 1, NULL, &none), EINTR);
	EXPECT_EQ(handled.n, 1);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	FD_ZERO(&r);
	FD_SET(ends[0], &r);
	FAILS(pselect(ends[0] + 1, &r, NULL, NULL, NULL, &none), EINTR);
	EXPECT_EQ(handled.n, 2);
	tick(&entered);
	FAILS(ppoll(&p, 1, NULL, &none), EINTR);
	EXPECT_EQ(handled.n, 3);
	tick(&entered);
	FAILS(pselect(ends[0] + 1, &r, NULL, NULL, NULL, &none), EINTR);
	EXPECT_EQ(handled.n, 4);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &old), 0);
	EXPECT(sigismember(&old, SIGUSR1));
	tick(&entered);
	/* And one that stays blocked does not interrupt. */
	EXPECT_EQ(poll(&p, 1, -1), 1);
	EXPECT_EQ(handled.n, 4);
	return arg;
}

TEST(ppoll_and_pselect_wait_under_the_mask_they_are_given)
{
	pthread_t t;

	handle(SIGUSR1, SA_RESTART);
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pthread_create(&t, NULL, waits_unblocked, NULL), 0);
	for (int i = 1; i <= 3; i++) {
		await(&entered, i);
		settle();
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	}
	settle();
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- closed meanwhile ---- */

static int more[2];

/* By the old file, and when that wakes it the number is looked at, which is none now. */
static void *polls_two(void *arg)
{
	struct pollfd p[2] = { { .fd = ends[0], .events = POLLIN },
			       { .fd = more[0], .events = POLLIN } };

	tick(&entered);
	EXPECT_EQ(poll(p, 2, arg ? 500 : -1), 1);
	EXPECT_EQ(p[0].revents, POLLNVAL);
	EXPECT_EQ(p[1].revents, 0);
	tick(&returned);
	return NULL;
}

static void *selects_two(void *arg)
{
	struct timeval t = { .tv_usec = 500000 };
	int high = ends[0] > more[0] ? ends[0] : more[0];
	fd_set r, e;

	FD_ZERO(&r);
	FD_ZERO(&e);
	FD_SET(ends[0], &r);
	FD_SET(ends[0], &e);
	FD_SET(more[0], &r);
	tick(&entered);
	EXPECT_EQ(select(high + 1, &r, NULL, &e, arg ? &t : NULL), 2);
	EXPECT(FD_ISSET(ends[0], &r));
	EXPECT(FD_ISSET(ends[0], &e));
	EXPECT(!FD_ISSET(more[0], &r));
	tick(&returned);
	return NULL;
}

/* Asleep in it, of which what it waits for is closed. */
static pthread_t sleeps_on(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(pipe(more), 0);
	EXPECT_EQ(pthread_create(&t, NULL, fn, arg), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(close(ends[0]), 0);
	settle();
	return t;
}

static void hears_of_the_old_file(void *(*fn)(void *))
{
	pthread_t t = sleeps_on(fn, NULL);

	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	/* That went with the call. */
	EXPECT_EQ(send(ends[1], "x", 1, MSG_NOSIGNAL), -1);
	EXPECT_EQ(errno, EPIPE);
}

TEST(a_poll_sleeps_on_by_the_file_of_a_descriptor_that_is_closed)
{
	hears_of_the_old_file(polls_two);
}

TEST(a_select_sleeps_on_by_the_file_of_a_descriptor_that_is_closed)
{
	hears_of_the_old_file(selects_two);
}

TEST(a_poll_looks_once_more_when_its_time_is_over)
{
	EXPECT_EQ(pthread_join(sleeps_on(polls_two, ends), NULL), 0);
}

TEST(a_select_looks_once_more_when_its_time_is_over)
{
	EXPECT_EQ(pthread_join(sleeps_on(selects_two, ends), NULL), 0);
}

TEST(a_poll_that_is_cancelled_lets_go_of_a_descriptor_that_was_closed)
{
	pthread_t t = sleeps_on(polls_two, NULL);
	long r;

	EXPECT_EQ(pthread_cancel(t), 0);
	r = result_of(t);
	/* glibc 2.41's, which sees that the kernel has an answer, has it returned. */
	EXPECT_EQ(r, returned.n ? 0 : (long)PTHREAD_CANCELED);
	EXPECT_EQ(send(ends[1], "x", 1, MSG_NOSIGNAL), -1);
	EXPECT_EQ(errno, EPIPE);
}

/* ---- beside what is there but is not asked for ---- */

static void *polls_for_what_does_not_come(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLPRI };

	EXPECT_EQ(poll(&p, 1, 500), 0);
	return arg;
}

TEST(a_poll_sleeps_beside_what_it_does_not_ask_for)
{
	struct timespec before = in_us(CLOCK_PROCESS_CPUTIME_ID, 0), after;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	on_thread(polls_for_what_does_not_come, NULL);
	after = in_us(CLOCK_PROCESS_CPUTIME_ID, -100000);
	EXPECT(after.tv_sec < before.tv_sec ||
	       (after.tv_sec == before.tv_sec && after.tv_nsec < before.tv_nsec));
}
