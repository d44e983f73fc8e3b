/* Storms: signals, children, cancellations and descriptors, many and at random, with exact
 * accounts. Each lasts a second, or $STORM_SECONDS. */
#include "event.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

enum { STORM_LIMIT = 120 };

static volatile bool over;

static void *ends_the_storm(void *arg)
{
	const char *text = getenv("STORM_SECONDS");
	sigset_t all;

	/* Which would end the sleep. */
	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	sleep(text ? (unsigned)atoi(text) : 1);
	over = true;
	return arg;
}

static pthread_t begin(void)
{
	pthread_t t;

	start(&t, 1, ends_the_storm, NULL);
	return t;
}

/* ---- signals: 10,000 a second, to threads that park, run and block, and to the process ---- */

/* So many at least, however slow; of these so many not handled yet: the kernel queues no more. */
enum { TARGETS = 12, PER_MS = 10, LEAST = 3000, QUEUED_AT_ONCE = 300, BATCH = 200 };

/* To a thread: queued, and one that merges; to the process: queued, sent with and without a
 * value, and one that merges. */
enum {
	DIRECTED = 34,
	PROCESS_QUEUED,
	PROCESS_KILLED,
	DIRECTED_MERGED = SIGUSR1,
	PROCESS_MERGED = SIGUSR2
};

struct account {
	long sent;
	struct event handled;
};

static struct target {
	pthread_t t;
	struct account queued, merged;
	struct event begun, end;
	int ends[2];
	bool blocks; /* all of them, until the end */
} targets[TARGETS];

static struct account process[3];
static __thread struct target *self;
static _Atomic long strays, sum_of_values;

static struct account *account_of(int sig)
{
	switch (sig) {
	case PROCESS_QUEUED:
		return &process[0];
	case PROCESS_KILLED:
		return &process[1];
	case PROCESS_MERGED:
		return &process[2];
	default:
		return !self ? NULL : sig == DIRECTED ? &self->queued : &self->merged;
	}
}

static void on_signal(int sig, siginfo_t *info, void *uc)
{
	struct account *a = account_of(sig);

	(void)uc;
	if (!a || (self && self->blocks))
		atomic_fetch_add(&strays, 1);
	else
		tick(&a->handled);
	if (sig == PROCESS_QUEUED)
		sum_of_values += info->si_value.sival_int;
}

static void parks_again_and_again(void)
{
	usleep(500);
}

static void waits_for_input(void)
{
	struct pollfd p = { self->ends[0], POLLIN, 0 };

	poll(&p, 1, 1);
}

static void computes_on(void)
{
	volatile unsigned x = 1;

	for (int i = 0; i < 20000; i++)
		x = x * 1664525 + 1013904223;
}

static void blocks_in_the_kernel(void)
{
	struct timespec t = { .tv_nsec = 200 * US };

	/* Not by our own road. */
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
}

static void all_signals(int how)
{
	mask(how, DIRECTED);
	mask(how, DIRECTED_MERGED);
	mask(how, PROCESS_QUEUED);
	mask(how, PROCESS_KILLED);
	mask(how, PROCESS_MERGED);
}

/* What was pending for it comes all, and comes here. */
static void lets_in(struct target *me)
{
	me->blocks = false;
	all_signals(SIG_UNBLOCK);
	await(&me->queued.handled, (int)me->queued.sent);
	await(&me->merged.handled, me->merged.sent > 0);
	EXPECT_EQ(me->merged.handled.n, me->merged.sent > 0);
}

static void *is_target(void *arg)
{
	static void (*const ways[])(void) = { parks_again_and_again, waits_for_input, computes_on,
					      blocks_in_the_kernel };
	long i = (long)arg;

	self = &targets[i];
	self->blocks = i % 3 == 2;
	if (self->blocks)
		all_signals(SIG_BLOCK);
	tick(&self->begun);
	while (atomic_load(&self->end.n) == 0)
		ways[i % 4]();
	if (self->blocks)
		lets_in(self);
	return arg;
}

static bool room(const struct account *a)
{
	return a->sent - a->handled.n < QUEUED_AT_ONCE;
}

static void send_at_random(uint64_t *luck)
{
	struct target *to = &targets[chance(luck) % TARGETS];
	union sigval value = { .sival_int = (int)(chance(luck) % 1000) };
	struct account *a;

	switch (chance(luck) % 8) {
	case 0:
		a = &process[0];
		if (!room(a))
			return;
		a->sent++;
		sum_of_values -= value.sival_int;
		EXPECT_EQ(sigqueue(getpid(), PROCESS_QUEUED, value), 0);
		break;
	case 1:
		a = &process[1];
		if (!room(a))
			return;
		a->sent++;
		EXPECT_EQ(kill(getpid(), PROCESS_KILLED), 0);
		break;
	case 2:
		process[2].sent++;
		EXPECT_EQ(kill(getpid(), PROCESS_MERGED), 0);
		break;
	case 3:
		to->merged.sent++;
		EXPECT_EQ(pthread_kill(to->t, DIRECTED_MERGED), 0);
		break;
	default:
		if (!room(&to->queued))
			return;
		to->queued.sent++;
		EXPECT_EQ(pthread_kill(to->t, DIRECTED), 0);
	}
}

static long sent(void)
{
	long sum = 0;

	for (int i = 0; i < 3; i++)
		sum += process[i].sent;
	for (int i = 0; i < TARGETS; i++)
		sum += targets[i].queued.sent + targets[i].merged.sent;
	return sum;
}

static void handled_as_sent(struct target *to)
{
	tick(&to->end);
	await(&to->queued.handled, (int)to->queued.sent);
	EXPECT_EQ(pthread_join(to->t, NULL), 0);
	EXPECT_EQ(to->queued.handled.n, to->queued.sent);
	EXPECT(to->merged.handled.n <= to->merged.sent);
	EXPECT_EQ(to->merged.handled.n > 0, to->merged.sent > 0);
}

TEST_IN(STORM_LIMIT, of_ten_thousand_signals_a_second_none_is_lost_or_goes_astray)
{
	static const int signals[] = { DIRECTED, PROCESS_QUEUED, PROCESS_KILLED, DIRECTED_MERGED,
				       PROCESS_MERGED };
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	uint64_t luck = test_seed();
	pthread_t timer;
	long since, due = 0, now;

	for (int i = 0; i < 5; i++)
		EXPECT_EQ(sigaction(signals[i], &action, NULL), 0);
	for (long i = 0; i < TARGETS; i++) {
		EXPECT_EQ(pipe(targets[i].ends), 0);
		start(&targets[i].t, 1, is_target, (void *)i);
		await(&targets[i].begun, 1);
	}
	timer = begin();
	since = now_ms();
	while (!over || sent() < LEAST) {
		now = (now_ms() - since) * PER_MS;
		for (int i = 0; i < BATCH && due < now; i++, due++)
			send_at_random(&luck);
		usleep(1000);
	}
	for (int i = 0; i < 3; i++)
		await(&process[i].handled, i < 2 ? (int)process[i].sent : process[i].sent > 0);
	for (int i = 0; i < TARGETS; i++)
		handled_as_sent(&targets[i]);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(process[i].handled.n, process[i].sent);
	EXPECT(process[2].handled.n <= process[2].sent);
	EXPECT_EQ(sum_of_values, 0);
	EXPECT_EQ(strays, 0);
	EXPECT_EQ(pthread_join(timer, NULL), 0);
	test_say("  %lld signals in %lld ms", (long long)sent(), (long long)(now_ms() - since));
}

/* ---- children, from several threads beside others that lock and allocate ---- */

/* So many at least, however slow. */
enum { CHILDREN = 30 };

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long children;
static _Atomic bool enough;

static void *locks_and_allocates(void *arg)
{
	while (!enough) {
		pthread_mutex_lock(&busy);
		free(malloc(1 + (size_t)chance(&(uint64_t){ 7 }) % 5000));
		pthread_mutex_unlock(&busy);
		sched_yield();
	}
	return arg;
}

static void *says_so(void *arg)
{
	return arg;
}

static void *has_children(void *arg)
{
	uint64_t luck = test_seed() + (uint64_t)(long)arg;

	while (!over || children < CHILDREN) {
		int code = (int)(chance(&luck) % 100), status;
		bool threads = chance(&luck) % 2;
		pid_t pid = fork();
		if (pid == 0) {
			if (threads)
				code = (int)on_thread(says_so, (void *)(long)code);
			_exit(code);
		}
		EXPECT(pid > 0);
		status = status_of(pid);
		EXPECT(WIFEXITED(status));
		EXPECT_EQ(WEXITSTATUS(status), code);
		atomic_fetch_add(&children, 1);
	}
	return arg;
}

static int open_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	int n = 0;

	EXPECT(all != NULL);
	while (readdir(all))
		n++;
	closedir(all);
	return n;
}

TEST_IN(STORM_LIMIT, children_of_busy_threads_live_and_are_waited_for)
{
	pthread_t timer = begin(), parents[4], others[4];
	int before = open_descriptors();

	start(others, 4, locks_and_allocates, NULL);
	start_numbered(parents, 4, has_children);
	join(parents, 4);
	enough = true;
	join(others, 4);
	EXPECT_EQ(pthread_join(timer, NULL), 0);
	FAILS(waitpid(-1, NULL, WNOHANG), ECHILD);
	EXPECT_EQ(open_descriptors(), before);
	test_say("  %lld children", (long long)children);
}

/* ---- cancellations, at any moment of any call ---- */

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t nobody_posts;
static int silent[2];
static _Atomic long begun, ended;

static void unlocks(void *arg)
{
	pthread_mutex_unlock(arg);
}

static void counts(void *arg)
{
	(void)arg;
	atomic_fetch_add(&ended, 1);
}

static void call_at_random(uint64_t *luck)
{
	struct pollfd p = { silent[0], POLLIN, 0 };
	char c;

	switch (chance(luck) % 7) {
	case 0:
		sem_wait(&nobody_posts);
		break;
	case 1:
		EXPECT_EQ(read(silent[0], &c, 1), -1);
		break;
	case 2:
		usleep(chance(luck) % 200);
		break;
	case 3:
		poll(&p, 1, (int)(chance(luck) % 3));
		break;
	case 4:
		pthread_testcancel();
		break;
	case 5:
		sched_yield();
		break;
	default:
		pthread_mutex_lock(&busy);
		pthread_cleanup_push(unlocks, &busy);
		pthread_cond_wait(&never, &busy);
		pthread_cleanup_pop(1);
	}
}

static void *goes_on_until_cancelled(void *arg)
{
	uint64_t luck = test_seed() + (uint64_t)(long)arg;

	atomic_fetch_add(&begun, 1);
	pthread_cleanup_push(counts, NULL);
	for (;;)
		call_at_random(&luck);
	pthread_cleanup_pop(0);
	return arg;
}

TEST_IN(STORM_LIMIT, threads_cancelled_at_any_moment_end_and_clean_up)
{
	enum { AT_ONCE = 16 };
	uint64_t luck = test_seed();
	pthread_t timer = begin(), t[AT_ONCE];
	long made = 0;

	sem_init(&nobody_posts, 0, 0);
	EXPECT_EQ(pipe(silent), 0);
	while (!over) {
		for (int i = 0; i < AT_ONCE; i++)
			start(&t[i], 1, goes_on_until_cancelled, (void *)made++);
		if (chance(&luck) % 2)
			usleep(chance(&luck) % 1000);
		for (int i = 0; i < AT_ONCE; i++)
			EXPECT_EQ(pthread_cancel(t[i]), 0);
		for (int i = 0; i < AT_ONCE; i++)
			expect_cancelled(t[i]);
		/* Who was cancelled before it began cleans nothing up. */
		EXPECT_EQ(ended, begun);
		EXPECT_EQ(pthread_mutex_trylock(&busy), 0);
		pthread_mutex_unlock(&busy);
	}
	EXPECT_EQ(pthread_join(timer, NULL), 0);
	test_say("  %lld threads", (long long)made);
}

/* ---- descriptors: bytes go through them while they are duplicated, closed and polled ---- */

enum { STREAMS = 8, CHUNK = 3000 };

static struct stream {
	int fd[2];
	long wrote, read;
} streams[STREAMS];

static void make_stream(struct stream *s, bool is_pipe)
{
	EXPECT_EQ(is_pipe ? pipe(s->fd) : socketpair(AF_UNIX, SOCK_STREAM, 0, s->fd), 0);
}

/* By one of its numbers at random, which is closed after. */
static int another(int fd, uint64_t *luck)
{
	int copy = chance(luck) % 2 ? dup(fd) : fd;

	EXPECT(copy >= 0);
	return copy;
}

static void done_with(int copy, int fd)
{
	if (copy != fd)
		EXPECT_EQ(close(copy), 0);
}

static void *writes_at_random(void *arg)
{
	struct stream *s = &streams[(long)arg];
	uint64_t luck = test_seed() + (uint64_t)(long)arg;
	unsigned char buf[CHUNK];

	while (!over) {
		size_t n = 1 + chance(&luck) % CHUNK;
		int fd = another(s->fd[1], &luck);
		for (size_t i = 0; i < n; i++)
			buf[i] = (unsigned char)(s->wrote + (long)i);
		EXPECT_EQ(write(fd, buf, n), (ssize_t)n);
		s->wrote += (long)n;
		done_with(fd, s->fd[1]);
		if (chance(&luck) % 8 == 0)
			usleep(chance(&luck) % 300);
	}
	EXPECT_EQ(close(s->fd[1]), 0);
	return arg;
}

static void wait_in_some_way(int fd, uint64_t *luck)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct epoll_event e = { EPOLLIN, { .fd = fd } };
	fd_set set;
	int ep;

	switch (chance(luck) % 4) {
	case 0:
		EXPECT_EQ(poll(&p, 1, -1), 1);
		break;
	case 1:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		EXPECT_EQ(select(fd + 1, &set, NULL, NULL, NULL), 1);
		break;
	case 2:
		ep = epoll_create1(0);
		EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
		EXPECT_EQ(epoll_wait(ep, &e, 1, -1), 1);
		EXPECT_EQ(close(ep), 0);
		break;
	default:
		break;
	}
}

static void *reads_at_random(void *arg)
{
	struct stream *s = &streams[(long)arg];
	uint64_t luck = test_seed() + 1000 + (uint64_t)(long)arg;
	unsigned char buf[2 * CHUNK];
	ssize_t n;

	do {
		int fd = another(s->fd[0], &luck);
		wait_in_some_way(fd, &luck);
		n = read(fd, buf, 1 + chance(&luck) % sizeof(buf));
		EXPECT(n >= 0);
		for (ssize_t i = 0; i < n; i++)
			EXPECT_EQ(buf[i], (unsigned char)(s->read + i));
		s->read += n;
		done_with(fd, s->fd[0]);
	} while (n > 0);
	EXPECT_EQ(close(s->fd[0]), 0);
	return arg;
}

/* Numbers come and go beside them, and are used again. */
static void *opens_and_closes(void *arg)
{
	uint64_t luck = test_seed() + 2000;

	while (!over) {
		struct stream s;
		struct pollfd p;
		make_stream(&s, chance(&luck) % 2);
		p = (struct pollfd){ s.fd[0], POLLIN, 0 };
		EXPECT_EQ(poll(&p, 1, 0), 0);
		EXPECT_EQ(close(s.fd[1]), 0);
		EXPECT_EQ(poll(&p, 1, -1), 1);
		EXPECT_EQ(close(s.fd[0]), 0);
	}
	return arg;
}

TEST_IN(STORM_LIMIT, each_byte_arrives_while_descriptors_come_and_go)
{
	pthread_t timer = begin(), writers[STREAMS], readers[STREAMS], others[2];
	long sum = 0;

	for (int i = 0; i < STREAMS; i++)
		make_stream(&streams[i], i % 2);
	start(others, 2, opens_and_closes, NULL);
	start_numbered(readers, STREAMS, reads_at_random);
	start_numbered(writers, STREAMS, writes_at_random);
	join(writers, STREAMS);
	join(readers, STREAMS);
	join(others, 2);
	for (int i = 0; i < STREAMS; i++) {
		EXPECT_EQ(streams[i].read, streams[i].wrote);
		sum += streams[i].read;
	}
	EXPECT_EQ(pthread_join(timer, NULL), 0);
	test_say("  %lld bytes", (long long)sum);
}
