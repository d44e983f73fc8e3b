/* Waiting for processes and for signals. The same holds natively. */
#include "common.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>

extern char **environ;

/* ---- children ---- */

/* One that ends with status 3 when it is told to. */
static void opens_child(struct wait *w)
{
	char c;

	EXPECT_EQ(pipe2(w->fd, O_CLOEXEC), 0);
	w->pid = fork();
	if (w->pid == 0) {
		close(w->fd[1]);
		_exit(read(w->fd[0], &c, 1) == 1 ? 3 : 4);
	}
	EXPECT(w->pid > 0);
}

static void tells(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "x", 1), 1);
}

static long ended(struct wait *w, long r, int status)
{
	if (r < 0)
		return r;
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 3);
	return r == w->pid;
}

static long in_waitpid(struct wait *w)
{
	int status = -1;
	pid_t r = waitpid(w->pid, &status, 0);

	return ended(w, r, status);
}

static long in_wait4(struct wait *w)
{
	struct rusage usage = { .ru_utime.tv_sec = -1 };
	int status = -1;
	pid_t r = wait4(w->pid, &status, 0, &usage);

	EXPECT(r < 0 || usage.ru_utime.tv_sec >= 0);
	return ended(w, r, status);
}

static long in_waitid(struct wait *w)
{
	siginfo_t info = { 0 };
	int r = waitid(P_PID, (id_t)w->pid, &info, WEXITED);

	if (r == 0) {
		EXPECT_EQ(info.si_pid, w->pid);
		EXPECT_EQ(info.si_code, CLD_EXITED);
		EXPECT_EQ(info.si_status, 3);
	}
	return r == 0 ? 1 : r;
}

static long by_number(struct wait *w)
{
	int status = -1;
	long r = syscall(SYS_wait4, w->pid, &status, 0, NULL);

	return ended(w, r, status);
}

BLOCKS(waitpid, .open = opens_child, .block = in_waitpid, .release = tells, .wants = 1,
       .how = RESTARTS)
BLOCKS(wait4, .open = opens_child, .block = in_wait4, .release = tells, .wants = 1, .how = RESTARTS)
BLOCKS(waitid, .open = opens_child, .block = in_waitid, .release = tells, .wants = 1,
       .how = RESTARTS)
BLOCKS_UNCANCELLED(SYS_wait4_, .open = opens_child, .block = by_number, .release = tells,
		   .wants = 1, .how = RESTARTS)

static _Atomic int reaped, statuses;
static int gate[2];

static void *waits_for_any(void *arg)
{
	for (int k = 0; k < 3; k++) {
		int status;
		pid_t pid;
		struct rusage usage;
		errno = KEPT;
		if (k == 0)
			pid = wait(&status);
		else if (k == 1)
			pid = wait3(&status, 0, &usage);
		else
			pid = waitpid(-1, &status, 0);
		EXPECT(pid > 0);
		EXPECT_EQ(errno, KEPT);
		EXPECT(WIFEXITED(status));
		atomic_fetch_add(&statuses, WEXITSTATUS(status));
		atomic_fetch_add(&reaped, 1);
	}
	return arg;
}

/* ---- becoming another program ---- */

static char *much[16];

static void *spins(void *arg)
{
	for (volatile int i = 0;; i++)
		continue;
	return arg;
}

static double milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* About as long as a thread may before others have their turn. */
static void *computes_and_becomes_another(void *ms)
{
	static char name[] = "true", *args[] = { name, NULL };
	double until = milliseconds() + *(double *)ms;

	while (milliseconds() < until)
		continue;
	execve("/bin/true", args, much);
	return NULL;
}

/* Copying the environment takes so long that a turn ends in the midst of it. */
TEST(a_program_that_a_thread_becomes_is_hit_by_no_signal)
{
	enum { BYTES = 120000 };
	pthread_t t;
	double ms;
	int status;

	for (int i = 0; i < 14; i++) {
		much[i] = calloc(1, BYTES);
		memset(much[i], 'a', BYTES - 1);
	}
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			ms = 8.5 + i % 12 * 0.5;
			pthread_create(&t, NULL, spins, NULL);
			pthread_create(&t, NULL, spins, NULL);
			pthread_create(&t, NULL, computes_and_becomes_another, &ms);
			pthread_join(t, NULL);
			_exit(1);
		}
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
	}
}

static _Atomic bool over;

static void *computes_until_over(void *arg)
{
	while (!over)
		continue;
	return arg;
}

/* Its turn may end at any moment of it. */
TEST(who_becomes_no_other_program_goes_on_and_so_do_others)
{
	static char *none[] = { NULL };
	double until = milliseconds() + 1000;
	pthread_t t[2];

	start(t, 2, computes_until_over, NULL);
	while (milliseconds() < until) {
		EXPECT_EQ(execve("/nonexistent", none, none), -1);
		EXPECT_EQ(errno, ENOENT);
	}
	over = true;
	join(t, 2);
}

/* Children of the process are any thread's to wait for, whoever made them. Half of them end at
 * once, half when they are told to. */
static void *forks_some(void *arg)
{
	for (int i = 0; i < 6; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			char c;
			if (i % 2)
				read_all(gate[0], &c, 1);
			_exit((int)(long)arg + i);
		}
		EXPECT(pid > 0);
	}
	return NULL;
}

TEST(each_child_is_reaped_by_one_of_those_who_wait)
{
	pthread_t t[4], f[2];
	pid_t first;

	EXPECT_EQ(pipe(gate), 0);
	first = fork();
	/* One that lives until all wait, lest there be no child for a moment. */
	if (first == 0) {
		pause();
		_exit(0);
	}
	start(t, 4, waits_for_any, NULL);
	for (long i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&f[i], NULL, forks_some, (void *)(i * 10)), 0);
	join(f, 2);
	settle();
	EXPECT_EQ(write(gate[1], "666666", 6), 6);
	join(t, 4);
	EXPECT_EQ(reaped, 12);
	EXPECT_EQ(statuses, 2 * 15 + 6 * 10);
	EXPECT_EQ(kill(first, SIGKILL), 0);
	int status;
	EXPECT_EQ(wait(&status), first);
	EXPECT(WIFSIGNALED(status));
	FAILS(wait(NULL), ECHILD);
	FAILS(waitpid(first, NULL, 0), ECHILD);
	FAILS(waitid(P_PID, (id_t)first, NULL, WEXITED), ECHILD);
	FAILS(waitid(P_ALL, 0, NULL, 0), EINVAL);
	FAILS(waitpid(-1, NULL, 0x7777), EINVAL);
}

TEST(waiting_sees_children_stop_and_go_on)
{
	struct wait w;
	int status;
	siginfo_t info;
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	opens_child(&w);
	EXPECT_EQ(waitpid(w.pid, &status, WNOHANG), 0);
	EXPECT_EQ(kill(w.pid, SIGSTOP), 0);
	EXPECT_EQ(waitpid(w.pid, &status, WUNTRACED), w.pid);
	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(kill(w.pid, SIGCONT), 0);
	EXPECT_EQ(waitid(P_PID, (id_t)w.pid, &info, WCONTINUED), 0);
	EXPECT_EQ(info.si_code, CLD_CONTINUED);
	tells(&w);
	EXPECT_EQ(waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOWAIT), 0);
	EXPECT_EQ(waitpid(w.pid, &status, 0), w.pid);
	EXPECT_EQ(WEXITSTATUS(status), 3);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- commands ---- */

static void *runs_commands(void *arg)
{
	char line[64] = "", waits[64];
	FILE *f;
	pid_t pid;
	int status;
	char *argv[] = { "sh", "-c", "sleep .1; exit 9", NULL };

	snprintf(waits, sizeof(waits), "read x <&%d; exit 5", gate[0]);
	EXPECT_EQ(WEXITSTATUS(system(waits)), 5);
	EXPECT_EQ(system(NULL) != 0, 1);
	f = popen("sleep .05; echo hello; exit 6", "r");
	EXPECT(f != NULL);
	EXPECT(fgets(line, sizeof(line), f) != NULL);
	EXPECT(strcmp(line, "hello\n") == 0);
	EXPECT(fgets(line, sizeof(line), f) == NULL);
	EXPECT_EQ(WEXITSTATUS(pclose(f)), 6);
	f = popen("read x; test \"$x\" = word", "w");
	EXPECT(f != NULL);
	EXPECT(fputs("word\n", f) >= 0);
	EXPECT_EQ(pclose(f), 0);
	EXPECT_EQ(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(WEXITSTATUS(status), 9);
	EXPECT_EQ(posix_spawn(&pid, "/nonexistent", NULL, NULL, argv, environ), ENOENT);
	tick(&returned);
	return arg;
}

TEST(commands_run_from_several_threads_and_hold_up_nobody)
{
	pthread_t t[4];

	EXPECT_EQ(pipe(gate), 0);
	start(t, 4, runs_commands, NULL);
	for (int i = 0; i < 3; i++)
		expect_progress();
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(write(gate[1], "\n\n\n\n", 4), 4);
	while (!comes_within_us(&returned, 4, 5000))
		expect_progress();
	join(t, 4);
}

TEST(a_command_is_run_without_the_mask_and_handlers_of_the_caller)
{
	pthread_t t;
	struct sigaction old;

	handle(SIGINT, 0);
	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	EXPECT_EQ(WTERMSIG(system("kill -INT $$; sleep 1")), SIGINT);
	EXPECT_EQ(sigaction(SIGINT, NULL, &old), 0);
	EXPECT(old.sa_handler == handles);
	EXPECT_EQ(handled.n, 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- signals that are waited for ---- */

static void block_two(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGUSR2);
	sigaddset(set, SIGRTMIN + 3);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, set, NULL), 0);
}

static void blocks_signals(struct wait *w)
{
	sigset_t set;

	(void)w;
	block_two(&set);
}

/* To the thread itself, which has blocked it. */
static void signals(struct wait *w)
{
	EXPECT_EQ(pthread_kill(w->thread, SIGUSR2), 0);
}

static long in_sigwait(struct wait *w)
{
	sigset_t set;
	int sig = 0;

	(void)w;
	block_two(&set);
	EXPECT_EQ(sigwait(&set, &sig), 0);
	return sig;
}

static long in_sigwaitinfo(struct wait *w)
{
	sigset_t set;
	siginfo_t info;

	(void)w;
	block_two(&set);
	return sigwaitinfo(&set, &info);
}

static long in_sigtimedwait(struct wait *w)
{
	struct timespec t = { .tv_sec = 25 };
	sigset_t set;
	siginfo_t info;
	int r;

	(void)w;
	block_two(&set);
	r = sigtimedwait(&set, &info, &t);
	EXPECT(r < 0 || (info.si_signo == SIGUSR2 && info.si_pid == getpid()));
	return r;
}

/* sigwait knows no EINTR: POSIX forbids it, and glibc waits on. */
BLOCKS_UNINTERRUPTED(sigwait, .open = blocks_signals, .block = in_sigwait, .release = signals,
		     .wants = SIGUSR2, .how = LIBRARY)
BLOCKS(sigwaitinfo, .open = blocks_signals, .block = in_sigwaitinfo, .release = signals,
       .wants = SIGUSR2)
BLOCKS(sigtimedwait, .open = blocks_signals, .block = in_sigtimedwait, .release = signals,
       .wants = SIGUSR2)

static long in_pause(struct wait *w)
{
	(void)w;
	return pause();
}

static long in_sigsuspend(struct wait *w)
{
	sigset_t none;

	(void)w;
	sigemptyset(&none);
	return sigsuspend(&none);
}

static void handles_and_interrupts(struct wait *w)
{
	(void)w;
	handle(SIGUSR1, SA_RESTART);
}

static void interrupts(struct wait *w)
{
	interrupt(w->thread, SIGUSR1, &w->returned, 1);
}

BLOCKS(pause, .open = handles_and_interrupts, .block = in_pause, .release = interrupts,
       .how = FAILS_SO, .error = EINTR)
BLOCKS(sigsuspend, .open = handles_and_interrupts, .block = in_sigsuspend, .release = interrupts,
       .how = FAILS_SO, .error = EINTR)

static _Atomic int got[64];

static void *takes_signals(void *arg)
{
	sigset_t set;

	block_two(&set);
	for (;;) {
		siginfo_t info;
		int r = sigwaitinfo(&set, &info);
		if (r == SIGUSR2)
			return arg;
		/* Linux says so to one that was woken for what another took. */
		if (r < 0 && errno == EINTR)
			continue;
		EXPECT_EQ(r, SIGRTMIN + 3);
		EXPECT_EQ(info.si_code, SI_QUEUE);
		atomic_fetch_add(&got[info.si_int], 1);
		tick(&returned);
	}
}

TEST(each_queued_signal_is_one_waiter_s)
{
	pthread_t t[4];
	sigset_t set;

	block_two(&set);
	start(t, 4, takes_signals, NULL);
	for (int i = 0; i < 64; i++) {
		union sigval v = { .sival_int = i };
		EXPECT_EQ(sigqueue(getpid(), SIGRTMIN + 3, v), 0);
		if (i % 16 == 0)
			await(&returned, i + 1);
	}
	await(&returned, 64);
	for (int i = 0; i < 64; i++)
		EXPECT_EQ(got[i], 1);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_kill(t[i], SIGUSR2), 0);
	join(t, 4);
}

static void *waits_for_a_while(void *arg)
{
	struct timespec t = { .tv_nsec = 20 * MS }, zero = { 0 }, bad = { .tv_nsec = -1 };
	sigset_t set;
	siginfo_t info;
	long long since;

	block_two(&set);
	FAILS(sigtimedwait(&set, &info, &zero), EAGAIN);
	FAILS(sigtimedwait(&set, &info, &bad), EINVAL);
	since = now_ms();
	FAILS(sigtimedwait(&set, &info, &t), EAGAIN);
	EXPECT(took(since, 19));
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
	EXPECT_EQ(sigtimedwait(&set, &info, &zero), SIGUSR2);
	return arg;
}

TEST(sigtimedwait_is_over_after_its_time)
{
	pthread_t t[3];

	waits_for_a_while(NULL);
	start(t, 3, waits_for_a_while, NULL);
	join(t, 3);
}

/* A handler finds a thread of the process, if all but one block the signal, and that one
 * sleeps in a call. */
static void *is_the_only_one(void *arg)
{
	sigset_t usr;
	char c;

	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &usr, NULL), 0);
	tick(&entered);
	FAILS(read(((int *)arg)[0], &c, 1), EINTR);
	tick(&returned);
	return NULL;
}

TEST(a_signal_to_the_process_finds_the_thread_that_takes_it_in_its_read)
{
	int p[2];
	pthread_t t;
	sigset_t usr;

	EXPECT_EQ(pipe(p), 0);
	handle(SIGUSR1, 0);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &usr, NULL), 0);
	EXPECT_EQ(pthread_create(&t, NULL, is_the_only_one, p), 0);
	await(&entered, 1);
	/* As interrupt(), but to the process. */
	do
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	while (!comes_within_us(&returned, 1, 5000));
	EXPECT(handled.n >= 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
