/* Descriptors: bad ones, those that come and go while others wait, numbers used again, many
 * of all kinds at once. The same holds natively. */
#include "common.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/uio.h>

static int ends[2];

/* ---- what is refused ---- */

static void *calls_badly(void *arg)
{
	char c[8] = "";
	int p[2], s[2], null = open("/dev/null", O_RDWR), dir = open("/", O_RDONLY);
	struct iovec v = { c, 1 }, endless_v = { c, endless };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct sockaddr a;
	socklen_t len = sizeof(a), bad_len = (socklen_t)-1;

	EXPECT_EQ(pipe(p), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	for (int fd = -2; fd <= 1 << 20; fd = fd < 0 ? fd + 1 : fd * 2 + 100000) {
		if (fd == 0)
			fd = 100000;
		FAILS(read(fd, c, 1), EBADF);
		FAILS(write(fd, c, 1), EBADF);
		FAILS(readv(fd, &v, 1), EBADF);
		FAILS(writev(fd, &v, 1), EBADF);
		FAILS(preadv2(fd, &v, 1, -1, 0), EBADF);
		FAILS(recv(fd, c, 1, 0), EBADF);
		FAILS(send(fd, c, 1, 0), EBADF);
		FAILS(recvmsg(fd, &m, 0), EBADF);
		FAILS(sendmsg(fd, &m, 0), EBADF);
		FAILS(accept(fd, NULL, NULL), EBADF);
		FAILS(accept4(fd, NULL, NULL, 0), EBADF);
		FAILS(close(fd), EBADF);
		FAILS(dup(fd), EBADF);
		FAILS(fsync(fd), EBADF);
		FAILS(fcntl(fd, F_GETFL), EBADF);
	}
	/* The wrong end, the wrong kind. */
	FAILS(read(p[1], c, 1), EBADF);
	FAILS(write(p[0], c, 1), EBADF);
	FAILS(recv(p[0], c, 1, 0), ENOTSOCK);
	FAILS(send(p[1], c, 1, 0), ENOTSOCK);
	FAILS(accept(p[0], NULL, NULL), ENOTSOCK);
	FAILS(accept(s[0], NULL, NULL), EINVAL);
	FAILS(accept4(s[0], NULL, NULL, 1 << 30), EINVAL);
	FAILS(read(dir, c, 1), EISDIR);
	FAILS(pread(p[0], c, 1, 0), ESPIPE);
	FAILS(lseek(p[0], 0, SEEK_CUR), ESPIPE);
	FAILS(preadv2(p[0], &v, 1, 0, 0), ESPIPE);
	FAILS(fsync(p[0]), EINVAL);
	/* Memory that is not there: told, no crash; and nothing is lost. */
	EXPECT_EQ(write(p[1], "a", 1), 1);
	EXPECT_EQ(write(s[1], "b", 1), 1);
	FAILS(read(p[0], nowhere, 1), EFAULT);
	FAILS(recv(s[0], nowhere, 1, 0), EFAULT);
	FAILS(readv(p[0], nowhere, 1), EFAULT);
	FAILS(recvmsg(s[0], nowhere, 0), EFAULT);
	FAILS(write(p[1], nowhere, 1), EFAULT);
	FAILS(send(s[1], nowhere, 1, 0), EFAULT);
	FAILS(writev(p[1], nowhere, 1), EFAULT);
	FAILS(sendmsg(s[1], nowhere, 0), EFAULT);
	FAILS(pipe(nowhere), EFAULT);
	FAILS(open(nowhere, O_RDONLY), EFAULT);
	EXPECT_EQ(read(p[0], c, 8), 1);
	EXPECT_EQ(c[0], 'a');
	EXPECT_EQ(recv(s[0], c, 8, 0), 1);
	EXPECT_EQ(c[0], 'b');
	/* Sizes that cannot be. */
	FAILS(readv(p[0], &v, (int)endless), EINVAL);
	FAILS(readv(p[0], &v, (int)(endless & 0xffff)), EINVAL);
	FAILS(readv(p[0], &endless_v, 1), EINVAL);
	FAILS(writev(p[1], &endless_v, 1), EINVAL);
	FAILS(recvfrom(s[0], c, 1, MSG_OOB, NULL, NULL), EINVAL);
	EXPECT_EQ(write(s[1], "c", 1), 1);
	FAILS(recvfrom(s[0], c, 1, 0, &a, &bad_len), EINVAL);
	FAILS(getsockname(p[0], &a, &len), ENOTSOCK);
	/* Never at the end of its patience. */
	EXPECT_EQ(write(null, c, 8), 8);
	EXPECT_EQ(read(null, c, 8), 0);
	close(p[0]);
	close(p[1]);
	close(s[0]);
	close(s[1]);
	close(null);
	close(dir);
	return arg;
}

TEST(bad_descriptors_pointers_and_sizes_are_told)
{
	twice(calls_badly);
}

/* ---- flags ---- */

static void *looks_at_flags(void *arg)
{
	int p[2], s[2], fd;
	char c;

	EXPECT_EQ(pipe2(p, O_CLOEXEC), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
	EXPECT_EQ(fcntl(p[0], F_GETFD), FD_CLOEXEC);
	EXPECT_EQ(fcntl(p[0], F_GETFL), O_RDONLY);
	EXPECT_EQ(fcntl(p[1], F_GETFL), O_WRONLY);
	EXPECT_EQ(fcntl(s[0], F_GETFD), 0);
	EXPECT_EQ(fcntl(s[0], F_GETFL), O_RDWR | O_NONBLOCK);
	fd = dup(p[0]);
	EXPECT_EQ(fcntl(fd, F_GETFD), 0);
	close(fd);
	fd = fcntl(p[0], F_DUPFD_CLOEXEC, 100);
	EXPECT(fd >= 100);
	EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	EXPECT_EQ(dup3(p[1], fd, O_CLOEXEC), fd);
	EXPECT_EQ(fcntl(fd, F_GETFL), O_WRONLY);
	EXPECT_EQ(dup2(fd, fd), fd);
	FAILS(dup3(fd, fd, 0), EINVAL);
	EXPECT_EQ(write(fd, "x", 1), 1);
	EXPECT_EQ(read(p[0], &c, 1), 1);
	EXPECT_EQ(close(fd), 0);
	/* After all that, the lowest number that is free. */
	fd = open("/dev/null", O_RDONLY);
	close(p[0]);
	close(fd);
	int first = dup(p[1]), second;
	close(first);
	second = dup(p[1]);
	EXPECT_EQ(first, second);
	close(second);
	close(p[1]);
	close(s[0]);
	close(s[1]);
	return arg;
}

TEST(flags_are_what_was_asked_for)
{
	twice(looks_at_flags);
}

static _Atomic int stop;

static void *reads_all(void *arg)
{
	char c;

	while (read(ends[0], &c, 1) == 1)
		tick(&returned);
	return arg;
}

static void *writes_always(void *arg)
{
	while (!stop) {
		EXPECT_EQ(write(ends[1], "0123456789", 10), 10);
		sched_yield();
	}
	return arg;
}

/* Never, not for a moment, does a descriptor seem to be non-blocking that was not made so. */
TEST(nobody_ever_sees_O_NONBLOCK_that_was_not_set)
{
	pthread_t r[3], w[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	start(r, 3, reads_all, NULL);
	start(w, 2, writes_always, NULL);
	for (int i = 0; i < 20000 || returned.n < 1000; i++) {
		EXPECT_EQ(fcntl(ends[0], F_GETFL), O_RDWR);
		EXPECT_EQ(fcntl(ends[1], F_GETFL), O_RDWR);
	}
	stop = 1;
	join(w, 2);
	EXPECT_EQ(shutdown(ends[1], SHUT_WR), 0);
	join(r, 3);
}

/* ---- descriptors that go while others wait ---- */

static void *reads_one(void *arg)
{
	char c = 0;
	long r;

	tick(&entered);
	r = read((int)(long)arg, &c, 1);
	if (r < 0)
		r = -errno;
	tick(&returned);
	EXPECT(r <= 0 || c == 'x');
	return (void *)r;
}

static long read_by(pthread_t t)
{
	void *r;

	EXPECT_EQ(pthread_join(t, &r), 0);
	return (long)r;
}

static void park(pthread_t *t, int n, int fd)
{
	entered.n = returned.n = 0;
	start(t, n, reads_one, (void *)(long)fd);
	await(&entered, n);
	settle();
	EXPECT_EQ(returned.n, 0);
}

TEST(closing_a_twin_leaves_those_who_read_by_the_other)
{
	pthread_t t[4];
	int twin;

	EXPECT_EQ(pipe(ends), 0);
	twin = dup(ends[0]);
	park(t, 4, ends[0]);
	EXPECT_EQ(close(twin), 0);
	/* And its number goes to something else. */
	EXPECT_EQ(dup2(ends[1], twin), twin);
	settle();
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(write(twin, "xxxx", 4), 4);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(read_by(t[i]), 1);
}

TEST(readers_by_two_numbers_of_one_pipe_are_all_served)
{
	pthread_t a[3], b[3];
	int twin;

	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(pipe(ends), 0);
		twin = dup(ends[0]);
		entered.n = 0;
		for (int k = 0; k < 3; k++) {
			pthread_create(&a[k], NULL, reads_one, (void *)(long)ends[0]);
			pthread_create(&b[k], NULL, reads_one, (void *)(long)twin);
		}
		await(&entered, 6);
		for (int k = 0; k < 6; k++)
			EXPECT_EQ(write(ends[1], "x", 1), 1);
		for (int k = 0; k < 3; k++) {
			EXPECT_EQ(read_by(a[k]), 1);
			EXPECT_EQ(read_by(b[k]), 1);
		}
		close(twin);
		close(ends[0]);
		close(ends[1]);
	}
}

/* The call holds what it reads from, not the number: Linux goes on with the old pipe. */
TEST(a_read_goes_on_though_its_number_was_closed)
{
	pthread_t t;
	int twin;

	EXPECT_EQ(pipe(ends), 0);
	twin = dup(ends[0]);
	park(&t, 1, twin);
	EXPECT_EQ(close(twin), 0);
	settle();
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(read_by(t), 1);
}

TEST(a_read_goes_on_though_its_number_became_another_pipe)
{
	pthread_t t;
	int twin, other[2];

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pipe(other), 0);
	twin = dup(ends[0]);
	park(&t, 1, twin);
	EXPECT_EQ(write(other[1], "yy", 2), 2);
	EXPECT_EQ(dup2(other[0], twin), twin);
	settle();
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(read_by(t), 1);
	/* Of the other nothing is gone. */
	EXPECT_EQ(drain(twin), 2);
}

/* How java closes what others read from. The signal is sent once, to one that may have been woken
 * and not yet run again. */
static void reads_until_interrupted(int kind)
{
	for (int i = 0; i < 20; i++) {
		int fd[2], none[2];
		pthread_t t[4];

		EXPECT_EQ(kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, fd) : pipe(fd), 0);
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, none), 0);
		park(t, 4, fd[0]);
		EXPECT_EQ(dup2(none[0], fd[0]), fd[0]);
		for (int k = 0; k < 4; k++)
			EXPECT_EQ(pthread_kill(t[k], SIGUSR1), 0);
		for (int k = 0; k < 4; k++)
			EXPECT_EQ(read_by(t[k]), -EINTR);
		for (int k = 0; k < 2; k++) {
			close(fd[k]);
			close(none[k]);
		}
	}
}

TEST(a_handler_interrupts_a_read_whose_number_was_replaced_just_before)
{
	handle(SIGUSR1, 0);
	reads_until_interrupted(0);
	reads_until_interrupted(1);
}

/* A number that was waited on, closed and used again is a new descriptor to all. */
TEST(a_number_used_again_is_waited_on_anew)
{
	for (int i = 0; i < 30; i++) {
		pthread_t t[2];
		FILE *f;
		if (i % 3 == 0)
			EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		else
			EXPECT_EQ(pipe(ends), 0);
		entered.n = 0;
		start(t, 2, reads_one, (void *)(long)ends[0]);
		await(&entered, 2);
		if (i % 2)
			settle();
		EXPECT_EQ(write(ends[1], "xx", 2), 2);
		for (int k = 0; k < 2; k++)
			EXPECT_EQ(read_by(t[k]), 1);
		/* Closed by ways that no wrapper sees. */
		switch (i % 4) {
		case 0:
			f = fdopen(ends[0], "r");
			EXPECT_EQ(fclose(f), 0);
			break;
		case 1:
			EXPECT_EQ(close_range((unsigned)ends[0], (unsigned)ends[0], 0), 0);
			break;
		case 2:
			EXPECT_EQ(dup2(ends[1], ends[0]), ends[0]);
			EXPECT_EQ(close(ends[0]), 0);
			break;
		default:
			EXPECT_EQ(close(ends[0]), 0);
		}
		EXPECT_EQ(close(ends[1]), 0);
	}
}

/* ---- the stress: channels of all kinds, numbers used again, every byte accounted for ---- */

enum { PAIRS = 5, SLOTS = 8 };

struct channel {
	int fd;
	uint64_t seed;
	long bytes;
};

static struct channel slots[SLOTS];
static int head, tail;
static bool over;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static _Atomic long written, received, channels;
static long long end_of_stress;

/* Another number for the same, the old one free for others. */
static int moved(int fd, uint64_t *seed)
{
	int to;

	if (chance(seed) % 4)
		return fd;
	to = dup(fd);
	EXPECT(to >= 0);
	EXPECT_EQ(close(fd), 0);
	return to;
}

static void *stress_writes(void *arg)
{
	uint64_t luck = test_seed() + (uint64_t)(long)arg;

	for (;;) {
		static _Thread_local unsigned char buf[20000];
		struct channel c;
		pthread_mutex_lock(&mutex);
		while (head == tail && !over)
			pthread_cond_wait(&filled, &mutex);
		if (head == tail) {
			pthread_mutex_unlock(&mutex);
			return NULL;
		}
		c = slots[tail++ % SLOTS];
		pthread_cond_signal(&emptied);
		pthread_mutex_unlock(&mutex);
		while (c.bytes > 0) {
			long n = (long)(chance(&luck) % sizeof(buf)) + 1;
			if (n > c.bytes)
				n = c.bytes;
			for (long i = 0; i < n; i++)
				buf[i] = (unsigned char)chance(&c.seed);
			if (chance(&luck) % 8 == 0) {
				struct pollfd p = { .fd = c.fd, .events = POLLOUT };
				EXPECT_EQ(poll(&p, 1, -1), 1);
			}
			/* Time for the reader to find nothing. */
			if (chance(&luck) % 16 == 0)
				usleep(500);
			EXPECT_EQ(write(c.fd, buf, (size_t)n), n);
			atomic_fetch_add(&written, n);
			c.bytes -= n;
			c.fd = moved(c.fd, &luck);
		}
		EXPECT_EQ(close(c.fd), 0);
	}
}

static void wait_readable(int fd, uint64_t *luck)
{
	struct pollfd p[2] = { { .fd = -1 }, { .fd = fd, .events = POLLIN } };
	struct epoll_event e;
	fd_set r;
	int set;

	switch (chance(luck) % 8) {
	case 0:
		EXPECT_EQ(poll(p, 2, -1), 1);
		break;
	case 1:
		EXPECT(fd < FD_SETSIZE);
		FD_ZERO(&r);
		FD_SET(fd, &r);
		EXPECT_EQ(select(fd + 1, &r, NULL, NULL, NULL), 1);
		break;
	case 2:
		set = epoll_create1(EPOLL_CLOEXEC);
		e = (struct epoll_event){ .events = EPOLLIN };
		EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e), 0);
		EXPECT_EQ(epoll_wait(set, &e, 1, -1), 1);
		EXPECT_EQ(close(set), 0);
		break;
	case 3:
		/* Whether in time or not. */
		EXPECT(poll(p, 2, (int)(chance(luck) % 3)) >= 0);
		break;
	}
}

static void *stress_reads(void *arg)
{
	uint64_t luck = test_seed() * 31 + (uint64_t)(long)arg;

	/* One at least, however late it begins. */
	do {
		static _Thread_local unsigned char buf[20000];
		struct channel c;
		int fd[2];
		long got = 0;
		uint64_t seed;
		ssize_t r;
		bool is_socket = chance(&luck) % 2;
		if (is_socket)
			EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
		else
			EXPECT_EQ(pipe2(fd, O_CLOEXEC), 0);
		seed = chance(&luck);
		c = (struct channel){ fd[1], seed, (long)(chance(&luck) % 100000) };
		pthread_mutex_lock(&mutex);
		while (head - tail == SLOTS)
			pthread_cond_wait(&emptied, &mutex);
		slots[head++ % SLOTS] = c;
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&mutex);
		do {
			size_t n = chance(&luck) % sizeof(buf) + 1;
			struct iovec v[2] = { { buf, n / 2 }, { buf + n / 2, n - n / 2 } };
			fd[0] = moved(fd[0], &luck);
			wait_readable(fd[0], &luck);
			if (chance(&luck) % 3 == 0)
				r = readv(fd[0], v, 2);
			else if (is_socket && chance(&luck) % 2)
				r = recv(fd[0], buf, n, chance(&luck) % 2 ? MSG_WAITALL : 0);
			else
				r = read(fd[0], buf, n);
			EXPECT(r >= 0);
			for (ssize_t i = 0; i < r; i++)
				EXPECT_EQ(buf[i], (unsigned char)chance(&seed));
			got += r;
		} while (r > 0);
		EXPECT_EQ(got, c.bytes);
		EXPECT_EQ(close(fd[0]), 0);
		atomic_fetch_add(&received, got);
		atomic_fetch_add(&channels, 1);
	} while (now_ms() < end_of_stress);
	return NULL;
}

/* Takes and gives back numbers all the time, of things that are always or never ready. */
static void *stress_numbers(void *arg)
{
	uint64_t luck = test_seed() * 77 + (uint64_t)(long)arg;

	while (now_ms() < end_of_stress) {
		int fd[6], n = (int)(chance(&luck) % 6) + 1;
		struct pollfd p[6];
		for (int i = 0; i < n; i++) {
			fd[i] = chance(&luck) % 2 ? open("/dev/null", O_RDWR | O_CLOEXEC)
						  : eventfd(0, EFD_CLOEXEC);
			EXPECT(fd[i] >= 0);
			p[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
		}
		EXPECT(poll(p, (nfds_t)n, (int)(chance(&luck) % 2)) >= 0);
		for (int i = 0; i < n; i++)
			EXPECT_EQ(close(fd[i]), 0);
		/* Time for others to take the numbers that are free. */
		if (chance(&luck) % 4 == 0)
			usleep(500);
	}
	return NULL;
}

TEST(channels_of_many_threads_lose_no_byte)
{
	pthread_t r[PAIRS], w[PAIRS], n[2];

	end_of_stress = now_ms() + 1500;
	for (long i = 0; i < PAIRS; i++) {
		EXPECT_EQ(pthread_create(&r[i], NULL, stress_reads, (void *)i), 0);
		EXPECT_EQ(pthread_create(&w[i], NULL, stress_writes, (void *)(100 + i)), 0);
	}
	start_numbered(n, 2, stress_numbers);
	join(r, PAIRS);
	pthread_mutex_lock(&mutex);
	over = true;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&mutex);
	join(w, PAIRS);
	join(n, 2);
	EXPECT_EQ(written, received);
	EXPECT(channels >= PAIRS);
}

/* ---- closing beside who is about to sleep ---- */

static void *reads_to_the_end(void *arg)
{
	char c;

	while (read(*(int *)arg, &c, 1) == 1)
		continue;
	return NULL;
}

/* Who reads it finds it closed, or has the file until the last writer is gone. */
TEST(who_comes_to_read_as_it_is_closed_is_not_left_asleep)
{
	int null = open("/dev/null", O_RDONLY);
	unsigned seed = 1;

	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 10000; i++) {
		pthread_t t;
		int p[2], fd;
		EXPECT_EQ(pipe(p), 0);
		fd = p[0];
		EXPECT_EQ(pthread_create(&t, NULL, reads_to_the_end, &fd), 0);
		for (volatile int k = rand_r(&seed) % 4000; k > 0; k--)
			continue;
		EXPECT_EQ(write(p[1], "x", 1), 1);
		for (volatile int k = rand_r(&seed) % 1000; k > 0; k--)
			continue;
		/* By a number that is used again, or not. */
		if (i % 2)
			EXPECT_EQ(close(p[0]), 0);
		else
			EXPECT_EQ(dup2(null, p[0]), p[0]);
		close(p[1]);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		if (i % 2 == 0)
			close(p[0]);
	}
}

/* ---- closing beside who makes its first thread ---- */

static void *nothing(void *arg)
{
	return arg;
}

static int closes_after_its_first_thread(void)
{
	enum { PIPES = 32 };
	pthread_t t;
	int p[PIPES][2], told = 0;

	for (int i = 0; i < PIPES; i++)
		if (pipe(p[i]) != 0)
			return 2;
	if (pthread_create(&t, NULL, nothing, NULL) != 0)
		return 2;
	for (int i = 0; i < PIPES; i++) {
		close(p[i][0]);
		told += write(p[i][1], "x", 1) == -1 && errno == EPIPE;
	}
	pthread_join(t, NULL);
	return told == PIPES ? 0 : 1;
}

/* Nothing of ours may hold a file of a process that has just begun to have threads. */
TEST(what_is_closed_after_the_first_thread_was_made_is_closed)
{
	/* Whoever else looks at /proc/PID/fd holds one for a moment. */
	enum { TIMES = 600, LOOKED_AT = 2 };
	int held = 0;

	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < TIMES; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(closes_after_its_first_thread());
		int status = status_of(pid);
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
		held += status != 0;
	}
	EXPECT(held <= LOOKED_AT);
}

/* ---- many at once ---- */

static int64_t cpu_ns(void)
{
	struct timespec t;

	EXPECT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* As in each child that Python makes. */
static void *closes_all_above(void *arg)
{
	enum { TIMES = 100, ALL_MS = 50 };
	int64_t begun = cpu_ns();

	for (int i = 0; i < TIMES; i++)
		EXPECT_EQ(close_range(2000, ~0u, 0), 0);
	EXPECT(cpu_ns() - begun < (int64_t)ALL_MS * 1000000);
	return arg;
}

TEST(closing_all_from_one_on_costs_no_more_than_there_are)
{
	closes_all_above(NULL);
	run(1, closes_all_above, NULL);
}

/* Each fork copies a table as large as the highest number. */
TEST(no_number_is_high_while_threads_wait)
{
	enum { USUAL = 1024 };
	struct rlimit files;
	pthread_t t;

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	close_range(USUAL, ~0u, 0);
	EXPECT_EQ(pipe(ends), 0);
	park(&t, 1, ends[0]);
	for (int fd = USUAL; fd < (int)files.rlim_max && fd < 70000; fd++)
		EXPECT_EQ(fcntl(fd, F_GETFD), -1);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(read_by(t), 1);
}

/* What /proc says of the room in the table. */
static int room(void)
{
	static const char label[] = "\nFDSize:";
	char text[4096] = "";
	int fd = open("/proc/self/status", O_RDONLY);

	EXPECT(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	EXPECT(strstr(text, label) != NULL);
	return atoi(strstr(text, label) + sizeof(label) - 1);
}

/* One that several threads have grows only after 10 ms and more. */
TEST(the_table_does_not_grow_because_somebody_waits)
{
	pthread_t t;
	int before;

	run(1, nothing, NULL);
	before = room();
	EXPECT_EQ(pipe(ends), 0);
	park(&t, 1, ends[0]);
	EXPECT_EQ(room(), before);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(read_by(t), 1);
}

/* ---- closed by a handler, too ---- */

enum { CLOSINGS = 300 };

static pthread_t closer;
static _Atomic int handlers_fd = -1;
static _Atomic bool closed_all;

static void closes_one(int sig)
{
	int kept = errno, fd = handlers_fd;

	(void)sig;
	handlers_fd = -1;
	if (fd >= 0)
		close(fd);
	errno = kept;
}

static void *sleeps_on(void *fd)
{
	char c;

	tick(&entered);
	/* It may be closed before. */
	(void)!read(*(int *)fd, &c, 1);
	return NULL;
}

static void *signals_on(void *arg)
{
	while (!closed_all) {
		pthread_kill(closer, SIGUSR1);
		sched_yield();
	}
	return arg;
}

/* Others sleep on both. */
static void *closes_amid_signals(void *arg)
{
	struct sigaction act = { .sa_handler = closes_one, .sa_flags = SA_RESTART };
	pthread_t storm;

	closer = pthread_self();
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	signal(SIGPIPE, SIG_IGN);
	start(&storm, 1, signals_on, NULL);
	for (int i = 0; i < CLOSINGS; i++) {
		int p[2][2];
		pthread_t t[2];
		for (int k = 0; k < 2; k++) {
			EXPECT_EQ(pipe(p[k]), 0);
			start(t + k, 1, sleeps_on, &p[k][0]);
		}
		await(&entered, 2 * i + 2);
		for (int k = 0; k < 20; k++)
			sched_yield();
		handlers_fd = p[1][0];
		EXPECT_EQ(close(p[0][0]), 0);
		while (handlers_fd >= 0)
			sched_yield();
		for (int k = 0; k < 2; k++)
			(void)!write(p[k][1], "x", 1);
		join(t, 2);
		for (int k = 0; k < 2; k++)
			EXPECT_EQ(close(p[k][1]), 0);
	}
	closed_all = true;
	join(&storm, 1);
	return arg;
}

TEST(a_handler_closes_what_others_sleep_on_as_it_interrupts_one_that_does)
{
	on_thread(closes_amid_signals, NULL);
}
