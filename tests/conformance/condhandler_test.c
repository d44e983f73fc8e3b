/* Handlers that interrupt a wait on a condition variable: it goes on after them, is woken as if
 * they had not been, and lets nobody else wait for them. The same holds natively. */
#include "common.h"

#include <semaphore.h>
#include <setjmp.h>
#include <sys/wait.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, inner = PTHREAD_COND_INITIALIZER;
static struct event in, out, leaving; /* the first two raised under m */
static sem_t gate; /* of what lasts; zeroed, it is shut */

/* A wait that ends when it should not is one too many in out. */
static void *waits(void *arg)
{
	const struct timespec *until = arg;

	pthread_mutex_lock(&m);
	tick(&in);
	if (until)
		EXPECT_EQ(pthread_cond_timedwait(&c, &m, until), ETIMEDOUT);
	else
		EXPECT_EQ(pthread_cond_wait(&c, &m), 0);
	tick(&out);
	pthread_mutex_unlock(&m);
	return NULL;
}

/* They let go of m in their wait alone. */
static void begin_waits(pthread_t *t, int n, void *arg)
{
	int before = in.n;

	start(t, n, waits, arg);
	await(&in, before + n);
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
}

static void signal_one(void)
{
	pthread_mutex_lock(&m);
	EXPECT_EQ(pthread_cond_signal(&c), 0);
	pthread_mutex_unlock(&m);
}

static void goes_on_after(int flags)
{
	pthread_t t;

	handle(SIGUSR1, flags);
	begin_waits(&t, 1, NULL);
	for (int i = 0; i < 50; i++)
		interrupt(t, SIGUSR1, &handled, handled.n + 1);
	settle();
	EXPECT_EQ(out.n, 0);
	signal_one();
	join(&t, 1);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
}

TEST(a_wait_goes_on_after_a_handler)
{
	goes_on_after(0);
}

TEST(a_wait_goes_on_after_a_handler_that_restarts_calls)
{
	goes_on_after(SA_RESTART);
}

/* Until it is let through. */
static void lasts(int sig)
{
	(void)sig;
	tick(&handled);
	while (sem_wait(&gate) != 0)
		continue;
}

TEST(a_signal_that_comes_while_a_handler_runs_is_not_lost)
{
	pthread_t t;

	handle_with(SIGUSR1, lasts, 0);
	begin_waits(&t, 1, NULL);
	interrupt(t, SIGUSR1, &handled, 1);
	EXPECT_EQ(pthread_cond_signal(&c), 0);
	settle();
	EXPECT_EQ(out.n, 0);
	/* One for each signal that it took to find the wait. */
	for (int i = 0; i < 1000; i++)
		sem_post(&gate);
	join(&t, 1);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
}

/* Of the broadcast's, neither the one in its handler nor who comes after it holds up the others. */
static void broadcast_reaches(int first)
{
	enum { N = 5 };
	pthread_t t[N];

	handle_with(SIGUSR1, lasts, 0);
	for (int i = 0; i < N; i++) {
		begin_waits(t + i, 1, NULL);
		if (i == first)
			interrupt(t[i], SIGUSR1, &handled, 1);
	}
	pthread_mutex_lock(&m);
	EXPECT_EQ(pthread_cond_broadcast(&c), 0);
	pthread_mutex_unlock(&m);
	await(&out, N - 1);
	settle();
	EXPECT_EQ(out.n, N - 1);
	for (int i = 0; i < 1000; i++)
		sem_post(&gate);
	join(t, N);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
}

TEST(a_broadcast_passes_by_the_first_who_runs_a_handler)
{
	broadcast_reaches(0);
}

TEST(a_broadcast_passes_by_another_who_runs_a_handler)
{
	broadcast_reaches(2);
}

TEST(a_deadline_that_passes_while_a_handler_runs_ends_the_wait_after_it)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 200);
	pthread_t t;

	handle_with(SIGUSR1, lasts, 0);
	begin_waits(&t, 1, &until);
	pthread_kill(t, SIGUSR1);
	await(&handled, 1);
	while (!just_past(CLOCK_REALTIME, &until))
		usleep(10 * 1000);
	settle();
	EXPECT_EQ(out.n, 0);
	sem_post(&gate);
	join(&t, 1);
	EXPECT_EQ(out.n, 1);
}

/* In which another handler comes. */
static void waits_too(int sig)
{
	static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	(void)sig;
	pthread_mutex_lock(&own);
	tick(&entered);
	EXPECT_EQ(pthread_cond_wait(&inner, &own), 0);
	pthread_mutex_unlock(&own);
	tick(&returned);
}

TEST(a_handler_may_wait_and_be_interrupted_too)
{
	pthread_t t;

	handle(SIGUSR2, 0);
	handle_with(SIGUSR1, waits_too, 0);
	begin_waits(&t, 1, NULL);
	pthread_kill(t, SIGUSR1);
	await(&entered, 1);
	settle();
	EXPECT_EQ(pthread_cond_signal(&inner), 0);
	await(&returned, 1);
	interrupt(t, SIGUSR2, &handled, 1);
	settle();
	EXPECT_EQ(out.n, 0);
	signal_one();
	join(&t, 1);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
	EXPECT_EQ(pthread_cond_destroy(&inner), 0);
}

/* ---- handlers that do not return ---- */

static sigjmp_buf back;

static void jumps(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* The wait has the mutex again, and what it waited at may be gone. */
static void *jumps_out(void *arg)
{
	if (sigsetjmp(back, 1) == 0)
		waits(NULL);
	EXPECT_EQ(pthread_mutex_lock(&m), EDEADLK);
	memset(&c, 0xff, sizeof(c));
	tick(&in);
	EXPECT_EQ(pthread_cond_wait(&inner, &m), 0);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	return arg;
}

static void check_errors(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	EXPECT_EQ(pthread_mutex_init(&m, &attr), 0);
}

TEST(who_jumps_out_of_a_handler_has_the_mutex_and_waits_no_more)
{
	static const unsigned char gone = 0xff;
	pthread_t t;

	check_errors();
	handle_with(SIGUSR1, jumps, 0);
	start(&t, 1, jumps_out, NULL);
	await(&in, 1);
	settle();
	pthread_kill(t, SIGUSR1);
	await(&in, 2);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(pthread_cond_signal(&inner), 0);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	join(&t, 1);
	for (size_t i = 0; i < sizeof(c); i++)
		EXPECT(memcmp((char *)&c + i, &gone, 1) == 0);
}

static void unlocks(void *arg)
{
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	tick(&leaving);
	(void)arg;
}

static void *waits_with_cleanup(void *arg)
{
	pthread_mutex_lock(&m);
	pthread_cleanup_push(unlocks, NULL);
	tick(&in);
	pthread_cond_wait(&c, &m);
	pthread_cleanup_pop(1);
	return arg;
}

static void exits(int sig)
{
	(void)sig;
	pthread_exit(PTHREAD_CANCELED);
}

static void is_cancelled(int sig)
{
	(void)sig;
	tick(&entered);
	for (;;)
		pause();
}

static void ends_in(void (*handler)(int), bool cancelled)
{
	pthread_t t[2];

	check_errors();
	handle_with(SIGUSR1, handler, 0);
	start(t, 2, waits_with_cleanup, NULL);
	await(&in, 2);
	settle();
	pthread_kill(t[0], SIGUSR1);
	if (cancelled) {
		await(&entered, 1);
		EXPECT_EQ(pthread_cancel(t[0]), 0);
	}
	expect_cancelled(t[0]);
	EXPECT_EQ(leaving.n, 1);
	/* Nor is the other's signal its. */
	signal_one();
	EXPECT_EQ(pthread_join(t[1], NULL), 0);
	EXPECT_EQ(leaving.n, 2);
}

TEST(who_ends_in_a_handler_has_the_mutex_in_its_cleanup_handlers)
{
	ends_in(exits, false);
}

TEST(who_is_cancelled_in_a_handler_has_the_mutex_in_its_cleanup_handlers)
{
	ends_in(is_cancelled, true);
}

/* ---- whose a wake is ---- */

/* Under m: signals sent, of which nobody has come back. A wait that ends without one of its own
 * finds none. */
static int sent;

static void *takes_one(void *arg)
{
	pthread_mutex_lock(&m);
	tick(&in);
	EXPECT_EQ(pthread_cond_wait(&c, &m), 0);
	EXPECT(sent-- > 0);
	tick(&out);
	pthread_mutex_unlock(&m);
	return arg;
}

static void begin_takers(pthread_t *t, int n)
{
	for (int i = 0; i < n; i++) {
		int before = in.n;
		start(t + i, 1, takes_one, NULL);
		await(&in, before + 1);
		/* It lets go of m in its wait alone. */
		pthread_mutex_lock(&m);
		pthread_mutex_unlock(&m);
	}
}

static void send_one(void)
{
	pthread_mutex_lock(&m);
	sent++;
	pthread_mutex_unlock(&m);
	EXPECT_EQ(pthread_cond_signal(&c), 0);
}

TEST(a_signal_goes_to_who_sleeps_and_not_to_who_runs_a_handler)
{
	pthread_t t[2];

	handle_with(SIGUSR1, lasts, 0);
	begin_takers(t, 2);
	interrupt(t[0], SIGUSR1, &handled, 1);
	send_one();
	join(t + 1, 1);
	for (int i = 0; i < 1000; i++)
		sem_post(&gate);
	send_one();
	join(t, 1);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
}

/* Were each signal to end the interrupted wait and another, all would come back at the first half
 * of the signals, and stand at m before those of the second are counted. */
TEST(a_signal_just_after_an_interruption_ends_one_wait)
{
	enum { N = 20 };
	pthread_t t[2 * N];

	handle(SIGUSR1, 0);
	begin_takers(t, 2 * N);
	pthread_mutex_lock(&m);
	sent = N;
	pthread_mutex_unlock(&m);
	for (int i = 0; i < N; i++) {
		pthread_kill(t[2 * i], SIGUSR1);
		EXPECT_EQ(pthread_cond_signal(&c), 0);
	}
	await(&out, N);
	for (int i = 0; i < N; i++)
		send_one();
	join(t, 2 * N);
	EXPECT_EQ(pthread_cond_destroy(&c), 0);
}

/* A cleanup handler sees the end of calls, and of nothing between them. */
static __thread volatile bool in_wait;

static void exits_in_wait(int sig)
{
	if (in_wait)
		exits(sig);
}

/* Natively who is awake already may lack the mutex there. */
static void unlocks_or_lacks(void *arg)
{
	int r = pthread_mutex_unlock(&m);

	EXPECT(r == 0 || r == EPERM);
	tick(&leaving);
	(void)arg;
}

static void *waits_or_leaves(void *arg)
{
	pthread_mutex_lock(&m);
	pthread_cleanup_push(unlocks_or_lacks, NULL);
	tick(&in);
	in_wait = true;
	pthread_cond_wait(&c, &m);
	in_wait = false;
	tick(&out);
	pthread_cleanup_pop(1);
	return arg;
}

/* Woken, it may not have run yet when the signal finds it. There is a moment at the end of the wait
 * in which the wake is lost with who ends there, and so not every round counts. */
TEST(who_was_woken_and_ends_in_a_handler_passes_the_wake_on)
{
	enum { ROUNDS = 20, MOST = 16 };
	pthread_t t[2];
	int passed = 0;

	check_errors();
	handle_with(SIGUSR1, exits_in_wait, 0);
	for (int i = 0; i < ROUNDS; i++) {
		int before = out.n;
		start(t, 1, waits_or_leaves, NULL);
		await(&in, 2 * i + 1);
		begin_waits(t + 1, 1, NULL);
		EXPECT_EQ(pthread_cond_signal(&c), 0);
		pthread_kill(t[0], SIGUSR1);
		pthread_join(t[0], NULL);
		EXPECT_EQ(leaving.n, i + 1);
		passed += comes_within_us(&out, before + 1, 500 * 1000);
		signal_one();
		pthread_join(t[1], NULL);
	}
	EXPECT(passed >= MOST);
	/* It is not destroyed: natively that would wait for ever for who ended in such a moment. */
}

/* ---- a process of one thread ---- */

TEST(the_only_thread_may_jump_out_of_its_wait)
{
	pthread_t t;

	check_errors();
	handle_with(SIGALRM, jumps, 0);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	if (sigsetjmp(back, 1) == 0) {
		ualarm(100 * 1000, 0);
		pthread_cond_wait(&c, &m);
		EXPECT(false);
	}
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	begin_waits(&t, 1, NULL);
	signal_one();
	join(&t, 1);
}

static void cancels_itself(int sig)
{
	(void)sig;
	pthread_cancel(pthread_self());
}

static void leaves_with_it(void *arg)
{
	(void)arg;
	_exit(pthread_mutex_unlock(&m) == 0 ? 7 : 8);
}

TEST(the_only_thread_may_cancel_itself_in_a_handler)
{
	int status;
	pid_t child;

	check_errors();
	child = fork();
	if (child == 0) {
		handle_with(SIGALRM, cancels_itself, 0);
		pthread_mutex_lock(&m);
		pthread_cleanup_push(leaves_with_it, NULL);
		ualarm(100 * 1000, 0);
		pthread_cond_wait(&c, &m);
		pthread_cleanup_pop(0);
		_exit(9);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
}
