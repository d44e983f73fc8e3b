/* PR_SET_PDEATHSIG: the signal that a process has when the thread that made it, or its maker's
 * process, ends; and not before. The same holds natively. */
#include "event.h"

#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { CHILDREN = 8, OTHERS = 100, BUSY = 3 };

static _Atomic bool over;

static void *computes(void *arg)
{
	for (volatile long i = 0; !over; i++)
		continue;
	return arg;
}

/* What the kernel keeps for it makes its kernel thread unfit for others. */
static void *ends_with_its_kernel_thread(void *arg)
{
	setfsuid(geteuid());
	setfsuid(1);
	return arg;
}

static pid_t child_that_waits(const int *until)
{
	pid_t pid = fork();
	char c;

	EXPECT(pid >= 0);
	if (pid > 0)
		return pid;
	EXPECT_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
	close(until[1]);
	EXPECT_EQ(read(until[0], &c, 1), 0);
	_exit(0);
}

TEST(a_child_lives_as_long_as_its_parent)
{
	pid_t child[CHILDREN];
	pthread_t busy[BUSY];
	int until[2];

	EXPECT_EQ(pipe(until), 0);
	start(busy, BUSY, computes, NULL);
	for (int i = 0; i < CHILDREN; i++) {
		wander();
		child[i] = child_that_waits(until);
	}
	for (int i = 0; i < OTHERS; i++)
		run(1, ends_with_its_kernel_thread, NULL);
	close(until[0]);
	close(until[1]);
	for (int i = 0; i < CHILDREN; i++)
		EXPECT_EQ(status_of(child[i]), 0);
	over = true;
	join(busy, BUSY);
}

static void *asks_for_a_signal(void *arg)
{
	int sig = 0;

	EXPECT_EQ(prctl(PR_SET_PDEATHSIG, SIGUSR1), 0);
	for (int i = 0; i < 10; i++) {
		wander();
		EXPECT_EQ(prctl(PR_GET_PDEATHSIG, &sig), 0);
		EXPECT_EQ(sig, SIGUSR1);
	}
	return arg;
}

static void *has_asked_for_none(void *arg)
{
	int sig = -1;

	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(prctl(PR_GET_PDEATHSIG, &sig), 0);
		EXPECT_EQ(sig, 0);
		wander();
	}
	return arg;
}

TEST(the_signal_that_a_thread_asks_for_is_its_own)
{
	pthread_t t[2 * BUSY];

	/* Each test's process has one of its own. */
	EXPECT_EQ(prctl(PR_SET_PDEATHSIG, 0), 0);
	start(t, BUSY, asks_for_a_signal, NULL);
	start(t + BUSY, BUSY, has_asked_for_none, NULL);
	join(t, 2 * BUSY);
}
