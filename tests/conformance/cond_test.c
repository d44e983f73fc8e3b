/* Condition variables: whom a signal wakes, when a wait gives up, what may go when. The same
 * holds natively. */
#include "event.h"

/* What most tests share: waiters count themselves in and out under m. */
struct room {
	pthread_mutex_t m;
	pthread_cond_t c;
	struct event in, out; /* raised under m */
	int tokens, timeouts;
	bool open;
	pthread_cond_t *at; /* c, or that of another page */
};

static void make_mutex(pthread_mutex_t *m, int type, int robust, int protocol, int shared)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setrobust(&attr, robust);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setpshared(&attr, shared);
	EXPECT_EQ(pthread_mutex_init(m, &attr), 0);
}

static void make_cond(pthread_cond_t *c, clockid_t clock, int shared)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	EXPECT_EQ(pthread_condattr_setclock(&attr, clock), 0);
	EXPECT_EQ(pthread_condattr_setpshared(&attr, shared), 0);
	EXPECT_EQ(pthread_cond_init(c, &attr), 0);
}

static struct room *room_new(int how)
{
	struct room *r = mapped(how);

	make_mutex(&r->m, PTHREAD_MUTEX_NORMAL, 0, 0, how == MAP_SHARED);
	make_cond(&r->c, CLOCK_REALTIME, how == MAP_SHARED);
	r->at = &r->c;
	return r;
}

/* Until that many have come in, and wait: they let go of m in that alone. */
static void await_in(struct room *r, int n)
{
	await(&r->in, n);
	pthread_mutex_lock(&r->m);
	pthread_mutex_unlock(&r->m);
}

static void *waits_once(void *arg)
{
	struct room *r = arg;

	pthread_mutex_lock(&r->m);
	tick(&r->in);
	EXPECT_EQ(pthread_cond_wait(r->at, &r->m), 0);
	tick(&r->out);
	pthread_mutex_unlock(&r->m);
	return NULL;
}

static void open_to_all(struct room *r)
{
	pthread_mutex_lock(&r->m);
	r->open = true;
	EXPECT_EQ(pthread_cond_broadcast(&r->c), 0);
	pthread_mutex_unlock(&r->m);
}

TEST(a_signal_wakes_exactly_one)
{
	enum { N = 12 };
	struct room *r = room_new(MAP_PRIVATE);
	pthread_t t[N];

	EXPECT_EQ(pthread_cond_signal(&r->c), 0);
	EXPECT_EQ(pthread_cond_broadcast(&r->c), 0);
	start(t, N, waits_once, r);
	await_in(r, N);
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(pthread_cond_signal(&r->c), 0);
		await(&r->out, i + 1);
		settle();
		EXPECT_EQ(r->out.n, i + 1);
	}
	join(t, N);
	EXPECT_EQ(pthread_cond_destroy(&r->c), 0);
}

TEST(a_broadcast_wakes_all_of_300_each_once)
{
	enum { N = 300 };
	static pthread_t t[N];

	for (int i = 0; i < 3; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		start(t, N, waits_once, r);
		await_in(r, N);
		EXPECT_EQ(r->out.n, 0);
		if (i == 1)
			open_to_all(r);
		pthread_cond_broadcast(&r->c);
		join(t, N);
		EXPECT_EQ(r->out.n, N);
		EXPECT_EQ(r->m.__data.__owner, 0);
		EXPECT_EQ(pthread_cond_destroy(&r->c), 0);
	}
}

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t space = PTHREAD_COND_INITIALIZER, items = PTHREAD_COND_INITIALIZER;
static int slot[4], nfull, head;
static long sum;

enum { ITEMS = 1500, SIDES = 4 };

static void *produces(void *arg)
{
	for (int i = 1; i <= ITEMS; i++) {
		pthread_mutex_lock(&ring_lock);
		while (nfull == 4)
			pthread_cond_wait(&space, &ring_lock);
		slot[(head + nfull++) % 4] = i;
		pthread_mutex_unlock(&ring_lock);
		pthread_cond_signal(&items);
	}
	return arg;
}

static void *consumes(void *arg)
{
	for (int i = 0; i < ITEMS; i++) {
		pthread_mutex_lock(&ring_lock);
		while (nfull == 0)
			pthread_cond_wait(&items, &ring_lock);
		sum += slot[head++ % 4];
		nfull--;
		pthread_cond_signal(&space);
		pthread_mutex_unlock(&ring_lock);
	}
	return arg;
}

TEST(what_is_produced_is_consumed_to_the_last_item)
{
	pthread_t t[2 * SIDES];

	start(t, SIDES, consumes, NULL);
	start(t + SIDES, SIDES, produces, NULL);
	join(t, 2 * SIDES);
	EXPECT_EQ(sum, (long)SIDES * ITEMS * (ITEMS + 1) / 2);
}

static int wait_by(pthread_cond_t *c, pthread_mutex_t *m, int how, const struct timespec *at)
{
	if (how < 2)
		return pthread_cond_timedwait(c, m, at);
	return pthread_cond_clockwait(c, m, how < 4 ? CLOCK_MONOTONIC : CLOCK_REALTIME, at);
}

static void *times_out(void *arg)
{
	static const struct timespec odd[] = { { 0, -1 }, { 0, 1000000000 }, { 0, 0 }, { -7, 5 } };
	bool shared = arg != NULL;
	pthread_mutex_t m;

	make_mutex(&m, PTHREAD_MUTEX_ERRORCHECK, 0, 0, shared);
	EXPECT_EQ(pthread_mutex_lock(&m), 0);
	/* The cond's own clock is the real one for 0, 2, 4, the monotonic one for 1, 3. */
	for (int how = 0; how < 5; how++) {
		pthread_cond_t c;
		clockid_t by = how == 0 || how == 4 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		long began = now_us();
		struct timespec at = in_us(by, 15000);
		make_cond(&c, how % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, shared);
		EXPECT_EQ(wait_by(&c, &m, how, &at), ETIMEDOUT);
		EXPECT(now_us() - began >= 14000 && now_us() - began < SLOW_MS * 1000);
		EXPECT_EQ(pthread_mutex_lock(&m), EDEADLK);
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(wait_by(&c, &m, how, &odd[i]), i < 2 ? EINVAL : ETIMEDOUT);
		EXPECT_EQ(pthread_cond_clockwait(&c, &m, CLOCK_BOOTTIME, &at), EINVAL);
		EXPECT_EQ(pthread_mutex_lock(&m), EDEADLK);
		EXPECT_EQ(pthread_cond_destroy(&c), 0);
	}
	EXPECT_EQ(pthread_mutex_unlock(&m), 0);
	return NULL;
}

TEST(a_wait_with_a_deadline_ends_by_the_right_clock_and_holds_the_mutex)
{
	pthread_t t[8];

	start(t, 6, times_out, NULL);
	start(t + 6, 2, times_out, t);
	join(t, 8);
}

static struct timespec limit;

static void *waits_to_the_limit(void *arg)
{
	struct room *r = arg;

	pthread_mutex_lock(&r->m);
	tick(&r->in);
	r->timeouts += pthread_cond_timedwait(&r->c, &r->m, &limit) == ETIMEDOUT;
	tick(&r->out);
	pthread_mutex_unlock(&r->m);
	return NULL;
}

TEST(who_was_woken_in_time_has_not_timed_out_however_late_the_mutex_comes)
{
	bool in_time = false;

	/* Until they are woken before it, which at times takes us longer. */
	for (long ms = 40; !in_time; ms *= 2) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t[4];
		limit = in_ms(CLOCK_REALTIME, ms);
		start(t, 4, waits_to_the_limit, r);
		await_in(r, 4);
		pthread_mutex_lock(&r->m);
		pthread_cond_broadcast(&r->c);
		in_time = !just_past(CLOCK_REALTIME, &limit);
		while (!just_past(CLOCK_REALTIME, &limit))
			usleep(20000);
		pthread_mutex_unlock(&r->m);
		join(t, 4);
		if (in_time)
			EXPECT_EQ(r->timeouts, 0);
	}
}

static void *locks_a_little(void *arg)
{
	struct timespec at = in_us(CLOCK_REALTIME, 15000);

	if (pthread_mutex_timedlock(arg, &at) == 0)
		pthread_mutex_unlock(arg);
	return NULL;
}

TEST(a_lock_given_up_does_not_hold_up_those_a_broadcast_woke)
{
	for (int i = 0; i < 5; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t[5];
		start(t, 4, waits_once, r);
		await_in(r, 4);
		pthread_mutex_lock(&r->m);
		start(t + 4, 1, locks_a_little, &r->m);
		settle();
		pthread_cond_broadcast(&r->c);
		pthread_mutex_unlock(&r->m);
		pthread_mutex_lock(&r->m);
		/* Beyond the deadline of the lock. */
		usleep(20000);
		pthread_mutex_unlock(&r->m);
		join(t, 5);
	}
}

/* Each takes tokens, giving up now and then, until there will be no more. */
static void *takes_tokens(void *arg)
{
	struct room *r = arg;

	pthread_mutex_lock(&r->m);
	int me = r->in.n;
	tick(&r->in);
	uint64_t seed = test_seed() + (uint64_t)me;
	for (;;) {
		if (r->tokens > 0) {
			r->tokens--;
			tick(&r->out);
		} else if (r->open) {
			break;
		} else if (me % 2) {
			EXPECT_EQ(pthread_cond_wait(&r->c, &r->m), 0);
		} else {
			struct timespec at = in_us(CLOCK_REALTIME, chance(&seed) % 150);
			pthread_cond_timedwait(&r->c, &r->m, &at);
		}
	}
	pthread_mutex_unlock(&r->m);
	return NULL;
}

TEST(no_signal_is_lost_to_a_wait_that_gives_up_meanwhile)
{
	enum { N = 6, ROUNDS = 1500 };
	struct room *r = room_new(MAP_PRIVATE);
	uint64_t seed = test_seed();
	pthread_t t[N];

	start(t, N, takes_tokens, r);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&r->m);
		r->tokens++;
		pthread_mutex_unlock(&r->m);
		pthread_cond_signal(&r->c);
		/* Now and then so long that waits give up. */
		if (chance(&seed) % 4 == 0)
			usleep(chance(&seed) % 150);
	}
	await(&r->out, ROUNDS);
	open_to_all(r);
	join(t, N);
}

TEST(a_wait_lets_go_of_a_mutex_of_any_kind_and_gets_it_back)
{
	for (int i = 0; i < 32; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t[3];
		/* A shared one goes with mutexes that are shared. */
		if (i >= 16 && i < 28)
			continue;
		if (i >= 16)
			make_cond(&r->c, CLOCK_REALTIME, true);
		make_mutex(&r->m, i % 4, i / 4 % 4 == 1, i / 4 % 4 == 2, i / 4 % 4 == 3);
		start(t, 3, waits_once, r);
		await_in(r, 3);
		open_to_all(r);
		join(t, 3);
		EXPECT_EQ(pthread_mutex_trylock(&r->m), 0);
	}
}

static void *waits_unowned(void *arg)
{
	struct room *r = arg;
	struct timespec at = in_us(CLOCK_REALTIME, 1000000);

	EXPECT_EQ(pthread_cond_wait(&r->c, &r->m), EPERM);
	EXPECT_EQ(pthread_cond_timedwait(&r->c, &r->m, &at), EPERM);
	return NULL;
}

TEST(a_wait_with_an_error_checking_mutex_not_owned_is_refused)
{
	for (int i = 0; i < 4; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t;
		make_mutex(&r->m, PTHREAD_MUTEX_ERRORCHECK, i == 1, i == 2, i == 3);
		pthread_mutex_lock(&r->m);
		start(&t, 1, waits_unowned, r);
		join(&t, 1);
	}
}

TEST(after_a_broadcast_the_cond_may_be_destroyed_and_unmapped_at_once)
{
	for (int i = 0; i < 80; i++) {
		struct room *page = room_new(MAP_PRIVATE), *r = room_new(MAP_PRIVATE);
		pthread_t t[6];
		r->at = &page->c;
		start(t, 6, waits_once, r);
		await_in(r, 6);
		pthread_mutex_lock(&r->m);
		pthread_cond_broadcast(&page->c);
		/* glibc's waits for those who wake: they need no mutex for that. */
		EXPECT_EQ(pthread_cond_destroy(&page->c), 0);
		EXPECT_EQ(munmap(page, PAGE), 0);
		pthread_mutex_unlock(&r->m);
		join(t, 6);
	}
}

static void leaves(void *arg)
{
	struct room *r = arg;

	ticks(&r->out, 100);
	EXPECT_EQ(pthread_mutex_lock(&r->m), EDEADLK);
	EXPECT_EQ(pthread_mutex_unlock(&r->m), 0);
}

static void *waits_to_be_cancelled(void *arg)
{
	struct room *r = arg;
	struct timespec at = in_us(CLOCK_REALTIME, 20000000);

	pthread_mutex_lock(&r->m);
	pthread_cleanup_push(leaves, r);
	int me = r->in.n;
	tick(&r->in);
	if (me % 2)
		pthread_cond_timedwait(&r->c, &r->m, &at);
	else
		pthread_cond_wait(&r->c, &r->m);
	tick(&r->out);
	pthread_cleanup_pop(0);
	pthread_mutex_unlock(&r->m);
	return NULL;
}

TEST(a_cancelled_wait_has_the_mutex_in_its_cleanup_handlers)
{
	for (int i = 0; i < 20; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t[2];
		make_mutex(&r->m, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0);
		start(t, 2, waits_to_be_cancelled, r);
		if (i % 2)
			await_in(r, 2);
		for (int j = 0; j < 2; j++) {
			EXPECT_EQ(pthread_cancel(t[j]), 0);
			expect_cancelled(t[j]);
		}
		EXPECT_EQ(r->out.n, r->in.n * 100);
		EXPECT_EQ(pthread_mutex_trylock(&r->m), 0);
	}
}

TEST(a_cancelled_wait_takes_no_signal_from_another)
{
	for (int i = 0; i < 100; i++) {
		struct room *r = room_new(MAP_PRIVATE);
		pthread_t t[2];
		void *result;
		make_mutex(&r->m, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0);
		start(t, 2, waits_to_be_cancelled, r);
		await_in(r, 2);
		pthread_mutex_lock(&r->m);
		pthread_cancel(t[0]);
		pthread_cond_signal(&r->c);
		pthread_mutex_unlock(&r->m);
		EXPECT_EQ(pthread_join(t[0], &result), 0);
		if (result != PTHREAD_CANCELED)
			pthread_cond_signal(&r->c);
		join(t + 1, 1);
	}
}

static void *takes_turns(void *arg)
{
	struct room *r = arg;

	pthread_mutex_lock(&r->m);
	int me = r->in.n;
	tick(&r->in);
	for (int i = 0; i < 100; i++) {
		while (r->tokens % 4 != me)
			EXPECT_EQ(pthread_cond_wait(&r->c, &r->m), 0);
		r->tokens++;
		EXPECT_EQ(pthread_cond_broadcast(&r->c), 0);
	}
	pthread_mutex_unlock(&r->m);
	return NULL;
}

TEST(threads_of_two_processes_take_turns_by_a_shared_cond)
{
	struct room *r = room_new(MAP_SHARED);
	pthread_t t[2];
	int status;
	pid_t pid = fork();

	start(t, 2, takes_turns, r);
	join(t, 2);
	if (pid == 0)
		_exit(0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status + 400, r->tokens);
}

/* ---- those that a broadcast moves while they go to wait ---- */

static struct {
	pthread_mutex_t m;
	pthread_cond_t c;
	int inside, over;
	long rounds;
} gate = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };

static void *goes_in_alone(void *arg)
{
	for (bool last = false; !last;) {
		pthread_mutex_lock(&gate.m);
		while (gate.inside && !gate.over)
			pthread_cond_wait(&gate.c, &gate.m);
		gate.inside = 1;
		gate.rounds++;
		pthread_mutex_unlock(&gate.m);
		pthread_mutex_lock(&gate.m);
		gate.inside = 0;
		last = gate.over;
		pthread_mutex_unlock(&gate.m);
		pthread_cond_broadcast(&gate.c);
	}
	return arg;
}

TEST(a_gate_of_broadcasts_never_stands_still)
{
	pthread_t t[8];

	start(t, 8, goes_in_alone, NULL);
	usleep(1000000);
	pthread_mutex_lock(&gate.m);
	gate.over = 1;
	pthread_mutex_unlock(&gate.m);
	pthread_cond_broadcast(&gate.c);
	join(t, 8);
	EXPECT(gate.rounds > 8);
}

/* ---- a mutex that was locked more than once ---- */

static pthread_mutex_t nested = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t nested_cond = PTHREAD_COND_INITIALIZER;
static struct event waiting, through;

static void *waits_to_a_depth(void *arg)
{
	long depth = (long)arg;

	for (long i = 0; i < depth; i++)
		EXPECT_EQ(pthread_mutex_lock(&nested), 0);
	tick(&waiting);
	EXPECT_EQ(pthread_cond_wait(&nested_cond, &nested), 0);
	for (long i = 0; i < depth; i++)
		EXPECT_EQ(pthread_mutex_unlock(&nested), 0);
	EXPECT_EQ(pthread_mutex_unlock(&nested), EPERM);
	tick(&through);
	return NULL;
}

/* One that locked it twice, behind two that did so once. */
static void wakes_all_of(int n)
{
	pthread_t t[3];

	waiting.n = through.n = 0;
	for (long i = 0; i < n; i++) {
		start(&t[i], 1, waits_to_a_depth, (void *)(i == n - 1 ? 2l : 1l));
		await(&waiting, (int)i + 1);
		settle();
	}
	/* The last keeps it, and nobody else gets it meanwhile. */
	EXPECT_EQ(pthread_mutex_trylock(&nested), EBUSY);
	EXPECT_EQ(pthread_cond_broadcast(&nested_cond), 0);
	await(&through, n);
	join(t, n);
	EXPECT_EQ(pthread_mutex_trylock(&nested), 0);
	EXPECT_EQ(pthread_mutex_unlock(&nested), 0);
}

TEST(a_wait_lets_go_of_a_recursive_mutex_once)
{
	wakes_all_of(1);
	wakes_all_of(3);
}

/* ---- what is taken again at once ---- */

/* Something that one has at a time. */
static struct {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool taken, wanted, over;
	int turns;
} thing = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };

static void computes_for_us(long us)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}

/* Gives way now and then, but always has it then. */
static void *takes_it_again(void *arg)
{
	while (!thing.over) {
		pthread_mutex_lock(&thing.m);
		thing.taken = true;
		pthread_mutex_unlock(&thing.m);
		computes_for_us(200);
		sched_yield();
		pthread_mutex_lock(&thing.m);
		thing.taken = false;
		if (thing.wanted)
			pthread_cond_signal(&thing.c);
		pthread_mutex_unlock(&thing.m);
		computes_for_us(50);
	}
	return arg;
}

static void *wants_it_too(void *arg)
{
	pthread_mutex_lock(&thing.m);
	while (thing.turns < 20) {
		thing.wanted = true;
		pthread_cond_wait(&thing.c, &thing.m);
		if (thing.taken)
			continue;
		thing.turns++;
	}
	thing.wanted = false;
	thing.over = true;
	pthread_mutex_unlock(&thing.m);
	return arg;
}

/* Who waits has it by and by, though the one that has it wakes him only to go on. */
TEST(who_waits_has_what_is_taken_again_at_once)
{
	pthread_t t[2];

	start(&t[0], 1, wants_it_too, NULL);
	start(&t[1], 1, takes_it_again, NULL);
	join(t, 2);
	EXPECT_EQ(thing.turns, 20);
}
