/* What the tests of blocking calls share: a blocking call told as a row, and what must hold
 * of each row. A program writes
 *
 *   BLOCKS(read_of_a_pipe, .open = opens_pipe, .block = reads, .release = feeds, .wants = 1)
 *
 * and gets three tests: threads blocked in it hold up nobody and are all released; a handler
 * interrupts it as signal(7) says; a cancellation ends it, runs the cleanup, and leaves what
 * it would have taken. BLOCKS_UNCANCELLED leaves the last one out, for what is no
 * cancellation point, BLOCKS_UNINTERRUPTED the one before; HOLDS_UP_NOBODY is the first alone. */
#ifndef CONFORMANCE_COMMON_H
#define CONFORMANCE_COMMON_H

#include "event.h"

#include <poll.h>
#include <sys/socket.h>

enum { WAITERS = 8, KEPT = 4242, ANY = -2 };

/* One thread that blocks, and what it blocks on. */
struct wait {
	const struct row *row;
	pthread_t thread;
	int fd[2], more;
	pid_t pid;
	void *own;
	char path[64];
	long result;
	int error;
	struct event returned;
};

enum how {
	RESTARTS = 1, /* goes on after a handler with SA_RESTART */
	LIBRARY = 2, /* is more than one system call: may change errno when it succeeds */
	FAILS_SO = 4, /* what it wants when released is -1 and the errno in .error */
};

struct row {
	void (*open)(struct wait *w);
	long (*block)(struct wait *w);
	void (*release)(struct wait *w);
	long wants; /* what block() returns once released; ANY: no error */
	int how, error;
};

/* What the compiler must not see through: a pointer to nothing, a size that cannot be. */
__attribute__((unused)) static void *volatile nowhere = (void *)8;
__attribute__((unused)) static volatile size_t endless = (size_t)-1;

/* ---- descriptors ---- */

static inline void nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	EXPECT(flags >= 0);
	EXPECT_EQ(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK), 0);
}

/* Writes until no more goes in. */
static inline long fill(int fd)
{
	static const char junk[4096];
	long sum = 0, r;

	nonblocking(fd, true);
	for (size_t n = sizeof(junk); n > 0; n /= 64)
		while ((r = write(fd, junk, n)) > 0)
			sum += r;
	EXPECT(errno == EAGAIN || errno == EWOULDBLOCK);
	nonblocking(fd, false);
	return sum;
}

/* Reads until nothing is left; a message of length 0 does not end it on a datagram socket. */
static inline long drain(int fd)
{
	static char junk[65536];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	long sum = 0;

	while (poll(&p, 1, 0) == 1 && (p.revents & POLLIN)) {
		long r = read(fd, junk, sizeof(junk));
		EXPECT(r >= 0);
		if (r == 0)
			break;
		sum += r;
	}
	return sum;
}

static inline void write_all(int fd, const void *from, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = write(fd, (const char *)from + done, n - done);
		EXPECT(r > 0);
		done += (size_t)r;
	}
}

static inline void read_all(int fd, void *to, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = read(fd, (char *)to + done, n - done);
		EXPECT(r > 0);
		done += (size_t)r;
	}
}

/* ---- what rows on pipes have in common ---- */

static inline void opens_pipe(struct wait *w)
{
	EXPECT_EQ(pipe(w->fd), 0);
}

static inline void feeds_pipe(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "x", 1), 1);
}

/* Of one page, so that it is full soon and holds nothing half. */
static inline void opens_full_pipe(struct wait *w)
{
	opens_pipe(w);
	EXPECT_EQ(fcntl(w->fd[1], F_SETPIPE_SZ, PAGE), PAGE);
	EXPECT_EQ(fill(w->fd[1]), PAGE);
}

static inline void drains_pipe(struct wait *w)
{
	EXPECT(drain(w->fd[0]) >= PAGE);
}

/* ---- a row and its tests ---- */

static struct event entered, returned, cleaned, handled;
static _Atomic int counted;

static inline void handles(int sig)
{
	(void)sig;
	tick(&handled);
}

static inline void handle(int sig, int flags)
{
	handle_with(sig, handles, flags);
}

static inline void cleans(void *arg)
{
	(void)arg;
	tick(&cleaned);
}

static inline void *blocks_in_row(void *arg)
{
	struct wait *w = arg;

	pthread_cleanup_push(cleans, NULL);
	tick(&entered);
	errno = KEPT;
	w->result = w->row->block(w);
	w->error = errno;
	tick(&w->returned);
	tick(&returned);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Takes what it writes there, until it is through: several pieces, the last of them unknown. */
static inline void drain_until_returned(struct wait *w, int fd)
{
	do
		drain(fd);
	while (!comes_within_us(&w->returned, 1, 500));
}

/* A blocked thread is no hindrance to this one. */
static inline void *counts(void *arg)
{
	for (int i = 1; i <= 20000; i++) {
		counted = i;
		if (i % 256 == 0)
			sched_yield();
	}
	return arg;
}

static inline void expect_progress(void)
{
	long long since = now_ms();
	pthread_t t;

	counted = 0;
	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(counted, 20000);
	EXPECT(now_ms() - since < SLOW_MS);
}

static inline void wait_opens(struct wait *w, const struct row *r)
{
	memset(w, 0, sizeof(*w));
	w->row = r;
	w->fd[0] = w->fd[1] = w->more = -1;
	if (r->open)
		r->open(w);
}

static inline void waits_open(struct wait *w, int n, const struct row *r)
{
	for (int i = 0; i < n; i++)
		wait_opens(&w[i], r);
}

static inline void wait_begins(struct wait *w)
{
	EXPECT_EQ(pthread_create(&w->thread, NULL, blocks_in_row, w), 0);
}

static inline void expect_released(struct wait *w)
{
	const struct row *r = w->row;

	EXPECT_EQ(pthread_join(w->thread, NULL), 0);
	EXPECT_EQ(w->returned.n, 1);
	if (r->how & FAILS_SO) {
		EXPECT_EQ(w->result, -1);
		EXPECT_EQ(w->error, r->error);
		return;
	}
	if (w->result == -1)
		EXPECT_EQ(w->error, 0);
	if (r->wants != ANY)
		EXPECT_EQ(w->result, r->wants);
	if (!(r->how & LIBRARY))
		EXPECT_EQ(w->error, KEPT);
}

static inline void row_holds_up_nobody(const struct row *r)
{
	static struct wait w[WAITERS];

	waits_open(w, WAITERS, r);
	for (int i = 0; i < WAITERS; i++)
		wait_begins(&w[i]);
	await(&entered, WAITERS);
	settle();
	expect_progress();
	EXPECT_EQ(returned.n, 0);
	for (int i = 0; i < WAITERS; i += 2)
		r->release(&w[i]);
	for (int i = 0; i < WAITERS; i += 2)
		expect_released(&w[i]);
	EXPECT_EQ(returned.n, WAITERS / 2);
	for (int i = 1; i < WAITERS; i += 2)
		r->release(&w[i]);
	for (int i = 1; i < WAITERS; i += 2)
		expect_released(&w[i]);
}

static inline void row_is_interrupted(const struct row *r)
{
	static struct wait w[3];

	handle(SIGUSR1, 0);
	waits_open(w, 3, r);
	for (int i = 0; i < 2; i++)
		wait_begins(&w[i]);
	await(&entered, 2);
	for (int i = 0; i < 2; i++) {
		interrupt(w[i].thread, SIGUSR1, &w[i].returned, 1);
		EXPECT_EQ(pthread_join(w[i].thread, NULL), 0);
		EXPECT_EQ(w[i].result, -1);
		EXPECT_EQ(w[i].error, EINTR);
		if (w[i].path[0])
			unlink(w[i].path);
	}
	EXPECT(handled.n >= 2);

	handle(SIGUSR1, SA_RESTART);
	wait_begins(&w[2]);
	await(&entered, 3);
	if (r->how & RESTARTS) {
		for (int i = 0; i < 5 && !w[2].returned.n; i++) {
			interrupt(w[2].thread, SIGUSR1, &handled, handled.n + 1);
			settle();
		}
		EXPECT_EQ(w[2].returned.n, 0);
		r->release(&w[2]);
		expect_released(&w[2]);
	} else {
		interrupt(w[2].thread, SIGUSR1, &w[2].returned, 1);
		EXPECT_EQ(pthread_join(w[2].thread, NULL), 0);
		EXPECT_EQ(w[2].result, -1);
		EXPECT_EQ(w[2].error, EINTR);
	}
}

/* What was cancelled has taken nothing: the same call succeeds after a release. */
static inline void row_is_cancelled(const struct row *r)
{
	static struct wait w[WAITERS];
	void *result;

	waits_open(w, WAITERS, r);
	for (int i = 0; i < WAITERS; i++)
		wait_begins(&w[i]);
	await(&entered, WAITERS);
	settle();
	for (int i = 0; i < WAITERS; i++)
		EXPECT_EQ(pthread_cancel(w[i].thread), 0);
	for (int i = 0; i < WAITERS; i++) {
		EXPECT_EQ(pthread_join(w[i].thread, &result), 0);
		EXPECT(result == PTHREAD_CANCELED);
	}
	EXPECT_EQ(cleaned.n, WAITERS);
	EXPECT_EQ(returned.n, 0);
	for (int i = 0; i < WAITERS; i++) {
		wait_begins(&w[i]);
		r->release(&w[i]);
		expect_released(&w[i]);
	}
}

#define ROW(name, ...) static const struct row row_##name = { __VA_ARGS__ };

#define HOLDS_UP_NOBODY(name, ...)                                                                 \
	ROW(name, __VA_ARGS__)                                                                     \
	TEST(name##_holds_up_nobody)                                                               \
	{                                                                                          \
		row_holds_up_nobody(&row_##name);                                                  \
	}

#define BLOCKS_UNCANCELLED(name, ...)                                                              \
	HOLDS_UP_NOBODY(name, __VA_ARGS__)                                                         \
	TEST(name##_is_interrupted_as_signal_7_says)                                               \
	{                                                                                          \
		row_is_interrupted(&row_##name);                                                   \
	}

#define CANCELLED(name)                                                                            \
	TEST(name##_can_be_cancelled)                                                              \
	{                                                                                          \
		row_is_cancelled(&row_##name);                                                     \
	}

#define BLOCKS(name, ...)                                                                          \
	BLOCKS_UNCANCELLED(name, __VA_ARGS__)                                                      \
	CANCELLED(name)

#define BLOCKS_UNINTERRUPTED(name, ...)                                                            \
	HOLDS_UP_NOBODY(name, __VA_ARGS__)                                                         \
	CANCELLED(name)

#endif
