/* Affinity, policy and priority of threads, set by themselves, by others and by attributes. The
 * same holds natively. */
#include "threads.h"

#include <link.h>
#include <semaphore.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static sem_t ready, go;
static volatile int stop;

static void last_cpu(cpu_set_t *only)
{
	cpu_set_t all;
	size_t last = 0;

	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			last = i;
	CPU_ZERO(only);
	CPU_SET(last, only);
}

static void is_bound(pthread_t t, const cpu_set_t *only)
{
	cpu_set_t set;

	EXPECT_EQ(pthread_getaffinity_np(t, sizeof(set), &set), 0);
	EXPECT(CPU_EQUAL(&set, only));
}

/* The kernel's opinion, not ours. */
static void runs_bound(const cpu_set_t *only)
{
	cpu_set_t set = { 0 };

	is_bound(pthread_self(), only);
	for (int i = 0; i < 20; i++) {
		EXPECT(syscall(SYS_sched_getaffinity, 0, sizeof(set), &set) > 0);
		EXPECT(CPU_EQUAL(&set, only));
		EXPECT(CPU_ISSET((size_t)sched_getcpu(), only));
		sched_yield();
	}
}

static void *is_bound_at_its_start(void *only)
{
	runs_bound(only);
	return NULL;
}

/* ---- one that is bound tells nothing of the others ---- */

static pthread_barrier_t bound;

static void *is_bound_there(void *arg)
{
	cpu_set_t only;

	last_cpu(&only);
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(only), &only), 0);
	pthread_barrier_wait(&bound);
	pthread_barrier_wait(&bound);
	return arg;
}

static void *waits_for_those(void *arg)
{
	pthread_barrier_wait(&bound);
	pthread_barrier_wait(&bound);
	return arg;
}

/* Whatever kernel threads they have. */
TEST(who_is_not_bound_is_not_told_the_cpus_of_who_is)
{
	enum { BOUND = 4 };
	pthread_t t[BOUND], other;
	cpu_set_t all, set;

	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(pthread_barrier_init(&bound, NULL, BOUND + 2), 0);
		start(t, BOUND, is_bound_there, NULL);
		start(&other, 1, waits_for_those, NULL);
		pthread_barrier_wait(&bound);
		is_bound(pthread_self(), &all);
		is_bound(other, &all);
		EXPECT_EQ(sched_getaffinity(getpid(), sizeof(set), &set), 0);
		EXPECT(CPU_EQUAL(&set, &all));
		pthread_barrier_wait(&bound);
		join(t, BOUND);
		join(&other, 1);
	}
}

/* ---- what only the privileged may take back ---- */

/* Of the kernel thread. */
static int kernels_policy(void)
{
	uint32_t attr[14] = { 0 };

	EXPECT_EQ(syscall(SYS_sched_getattr, 0, attr, sizeof(attr), 0), 0);
	return (int)attr[1];
}

static void *makes_itself_idle(void *arg)
{
	struct sched_param none = { 0 };

	EXPECT_EQ(pthread_setschedparam(pthread_self(), SCHED_IDLE, &none), 0);
	EXPECT_EQ(kernels_policy(), SCHED_IDLE);
	sched_yield();
	EXPECT_EQ(kernels_policy(), SCHED_IDLE);
	return arg;
}

static void *is_usual(void *arg)
{
	EXPECT_EQ(kernels_policy(), SCHED_OTHER);
	sched_yield();
	EXPECT_EQ(kernels_policy(), SCHED_OTHER);
	return arg;
}

/* As workers in the background do. */
TEST(that_one_is_idle_is_not_another_s)
{
	struct sched_param none = { 0 };
	pthread_t t;

	if (geteuid() == 0)
		EXPECT_EQ(setresuid(65534, 65534, 65534), 0);
	for (int i = 0; i < 5; i++) {
		run(4, makes_itself_idle, NULL);
		run(8, is_usual, NULL);
		is_usual(NULL);
	}
	/* Nor if it was another who made it so. */
	EXPECT_EQ(pthread_barrier_init(&bound, NULL, 2), 0);
	start(&t, 1, waits_for_those, NULL);
	EXPECT_EQ(pthread_setschedparam(t, SCHED_IDLE, &none), 0);
	pthread_barrier_wait(&bound);
	is_usual(NULL);
	pthread_barrier_wait(&bound);
	join(&t, 1);
	run(8, is_usual, NULL);
	is_usual(NULL);
}

static void *has_all(void *all)
{
	is_bound(pthread_self(), all);
	return NULL;
}

/* All ones is a set, too: the thread is not to have its maker's. */
TEST(attributes_with_all_cpus_undo_the_maker_s)
{
	pthread_attr_t attr;
	cpu_set_t all, every, only;
	pthread_t t;

	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	run(1, has_all, &all);
	last_cpu(&only);
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(only), &only), 0);
	memset(&every, 0xff, sizeof(every));
	EXPECT_EQ(pthread_attr_init(&attr), 0);
	EXPECT_EQ(pthread_attr_setaffinity_np(&attr, sizeof(every), &every), 0);
	EXPECT_EQ(pthread_create(&t, &attr, has_all, &all), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	run(1, has_all, &only);
}

static void *is_reset(void *nice)
{
	EXPECT_EQ(kernels_policy(), SCHED_OTHER);
	EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
	EXPECT_EQ(getpriority(PRIO_PROCESS, 0), (int)(long)nice);
	return NULL;
}

/* As who plays sound does. */
static void *keeps_its_own(void *arg)
{
	struct sched_param none = { 0 };

	EXPECT_EQ(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none), 0);
	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
			       &(struct sched_param){ .sched_priority = 1 }) == 0)
		run(2, is_reset, NULL);
	EXPECT_EQ(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none), 0);
	if (setpriority(PRIO_PROCESS, 0, -5) == 0)
		run(2, is_reset, NULL);
	EXPECT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
	run(2, is_reset, (void *)5);
	return arg;
}

TEST(threads_do_not_have_what_their_maker_keeps_for_itself)
{
	run(1, keeps_its_own, NULL);
}

TEST(a_thread_begins_with_the_affinity_of_its_attributes_or_its_creator)
{
	cpu_set_t only, none;
	pthread_attr_t attr;
	pthread_t t;

	last_cpu(&only);
	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setaffinity_np(&attr, sizeof(only), &only), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(pthread_create(&t, &attr, is_bound_at_its_start, &only), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
	CPU_ZERO(&none);
	CPU_SET(CPU_SETSIZE - 1, &none);
	EXPECT_EQ(pthread_attr_setaffinity_np(&attr, sizeof(none), &none), 0);
	EXPECT_EQ(pthread_create(&t, &attr, is_bound_at_its_start, &only), EINVAL);
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(only), &only), 0);
	on_thread(is_bound_at_its_start, &only);
}

static void *is_bound_later(void *only)
{
	sem_post(&ready);
	while (sem_wait(&go) != 0)
		continue;
	runs_bound(only);
	return NULL;
}

static void *is_bound_in_its_sleep(void *only)
{
	sem_post(&ready);
	/* Bound in the first of these, unless the other was late. */
	do
		EXPECT_EQ(usleep(20000), 0);
	while (!stop);
	runs_bound(only);
	return NULL;
}

static void *is_bound_while_it_computes(void *only)
{
	sem_post(&ready);
	while (!stop)
		continue;
	runs_bound(only);
	return NULL;
}

TEST(another_thread_is_bound_as_soon_as_it_runs)
{
	void *(*fns[])(void *) = { is_bound_later, is_bound_in_its_sleep,
				   is_bound_while_it_computes };
	cpu_set_t only, none;

	last_cpu(&only);
	CPU_ZERO(&none);
	sem_init(&ready, 0, 0);
	sem_init(&go, 0, 0);
	for (int i = 0; i < 9; i++) {
		pthread_t t;
		stop = 0;
		EXPECT_EQ(pthread_create(&t, NULL, fns[i % 3], &only), 0);
		EXPECT_EQ(sem_wait(&ready), 0);
		EXPECT_EQ(pthread_setaffinity_np(t, sizeof(none), &none), EINVAL);
		EXPECT_EQ(pthread_setaffinity_np(t, sizeof(only), &only), 0);
		is_bound(t, &only);
		stop = 1;
		if (i % 3 == 0)
			sem_post(&go);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

static int wanted;

static void *has_policy(void *arg)
{
	struct sched_param param;
	int policy;

	sem_post(&ready);
	while (sem_wait(&go) != 0)
		continue;
	EXPECT_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	EXPECT_EQ(policy, wanted);
	EXPECT_EQ(syscall(SYS_sched_getscheduler, 0), wanted);
	return arg;
}

TEST(another_thread_gets_its_policy_and_errors_are_told)
{
	struct sched_param param = { 0 }, got;
	pthread_t t;
	int policy;

	sem_init(&ready, 0, 0);
	sem_init(&go, 0, 0);
	wanted = SCHED_BATCH;
	EXPECT_EQ(pthread_create(&t, NULL, has_policy, NULL), 0);
	EXPECT_EQ(sem_wait(&ready), 0);
	EXPECT_EQ(pthread_setschedparam(t, 77, &param), EINVAL);
	param.sched_priority = 5;
	EXPECT_EQ(pthread_setschedparam(t, SCHED_BATCH, &param), EINVAL);
	param.sched_priority = 0;
	EXPECT_EQ(pthread_setschedparam(t, SCHED_BATCH, &param), 0);
	EXPECT_EQ(pthread_getschedparam(t, &policy, &got), 0);
	EXPECT_EQ(policy, SCHED_BATCH);
	EXPECT_EQ(got.sched_priority, 0);
	sem_post(&go);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- by tid ---- */

static _Atomic pid_t its_tid;

static void *is_bound_by_its_tid(void *only)
{
	its_tid = gettid();
	is_bound_later(only);
	EXPECT_EQ(syscall(SYS_sched_getscheduler, 0), SCHED_BATCH);
	return NULL;
}

static void binds_it(const cpu_set_t *only)
{
	const struct sched_param none = { 0 };
	struct sched_param got = { 1 };
	cpu_set_t set = { 0 }, empty = { 0 };

	EXPECT(syscall(SYS_sched_getaffinity, its_tid, sizeof(set), &set) > 0);
	struct sched_param ordinary = { 0 };
	EXPECT_EQ(syscall(SYS_sched_setscheduler, its_tid, SCHED_OTHER, &ordinary), 0);
	EXPECT_EQ(syscall(SYS_sched_getscheduler, its_tid), SCHED_OTHER);
	FAILS(syscall(SYS_sched_setscheduler, its_tid, 77, &ordinary), EINVAL);
	EXPECT_EQ(syscall(SYS_sched_setparam, its_tid, &ordinary), 0);
	ordinary.sched_priority = 7;
	EXPECT_EQ(syscall(SYS_sched_getparam, its_tid, &ordinary), 0);
	EXPECT_EQ(ordinary.sched_priority, 0);
	EXPECT_EQ(syscall(SYS_sched_setaffinity, its_tid, sizeof(set), &set), 0);
	FAILS(sched_setaffinity(its_tid, sizeof(empty), &empty), EINVAL);
	EXPECT_EQ(sched_setaffinity(its_tid, sizeof(*only), only), 0);
	EXPECT_EQ(sched_getaffinity(its_tid, sizeof(set), &set), 0);
	EXPECT(CPU_EQUAL(&set, only));
	CPU_ZERO(&set);
	EXPECT(syscall(SYS_sched_getaffinity, its_tid, sizeof(set), &set) > 0);
	EXPECT(CPU_EQUAL(&set, only));
	EXPECT_EQ(sched_getscheduler(its_tid), SCHED_OTHER);
	FAILS(sched_setscheduler(its_tid, 77, &none), EINVAL);
	EXPECT_EQ(sched_setscheduler(its_tid, SCHED_BATCH, &none), 0);
	EXPECT_EQ(sched_getscheduler(its_tid), SCHED_BATCH);
	EXPECT_EQ(sched_setparam(its_tid, &none), 0);
	EXPECT_EQ(sched_getparam(its_tid, &got), 0);
	EXPECT_EQ(got.sched_priority, 0);
}

TEST(another_thread_is_named_by_its_tid)
{
	cpu_set_t only, before, now;
	pthread_t t;

	last_cpu(&only);
	sem_init(&ready, 0, 0);
	sem_init(&go, 0, 0);
	EXPECT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	EXPECT_EQ(pthread_create(&t, NULL, is_bound_by_its_tid, &only), 0);
	EXPECT_EQ(sem_wait(&ready), 0);
	binds_it(&only);
	sem_post(&go);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	/* Who is joined may be on its way out of the kernel still. */
	while ((errno = 0, sched_setaffinity(its_tid, sizeof(only), &only)) == 0)
		sched_yield();
	EXPECT_EQ(errno, ESRCH);
	FAILS(sched_getscheduler(its_tid), ESRCH);
	FAILS(sched_getparam(0, NULL), EINVAL);
	EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
	EXPECT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
	EXPECT(CPU_EQUAL(&now, &before));
}

/* ---- by syscall() ---- */

/* The kernel's struct sched_attr, as it was first. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* As GLib gives the threads of a pool what their maker has. */
static void *gives_itself(void *arg)
{
	const struct attr *makers = arg;
	struct attr mine;
	long tid = gettid();

	EXPECT_EQ(syscall(SYS_sched_setattr, tid, makers, 0), 0);
	EXPECT_EQ(syscall(SYS_sched_getattr, tid, &mine, sizeof(mine), 0), 0);
	EXPECT_EQ(mine.policy, makers->policy);
	EXPECT_EQ(sched_getscheduler(0), (int)makers->policy);
	return arg;
}

TEST(a_raw_policy_is_given_to_the_caller_by_its_tid)
{
	struct attr attr;
	cpu_set_t set;

	EXPECT_EQ(syscall(SYS_sched_getattr, gettid(), &attr, sizeof(attr), 0), 0);
	on_thread(gives_itself, &attr);
	attr.policy = SCHED_BATCH;
	on_thread(gives_itself, &attr);
	EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
	attr.policy = 77;
	FAILS(syscall(SYS_sched_setattr, gettid(), &attr, 0), EINVAL);
	EXPECT(syscall(SYS_sched_getaffinity, gettid(), sizeof(set), &set) > 0);
	EXPECT_EQ(syscall(SYS_sched_setaffinity, gettid(), sizeof(set), &set), 0);
}

/* ---- under a lock of the loader's ---- */

static int binds_itself(struct dl_phdr_info *info, size_t size, void *only)
{
	(void)info;
	(void)size;
	EXPECT_EQ(sched_setaffinity(0, sizeof(cpu_set_t), only), 0);
	return 1;
}

static void *binds_itself_there(void *only)
{
	EXPECT_EQ(dl_iterate_phdr(binds_itself, only), 1);
	runs_bound(only);
	return NULL;
}

/* The lock is a recursive one, and let go by nobody but its owner. */
TEST(who_binds_itself_under_a_lock_of_the_loader_s_lets_go_of_it)
{
	cpu_set_t only;

	last_cpu(&only);
	for (int i = 0; i < 3; i++)
		on_thread(binds_itself_there, &only);
	binds_itself_there(&only);
}

/* ---- yielding ---- */

static _Atomic bool found;
static _Atomic long yields;

static void *yields_until_found(void *arg)
{
	long n = 0;

	for (; !found; n++)
		sched_yield();
	yields += n;
	return arg;
}

static void *finds(void *arg)
{
	volatile unsigned long sum = 0;

	for (unsigned long i = 0; i < 100000000; i++)
		sum += i;
	found = true;
	return arg;
}

TEST(those_who_yield_to_each_other_let_the_one_run_who_works)
{
	pthread_t t[3];
	cpu_set_t one;

	/* Before there are threads: on one cpu, whatever they run on. */
	last_cpu(&one);
	EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, i ? yields_until_found : finds, NULL), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	EXPECT(yields < 1000000);
}

static void *yields_until_stop(void *arg)
{
	while (!stop)
		sched_yield();
	return arg;
}

/* What else it has set for itself is its own still. */
TEST(the_first_thread_that_gives_back_its_cpus_keeps_the_rest)
{
	enum { SLACK = 123456, OTHERS = 4 };
	pthread_t t[OTHERS];
	cpu_set_t all, only;

	for (int i = 0; i < OTHERS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, yields_until_stop, NULL), 0);
	EXPECT_EQ(prctl(PR_SET_TIMERSLACK, SLACK), 0);
	last_cpu(&only);
	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	EXPECT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
	EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(prctl(PR_GET_TIMERSLACK), SLACK);
		sched_yield();
	}
	stop = 1;
	for (int i = 0; i < OTHERS; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}
