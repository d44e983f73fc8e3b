/* A program with a __register_atfork of its own, as Firefox is: whoever registers with that hears
 * of no fork. What its children do is no business of their parent's. */
#include "event.h"

#include <sys/epoll.h>
#include <sys/wait.h>

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
		      void *object);

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object)
{
	(void)before;
	(void)parent;
	(void)child;
	(void)object;
	return 0;
}

static int asks[2], set;
static struct event answered;

static void *answers(void *arg)
{
	struct epoll_event e;
	char c;

	while (epoll_wait(set, &e, 1, -1) == 1 && read(asks[0], &c, 1) == 1 && c != 0)
		tick(&answered);
	return arg;
}

static void ask(char c)
{
	EXPECT_EQ(write(asks[1], &c, 1), 1);
}

TEST(a_thread_waits_on_though_the_child_of_a_fork_closes_all)
{
	struct epoll_event in = { .events = EPOLLIN };
	pthread_t t;

	EXPECT_EQ(pipe(asks), 0);
	set = epoll_create1(0);
	EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, asks[0], &in), 0);
	EXPECT_EQ(pthread_create(&t, NULL, answers, NULL), 0);
	for (int i = 1; i <= 5; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			/* By then that thread's wait is known to whoever sees to it. */
			await_sleep_of(getppid(), 0);
			for (int fd = 3; fd < 100; fd++)
				close(fd);
			_exit(0);
		}
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
		ask('x');
		await(&answered, i);
	}
	ask(0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
