/* What all of these programs share: times, threads started and joined by the number, what a
 * call must say, memory and children. It knows nothing of heddle, as the programs. */
#ifndef CONFORMANCE_THREADS_H
#define CONFORMANCE_THREADS_H

#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* SLOW_MS: longer than any machine keeps one from the cpu. What should be soon is sooner. */
enum { US = 1000, MS = 1000000, PAGE = 4096, SLOW_MS = 20000 };

#define FAILS(call, err)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		EXPECT_EQ(call, -1);                                                               \
		EXPECT_EQ(errno, err);                                                             \
	} while (0)

/* ---- time ---- */

static inline struct timespec in_us(clockid_t clock, long us)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += us % 1000000 * US;
	t.tv_sec += us / 1000000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static inline struct timespec in_ms(clockid_t clock, long ms)
{
	return in_us(clock, ms * 1000);
}

static inline long now_us(void)
{
	struct timespec t = in_us(CLOCK_MONOTONIC, 0);

	return t.tv_sec * 1000000 + t.tv_nsec / US;
}

static inline long now_ms(void)
{
	return now_us() / 1000;
}

/* That time has come by that clock, and not long ago. */
static inline bool just_past(clockid_t clock, const struct timespec *until)
{
	struct timespec now = in_us(clock, 0);
	long long s = now.tv_sec - until->tv_sec,
		  late = s * 1000000000 + now.tv_nsec - until->tv_nsec;

	return late >= 0 && late < (long long)SLOW_MS * MS;
}

/* At least so many ms since then, and not much longer. */
static inline bool took(long since, long least)
{
	long t = now_ms() - since;

	return t >= least && t < least + SLOW_MS;
}

#define TAKES_ABOUT(ms, slack, ...)                                                                \
	do {                                                                                       \
		long takes_since = now_ms();                                                       \
		__VA_ARGS__;                                                                       \
		EXPECT(took(takes_since, (ms) - (slack)));                                         \
	} while (0)

#define TAKES(ms, ...) TAKES_ABOUT(ms, 1, __VA_ARGS__)

/* ---- threads ---- */

static inline void start(pthread_t *t, int n, void *(*fn)(void *), void *arg)
{
	for (int i = 0; i < n; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, fn, arg), 0);
}

/* Each gets its number as argument. */
static inline void start_numbered(pthread_t *t, int n, void *(*fn)(void *))
{
	for (long i = 0; i < n; i++)
		start(&t[i], 1, fn, (void *)i);
}

static inline void join(const pthread_t *t, int n)
{
	for (int i = 0; i < n; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

/* Until nobody knows a thread of that number any more, which no event tells. For a moment after it
 * was joined the kernel does, and a detached one may hold what glibc keeps for all as it ends. */
static inline void await_end_of(pid_t tid)
{
	while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
		sched_yield();
	EXPECT_EQ(errno, ESRCH);
}

static inline void run(int n, void *(*fn)(void *), void *arg)
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));

	start(t, n, fn, arg);
	join(t, n);
	free(t);
}

static inline long result_of(pthread_t t)
{
	void *r;

	EXPECT_EQ(pthread_join(t, &r), 0);
	return (long)r;
}

/* What fn returns, run on a thread of its own. */
static inline long on_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	start(&t, 1, fn, arg);
	return result_of(t);
}

/* Here, then on another thread. */
static inline void twice(void *(*fn)(void *))
{
	fn(NULL);
	on_thread(fn, NULL);
}

/* Here while this thread is alone, then on n others and here at the same time. */
static inline void in_threads(int n, void *(*fn)(void *))
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));

	fn(NULL);
	start(t, n, fn, NULL);
	fn(NULL);
	join(t, n);
	free(t);
}

static inline void expect_cancelled(pthread_t t)
{
	EXPECT_EQ(result_of(t), (long)PTHREAD_CANCELED);
}

/* ---- signals ---- */

static inline void handle_with(int sig, void (*fn)(int), int flags)
{
	struct sigaction act = { .sa_handler = fn, .sa_flags = flags };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

/* how: SIG_BLOCK or SIG_UNBLOCK. */
static inline void mask(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	EXPECT_EQ(pthread_sigmask(how, &set, NULL), 0);
}

/* ---- memory, children, luck, moves ---- */

/* A page; how: MAP_PRIVATE or MAP_SHARED. */
static inline void *mapped(int how)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);

	EXPECT(page != MAP_FAILED);
	return page;
}

/* What waitpid says of a child that ends. */
static inline int status_of(pid_t pid)
{
	int status = -1;

	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static inline uint32_t chance(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* All that may carry a thread to another kernel thread. */
static inline void wander(void)
{
	for (int i = 0; i < 10; i++) {
		sched_yield();
		usleep(100);
	}
}

#endif
