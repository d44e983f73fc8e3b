/* What is asked for a thread by attributes, the default ones included, and what it has of it. The
 * same holds natively. */
#include <locale.h>
#include <sched.h>
#include <sys/resource.h>

#include "event.h"

enum { MUCH = 600 * 1024 };

/* Pages that are touched one after the other from here downwards. */
static __attribute__((noinline)) void touch(size_t bytes)
{
	volatile char *at = __builtin_alloca(bytes);

	for (size_t i = bytes; i >= PAGE; i -= PAGE)
		at[i - PAGE] = 1;
}

static void *uses_much(void *arg)
{
	size_t size, guard;
	pthread_attr_t attr;
	void *stack;

	touch(MUCH - 64 * 1024);
	EXPECT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	EXPECT_EQ(pthread_attr_getstack(&attr, &stack, &size), 0);
	EXPECT(size >= MUCH && size < MUCH + 64 * 1024);
	EXPECT_EQ(pthread_attr_getguardsize(&attr, &guard), 0);
	EXPECT_EQ(guard, 3 * PAGE);
	pthread_attr_destroy(&attr);
	return arg;
}

TEST(default_attributes_are_those_of_threads_without_any)
{
	pthread_attr_t attr, was;
	size_t size;

	EXPECT_EQ(pthread_getattr_default_np(&was), 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, MUCH);
	pthread_attr_setguardsize(&attr, 3 * PAGE - 1);
	EXPECT_EQ(pthread_setattr_default_np(&attr), 0);
	for (int i = 0; i < 3; i++)
		on_thread(uses_much, NULL);
	EXPECT_EQ(pthread_getattr_default_np(&attr), 0);
	EXPECT_EQ(pthread_attr_getstacksize(&attr, &size), 0);
	EXPECT_EQ(size, MUCH);
	EXPECT_EQ(pthread_setattr_default_np(&was), 0);
	EXPECT_EQ(pthread_getattr_default_np(&attr), 0);
	EXPECT_EQ(pthread_attr_getstacksize(&attr, &size), 0);
	EXPECT(size != MUCH);
}

/* ---- the guard ---- */

static void *touches_below(void *arg)
{
	volatile char *at;
	pthread_attr_t attr;
	size_t size;
	void *stack;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &stack, &size);
	at = (char *)stack - (intptr_t)arg;
	*at = 1;
	_exit(0);
}

static void *ends(void *arg)
{
	return arg;
}

static void has_guard(long guard, void *(*fn)(void *), long arg)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, (size_t)guard);
	pthread_create(&t, &attr, fn, (void *)arg);
	pthread_join(t, NULL);
}

/* How a process ends that touches so many bytes below the stack of a thread with that guard. Others
 * had their stacks before. */
static int touched(long guard, long below)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		has_guard(0, ends, 0);
		has_guard(PAGE, ends, 0);
		has_guard(guard, touches_below, below);
		_exit(1);
	}
	status = status_of(pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(each_page_of_the_guard_guards)
{
	for (long pages = 1; pages <= 5; pages += 2) {
		EXPECT_EQ(touched(pages * PAGE, -16), 0);
		EXPECT_EQ(touched(pages * PAGE, 16), -SIGSEGV);
		EXPECT_EQ(touched(pages * PAGE, pages * PAGE), -SIGSEGV);
	}
}

/* ---- what is told of a thread ---- */

enum { ASKED = 300 * 1024, GUARD = 2 * PAGE };

static struct event shown;
static char *_Atomic of_its_stack;
static void *first_s;

static void *shows_its_stack(void *arg)
{
	char local;

	of_its_stack = &local;
	tick(&shown);
	await(arg, 1);
	return NULL;
}

/* Of that thread, and what lies on its stack does. */
static void is_told(pthread_t t, const void *on_stack, int detached, long guard, void **base)
{
	pthread_attr_t attr;
	int state = -1;
	size_t size, is = 77;
	void *stack;

	EXPECT_EQ(pthread_getattr_np(t, &attr), 0);
	EXPECT_EQ(pthread_attr_getstack(&attr, &stack, &size), 0);
	EXPECT(on_stack >= stack && (char *)on_stack < (char *)stack + size);
	EXPECT_EQ(pthread_attr_getdetachstate(&attr, &state), 0);
	EXPECT_EQ(state, detached);
	EXPECT_EQ(pthread_attr_getguardsize(&attr, &is), 0);
	EXPECT_EQ(is, guard);
	if (guard > 0)
		EXPECT(size >= ASKED && size < ASKED + 64 * 1024);
	*base = stack;
	EXPECT_EQ(pthread_attr_destroy(&attr), 0);
}

static void *asks_of_the_first(void *arg)
{
	pthread_t *first = arg;
	void *base;

	is_told(*first, first, PTHREAD_CREATE_JOINABLE, 0, &base);
	EXPECT(base == first_s);
	return NULL;
}

TEST(the_first_thread_is_told_of_to_itself_and_to_others)
{
	pthread_t me = pthread_self();
	void *base;

	is_told(me, &me, PTHREAD_CREATE_JOINABLE, 0, &first_s);
	on_thread(asks_of_the_first, &me);
	is_told(me, &me, PTHREAD_CREATE_JOINABLE, 0, &base);
	EXPECT(base == first_s);
}

TEST(a_thread_is_told_of_to_another_detached_or_not)
{
	void *base[3], *again;
	pthread_attr_t attr;
	char *local[3];
	pthread_t t[3];
	static struct event go;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setstacksize(&attr, ASKED), 0);
	EXPECT_EQ(pthread_attr_setguardsize(&attr, GUARD), 0);
	for (int i = 0; i < 3; i++) {
		int how = i == 2 ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE;
		EXPECT_EQ(pthread_attr_setdetachstate(&attr, how), 0);
		EXPECT_EQ(pthread_create(&t[i], &attr, shows_its_stack, &go), 0);
		await(&shown, i + 1);
		local[i] = of_its_stack;
		is_told(t[i], local[i], how, GUARD, &base[i]);
		for (int j = 0; j < i; j++)
			EXPECT(base[i] != base[j]);
	}
	EXPECT_EQ(pthread_detach(t[1]), 0);
	for (int i = 0; i < 3; i++) {
		is_told(t[i], local[i], i ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE,
			GUARD, &again);
		EXPECT(again == base[i]);
	}
	tick(&go);
	EXPECT_EQ(pthread_join(t[0], NULL), 0);
}

/* ---- policy and mask ---- */

struct sched {
	int policy, priority;
};

static void *own_policy(void *arg)
{
	struct sched *is = arg;
	struct sched_param param;

	EXPECT_EQ(pthread_getschedparam(pthread_self(), &is->policy, &param), 0);
	is->priority = param.sched_priority;
	/* And the kernel says the same. */
	EXPECT_EQ(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, is->policy);
	return arg;
}

static int policy_with(int inherit, int policy, int priority, struct sched *is)
{
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_t attr;
	pthread_t t;
	int r;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setinheritsched(&attr, inherit), 0);
	EXPECT_EQ(pthread_attr_setschedpolicy(&attr, policy), 0);
	EXPECT_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	r = pthread_create(&t, &attr, own_policy, is);
	if (r == 0)
		EXPECT_EQ(pthread_join(t, NULL), 0);
	return r;
}

static void without_rights(void)
{
	struct rlimit none = { 0, 0 };

	EXPECT_EQ(setrlimit(RLIMIT_RTPRIO, &none), 0);
	if (geteuid() == 0)
		EXPECT_EQ(setuid(65534), 0);
}

TEST(a_policy_that_is_asked_for_is_had_or_refused)
{
	struct sched is = { -1, -1 };
	int r = policy_with(PTHREAD_EXPLICIT_SCHED, SCHED_RR, 3, &is);

	EXPECT(r == 0 || r == EPERM);
	if (r == 0) {
		EXPECT_EQ(is.policy, SCHED_RR);
		EXPECT_EQ(is.priority, 3);
	}
	/* Only what is inherited counts. */
	EXPECT_EQ(policy_with(PTHREAD_INHERIT_SCHED, SCHED_RR, 3, &is), 0);
	EXPECT_EQ(is.policy, SCHED_OTHER);
	EXPECT_EQ(is.priority, 0);
	without_rights();
	EXPECT_EQ(policy_with(PTHREAD_EXPLICIT_SCHED, SCHED_FIFO, 3, &is), EPERM);
	EXPECT_EQ(policy_with(PTHREAD_EXPLICIT_SCHED, SCHED_OTHER, 0, &is), 0);
	EXPECT_EQ(is.policy, SCHED_OTHER);
}

/* Raises the caller's own priority, and asks both the library and the kernel. */
static void *climbs(void *arg)
{
	struct sched_param param = { .sched_priority = 5 };
	struct timespec turn = { -1, -1 };
	int policy, r = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);

	EXPECT_EQ(sched_rr_get_interval(0, &turn), 0);
	EXPECT_EQ(sched_rr_get_interval(gettid(), &turn), 0);
	EXPECT(turn.tv_sec >= 0);
	if (r == EPERM)
		return arg;
	EXPECT_EQ(r, 0);
	EXPECT_EQ(pthread_setschedprio(pthread_self(), 7), 0);
	EXPECT_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	EXPECT_EQ(policy, SCHED_FIFO);
	EXPECT_EQ(param.sched_priority, 7);
	EXPECT_EQ(sched_getscheduler(0), SCHED_FIFO);
	EXPECT_EQ(sched_getparam(gettid(), &param), 0);
	EXPECT_EQ(param.sched_priority, 7);
	EXPECT_EQ(pthread_setschedprio(pthread_self(), 1000), EINVAL);
	return arg;
}

TEST(a_thread_changes_its_priority)
{
	int errors = 0;

	for (int i = 0; i < 3; i++)
		on_thread(climbs, NULL);
	EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
	EXPECT_EQ(sched_rr_get_interval(-1, &(struct timespec){ 0 }), -1);
	errors += errno == EINVAL;
	EXPECT_EQ(sched_rr_get_interval(INT_MAX, &(struct timespec){ 0 }), -1);
	errors += errno == ESRCH;
	EXPECT_EQ(errors, 2);
}

static void *own_mask(void *arg)
{
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, NULL, arg), 0);
	return arg;
}

TEST(a_mask_in_the_attributes_is_the_thread_s_and_no_other_s)
{
	sigset_t mine, wanted, is;
	pthread_attr_t attr;
	pthread_t t;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR2);
	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setsigmask_np(&attr, &wanted), 0);
	EXPECT_EQ(pthread_create(&t, &attr, own_mask, &is), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(sigismember(&is, SIGUSR2), 1);
	EXPECT_EQ(sigismember(&is, SIGUSR1), 0);
	/* Not of the next, which it may serve. */
	on_thread(own_mask, &is);
	EXPECT_EQ(sigismember(&is, SIGUSR2), 0);
	EXPECT_EQ(sigismember(&is, SIGUSR1), 1);
}

/* ---- the rest ---- */

static void *changes_locale(void *arg)
{
	locale_t mine = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);

	EXPECT(uselocale(NULL) == LC_GLOBAL_LOCALE);
	EXPECT(mine != NULL);
	uselocale(mine);
	return arg;
}

TEST(a_thread_begins_with_the_process_s_locale)
{
	for (int i = 0; i < 20; i++)
		on_thread(changes_locale, NULL);
}

TEST(the_level_of_concurrency_is_kept)
{
	EXPECT_EQ(pthread_getconcurrency(), 0);
	EXPECT_EQ(pthread_setconcurrency(7), 0);
	on_thread(own_mask, &(sigset_t){ 0 });
	EXPECT_EQ(pthread_getconcurrency(), 7);
	EXPECT_EQ(pthread_setconcurrency(-1), EINVAL);
}
