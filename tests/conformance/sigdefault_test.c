/* Signals sent to a thread that no handler takes: they stop the process, end it, or are nothing. */
#include "common.h"

#include <sys/syscall.h>

static _Atomic int over;
static struct event goes_on, blocked;

static void *computes_until_over(void *arg)
{
	tick(&entered);
	while (!over)
		continue;
	return arg;
}

static void *waits_until_over(void *arg)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec t;

	tick(&entered);
	pthread_mutex_lock(&m);
	while (!over) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec++;
		pthread_cond_timedwait(&c, &m, &t);
	}
	pthread_mutex_unlock(&m);
	return arg;
}

static int stop_of(pid_t pid)
{
	int status;

	EXPECT_EQ(waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
	return status;
}

/* Time for what must not happen. */
static void let_pass(void)
{
	usleep(5000);
}

/* In a child: a thread that runs fn gets sig; then the process ends with 7, if it still can. */
static pid_t child_that_gets(int sig, void *(*fn)(void *))
{
	pid_t pid = fork();
	pthread_t t;

	if (pid != 0)
		return pid;
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(pthread_kill(t, sig), 0);
	let_pass();
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
	/* Others that come do not wake what is over. */
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	_exit(7);
}

static void stops_once(int sig, void *(*fn)(void *))
{
	pid_t pid = child_that_gets(sig, fn);
	int status = stop_of(pid);

	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(WSTOPSIG(status), sig);
	EXPECT_EQ(kill(pid, SIGCONT), 0);
	status = stop_of(pid);
	/* Of one that has ended before we ask nobody tells that it went on. */
	if (WIFCONTINUED(status))
		status = stop_of(pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
}

static void *sleeps_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

TEST(a_process_whose_threads_all_sleep_is_ended_by_SIGTERM)
{
	for (int i = 0; i < 10; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t t;
			pthread_create(&t, NULL, sleeps_for_ever, NULL);
			sleeps_for_ever(NULL);
		}
		await_sleep_of(pid, 0);
		EXPECT_EQ(kill(pid, SIGTERM), 0);
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(WTERMSIG(status), SIGTERM);
	}
}

TEST(a_thread_that_is_sent_SIGSTOP_stops_the_process_once)
{
	stops_once(SIGSTOP, computes_until_over);
	stops_once(SIGSTOP, waits_until_over);
}

TEST(a_thread_that_is_sent_SIGTERM_ends_the_process)
{
	void *(*const fns[])(void *) = { computes_until_over, waits_until_over };

	for (int i = 0; i < 2; i++) {
		int status = status_of(child_that_gets(SIGTERM, fns[i]));
		EXPECT(WIFSIGNALED(status));
		EXPECT_EQ(WTERMSIG(status), SIGTERM);
	}
}

static void *masks_and_unmasks(void *arg)
{
	sigset_t set;

	tick(&entered);
	await(&goes_on, 1);
	/* A look at what is pending. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	return arg;
}

TEST(a_signal_that_is_ignored_is_gone)
{
	pthread_t t;

	signal(SIGUSR1, SIG_IGN);
	EXPECT_EQ(pthread_create(&t, NULL, masks_and_unmasks, NULL), 0);
	/* A thread that is being made blocks all. */
	await(&entered, 1);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	/* SIGCHLD is ignored by default. */
	EXPECT_EQ(pthread_kill(t, SIGCHLD), 0);
	let_pass();
	handle(SIGUSR1, 0);
	handle(SIGCHLD, 0);
	tick(&goes_on);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(handled.n, 0);
}

/* sigpause() by its own name, for the header warns of it. */
int __xpg_sigpause(int sig);

static void *pauses_for_SIGUSR1(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	tick(&entered);
	FAILS(__xpg_sigpause(SIGUSR1), EINTR);
	EXPECT_EQ(handled.n, 1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	EXPECT_EQ(sigismember(&set, SIGUSR1), 1);
	return arg;
}

TEST(sigpause_lets_in_its_signal_and_ends_with_it)
{
	pthread_t t;

	handle(SIGUSR1, SA_RESTART);
	FAILS(__xpg_sigpause(1000), EINVAL);
	for (int i = 0; i < 50; i++) {
		entered.n = handled.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, pauses_for_SIGUSR1, NULL), 0);
		await(&entered, 1);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* ---- handlers that are there but once, signals that cannot be blocked ---- */

static void *yields_until_over(void *arg)
{
	tick(&entered);
	while (!over)
		sched_yield();
	return arg;
}

TEST(a_handler_with_SA_RESETHAND_runs_once_however_late_a_signal_is)
{
	struct sigaction act = { .sa_handler = handles, .sa_flags = (int)SA_RESETHAND }, old;
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, yields_until_over, NULL), 0);
	await(&entered, 1);
	for (int i = 0; i < 5000; i++) {
		EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, i + 1);
		EXPECT_EQ(sigaction(SIGUSR1, NULL, &old), 0);
		EXPECT(old.sa_handler == SIG_DFL);
	}
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(a_signal_that_was_handled_does_not_come_again_to_the_default)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, yields_until_over, NULL), 0);
	await(&entered, 1);
	for (int i = 0; i < 5000; i++) {
		handle(SIGUSR1, 0);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, i + 1);
		EXPECT(signal(SIGUSR1, SIG_DFL) == handles);
		EXPECT(signal(SIGUSR1, SIG_DFL) == SIG_DFL);
	}
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* In a child: the same, of which the default is the end. */
static pid_t child_that_ends_by(int sig)
{
	pid_t pid = fork();
	pthread_t t;

	if (pid != 0)
		return pid;
	EXPECT_EQ(pthread_create(&t, NULL, yields_until_over, NULL), 0);
	handle(sig, 0);
	EXPECT_EQ(pthread_kill(t, sig), 0);
	await(&handled, 1);
	signal(sig, SIG_DFL);
	EXPECT_EQ(kill(getpid(), sig), 0);
	for (;;)
		pause();
}

TEST(a_signal_set_back_to_its_default_ends_the_process)
{
	const int sigs[] = { SIGUSR1, SIGTERM, SIGALRM, SIGSEGV };

	for (int i = 0; i < 4; i++) {
		int status = status_of(child_that_ends_by(sigs[i]));
		EXPECT(WIFSIGNALED(status));
		EXPECT_EQ(WTERMSIG(status), sigs[i]);
	}
}

TEST(the_second_signal_to_one_with_SA_RESETHAND_ends_the_process)
{
	struct sigaction act = { .sa_handler = handles, .sa_flags = (int)SA_RESETHAND };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;
		EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
		EXPECT_EQ(pthread_create(&t, NULL, yields_until_over, NULL), 0);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, 1);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		for (;;)
			pause();
	}
	status = status_of(pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGUSR1);
}

static void sends_itself_SIGUSR1(void)
{
	sigset_t mask;

	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	EXPECT_EQ(sigismember(&mask, SIGUSR1), 0);
	EXPECT_EQ(sigismember(&mask, SIGUSR2), 1);
	kill(getpid(), SIGUSR1);
}

static void *joins_and_blocks_SIGUSR2(void *first)
{
	sigset_t set;

	EXPECT_EQ(pthread_join((pthread_t)first, NULL), 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	return NULL;
}

TEST(what_exit_calls_has_the_mask_of_the_last_thread)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;
		EXPECT_EQ(atexit(sends_itself_SIGUSR1), 0);
		EXPECT_EQ(
			pthread_create(&t, NULL, joins_and_blocks_SIGUSR2, (void *)pthread_self()),
			0);
		pthread_exit(NULL);
	}
	status = status_of(pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGUSR1);
}

static void *raises_SIGKILL(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &all), 0);
	EXPECT_EQ(sigismember(&all, SIGKILL), 0);
	EXPECT_EQ(sigismember(&all, SIGSTOP), 0);
	raise(SIGKILL);
	EXPECT(!"reached");
	return arg;
}

TEST(SIGKILL_cannot_be_blocked)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;
		EXPECT_EQ(pthread_create(&t, NULL, raises_SIGKILL, NULL), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
	status = status_of(pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

/* ---- what was pending is forgotten when it comes to be ignored ---- */

static void *blocks_SIGUSR1(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	tick(&entered);
	await(&goes_on, 1);
	EXPECT_EQ(sigpending(&set), 0);
	EXPECT_EQ(sigismember(&set, SIGUSR1), 0);
	handle(SIGUSR1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	EXPECT_EQ(handled.n, 0);
	return arg;
}

TEST(a_pending_signal_that_comes_to_be_ignored_is_gone)
{
	pthread_t t;

	handle(SIGUSR1, 0);
	EXPECT_EQ(pthread_create(&t, NULL, blocks_SIGUSR1, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	signal(SIGUSR1, SIG_IGN);
	tick(&goes_on);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- by number ---- */

static _Atomic pid_t tid;

static void *sleeps_until_SIGUSR1(void *arg)
{
	tid = gettid();
	tick(&entered);
	FAILS(usleep(20000000), EINTR);
	return arg;
}

TEST(a_thread_is_sent_a_signal_by_its_tid)
{
	handle(SIGUSR1, 0);
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		entered.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, sleeps_until_SIGUSR1, NULL), 0);
		await(&entered, 1);
		settle();
		EXPECT_EQ(i ? tgkill(getpid(), tid, SIGUSR1)
			    : (int)syscall(SYS_tgkill, getpid(), tid, SIGUSR1),
			  0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
	FAILS(tgkill(getpid(), 1 << 29, SIGUSR1), ESRCH);
}

/* ---- what a call of one's own raises ---- */

static long writes_it(int fd)
{
	return write(fd, "x", 1);
}

static long sends_it(int fd)
{
	return send(fd, "x", 1, 0);
}

/* By no call that others see. */
static long prints_it(int fd)
{
	return dprintf(fd, "x");
}

static long (*const asks[])(int) = { writes_it, sends_it, prints_it };

static void *writes_to_nobody(void *arg)
{
	long (*ask)(int) = *(long (*const *)(int))arg;
	struct timespec now = { 0, 0 };
	sigset_t all, pending;
	int ends[2];

	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(close(ends[0]), 0);
	FAILS(ask(ends[1]), EPIPE);
	tick(&entered);
	/* Those who let it in run where it was. */
	await(&goes_on, 1);
	EXPECT_EQ(sigpending(&pending), 0);
	EXPECT(sigismember(&pending, SIGPIPE));
	EXPECT_EQ(sigtimedwait(&all, NULL, &now), SIGPIPE);
	FAILS(sigtimedwait(&all, NULL, &now), EAGAIN);
	EXPECT_EQ(close(ends[1]), 0);
	return arg;
}

TEST(who_blocks_SIGPIPE_keeps_its_own_pending)
{
	for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
		pthread_t t;
		entered.n = goes_on.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, writes_to_nobody, (void *)&asks[i]), 0);
		await(&entered, 1);
		tick(&goes_on);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* After the one above it runs where that one did, if there is one kernel thread. */
static void *blocks_it_too(void *arg)
{
	struct timespec now = { 0, 0 };
	sigset_t all, pending;

	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	tick(&blocked);
	await(&entered, 1);
	EXPECT_EQ(sigpending(&pending), 0);
	EXPECT(!sigismember(&pending, SIGPIPE));
	FAILS(sigtimedwait(&all, NULL, &now), EAGAIN);
	tick(&goes_on);
	return arg;
}

TEST(who_blocks_SIGPIPE_too_finds_none_of_another_s)
{
	for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
		pthread_t t[2];
		entered.n = goes_on.n = blocked.n = 0;
		EXPECT_EQ(pthread_create(&t[0], NULL, blocks_it_too, NULL), 0);
		await(&blocked, 1);
		EXPECT_EQ(pthread_create(&t[1], NULL, writes_to_nobody, (void *)&asks[i]), 0);
		EXPECT_EQ(pthread_join(t[0], NULL), 0);
		EXPECT_EQ(pthread_join(t[1], NULL), 0);
	}
}

static void *computes_for_ever(void *arg)
{
	tick(&entered);
	for (;;)
		continue;
	return arg;
}

TEST(a_SIGPIPE_for_the_process_ends_it_if_one_thread_lets_it_in)
{
	int status;
	pid_t pid;

	entered.n = 0;
	pid = fork();
	if (pid == 0) {
		sigset_t set;
		pthread_t t;
		EXPECT_EQ(pthread_create(&t, NULL, computes_for_ever, NULL), 0);
		await(&entered, 1);
		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
		EXPECT_EQ(kill(getpid(), SIGPIPE), 0);
		sleep(1);
		_exit(7);
	}
	status = status_of(pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

/* ---- becoming another program ---- */

static void *becomes_one_who_looks(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	FAILS(execl("/nowhere", "nowhere", NULL), ENOENT);
	/* Bit 9, of those pending for the thread. */
	execl("/bin/grep", "grep", "-q", "^SigPnd:.*2..$", "/proc/self/status", NULL);
	return arg;
}

TEST(what_is_pending_for_a_thread_stays_so_when_it_becomes_another_program)
{
	pid_t pid = fork();
	pthread_t t;

	if (pid == 0) {
		pthread_create(&t, NULL, becomes_one_who_looks, NULL);
		pthread_join(t, NULL);
		_exit(7);
	}
	EXPECT_EQ(status_of(pid), 0);
}
