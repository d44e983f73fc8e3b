/* sigsuspend, ppoll, pselect and epoll_pwait: when a signal comes that only their mask lets in, and
 * to what its handler returns. The same holds natively. */
#include "event.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <ucontext.h>

enum wait { SUSPENDS, POLLS, SELECTS, EPOLLS, WAITS };

static int ends[2], set_of_one;
static volatile int came, last;
static volatile bool blocked, blocks_more;

static void notes(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	came++;
	last = sig;
	blocked = sigismember(&uc->uc_sigmask, SIGUSR1) == 1;
	if (blocks_more)
		sigaddset(&uc->uc_sigmask, SIGUSR2);
}

/* All signals are blocked, and the handler blocks all. */
static void begin(void)
{
	struct sigaction act = { .sa_sigaction = notes, .sa_flags = SA_SIGINFO };
	struct epoll_event wanted = { .events = EPOLLIN };
	sigset_t all;

	sigfillset(&act.sa_mask);
	EXPECT_EQ(sigaction(SIGHUP, &act, NULL), 0);
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	EXPECT_EQ(sigaction(SIGTERM, &act, NULL), 0);
	sigfillset(&all);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	EXPECT_EQ(pipe(ends), 0);
	set_of_one = epoll_create1(0);
	EXPECT_EQ(epoll_ctl(set_of_one, EPOLL_CTL_ADD, ends[0], &wanted), 0);
}

static int waits(enum wait how, int ms)
{
	struct timespec time = { .tv_sec = ms / 1000 };
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	struct epoll_event e;
	sigset_t none;
	fd_set r;

	sigemptyset(&none);
	FD_ZERO(&r);
	FD_SET(ends[0], &r);
	switch (how) {
	case SUSPENDS:
		return sigsuspend(&none);
	case POLLS:
		return ppoll(&p, 1, &time, &none);
	case SELECTS:
		return pselect(ends[0] + 1, &r, NULL, NULL, &time, &none);
	default:
		return epoll_pwait(set_of_one, &e, 1, ms, &none);
	}
}

static bool is_pending(int sig)
{
	sigset_t set;

	EXPECT_EQ(sigpending(&set), 0);
	return sigismember(&set, sig) == 1;
}

static void *takes_one_at_a_time(void *arg)
{
	static const int sent[] = { SIGHUP, SIGUSR1, SIGTERM };

	begin();
	for (enum wait how = SUSPENDS; how < WAITS; how++) {
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(pthread_kill(pthread_self(), sent[i]), 0);
		for (int i = 0; i < 3; i++) {
			came = 0;
			FAILS(waits(how, 10000), EINTR);
			EXPECT_EQ(came, 1);
			EXPECT_EQ(last, sent[i]);
			EXPECT(blocked);
		}
	}
	return arg;
}

TEST(each_such_wait_takes_one_signal_whose_handler_blocks_the_others)
{
	run(1, takes_one_at_a_time, NULL);
	run(1, takes_one_at_a_time, NULL);
	takes_one_at_a_time(NULL);
}

static void *is_told_what_is_ready(void *arg)
{
	char c;

	begin();
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	came = 0;
	for (enum wait how = POLLS; how < WAITS; how++) {
		EXPECT_EQ(waits(how, 0), 1);
		EXPECT_EQ(waits(how, 10000), 1);
		EXPECT_EQ(came, 0);
		EXPECT(is_pending(SIGUSR1));
	}
	EXPECT_EQ(read(ends[0], &c, 1), 1);
	/* Without a wait only one of them does not look for signals. */
	EXPECT_EQ(waits(EPOLLS, 0), 0);
	EXPECT_EQ(came, 0);
	FAILS(waits(POLLS, 0), EINTR);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	FAILS(waits(SELECTS, 0), EINTR);
	EXPECT_EQ(came, 2);
	return arg;
}

TEST(what_is_ready_goes_before_a_signal_that_only_the_mask_lets_in)
{
	run(1, is_told_what_is_ready, NULL);
	is_told_what_is_ready(NULL);
}

static void *has_what_the_handler_left(void *arg)
{
	sigset_t now;

	begin();
	blocks_more = true;
	for (enum wait how = SUSPENDS; how < WAITS; how++) {
		sigfillset(&now);
		sigdelset(&now, SIGUSR2);
		EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &now, NULL), 0);
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
		FAILS(waits(how, 10000), EINTR);
		EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
		EXPECT_EQ(sigismember(&now, SIGUSR1), 1);
		EXPECT_EQ(sigismember(&now, SIGUSR2), 1);
	}
	return arg;
}

TEST(the_mask_that_a_handler_leaves_is_that_after_the_call)
{
	run(1, has_what_the_handler_left, NULL);
	has_what_the_handler_left(NULL);
}

/* Waits so itself, for what it has sent itself. */
static void waits_too(int sig)
{
	(void)sig;
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	FAILS(waits(SUSPENDS, 0), EINTR);
}

static void *is_interrupted_by_one_who_waits(void *arg)
{
	struct sigaction act = { .sa_handler = waits_too };
	sigset_t some, now;

	begin();
	sigfillset(&act.sa_mask);
	EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &some, NULL), 0);
	for (enum wait how = SUSPENDS; how < WAITS; how++) {
		came = 0;
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
		FAILS(waits(how, 10000), EINTR);
		EXPECT_EQ(came, 1);
		EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
		EXPECT_EQ(sigismember(&now, SIGUSR2), 1);
		EXPECT_EQ(sigismember(&now, SIGUSR1), 0);
		EXPECT_EQ(sigismember(&now, SIGHUP), 0);
	}
	return arg;
}

TEST(a_handler_may_wait_so_itself)
{
	run(1, is_interrupted_by_one_who_waits, NULL);
	is_interrupted_by_one_who_waits(NULL);
}

/* ---- several at once ---- */

static volatile int nth, order[2];

static void counts(int sig)
{
	if (nth < 2)
		order[nth] = sig;
	nth++;
}

static void *lets_in_two(void *arg)
{
	bool by_mask = arg != NULL;
	sigset_t two, none;

	begin();
	handle_with(SIGUSR1, counts, 0);
	handle_with(SIGUSR2, counts, 0);
	sigemptyset(&none);
	sigemptyset(&two);
	sigaddset(&two, SIGUSR1);
	sigaddset(&two, SIGUSR2);
	for (enum wait how = SUSPENDS; how < WAITS; how++) {
		nth = 0;
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
		if (by_mask)
			EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &two, NULL), 0);
		else
			FAILS(waits(how, 10000), EINTR);
		EXPECT_EQ(nth, 2);
		/* The one that was found last lies on top of the other. */
		EXPECT_EQ(order[0], SIGUSR2);
		EXPECT_EQ(order[1], SIGUSR1);
		EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &two, NULL), 0);
	}
	return NULL;
}

TEST(all_that_a_mask_lets_in_comes_with_one_call)
{
	run(1, lets_in_two, NULL);
	lets_in_two(NULL);
}

TEST(of_several_that_are_unblocked_the_last_is_handled_first)
{
	run(1, lets_in_two, ends);
	lets_in_two(ends);
}
