/* A signal to the process that no handler takes comes as soon as some thread lets it in, whatever
 * the others do, and stays pending as long as none does. */
#include "common.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { OTHERS = 12 };

static struct event blocked, orders, never;

static void mask_SIGUSR1(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(how, &set, NULL), 0);
}

static void *computes(void *arg)
{
	tick(&entered);
	for (;;)
		(*(volatile int *)arg)++;
	return arg;
}

static void *waits(void *arg)
{
	tick(&entered);
	await(&never, 1);
	return arg;
}

static void *yields(void *arg)
{
	tick(&entered);
	for (;;)
		sched_yield();
	return arg;
}

/* Who lets the signal in, and what it does; and what all others do. */
struct case_ {
	bool first;
	void *(*it)(void *), *(*others)(void *);
};

static void starts(void *(*fn)(void *))
{
	static int counts[OTHERS + 1], n;
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, fn, &counts[n++]), 0);
}

static pid_t child_of(const struct case_ *c)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* It computes for ever, if it is not ended. */
	EXPECT_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
	if (!c->first)
		starts(c->it);
	mask_SIGUSR1(SIG_BLOCK);
	for (int i = 0; i < OTHERS; i++)
		starts(c->others);
	await(&entered, OTHERS + !c->first);
	if (c->first)
		mask_SIGUSR1(SIG_UNBLOCK);
	/* From outside, by a child that has no threads. */
	if (fork() == 0) {
		EXPECT_EQ(kill(getppid(), SIGUSR1), 0);
		_exit(0);
	}
	(c->first ? c->it : c->others)(&counted);
	_exit(1);
}

TEST(it_ends_the_process_whatever_the_others_do)
{
	static const struct case_ cases[] = {
		{ true, waits, computes },   { true, waits, waits },	 { true, waits, yields },
		{ true, computes, waits },   { true, computes, yields }, { false, waits, computes },
		{ false, waits, waits },     { false, waits, yields },	 { false, computes, waits },
		{ false, computes, yields },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = status_of(child_of(&cases[i]));
		EXPECT(WIFSIGNALED(status));
		EXPECT_EQ(WTERMSIG(status), SIGUSR1);
	}
}

/* Past any wrapper of kill, as another process's comes. */
static void expect_it_stays_pending(void)
{
	const struct timespec now = { 0, 0 };
	sigset_t set;

	EXPECT_EQ(syscall(SYS_kill, getpid(), SIGUSR1), 0);
	/* Whoever was woken by it would have acted upon it. */
	settle();
	EXPECT_EQ(sigpending(&set), 0);
	EXPECT_EQ(sigismember(&set, SIGUSR1), 1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(sigtimedwait(&set, NULL, &now), SIGUSR1);
}

enum { ROUNDS = 60 };

/* Lets it in, except when it is told. */
static void *lets_in_but_when_told(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		await(&orders, 2 * i + 1);
		mask_SIGUSR1(SIG_BLOCK);
		tick(&blocked);
		await(&orders, 2 * i + 2);
		mask_SIGUSR1(SIG_UNBLOCK);
		tick(&blocked);
	}
	return arg;
}

/* Since the kernel threads that ran them went to sleep, now and then deeply. */
TEST(it_stays_pending_when_all_have_come_to_block_it)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, lets_in_but_when_told, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		settle();
		/* Sysmon's deep sleep cannot be seen from here. */
		if (i % 6 == 0)
			usleep(30000);
		if (i % 2)
			mask_SIGUSR1(SIG_BLOCK);
		tick(&orders);
		await(&blocked, 8 * i + 4);
		if (i % 2 == 0)
			mask_SIGUSR1(SIG_BLOCK);
		expect_it_stays_pending();
		mask_SIGUSR1(SIG_UNBLOCK);
		tick(&orders);
		await(&blocked, 8 * i + 8);
	}
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

static void *lets_in_and_ends(void *arg)
{
	mask_SIGUSR1(SIG_UNBLOCK);
	sched_yield();
	return arg;
}

static void *looks_when_the_first_has_ended(void *arg)
{
	EXPECT_EQ(pthread_join(*(pthread_t *)arg, NULL), 0);
	/* Who looks for what is pending does so each 10 ms. */
	usleep(20000);
	expect_it_stays_pending();
	_exit(7);
}

TEST(it_stays_pending_when_the_first_thread_alone_let_it_in_and_has_ended)
{
	/* Not on its stack: it ends. */
	static pthread_t first;
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;
		first = pthread_self();
		mask_SIGUSR1(SIG_BLOCK);
		EXPECT_EQ(pthread_create(&t, NULL, looks_when_the_first_has_ended, &first), 0);
		mask_SIGUSR1(SIG_UNBLOCK);
		pthread_exit(NULL);
	}
	EXPECT_EQ(WEXITSTATUS(status_of(pid)), 7);
}

static void *is_idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void blocks_in_its_frame(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	sigaddset(&uc->uc_sigmask, SIGUSR1);
	tick(&handled);
	(void)sig;
}

TEST(a_handler_may_have_its_thread_block_it)
{
	struct sigaction act = { .sa_sigaction = blocks_in_its_frame, .sa_flags = SA_SIGINFO };
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, is_idle, NULL), 0);
	EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
	for (int i = 1; i <= 20; i++) {
		settle();
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
		EXPECT_EQ(handled.n, i);
		mask_SIGUSR1(SIG_UNBLOCK);
	}
}

/* A thread gives signals a handler while the first blocks them. */
static void *handles_and_lets_be(void *arg)
{
	while (!counted) {
		signal(SIGUSR1, handles);
		sched_yield();
		signal(SIGUSR1, SIG_DFL);
		sched_yield();
	}
	return arg;
}

TEST(the_first_thread_blocks_it_while_it_comes_to_be_handled)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, handles_and_lets_be, NULL), 0);
	for (int i = 0; i < 500; i++) {
		mask_SIGUSR1(SIG_BLOCK);
		sched_yield();
		mask_SIGUSR1(SIG_UNBLOCK);
	}
	counted = 1;
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

TEST(it_stays_pending_when_the_last_that_let_it_in_has_ended)
{
	pthread_t t[4];

	mask_SIGUSR1(SIG_BLOCK);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(pthread_create(&t[i], NULL, lets_in_and_ends, NULL), 0);
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(pthread_join(t[i], NULL), 0);
		expect_it_stays_pending();
	}
}

/* ---- one that had a handler ---- */

static void *sleeps_briefly(void *arg)
{
	tick(&entered);
	usleep(10000);
	return arg;
}

/* What had a handler kernel threads without a thread of the program's may have let in. */
static void expect_it_waits_without_its_handler(int sig)
{
	pthread_t t[8];
	sigset_t set;

	handle(sig, 0);
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, sleeps_briefly, NULL), 0);
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	sigemptyset(&set);
	sigaddset(&set, sig);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	signal(sig, SIG_DFL);
	EXPECT_EQ(syscall(SYS_kill, getpid(), sig), 0);
	EXPECT_EQ(sigpending(&set), 0);
	EXPECT_EQ(sigismember(&set, sig), 1);
	EXPECT_EQ(handled.n, 0);
	_exit(0);
}

TEST(one_that_all_block_waits_when_its_handler_is_gone)
{
	static const int sigs[] = { SIGCHLD, SIGSEGV, SIGTRAP };

	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();
		if (pid == 0)
			expect_it_waits_without_its_handler(sigs[i % 3]);
		EXPECT_EQ(status_of(pid), 0);
	}
}

/* ---- a handler that blocks all, where nobody runs ---- */

enum { TIMES = 3 };

static volatile sig_atomic_t taken;
static int locked;
static int asks[2]; /* kernel threads that are to be interrupted */

static void takes(int sig)
{
	(void)sig;
	taken++;
}

static void *takes_over(void *arg)
{
	for (int i = 1; i <= TIMES; i++)
		await(&orders, i);
	return arg;
}

/* Another goes on meanwhile, and sleeps. */
static void *waits_for_a_lock(void *arg)
{
	for (int i = 1; i <= TIMES; i++) {
		pid_t tid;
		tick(&orders);
		tid = kernel_tid();
		EXPECT_EQ(write(asks[1], &tid, sizeof(tid)), sizeof(tid));
		FAILS(flock(locked, LOCK_EX), EINTR);
		EXPECT_EQ(taken, i);
	}
	return arg;
}

static void interrupts(pid_t parent)
{
	for (int i = 1; i <= TIMES; i++) {
		pid_t tid;
		EXPECT_EQ(read(asks[0], &tid, sizeof(tid)), sizeof(tid));
		await_sleep_of(parent, 0);
		/* Sysmon's deep sleep cannot be seen from here. */
		usleep(50000);
		EXPECT_EQ(syscall(SYS_tgkill, parent, tid, SIGUSR2), 0);
	}
	_exit(0);
}

TEST(a_handler_that_blocks_all_begins_where_nobody_runs)
{
	struct sigaction action = { .sa_handler = takes };
	char path[] = "/tmp/lockXXXXXX";
	int held = mkstemp(path);
	pthread_t t[3];
	cpu_set_t one;
	pid_t child;

	/* Together with whoever looks after signals. */
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	EXPECT_EQ(pipe(asks), 0);
	locked = open(path, O_RDWR);
	EXPECT_EQ(unlink(path), 0);
	EXPECT_EQ(flock(held, LOCK_EX), 0);
	sigfillset(&action.sa_mask);
	EXPECT_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	child = fork();
	if (child == 0)
		interrupts(getppid());
	EXPECT_EQ(pthread_create(t, NULL, waits, NULL), 0);
	EXPECT_EQ(pthread_create(t + 1, NULL, takes_over, NULL), 0);
	EXPECT_EQ(pthread_create(t + 2, NULL, waits_for_a_lock, NULL), 0);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &action.sa_mask, NULL), 0);
	EXPECT_EQ(pthread_join(t[1], NULL), 0);
	EXPECT_EQ(pthread_join(t[2], NULL), 0);
	EXPECT_EQ(taken, TIMES);
	EXPECT_EQ(WEXITSTATUS(status_of(child)), 0);
}
