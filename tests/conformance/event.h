/* Waiting for what other threads do: a count that they raise and one awaits, on a raw private
 * futex; and for all of them to have gone to sleep, which no event can tell. */
#ifndef CONFORMANCE_EVENT_H
#define CONFORMANCE_EVENT_H

#include "threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* n is looked at and set back by whom it belongs to, but raised by tick() alone. */
struct event {
	_Atomic int n, awaited;
};

/* Also for handlers of signals. */
static inline void ticks(struct event *e, int by)
{
	int kept = errno;

	/* Full fences, here and in comes(): who awaits is seen, or sees n raised. */
	atomic_fetch_add(&e->n, by);
	if (atomic_load(&e->awaited) > 0)
		syscall(SYS_futex, &e->n, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = kept;
}

static inline void tick(struct event *e)
{
	ticks(e, 1);
}

/* Waits until n is reached, or until that time by CLOCK_MONOTONIC; true if it is reached. */
static inline bool comes(struct event *e, int n, const struct timespec *until)
{
	bool in_time = true;
	int now;

	atomic_fetch_add(&e->awaited, 1);
	while ((now = atomic_load(&e->n)) < n && in_time)
		in_time = syscall(SYS_futex, &e->n, FUTEX_WAIT_BITSET_PRIVATE, now, until, NULL,
				  FUTEX_BITSET_MATCH_ANY) == 0 ||
			  errno != ETIMEDOUT;
	atomic_fetch_sub(&e->awaited, 1);
	return now >= n;
}

static inline void await(struct event *e, int n)
{
	comes(e, n, NULL);
}

static inline bool comes_within_us(struct event *e, int n, long us)
{
	struct timespec until = in_us(CLOCK_MONOTONIC, us);

	return comes(e, n, &until);
}

/* Sends it until *e has come to n: what comes before a call has begun does not interrupt it,
 * and nobody sees a call begin. */
static inline void interrupt(pthread_t t, int sig, struct event *e, int n)
{
	do
		EXPECT_EQ(pthread_kill(t, sig), 0);
	while (!comes_within_us(e, n, 500));
}

/* The kernel's word: where threads have no kernel threads of their own, this one's of the moment.
 */
static inline pid_t kernel_tid(void)
{
	pid_t tid;

	__asm__ volatile("syscall" : "=a"(tid) : "a"(SYS_gettid) : "rcx", "r11", "memory");
	return tid;
}

/* How many kernel threads of the process do not sleep. */
static inline int awake(pid_t pid)
{
	char path[300], stat[400];
	struct dirent *entry;
	int sum = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	EXPECT(tasks != NULL);
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, entry->d_name);
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof(stat) - 1);
		if (fd >= 0)
			close(fd);
		/* "12 (name) S …"; one that has ended meanwhile has none. */
		stat[n > 0 ? n : 0] = 0;
		char *end = strrchr(stat, ')');
		sum += end && strchr("RD", end[2]);
	}
	closedir(tasks);
	return sum;
}

/* Four looks in a row: one is not taken at one moment, and who is to run may be handed from a
 * kernel thread that is still to be looked at to one that was. Before each whoever is ready has
 * a turn: where threads have no kernel threads of their own one may be that had to give way, even
 * to the looker when its sleep was over, and no kernel thread shows it. The sleep now and then is
 * for events that are looked for only by who has nothing else to do. */
static inline void await_sleep_of(pid_t pid, int but)
{
	for (int looks = 0, quiet = 0; quiet < 4; looks++) {
		if (looks % 20 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 100 * US }, NULL);
		sched_yield();
		quiet = awake(pid) > but ? 0 : quiet + 1;
	}
}

/* All other threads are blocked. Where threads have no kernel threads of their own, then those
 * sleep that there are: there is nobody to run. */
static inline void settle(void)
{
	await_sleep_of(getpid(), 1);
}

#endif
