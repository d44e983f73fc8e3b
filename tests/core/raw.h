/* What tests of the running core need of the kernel, without libc, and the figures they
 * print. Raw calls are "unannounced": the core is not told that they may block. */
#ifndef HEDDLE_TESTS_RAW_H
#define HEDDLE_TESTS_RAW_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "../test.h"
#include "host.h"
#include "os.h"
#include "syscall.h"

/* Longer than any machine keeps one from the cpu. What should be soon is sooner. */
#define SLOW_NS (20000 * (uint64_t)MS)

enum { RAW_EINTR = 4, RAW_EAGAIN = 11, RAW_NONBLOCK = 04000, US = 1000, MS = 1000 * 1000 };

static inline long raw_read(int fd, void *to, size_t n)
{
	return arch_syscall3(__NR_read, fd, (long)to, (long)n);
}

static inline long raw_write(int fd, const void *from, size_t n)
{
	return arch_syscall3(__NR_write, fd, (long)from, (long)n);
}

static inline long raw_close(int fd)
{
	return arch_syscall3(__NR_close, fd, 0, 0);
}

/* A pipe; flags: 0 or RAW_NONBLOCK. */
static inline void raw_pipe(int fd[2], int flags)
{
	EXPECT_EQ(arch_syscall3(__NR_pipe2, (long)fd, flags, 0), 0);
}

/* Blocks the kernel thread for so long; the kernel's answer. */
static inline long raw_sleep(uint64_t ns)
{
	int64_t ts[2] = { (int64_t)(ns / 1000000000u), (int64_t)(ns % 1000000000u) };
	return arch_syscall3(__NR_nanosleep, (long)ts, 0, 0);
}

static inline long raw_poll_nothing(int ms)
{
	return arch_syscall3(__NR_poll, 0, 0, ms);
}

/* A kernel thread that is no M, for good: it sees what happens while every G waits, and needs
 * no P to do something. */
static inline void watcher(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, fn, arg), 0);
	EXPECT_EQ(pthread_detach(t), 0);
}

/* ---- figures ---- */
static inline void sort_ns(uint64_t *a, size_t n)
{
	/* Insertion in steps, as Shell's. */
	for (size_t gap = n / 2; gap > 0; gap /= 2)
		for (size_t i = gap; i < n; i++)
			for (size_t j = i; j >= gap && a[j - gap] > a[j]; j -= gap) {
				uint64_t t = a[j];
				a[j] = a[j - gap];
				a[j - gap] = t;
			}
}

/* Prints the spread of n measurements in µs, and sorts them. */
static inline void say_spread(const char *what, uint64_t *a, size_t n)
{
	sort_ns(a, n);
	test_say("  %s: median %llu us, p99 %llu us, most %llu us, n %llu", what,
		 (unsigned long long)a[n / 2] / US, (unsigned long long)a[n * 99 / 100] / US,
		 (unsigned long long)a[n - 1] / US, (unsigned long long)n);
}

/* What one in eight of them stays below, sorted: other processes may keep the rest from the cpu,
 * but what does not work is late each time. */
static inline uint64_t at_best(const uint64_t *a, size_t n)
{
	return a[n / 8];
}

/* The cpu time of this process, which other processes take nothing of. */
static inline uint64_t cpu_ns(void)
{
	return os_clock(2);
}

#endif
