/* Whether a thread may be cancelled, and how, as it was set before there were threads or before a
 * fork: it is kept. The same holds natively. */
#include "threads.h"

#include <sys/wait.h>

static void is_kept(int state, int type)
{
	int old_state = -1, old_type = -1;

	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old_type), 0);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old_state), 0);
	EXPECT_EQ(old_state, state);
	EXPECT_EQ(old_type, type);
	EXPECT_EQ(pthread_setcanceltype(type, NULL), 0);
	EXPECT_EQ(pthread_setcancelstate(state, NULL), 0);
}

static void *same(void *arg)
{
	return arg;
}

static void *has_a_child(void *arg)
{
	pid_t pid;

	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0) {
		is_kept(PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ASYNCHRONOUS);
		on_thread(same, NULL);
		is_kept(PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ASYNCHRONOUS);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
	return arg;
}

TEST(what_was_set_before_the_first_thread_or_a_fork_is_kept)
{
	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	on_thread(same, NULL);
	is_kept(PTHREAD_CANCEL_DISABLE, PTHREAD_CANCEL_ASYNCHRONOUS);
	on_thread(has_a_child, NULL);
}

static void *cancels(void *arg)
{
	EXPECT_EQ(pthread_cancel(*(pthread_t *)arg), 0);
	return NULL;
}

/* A child of which the first thread is cancelled goes on until its last ends. */
static void first_is_cancelled(void)
{
	pthread_t self = pthread_self(), t;

	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	EXPECT_EQ(pthread_create(&t, NULL, cancels, &self), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	pthread_testcancel();
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	pthread_testcancel();
	_exit(1);
}

TEST(a_first_thread_that_was_not_to_be_cancelled_may_be_later)
{
	pid_t pid = fork();

	EXPECT(pid >= 0);
	if (pid == 0)
		first_is_cancelled();
	EXPECT_EQ(status_of(pid), 0);
}
