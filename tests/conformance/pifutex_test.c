/* Raw futexes with priority inheritance: what the words hold, who has them, what is refused. The
 * same holds natively. */
#include "event.h"

#include <sys/mman.h>

static long futex(uint32_t *at, int op, long n, long n2, uint32_t *to, uint32_t last)
{
	long r = syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, n, n2, to, last);

	return r < 0 ? -errno : r;
}

static struct {
	uint32_t word;
	int inside, sum;
	bool short_road; /* as who uses them does: by the kernel only if it must */
} pi;

static void pi_lock(void)
{
	uint32_t none = 0;

	if (!pi.short_road ||
	    !__atomic_compare_exchange_n(&pi.word, &none, (uint32_t)gettid(), false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		EXPECT_EQ(futex(&pi.word, FUTEX_LOCK_PI, 0, 0, NULL, 0), 0);
}

static void pi_unlock(void)
{
	uint32_t mine = (uint32_t)gettid();

	if (!pi.short_road || !__atomic_compare_exchange_n(&pi.word, &mine, 0, false,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		EXPECT_EQ(futex(&pi.word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), 0);
}

static void *locks_pi(void *arg)
{
	for (int i = 0; i < 300; i++) {
		pi_lock();
		EXPECT_EQ(pi.inside++, 0);
		for (int j = 0; j < 3; j++)
			sched_yield();
		pi.sum++;
		EXPECT_EQ(--pi.inside, 0);
		pi_unlock();
	}
	return arg;
}

static void *finds_pi_locked(void *arg)
{
	struct timespec past = in_us(CLOCK_REALTIME, 1000);

	EXPECT_EQ(futex(&pi.word, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0), -EAGAIN);
	EXPECT_EQ(futex(&pi.word, FUTEX_LOCK_PI, 0, (long)&past, NULL, 0), -ETIMEDOUT);
	EXPECT_EQ(futex(&pi.word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), -EPERM);
	return arg;
}

static void *asks_of_pi(void *arg)
{
	uint32_t of_nobody = 0x3ffffff;

	EXPECT_EQ(futex(&pi.word, FUTEX_LOCK_PI, 0, 0, NULL, 0), 0);
	EXPECT_EQ(pi.word, (uint32_t)gettid());
	EXPECT_EQ(futex(&pi.word, FUTEX_LOCK_PI, 0, 0, NULL, 0), -EDEADLK);
	on_thread(finds_pi_locked, NULL);
	EXPECT_EQ(futex(&pi.word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), 0);
	EXPECT_EQ(pi.word, 0);
	EXPECT_EQ(futex(&of_nobody, FUTEX_LOCK_PI, 0, 0, NULL, 0), -ESRCH);
	EXPECT_EQ(futex(&of_nobody, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0), -ESRCH);
	return arg;
}

TEST(a_raw_futex_with_priority_inheritance_has_one_owner)
{
	enum { N = 8 };
	pthread_t t[N];

	on_thread(asks_of_pi, NULL);
	for (int i = 0; i < 2; i++) {
		pi.short_road = i == 1;
		pi.sum = 0;
		start(t, N, locks_pi, NULL);
		join(t, N);
		EXPECT_EQ(pi.sum, N * 300);
		EXPECT_EQ(pi.word, 0);
	}
}

/* ---- waiting at one word to have another ---- */

static uint32_t gate;
static struct event through;

static void *waits_at_the_gate(void *arg)
{
	EXPECT_EQ(futex(&gate, FUTEX_WAIT_REQUEUE_PI, 0, 0, &pi.word, 0), 0);
	EXPECT_EQ(pi.word & FUTEX_TID_MASK, (uint32_t)gettid());
	EXPECT_EQ(pi.inside++, 0);
	sched_yield();
	pi.inside--;
	EXPECT_EQ(futex(&pi.word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), 0);
	tick(&through);
	return arg;
}

static void *opens_the_gate(void *arg)
{
	enum { N = 4 };
	struct timespec past = in_us(CLOCK_MONOTONIC, 1000);
	pthread_t t[N];
	int moved = 0;

	EXPECT_EQ(futex(&gate, FUTEX_WAIT_REQUEUE_PI, 1, 0, &pi.word, 0), -EAGAIN);
	EXPECT_EQ(futex(&gate, FUTEX_WAIT_REQUEUE_PI, 0, (long)&past, &pi.word, 0), -ETIMEDOUT);
	EXPECT_EQ(futex(&gate, FUTEX_CMP_REQUEUE_PI, 1, N, &pi.word, 1), -EAGAIN);
	EXPECT_EQ(futex(&gate, FUTEX_CMP_REQUEUE_PI, 2, N, &pi.word, 0), -EINVAL);
	EXPECT_EQ(futex(&pi.word, FUTEX_LOCK_PI, 0, 0, NULL, 0), 0);
	start(t, N, waits_at_the_gate, NULL);
	while (moved < N) {
		long r = futex(&gate, FUTEX_CMP_REQUEUE_PI, 1, N, &pi.word, 0);
		EXPECT(r >= 0 && r <= N - moved);
		moved += (int)r;
		sched_yield();
	}
	/* It is the owner's still. */
	EXPECT_EQ(through.n, 0);
	EXPECT_EQ(futex(&pi.word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), 0);
	await(&through, N);
	join(t, N);
	EXPECT_EQ(pi.word & FUTEX_TID_MASK, 0);
	return arg;
}

TEST(who_waits_at_a_word_is_moved_to_another_with_priority_inheritance)
{
	on_thread(opens_the_gate, NULL);
}

/* ---- the last one takes it away ---- */

struct thing {
	uint32_t word;
	int users;
};

static _Atomic(struct thing *) handed;
static _Atomic bool over, all_made;

static void lets_go(struct thing *o)
{
	int left = --o->users;

	EXPECT_EQ(futex(&o->word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), 0);
	if (left == 0)
		munmap(o, 4096);
}

/* Lets go when the other one's time is up, or nearly. */
static void *makes_things(void *arg)
{
	while (!over) {
		struct thing *o = mapped(MAP_PRIVATE);
		long end;
		o->users = 2;
		EXPECT_EQ(futex(&o->word, FUTEX_LOCK_PI, 0, 0, NULL, 0), 0);
		handed = o;
		while (!(__atomic_load_n(&o->word, __ATOMIC_RELAXED) & FUTEX_WAITERS))
			sched_yield();
		end = now_us() + 60;
		while (now_us() < end) {
		}
		lets_go(o);
	}
	all_made = true;
	return arg;
}

static void *has_them_too(void *arg)
{
	while (!all_made || handed) {
		struct thing *o = atomic_exchange(&handed, NULL);
		struct timespec soon;
		if (!o) {
			sched_yield();
			continue;
		}
		soon = in_us(CLOCK_REALTIME, 20);
		if (futex(&o->word, FUTEX_LOCK_PI, 0, (long)&soon, NULL, 0) != 0)
			while (futex(&o->word, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0) != 0)
				sched_yield();
		lets_go(o);
	}
	return arg;
}

static void looks_on(int sig)
{
	long end = now_us() + 30;

	(void)sig;
	while (now_us() < end) {
	}
}

/* Handlers keep the first one in its unlock for a while. */
TEST(an_unlock_touches_nothing_that_another_may_have_unmapped)
{
	long end = now_ms() + 400;
	pthread_t t[2];

	signal(SIGUSR1, looks_on);
	start(&t[0], 1, makes_things, NULL);
	start(&t[1], 1, has_them_too, NULL);
	while (now_ms() < end) {
		pthread_kill(t[0], SIGUSR1);
		usleep(100);
	}
	over = true;
	join(t, 2);
}
