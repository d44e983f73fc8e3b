/* Creating, joining, detaching and ending threads; attributes; what a thread is told of
 * itself. The same holds natively. */
#include "event.h"
#include <sys/resource.h>

static void *same(void *arg)
{
	return arg;
}

TEST(join_gives_what_the_thread_returned)
{
	for (long i = 0; i < 500; i++) {
		EXPECT_EQ(on_thread(same, (void *)i), i);
	}
}

static pthread_barrier_t all;

static void *waits_for_all(void *arg)
{
	pthread_barrier_wait(&all);
	return arg;
}

TEST(many_live_at_once_and_each_is_another)
{
	enum { N = 300 };
	static pthread_t t[N];

	pthread_barrier_init(&all, NULL, N + 1);
	start_numbered(t, N, waits_for_all);
	pthread_barrier_wait(&all);
	for (long i = 0; i < N; i++)
		for (long j = 0; j < i; j++)
			EXPECT(!pthread_equal(t[i], t[j]));
	for (long i = 0; i < N; i++)
		EXPECT_EQ(result_of(t[i]), i);
}

/* Those that end are used again while others are joined: each by one thread at a time. */
TEST(batches_of_short_threads_all_run_and_are_joined)
{
	enum { N = 1000, ROUNDS = 30 };
	static pthread_t t[N];

	for (int round = 0; round < ROUNDS; round++) {
		start_numbered(t, N, same);
		for (long i = 0; i < N; i++)
			EXPECT_EQ(result_of(t[i]), i);
	}
}

/* By a pointer, lest the compiler see that none of them returns. */
static void (*volatile at_the_end)(void *) = pthread_exit;

static void deep_exit(int depth)
{
	volatile char room[500];

	room[0] = (char)depth;
	if (depth > 0)
		deep_exit(depth - 1);
	else
		at_the_end((void *)77);
	room[1] = room[0];
}

static void *exits(void *arg)
{
	(void)arg;
	deep_exit(20);
	return NULL;
}

TEST(exit_from_deep_frames_gives_its_value)
{
	for (int i = 0; i < 50; i++) {
		EXPECT_EQ(on_thread(exits, NULL), 77);
	}
}

static int cleaned[3], ncleaned;

static void clean(void *arg)
{
	cleaned[ncleaned++] = (int)(long)arg;
}

static void *exits_with_cleanup(void *arg)
{
	pthread_cleanup_push(clean, (void *)1);
	pthread_cleanup_push(clean, (void *)2);
	if (arg)
		pthread_exit(NULL);
	pthread_cleanup_pop(1);
	pthread_cleanup_pop(0);
	return NULL;
}

TEST(cleanup_handlers_run_last_pushed_first)
{
	on_thread(exits_with_cleanup, (void *)1);
	EXPECT_EQ(ncleaned, 2);
	EXPECT_EQ(cleaned[0], 2);
	EXPECT_EQ(cleaned[1], 1);
	ncleaned = 0;
	on_thread(exits_with_cleanup, NULL);
	EXPECT_EQ(ncleaned, 1);
	EXPECT_EQ(cleaned[0], 2);
}

static pthread_key_t key;
static int ndestroyed;

static void exits_with(void *value)
{
	ndestroyed++;
	pthread_exit(value);
}

static void *has_a_value(void *arg)
{
	EXPECT_EQ(pthread_setspecific(key, (void *)7), 0);
	return arg;
}

TEST(a_destructor_may_exit)
{
	EXPECT_EQ(pthread_key_create(&key, exits_with), 0);
	for (int i = 1; i <= 20; i++) {
		EXPECT_EQ(on_thread(has_a_value, NULL), 7);
		EXPECT_EQ(ndestroyed, i);
	}
}

static pthread_t mainid;

static void *joins_main(void *arg)
{
	(void)arg;
	EXPECT_EQ(result_of(mainid), 5);
	_exit(0);
}

TEST(main_may_exit_and_be_joined)
{
	pthread_t t;

	mainid = pthread_self();
	pthread_create(&t, NULL, joins_main, NULL);
	pthread_exit((void *)5);
}

static void *last_one(void *arg)
{
	(void)arg;
	EXPECT_EQ(result_of(mainid), 3);
	return (void *)9;
}

TEST(the_last_thread_ends_the_process_with_status_0)
{
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;
		mainid = pthread_self();
		pthread_create(&t, NULL, last_one, NULL);
		pthread_exit((void *)3);
	}
	EXPECT_EQ(status_of(pid), 0);
}

static void at_exit(void)
{
	_exit(42);
}

static void *exits_process(void *arg)
{
	(void)arg;
	exit(7);
}

TEST(exit_from_any_thread_runs_the_handlers)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		atexit(at_exit);
		on_thread(exits_process, NULL);
		_exit(1);
	}
	status = status_of(pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 42);
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *takes_held(void *arg)
{
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	return arg;
}

TEST(a_join_with_a_deadline_gives_up_and_may_be_tried_again)
{
	struct timespec until;
	pthread_t t;
	void *r;

	pthread_mutex_lock(&held);
	pthread_create(&t, NULL, takes_held, (void *)4);
	EXPECT_EQ(pthread_tryjoin_np(t, &r), EBUSY);
	until = in_ms(CLOCK_REALTIME, 20);
	EXPECT_EQ(pthread_timedjoin_np(t, &r, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	until = in_ms(CLOCK_MONOTONIC, 20);
	EXPECT_EQ(pthread_clockjoin_np(t, &r, CLOCK_MONOTONIC, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
	pthread_mutex_unlock(&held);
	until = in_ms(CLOCK_MONOTONIC, SLOW_MS);
	EXPECT_EQ(pthread_clockjoin_np(t, &r, CLOCK_MONOTONIC, &until), 0);
	EXPECT_EQ((long)r, 4);
}

/* So glibc takes it, which tries again and again what the kernel refuses. */
TEST(a_join_with_a_deadline_that_is_none_lasts_to_the_end_of_the_thread)
{
	const struct timespec none = { 1, 2000000000 }, past = { -1, 2000000000 };
	pthread_t t;
	void *r;

	pthread_mutex_lock(&held);
	pthread_create(&t, NULL, takes_held, (void *)4);
	EXPECT_EQ(pthread_timedjoin_np(t, &r, &past), ETIMEDOUT);
	EXPECT_EQ(pthread_clockjoin_np(t, &r, CLOCK_THREAD_CPUTIME_ID, &none), EINVAL);
	pthread_mutex_unlock(&held);
	EXPECT_EQ(pthread_timedjoin_np(t, &r, &none), 0);
	EXPECT_EQ((long)r, 4);
}

static void *joins_itself(void *arg)
{
	(void)arg;
	return (void *)(long)pthread_join(pthread_self(), NULL);
}

TEST(joining_oneself_or_a_detached_thread_is_an_error)
{
	pthread_attr_t attr;
	pthread_t t;
	void *r;

	pthread_create(&t, NULL, joins_itself, NULL);
	pthread_join(t, &r);
	EXPECT_EQ((long)r, EDEADLK);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&held);
	pthread_create(&t, &attr, takes_held, NULL);
	EXPECT_EQ(pthread_join(t, NULL), EINVAL);
	EXPECT_EQ(pthread_detach(t), EINVAL);
	pthread_mutex_unlock(&held);
}

static void *detaches_itself(void *arg)
{
	settle();
	return pthread_detach(pthread_self()) == 0 ? arg : NULL;
}

TEST(a_thread_that_detaches_itself_while_it_is_joined_is_joined)
{
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(on_thread(detaches_itself, (void *)5), 5);
}

static struct event detached_ran;

static void *detached(void *arg)
{
	if (arg)
		pthread_detach(pthread_self());
	tick(&detached_ran);
	return NULL;
}

TEST(detached_threads_run_and_leave)
{
	enum { N = 2000 };
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < N; i++) {
		pthread_t t;
		EXPECT_EQ(pthread_create(&t, i % 3 ? &attr : NULL, detached,
					 i % 3 == 0 && i % 2 ? (void *)1 : NULL),
			  0);
		if (i % 3 == 0 && i % 2 == 0)
			EXPECT_EQ(pthread_detach(t), 0);
		if (i % 100 == 0)
			await(&detached_ran, i + 1);
	}
	await(&detached_ran, N);
}

/* ---- attributes ---- */
static void *uses_stack(void *arg)
{
	size_t n = (size_t)arg;
	volatile char *room = __builtin_alloca(n);

	for (size_t i = 0; i < n; i += 512)
		room[i] = (char)i;
	return (void *)(long)room[0];
}

TEST(a_stack_is_as_large_as_asked_for)
{
	const size_t sizes[] = { (size_t)PTHREAD_STACK_MIN, 65536, 1 << 20, 64 << 20 };
	pthread_attr_t attr;

	for (int i = 0; i < 4; i++) {
		pthread_t t;
		pthread_attr_init(&attr);
		EXPECT_EQ(pthread_attr_setstacksize(&attr, sizes[i]), 0);
		EXPECT_EQ(pthread_create(&t, &attr, uses_stack, (void *)(sizes[i] / 2 - 4096)), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

static void *here(void *arg)
{
	int on_stack;

	return (char *)&on_stack > (char *)arg && (char *)&on_stack < (char *)arg + (1 << 20)
		       ? (void *)1
		       : NULL;
}

TEST(a_stack_of_the_programs_is_used_and_may_be_freed_after)
{
	pthread_attr_t attr;

	for (int i = 0; i < 20; i++) {
		char *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t t;
		void *r;
		pthread_attr_init(&attr);
		EXPECT_EQ(pthread_attr_setstack(&attr, stack, 1 << 20), 0);
		EXPECT_EQ(pthread_create(&t, &attr, here, stack), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT_EQ((long)r, 1);
		EXPECT_EQ(munmap(stack, 1 << 20), 0);
	}
}

static void *own_attributes(void *arg)
{
	pthread_attr_t attr;
	size_t size, guard;
	int state;
	void *addr;
	char local;

	EXPECT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	pthread_attr_getstack(&attr, &addr, &size);
	EXPECT(&local > (char *)addr && &local < (char *)addr + size);
	EXPECT(size >= 256 * 1024 && size <= 512 * 1024);
	pthread_attr_getguardsize(&attr, &guard);
	EXPECT_EQ(guard, 8192);
	pthread_attr_getdetachstate(&attr, &state);
	EXPECT_EQ(state, PTHREAD_CREATE_JOINABLE);
	pthread_attr_destroy(&attr);
	return arg;
}

TEST(a_thread_knows_its_attributes)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_attr_setguardsize(&attr, 8192);
	EXPECT_EQ(pthread_create(&t, &attr, own_attributes, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *overflow(void *arg)
{
	pthread_attr_t attr;
	size_t size;
	void *addr;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &addr, &size);
	/* glibc counts the guard to the stack, or not, by version. */
	((volatile char *)addr)[-1] = 1;
	return arg;
}

TEST(below_the_stack_is_a_guard)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		on_thread(overflow, NULL);
		_exit(0);
	}
	status = status_of(pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

static void *own_mask(void *arg)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	EXPECT_EQ(sigismember(&set, SIGUSR1), 1);
	EXPECT_EQ(sigismember(&set, SIGUSR2), 0);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	sched_yield();
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	EXPECT_EQ(sigismember(&set, SIGUSR2), 1);
	return arg;
}

TEST(a_thread_inherits_the_mask_and_keeps_its_own)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 10; i++) {
		on_thread(own_mask, NULL);
		pthread_sigmask(SIG_BLOCK, NULL, &set);
		EXPECT_EQ(sigismember(&set, SIGUSR1), 1);
		EXPECT_EQ(sigismember(&set, SIGUSR2), 0);
	}
}

/* ---- who am I ---- */
static void *own_id(void *arg)
{
	EXPECT_EQ(syscall(SYS_gettid), gettid());
	EXPECT(gettid() != getpid());
	(void)arg;
	return (void *)(long)gettid();
}

TEST(each_thread_has_a_tid_of_its_own)
{
	enum { N = 50 };
	long seen[N];
	pthread_t t;
	void *r;

	EXPECT_EQ(gettid(), getpid());
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(pthread_create(&t, NULL, own_id, NULL), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		seen[i] = (long)r;
		for (int j = 0; j < i; j++)
			EXPECT(seen[i] != seen[j]);
	}
	EXPECT_EQ(gettid(), getpid());
}

static void *has_name(void *arg)
{
	char name[16];

	EXPECT_EQ(pthread_setname_np(pthread_self(), "a name too long by far"), ERANGE);
	EXPECT_EQ(pthread_setname_np(pthread_self(), "spinner"), 0);
	EXPECT_EQ(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
	EXPECT_EQ(strcmp(name, "spinner"), 0);
	EXPECT_EQ(pthread_getname_np(pthread_self(), name, 4), ERANGE);
	return arg;
}

TEST(a_thread_has_a_name)
{
	on_thread(has_name, NULL);
}

static __thread int ours = 3;
static __thread char big[5000];

static void *fresh_locals(void *arg)
{
	EXPECT_EQ(ours, 3);
	EXPECT_EQ(errno, 0);
	for (size_t i = 0; i < sizeof(big); i++)
		EXPECT_EQ(big[i], 0);
	ours = 9;
	errno = EPERM;
	memset(big, 1, sizeof(big));
	sched_yield();
	EXPECT_EQ(ours, 9);
	EXPECT_EQ(errno, EPERM);
	return arg;
}

TEST(thread_local_variables_begin_fresh)
{
	for (int i = 0; i < 50; i++) {
		on_thread(fresh_locals, NULL);
		EXPECT_EQ(ours, 3);
	}
}

static void *creates_more(void *arg)
{
	long n = (long)arg;
	pthread_t a, b;
	void *x, *y;

	if (n < 2)
		return (void *)n;
	EXPECT_EQ(pthread_create(&a, NULL, creates_more, (void *)(n - 1)), 0);
	EXPECT_EQ(pthread_create(&b, NULL, creates_more, (void *)(n - 2)), 0);
	pthread_join(a, &x);
	pthread_join(b, &y);
	return (void *)((long)x + (long)y);
}

TEST(threads_create_threads)
{
	EXPECT_EQ((long)creates_more((void *)12), 144);
}

static void *forks(void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		pthread_t t;
		void *r;
		if (pthread_create(&t, NULL, same, (void *)21) != 0 || pthread_join(t, &r) != 0)
			_exit(1);
		_exit((int)(long)r);
	}
	status = status_of(pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 21);
	return arg;
}

static void *returns_at_once(void *arg)
{
	return arg;
}

static int errno_after_create(void)
{
	pthread_t t;
	int after;

	errno = ENOTTY;
	if (pthread_create(&t, NULL, returns_at_once, NULL) != 0)
		return -1;
	after = errno;
	pthread_join(t, NULL);
	return after;
}

TEST(the_first_pthread_create_of_a_process_leaves_errno_alone)
{
	int status;
	pid_t pid;

	EXPECT_EQ(errno_after_create(), ENOTTY);
	pid = fork();
	if (pid == 0)
		_exit(errno_after_create());
	status = status_of(pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), ENOTTY);
}

TEST(the_child_of_a_fork_creates_threads_again)
{
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		pthread_create(&t, NULL, forks, NULL);
		if (i % 2)
			forks(NULL);
		pthread_join(t, NULL);
	}
}

static _Atomic int enough;

static void *makes_others(void *arg)
{
	pthread_t t[8];

	while (!enough) {
		for (long i = 0; i < 8; i++)
			EXPECT_EQ(pthread_create(&t[i], NULL, same, (void *)i), 0);
		for (int i = 0; i < 8; i++)
			EXPECT_EQ(pthread_join(t[i], NULL), 0);
	}
	return arg;
}

/* What they hold as they begin and end is nobody's in the child. */
TEST(a_child_creates_threads_though_others_came_and_went)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, makes_others, NULL), 0);
	for (int i = 0; i < 300; i++)
		forks(NULL);
	enough = 1;
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

/* One that runs as its process forks, and one that has ended. */
static pthread_t left[2];
static struct event it_may_go;

static void *waits_until_it_may_go(void *arg)
{
	await(&it_may_go, 1);
	return arg;
}

static void joins_whom_it_has_not(int try)
{
	void *r = left;

	if (try) {
		EXPECT_EQ(pthread_tryjoin_np(left[0], NULL), 0);
		return;
	}
	EXPECT_EQ(pthread_join(left[1], &r), 0);
	EXPECT_EQ((long)r, 7);
	run(1, returns_at_once, NULL);
	EXPECT_EQ(pthread_join(left[0], NULL), 0);
}

static void *forks_away_from_others(void *arg)
{
	for (int try = 0; try < 2; try++) {
		pid_t pid = fork();
		if (pid == 0) {
			joins_whom_it_has_not(try);
			_exit(0);
		}
		EXPECT_EQ(status_of(pid), 0);
	}
	return arg;
}

TEST(who_did_not_come_along_in_a_fork_can_be_joined)
{
	EXPECT_EQ(pthread_create(&left[0], NULL, waits_until_it_may_go, NULL), 0);
	EXPECT_EQ(pthread_create(&left[1], NULL, same, (void *)7), 0);
	/* Until that one has ended. */
	settle();
	forks_away_from_others(NULL);
	on_thread(forks_away_from_others, NULL);
	tick(&it_may_go);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(left[i], NULL), 0);
}

TEST(of_a_thread_that_has_ended_little_is_to_be_had)
{
	struct sched_param param = { 0 };
	union sigval value = { 0 };
	char name[16];
	pthread_t t;
	int policy;

	EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
	settle();
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	EXPECT_EQ(pthread_kill(t, 99), 0);
	EXPECT_EQ(pthread_sigqueue(t, SIGUSR1, value), ESRCH);
	EXPECT_EQ(pthread_getschedparam(t, &policy, &param), ESRCH);
	EXPECT_EQ(pthread_setschedparam(t, SCHED_OTHER, &param), ESRCH);
	EXPECT_EQ(pthread_setschedprio(t, 0), ESRCH);
	EXPECT_EQ(pthread_setname_np(t, "ended"), ENOENT);
	EXPECT_EQ(pthread_getname_np(t, name, sizeof(name)), ENOENT);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- little memory ---- */

static void *does_nothing(void *arg)
{
	return arg;
}

/* 20000 stacks of 16 MiB, one after the other, where there is room for some 40. */
TEST(the_memory_of_detached_threads_that_ended_serves_the_next)
{
	struct rlimit limit = { 800u << 20, 800u << 20 };
	pid_t pid = fork();
	pthread_attr_t attr;
	pthread_t t;

	if (pid != 0) {
		EXPECT_EQ(status_of(pid), 0);
		return;
	}
	EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 16u << 20);
	for (int i = 0; i < 20000; i++) {
		long since = now_ms();
		/* They may be on their way out still. */
		while (pthread_create(&t, &attr, does_nothing, NULL) != 0) {
			EXPECT(now_ms() - since < SLOW_MS);
			sched_yield();
		}
	}
	_exit(0);
}

static void *ends(void *arg)
{
	return arg;
}

static void *tries_to_join_cancelled(void *arg)
{
	pthread_t t;
	void *r = NULL;

	EXPECT_EQ(pthread_create(&t, NULL, ends, arg), 0);
	pthread_cancel(pthread_self());
	while (pthread_tryjoin_np(t, &r) != 0)
		sched_yield();
	return r;
}

TEST(a_try_to_join_is_no_point_of_cancellation)
{
	pthread_t t;
	int mark;
	void *r = NULL;

	EXPECT_EQ(pthread_create(&t, NULL, tries_to_join_cancelled, &mark), 0);
	EXPECT_EQ(pthread_join(t, &r), 0);
	EXPECT(r == &mark);
}
