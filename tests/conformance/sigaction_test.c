/* What sigaction's flags and mask ask for, signals by number and by timers, and the default actions
 * of faults, told of threads among others that run. The same holds natively. */
#include "event.h"
#include "others.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>

static void act_on(int sig, void (*handler)(int), int flags, int masked)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	if (masked)
		sigaddset(&action.sa_mask, masked);
	EXPECT_EQ(sigaction(sig, &action, NULL), 0);
}

/* ---- flags and mask ---- */

static volatile int depth, deepest, handled;

static void raises_again(int sig)
{
	depth = depth + 1;
	if (depth > deepest)
		deepest = depth;
	handled = handled + 1;
	if (handled < 3)
		raise(sig);
	depth = depth - 1;
}

static void *nests(void *arg)
{
	act_on(SIGUSR1, raises_again, SA_NODEFER, 0);
	handled = deepest = 0;
	raise(SIGUSR1);
	EXPECT_EQ(deepest, 3);
	EXPECT_EQ(handled, 3);
	act_on(SIGUSR1, raises_again, 0, 0);
	handled = deepest = 0;
	raise(SIGUSR1);
	EXPECT_EQ(deepest, 1);
	EXPECT_EQ(handled, 3);
	return arg;
}

TEST(a_handler_is_interrupted_by_its_own_signal_if_it_asks_for_that)
{
	among_others(nests, NULL);
}

static void *finds_flags(void *expected)
{
	struct sigaction action, again;

	act_on(SIGUSR1, raises_again, SA_NODEFER | SA_RESTART, 0);
	EXPECT_EQ(sigaction(SIGUSR1, NULL, &action), 0);
	EXPECT_EQ(action.sa_flags, *(int *)expected);
	EXPECT_EQ(sigaction(SIGUSR1, &action, &again), 0);
	EXPECT_EQ(again.sa_flags, *(int *)expected);
	return NULL;
}

/* Among them one of glibc's own. */
TEST(flags_are_told_as_they_were_before_there_were_threads)
{
	struct sigaction action;
	int flags;

	act_on(SIGUSR1, raises_again, SA_NODEFER | SA_RESTART, 0);
	EXPECT_EQ(sigaction(SIGUSR1, NULL, &action), 0);
	flags = action.sa_flags;
	among_others(finds_flags, &flags);
}

/* The kernel's word, which for a handler of the program's may have another's. */
static void *asks_the_kernel(void *arg)
{
#ifdef __x86_64__
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} its = { 0 };
	register long size __asm__("r10") = sizeof(its.mask);
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(SYS_rt_sigaction), "D"((long)SIGUSR1), "S"(0L), "d"(&its), "r"(size)
			 : "rcx", "r11", "memory");
	EXPECT_EQ(r, 0);
	if (its.handler != raises_again)
		EXPECT_EQ(its.mask | 1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1), ~0ULL);
#endif
	return arg;
}

/* One that goes on elsewhere amid what comes before the handler would bring that kernel thread the
 * signal stack of its own: 2 of 20 runs beside a timer crashed. */
TEST(no_signal_at_all_comes_in_what_is_before_a_handler)
{
	act_on(SIGUSR1, raises_again, 0, 0);
	among_others(asks_the_kernel, NULL);
	act_on(SIGUSR1, raises_again, SA_RESTART, 0);
	asks_the_kernel(NULL);
}

static void *asks_in_a_child_of_vfork(void *arg)
{
	struct sigaction old;
	pid_t pid;

	act_on(SIGUSR1, raises_again, 0, 0);
	pid = vfork();
	if (pid == 0) {
		sigaction(SIGUSR1, NULL, &old);
		_exit(old.sa_handler != raises_again);
	}
	EXPECT_EQ(status_of(pid), 0);
	return arg;
}

TEST(a_child_of_vfork_is_told_the_handler)
{
	among_others(asks_in_a_child_of_vfork, NULL);
}

/* As programs have it that are older than its being deprecated. */
int interrupting(int sig, int on) __asm__("siginterrupt");

static int flags_by_signal(int sig)
{
	struct sigaction action;

	EXPECT(signal(sig, raises_again) != SIG_ERR);
	EXPECT_EQ(sigaction(sig, NULL, &action), 0);
	return action.sa_flags & SA_RESTART;
}

static void *interrupts(void *arg)
{
	EXPECT_EQ(flags_by_signal(SIGUSR1), SA_RESTART);
	EXPECT_EQ(interrupting(SIGUSR1, 1), 0);
	EXPECT_EQ(flags_by_signal(SIGUSR1), 0);
	EXPECT_EQ(flags_by_signal(SIGUSR2), SA_RESTART);
	EXPECT_EQ(interrupting(SIGUSR1, 0), 0);
	EXPECT_EQ(flags_by_signal(SIGUSR1), SA_RESTART);
	return arg;
}

TEST(siginterrupt_holds_for_what_signal_sets_later)
{
	interrupts(NULL);
	among_others(interrupts, NULL);
}

/* ---- two at a time ---- */

static pthread_barrier_t both;

static void *sets_them_all(void *arg)
{
	struct sigaction action = { .sa_handler = raises_again }, old;

	for (int sig = 34; sig <= SIGRTMAX; sig++) {
		pthread_barrier_wait(&both);
		if (arg) {
			EXPECT_EQ(sigaction(sig, &action, &old), 0);
			EXPECT(old.sa_handler == SIG_DFL || old.sa_handler == raises_again);
		}
		EXPECT_EQ(sigaction(sig, NULL, &old), 0);
		EXPECT(old.sa_handler == SIG_DFL || old.sa_handler == raises_again);
	}
	return NULL;
}

TEST(the_first_handler_is_set_by_two_and_asked_for_by_others)
{
	pthread_t t[4];

	pthread_barrier_init(&both, NULL, 4);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, sets_them_all, i < 2 ? &both : NULL), 0);
	join(t, 4);
}

/* ---- one that was to run once ---- */

static struct event asleep, awake_again;

static void *pauses_after_one(void *arg)
{
	act_on(SIGURG, raises_again, (int)SA_RESETHAND, 0);
	handled = 2;
	raise(SIGURG);
	EXPECT_EQ(handled, 3);
	tick(&asleep);
	EXPECT_EQ(pause(), -1);
	tick(&awake_again);
	return arg;
}

TEST(what_is_ignored_again_ends_no_pause)
{
	pthread_t t;

	act_on(SIGUSR1, raises_again, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, pauses_after_one, NULL), 0);
	await(&asleep, 1);
	settle();
	EXPECT_EQ(pthread_kill(t, SIGURG), 0);
	settle();
	EXPECT_EQ(awake_again.n, 0);
	interrupt(t, SIGUSR1, &awake_again, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- one that is set while signals come ---- */

static _Atomic int with_mask, without, enough;

static int blocked_now(int sig)
{
	sigset_t set;

	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, sig);
}

static void of_a_mask(int sig)
{
	(void)sig;
	EXPECT(blocked_now(SIGUSR2));
	with_mask++;
}

static void of_none(int sig)
{
	(void)sig;
	EXPECT(!blocked_now(SIGUSR2));
	without++;
}

static void *sets_one_and_the_other(void *arg)
{
	for (int i = 1; !enough; i++) {
		act_on(SIGUSR1, of_a_mask, 0, SIGUSR2);
		if (i % 10 == 0)
			sched_yield();
		act_on(SIGUSR1, of_none, 0, 0);
		if (i % 10 == 5)
			sched_yield();
	}
	return arg;
}

/* Until either has been run that often. */
static void *raises_meanwhile(void *arg)
{
	enum { OFTEN = 60000 };
	pthread_t t;

	act_on(SIGUSR1, of_none, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, sets_one_and_the_other, NULL), 0);
	while (with_mask < OFTEN || without < OFTEN) {
		raise(SIGUSR1);
		sched_yield();
	}
	enough = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
	return arg;
}

TEST_IN(20, a_handler_has_its_own_mask_though_another_is_just_being_set)
{
	on_thread(raises_meanwhile, NULL);
}

static volatile bool within;
static volatile int among, after;

static void counts_where(int sig)
{
	(void)sig;
	if (within)
		among = among + 1;
	else
		after = after + 1;
}

static void sends_what_is_masked(int sig)
{
	sigset_t set;

	(void)sig;
	within = true;
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	EXPECT_EQ(sigismember(&set, SIGUSR2), 1);
	sigpending(&set);
	EXPECT_EQ(sigismember(&set, SIGUSR2), 1);
	within = false;
}

static void *masks(void *arg)
{
	act_on(SIGUSR1, sends_what_is_masked, 0, SIGUSR2);
	act_on(SIGUSR2, counts_where, 0, 0);
	raise(SIGUSR1);
	EXPECT_EQ(among, 0);
	EXPECT_EQ(after, 1);
	return arg;
}

TEST(what_a_handler_masks_comes_when_it_is_over)
{
	among_others(masks, NULL);
}

static _Atomic int children;

static void counts_children(int sig)
{
	(void)sig;
	children++;
}

static void *leaves_children(void *arg)
{
	int status;
	pid_t pid;

	act_on(SIGCHLD, counts_children, SA_NOCLDSTOP | SA_NOCLDWAIT | SA_RESTART, 0);
	pid = fork();
	if (pid == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(children, 0);
	kill(pid, SIGCONT);
	FAILS(waitpid(pid, &status, 0), ECHILD);
	act_on(SIGCHLD, SIG_IGN, 0, 0);
	pid = fork();
	if (pid == 0)
		_exit(0);
	FAILS(waitpid(pid, &status, 0), ECHILD);
	return arg;
}

TEST(children_that_nobody_waits_for_leave_nothing)
{
	among_others(leaves_children, NULL);
}

/* ---- by number ---- */

static struct {
	pthread_t thread;
	struct event known, came;
	_Atomic pid_t tid;
	_Atomic int code, value;
	_Atomic bool elsewhere;
} found;

static void notes_where(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)uc;
	found.code = info->si_code;
	found.value = info->si_value.sival_int;
	if (!pthread_equal(pthread_self(), found.thread))
		found.elsewhere = true;
	tick(&found.came);
}

static void *is_found(void *arg)
{
	found.thread = pthread_self();
	found.tid = gettid();
	tick(&found.known);
	return sleeps_on(arg);
}

static void noted(int sig)
{
	struct sigaction action = { .sa_sigaction = notes_where,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	EXPECT_EQ(sigaction(sig, &action, NULL), 0);
}

TEST(a_raw_tkill_reaches_the_thread_of_that_number)
{
	pthread_t t[2];

	noted(SIGUSR1);
	start(&t[0], 1, is_found, NULL);
	start(&t[1], 1, yields_on, NULL);
	await(&found.known, 1);
	EXPECT_EQ(syscall(SYS_tkill, found.tid, SIGUSR1), 0);
	await(&found.came, 1);
	EXPECT_EQ(found.code, SI_TKILL);
	EXPECT(!found.elsewhere);
	FAILS(syscall(SYS_tkill, 0x3fffff00, SIGUSR1), ESRCH);
	others_end = true;
	join(t, 2);
}

/* glibc tells who waits for one that was sent to a thread that it was sent to the process. */
static void *waits_for_its_own(void *arg)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	EXPECT_EQ(raise(SIGUSR1), 0);
	EXPECT_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	EXPECT_EQ(info.si_code, SI_USER);
	EXPECT_EQ(info.si_pid, getpid());
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	EXPECT_EQ(syscall(SYS_rt_sigtimedwait, &set, &info, NULL, 8), SIGUSR1);
	EXPECT_EQ(info.si_code, SI_TKILL);
	return arg;
}

TEST(who_waits_for_a_signal_is_told_that_kill_sent_it)
{
	run(1, waits_for_its_own, NULL);
	waits_for_its_own(NULL);
}

/* ---- timers ---- */

static void every_ms(timer_t timer, long ms)
{
	struct itimerspec spec = { { 0, ms * MS }, { 0, ms * MS } }, is;

	EXPECT_EQ(timer_settime(timer, 0, &spec, NULL), 0);
	EXPECT_EQ(timer_gettime(timer, &is), 0);
	EXPECT_EQ(is.it_interval.tv_nsec, ms * MS);
	EXPECT(is.it_value.tv_nsec <= ms * MS);
}

static void *takes_signals_of_a_timer(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGRTMIN + 1,
				  .sigev_value.sival_int = 9 };
	siginfo_t info;
	timer_t timer;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	every_ms(timer, 2);
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 1);
		EXPECT_EQ(info.si_code, SI_TIMER);
		EXPECT_EQ(info.si_value.sival_int, 9);
	}
	/* Meanwhile one is pending, and the others are counted. */
	usleep(50000);
	EXPECT_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 1);
	EXPECT(info.si_overrun >= 5);
	EXPECT_EQ(timer_delete(timer), 0);
	return arg;
}

TEST(a_timer_s_signal_is_waited_for_and_what_was_missed_is_counted)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	among_others(takes_signals_of_a_timer, NULL);
}

static struct event rang;

static void rings(union sigval value)
{
	ticks(&rang, value.sival_int);
}

static void *is_rung_by_a_thread(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = rings,
				  .sigev_value.sival_int = 1 };
	timer_t timer;

	EXPECT_EQ(timer_create(CLOCK_REALTIME, &event, &timer), 0);
	every_ms(timer, 2);
	await(&rang, 5);
	EXPECT_EQ(timer_delete(timer), 0);
	return arg;
}

TEST(a_timer_begins_a_thread_each_time)
{
	among_others(is_rung_by_a_thread, NULL);
}

static void *sets_alarms(void *arg)
{
	noted(SIGALRM);
	EXPECT_EQ(alarm(1000), 0);
	EXPECT(alarm(100) - 999u <= 1);
	EXPECT(alarm(0) - 99u <= 1);
	EXPECT_EQ(alarm(0), 0);
	alarm(1);
	await(&found.came, 1);
	return arg;
}

TEST(an_alarm_is_the_process_s)
{
	among_others(sets_alarms, NULL);
}

/* ---- what ends a process ---- */

enum fault { BLOCKED, IGNORED, DIVIDED, TRAPPED, QUIT, ABORTED, FAULTS };

static void *faults(void *arg)
{
	volatile int zero = 0;
	sigset_t all;

	switch ((enum fault)(intptr_t)arg) {
	case BLOCKED:
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		*(volatile int *)8 = 1;
		break;
	case IGNORED:
		signal(SIGSEGV, SIG_IGN);
		*(volatile int *)8 = 1;
		break;
	case DIVIDED:
		zero = 100 / zero;
		break;
	case TRAPPED:
		__builtin_trap();
	case QUIT:
		raise(SIGQUIT);
		break;
	case ABORTED:
		signal(SIGABRT, SIG_IGN);
		abort();
	default:
		break;
	}
	return arg;
}

TEST(a_fault_of_any_thread_ends_the_process_by_its_signal)
{
	static const int signals[FAULTS] = { SIGSEGV, SIGSEGV, SIGFPE, SIGILL, SIGQUIT, SIGABRT };
	struct rlimit none = { 0, 0 };

	EXPECT_EQ(setrlimit(RLIMIT_CORE, &none), 0);
	for (intptr_t i = 0; i < FAULTS; i++) {
		pid_t pid = fork();
		int status;
		if (pid == 0) {
			among_others(faults, (void *)i);
			_exit(77);
		}
		status = status_of(pid);
		EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : -i, signals[i]);
	}
}

/* ---- a filter of one thread's ---- */

enum { REFUSED = 77 };

static void *is_filtered(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | REFUSED),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (arg)
		EXPECT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	else
		EXPECT_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
	for (int i = 0; i < 100; i++) {
		FAILS((int)syscall(SYS_getppid), REFUSED);
		if (i % 10 == 0)
			usleep(100);
		else
			sched_yield();
	}
	return arg;
}

static void *is_not_filtered(void *arg)
{
	for (int i = 0; i < 100; i++) {
		EXPECT(syscall(SYS_getppid) >= 0);
		usleep(50);
	}
	return arg;
}

TEST(a_filter_is_for_the_thread_that_set_it)
{
	pthread_t t[4], filtered[2];

	start(t, 4, is_not_filtered, NULL);
	start_numbered(filtered, 2, is_filtered);
	join(filtered, 2);
	join(t, 4);
	run(4, is_not_filtered, NULL);
}

/* ---- a terminal ---- */

static int terminal;

/* In the foreground or the background of it, one thread reads and another runs. */
static void *reads_a_line(void *arg)
{
	char line[8];
	ssize_t n;

	do
		n = read(STDIN_FILENO, line, sizeof(line));
	while (n < 0 && errno == EINTR);
	_exit(n == 3 ? 6 : 9);
	return arg;
}

static void says(char c)
{
	EXPECT_EQ(write(STDOUT_FILENO, &c, 1), 1);
}

/* What was typed is echoed. */
static void hears(char c)
{
	char is = 0;

	while (is != c)
		EXPECT_EQ(read(terminal, &is, 1), 1);
}

static void types(const char *what)
{
	EXPECT_EQ(write(terminal, what, strlen(what)), strlen(what));
}

static void stops(pid_t pid, int sig)
{
	int status;

	EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(WSTOPSIG(status), sig);
}

/* As a shell does: its job reads in the background, goes on in front, is stopped there, and goes
 * on. How it ends then. */
static int runs_a_job(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		setpgid(0, 0);
		among_others(reads_a_line, NULL);
		_exit(1);
	}
	setpgid(pid, pid);
	signal(SIGTTOU, SIG_IGN);
	stops(pid, SIGTTIN);
	EXPECT_EQ(tcsetpgrp(STDIN_FILENO, pid), 0);
	kill(pid, SIGCONT);
	says('F');
	stops(pid, SIGTSTP);
	kill(pid, SIGCONT);
	says('G');
	return status_of(pid);
}

static int job_ends_by(const char *typed)
{
	pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
	int status;

	EXPECT(pid >= 0);
	if (pid == 0) {
		status = runs_a_job();
		_exit(WIFSIGNALED(status) ? WTERMSIG(status) : 100 + WEXITSTATUS(status));
	}
	hears('F');
	types("\032");
	hears('G');
	types(typed);
	status = status_of(pid);
	close(terminal);
	return WEXITSTATUS(status);
}

TEST(jobs_are_controlled_at_a_terminal)
{
	EXPECT_EQ(job_ends_by("ab\n"), 106);
	EXPECT_EQ(job_ends_by("\003"), SIGINT);
}
