/* A process that is stopped and goes on: what sleeps in a call sleeps on, or ends as signal(7)
 * says, and only who ran a handler of SIGCONT was interrupted; what computes is stopped as a whole.
 * The same holds natively. */
#include "event.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>

/* ---- calls ---- */

struct message {
	long type;
	char text[8];
};

enum { LONG_MS = 3 * SLOW_MS, NAP_MS = 40 };

static struct {
	int pipe[2], socket[2], event, queue, sems;
	sem_t sem, timed_sem;
	_Atomic int futex;
	pthread_mutex_t locked, lock;
	pthread_cond_t cond;
	bool signalled;
} on;

static long reads_pipe(void)
{
	char c;

	return read(on.pipe[0], &c, 1);
}

static long receives(void)
{
	char c;

	return recv(on.socket[0], &c, 1, 0);
}

static long polls(void)
{
	return poll(&(struct pollfd){ on.event, POLLIN, 0 }, 1, -1);
}

static long polls_in_time(void)
{
	return poll(&(struct pollfd){ on.event, POLLIN, 0 }, 1, LONG_MS);
}

static long selects(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(on.event, &set);
	return select(on.event + 1, &set, NULL, NULL, NULL);
}

static __thread bool handled;

/* All of it, however often it was stopped. A handler may find it at its end. */
static long naps(void)
{
	struct timespec left = { 0, NAP_MS * MS };
	long since = now_ms();

	while (nanosleep(&left, &left) != 0) {
		EXPECT_EQ(errno, EINTR);
		EXPECT(handled);
		errno = 0;
	}
	EXPECT(took(since, NAP_MS));
	return 0;
}

static long takes_sem(void)
{
	return sem_wait(&on.sem);
}

static long takes_sem_in_time(void)
{
	struct timespec late = in_ms(CLOCK_REALTIME, LONG_MS);

	return sem_timedwait(&on.timed_sem, &late);
}

static long waits_on_futex(void)
{
	return syscall(SYS_futex, &on.futex, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static long waits_on_futex_in_time(void)
{
	struct timespec late = { LONG_MS / 1000, 0 };

	return syscall(SYS_futex, &on.futex, FUTEX_WAIT_PRIVATE, 0, &late, NULL, 0);
}

static long locks(void)
{
	return pthread_mutex_lock(&on.locked) | pthread_mutex_unlock(&on.locked);
}

static long waits_on_condition(void)
{
	pthread_mutex_lock(&on.lock);
	while (!on.signalled)
		EXPECT_EQ(pthread_cond_wait(&on.cond, &on.lock), 0);
	return pthread_mutex_unlock(&on.lock);
}

static long receives_message(void)
{
	struct message m;

	return msgrcv(on.queue, &m, sizeof(m.text), 0, 0);
}

static long changes_sems(void)
{
	return semop(on.sems, &(struct sembuf){ 0, -1, 0 }, 1);
}

static void opens(void)
{
	EXPECT_EQ(pipe(on.pipe), 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, on.socket), 0);
	on.event = eventfd(0, 0);
	on.queue = msgget(IPC_PRIVATE, 0600);
	on.sems = semget(IPC_PRIVATE, 1, 0600);
	EXPECT(on.event >= 0 && on.queue >= 0 && on.sems >= 0);
	sem_init(&on.sem, 0, 0);
	sem_init(&on.timed_sem, 0, 0);
	pthread_mutex_init(&on.locked, NULL);
	pthread_mutex_lock(&on.locked);
	pthread_mutex_init(&on.lock, NULL);
	pthread_cond_init(&on.cond, NULL);
}

static void closes(void)
{
	EXPECT_EQ(msgctl(on.queue, IPC_RMID, NULL), 0);
	EXPECT_EQ(semctl(on.sems, 0, IPC_RMID), 0);
}

static void releases(void)
{
	struct message m = { 1, "sent" };

	EXPECT_EQ(write(on.pipe[1], "x", 1), 1);
	EXPECT_EQ(write(on.socket[1], "x", 1), 1);
	EXPECT_EQ(eventfd_write(on.event, 1), 0);
	EXPECT_EQ(msgsnd(on.queue, &m, sizeof(m.text), 0), 0);
	EXPECT_EQ(sem_post(&on.sem), 0);
	EXPECT_EQ(sem_post(&on.timed_sem), 0);
	on.futex = 1;
	syscall(SYS_futex, &on.futex, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	pthread_mutex_unlock(&on.locked);
	pthread_mutex_lock(&on.lock);
	on.signalled = true;
	pthread_cond_signal(&on.cond);
	pthread_mutex_unlock(&on.lock);
}

/* ---- each in a thread of a process that is stopped ---- */

enum how {
	GOES_ON, /* after a handler, in any case */
	RESTARTS, /* after one with SA_RESTART */
	FAILS_AFTER, /* after any */
	FAILS_EVER, /* after a stop, in any case */
};

static const struct {
	long (*call)(void);
	long wants;
	enum how how;
} calls[] = {
	{ reads_pipe, 1, RESTARTS },
	{ receives, 1, RESTARTS },
	{ polls, 1, FAILS_AFTER },
	{ polls_in_time, 1, FAILS_AFTER },
	{ selects, 1, FAILS_AFTER },
	{ naps, 0, GOES_ON },
	{ takes_sem, 0, RESTARTS },
	{ takes_sem_in_time, 0, FAILS_AFTER },
	{ waits_on_futex, 0, RESTARTS },
	{ waits_on_futex_in_time, 0, FAILS_AFTER },
	{ locks, 0, GOES_ON },
	{ waits_on_condition, 0, GOES_ON },
	{ receives_message, sizeof(((struct message *)0)->text), FAILS_AFTER },
	{ changes_sems, -1, FAILS_EVER },
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static struct event entered;
static _Atomic int continued;
static int handler_flags;

static void goes_on(int sig)
{
	(void)sig;
	continued++;
	handled = true;
}

static void *makes_call(void *arg)
{
	long i = (long)arg, r, error;
	bool fails;

	tick(&entered);
	errno = 0;
	r = calls[i].call();
	error = errno;
	fails = calls[i].how == FAILS_EVER ||
		(handled && (calls[i].how == FAILS_AFTER ||
			     (calls[i].how == RESTARTS && !(handler_flags & SA_RESTART))));
	EXPECT_EQ(r, fails ? -1 : calls[i].wants);
	EXPECT_EQ(error, fails ? EINTR : 0);
	return arg;
}

/* The child: tells when all of it sleeps, and goes on when it is told to. */
static void sleeps_in_calls(int tells, int hears, int signals)
{
	pthread_t t[CALLS];
	char c;

	if (signals)
		handle_with(SIGCONT, goes_on, handler_flags);
	start_numbered(t, CALLS, makes_call);
	mask(SIG_BLOCK, SIGCONT);
	await(&entered, CALLS);
	settle();
	EXPECT_EQ(write(tells, "x", 1), 1);
	EXPECT_EQ(read(hears, &c, 1), 1);
	releases();
	join(t, CALLS);
	EXPECT_EQ(continued, signals);
	_exit(7);
}

static void is_stopped(pid_t pid)
{
	int status;

	EXPECT_EQ(kill(pid, SIGSTOP), 0);
	EXPECT_EQ(waitpid(pid, &status, WUNTRACED), pid);
	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
}

static void is_continued(pid_t pid)
{
	int status;

	EXPECT_EQ(kill(pid, SIGCONT), 0);
	EXPECT_EQ(waitpid(pid, &status, WCONTINUED), pid);
	EXPECT(WIFCONTINUED(status));
}

/* So often; with a handler each time some thread's call is interrupted, which may end it. */
static void stop_in_calls(int stops, bool has_handler)
{
	int tells[2], hears[2];
	pid_t pid;
	char c;

	opens();
	EXPECT_EQ(pipe(tells), 0);
	EXPECT_EQ(pipe(hears), 0);
	pid = fork();
	if (pid == 0)
		sleeps_in_calls(tells[1], hears[0], has_handler ? stops : 0);
	EXPECT_EQ(read(tells[0], &c, 1), 1);
	for (int i = 0; i < stops; i++) {
		await_sleep_of(pid, 0);
		is_stopped(pid);
		is_continued(pid);
	}
	await_sleep_of(pid, 0);
	EXPECT_EQ(write(hears[1], "x", 1), 1);
	EXPECT_EQ(status_of(pid), 7 << 8);
	closes();
}

TEST(calls_go_on_in_a_process_that_was_stopped)
{
	stop_in_calls(3, false);
}

TEST(a_handler_of_what_continues_a_process_interrupts_one_call)
{
	stop_in_calls(CALLS, true);
}

TEST(a_handler_of_what_continues_a_process_lets_its_call_go_on)
{
	handler_flags = SA_RESTART;
	stop_in_calls(CALLS, true);
}

/* ---- computing ---- */

enum { COMPUTERS = 8 };

static struct shared {
	_Atomic long steps[COMPUTERS];
	_Atomic int continued;
	_Atomic bool over;
} * shared;

static void *computes(void *arg)
{
	while (!shared->over)
		shared->steps[(long)arg]++;
	return arg;
}

static void tells_shared(int sig)
{
	(void)sig;
	shared->continued++;
}

/* Each of them, from there on. */
static void await_steps(const long *from)
{
	for (int i = 0; i < COMPUTERS; i++)
		while (shared->steps[i] == from[i])
			sched_yield();
}

static void look(long *steps)
{
	for (int i = 0; i < COMPUTERS; i++)
		steps[i] = shared->steps[i];
}

TEST(all_that_computes_is_stopped_and_goes_on)
{
	long before[COMPUTERS] = { 0 }, after[COMPUTERS];
	pthread_t t[COMPUTERS];
	pid_t pid;

	shared = mapped(MAP_SHARED);
	pid = fork();
	if (pid == 0) {
		handle_with(SIGCONT, tells_shared, SA_RESTART);
		start_numbered(t, COMPUTERS, computes);
		join(t, COMPUTERS);
		_exit(7);
	}
	await_steps(before);
	for (int i = 1; i <= 3; i++) {
		is_stopped(pid);
		look(before);
		/* Time for what must not happen. */
		usleep(5000);
		look(after);
		EXPECT_EQ(memcmp(before, after, sizeof(before)), 0);
		is_continued(pid);
		await_steps(after);
		while (shared->continued < i)
			sched_yield();
		EXPECT_EQ(shared->continued, i);
	}
	shared->over = true;
	EXPECT_EQ(status_of(pid), 7 << 8);
}
