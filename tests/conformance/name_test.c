/* The names of threads: each has its own, as the kernel shows it too. The same holds natively. */
#include "event.h"

#include <sys/prctl.h>

static void is_called(const char *name)
{
	char have[16] = "?";

	EXPECT_EQ(prctl(PR_GET_NAME, have), 0);
	EXPECT(strcmp(have, name) == 0);
	EXPECT_EQ(pthread_getname_np(pthread_self(), have, sizeof(have)), 0);
	EXPECT(strcmp(have, name) == 0);
}

static void *is_called_as_its_creator(void *name)
{
	is_called(name);
	return NULL;
}

static void *calls_itself(void *arg)
{
	char name[32];

	snprintf(name, sizeof(name), "number %ld and more", (long)arg);
	EXPECT_EQ(prctl(PR_SET_NAME, name), 0);
	name[15] = 0;
	wander();
	is_called(name);
	on_thread(is_called_as_its_creator, name);
	EXPECT_EQ(syscall(SYS_prctl, PR_SET_NAME, "raw"), 0);
	is_called("raw");
	FAILS(prctl(PR_SET_NAME, NULL), EFAULT);
	FAILS(prctl(PR_GET_NAME, NULL), EFAULT);
	is_called("raw");
	return arg;
}

TEST(the_first_thread_s_name_may_have_fifteen_letters)
{
	static char name[] = "fifteen letters";

	EXPECT_EQ(prctl(PR_SET_NAME, name), 0);
	on_thread(is_called_as_its_creator, name);
	is_called(name);
}

TEST(each_thread_has_its_name)
{
	enum { MANY = 20 };
	pthread_t t[MANY];
	char text[32] = "";
	int fd;

	EXPECT_EQ(prctl(PR_SET_NAME, "the first"), 0);
	start_numbered(t, MANY, calls_itself);
	join(t, MANY);
	wander();
	is_called("the first");
	on_thread(is_called_as_its_creator, "the first");
	EXPECT_EQ(prctl(PR_SET_NAME, "again"), 0);
	is_called("again");
	/* It is the process's. */
	fd = open("/proc/self/comm", O_RDONLY);
	EXPECT(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	EXPECT(strcmp(text, "again\n") == 0);
}

static void other_is_called(pthread_t t, const char *name)
{
	char have[16] = "?";

	EXPECT_EQ(pthread_getname_np(t, have, sizeof(have)), 0);
	EXPECT(strcmp(have, name) == 0);
	EXPECT_EQ(pthread_getname_np(t, have, sizeof(have) - 1), ERANGE);
}

static struct event renamed, answered;

static void *is_renamed(void *arg)
{
	pthread_t first = *(pthread_t *)arg;

	is_called("the first");
	tick(&answered);
	await(&renamed, 1);
	is_called("worker");
	wander();
	is_called("worker");
	EXPECT_EQ(pthread_setname_np(pthread_self(), "its own"), 0);
	other_is_called(first, "the first");
	EXPECT_EQ(pthread_setname_np(first, "called by it"), 0);
	other_is_called(first, "called by it");
	tick(&answered);
	await(&renamed, 2);
	is_called("fifteen letters");
	return NULL;
}

TEST(a_thread_is_named_by_another)
{
	pthread_t t, me = pthread_self();

	EXPECT_EQ(prctl(PR_SET_NAME, "the first"), 0);
	start(&t, 1, is_renamed, &me);
	await(&answered, 1);
	other_is_called(t, "the first");
	EXPECT_EQ(pthread_setname_np(t, "worker"), 0);
	other_is_called(t, "worker");
	is_called("the first");
	tick(&renamed);
	await(&answered, 2);
	is_called("called by it");
	other_is_called(t, "its own");
	EXPECT_EQ(pthread_setname_np(t, "sixteen letters!"), ERANGE);
	other_is_called(t, "its own");
	EXPECT_EQ(pthread_setname_np(t, "fifteen letters"), 0);
	other_is_called(t, "fifteen letters");
	tick(&renamed);
	join(&t, 1);
	is_called("called by it");
}

static void *calls_itself_plainly(void *arg)
{
	EXPECT_EQ(pthread_setname_np(pthread_self(), "a thread"), 0);
	is_called("a thread");
	return arg;
}

static void child_is_called(const char *name, pid_t (*forks)(void))
{
	pid_t pid = forks();

	if (pid == 0) {
		is_called(name);
		on_thread(is_called_as_its_creator, (void *)(uintptr_t)name);
		EXPECT_EQ(pthread_setname_np(pthread_self(), "the child"), 0);
		is_called("the child");
		on_thread(is_called_as_its_creator, "the child");
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
}

static pid_t forks_raw(void)
{
	return (pid_t)syscall(SYS_fork);
}

static void *has_children(void *arg)
{
	child_is_called(arg, fork);
	child_is_called(arg, forks_raw);
	EXPECT_EQ(prctl(PR_SET_NAME, "a parent"), 0);
	child_is_called("a parent", fork);
	child_is_called("a parent", forks_raw);
	return NULL;
}

TEST(a_child_is_called_as_the_thread_that_forked)
{
	static const char all[] = "by others";
	int fd;

	on_thread(has_children, program_invocation_short_name);
	EXPECT_EQ(prctl(PR_SET_NAME, "the first"), 0);
	on_thread(has_children, "the first");
	wander();
	child_is_called("the first", fork);
	fd = open("/proc/self/comm", O_WRONLY);
	EXPECT_EQ(write(fd, all, strlen(all)), (long)strlen(all));
	EXPECT_EQ(close(fd), 0);
	child_is_called(all, fork);
}

TEST(there_are_names_where_there_is_no_proc)
{
	char empty[] = "/tmp/emptyXXXXXX";

	EXPECT(mkdtemp(empty) != NULL);
	EXPECT_EQ(chdir(empty), 0);
	EXPECT_EQ(rmdir(empty), 0);
	on_thread(calls_itself_plainly, NULL);
	EXPECT_EQ(prctl(PR_SET_NAME, "outside"), 0);
	/* Else nobody but root can see to it. */
	if (chroot(".") == 0) {
		is_called("outside");
		on_thread(is_called_as_its_creator, "outside");
		on_thread(calls_itself_plainly, NULL);
		EXPECT_EQ(pthread_setname_np(pthread_self(), "inside"), 0);
		is_called("inside");
		EXPECT_EQ(prctl(PR_SET_NAME, "in here"), 0);
		is_called("in here");
	}
}
