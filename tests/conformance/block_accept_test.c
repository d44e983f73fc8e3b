/* Many that accept on one listening socket: each connection goes to one of them, whatever becomes
 * of the others meanwhile; none is left beside a connection that waits. The same holds natively. */
#include "common.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <sys/un.h>

enum { MANY = 100, ROUNDS = 600, CALLERS = 4 };

static int listener;
static struct sockaddr_un at;
static socklen_t len;
static struct event served;
static _Atomic bool over;

static void listens(int backlog)
{
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	len = sizeof(at);
	/* No name given: the kernel finds an abstract one. */
	EXPECT_EQ(bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)), 0);
	EXPECT_EQ(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	EXPECT_EQ(listen(listener, backlog), 0);
}

/* Says one byte to whoever called. */
static void serve(int fd)
{
	EXPECT_EQ(send(fd, "s", 1, MSG_NOSIGNAL), 1);
	EXPECT_EQ(close(fd), 0);
	tick(&served);
}

static void call(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char c = 0;

	EXPECT(fd >= 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&at, len), 0);
	EXPECT_EQ(recv(fd, &c, 1, 0), 1);
	EXPECT_EQ(c, 's');
	EXPECT_EQ(close(fd), 0);
}

static void *calls(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		call();
	return arg;
}

static void *serves(void *arg)
{
	int fd;

	tick(&entered);
	while ((fd = accept(listener, NULL, NULL)) >= 0)
		serve(fd);
	EXPECT_EQ(errno, EINVAL);
	tick(&returned);
	return arg;
}

/* ---- one after the other, and many at once ---- */

TEST(of_a_hundred_accepters_each_connection_finds_one)
{
	pthread_t t[MANY], c[CALLERS];

	listens(MANY);
	start(t, MANY, serves, NULL);
	await(&entered, MANY);
	settle();
	for (int i = 1; i <= 200; i++) {
		call();
		await(&served, i);
	}
	start(c, CALLERS, calls, NULL);
	join(c, CALLERS);
	await(&served, 200 + CALLERS * ROUNDS);
	EXPECT_EQ(returned.n, 0);
	EXPECT_EQ(shutdown(listener, SHUT_RD), 0);
	join(t, MANY);
	EXPECT_EQ(served.n, 200 + CALLERS * ROUNDS);
}

static void *serves_one(void *arg)
{
	int fd;

	(void)arg;
	tick(&entered);
	fd = accept(listener, NULL, NULL);
	EXPECT(fd >= 0);
	tick(&returned);
	return (void *)(long)fd;
}

/* All there before anybody looks. */
TEST(connections_that_come_at_once_wake_as_many)
{
	pthread_t t[MANY];
	int fd[MANY];

	listens(MANY);
	for (int round = 0; round < 5; round++) {
		entered.n = returned.n = 0;
		start(t, MANY, serves_one, NULL);
		await(&entered, MANY);
		settle();
		EXPECT_EQ(returned.n, 0);
		for (int i = 0; i < MANY; i++) {
			fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
			EXPECT_EQ(connect(fd[i], (struct sockaddr *)&at, len), 0);
		}
		await(&returned, MANY);
		for (int i = 0; i < MANY; i++) {
			EXPECT_EQ(close((int)result_of(t[i])), 0);
			EXPECT_EQ(close(fd[i]), 0);
		}
	}
}

/* ---- those who leave ---- */

static void *serves_with_time(void *arg)
{
	struct timeval t = { .tv_usec = 1000 };
	int fd;

	(void)arg;
	EXPECT_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	while (!over) {
		fd = accept(listener, NULL, NULL);
		if (fd >= 0)
			serve(fd);
		else
			EXPECT_EQ(errno, EAGAIN);
	}
	return NULL;
}

TEST(who_is_out_of_time_leaves_connections_to_others)
{
	pthread_t t[20], c[CALLERS];

	listens(MANY);
	start(t, 20, serves_with_time, NULL);
	start(c, CALLERS, calls, NULL);
	join(c, CALLERS);
	over = true;
	join(t, 20);
	EXPECT_EQ(served.n, CALLERS * ROUNDS);
}

static void *serves_interrupted(void *arg)
{
	int fd;

	tick(&entered);
	while ((fd = accept(listener, NULL, NULL)) >= 0 || errno == EINTR)
		if (fd >= 0)
			serve(fd);
	EXPECT_EQ(errno, EINVAL);
	return arg;
}

/* Who was to accept is here for a while; the others go on. */
static void dallies(int sig)
{
	int kept = errno;

	(void)sig;
	tick(&handled);
	comes_within_us(&served, served.n + 1, 300);
	errno = kept;
}

static void *interrupts(void *arg)
{
	uint64_t seed = test_seed();
	pthread_t *t = arg;

	while (!over) {
		EXPECT_EQ(pthread_kill(t[chance(&seed) % 10], SIGUSR1), 0);
		usleep(chance(&seed) % 200);
	}
	return NULL;
}

/* The first ten are interrupted, again and again. */
static void under_signals(int flags)
{
	pthread_t t[20], c[CALLERS], storm;

	handle_with(SIGUSR1, dallies, flags);
	listens(MANY);
	start(t, 20, serves_interrupted, NULL);
	await(&entered, 20);
	start(&storm, 1, interrupts, t);
	await(&handled, 1);
	start(c, CALLERS, calls, NULL);
	join(c, CALLERS);
	over = true;
	join(&storm, 1);
	EXPECT_EQ(shutdown(listener, SHUT_RD), 0);
	join(t, 20);
	EXPECT_EQ(served.n, CALLERS * ROUNDS);
}

TEST(who_is_interrupted_leaves_connections_to_others)
{
	under_signals(0);
}

TEST(who_runs_a_handler_leaves_connections_to_others)
{
	under_signals(SA_RESTART);
}

static __thread sigjmp_buf out;

static void jumps_out(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void *jumps(void *arg)
{
	if (sigsetjmp(out, 1) == 0) {
		tick(&entered);
		close(accept(listener, NULL, NULL));
		EXPECT(false);
	}
	return arg;
}

static void *is_cancelled(void *arg)
{
	tick(&entered);
	close(accept(listener, NULL, NULL));
	EXPECT(false);
	return arg;
}

/* While nothing comes, so that no connection goes with them: those who wait longest go away. */
TEST(who_jumps_out_or_is_cancelled_is_not_missed)
{
	pthread_t gone[20], t[10];

	listens(MANY);
	handle_with(SIGUSR1, jumps_out, 0);
	for (int round = 1; round <= 5; round++) {
		entered.n = 0;
		start(gone, 10, jumps, NULL);
		start(gone + 10, 10, is_cancelled, NULL);
		await(&entered, 20);
		settle();
		start(t, 10, serves_one, NULL);
		await(&entered, 30);
		settle();
		for (int i = 0; i < 10; i++) {
			EXPECT_EQ(pthread_kill(gone[i], SIGUSR1), 0);
			EXPECT_EQ(pthread_cancel(gone[10 + i]), 0);
		}
		join(gone, 10);
		for (int i = 10; i < 20; i++)
			expect_cancelled(gone[i]);
		for (int i = 0; i < 10; i++) {
			int fd = socket(AF_UNIX, SOCK_STREAM, 0);
			EXPECT_EQ(connect(fd, (struct sockaddr *)&at, len), 0);
			EXPECT_EQ(close(fd), 0);
		}
		for (int i = 0; i < 10; i++)
			EXPECT_EQ(close((int)result_of(t[i])), 0);
	}
}

/* ---- other processes ---- */

static _Atomic int *shared;

static void *serves_shared(void *arg)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		EXPECT_EQ(send(fd, "s", 1, MSG_NOSIGNAL), 1);
		EXPECT_EQ(close(fd), 0);
		atomic_fetch_add(shared, 1);
	}
	EXPECT_EQ(errno, EINVAL);
	return arg;
}

/* They take what the others were woken for; and what an accepter of the parent has begun at the
 * fork is none of the child's business. */
TEST(two_processes_accept_on_one_listener)
{
	pthread_t t[10], c[CALLERS];
	pid_t pid;

	shared = mapped(MAP_SHARED);
	listens(MANY);
	start(t, 10, serves_shared, NULL);
	start(c, CALLERS, calls, NULL);
	pid = fork();
	if (pid == 0) {
		run(10, serves_shared, NULL);
		_exit(0);
	}
	join(c, CALLERS);
	EXPECT_EQ(shutdown(listener, SHUT_RD), 0);
	join(t, 10);
	EXPECT_EQ(status_of(pid), 0);
	EXPECT_EQ(*shared, CALLERS * ROUNDS);
}

/* ---- the descriptor goes away ---- */

/* Who accepts goes on with the old one, and its number has a new listener. */
TEST(a_listener_is_closed_and_its_number_used_again)
{
	struct sockaddr_un first;
	pthread_t t[10], u[10];
	socklen_t l;
	int old;

	listens(MANY);
	first = at;
	l = len;
	old = listener;
	start(t, 10, serves_one, NULL);
	await(&entered, 10);
	settle();
	EXPECT_EQ(close(old), 0);
	listens(MANY);
	EXPECT_EQ(listener, old);
	start(u, 10, serves_one, NULL);
	await(&entered, 20);
	settle();
	for (int i = 0; i < 10; i++) {
		int a = socket(AF_UNIX, SOCK_STREAM, 0), b = socket(AF_UNIX, SOCK_STREAM, 0);
		EXPECT_EQ(connect(b, (struct sockaddr *)&at, len), 0);
		EXPECT_EQ(connect(a, (struct sockaddr *)&first, l), 0);
		EXPECT_EQ(close(a), 0);
		EXPECT_EQ(close(b), 0);
	}
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(close((int)result_of(t[i])), 0);
		EXPECT_EQ(close((int)result_of(u[i])), 0);
	}
}

static void *takes_one(void *arg)
{
	int fd;

	tick(&entered);
	fd = accept(listener, NULL, NULL);
	EXPECT(fd >= 0);
	serve(fd);
	return arg;
}

/* It has been woken, and perhaps does not run yet. */
TEST(who_is_woken_takes_its_connection_though_the_listener_is_replaced)
{
	for (int i = 0; i < 200; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0), pipes[2];
		pthread_t t;
		char c = 0;
		listens(MANY);
		EXPECT_EQ(pipe(pipes), 0);
		entered.n = 0;
		start(&t, 1, takes_one, NULL);
		await(&entered, 1);
		settle();
		EXPECT_EQ(connect(fd, (struct sockaddr *)&at, len), 0);
		/* Others may look at what has come. */
		if (i % 2)
			sched_yield();
		for (int spins = i % 20 * 500; spins > 0; spins--)
			__builtin_ia32_pause();
		EXPECT_EQ(dup2(pipes[0], listener), listener);
		EXPECT_EQ(recv(fd, &c, 1, 0), 1);
		EXPECT_EQ(c, 's');
		join(&t, 1);
		EXPECT_EQ(close(fd), 0);
		EXPECT_EQ(close(listener), 0);
		EXPECT_EQ(close(pipes[0]), 0);
		EXPECT_EQ(close(pipes[1]), 0);
	}
}
