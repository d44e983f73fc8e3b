/* Signals sent to a thread that no handler takes: they stop the process, end it, or are nothing. */
#include "common.h"

static _Atomic int over;

static void *computes_until_over(void *arg)
{
	atomic_fetch_add(&entered, 1);
	while (!over)
		continue;
	return arg;
}

static void *waits_until_over(void *arg)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec t;

	atomic_fetch_add(&entered, 1);
	pthread_mutex_lock(&m);
	while (!over) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec++;
		pthread_cond_timedwait(&c, &m, &t);
	}
	pthread_mutex_unlock(&m);
	return arg;
}

static int status_of(pid_t pid)
{
	int status;

	EXPECT_EQ(waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
	return status;
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
	settle();
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
	int status = status_of(pid);

	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(WSTOPSIG(status), sig);
	EXPECT_EQ(kill(pid, SIGCONT), 0);
	status = status_of(pid);
	EXPECT(WIFCONTINUED(status));
	status = status_of(pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
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

	while (!over)
		nap();
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
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	/* SIGCHLD is ignored by default. */
	EXPECT_EQ(pthread_kill(t, SIGCHLD), 0);
	settle();
	handle(SIGUSR1, 0);
	handle(SIGCHLD, 0);
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(handled, 0);
}

/* sigpause() by its own name, for the header warns of it. */
int __xpg_sigpause(int sig);

static void *pauses_for_SIGUSR1(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	atomic_fetch_add(&entered, 1);
	FAILS(__xpg_sigpause(SIGUSR1), EINTR);
	EXPECT_EQ(handled, 1);
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
		entered = handled = 0;
		EXPECT_EQ(pthread_create(&t, NULL, pauses_for_SIGUSR1, NULL), 0);
		await(&entered, 1);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}
