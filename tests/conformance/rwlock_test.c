/* Read-write locks: sharing and excluding, preferences, deadlines, errors, other processes, and
 * the end of a lock. The same holds natively. */
#include "event.h"

#include <semaphore.h>
#include <setjmp.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static void init_kind(pthread_rwlock_t *l, int kind)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	EXPECT_EQ(pthread_rwlockattr_setkind_np(&attr, kind), 0);
	EXPECT_EQ(pthread_rwlock_init(l, &attr), 0);
}

/* ---- sharing and excluding ---- */

static pthread_barrier_t together;

static void *reads_with_all(void *arg)
{
	EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
	pthread_barrier_wait(&together);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

TEST(readers_share_the_lock)
{
	for (int n = 8; n <= 64; n *= 8) {
		pthread_barrier_init(&together, NULL, (unsigned)n);
		run(n, reads_with_all, NULL);
		pthread_barrier_destroy(&together);
		EXPECT_EQ(pthread_rwlock_trywrlock(&lock), 0);
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	}
}

struct work {
	pthread_rwlock_t *lock;
	int rounds;
	_Atomic unsigned seed;
	_Atomic int readers, reads;
	long first, second; /* equal, but for inside a writer */
};

static void write_once(struct work *w, bool yield)
{
	EXPECT_EQ(atomic_load(&w->readers), 0);
	EXPECT_EQ(w->first, w->second);
	w->first++;
	if (yield)
		sched_yield();
	w->second++;
	EXPECT_EQ(w->first, w->second);
	EXPECT_EQ(atomic_load(&w->readers), 0);
}

static void read_once(struct work *w, bool yield)
{
	atomic_fetch_add(&w->readers, 1);
	atomic_fetch_add(&w->reads, 1);
	EXPECT_EQ(w->first, w->second);
	if (yield)
		sched_yield();
	EXPECT_EQ(w->first, w->second);
	atomic_fetch_sub(&w->readers, 1);
}

static void *works(void *arg)
{
	struct work *w = arg;
	unsigned random = atomic_fetch_add(&w->seed, 0x9e3779b9u);

	for (int i = 0; i < w->rounds; i++) {
		struct timespec far = in_ms(CLOCK_REALTIME, 3 * SLOW_MS);
		bool yield;
		random = random * 1664525 + 1013904223;
		yield = random >> 24 & 1;
		if (i % 4 == 0) {
			while (i % 3 == 0 && pthread_rwlock_trywrlock(w->lock) != 0)
				sched_yield();
			if (i % 3 == 1)
				EXPECT_EQ(pthread_rwlock_timedwrlock(w->lock, &far), 0);
			else if (i % 3 == 2)
				EXPECT_EQ(pthread_rwlock_wrlock(w->lock), 0);
			write_once(w, yield);
		} else {
			if (i % 3 == 1)
				EXPECT_EQ(pthread_rwlock_timedrdlock(w->lock, &far), 0);
			else
				EXPECT_EQ(pthread_rwlock_rdlock(w->lock), 0);
			read_once(w, yield);
		}
		EXPECT_EQ(pthread_rwlock_unlock(w->lock), 0);
	}
	return NULL;
}

static void work(int n, int rounds, int kind)
{
	pthread_rwlock_t l;
	struct work w = { .lock = &l, .rounds = rounds, .seed = (unsigned)test_seed() };

	init_kind(&l, kind);
	run(n, works, &w);
	EXPECT_EQ(w.first, n * rounds / 4);
	EXPECT_EQ(w.reads, n * rounds / 4 * 3);
	EXPECT_EQ(pthread_rwlock_destroy(&l), 0);
}

TEST(writers_exclude_all_others_among_8_threads)
{
	work(8, 1200, PTHREAD_RWLOCK_PREFER_READER_NP);
	work(8, 1200, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}

TEST(writers_exclude_all_others_among_64_threads)
{
	work(64, 120, PTHREAD_RWLOCK_PREFER_READER_NP);
	work(64, 120, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
}

/* Deadlines that end about when the lock comes free: nobody who left is given it, and nobody who
 * stays is forgotten. */
static void *works_in_haste(void *arg)
{
	struct work *w = arg;
	unsigned random = atomic_fetch_add(&w->seed, 0x9e3779b9u);

	for (int i = 0; i < w->rounds; i++) {
		struct timespec soon;
		random = random * 1664525 + 1013904223;
		soon = in_us(CLOCK_REALTIME, random >> 16 & 127);
		if (random >> 24 & 1) {
			if (pthread_rwlock_timedwrlock(w->lock, &soon) != 0)
				continue;
			write_once(w, random >> 25 & 1);
		} else {
			if (pthread_rwlock_timedrdlock(w->lock, &soon) != 0)
				continue;
			read_once(w, random >> 25 & 1);
		}
		EXPECT_EQ(pthread_rwlock_unlock(w->lock), 0);
	}
	return NULL;
}

TEST(who_gives_up_is_not_given_the_lock)
{
	for (int kind = 0; kind < 2; kind++) {
		pthread_rwlock_t l;
		struct work w = { .lock = &l, .rounds = 600, .seed = (unsigned)test_seed() };

		init_kind(&l, kind ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
				   : PTHREAD_RWLOCK_PREFER_READER_NP);
		run(16, works_in_haste, &w);
		EXPECT_EQ(pthread_rwlock_trywrlock(&l), 0);
		EXPECT_EQ(pthread_rwlock_unlock(&l), 0);
		EXPECT_EQ(pthread_rwlock_destroy(&l), 0);
	}
}

/* Of one that locks again at once, and has the lock for all its time. */
struct hogged {
	pthread_rwlock_t lock;
	_Atomic int waits, had;
};

static void *wants_to_read(void *arg)
{
	struct hogged *h = arg;

	h->waits = 1;
	EXPECT_EQ(pthread_rwlock_rdlock(&h->lock), 0);
	h->had = 1;
	EXPECT_EQ(pthread_rwlock_unlock(&h->lock), 0);
	return NULL;
}

static void *wants_to_write(void *arg)
{
	struct hogged *h = arg;

	h->waits = 1;
	EXPECT_EQ(pthread_rwlock_wrlock(&h->lock), 0);
	h->had = 1;
	EXPECT_EQ(pthread_rwlock_unlock(&h->lock), 0);
	return NULL;
}

TEST(a_writer_that_locks_again_at_once_lets_others_have_their_turn)
{
	enum { TURN_US = 300, MANY = 3000 };

	for (int i = 0; i < 8; i++) {
		struct hogged h = { .had = 0 };
		pthread_t t;
		int turns = 0;

		init_kind(&h.lock, i & 1 ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
					 : PTHREAD_RWLOCK_PREFER_READER_NP);
		EXPECT_EQ(pthread_rwlock_wrlock(&h.lock), 0);
		start(&t, 1, i & 2 ? wants_to_write : wants_to_read, &h);
		while (!h.waits)
			sched_yield();
		while (!h.had) {
			long until = now_us() + TURN_US;
			while (now_us() < until)
				;
			EXPECT_EQ(pthread_rwlock_unlock(&h.lock), 0);
			EXPECT_EQ(pthread_rwlock_wrlock(&h.lock), 0);
			EXPECT(turns++ < MANY);
		}
		EXPECT_EQ(pthread_rwlock_unlock(&h.lock), 0);
		join(&t, 1);
	}
}

/* ---- those that do not wait, or not for ever ---- */

static void *finds_it(void *arg)
{
	int r = arg ? EBUSY : 0;

	EXPECT_EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	EXPECT_EQ(pthread_rwlock_tryrdlock(&lock), r);
	if (r == 0)
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

TEST(trying_gives_ebusy_where_it_would_wait)
{
	EXPECT_EQ(pthread_rwlock_tryrdlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	run(1, finds_it, NULL);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_trywrlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	run(1, finds_it, &lock);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void *times_out(void *arg)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	bool written = arg != NULL;
	struct timespec until;

	for (int i = 0; i < 2; i++) {
		until = in_ms(clocks[i], 15);
		EXPECT_EQ(pthread_rwlock_clockwrlock(&lock, clocks[i], &until), ETIMEDOUT);
		EXPECT(just_past(clocks[i], &until));
		if (!written)
			continue;
		until = in_ms(clocks[i], 15);
		EXPECT_EQ(pthread_rwlock_clockrdlock(&lock, clocks[i], &until), ETIMEDOUT);
		EXPECT(just_past(clocks[i], &until));
	}
	until = in_ms(CLOCK_REALTIME, 15);
	EXPECT_EQ(pthread_rwlock_timedwrlock(&lock, &until), ETIMEDOUT);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	EXPECT_EQ(pthread_rwlock_timedwrlock(&lock, &until), ETIMEDOUT);
	if (written)
		EXPECT_EQ(pthread_rwlock_timedrdlock(&lock, &until), ETIMEDOUT);
	return NULL;
}

TEST(a_wait_with_a_deadline_ends_at_it_and_not_before)
{
	pthread_rwlock_wrlock(&lock);
	run(4, times_out, &lock);
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_rdlock(&lock);
	run(4, times_out, NULL);
	/* Those that gave up left no trace. */
	EXPECT_EQ(pthread_rwlock_tryrdlock(&lock), 0);
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_unlock(&lock);
	EXPECT_EQ(pthread_rwlock_trywrlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void *gives_up_often(void *arg)
{
	for (int i = 0; i < 100; i++) {
		struct timespec until = in_ms(CLOCK_REALTIME, 0);
		if (until.tv_nsec < 999000000)
			until.tv_nsec += (i % 10 + 1) * 20000;
		EXPECT_EQ(pthread_rwlock_timedwrlock(&lock, &until), ETIMEDOUT);
		EXPECT(just_past(CLOCK_REALTIME, &until));
	}
	return arg;
}

TEST(a_deadline_by_the_wall_clock_never_gives_a_lock_that_is_held)
{
	pthread_rwlock_rdlock(&lock);
	run(4, gives_up_often, NULL);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void *asks_badly(void *arg)
{
	struct timespec bad = in_ms(CLOCK_REALTIME, 1000);

	bad.tv_nsec = 1000000000;
	EXPECT_EQ(pthread_rwlock_timedrdlock(&lock, &bad), EINVAL);
	EXPECT_EQ(pthread_rwlock_timedwrlock(&lock, &bad), EINVAL);
	bad.tv_nsec = -1;
	EXPECT_EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &bad), EINVAL);
	EXPECT_EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &bad), EINVAL);
	return arg;
}

TEST(a_deadline_that_is_none_is_an_error)
{
	pthread_rwlock_wrlock(&lock);
	run(1, asks_badly, NULL);
	asks_badly(NULL);
	pthread_rwlock_unlock(&lock);
	asks_badly(NULL);
}

static void *locks_twice(void *arg)
{
	struct timespec far = in_ms(CLOCK_REALTIME, 10000);

	EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
	EXPECT_EQ(pthread_rwlock_rdlock(&lock), EDEADLK);
	EXPECT_EQ(pthread_rwlock_timedwrlock(&lock, &far), EDEADLK);
	EXPECT_EQ(pthread_rwlock_timedrdlock(&lock, &far), EDEADLK);
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

TEST(the_writer_that_locks_again_is_told_of_the_deadlock)
{
	locks_twice(NULL);
	run(4, locks_twice, NULL);
	locks_twice(NULL);
}

/* ---- who goes first ---- */

static _Atomic int order, writer_was;

static void *writes_in_order(void *arg)
{
	EXPECT_EQ(pthread_rwlock_wrlock(arg), 0);
	writer_was = atomic_fetch_add(&order, 1) + 1;
	EXPECT_EQ(pthread_rwlock_unlock(arg), 0);
	return NULL;
}

static void *reads_in_order(void *arg)
{
	EXPECT_EQ(pthread_rwlock_rdlock(arg), 0);
	atomic_fetch_add(&order, 1);
	EXPECT_EQ(pthread_rwlock_unlock(arg), 0);
	return NULL;
}

TEST(a_reader_may_lock_again_while_a_writer_waits)
{
	pthread_t writer;

	pthread_rwlock_rdlock(&lock);
	start(&writer, 1, writes_in_order, &lock);
	settle();
	EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
	EXPECT_EQ(pthread_rwlock_tryrdlock(&lock), 0);
	on_thread(reads_in_order, &lock);
	EXPECT_EQ(order, 1);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(writer_was, 0);
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	}
	join(&writer, 1);
	EXPECT_EQ(writer_was, 2);
}

/* A writer that waits for a reader, this one, and is preferred. */
static pthread_t prefer(pthread_rwlock_t *l, void *(*writer)(void *))
{
	pthread_t t;

	init_kind(l, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_rdlock(l);
	start(&t, 1, writer, l);
	settle();
	return t;
}

TEST(a_waiting_writer_goes_before_new_readers_if_it_is_preferred)
{
	pthread_rwlock_t l;
	pthread_t writer = prefer(&l, writes_in_order), readers[6];

	EXPECT_EQ(pthread_rwlock_tryrdlock(&l), EBUSY);
	start(readers, 6, reads_in_order, &l);
	settle();
	EXPECT_EQ(order, 0);
	EXPECT_EQ(pthread_rwlock_tryrdlock(&l), EBUSY);
	EXPECT_EQ(pthread_rwlock_unlock(&l), 0);
	join(readers, 6);
	join(&writer, 1);
	EXPECT_EQ(order, 7);
	EXPECT_EQ(writer_was, 1);
	EXPECT_EQ(pthread_rwlock_destroy(&l), 0);
}

static void *writer_gives_up(void *arg)
{
	struct timespec until = in_ms(CLOCK_MONOTONIC, 60);

	EXPECT_EQ(pthread_rwlock_clockwrlock(arg, CLOCK_MONOTONIC, &until), ETIMEDOUT);
	return NULL;
}

TEST(a_preferred_writer_that_gives_up_lets_the_readers_in)
{
	pthread_rwlock_t l;
	pthread_t writer = prefer(&l, writer_gives_up);

	run(6, reads_in_order, &l);
	join(&writer, 1);
	EXPECT_EQ(pthread_rwlock_tryrdlock(&l), 0);
}

/* ---- beyond the process, and the end ---- */

TEST(a_shared_lock_excludes_the_threads_of_all_processes)
{
	enum { PROCESSES = 3, THREADS = 3, ROUNDS = 240 };
	struct all {
		pthread_rwlock_t lock;
		struct work work;
		sem_t gave_up;
	} *a = mapped(MAP_SHARED);
	pthread_rwlockattr_t attr;
	struct timespec until;
	int status;

	pthread_rwlockattr_init(&attr);
	EXPECT_EQ(pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
	EXPECT_EQ(pthread_rwlock_init(&a->lock, &attr), 0);
	EXPECT_EQ(sem_init(&a->gave_up, 1, 0), 0);
	a->work.lock = &a->lock;
	a->work.rounds = ROUNDS;
	EXPECT_EQ(pthread_rwlock_wrlock(&a->lock), 0);
	for (int i = 0; i < PROCESSES; i++) {
		if (fork() != 0)
			continue;
		EXPECT_EQ(pthread_rwlock_tryrdlock(&a->lock), EBUSY);
		until = in_ms(CLOCK_MONOTONIC, 10);
		EXPECT_EQ(pthread_rwlock_clockwrlock(&a->lock, CLOCK_MONOTONIC, &until), ETIMEDOUT);
		EXPECT(just_past(CLOCK_MONOTONIC, &until));
		EXPECT_EQ(sem_post(&a->gave_up), 0);
		run(THREADS, works, &a->work);
		_exit(0);
	}
	for (int i = 0; i < PROCESSES; i++)
		EXPECT_EQ(sem_wait(&a->gave_up), 0);
	EXPECT_EQ(pthread_rwlock_unlock(&a->lock), 0);
	run(THREADS, works, &a->work);
	for (int i = 0; i < PROCESSES; i++) {
		EXPECT(wait(&status) > 0);
		EXPECT_EQ(status, 0);
	}
	EXPECT_EQ(a->work.first, (PROCESSES + 1) * THREADS * ROUNDS / 4);
}

static void *uses_and_unmaps(void *arg)
{
	pthread_rwlock_t *l = arg;

	EXPECT_EQ(pthread_rwlock_wrlock(l), 0);
	EXPECT_EQ(pthread_rwlock_unlock(l), 0);
	EXPECT_EQ(pthread_rwlock_destroy(l), 0);
	EXPECT_EQ(munmap(l, PAGE), 0);
	return NULL;
}

TEST(the_last_to_unlock_may_destroy_and_unmap_at_once)
{
	for (int i = 0; i < 300; i++) {
		pthread_rwlock_t *l = mapped(MAP_PRIVATE);
		pthread_t t;
		pthread_rwlock_init(l, NULL);
		if (i % 2)
			pthread_rwlock_wrlock(l);
		else
			pthread_rwlock_rdlock(l);
		start(&t, 1, uses_and_unmaps, l);
		for (int j = 0; j < i % 5; j++)
			sched_yield();
		EXPECT_EQ(pthread_rwlock_unlock(l), 0);
		join(&t, 1);
	}
}

/* Nobody holds it for the others: each unlocks while they come, and while some give up and come
 * again. */
struct shortlived {
	pthread_rwlock_t lock;
	int left;
};

static void *unmaps_if_last(void *arg)
{
	struct shortlived *s = arg;
	struct timespec soon = in_us(CLOCK_REALTIME, 2);
	int left;

	if (pthread_rwlock_timedwrlock(&s->lock, &soon) != 0)
		EXPECT_EQ(pthread_rwlock_wrlock(&s->lock), 0);
	left = --s->left;
	EXPECT_EQ(pthread_rwlock_unlock(&s->lock), 0);
	if (left == 0) {
		EXPECT_EQ(pthread_rwlock_destroy(&s->lock), 0);
		EXPECT_EQ(munmap(s, PAGE), 0);
	}
	return NULL;
}

TEST(the_last_of_several_may_destroy_and_unmap_at_once)
{
	enum { ROUNDS = 400, SEVERAL = 4 };

	for (int i = 0; i < ROUNDS; i++) {
		struct shortlived *s = mapped(MAP_PRIVATE);

		init_kind(&s->lock, i & 1 ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
					  : PTHREAD_RWLOCK_PREFER_READER_NP);
		s->left = SEVERAL;
		run(SEVERAL, unmaps_if_last, s);
	}
}

/* ---- with those who wait ---- */

static void *writes_then(void *arg)
{
	EXPECT_EQ(pthread_rwlock_wrlock(arg), 0);
	EXPECT_EQ(pthread_rwlock_unlock(arg), 0);
	return NULL;
}

static void *reads_then(void *arg)
{
	EXPECT_EQ(pthread_rwlock_rdlock(arg), 0);
	EXPECT_EQ(pthread_rwlock_unlock(arg), 0);
	return NULL;
}

static int unlocked_by_a_child(pthread_rwlock_t *l)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(30);
		_exit(pthread_rwlock_unlock(l));
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* As a handler of pthread_atfork does. Those who wait are the parent's. */
TEST(a_child_unlocks_what_others_waited_for)
{
	for (int i = 0; i < 8; i++) {
		pthread_rwlock_t l;
		pthread_t t[2];
		int n = i % 4 == 3 ? 2 : 1;
		init_kind(&l, i < 4 ? PTHREAD_RWLOCK_PREFER_READER_NP
				    : PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
		EXPECT_EQ(i % 4 == 2 ? pthread_rwlock_rdlock(&l) : pthread_rwlock_wrlock(&l), 0);
		start(t, 1, i % 4 == 1 ? reads_then : writes_then, &l);
		if (n == 2)
			start(&t[1], 1, reads_then, &l);
		settle();
		EXPECT_EQ(unlocked_by_a_child(&l), 0);
		EXPECT_EQ(pthread_rwlock_unlock(&l), 0);
		join(t, n);
		EXPECT_EQ(pthread_rwlock_destroy(&l), 0);
	}
}

static _Atomic int enough;

static void *times_out_again_and_again(void *arg)
{
	while (!enough) {
		struct timespec until = in_us(CLOCK_REALTIME, 20);
		EXPECT_EQ(pthread_rwlock_timedwrlock(arg, &until), ETIMEDOUT);
	}
	return NULL;
}

TEST(a_child_unlocks_what_others_were_about_to_wait_for)
{
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t t[4];

	EXPECT_EQ(pthread_rwlock_wrlock(&l), 0);
	start(t, 4, times_out_again_and_again, &l);
	for (int i = 0; i < 300; i++)
		EXPECT_EQ(unlocked_by_a_child(&l), 0);
	enough = 1;
	join(t, 4);
	EXPECT_EQ(pthread_rwlock_unlock(&l), 0);
}

/* Of something that was in the same memory before, say: the wake of sem_post comes when the
 * semaphore may be gone. */
TEST(a_late_wake_lets_nobody_in)
{
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t t[2];

	EXPECT_EQ(pthread_rwlock_wrlock(&l), 0);
	start(t, 1, writes_then, &l);
	start(&t[1], 1, reads_then, &l);
	settle();
	for (size_t i = 0; i < sizeof(l) / sizeof(int); i++)
		syscall(SYS_futex, (int *)&l + i, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	settle();
	EXPECT_EQ(pthread_tryjoin_np(t[0], NULL), EBUSY);
	EXPECT_EQ(pthread_tryjoin_np(t[1], NULL), EBUSY);
	EXPECT_EQ(pthread_rwlock_unlock(&l), 0);
	join(t, 2);
}

/* ---- whoever holds it for a moment, again and again ---- */

enum { TURNS = 15, LONG_S = 20 };

struct greedy {
	pthread_rwlock_t *l;
	bool writes;
};

static struct event fed;
static _Atomic bool sated;

static void compute_us(long us)
{
	struct timespec until = in_us(CLOCK_MONOTONIC, us), now;

	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec < until.tv_sec ||
	       (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
}

static void *takes_turns(void *arg)
{
	struct greedy *g = arg;

	for (int turn = 1; !sated; turn++) {
		EXPECT_EQ(g->writes ? pthread_rwlock_wrlock(g->l) : pthread_rwlock_rdlock(g->l), 0);
		compute_us(100);
		EXPECT_EQ(pthread_rwlock_unlock(g->l), 0);
		if (turn == TURNS)
			tick(&fed);
	}
	return NULL;
}

/* A turn comes once in a slice or two where there is one cpu; natively, too. */
static void all_have_turns(int readers, int writers)
{
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	struct greedy g[4] = { 0 };
	int n = readers + writers;
	pthread_t t[4];

	sated = false;
	for (int i = 0; i < n; i++) {
		g[i].l = &l;
		g[i].writes = i >= readers;
		start(&t[i], 1, takes_turns, &g[i]);
	}
	EXPECT(comes_within_us(&fed, n, LONG_S * 1000000L));
	sated = true;
	join(t, n);
}

TEST(a_writer_among_writers_has_its_turn)
{
	all_have_turns(0, 3);
}

TEST(readers_and_writers_have_their_turns)
{
	all_have_turns(1, 2);
}

/* ---- handlers ---- */

static struct {
	pthread_rwlock_t l;
	struct event tries, handled;
	_Atomic bool over;
} timed = { .l = PTHREAD_RWLOCK_INITIALIZER };

static void *tries_in_vain(void *arg)
{
	while (!timed.over) {
		struct timespec until = in_us(CLOCK_REALTIME, 0);
		EXPECT_EQ(pthread_rwlock_timedwrlock(&timed.l, &until), ETIMEDOUT);
		if (arg)
			tick(&timed.tries);
	}
	return NULL;
}

/* In whatever the thread was in the midst of. */
static void waits_for_the_other(int sig)
{
	(void)sig;
	await(&timed.tries, timed.tries.n + 2);
	tick(&timed.handled);
}

TEST(who_runs_a_handler_is_in_nobody_s_way)
{
	enum { HANDLERS = 4000 };
	struct sigaction action = { .sa_handler = waits_for_the_other, .sa_flags = SA_RESTART };
	pthread_t t[2];

	EXPECT_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	EXPECT_EQ(pthread_rwlock_rdlock(&timed.l), 0);
	start(&t[0], 1, tries_in_vain, &timed);
	start(&t[1], 1, tries_in_vain, NULL);
	for (int i = 1; i <= HANDLERS; i++) {
		EXPECT_EQ(pthread_kill(t[1], SIGUSR1), 0);
		await(&timed.handled, i);
	}
	timed.over = true;
	join(t, 2);
}

static sigjmp_buf before_the_fault;

static void jumps_back(int sig)
{
	siglongjmp(before_the_fault, sig);
}

TEST(a_fault_in_the_midst_of_an_unlock_is_handled)
{
	pthread_rwlock_t *l = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
	pthread_t t;

	EXPECT_EQ(pthread_rwlock_init(l, NULL), 0);
	EXPECT_EQ(pthread_rwlock_rdlock(l), 0);
	start(&t, 1, writes_then, l);
	settle();
	signal(SIGSEGV, jumps_back);
	EXPECT_EQ(mprotect(l, PAGE, PROT_READ), 0);
	if (sigsetjmp(before_the_fault, 1) == 0) {
		pthread_rwlock_unlock(l);
		EXPECT(!"this line is reached");
	}
	EXPECT_EQ(mprotect(l, PAGE, PROT_READ | PROT_WRITE), 0);
	EXPECT_EQ(pthread_rwlock_unlock(l), 0);
	join(&t, 1);
}
