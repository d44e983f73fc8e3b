/* What becomes of a child is told to the thread that made it, or traces it. The same holds
 * natively. */
#include "event.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

enum { ROUNDS = 60 };

static pthread_t maker, tracer;
static _Atomic int by_maker, by_tracer, by_others;
static _Atomic bool stop, unknown;
static int astray;
static struct event over, made, asleep, computing, told; /* told: by a handler */
static volatile pid_t child;

static void counts(int sig)
{
	(void)sig;
	if (pthread_equal(pthread_self(), maker)) {
		if (child == 0)
			unknown = true;
		by_maker++;
	} else if (pthread_equal(pthread_self(), tracer)) {
		by_tracer++;
	} else {
		by_others++;
	}
	tick(&told);
}

static void handle(int sig)
{
	struct sigaction act = { .sa_handler = counts, .sa_flags = SA_NODEFER };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) != pid)
		EXPECT_EQ(errno, EINTR);
}

/* ---- three ways to make one ---- */

static int gate[2]; /* what it reads from first; none if it is not open */
static char *const reads_line[] = { "sh", "-c", "read x", NULL };

static pid_t forks(void)
{
	pid_t pid = fork();
	char c;

	if (pid == 0) {
		EXPECT(gate[0] < 0 || read(gate[0], &c, 1) == 1);
		_exit(0);
	}
	return pid;
}

static pid_t vforks(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(gate[0], 0);
		execvp(reads_line[0], reads_line);
		_exit(1);
	}
	return pid;
}

static pid_t spawns(void)
{
	posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	if (gate[0] >= 0)
		posix_spawn_file_actions_adddup2(&actions, gate[0], 0);
	EXPECT_EQ(posix_spawnp((pid_t *)&child, reads_line[0], &actions, NULL, reads_line, environ),
		  0);
	posix_spawn_file_actions_destroy(&actions);
	return child;
}

static pid_t (*const way[])(void) = { forks, vforks, spawns };

static void *waits_for_children(void *arg)
{
	for (int i = 0; i < 12; i++) {
		pid_t pid = way[i % 3]();
		EXPECT(pid > 0);
		tick(&made);
		FAILS(pause(), EINTR);
		EXPECT_EQ(by_maker, i + 1);
		reap(pid);
		tick(&over);
	}
	return arg;
}

/* They keep the kernel thread busy by which the child was made. */
static void *computes_meanwhile(void *arg)
{
	for (int i = 1; i <= 12; i++) {
		await(&asleep, i);
		tick(&computing);
		while (over.n < i && by_others == 0)
			continue;
	}
	return arg;
}

TEST(the_end_of_a_child_interrupts_the_thread_that_made_it)
{
	enum { BESIDE = 10 };
	pthread_t t[BESIDE];

	EXPECT_EQ(pipe(gate), 0);
	handle(SIGCHLD);
	start(t, BESIDE, computes_meanwhile, NULL);
	start(&maker, 1, waits_for_children, NULL);
	for (int i = 0; i < 12; i++) {
		/* It runs, lest it be woken where the child is made. */
		while (made.n <= i)
			sched_yield();
		settle();
		tick(&asleep);
		await(&computing, BESIDE * (i + 1));
		EXPECT_EQ(write(gate[1], "\n", 1), 1);
		while (over.n <= i && by_others == 0)
			sched_yield();
		if (by_others > 0)
			interrupt(maker, SIGCHLD, &over, i + 1);
	}
	join(&maker, 1);
	join(t, BESIDE);
	EXPECT_EQ(by_others, 0);
}

/* ---- a child that ends before its maker has heard of it ---- */

static void *makes_brief_ones(void *arg)
{
	maker = pthread_self();
	for (int i = 0; i < ROUNDS; i++) {
		int before = told.n, others = by_others;
		child = 0;
		unknown = false;
		pid_t pid = way[i % 3]();
		reap(pid);
		await(&told, before + 1);
		/* While posix_spawn keeps its caller's signals back, another may have it. */
		if (i % 3 != 2)
			astray += by_others - others;
		/* posix_spawn says who it is before a handler can run here. */
		EXPECT(i % 3 != 2 || !unknown);
	}
	tick(&over);
	return arg;
}

static void *computes(void *arg)
{
	while (!stop)
		continue;
	return arg;
}

TEST(a_child_that_ends_at_once_is_its_maker_s)
{
	pthread_t t[2];

	gate[0] = -1;
	EXPECT_EQ(close(0), 0);
	handle(SIGCHLD);
	start(t, 1, computes, NULL);
	start(t + 1, 1, makes_brief_ones, NULL);
	await(&over, 1);
	stop = true;
	join(t, 2);
	EXPECT(astray <= ROUNDS / 10);
}

/* Before it is another program. */
static void *makes_ones_that_end_in_its_memory(void *arg)
{
	maker = pthread_self();
	for (int i = 0; i < ROUNDS; i++) {
		int before = told.n;
		pid_t pid = vfork();
		if (pid == 0)
			_exit(0);
		reap(pid);
		await(&told, before + 1);
	}
	return arg;
}

TEST(a_child_of_vfork_that_ends_at_once_is_its_maker_s)
{
	int before = by_maker;

	handle(SIGCHLD);
	on_thread(makes_ones_that_end_in_its_memory, NULL);
	EXPECT_EQ(by_maker - before, ROUNDS);
}

/* ---- a child of vfork is killed in a handler, which has the memory of its parent ---- */

static void *kills(void *arg)
{
	while (!stop) {
		pid_t pid = child;
		if (pid == 0) {
			sched_yield();
			continue;
		}
		child = 0;
		for (int i = 0; i < 2000; i++)
			kill(pid, SIGUSR1);
		kill(pid, SIGKILL);
	}
	return arg;
}

TEST(a_child_of_vfork_that_is_killed_in_a_handler_leaves_its_parent_whole)
{
	sigset_t set, old;
	pthread_t t;

	handle(SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	start(&t, 1, kills, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = vfork();
		if (pid == 0) {
			child = getpid();
			for (;;)
				continue;
		}
		reap(pid);
		EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
		EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	}
	stop = true;
	join(&t, 1);
}

/* ---- who traces it is told instead ---- */

static void *makes_one(void *arg)
{
	gate[0] = -1;
	child = fork();
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (child == 0)
		pause();
	tick(&over);
	await(&over, 2);
	reap(child);
	return arg;
}

static void *traces(void *arg)
{
	int status;

	await(&over, 1);
	by_maker = 0;
	EXPECT_EQ(ptrace(PTRACE_ATTACH, child, NULL, NULL), 0);
	EXPECT_EQ(waitpid(child, &status, __WALL), child);
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
		EXPECT_EQ(kill(child, SIGUSR2), 0);
		while (waitpid(child, &status, __WALL) != child)
			EXPECT_EQ(errno, EINTR);
		EXPECT(WIFSTOPPED(status));
	}
	EXPECT_EQ(ptrace(PTRACE_DETACH, child, NULL, NULL), 0);
	EXPECT(by_tracer > 0);
	EXPECT_EQ(by_maker, 0);
	EXPECT_EQ(kill(child, SIGKILL), 0);
	tick(&over);
	return arg;
}

TEST(the_stops_of_a_child_are_told_to_who_traces_it)
{
	handle(SIGCHLD);
	start(&maker, 1, makes_one, NULL);
	start(&tracer, 1, traces, NULL);
	join(&maker, 1);
	join(&tracer, 1);
}

/* A child that asks to be traced, and the thread that made it among eight that compute: the kernel
 * answers that thread alone. */
enum { COMPUTERS = 8, STEPS = 16 };

static volatile long seen_word = 12345;

static void *traces_its_own(void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR2, SIG_IGN);
		EXPECT_EQ(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
		for (;;)
			raise(SIGUSR2);
	}
	for (int i = 0; i < STEPS; i++) {
		/* Each of them, though it would ignore it; or the end of one step. */
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT(WIFSTOPPED(status));
		EXPECT_EQ(WSTOPSIG(status), i % 2 ? SIGTRAP : SIGUSR2);
		errno = 0;
		EXPECT_EQ(ptrace(PTRACE_PEEKDATA, pid, &seen_word, NULL), 12345);
		EXPECT_EQ(errno, 0);
		usleep(200);
		sched_yield();
		EXPECT_EQ(ptrace(i % 2 ? PTRACE_CONT : PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	}
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	reap(pid);
	return arg;
}

TEST(a_thread_traces_its_child_while_others_compute)
{
	pthread_t t[COMPUTERS], tracers[2];

	start(t, COMPUTERS, computes, NULL);
	start(tracers, 2, traces_its_own, NULL);
	join(tracers, 2);
	stop = true;
	join(t, COMPUTERS);
}

/* ---- a tracer ends ---- */

static void *traces_and_ends(void *options)
{
	int status;

	EXPECT_EQ(ptrace(PTRACE_SEIZE, child, NULL, options), 0);
	EXPECT_EQ(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	EXPECT_EQ(waitpid(child, &status, __WALL), child);
	EXPECT(WIFSTOPPED(status));
	return NULL;
}

static void *forks_one_and_traces_it(void *options)
{
	child = forks();
	return traces_and_ends(options);
}

TEST(whom_a_thread_traces_its_end_lets_go)
{
	EXPECT_EQ(pipe(gate), 0);
	for (int i = 0; i < 4; i++) {
		bool kills = i % 2;
		if (i < 2)
			child = forks();
		on_thread(i < 2 ? traces_and_ends : forks_one_and_traces_it,
			  (void *)(uintptr_t)(kills ? PTRACE_O_EXITKILL : 0));
		if (!kills)
			EXPECT_EQ(write(gate[1], "\n", 1), 1);
		EXPECT_EQ(status_of(child), kills ? SIGKILL : 0);
	}
}
