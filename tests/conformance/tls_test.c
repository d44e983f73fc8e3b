/* A program with much static thread-local storage: it is a part of each thread's stack, and lies
 * below each FS base. The same holds natively. */
#include "event.h"

#include <signal.h>

enum { BIG = 2 << 20, STEP = 512, THREADS = 4, GENERATIONS = 3 };
static __thread char big[BIG];
static struct event handled, over;

static void *finds_it_fresh(void *arg)
{
	for (int i = 0; i < BIG; i += STEP) {
		EXPECT_EQ(big[i], 0);
		big[i] = 1;
	}
	return arg;
}

TEST(much_of_it_is_fresh_in_each_thread)
{
	for (int i = 0; i < GENERATIONS; i++)
		run(THREADS, finds_it_fresh, NULL);
}

static void counts_one(int sig)
{
	(void)sig;
	tick(&handled);
}

static void *waits(void *arg)
{
	await(&over, 1);
	return arg;
}

TEST(a_signal_for_the_process_finds_who_waits)
{
	struct sigaction act = { .sa_handler = counts_one };
	sigset_t set;
	pthread_t t;

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	start(&t, 1, waits, NULL);
	settle();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	await(&handled, 1);
	tick(&over);
	join(&t, 1);
}
