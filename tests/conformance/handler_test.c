/* Handlers that interrupt a thread in the midst of a call: neither the call nor what becomes of it
 * knows of what they do. */
#include "common.h"

#include <semaphore.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int ends[2];
static _Atomic int goes_on;

static pthread_t started(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	int before = entered.n;

	EXPECT_EQ(pthread_create(&t, NULL, fn, arg), 0);
	await(&entered, before + 1);
	settle();
	return t;
}

static void ends_cancelled(pthread_t t)
{
	EXPECT_EQ(pthread_cancel(t), 0);
	expect_cancelled(t);
}

/* ---- a cancellation after a handler ---- */

static void writes_and_waits(int sig)
{
	(void)sig;
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	poll(NULL, 0, 1);
	tick(&handled);
}

static void cancels_itself(int sig)
{
	(void)sig;
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
	EXPECT(!"reached");
}

static void exits_cancelled(int sig)
{
	(void)sig;
	pthread_exit(PTHREAD_CANCELED);
}

static void *pauses(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Mostly before it begins what it was created for. */
static void end_in_handlers(void (*handler)(int))
{
	enum { ROUNDS = 100 };
	pthread_t t;

	handle_with(SIGUSR1, handler, 0);
	for (int i = 0; i < ROUNDS; i++) {
		start(&t, 1, pauses, NULL);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		expect_cancelled(t);
	}
}

TEST(who_was_just_created_may_be_cancelled_in_a_handler)
{
	end_in_handlers(cancels_itself);
}

TEST(who_was_just_created_may_exit_in_a_handler)
{
	end_in_handlers(exits_cancelled);
}

static void *waits_for_a_child(void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(20);
		pause();
	}
	*(_Atomic pid_t *)arg = pid;
	tick(&entered);
	waitpid(pid, NULL, 0);
	EXPECT(!"reached");
	return arg;
}

static void *locks_a_file(void *arg)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	tick(&entered);
	fcntl(*(int *)arg, F_SETLKW, &lock);
	EXPECT(!"reached");
	return arg;
}

static void *waits_shared(void *arg)
{
	tick(&entered);
	for (;;)
		sem_wait(arg);
	return NULL;
}

static void handled_then_cancelled(void *(*fn)(void *), void *arg)
{
	pthread_t t = started(fn, arg);

	handled.n = 0;
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	await(&handled, 1);
	ends_cancelled(t);
}

TEST(a_call_is_cancelled_after_a_handler_that_made_calls)
{
	_Atomic pid_t child;

	EXPECT_EQ(pipe(ends), 0);
	handle_with(SIGUSR1, writes_and_waits, SA_RESTART);
	for (int i = 0; i < 10; i++) {
		handled_then_cancelled(waits_for_a_child, &child);
		EXPECT_EQ(kill(child, SIGKILL), 0);
	}
}

TEST(a_wait_for_a_file_lock_and_for_a_shared_semaphore_too)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	sem_t *sem = mapped(MAP_SHARED);
	char path[] = "/tmp/heddle-lock-XXXXXX";
	int fd = mkstemp(path), locked[2];
	pid_t pid;
	char c;

	EXPECT_EQ(sem_init(sem, 1, 0), 0);
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pipe(locked), 0);
	handle_with(SIGUSR1, writes_and_waits, SA_RESTART);
	pid = fork();
	if (pid == 0) {
		fcntl(fd, F_SETLKW, &lock);
		EXPECT_EQ(write(locked[1], "x", 1), 1);
		alarm(20);
		pause();
	}
	EXPECT_EQ(read(locked[0], &c, 1), 1);
	for (int i = 0; i < 5; i++) {
		handled_then_cancelled(locks_a_file, &fd);
		handled_then_cancelled(waits_shared, sem);
	}
	kill(pid, SIGKILL);
	unlink(path);
}

static void waits_until_told(int sig)
{
	(void)sig;
	tick(&handled);
	while (!goes_on)
		continue;
}

static void *sleeps(void *arg)
{
	tick(&entered);
	for (;;)
		sleep(100);
	return arg;
}

TEST(a_handler_does_not_hold_up_who_cancels_its_thread)
{
	pthread_t t;

	handle_with(SIGUSR1, waits_until_told, SA_RESTART);
	t = started(sleeps, NULL);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	await(&handled, 1);
	EXPECT_EQ(pthread_cancel(t), 0);
	goes_on = 1;
	expect_cancelled(t);
}

/* ---- what does not interrupt ---- */

static void *receives_uncancelled(void *arg)
{
	struct {
		long type;
		char c[8];
	} m;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	tick(&entered);
	EXPECT(msgrcv(*(int *)arg, &m, sizeof(m.c), 0, 0) >= 0);
	tick(&returned);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	EXPECT(!"reached");
	return arg;
}

static void *receives(void *arg)
{
	struct {
		long type;
		char c[8];
	} m;

	tick(&entered);
	EXPECT(msgrcv(*(int *)arg, &m, sizeof(m.c), 0, 0) >= 0);
	return NULL;
}

TEST(a_cancellation_that_is_disabled_interrupts_nothing)
{
	struct {
		long type;
		char c[8];
	} m = { .type = 1 };
	int queue = msgget(IPC_PRIVATE, 0600);
	pthread_t t = started(receives_uncancelled, &queue);

	EXPECT_EQ(pthread_cancel(t), 0);
	settle();
	EXPECT_EQ(msgsnd(queue, &m, 1, 0), 0);
	expect_cancelled(t);
	EXPECT_EQ(returned.n, 1);
	msgctl(queue, IPC_RMID, NULL);
}

TEST(a_signal_that_is_ignored_interrupts_nothing)
{
	struct {
		long type;
		char c[8];
	} m = { .type = 1 };
	int queue = msgget(IPC_PRIVATE, 0600);
	pthread_t t = started(receives, &queue);

	EXPECT_EQ(pthread_kill(t, SIGCHLD), 0);
	settle();
	signal(SIGUSR1, SIG_IGN);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	settle();
	EXPECT_EQ(msgsnd(queue, &m, 1, 0), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	msgctl(queue, IPC_RMID, NULL);
}

/* ---- a handler within a handler ---- */

static sem_t there;

static void does_nothing(int sig)
{
	(void)sig;
}

static void is_interrupted(int sig)
{
	(void)sig;
	EXPECT_EQ(raise(SIGUSR2), 0);
	tick(&handled);
}

static void *reads_one(void *arg)
{
	char c;

	tick(&entered);
	EXPECT_EQ(read(ends[0], &c, 1), 1);
	return arg;
}

static void *takes_one(void *arg)
{
	tick(&entered);
	EXPECT_EQ(sem_wait(&there), 0);
	return arg;
}

/* As the first one's flags say, whatever interrupted that. */
TEST(a_call_is_restarted_though_its_handler_was_interrupted)
{
	struct sigaction act = { .sa_handler = is_interrupted, .sa_flags = SA_RESTART };
	pthread_t t[2];

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(sem_init(&there, 0, 0), 0);
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	act = (struct sigaction){ .sa_handler = does_nothing };
	EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
	t[0] = started(reads_one, NULL);
	t[1] = started(takes_one, NULL);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_kill(t[i], SIGUSR1), 0);
	await(&handled, 2);
	settle();
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(sem_post(&there), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

static struct event stopped;

static void *reads_until_stopped(void *arg)
{
	char c;

	tick(&entered);
	FAILS(read(ends[0], &c, 1), EINTR);
	tick(&stopped);
	return arg;
}

static void *waits_until_stopped(void *arg)
{
	tick(&entered);
	FAILS(sem_wait(&there), EINTR);
	tick(&stopped);
	return arg;
}

/* What the first one blocks comes when that is over, and finds a call that is made again. */
TEST(a_call_is_restarted_though_another_handler_comes_next)
{
	struct sigaction act = { .sa_handler = is_interrupted, .sa_flags = SA_RESTART };
	pthread_t t[2];

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(sem_init(&there, 0, 0), 0);
	sigaddset(&act.sa_mask, SIGUSR2);
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	handle_with(SIGUSR2, does_nothing, 0);
	t[0] = started(reads_until_stopped, NULL);
	t[1] = started(waits_until_stopped, NULL);
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 2; i++)
			EXPECT_EQ(pthread_kill(t[i], SIGUSR1), 0);
		await(&handled, 2 * round);
		settle();
		EXPECT_EQ(stopped.n, 0);
	}
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_kill(t[i], SIGUSR2), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

/* ---- jumps ---- */

static sigjmp_buf out;

static void jumps(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void *jumps_out_of_a_raw_read(void *arg)
{
	char c;

	if (sigsetjmp(out, 1) == 0) {
		tick(&entered);
		syscall(SYS_read, ends[0], &c, 1);
		EXPECT(!"reached");
	}
	tick(&handled);
	for (;;)
		sleep(100);
	return arg;
}

TEST(who_jumped_out_of_a_raw_call_can_be_cancelled)
{
	pthread_t t;

	EXPECT_EQ(pipe(ends), 0);
	handle_with(SIGUSR1, jumps, SA_RESTART);
	t = started(jumps_out_of_a_raw_read, NULL);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	await(&handled, 1);
	ends_cancelled(t);
}

/* ---- the next thread in the same place ---- */

static void *waits_for_USR1(void *arg)
{
	sigset_t set;
	int sig;

	mask(SIG_BLOCK, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	tick(&entered);
	sigwait(&set, &sig);
	EXPECT(!"reached");
	return arg;
}

static void *sleeps_once(void *arg)
{
	tick(&entered);
	FAILS(usleep(20000000), EINTR);
	EXPECT_EQ(handled.n, 1);
	return arg;
}

TEST(who_was_cancelled_in_sigwait_leaves_nothing_to_the_next)
{
	pthread_t t;

	handle(SIGUSR1, 0);
	for (int i = 0; i < 5; i++) {
		ends_cancelled(started(waits_for_USR1, NULL));
		handled.n = 0;
		t = started(sleeps_once, NULL);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* ---- signals sent while the thread's wait for them ends ---- */

static struct event taken;
static _Atomic int over;

static void *waits_briefly_for_USR1(void *arg)
{
	static const struct timespec brief = { 0, 50000 };
	sigset_t set;

	mask(SIG_BLOCK, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	tick(&entered);
	while (!over)
		if (sigtimedwait(&set, NULL, &brief) == SIGUSR1)
			tick(&taken);
	return arg;
}

TEST(a_signal_sent_as_sigtimedwait_times_out_is_not_lost)
{
	pthread_t t;

	handle(SIGUSR1, 0);
	t = started(waits_briefly_for_USR1, NULL);
	for (int i = 0; i < 5000; i++) {
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&taken, i + 1);
	}
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(taken.n, 5000);
	EXPECT_EQ(handled.n, 0);
}

/* ---- the last steps of a thread ---- */

static void exits_two(int sig)
{
	(void)sig;
	pthread_exit((void *)2);
}

static void *ends_soon(void *arg)
{
	for (volatile long i = (long)arg; i > 0; i--)
		continue;
	return (void *)1;
}

/* Its function may be over by then, and it not have ended. */
TEST(a_handler_that_exits_may_come_in_the_last_steps_of_a_thread)
{
	unsigned seed = 1;

	handle_with(SIGUSR1, exits_two, 0);
	for (int i = 0; i < 10000; i++) {
		pthread_t t;
		void *result;
		EXPECT_EQ(pthread_create(&t, NULL, ends_soon, (void *)(long)(rand_r(&seed) % 3000)),
			  0);
		ends_soon((void *)(long)(rand_r(&seed) % 6000));
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, &result), 0);
		EXPECT(result == (void *)1 || result == (void *)2);
	}
}

/* ---- a fork in a handler, after which the child goes on ---- */

static volatile sig_atomic_t in_child;
static _Atomic pid_t forked;

static void forks_in_it(int sig)
{
	pid_t pid = fork();

	(void)sig;
	if (pid == 0)
		in_child = 1;
	else
		forked = pid;
	tick(&handled);
}

static bool computes(void)
{
	while (handled.n == 0)
		continue;
	return true;
}

static bool naps(void)
{
	struct timespec time = { 100, 0 };

	return nanosleep(&time, NULL) == -1 && errno == EINTR;
}

static bool reads(void)
{
	char c;

	return read(ends[0], &c, 1) == -1 && errno == EINTR;
}

static bool waits_for_a_post(void)
{
	static sem_t sem;

	return sem_wait(&sem) == -1 && errno == EINTR;
}

/* Announced. */
static bool waits_for_a_message(void)
{
	struct msgbuf got;
	int id = msgget(IPC_PRIVATE, 0600);
	bool ended = msgrcv(id, &got, sizeof(got.mtext), 0, 0) == -1 && errno == EINTR;

	return !in_child ? ended && msgctl(id, IPC_RMID, NULL) == 0 : ended;
}

static bool waits_on_a_condition(void)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	int r;

	pthread_mutex_lock(&m);
	do {
		struct timespec until = in_ms(CLOCK_REALTIME, 50);
		r = pthread_cond_timedwait(&c, &m, &until);
	} while (handled.n == 0);
	return (r == 0 || r == ETIMEDOUT) && pthread_mutex_unlock(&m) == 0;
}

static bool (*const interrupted[])(void) = {
	computes, naps, reads, waits_for_a_post, waits_for_a_message, waits_on_a_condition
};

static void *returns_its(void *arg)
{
	return arg;
}

static void *goes_on_in_both(void *arg)
{
	bool (*wait)(void) = *(bool (*const *)(void))arg;
	sigset_t mask;
	bool right;

	tick(&entered);
	right = wait();
	right &= pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1);
	if (in_child) {
		pthread_t t;
		void *result = NULL;
		right &= pthread_create(&t, NULL, returns_its, arg) == 0 &&
			 pthread_join(t, &result) == 0 && result == arg;
		_exit(!right);
	}
	EXPECT(right);
	return NULL;
}

TEST(the_child_of_a_fork_in_a_handler_goes_on_where_the_thread_was)
{
	EXPECT_EQ(pipe(ends), 0);
	handle_with(SIGUSR1, forks_in_it, 0);
	for (size_t i = 0; i < sizeof(interrupted) / sizeof(*interrupted); i++) {
		pthread_t t;
		int status, before = entered.n;
		handled.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, goes_on_in_both, (void *)&interrupted[i]), 0);
		await(&entered, before + 1);
		if (interrupted[i] != computes)
			settle();
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, 1);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		EXPECT_EQ(waitpid(forked, &status, 0), forked);
		EXPECT_EQ(status, 0);
	}
}

/* What was sent to the thread and is blocked stays the parent's. */
static void *forks_with_one_pending(void *arg)
{
	sigset_t usr1;
	int status;
	pid_t pid;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	pid = fork();
	if (pid == 0) {
		pthread_t t;
		void *result = NULL;
		if (pthread_create(&t, NULL, returns_its, arg) != 0 ||
		    pthread_join(t, &result) != 0)
			_exit(2);
		pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
		_exit(handled.n);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	EXPECT_EQ(handled.n, 1);
	return NULL;
}

static void counts_it(int sig)
{
	(void)sig;
	handled.n++;
}

TEST(a_child_has_nothing_pending)
{
	pthread_t t;

	handle_with(SIGUSR1, counts_it, 0);
	EXPECT_EQ(pthread_create(&t, NULL, forks_with_one_pending, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- as the first thread is made ---- */

static void *same(void *arg)
{
	return arg;
}

/* Timers that are closer together than what happens there. */
TEST(signals_may_come_as_the_first_thread_is_made)
{
	enum { CHILDREN = 300, TIMERS = 40, NS_APART = 7000 };
	struct sigaction act = { .sa_handler = does_nothing, .sa_flags = SA_RESTART };

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
						  .sigev_signo = SIGUSR1 };
			struct itimerspec once = { 0 };
			timer_t timer;
			pthread_t t;
			for (int k = 0; k < TIMERS; k++) {
				once.it_value.tv_nsec = 20000 + i * 10 + k * NS_APART;
				EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
				EXPECT_EQ(timer_settime(timer, 0, &once, NULL), 0);
			}
			EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
			EXPECT_EQ(pthread_join(t, NULL), 0);
			_exit(0);
		}
		EXPECT_EQ(status_of(pid), 0);
	}
}

static void wait_ns(int64_t ns)
{
	struct timespec begun, now;

	EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &begun), 0);
	do
		EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	while ((now.tv_sec - begun.tv_sec) * 1000000000LL + now.tv_nsec - begun.tv_nsec < ns);
}

/* What is for the process may be taken by any thread of it: those there are, or are to be. */
TEST(another_process_may_send_as_the_first_thread_is_made)
{
	enum { CHILDREN = 300, NS_APART = 15000 };
	struct sigaction act = { .sa_handler = does_nothing, .sa_flags = SA_RESTART };

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	for (int i = 0; i < CHILDREN; i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t t;
			EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
			EXPECT_EQ(pthread_join(t, NULL), 0);
			_exit(0);
		}
		while (waitpid(pid, &status, WNOHANG) == 0) {
			EXPECT_EQ(kill(pid, SIGUSR1), 0);
			wait_ns(NS_APART + i % 100 * 10);
		}
		EXPECT_EQ(status, 0);
	}
}
