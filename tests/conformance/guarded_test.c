/* Conditions and their mutexes in pages that the program guards against writes, and opens in its
 * handler, as collectors and snapshots do. The same holds natively. */
#include "event.h"

#include <signal.h>
#include <sys/mman.h>

static struct {
	_Alignas(PAGE) pthread_cond_t cond;
	_Alignas(PAGE) pthread_mutex_t mutex;
	_Alignas(PAGE) char end[PAGE];
} heap;

static struct event entered;
static _Atomic int faults, signalled;
static bool called, signals_itself;

static void guard(void *page)
{
	EXPECT_EQ(mprotect(page, PAGE, PROT_READ), 0);
}

static void opens(int sig, siginfo_t *info, void *uc)
{
	char *at = info->si_addr;

	(void)sig;
	(void)uc;
	if (at < (char *)&heap || at >= heap.end)
		_exit(2);
	faults++;
	if (signals_itself)
		pthread_kill(pthread_self(), SIGUSR1);
	mprotect((void *)((uintptr_t)at & -(uintptr_t)PAGE), PAGE, PROT_READ | PROT_WRITE);
}

static void set_up(void)
{
	struct sigaction a = { .sa_sigaction = opens, .sa_flags = SA_SIGINFO };

	EXPECT_EQ(sigaction(SIGSEGV, &a, NULL), 0);
	EXPECT_EQ(pthread_cond_init(&heap.cond, NULL), 0);
	EXPECT_EQ(pthread_mutex_init(&heap.mutex, NULL), 0);
}

static void *waits_in_vain(void *page)
{
	struct timespec until = in_us(CLOCK_REALTIME, 20000);

	EXPECT_EQ(pthread_mutex_lock(&heap.mutex), 0);
	guard(page);
	EXPECT_EQ(pthread_cond_timedwait(&heap.cond, &heap.mutex, &until), ETIMEDOUT);
	EXPECT(faults > 0);
	EXPECT_EQ(pthread_mutex_unlock(&heap.mutex), 0);
	return NULL;
}

TEST(one_waits_for_a_condition_that_is_guarded)
{
	set_up();
	on_thread(waits_in_vain, &heap.cond);
}

TEST(one_waits_with_a_mutex_that_is_guarded)
{
	set_up();
	on_thread(waits_in_vain, &heap.mutex);
}

static void counts(int sig)
{
	(void)sig;
	signalled++;
}

TEST(who_opens_it_signals_itself)
{
	set_up();
	signals_itself = true;
	EXPECT(signal(SIGUSR1, counts) != SIG_ERR);
	on_thread(waits_in_vain, &heap.cond);
	EXPECT_EQ(signalled, faults);
}

static void *waits_for_long(void *arg)
{
	struct timespec until = in_us(CLOCK_REALTIME, 500000);

	EXPECT_EQ(pthread_mutex_lock(&heap.mutex), 0);
	tick(&entered);
	EXPECT_EQ(pthread_cond_timedwait(&heap.cond, &heap.mutex, &until), ETIMEDOUT);
	EXPECT_EQ(pthread_mutex_unlock(&heap.mutex), 0);
	return arg;
}

static void *waits(void *arg)
{
	EXPECT_EQ(pthread_mutex_lock(&heap.mutex), 0);
	tick(&entered);
	while (!called)
		EXPECT_EQ(pthread_cond_wait(&heap.cond, &heap.mutex), 0);
	EXPECT_EQ(pthread_mutex_unlock(&heap.mutex), 0);
	return arg;
}

/* Asleep in it, in a heap that is guarded then. */
static pthread_t begins(void *(*fn)(void *))
{
	pthread_t t;

	set_up();
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	await(&entered, 1);
	settle();
	guard(&heap.cond);
	guard(&heap.mutex);
	return t;
}

TEST(a_wait_ends_in_time_that_was_guarded_meanwhile)
{
	EXPECT_EQ(pthread_join(begins(waits_for_long), NULL), 0);
}

static void wakes(int (*how)(pthread_cond_t *))
{
	pthread_t t = begins(waits);

	EXPECT_EQ(pthread_mutex_lock(&heap.mutex), 0);
	called = true;
	guard(&heap.cond);
	EXPECT_EQ(how(&heap.cond), 0);
	guard(&heap.mutex);
	EXPECT_EQ(pthread_mutex_unlock(&heap.mutex), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(one_is_woken_by_a_condition_that_is_guarded)
{
	wakes(pthread_cond_signal);
}

TEST(all_are_woken_by_a_condition_that_is_guarded)
{
	wakes(pthread_cond_broadcast);
}
