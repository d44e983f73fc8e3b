/* Mutexes with a priority ceiling: who holds one has that priority in the kernel, and its own again
 * afterwards. The same holds natively. Who may have no real-time priority sees the errors alone. */
#include "event.h"

enum { OWN = 5, LOW = 20, HIGH = 30 };

static void make(pthread_mutex_t *m, int type, int ceiling)
{
	pthread_mutexattr_t attr;
	int is = 0;

	pthread_mutexattr_init(&attr);
	EXPECT_EQ(pthread_mutexattr_settype(&attr, type), 0);
	EXPECT_EQ(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT), 0);
	EXPECT_EQ(pthread_mutexattr_setprioceiling(&attr, ceiling), 0);
	EXPECT_EQ(pthread_mutexattr_getprioceiling(&attr, &is), 0);
	EXPECT_EQ(is, ceiling);
	EXPECT_EQ(pthread_mutex_init(m, &attr), 0);
	EXPECT_EQ(pthread_mutexattr_destroy(&attr), 0);
}

/* The kernel's opinion. */
static int priority(void)
{
	struct sched_param param = { -1 };

	EXPECT_EQ(syscall(SYS_sched_getparam, 0, &param), 0);
	return param.sched_priority;
}

static int climb(int to)
{
	struct sched_param param = { .sched_priority = to };

	return pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

/* fn as a FIFO thread, if such a thread can be. */
static void at_own_priority(void *(*fn)(void *))
{
	struct sched_param param = { .sched_priority = OWN };
	pthread_attr_t attr;
	pthread_t t;
	int r;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED), 0);
	EXPECT_EQ(pthread_attr_setschedpolicy(&attr, SCHED_FIFO), 0);
	EXPECT_EQ(pthread_attr_setschedparam(&attr, &param), 0);
	r = pthread_create(&t, &attr, fn, NULL);
	if (r == EPERM) {
		test_say("  skipped: no FIFO threads here");
		return;
	}
	EXPECT_EQ(r, 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- one thread ---- */

static void *has_the_ceiling(void *arg)
{
	struct timespec until = in_ms(CLOCK_REALTIME, SLOW_MS);
	pthread_mutex_t m;

	EXPECT_EQ(priority(), OWN);
	for (int type = PTHREAD_MUTEX_NORMAL; type <= PTHREAD_MUTEX_ADAPTIVE_NP; type++) {
		make(&m, type, LOW);
		for (int how = 0; how < 4; how++) {
			int r = how == 0   ? pthread_mutex_lock(&m)
				: how == 1 ? pthread_mutex_trylock(&m)
				: how == 2 ? pthread_mutex_timedlock(&m, &until)
					   : pthread_mutex_clocklock(&m, CLOCK_REALTIME, &until);
			EXPECT_EQ(r, 0);
			EXPECT_EQ(priority(), LOW);
			/* It sleeps, and has it wherever it goes on. */
			usleep(100);
			EXPECT_EQ(priority(), LOW);
			EXPECT_EQ(sched_getscheduler(0), SCHED_FIFO);
			EXPECT_EQ(pthread_mutex_unlock(&m), 0);
			EXPECT_EQ(priority(), OWN);
		}
		EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	}
	return arg;
}

TEST(who_holds_a_mutex_has_its_ceiling_for_a_priority)
{
	for (int i = 0; i < 3; i++)
		at_own_priority(has_the_ceiling);
	EXPECT_EQ(priority(), 0);
}

static void *has_the_highest_ceiling(void *arg)
{
	pthread_mutex_t low, high;

	make(&low, PTHREAD_MUTEX_NORMAL, LOW);
	make(&high, PTHREAD_MUTEX_NORMAL, HIGH);
	for (int i = 0; i < 4; i++) {
		bool high_first = i % 2, same_order = i / 2;
		EXPECT_EQ(pthread_mutex_lock(high_first ? &high : &low), 0);
		EXPECT_EQ(priority(), high_first ? HIGH : LOW);
		EXPECT_EQ(pthread_mutex_lock(high_first ? &low : &high), 0);
		EXPECT_EQ(priority(), HIGH);
		EXPECT_EQ(pthread_mutex_unlock(high_first == same_order ? &high : &low), 0);
		EXPECT_EQ(priority(), high_first == same_order ? LOW : HIGH);
		EXPECT_EQ(pthread_mutex_unlock(high_first == same_order ? &low : &high), 0);
		EXPECT_EQ(priority(), OWN);
	}
	return arg;
}

TEST(who_holds_two_has_the_higher_ceiling)
{
	at_own_priority(has_the_highest_ceiling);
}

static void *locks_again(void *arg)
{
	pthread_mutex_t m;

	make(&m, PTHREAD_MUTEX_RECURSIVE, LOW);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(i % 2 ? pthread_mutex_trylock(&m) : pthread_mutex_lock(&m), 0);
		EXPECT_EQ(priority(), LOW);
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(priority(), LOW);
		EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	}
	EXPECT_EQ(priority(), OWN);
	EXPECT_EQ(pthread_mutex_unlock(&m), EPERM);
	make(&m, PTHREAD_MUTEX_ERRORCHECK, LOW);
	EXPECT_EQ(pthread_mutex_unlock(&m), EPERM);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(pthread_mutex_lock(&m), EDEADLK);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	EXPECT_EQ(priority(), OWN);
	return arg;
}

TEST(the_ceiling_ends_with_the_last_unlock)
{
	at_own_priority(locks_again);
}

/* What the thread asks for meanwhile it has afterwards. */
static void *climbs_while_it_holds(void *arg)
{
	struct sched_param param;
	pthread_mutex_t m;
	int policy;

	make(&m, PTHREAD_MUTEX_NORMAL, LOW);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	EXPECT_EQ(policy, SCHED_FIFO);
	EXPECT_EQ(param.sched_priority, OWN);
	EXPECT_EQ(climb(OWN + 1), 0);
	EXPECT_EQ(priority(), LOW);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	EXPECT_EQ(priority(), OWN + 1);
	EXPECT_EQ(pthread_setschedprio(pthread_self(), OWN + 2), 0);
	EXPECT_EQ(priority(), OWN + 2);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(priority(), LOW);
	EXPECT_EQ(pthread_setschedprio(pthread_self(), OWN + 3), 0);
	EXPECT_EQ(priority(), LOW);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	EXPECT_EQ(priority(), OWN + 3);
	EXPECT_EQ(pthread_getschedparam(pthread_self(), &policy, &param), 0);
	EXPECT_EQ(param.sched_priority, OWN + 3);
	/* Higher than the ceiling it may not be. */
	EXPECT_EQ(climb(LOW + 1), 0);
	EXPECT_EQ(pthread_mutex_lock(&m), EINVAL);
	EXPECT_EQ(pthread_mutex_trylock(&m), EINVAL);
	EXPECT_EQ(priority(), LOW + 1);
	EXPECT_EQ(climb(LOW), 0);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	return arg;
}

TEST(who_changes_its_priority_while_it_holds_one_has_it_afterwards)
{
	at_own_priority(climbs_while_it_holds);
}

static void *changes_the_ceiling(void *arg)
{
	pthread_mutex_t m;
	int is = 0;

	make(&m, PTHREAD_MUTEX_NORMAL, LOW);
	EXPECT_EQ(pthread_mutex_setprioceiling(&m, HIGH, &is), 0);
	EXPECT_EQ(is, LOW);
	EXPECT_EQ(priority(), OWN);
	EXPECT_EQ(pthread_mutex_getprioceiling(&m, &is), 0);
	EXPECT_EQ(is, HIGH);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	EXPECT_EQ(priority(), HIGH);
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	EXPECT_EQ(priority(), OWN);
	EXPECT_EQ(pthread_mutex_setprioceiling(&m, LOW, &is), 0);
	EXPECT_EQ(is, HIGH);
	EXPECT_EQ(pthread_mutex_getprioceiling(&m, &is), 0);
	EXPECT_EQ(is, LOW);
	return arg;
}

TEST(a_ceiling_is_changed_and_what_it_was_is_told)
{
	at_own_priority(changes_the_ceiling);
}

/* ---- more than one ---- */

static struct {
	pthread_mutex_t m;
	int inside, sum;
} shared;

static void *counts(void *arg)
{
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(pthread_mutex_lock(&shared.m), 0);
		EXPECT_EQ(shared.inside++, 0);
		EXPECT_EQ(priority(), LOW);
		if (i % 8 == 0)
			sched_yield();
		shared.sum++;
		EXPECT_EQ(--shared.inside, 0);
		EXPECT_EQ(pthread_mutex_unlock(&shared.m), 0);
		EXPECT_EQ(priority(), OWN);
	}
	return arg;
}

static void *gives_up(void *arg)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 5);

	EXPECT_EQ(pthread_mutex_trylock(&shared.m), EBUSY);
	EXPECT_EQ(pthread_mutex_timedlock(&shared.m, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	return arg;
}

static void *counts_with_others(void *arg)
{
	make(&shared.m, PTHREAD_MUTEX_NORMAL, LOW);
	run(4, counts, NULL);
	EXPECT_EQ(shared.sum, 400);
	EXPECT_EQ(pthread_mutex_lock(&shared.m), 0);
	on_thread(gives_up, NULL);
	EXPECT_EQ(priority(), LOW);
	EXPECT_EQ(pthread_mutex_unlock(&shared.m), 0);
	EXPECT_EQ(priority(), OWN);
	return arg;
}

TEST(threads_with_a_ceiling_exclude_each_other)
{
	at_own_priority(counts_with_others);
}

/* ---- what is refused ---- */

/* Only who has a real-time policy can have such a priority. What glibc says the second time is not
 * asked: it counts what it refused. */
static void *has_too_low_a_policy(void *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), EINVAL);
	EXPECT_EQ(priority(), 0);
	return NULL;
}

static void *has_too_low_a_policy_to_try(void *m)
{
	EXPECT_EQ(pthread_mutex_trylock(m), EINVAL);
	EXPECT_EQ(priority(), 0);
	return NULL;
}

static void *is_refused(void *arg)
{
	pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, m;
	pthread_mutexattr_t attr;
	int is = 0;

	pthread_mutexattr_init(&attr);
	EXPECT_EQ(pthread_mutexattr_setprotocol(&attr, 3), EINVAL);
	EXPECT_EQ(pthread_mutexattr_setprioceiling(&attr, 0), EINVAL);
	EXPECT_EQ(pthread_mutexattr_setprioceiling(&attr, 100), EINVAL);
	EXPECT_EQ(pthread_mutex_getprioceiling(&plain, &is), EINVAL);
	EXPECT_EQ(pthread_mutex_setprioceiling(&plain, LOW, &is), EINVAL);
	make(&m, PTHREAD_MUTEX_NORMAL, LOW);
	EXPECT_EQ(pthread_mutex_setprioceiling(&m, 0, &is), EINVAL);
	EXPECT_EQ(pthread_mutex_setprioceiling(&m, 100, &is), EINVAL);
	EXPECT_EQ(pthread_mutex_getprioceiling(&m, &is), 0);
	EXPECT_EQ(is, LOW);
	on_thread(has_too_low_a_policy, &m);
	on_thread(has_too_low_a_policy_to_try, &m);
	EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	return arg;
}

TEST(a_ceiling_that_cannot_be_is_refused)
{
	twice(is_refused);
	/* Nor has a thread what another one had. */
	at_own_priority(has_the_ceiling);
	twice(is_refused);
}
