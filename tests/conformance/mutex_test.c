/* Mutexes of every kind: who gets one, who is told off, what is left of it. The same holds
 * natively. */
#include "event.h"

#include <semaphore.h>

struct kind {
	int type, robust, protocol, shared;
};

enum { PLAIN = 4, NKINDS = 12 };

static const struct kind kinds[NKINDS] = {
	{ PTHREAD_MUTEX_NORMAL, 0, 0, 0 },     { PTHREAD_MUTEX_RECURSIVE, 0, 0, 0 },
	{ PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0 }, { PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0 },
	{ PTHREAD_MUTEX_NORMAL, 0, 0, 1 },     { PTHREAD_MUTEX_RECURSIVE, 0, 0, 1 },
	{ PTHREAD_MUTEX_NORMAL, 1, 0, 0 },     { PTHREAD_MUTEX_ERRORCHECK, 1, 0, 0 },
	{ PTHREAD_MUTEX_RECURSIVE, 1, 0, 1 },  { PTHREAD_MUTEX_NORMAL, 0, 1, 0 },
	{ PTHREAD_MUTEX_ERRORCHECK, 0, 1, 0 }, { PTHREAD_MUTEX_RECURSIVE, 0, 1, 1 },
};

static void make(pthread_mutex_t *m, const struct kind *kind)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	EXPECT_EQ(pthread_mutexattr_settype(&attr, kind->type), 0);
	EXPECT_EQ(pthread_mutexattr_setrobust(&attr, kind->robust), 0);
	EXPECT_EQ(pthread_mutexattr_setprotocol(&attr, kind->protocol), 0);
	EXPECT_EQ(pthread_mutexattr_setpshared(&attr, kind->shared), 0);
	EXPECT_EQ(pthread_mutex_init(m, &attr), 0);
}

static void *tries(void *m)
{
	int r = pthread_mutex_trylock(m);

	if (r == 0)
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
	return (void *)(long)r;
}

static void *not_its_owner(void *m)
{
	EXPECT_EQ(pthread_mutex_trylock(m), EBUSY);
	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
	return NULL;
}

static void *times_out(void *m)
{
	long start = now_us();
	struct timespec until = in_ms(CLOCK_REALTIME, 8);

	EXPECT_EQ(pthread_mutex_timedlock(m, &until), ETIMEDOUT);
	start = now_us() - start;
	EXPECT(start >= 7000 && start < SLOW_MS * 1000);
	return NULL;
}

TEST(a_locked_one_of_any_kind_is_busy_and_cannot_be_destroyed)
{
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(pthread_mutex_lock(&m), 0);
		EXPECT_EQ(on_thread(tries, &m), EBUSY);
		on_thread(times_out, &m);
		/* glibc does not look at robust ones. */
		if (!kinds[i].robust)
			EXPECT_EQ(pthread_mutex_destroy(&m), EBUSY);
		EXPECT_EQ(pthread_mutex_unlock(&m), 0);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	}
}

struct counter {
	pthread_mutex_t m;
	long n, rounds;
	int inside;
};

static void *counts(void *arg)
{
	struct counter *c = arg;

	for (long i = 0; i < c->rounds; i++) {
		while (i % 4 == 3 && pthread_mutex_trylock(&c->m) != 0)
			sched_yield();
		if (i % 4 != 3)
			EXPECT_EQ(pthread_mutex_lock(&c->m), 0);
		EXPECT_EQ(c->inside++, 0);
		c->n++;
		EXPECT_EQ(--c->inside, 0);
		EXPECT_EQ(pthread_mutex_unlock(&c->m), 0);
	}
	return NULL;
}

TEST(of_any_number_of_threads_one_is_inside_at_a_time)
{
	static const int numbers[] = { 2, 8, 64 };
	static pthread_t t[64];

	for (int i = 0; i < NKINDS * 3; i++) {
		int threads = numbers[i % 3], rounds = (i / 3 < PLAIN ? 19200 : 1280) / threads;
		struct counter c = { .rounds = rounds };
		make(&c.m, &kinds[i / 3]);
		start(t, threads, counts, &c);
		join(t, threads);
		EXPECT_EQ(c.n, threads * rounds);
		EXPECT_EQ(pthread_mutex_destroy(&c.m), 0);
	}
}

/* tried: what glibc says to the owner that tries again. */
static void as_error_checking(pthread_mutex_t *m, int tried)
{
	struct timespec until = in_ms(CLOCK_REALTIME, 1000);

	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_lock(m), EDEADLK);
	EXPECT_EQ(pthread_mutex_trylock(m), tried);
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), EDEADLK);
	until.tv_nsec = -1;
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), EDEADLK);
	on_thread(not_its_owner, m);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
}

static void as_recursive(pthread_mutex_t *m)
{
	struct timespec until = { 0, -1 };

	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
	for (int i = 0; i < 300; i++)
		EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_trylock(m), 0);
	EXPECT_EQ(pthread_mutex_timedlock(m, &until), 0);
	for (int i = 0; i < 302; i++) {
		if (i % 100 == 1)
			EXPECT_EQ(on_thread(tries, m), EBUSY);
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
	}
	EXPECT_EQ(pthread_mutex_unlock(m), EPERM);
}

static void as_normal(pthread_mutex_t *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_trylock(m), EBUSY);
	times_out(m);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT_EQ(on_thread(tries, m), 0);
}

TEST(each_kind_answers_its_owner_as_it_should)
{
	pthread_mutex_t check = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, m;

	as_error_checking(&check, EBUSY);
	as_recursive(&recursive);
	as_normal(&normal);
	as_normal(&adaptive);
	for (int i = 0; i < NKINDS; i++) {
		make(&m, &kinds[i]);
		if (kinds[i].type == PTHREAD_MUTEX_ERRORCHECK)
			as_error_checking(&m, i < PLAIN ? EBUSY : EDEADLK);
		else if (kinds[i].type == PTHREAD_MUTEX_RECURSIVE)
			as_recursive(&m);
		EXPECT_EQ(pthread_mutex_destroy(&m), 0);
	}
}

/* What debuggers read. The upper bits of the kind tell of what the cpu can do. */
static void is_seen(const pthread_mutex_t *m, int kind, pid_t owner, unsigned count, unsigned users)
{
	EXPECT_EQ(m->__data.__kind & 255, kind);
	EXPECT_EQ(m->__data.__lock, owner != 0);
	EXPECT_EQ(m->__data.__owner, owner);
	EXPECT_EQ(m->__data.__count, count);
	EXPECT_EQ(m->__data.__nusers, users);
}

static void shows_its_fields(pthread_mutex_t *m, int kind)
{
	struct timespec until = in_ms(CLOCK_REALTIME, SLOW_MS);
	bool recursive = kind == PTHREAD_MUTEX_RECURSIVE;

	is_seen(m, kind, 0, 0, 0);
	for (int how = 0; how < 3; how++) {
		EXPECT_EQ(how == 0   ? pthread_mutex_lock(m)
			  : how == 1 ? pthread_mutex_trylock(m)
				     : pthread_mutex_timedlock(m, &until),
			  0);
		is_seen(m, kind, gettid(), recursive, 1);
		if (recursive) {
			EXPECT_EQ(how ? pthread_mutex_trylock(m) : pthread_mutex_lock(m), 0);
			is_seen(m, kind, gettid(), 2, 1);
			EXPECT_EQ(pthread_mutex_unlock(m), 0);
			is_seen(m, kind, gettid(), 1, 1);
		}
		if (kind == PTHREAD_MUTEX_ERRORCHECK) {
			EXPECT_EQ(pthread_mutex_lock(m), EDEADLK);
			is_seen(m, kind, gettid(), 0, 1);
		}
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
		is_seen(m, kind, 0, 0, 0);
	}
}

static void *show_their_fields(void *arg)
{
	pthread_mutex_t statics[PLAIN] = {
		[PTHREAD_MUTEX_NORMAL] = PTHREAD_MUTEX_INITIALIZER,
		[PTHREAD_MUTEX_RECURSIVE] = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		[PTHREAD_MUTEX_ERRORCHECK] = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
		[PTHREAD_MUTEX_ADAPTIVE_NP] = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
	};
	pthread_mutex_t m;

	for (int kind = 0; kind < PLAIN; kind++) {
		shows_its_fields(&statics[kind], kind);
		make(&m, &(struct kind){ .type = kind });
		shows_its_fields(&m, kind);
	}
	return arg;
}

TEST(the_fields_of_each_kind_are_glibc_s)
{
	in_threads(4, show_their_fields);
}

static struct {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool go;
} waited = { .c = PTHREAD_COND_INITIALIZER };

static void *waits_at_cond(void *arg)
{
	EXPECT_EQ(pthread_mutex_lock(&waited.m), 0);
	tick(arg);
	while (!waited.go)
		EXPECT_EQ(pthread_cond_wait(&waited.c, &waited.m), 0);
	EXPECT_EQ(pthread_mutex_unlock(&waited.m), 0);
	return NULL;
}

/* For it is to lock it again. */
TEST(who_waits_at_a_condition_variable_is_counted_as_a_user)
{
	for (int kind = 0; kind < PLAIN; kind++) {
		struct event begun = { 0 };
		pthread_t t[2];
		make(&waited.m, &kinds[kind]);
		waited.go = false;
		start(t, 2, waits_at_cond, &begun);
		await(&begun, 2);
		settle();
		is_seen(&waited.m, kinds[kind].type, 0, 0, 2);
		EXPECT_EQ(pthread_mutex_destroy(&waited.m), EBUSY);
		EXPECT_EQ(pthread_mutex_lock(&waited.m), 0);
		EXPECT_EQ(waited.m.__data.__nusers, 3);
		waited.go = true;
		EXPECT_EQ(pthread_cond_broadcast(&waited.c), 0);
		EXPECT_EQ(pthread_mutex_unlock(&waited.m), 0);
		join(t, 2);
		is_seen(&waited.m, kinds[kind].type, 0, 0, 0);
		EXPECT_EQ(pthread_mutex_destroy(&waited.m), 0);
	}
}

static void *sees_itself(void *arg)
{
	pthread_mutex_t *m = arg;

	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(pthread_mutex_lock(m), 0);
		EXPECT(m->__data.__lock != 0);
		EXPECT_EQ(m->__data.__owner, gettid());
		/* Sleeps, and wakes up wherever it may. */
		if (i % 7 == 0)
			usleep(100);
		EXPECT_EQ(m->__data.__owner, gettid());
		EXPECT_EQ(pthread_mutex_unlock(m), 0);
	}
	return NULL;
}

TEST(the_owner_is_seen_while_it_is_locked)
{
	for (int i = 0; i < PLAIN; i++) {
		pthread_mutex_t m;
		pthread_t t[8];
		make(&m, &kinds[i]);
		start(t, 8, sees_itself, &m);
		join(t, 8);
		EXPECT_EQ(m.__data.__owner, 0);
		EXPECT_EQ(m.__data.__lock, 0);
	}
}

/* ---- time ---- */
static void *bad_times(void *arg)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	static const struct timespec times[] = {
		{ 0, -1 }, { 0, 1000000000 }, { LONG_MAX, -1 }, { 0, 0 }, { -5, 0 }, { 3, 5 },
	};
	pthread_mutex_t *m = arg;
	int busy = pthread_mutex_trylock(m);

	if (!busy)
		pthread_mutex_unlock(m);
	for (int i = 0; i < 12; i++) {
		int r = pthread_mutex_clocklock(m, clocks[i % 2], &times[i / 2]);
		EXPECT_EQ(r, !busy ? 0 : i / 2 < 3 ? EINVAL : ETIMEDOUT);
		if (r == 0)
			EXPECT_EQ(pthread_mutex_unlock(m), 0);
	}
	EXPECT_EQ(pthread_mutex_clocklock(m, CLOCK_BOOTTIME, &times[3]), EINVAL);
	return NULL;
}

TEST(a_deadline_counts_only_for_one_that_must_wait)
{
	for (int i = 0; i < NKINDS && !kinds[i].protocol; i++) {
		pthread_mutex_t m;
		make(&m, &kinds[i]);
		on_thread(bad_times, &m);
		pthread_mutex_lock(&m);
		on_thread(bad_times, &m);
		pthread_mutex_unlock(&m);
	}
}

static struct event gave_up;

static void *waits_by_both_clocks(void *arg)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	long start = now_us();
	struct timespec until;

	for (int i = 0; i < 2; i++) {
		until = in_ms(clocks[i], 15);
		EXPECT_EQ(pthread_mutex_clocklock(arg, clocks[i], &until), ETIMEDOUT);
		EXPECT(now_us() - start >= 14000 && now_us() - start < SLOW_MS * 1000);
	}
	tick(&gave_up);
	until = in_ms(CLOCK_MONOTONIC, 2 * SLOW_MS);
	EXPECT_EQ(pthread_mutex_clocklock(arg, CLOCK_MONOTONIC, &until), 0);
	EXPECT_EQ(pthread_mutex_unlock(arg), 0);
	EXPECT(now_us() - start >= 30000 && now_us() - start < SLOW_MS * 1000);
	return NULL;
}

TEST(waits_end_at_their_deadline_or_with_the_lock)
{
	for (int i = 0; i < PLAIN; i++) {
		pthread_mutex_t m;
		pthread_t t;
		make(&m, &kinds[i]);
		pthread_mutex_lock(&m);
		pthread_create(&t, NULL, waits_by_both_clocks, &m);
		await(&gave_up, i + 1);
		settle();
		pthread_mutex_unlock(&m);
		pthread_join(t, NULL);
	}
}

static struct event handled;

static void handles(int sig)
{
	(void)sig;
	tick(&handled);
}

static void *waits_undisturbed(void *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	pthread_testcancel();
	return NULL;
}

TEST(neither_a_signal_nor_a_cancellation_ends_a_wait)
{
	handle_with(SIGUSR1, handles, SA_RESTART);
	for (int i = 0; i < NKINDS; i++) {
		pthread_mutex_t m;
		pthread_t t;
		make(&m, &kinds[i]);
		pthread_mutex_lock(&m);
		pthread_create(&t, NULL, waits_undisturbed, &m);
		settle();
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_cancel(t), 0);
		settle();
		EXPECT_EQ(pthread_tryjoin_np(t, NULL), EBUSY);
		pthread_mutex_unlock(&m);
		expect_cancelled(t);
		EXPECT_EQ(on_thread(tries, &m), 0);
		EXPECT_EQ(handled.n, i + 1);
	}
}

/* ---- memory that goes with the last user ---- */
enum { BRIEF_USERS = 4 };

struct brief {
	pthread_mutex_t m;
	struct event coming;
	int users;
	bool slow;
};

static void *last_unmaps(void *arg)
{
	struct brief *b = arg;
	bool last;

	tick(&b->coming);
	EXPECT_EQ(pthread_mutex_lock(&b->m), 0);
	last = --b->users == 0;
	if (b->slow)
		await(&b->coming, BRIEF_USERS);
	EXPECT_EQ(pthread_mutex_unlock(&b->m), 0);
	if (last) {
		EXPECT_EQ(pthread_mutex_destroy(&b->m), 0);
		EXPECT_EQ(munmap(b, PAGE), 0);
	}
	return NULL;
}

TEST(the_last_to_have_held_one_may_unmap_it)
{
	for (int i = 0; i < 160; i++) {
		struct brief *b = mapped(MAP_PRIVATE);
		pthread_t t[BRIEF_USERS];
		make(&b->m, &kinds[i % PLAIN]);
		b->users = BRIEF_USERS;
		b->slow = i % 8 >= 6;
		start(t, BRIEF_USERS, last_unmaps, b);
		join(t, BRIEF_USERS);
	}
}

/* It waits for longer than the millisecond from which on it is handed the mutex, and gives up as
 * that happens. */
struct late {
	pthread_mutex_t m;
	struct timespec until;
	struct event coming;
};

static void *unmaps_what_came_late(void *arg)
{
	struct late *l = arg;

	tick(&l->coming);
	if (pthread_mutex_clocklock(&l->m, CLOCK_MONOTONIC, &l->until) == 0)
		EXPECT_EQ(pthread_mutex_unlock(&l->m), 0);
	else
		EXPECT_EQ(pthread_mutex_lock(&l->m), 0);
	EXPECT_EQ(munmap(l, PAGE), 0);
	return NULL;
}

static void interrupts(int sig)
{
	(void)sig;
}

TEST(who_is_handed_one_as_its_time_is_up_may_unmap_it)
{
	handle_with(SIGUSR1, interrupts, SA_RESTART);
	for (int i = 0; i < 400; i++) {
		struct late *l = mapped(MAP_PRIVATE);
		long at = now_us() + 2995 + i % 60;
		pthread_t t;
		l->until = in_ms(CLOCK_MONOTONIC, 3);
		EXPECT_EQ(pthread_mutex_init(&l->m, NULL), 0);
		EXPECT_EQ(pthread_mutex_lock(&l->m), 0);
		EXPECT_EQ(pthread_create(&t, NULL, unmaps_what_came_late, l), 0);
		await(&l->coming, 1);
		usleep(1500);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		while (now_us() < at)
			continue;
		EXPECT_EQ(pthread_mutex_unlock(&l->m), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* ---- processes ---- */
TEST(processes_and_their_threads_exclude_each_other)
{
	for (int i = PLAIN; i < NKINDS; i++) {
		struct counter *c = mapped(MAP_SHARED);
		pthread_t t;
		if (!kinds[i].shared)
			continue;
		make(&c->m, &kinds[i]);
		c->rounds = 500;
		pid_t pid = fork();
		EXPECT_EQ(pthread_create(&t, NULL, counts, c), 0);
		counts(c);
		pthread_join(t, NULL);
		if (pid == 0)
			_exit(0);
		EXPECT_EQ(status_of(pid), 0);
		EXPECT_EQ(c->n, 2 * 2 * 500);
		munmap(c, PAGE);
	}
}

/* ---- robust ones ---- */
/* Who waits for a death comes when it is held; who is to die does so when all others sleep. */
struct mortal {
	pthread_mutex_t m;
	sem_t held;
	bool process;
};

static void *dies_holding(void *arg)
{
	struct mortal *x = arg;

	EXPECT_EQ(pthread_mutex_lock(&x->m), 0);
	EXPECT_EQ(sem_post(&x->held), 0);
	if (x->process)
		await_sleep_of(getppid(), 0);
	else
		settle();
	return NULL;
}

static void dies(struct mortal *x)
{
	if (!x->process) {
		on_thread(dies_holding, x);
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		dies_holding(x);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
}

static void inherit(struct mortal *x)
{
	pthread_mutex_t *m = &x->m;

	dies(x);
	EXPECT_EQ(pthread_mutex_trylock(m), EOWNERDEAD);
	EXPECT_EQ(on_thread(tries, m), EBUSY);
	EXPECT_EQ(pthread_mutex_consistent(m), 0);
	EXPECT_EQ(pthread_mutex_consistent(m), EINVAL);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	dies(x);
	EXPECT_EQ(pthread_mutex_lock(m), EOWNERDEAD);
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
	EXPECT_EQ(pthread_mutex_lock(m), ENOTRECOVERABLE);
	EXPECT_EQ(on_thread(tries, m), ENOTRECOVERABLE);
}

static void *waits_for_the_dying(void *arg)
{
	struct mortal *x = arg;

	EXPECT_EQ(sem_wait(&x->held), 0);
	EXPECT_EQ(pthread_mutex_lock(&x->m), EOWNERDEAD);
	EXPECT_EQ(pthread_mutex_consistent(&x->m), 0);
	EXPECT_EQ(pthread_mutex_unlock(&x->m), 0);
	return NULL;
}

static void dies_awaited(struct mortal *x)
{
	pthread_t t;

	EXPECT_EQ(sem_init(&x->held, 1, 0), 0);
	start(&t, 1, waits_for_the_dying, x);
	dies(x);
	join(&t, 1);
}

static void robust_of(bool shared, bool process)
{
	for (int i = 0; i < NKINDS; i++) {
		struct mortal *x = mapped(MAP_SHARED);
		if (!kinds[i].robust || kinds[i].shared != shared)
			continue;
		make(&x->m, &kinds[i]);
		x->process = process;
		dies_awaited(x);
		inherit(x);
	}
}

TEST(who_dies_with_a_robust_one_leaves_it_to_the_next)
{
	robust_of(false, false);
	robust_of(true, false);
	robust_of(true, true);
}

TEST(a_robust_one_that_inherits_priority_is_left_to_the_next_too)
{
	for (int i = 0; i < 6; i++) {
		struct mortal x = { .process = false };
		struct kind kind = { PTHREAD_MUTEX_NORMAL, 1, 1, i % 2 };
		make(&x.m, &kind);
		dies_awaited(&x);
		EXPECT_EQ(pthread_mutex_lock(&x.m), 0);
		EXPECT_EQ(pthread_mutex_unlock(&x.m), 0);
		inherit(&x);
	}
}

/* Two of them, for processes: that of the first thread, which becomes another program, and that of
 * one which keeps the first kernel thread of the process, so that the first thread is on another.
 */
static void *keeps_the_first_kernel_thread(void *arg)
{
	struct mortal *x = arg;

	for (int i = 0; i < 300 && kernel_tid() != getpid(); i++)
		usleep(100);
	EXPECT_EQ(pthread_mutex_lock(&x->m), 0);
	EXPECT_EQ(sem_post(&x->held), 0);
	for (;;)
		pause();
	return NULL;
}

static void becomes_another(struct mortal *x)
{
	pthread_t t;

	start(&t, 1, keeps_the_first_kernel_thread, &x[1]);
	EXPECT_EQ(sem_wait(&x[1].held), 0);
	EXPECT_EQ(pthread_mutex_lock(&x->m), 0);
	FAILS(execl("/", "/", NULL), EACCES);
	EXPECT_EQ(on_thread(tries, &x->m), EBUSY);
	EXPECT_EQ(pthread_mutex_unlock(&x->m), 0);
	EXPECT_EQ(pthread_mutex_lock(&x->m), 0);
	execl("/bin/true", "true", NULL);
	_exit(1);
}

TEST(who_becomes_another_program_leaves_it_to_the_next)
{
	const struct kind kind = { PTHREAD_MUTEX_NORMAL, 1, 0, 1 };
	struct mortal *x = mapped(MAP_SHARED);
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		make(&x[i].m, &kind);
		EXPECT_EQ(sem_init(&x[i].held, 1, 0), 0);
	}
	pid = fork();
	if (pid == 0)
		becomes_another(x);
	EXPECT_EQ(status_of(pid), 0);
	EXPECT_EQ(pthread_mutex_lock(&x->m), EOWNERDEAD);
	EXPECT_EQ(pthread_mutex_consistent(&x->m), 0);
	EXPECT_EQ(pthread_mutex_unlock(&x->m), 0);
}

/* ---- a list of the program's own ---- */

static struct {
	struct robust_list entry;
	uint32_t word;
} held[5];

static void *ends_holding_them(void *arg)
{
	static struct robust_list_head head;

	for (int i = 0; i < 5; i++) {
		held[i].word = (uint32_t)gettid();
		/* The last is not followed by the head. */
		held[i].entry.next = &held[i < 4 ? i + 1 : 2].entry;
	}
	head.list.next = &held[0].entry;
	head.futex_offset = (char *)&held[0].word - (char *)&held[0].entry;
	EXPECT_EQ(syscall(SYS_set_robust_list, &head, sizeof(head)), 0);
	return arg;
}

TEST(a_list_that_goes_round_is_seen_to_all_the_same)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, ends_holding_them, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(held[i].word, FUTEX_OWNER_DIED);
}
