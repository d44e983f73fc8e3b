/* What the kernel knows of a thread: tid, policy, cpus, credentials, timers. It is the thread's,
 * and no other's, before it and after it. */
#include "common.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* glibc has them without a header of its own. */
int capget(struct __user_cap_header_struct *header, struct __user_cap_data_struct *data);
int capset(struct __user_cap_header_struct *header, const struct __user_cap_data_struct *data);

/* ---- owners ---- */

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

/* By setting its cpus it comes to be known to the kernel by a kernel thread of its own. */
static void *pinned_and_refused(void *arg)
{
	cpu_set_t cpus;

	EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus), 0);
	for (int i = 0; i < 20; i++) {
		struct timespec until = in_us(CLOCK_REALTIME, 500);
		EXPECT_EQ(pthread_mutex_trylock(&recursive), EBUSY);
		EXPECT_EQ(pthread_rwlock_timedrdlock(&rwlock, &until), ETIMEDOUT);
	}
	return arg;
}

TEST(what_the_first_thread_holds_is_nobody_else_s)
{
	pthread_mutex_lock(&recursive);
	pthread_rwlock_wrlock(&rwlock);
	run(8, pinned_and_refused, NULL);
	EXPECT_EQ(pthread_mutex_lock(&recursive), 0);
	EXPECT_EQ(pthread_rwlock_wrlock(&rwlock), EDEADLK);
}

/* ---- capabilities ---- */

static struct __user_cap_data_struct own_rights(pid_t tid, int call)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, tid };
	struct __user_cap_data_struct d[2] = { { 0 } };

	if (call)
		EXPECT_EQ(syscall(SYS_capget, &h, d), 0);
	else
		EXPECT_EQ(capget(&h, d), 0);
	EXPECT_EQ(h.pid, tid);
	return d[0];
}

/* As libcap-ng does. */
static void *gives_rights_up_by_its_tid(void *arg)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, gettid() };
	struct __user_cap_data_struct none[2] = { { 0 } };
	int call = (int)(long)arg;

	EXPECT_EQ(own_rights(gettid(), call).permitted, own_rights(0, call).permitted);
	EXPECT_EQ(call ? (int)syscall(SYS_capset, &h, none) : capset(&h, none), 0);
	EXPECT_EQ(own_rights(gettid(), call).permitted, 0);
	EXPECT_EQ(own_rights(0, call).effective, 0);
	/* Of a version that is none the kernel tells which is. */
	h.version = 1;
	EXPECT(capget(&h, NULL) == 0 && h.version == _LINUX_CAPABILITY_VERSION_3);
	return arg;
}

TEST(who_names_himself_by_his_tid_has_his_capabilities)
{
	uint32_t before = own_rights(0, 0).permitted;

	run(2, gives_rights_up_by_its_tid, NULL);
	run(2, gives_rights_up_by_its_tid, (void *)1);
	EXPECT_EQ(own_rights(0, 0).permitted, before);
}

/* ---- policy and cpus ---- */

static void *pins_itself_to_one(void *arg)
{
	struct sched_param param = { .sched_priority = 5 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	/* As far as one may. */
	pthread_setschedparam(pthread_self(), SCHED_RR, &param);
	return arg;
}

static int cpus_there;

static void *is_usual(void *arg)
{
	cpu_set_t cpus;

	EXPECT(syscall(SYS_sched_getaffinity, 0, sizeof(cpus), &cpus) > 0);
	for (volatile int i = 0; i < 100000; i++)
		continue;
	CPU_ZERO(&cpus);
	EXPECT(syscall(SYS_sched_getaffinity, 0, sizeof(cpus), &cpus) > 0);
	EXPECT_EQ(CPU_COUNT(&cpus), cpus_there);
	EXPECT_EQ(syscall(SYS_sched_getscheduler, 0), SCHED_OTHER);
	return arg;
}

TEST(the_cpus_and_the_policy_of_a_thread_end_with_it)
{
	cpu_set_t cpus;

	EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	cpus_there = CPU_COUNT(&cpus);
	run(4, pins_itself_to_one, NULL);
	for (int i = 0; i < 5; i++)
		run(8, is_usual, NULL);
}

/* ---- credentials ---- */

static struct event changed;

static void *computes_and_is_changed(void *arg)
{
	tick(&entered);
	while (changed.n == 0)
		continue;
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(syscall(SYS_geteuid), 1000);
		sched_yield();
	}
	return arg;
}

static void *sleeps_and_is_changed(void *arg)
{
	tick(&entered);
	await(&changed, 1);
	EXPECT_EQ(syscall(SYS_geteuid), 1000);
	return arg;
}

/* What setuid does depends on who one is: so it must be done once on each. */
static void *is_half_back(void *arg)
{
	uid_t real, effective, saved;

	tick(&entered);
	await(&changed, 1);
	EXPECT_EQ(syscall(SYS_getresuid, &real, &effective, &saved), 0);
	EXPECT_EQ(real, 1000);
	EXPECT_EQ(effective, 0);
	EXPECT_EQ(saved, 0);
	return arg;
}

TEST(setuid_to_the_saved_one_changes_no_other)
{
	pthread_t t[8];

	if (geteuid() != 0)
		return;
	/* While kernel threads come and go, perhaps. */
	for (int i = 0; i < 20; i++) {
		entered.n = changed.n = 0;
		start(t, 8, is_half_back, NULL);
		await(&entered, 8);
		EXPECT_EQ(setresuid(1000, 1000, 0), 0);
		EXPECT_EQ(setuid(0), 0);
		tick(&changed);
		is_half_back(NULL);
		join(t, 8);
		run(8, is_half_back, NULL);
		EXPECT_EQ(setresuid(0, 0, 0), 0);
	}
}

TEST(credentials_are_the_process_s)
{
	pthread_t t[8];

	if (geteuid() != 0)
		return;
	start(t, 4, computes_and_is_changed, NULL);
	start(t + 4, 4, sleeps_and_is_changed, NULL);
	await(&entered, 8);
	EXPECT_EQ(seteuid(1000), 0);
	tick(&changed);
	join(t, 8);
	run(8, sleeps_and_is_changed, NULL);
	FAILS(setuid(12345), EPERM);
	EXPECT_EQ(seteuid(0), 0);
}

/* ---- signals by number, with a value, by a timer ---- */

static _Atomic int value;

static void takes_value(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)uc;
	value = info->si_value.sival_int;
	tick(&handled);
}

static void handle_values(int sig)
{
	struct sigaction act = { .sa_sigaction = takes_value, .sa_flags = SA_SIGINFO };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

static void *waits_for_values(void *arg)
{
	tick(&entered);
	await(&handled, 1);
	return arg;
}

TEST(pthread_sigqueue_brings_its_value)
{
	pthread_t t;

	handle_values(SIGRTMIN);
	start(&t, 1, waits_for_values, NULL);
	await(&entered, 1);
	EXPECT_EQ(pthread_sigqueue(t, SIGRTMIN, (union sigval){ .sival_int = 77 }), 0);
	join(&t, 1);
	EXPECT_EQ(value, 77);
	EXPECT_EQ(pthread_sigqueue(pthread_self(), SIGRTMIN, (union sigval){ .sival_int = 78 }), 0);
	EXPECT_EQ(value, 78);
}

static _Atomic pid_t its_tid;

static void *tells_its_tid(void *arg)
{
	its_tid = gettid();
	tick(&entered);
	await(&changed, 1);
	return arg;
}

static siginfo_t info_of(int sig, int number)
{
	siginfo_t info = { .si_signo = sig, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = number;
	return info;
}

/* To kill and its kin each tid means the process: here the other thread blocks the signal. */
TEST(the_process_is_named_by_each_thread_s_tid)
{
	const int sig = SIGRTMIN;
	siginfo_t info;
	pthread_t t;

	handle_values(sig);
	mask(SIG_BLOCK, sig);
	start(&t, 1, tells_its_tid, NULL);
	await(&entered, 1);
	mask(SIG_UNBLOCK, sig);
	EXPECT_EQ(kill(its_tid, 0), 0);
	EXPECT_EQ(kill(its_tid, sig), 0);
	await(&handled, 1);
	EXPECT_EQ(syscall(SYS_kill, its_tid, sig), 0);
	await(&handled, 2);
	info = info_of(sig, 81);
	EXPECT_EQ(syscall(SYS_rt_sigqueueinfo, its_tid, sig, &info), 0);
	await(&handled, 3);
	EXPECT_EQ(value, 81);
	tick(&changed);
	join(&t, 1);
	/* Who is joined may be on its way out of the kernel still. */
	while ((errno = 0, kill(its_tid, 0)) == 0)
		sched_yield();
	EXPECT_EQ(errno, ESRCH);
}

static void *takes_it_itself(void *arg)
{
	siginfo_t info = info_of(SIGRTMIN, 83);

	tells_its_tid(NULL);
	await(&handled, 1);
	EXPECT_EQ(value, 82);
	EXPECT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGRTMIN, &info), 0);
	EXPECT_EQ(value, 83);
	FAILS(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), 65, &info), EINVAL);
	return arg;
}

TEST(a_raw_call_brings_its_value_to_the_thread_of_that_tid)
{
	siginfo_t info = info_of(SIGRTMIN, 82);
	pthread_t t;

	handle_values(SIGRTMIN);
	start(&t, 1, takes_it_itself, NULL);
	await(&entered, 1);
	mask(SIG_BLOCK, SIGRTMIN);
	EXPECT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), its_tid, SIGRTMIN, &info), 0);
	tick(&changed);
	join(&t, 1);
}

static void *has_a_timer(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGRTMIN,
				  .sigev_value.sival_int = 5,
				  ._sigev_un._tid = gettid() };
	/* Again and again: what comes before the sleep has begun does not end it. */
	struct itimerspec often = { .it_value = { 0, 5 * MS }, .it_interval = { 0, 5 * MS } };
	timer_t timer;

	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	EXPECT_EQ(timer_settime(timer, 0, &often, NULL), 0);
	FAILS(usleep(10000000), EINTR);
	EXPECT_EQ(value, 5);
	EXPECT_EQ(timer_delete(timer), 0);
	return arg;
}

TEST(a_timer_finds_its_thread_by_the_tid)
{
	handle_values(SIGRTMIN);
	on_thread(has_a_timer, NULL);
}

static void *lets_in_many(void *arg)
{
	mask(SIG_BLOCK, SIGRTMIN + 1);
	tick(&entered);
	await(&changed, 1);
	EXPECT_EQ(handled.n, 0);
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	EXPECT_EQ(handled.n, 50);
	return arg;
}

TEST(of_real_time_signals_each_is_handled)
{
	pthread_t t;

	handle(SIGRTMIN + 1, 0);
	start(&t, 1, lets_in_many, NULL);
	await(&entered, 1);
	for (int i = 0; i < 50; i++)
		EXPECT_EQ(pthread_kill(t, SIGRTMIN + 1), 0);
	tick(&changed);
	join(&t, 1);
}

static void *blocks_them_for_long(void *arg)
{
	mask(SIG_BLOCK, SIGRTMIN + 1);
	mask(SIG_BLOCK, SIGUSR1);
	tick(&entered);
	await(&changed, 1);
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	mask(SIG_UNBLOCK, SIGUSR1);
	EXPECT_EQ(handled.n, 4);
	return arg;
}

TEST(no_more_are_queued_than_the_limit_lets_be)
{
	union sigval with = { .sival_int = 1 };
	struct rlimit before, none;
	pthread_t t;

	handle(SIGRTMIN + 1, 0);
	handle(SIGUSR1, 0);
	start(&t, 1, blocks_them_for_long, NULL);
	await(&entered, 1);
	/* It counts what is pending for any process of the user's. */
	EXPECT_EQ(getrlimit(RLIMIT_SIGPENDING, &before), 0);
	none = before;
	none.rlim_cur = 0;
	EXPECT_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	EXPECT_EQ(pthread_sigqueue(t, SIGRTMIN + 1, with), EAGAIN);
	EXPECT_EQ(pthread_kill(t, SIGRTMIN + 1), EAGAIN);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	EXPECT_EQ(setrlimit(RLIMIT_SIGPENDING, &before), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_sigqueue(t, SIGRTMIN + 1, with), 0);
	tick(&changed);
	join(&t, 1);
}

/* ---- alternate stacks ---- */

static __thread char *alternate;
enum { ALTERNATE = 65536 };

static void is_there(int sig)
{
	stack_t now, again;
	char here;

	(void)sig;
	EXPECT(&here >= alternate && &here < alternate + ALTERNATE);
	EXPECT_EQ(sigaltstack(NULL, &now), 0);
	EXPECT_EQ(now.ss_flags, SS_ONSTACK);
	EXPECT(now.ss_sp == alternate);
	again = now;
	again.ss_flags = 0;
	FAILS(sigaltstack(&again, NULL), EPERM);
	usleep(500);
	tick(&handled);
}

static void *has_an_alternate_stack(void *arg)
{
	stack_t stack = { .ss_sp = malloc(ALTERNATE), .ss_size = ALTERNATE }, old;

	EXPECT_EQ(sigaltstack(NULL, &old), 0);
	EXPECT_EQ(old.ss_flags, SS_DISABLE);
	alternate = stack.ss_sp;
	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	for (int i = 0; i < 20; i++) {
		int before = handled.n;
		EXPECT_EQ(raise(SIGUSR1), 0);
		EXPECT(handled.n > before);
	}
	stack.ss_flags = SS_DISABLE;
	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	free(alternate);
	return arg;
}

TEST(each_thread_has_its_alternate_stack)
{
	handle_with(SIGUSR1, is_there, SA_ONSTACK);
	has_an_alternate_stack(NULL);
	run(8, has_an_alternate_stack, NULL);
	EXPECT_EQ(handled.n, 180);
}

static void *takes_small_ones(void *arg)
{
	static char room[16384];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };

	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	/* The kernel's least, as <asm/signal.h> has it. */
	stack.ss_size = 2048;
	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	stack.ss_size--;
	FAILS(sigaltstack(&stack, NULL), ENOMEM);
	return arg;
}

TEST(an_alternate_stack_may_be_as_small_as_the_kernel_lets_it)
{
	twice(takes_small_ones);
}

/* ---- one that is in a vfork ---- */

static void *vforks(void *arg)
{
	int pause[2];
	char c;
	pid_t pid;

	EXPECT_EQ(pipe(pause), 0);
	pid = vfork();
	if (pid == 0) {
		struct timespec brief = { 0, 2 * MS };
		tick(&entered);
		syscall(SYS_nanosleep, &brief, NULL);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
	close(pause[1]);
	EXPECT_EQ(read(pause[0], &c, 1), 0);
	close(pause[0]);
	return arg;
}

/* Until the P of who vforks, with nobody to run on it, has been taken, of which no event tells; and
 * there is no other kernel thread yet that could have it. */
static void *vforks_and_wakes(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		struct timespec brief = { 0, 50 * MS };
		syscall(SYS_nanosleep, &brief, NULL);
		tick(&entered);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
	return arg;
}

TEST(the_child_of_a_vfork_wakes_a_thread_of_its_parent_s)
{
	pthread_t t;

	start(&t, 1, vforks_and_wakes, NULL);
	await(&entered, 1);
	join(&t, 1);
}

TEST(a_thread_is_joined_while_it_vforks)
{
	for (int i = 0; i < 50; i++) {
		pthread_t t;
		entered.n = 0;
		start(&t, 1, vforks, NULL);
		await(&entered, 1);
		EXPECT_EQ(pthread_kill(t, 0), 0);
		join(&t, 1);
	}
}
