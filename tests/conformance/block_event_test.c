/* eventfd, timerfd, signalfd, inotify, terminals. The same holds natively. */
#include "common.h"

#include <pty.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>

static int ends[2];

/* ---- eventfd ---- */

static void opens_eventfd(struct wait *w)
{
	w->fd[0] = eventfd(0, EFD_CLOEXEC);
	EXPECT(w->fd[0] >= 0);
}

static void posts(struct wait *w)
{
	EXPECT_EQ(eventfd_write(w->fd[0], 5), 0);
}

static long reads_eight(struct wait *w)
{
	uint64_t value;
	long r = read(w->fd[0], &value, sizeof(value));

	EXPECT(r != 8 || value == 5);
	return r;
}

static long in_eventfd_read(struct wait *w)
{
	eventfd_t value = 0;
	int r = eventfd_read(w->fd[0], &value);

	EXPECT(r != 0 || value == 5);
	return r;
}

static long polls(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };

	return poll(&p, 1, -1);
}

static void opens_full_eventfd(struct wait *w)
{
	w->fd[0] = eventfd(0, 0);
	EXPECT_EQ(eventfd_write(w->fd[0], UINT64_MAX - 1), 0);
}

static long writes_eight(struct wait *w)
{
	uint64_t value = 5;

	return write(w->fd[0], &value, sizeof(value));
}

static void takes_all(struct wait *w)
{
	eventfd_t value;

	EXPECT_EQ(eventfd_read(w->fd[0], &value), 0);
	EXPECT_EQ(value, UINT64_MAX - 1);
}

BLOCKS(read_eventfd, .open = opens_eventfd, .block = reads_eight, .release = posts, .wants = 8,
       .how = RESTARTS)
BLOCKS(eventfd_read, .open = opens_eventfd, .block = in_eventfd_read, .release = posts, .wants = 0,
       .how = RESTARTS)
BLOCKS(poll_eventfd, .open = opens_eventfd, .block = polls, .release = posts, .wants = 1)
BLOCKS(write_full_eventfd, .open = opens_full_eventfd, .block = writes_eight, .release = takes_all,
       .wants = 8, .how = RESTARTS)

static struct event sum;

static void *takes_ones(void *arg)
{
	for (int i = 0; i < 50; i++) {
		eventfd_t value;
		EXPECT_EQ(eventfd_read(ends[0], &value), 0);
		EXPECT_EQ(value, 1);
		tick(&sum);
	}
	return arg;
}

TEST(an_eventfd_semaphore_gives_one_to_each)
{
	pthread_t t[6];
	uint64_t value;

	ends[0] = eventfd(0, EFD_SEMAPHORE);
	start(t, 6, takes_ones, NULL);
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(eventfd_write(ends[0], 3), 0);
		if (i % 25 == 0)
			await(&sum, 3 * i);
	}
	join(t, 6);
	nonblocking(ends[0], true);
	FAILS(read(ends[0], &value, 8), EAGAIN);
	FAILS(read(ends[0], &value, 7), EINVAL);
	value = UINT64_MAX;
	FAILS(write(ends[0], &value, 8), EINVAL);
	FAILS(write(ends[0], &value, 4), EINVAL);
}

static void *adds_up(void *arg)
{
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(eventfd_write(ends[0], 2), 0);
	return arg;
}

TEST(an_eventfd_adds_up_what_many_write)
{
	pthread_t t[4];

	ends[0] = eventfd(0, 0);
	start(t, 4, adds_up, NULL);
	for (uint64_t all = 0, value; all < 8000; all += value) {
		EXPECT_EQ(read(ends[0], &value, 8), 8);
		EXPECT(value > 0 && value % 2 == 0);
		EXPECT(all + value <= 8000);
	}
	join(t, 4);
}

/* Two hand each other the turn: no wake-up is lost. */
static void *answers(void *arg)
{
	eventfd_t value;

	for (int i = 0; i < 300; i++) {
		EXPECT_EQ(eventfd_read(ends[0], &value), 0);
		EXPECT_EQ(value, 1);
		EXPECT_EQ(eventfd_write(ends[1], 1), 0);
	}
	return arg;
}

TEST(two_threads_take_turns_by_eventfds)
{
	eventfd_t value;
	pthread_t t;

	ends[0] = eventfd(0, 0);
	ends[1] = eventfd(0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, answers, NULL), 0);
	for (int i = 0; i < 300; i++) {
		EXPECT_EQ(eventfd_write(ends[0], 1), 0);
		EXPECT_EQ(eventfd_read(ends[1], &value), 0);
		EXPECT_EQ(value, 1);
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- timerfd ---- */

static void arms(int fd, int ms, int again)
{
	struct itimerspec t = { .it_value.tv_nsec = ms * MS, .it_interval.tv_nsec = again * MS };

	EXPECT_EQ(timerfd_settime(fd, 0, &t, NULL), 0);
}

static void opens_timerfd(struct wait *w)
{
	w->fd[0] = timerfd_create(CLOCK_MONOTONIC, 0);
	EXPECT(w->fd[0] >= 0);
}

static void starts(struct wait *w)
{
	arms(w->fd[0], 1, 0);
}

static long reads_expirations(struct wait *w)
{
	uint64_t value;
	long r = read(w->fd[0], &value, sizeof(value));

	EXPECT(r != 8 || value == 1);
	return r;
}

BLOCKS(read_timerfd, .open = opens_timerfd, .block = reads_expirations, .release = starts,
       .wants = 8, .how = RESTARTS)
BLOCKS(poll_timerfd, .open = opens_timerfd, .block = polls, .release = starts, .wants = 1)

static void *reads_ticks(void *arg)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	long long since = now_ms();
	uint64_t n, all = 0;

	arms(fd, 5, 5);
	while (all < 20) {
		EXPECT_EQ(read(fd, &n, sizeof(n)), 8);
		EXPECT(n >= 1);
		all += n;
		EXPECT((long long)all * 5 <= now_ms() - since + 1);
	}
	EXPECT(took(since, 99));
	/* What was missed in a time is counted. */
	usleep(30000);
	EXPECT_EQ(read(fd, &n, sizeof(n)), 8);
	EXPECT(n >= 5);
	arms(fd, 0, 0);
	nonblocking(fd, true);
	FAILS(read(fd, &n, sizeof(n)), EAGAIN);
	FAILS(read(fd, &n, 4), EINVAL);
	EXPECT_EQ(close(fd), 0);
	return arg;
}

TEST(a_periodic_timerfd_counts_its_ticks)
{
	pthread_t t[6];

	start(t, 6, reads_ticks, NULL);
	join(t, 6);
}

static void *waits_for_a_timer(void *arg)
{
	struct wait w = { .fd = { ends[0], -1 } };

	EXPECT_EQ(reads_expirations(&w), 8);
	tick(&returned);
	return arg;
}

TEST(one_expiration_is_for_one_of_those_who_read)
{
	pthread_t t[4];

	ends[0] = timerfd_create(CLOCK_MONOTONIC, 0);
	start(t, 4, waits_for_a_timer, NULL);
	for (int i = 1; i <= 4; i++) {
		arms(ends[0], 3, 0);
		await(&returned, i);
		settle();
		EXPECT_EQ(returned.n, i);
	}
	join(t, 4);
}

/* ---- signalfd: of signals that all threads block ---- */

static int signalfd_of(int sig, int flags)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return signalfd(-1, &set, flags);
}

/* Each waiter its own signal, so that each release is of one. */
static void opens_signalfd(struct wait *w)
{
	static int next;

	w->more = SIGRTMIN + 2 + next++ % 20;
	mask(SIG_BLOCK, w->more);
	w->fd[0] = signalfd_of(w->more, SFD_CLOEXEC);
	EXPECT(w->fd[0] >= 0);
}

static void sends(struct wait *w)
{
	EXPECT_EQ(kill(getpid(), w->more), 0);
}

static long reads_signal(struct wait *w)
{
	struct signalfd_siginfo info;
	long r = read(w->fd[0], &info, sizeof(info));

	EXPECT(r < 0 || ((int)info.ssi_signo == w->more && (pid_t)info.ssi_pid == getpid()));
	return r;
}

BLOCKS(read_signalfd, .open = opens_signalfd, .block = reads_signal, .release = sends,
       .wants = sizeof(struct signalfd_siginfo), .how = RESTARTS)
BLOCKS(poll_signalfd, .open = opens_signalfd, .block = polls, .release = sends, .wants = 1)

static void *blocks_one(void *arg)
{
	mask(SIG_BLOCK, SIGUSR1);
	tick(&entered);
	await(&returned, 1);
	return arg;
}

static void counts_none(int sig)
{
	(void)sig;
	tick(&handled);
}

TEST(a_signalfd_shows_what_has_a_handler)
{
	struct wait w = { .more = SIGUSR1 };
	pthread_t t;

	handle_with(SIGUSR1, counts_none, 0);
	EXPECT_EQ(pthread_create(&t, NULL, blocks_one, NULL), 0);
	await(&entered, 1);
	mask(SIG_BLOCK, SIGUSR1);
	sends(&w);
	w.fd[0] = signalfd_of(SIGUSR1, 0);
	EXPECT(w.fd[0] >= 0);
	EXPECT_EQ(reads_signal(&w), sizeof(struct signalfd_siginfo));
	for (int i = 0; i < 100; i++) {
		sends(&w);
		EXPECT_EQ(reads_signal(&w), sizeof(struct signalfd_siginfo));
	}
	EXPECT_EQ(handled.n, 0);
	tick(&returned);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* Kernel threads that have let the signal in, and are idle now. */
static void *meets(void *arg)
{
	pthread_barrier_wait(arg);
	wander();
	pthread_barrier_wait(arg);
	return NULL;
}

static pid_t sender_shown(int fd)
{
	struct signalfd_siginfo info;

	EXPECT_EQ(read(fd, &info, sizeof(info)), sizeof(info));
	EXPECT_EQ(info.ssi_signo, SIGUSR1);
	return (pid_t)info.ssi_pid;
}

static pid_t by_a_child(pid_t to)
{
	pid_t child = fork();

	if (child == 0) {
		kill(to, SIGUSR1);
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, NULL, 0), child);
	return child;
}

/* Whether it was sent before there was a descriptor, or after. */
TEST(a_signalfd_shows_at_once_what_is_pending)
{
	enum { ROUNDS = 20, THREADS = 8 };
	pthread_barrier_t all;
	pthread_t t[THREADS];

	handle_with(SIGUSR1, counts_none, 0);
	EXPECT_EQ(pthread_barrier_init(&all, NULL, THREADS), 0);
	for (int i = 0; i < ROUNDS; i++) {
		start(t, THREADS, meets, &all);
		join(t, THREADS);
		mask(SIG_BLOCK, SIGUSR1);
		by_a_child(getpid());
		int fd = signalfd_of(SIGUSR1, SFD_NONBLOCK);
		sender_shown(fd);
		pid_t child = by_a_child(getpid());
		EXPECT_EQ(sender_shown(fd), child);
		EXPECT_EQ(close(fd), 0);
		mask(SIG_UNBLOCK, SIGUSR1);
	}
	EXPECT_EQ(handled.n, 0);
}

static void *lets_it_in(void *arg)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	tick(&entered);
	await(&returned, 1);
	return arg;
}

/* It shows what nobody takes. */
TEST(who_lets_in_what_a_signalfd_shows_handles_it)
{
	pthread_t t;
	int fd;

	handle_with(SIGUSR1, counts_none, 0);
	mask(SIG_BLOCK, SIGUSR1);
	fd = signalfd_of(SIGUSR1, 0);
	EXPECT(fd >= 0);
	EXPECT_EQ(pthread_create(&t, NULL, lets_it_in, NULL), 0);
	await(&entered, 1);
	for (int i = 1; i <= 20; i++) {
		by_a_child(getpid());
		await(&handled, i);
	}
	tick(&returned);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *reads_numbers(void *arg)
{
	struct signalfd_siginfo info[2];

	for (;;) {
		ssize_t r = read(ends[0], info, sizeof(info));
		EXPECT(r > 0 && r % (ssize_t)sizeof(*info) == 0);
		for (int i = 0; i < r / (ssize_t)sizeof(*info); i++) {
			if (info[i].ssi_int >= 0)
				ticks(&sum, info[i].ssi_int);
			tick(&returned);
			if (info[i].ssi_int < 0)
				return arg;
		}
	}
}

TEST(queued_signals_are_each_read_once)
{
	union sigval value = { .sival_int = -1 };
	int sig = SIGRTMIN + 1, want = 0;
	pthread_t t[3];

	mask(SIG_BLOCK, sig);
	ends[0] = signalfd_of(sig, 0);
	start(t, 3, reads_numbers, NULL);
	for (int i = 1; i <= 100; i++) {
		union sigval number = { .sival_int = i };
		EXPECT_EQ(sigqueue(getpid(), sig, number), 0);
		want += i;
		if (i % 10 == 0)
			await(&returned, i);
	}
	EXPECT_EQ(sum.n, want);
	for (int i = 0; i < 3; i++) {
		/* One at a time: a reader may take two at once. */
		EXPECT_EQ(sigqueue(getpid(), sig, value), 0);
		await(&returned, 101 + i);
	}
	join(t, 3);
}

/* ---- inotify ---- */

static void opens_inotify(struct wait *w)
{
	w->fd[0] = inotify_init1(IN_CLOEXEC);
	snprintf(w->path, sizeof(w->path), "/tmp/heddle-in-%d-%p", (int)getpid(), (void *)w);
	w->fd[1] = open(w->path, O_CREAT | O_RDWR, 0600);
	EXPECT(w->fd[1] >= 0);
	EXPECT(inotify_add_watch(w->fd[0], w->path, IN_MODIFY) > 0);
	unlink(w->path);
}

static void touches(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "x", 1), 1);
}

static long reads_event(struct wait *w)
{
	char buf[512];
	long r = read(w->fd[0], buf, sizeof(buf));

	EXPECT(r < 0 || ((struct inotify_event *)buf)->mask == IN_MODIFY);
	return r;
}

BLOCKS(read_inotify, .open = opens_inotify, .block = reads_event, .release = touches,
       .wants = sizeof(struct inotify_event), .how = RESTARTS)
BLOCKS(poll_inotify, .open = opens_inotify, .block = polls, .release = touches, .wants = 1)

/* ---- terminals: fd[0] is the program's end, fd[1] the user's ---- */

static void opens_tty(struct wait *w)
{
	EXPECT_EQ(openpty(&w->fd[1], &w->fd[0], NULL, NULL, NULL), 0);
}

static void types(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "ab", 2), 2);
	settle();
	/* A line is given when it is complete. */
	EXPECT_EQ(w->returned.n, 0);
	EXPECT_EQ(write(w->fd[1], "\n", 1), 1);
}

static long reads_line(struct wait *w)
{
	char buf[16];
	long r = read(w->fd[0], buf, sizeof(buf));

	EXPECT(r < 0 || (r == 3 && memcmp(buf, "ab\n", 3) == 0));
	return r;
}

static void makes_raw(int fd)
{
	struct termios how;

	EXPECT_EQ(tcgetattr(fd, &how), 0);
	cfmakeraw(&how);
	EXPECT_EQ(tcsetattr(fd, TCSANOW, &how), 0);
}

static void opens_raw_tty(struct wait *w)
{
	opens_tty(w);
	makes_raw(w->fd[0]);
}

/* More than both ends hold. */
static long writes_much(struct wait *w)
{
	static const char much[1 << 17];

	return write(w->fd[0], much, sizeof(much));
}

static void shows(struct wait *w)
{
	drain_until_returned(w, w->fd[1]);
}

/* The user's end blocks as well. */
static long reads_user(struct wait *w)
{
	char c[4];

	return read(w->fd[1], c, sizeof(c));
}

static void prints(struct wait *w)
{
	EXPECT_EQ(write(w->fd[0], "x", 1), 1);
}

BLOCKS(read_tty, .open = opens_tty, .block = reads_line, .release = types, .wants = 3,
       .how = RESTARTS)
HOLDS_UP_NOBODY(write_full_tty, .open = opens_raw_tty, .block = writes_much, .release = shows,
		.wants = 1 << 17)
BLOCKS(read_ptmx, .open = opens_tty, .block = reads_user, .release = prints, .wants = 1,
       .how = RESTARTS)

static void *talks(void *arg)
{
	int user, tty;
	char buf[32];
	struct termios how;

	EXPECT_EQ(openpty(&user, &tty, NULL, NULL, NULL), 0);
	EXPECT(isatty(tty));
	EXPECT_EQ(tcgetattr(tty, &how), 0);
	how.c_lflag &= ~(tcflag_t)ECHO;
	EXPECT_EQ(tcsetattr(tty, TCSADRAIN, &how), 0);
	EXPECT_EQ(write(user, "one\ntwo\n\4", 9), 9);
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 4);
	EXPECT_EQ(read(tty, buf, 2), 2);
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 2);
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 0);
	/* VTIME: a read of a raw line is over after its time. */
	cfmakeraw(&how);
	how.c_cc[VMIN] = 0;
	how.c_cc[VTIME] = 1;
	EXPECT_EQ(tcsetattr(tty, TCSANOW, &how), 0);
	long long since = now_ms();
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 0);
	EXPECT(took(since, 85));
	/* VMIN: one of at least so many waits for them. */
	how.c_cc[VMIN] = 3;
	how.c_cc[VTIME] = 0;
	EXPECT_EQ(tcsetattr(tty, TCSANOW, &how), 0);
	EXPECT_EQ(write(user, "abc", 3), 3);
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 3);
	EXPECT_EQ(fcntl(tty, F_GETFL), O_RDWR);
	EXPECT_EQ(tcdrain(tty), 0);
	EXPECT_EQ(tcflush(tty, TCIOFLUSH), 0);
	nonblocking(tty, true);
	FAILS(read(tty, buf, sizeof(buf)), EAGAIN);
	nonblocking(tty, false);
	/* Hung up: the program's end reads the end of file, the user's an error. */
	EXPECT_EQ(close(user), 0);
	EXPECT_EQ(read(tty, buf, sizeof(buf)), 0);
	FAILS(write(tty, "x", 1), EIO);
	EXPECT_EQ(close(tty), 0);
	EXPECT_EQ(openpty(&user, &tty, NULL, NULL, NULL), 0);
	EXPECT_EQ(close(tty), 0);
	FAILS(read(user, buf, sizeof(buf)), EIO);
	EXPECT_EQ(close(user), 0);
	return arg;
}

TEST(a_terminal_reads_by_its_rules)
{
	pthread_t t[3];

	talks(NULL);
	start(t, 3, talks, NULL);
	join(t, 3);
}

static void *types_a_line(void *arg)
{
	settle();
	EXPECT_EQ(write(ends[1], "a\n", 2), 2);
	return arg;
}

TEST(a_terminal_that_was_waited_for_goes_by_new_rules)
{
	struct termios how;
	char buf[8];
	pthread_t t;

	EXPECT_EQ(openpty(&ends[1], &ends[0], NULL, NULL, NULL), 0);
	start(&t, 1, types_a_line, NULL);
	EXPECT_EQ(read(ends[0], buf, sizeof(buf)), 2);
	join(&t, 1);
	EXPECT_EQ(tcgetattr(ends[0], &how), 0);
	cfmakeraw(&how);
	how.c_cc[VMIN] = 0;
	how.c_cc[VTIME] = 1;
	EXPECT_EQ(tcsetattr(ends[0], TCSANOW, &how), 0);
	TAKES_ABOUT(100, 20, EXPECT_EQ(read(ends[0], buf, sizeof(buf)), 0));
}

/* VMIN above 1: poll says ready late or early, the read waits for so many all the same. */
static void *reads_three(void *arg)
{
	char buf[8];

	tick(&entered);
	EXPECT_EQ(read(ends[0], buf, sizeof(buf)), 3);
	EXPECT(memcmp(buf, "xyz", 3) == 0);
	tick(&returned);
	return arg;
}

TEST(a_raw_terminal_waits_for_VMIN_bytes)
{
	struct termios how;
	pthread_t t;

	EXPECT_EQ(openpty(&ends[1], &ends[0], NULL, NULL, NULL), 0);
	EXPECT_EQ(tcgetattr(ends[0], &how), 0);
	cfmakeraw(&how);
	how.c_cc[VMIN] = 3;
	EXPECT_EQ(tcsetattr(ends[0], TCSANOW, &how), 0);
	EXPECT_EQ(pthread_create(&t, NULL, reads_three, NULL), 0);
	await(&entered, 1);
	settle();
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(returned.n, 0);
		EXPECT_EQ(write(ends[1], &"xyz"[i], 1), 1);
		settle();
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- what never says that there is room ---- */

/* To an event that there is not. */
static void *answers_nothing(void *arg)
{
	const struct fanotify_response response = { .fd = -1, .response = FAN_ALLOW };

	errno = 0;
	EXPECT_EQ(write(*(int *)arg, &response, sizeof(response)), -1);
	EXPECT(errno == EINVAL || errno == ENOENT);
	return NULL;
}

TEST(an_answer_to_fanotify_does_not_wait)
{
	int fd = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
	pthread_t t;

	if (fd < 0)
		return;
	EXPECT_EQ(pthread_create(&t, NULL, answers_nothing, &fd), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	answers_nothing(&fd);
	close(fd);
}
