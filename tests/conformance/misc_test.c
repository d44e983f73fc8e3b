/* Barriers, spin locks, pthread_once, keys, cancellation, C11 threads, the raw futex, sleeping.
 * The same holds natively. */
#include "event.h"

#include <semaphore.h>
#include <threads.h>

enum { MOST = 300 };

static pthread_t threads[MOST];

/* ---- barriers and spin locks ---- */

static pthread_barrier_t barrier;
static _Atomic int arrived, returned, serials, tickets;

static void *meets(void *arg)
{
	for (int i = 1; i <= 50; i++) {
		int r;
		atomic_fetch_add(&arrived, 1);
		r = pthread_barrier_wait(&barrier);
		EXPECT(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
		EXPECT(arrived >= i * 64);
		if (r != 0)
			EXPECT_EQ(atomic_fetch_add(&serials, 1), i - 1);
		EXPECT(pthread_barrier_wait(&barrier) <= 0);
	}
	return arg;
}

TEST(one_of_64_at_a_barrier_is_told_in_each_round)
{
	EXPECT_EQ(pthread_barrier_init(&barrier, NULL, 0), EINVAL);
	EXPECT_EQ(pthread_barrier_init(&barrier, NULL, 64), 0);
	run(64, meets, NULL);
	EXPECT_EQ(serials, 50);
	EXPECT_EQ(pthread_barrier_destroy(&barrier), 0);
}

static void *meets_any(void *arg)
{
	while (atomic_fetch_add(&tickets, 1) < 4000) {
		atomic_fetch_add(&arrived, 1);
		serials += pthread_barrier_wait(&barrier) != 0;
		/* Nobody leaves before its partner has come. */
		int out = ++returned;
		EXPECT(out <= arrived / 2 * 2);
	}
	return arg;
}

TEST(a_barrier_lets_through_pairs_of_more_threads)
{
	pthread_barrier_init(&barrier, NULL, 2);
	run(4, meets_any, NULL);
	EXPECT_EQ(returned, 4000);
	EXPECT_EQ(serials, 2000);
}

static void *meets_and_unmaps(void *arg)
{
	if (pthread_barrier_wait(arg) == PTHREAD_BARRIER_SERIAL_THREAD) {
		EXPECT_EQ(pthread_barrier_destroy(arg), 0);
		EXPECT_EQ(munmap(arg, PAGE), 0);
	}
	return NULL;
}

TEST(a_barrier_may_be_destroyed_and_unmapped_by_the_first_to_leave)
{
	for (int i = 0; i < 100; i++) {
		void *b = mapped(MAP_PRIVATE);
		EXPECT_EQ(pthread_barrier_init(b, NULL, 4), 0);
		run(4, meets_and_unmaps, b);
	}
}

/* In memory of two processes. */
struct meeting {
	pthread_barrier_t barrier;
	_Atomic int arrived, serials;
};

static void *meets_another_process(void *arg)
{
	enum { ROUNDS = 50, COUNT = 4 };
	struct meeting *m = arg;

	for (int i = 1; i <= ROUNDS; i++) {
		int r;
		m->arrived++;
		r = pthread_barrier_wait(&m->barrier);
		EXPECT(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
		EXPECT(m->arrived >= i * COUNT);
		if (r != 0)
			EXPECT_EQ(atomic_fetch_add(&m->serials, 1), i - 1);
		EXPECT(pthread_barrier_wait(&m->barrier) <= 0);
		EXPECT_EQ(m->serials, i);
	}
	return NULL;
}

TEST(threads_of_two_processes_meet_at_a_shared_barrier)
{
	struct meeting *m = mapped(MAP_SHARED);
	pthread_barrierattr_t attr;
	int shared = -1;
	pid_t pid;

	EXPECT_EQ(pthread_barrierattr_init(&attr), 0);
	EXPECT_EQ(pthread_barrierattr_getpshared(&attr, &shared), 0);
	EXPECT_EQ(shared, PTHREAD_PROCESS_PRIVATE);
	EXPECT_EQ(pthread_barrierattr_setpshared(&attr, 2), EINVAL);
	EXPECT_EQ(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
	EXPECT_EQ(pthread_barrierattr_getpshared(&attr, &shared), 0);
	EXPECT_EQ(shared, PTHREAD_PROCESS_SHARED);
	EXPECT_EQ(pthread_barrier_init(&m->barrier, &attr, 4), 0);
	EXPECT_EQ(pthread_barrierattr_destroy(&attr), 0);
	pid = fork();
	run(2, meets_another_process, m);
	if (pid == 0)
		_exit(0);
	EXPECT_EQ(status_of(pid), 0);
	EXPECT_EQ(m->serials, 50);
	EXPECT_EQ(m->arrived, 200);
	EXPECT_EQ(pthread_barrier_destroy(&m->barrier), 0);
}

static pthread_spinlock_t spin;
static long spun;

static void *spins(void *arg)
{
	for (int i = 0; i < 500; i++) {
		EXPECT_EQ(pthread_spin_lock(&spin), 0);
		spun++;
		EXPECT_EQ(pthread_spin_trylock(&spin), EBUSY);
		if (i % 100 == 0)
			sched_yield();
		EXPECT_EQ(pthread_spin_unlock(&spin), 0);
	}
	return arg;
}

TEST(a_spin_lock_excludes_more_threads_than_there_are_cpus)
{
	EXPECT_EQ(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	run(8, spins, NULL);
	EXPECT_EQ(spun, 4000);
	EXPECT_EQ(pthread_spin_trylock(&spin), 0);
	EXPECT_EQ(pthread_spin_unlock(&spin), 0);
	EXPECT_EQ(pthread_spin_destroy(&spin), 0);
}

/* ---- once and keys ---- */

static pthread_once_t onces[20];
static _Atomic int inits;
static struct event inits_begun;
static sem_t sem;

static void init(void)
{
	settle();
	atomic_fetch_add(&inits, 1);
}

static void *inits_all(void *arg)
{
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(pthread_once(&onces[i], init), 0);
		EXPECT(inits > i);
	}
	return arg;
}

TEST(once_is_once_and_over_for_all_who_return)
{
	run(32, inits_all, NULL);
	EXPECT_EQ(inits, 20);
}

static void init_waits(void)
{
	tick(&inits_begun);
	EXPECT_EQ(sem_wait(&sem), 0);
	atomic_fetch_add(&inits, 1);
}

static void *inits_waiting(void *arg)
{
	EXPECT_EQ(pthread_once(arg, init_waits), 0);
	return NULL;
}

TEST(a_cancelled_once_is_run_by_the_next)
{
	pthread_once_t once = PTHREAD_ONCE_INIT;

	sem_init(&sem, 0, 0);
	start(threads, 1, inits_waiting, &once);
	await(&inits_begun, 1);
	start(threads + 1, 3, inits_waiting, &once);
	settle();
	EXPECT_EQ(inits_begun.n, 1);
	EXPECT_EQ(pthread_cancel(threads[0]), 0);
	expect_cancelled(threads[0]);
	sem_post(&sem);
	join(threads + 1, 3);
	EXPECT_EQ(inits_begun.n, 2);
	EXPECT_EQ(inits, 1);
	EXPECT_EQ(pthread_once(&once, init_waits), 0);
}

enum { KEYS = 40 };
static pthread_key_t keys[KEYS];
static _Atomic int destroyed[KEYS];

static void destroy(void *value)
{
	EXPECT(pthread_getspecific(keys[(long)value - 1]) == NULL);
	atomic_fetch_add(&destroyed[(long)value - 1], 1);
}

static void *sets_keys(void *arg)
{
	for (int i = 0; i < KEYS; i++) {
		EXPECT(pthread_getspecific(keys[i]) == NULL);
		EXPECT_EQ(pthread_setspecific(keys[i], (void *)(long)(i + 1)), 0);
	}
	sched_yield();
	for (int i = 0; i < KEYS; i++)
		EXPECT_EQ((long)pthread_getspecific(keys[i]), i + 1);
	if (arg)
		pthread_exit(NULL);
	return NULL;
}

TEST(keys_begin_as_null_and_end_with_their_destructors)
{
	for (int i = 0; i < KEYS; i++)
		EXPECT_EQ(pthread_key_create(&keys[i], i % 2 ? destroy : NULL), 0);
	for (int i = 0; i < 20; i++) {
		run(2, sets_keys, i % 2 ? keys : NULL);
	}
	for (int i = 0; i < KEYS; i++)
		EXPECT_EQ(destroyed[i], i % 2 ? 40 : 0);
}

static void sets_again(void *value)
{
	atomic_fetch_add(&destroyed[0], 1);
	EXPECT_EQ(pthread_setspecific(keys[0], value), 0);
}

static void *sets_one(void *arg)
{
	EXPECT(pthread_getspecific(keys[0]) == NULL);
	EXPECT_EQ(pthread_setspecific(keys[0], &keys), 0);
	if (arg)
		EXPECT_EQ(pthread_key_delete(keys[0]), 0);
	return NULL;
}

TEST(a_destructor_that_sets_again_runs_4_times_and_of_a_deleted_key_never)
{
	EXPECT_EQ(pthread_key_create(&keys[0], sets_again), 0);
	for (int i = 1; i <= 3; i++) {
		run(1, sets_one, NULL);
		EXPECT_EQ(destroyed[0], i * PTHREAD_DESTRUCTOR_ITERATIONS);
	}
	run(1, sets_one, keys);
	EXPECT_EQ(destroyed[0], 12);
	EXPECT_EQ(pthread_key_delete(keys[0]), EINVAL);
	EXPECT_EQ(pthread_setspecific(keys[0], keys), EINVAL);
}

/* ---- cancellation ---- */

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static _Atomic int cleaned;
static struct event stage;

static void clean(void *arg)
{
	EXPECT_EQ((long)arg, 5);
	atomic_fetch_add(&cleaned, 1);
}

static void unlock(void *arg)
{
	EXPECT_EQ(pthread_mutex_unlock(arg), 0);
}

static void in_testcancel(void)
{
	for (;;) {
		pthread_testcancel();
		sched_yield();
	}
}

static void in_sem_wait(void)
{
	sem_wait(&sem);
}

static void in_sleep(void)
{
	sleep(20);
}

static void in_nanosleep(void)
{
	nanosleep(&(struct timespec){ .tv_sec = 20 }, NULL);
}

static void in_cond_wait(void)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(0);
}

static void *is_cancelled_in(void *arg)
{
	void (*wait)(void) = *(void (**)(void))arg;

	pthread_cleanup_push(clean, (void *)5);
	wait();
	EXPECT(!"not cancelled");
	pthread_cleanup_pop(0);
	return NULL;
}

TEST(a_cancellation_ends_each_kind_of_wait_and_runs_the_cleanup)
{
	static void (*waits[])(void) = { in_testcancel, in_sem_wait, in_sleep, in_nanosleep,
					 in_cond_wait };
	enum { WAITS = sizeof(waits) / sizeof(*waits) };
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&mutex, &attr);
	sem_init(&sem, 0, 0);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < WAITS; i++)
			EXPECT_EQ(pthread_create(&threads[i], NULL, is_cancelled_in, &waits[i]), 0);
		/* Sooner and later; one of them never sleeps. */
		usleep((useconds_t)round * 500);
		for (int i = 0; i < WAITS; i++)
			EXPECT_EQ(pthread_cancel(threads[i]), 0);
		for (int i = 0; i < WAITS; i++) {
			expect_cancelled(threads[i]);
		}
	}
	EXPECT_EQ(cleaned, 10 * WAITS);
	EXPECT_EQ(pthread_mutex_trylock(&mutex), 0);
}

static void *takes(void *arg)
{
	sem_wait(&sem);
	return arg;
}

static void *joins(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	return NULL;
}

TEST(a_thread_whose_joiner_was_cancelled_may_be_joined)
{
	pthread_t target;
	void *r;

	sem_init(&sem, 0, 0);
	EXPECT_EQ(pthread_create(&target, NULL, takes, (void *)8), 0);
	start(threads, 1, joins, &target);
	settle();
	EXPECT_EQ(pthread_cancel(threads[0]), 0);
	expect_cancelled(threads[0]);
	sem_post(&sem);
	EXPECT_EQ(pthread_join(target, &r), 0);
	EXPECT_EQ((long)r, 8);
}

static void *defers(void *arg)
{
	int old;

	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_ENABLE);
	tick(&stage);
	EXPECT_EQ(sem_wait(&sem), 0);
	EXPECT_EQ(usleep(1000), 0);
	pthread_testcancel();
	tick(&stage);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_DISABLE);
	tick(&stage);
	pthread_testcancel();
	tick(&stage);
	return arg;
}

TEST(a_cancellation_is_kept_until_it_is_enabled)
{
	sem_init(&sem, 0, 0);
	start(threads, 1, defers, NULL);
	await(&stage, 1);
	EXPECT_EQ(pthread_cancel(threads[0]), 0);
	settle();
	EXPECT_EQ(stage.n, 1);
	sem_post(&sem);
	expect_cancelled(threads[0]);
	EXPECT_EQ(stage.n, 3);
}

TEST(a_wait_that_is_cancelled_has_taken_nothing)
{
	for (int i = 0; i < 200; i++) {
		int n;
		void *r;
		sem_init(&sem, 0, 0);
		start(threads, 1, takes, NULL);
		if (i % 2)
			settle();
		sem_post(&sem);
		pthread_cancel(threads[0]);
		EXPECT_EQ(pthread_join(threads[0], &r), 0);
		sem_getvalue(&sem, &n);
		EXPECT_EQ(n, r == PTHREAD_CANCELED);
	}
}

/* ---- C11 ---- */

static mtx_t mtx;
static cnd_t cnd;
static tss_t tss;
static once_flag flag = ONCE_FLAG_INIT;
static int turns;

static void tss_end(void *value)
{
	atomic_fetch_add((_Atomic int *)value, 1);
}

static void init_tss(void)
{
	atomic_fetch_add(&inits, 1);
	EXPECT_EQ(tss_create(&tss, tss_end), thrd_success);
}

static int takes_turns(void *arg)
{
	struct timespec soon = in_ms(CLOCK_REALTIME, 20);

	call_once(&flag, init_tss);
	EXPECT(tss_get(tss) == NULL);
	EXPECT_EQ(tss_set(tss, arg), thrd_success);
	EXPECT_EQ(mtx_trylock(&mtx), thrd_busy);
	EXPECT_EQ(mtx_timedlock(&mtx, &soon), thrd_timedout);
	EXPECT(just_past(CLOCK_REALTIME, &soon));
	tick(&stage);
	EXPECT_EQ(mtx_lock(&mtx), thrd_success);
	for (int i = 0; i < 100; i++) {
		while (turns % 2 == 0)
			EXPECT_EQ(cnd_wait(&cnd, &mtx), thrd_success);
		turns++;
		EXPECT_EQ(cnd_signal(&cnd), thrd_success);
	}
	EXPECT_EQ(mtx_unlock(&mtx), thrd_success);
	thrd_exit(-3);
}

TEST(the_calls_of_c11_do_as_the_standard_says)
{
	struct timespec soon, t = { .tv_nsec = 10 * MS };
	thrd_t thread;
	int r;

	EXPECT_EQ(mtx_init(&mtx, mtx_timed), thrd_success);
	EXPECT_EQ(cnd_init(&cnd), thrd_success);
	EXPECT_EQ(mtx_lock(&mtx), thrd_success);
	EXPECT_EQ(thrd_create(&thread, takes_turns, &cleaned), thrd_success);
	EXPECT(!thrd_equal(thread, thrd_current()));
	await(&stage, 1);
	for (int i = 0; i < 100; i++) {
		turns++;
		EXPECT_EQ(cnd_broadcast(&cnd), thrd_success);
		while (turns % 2 == 1)
			EXPECT_EQ(cnd_wait(&cnd, &mtx), thrd_success);
	}
	soon = in_ms(CLOCK_REALTIME, 20);
	EXPECT_EQ(cnd_timedwait(&cnd, &mtx, &soon), thrd_timedout);
	EXPECT(just_past(CLOCK_REALTIME, &soon));
	EXPECT_EQ(mtx_unlock(&mtx), thrd_success);
	EXPECT_EQ(thrd_join(thread, &r), thrd_success);
	EXPECT_EQ(r, -3);
	EXPECT_EQ(turns, 200);
	call_once(&flag, init_tss);
	EXPECT_EQ(inits, 1);
	EXPECT_EQ(cleaned, 1);
	soon = in_ms(CLOCK_MONOTONIC, 10);
	EXPECT_EQ(thrd_sleep(&t, NULL), 0);
	EXPECT(just_past(CLOCK_MONOTONIC, &soon));
	tss_delete(tss);
	cnd_destroy(&cnd);
	mtx_destroy(&mtx);
}

static int tries_mtx(void *m)
{
	int r = mtx_trylock(m);

	if (r == thrd_success)
		EXPECT_EQ(mtx_unlock(m), thrd_success);
	return r;
}

/* What another thread finds. */
static int tried(mtx_t *m)
{
	thrd_t t;
	int r = -1;

	EXPECT_EQ(thrd_create(&t, tries_mtx, m), thrd_success);
	EXPECT_EQ(thrd_join(t, &r), thrd_success);
	return r;
}

TEST(a_mutex_of_c11_is_of_its_type)
{
	static const int types[] = { mtx_plain, mtx_timed, mtx_plain | mtx_recursive,
				     mtx_timed | mtx_recursive };
	mtx_t m;

	for (int i = 0; i < 4; i++) {
		int deep = types[i] & mtx_recursive ? 3 : 1;
		EXPECT_EQ(mtx_init(&m, types[i]), thrd_success);
		EXPECT_EQ(tried(&m), thrd_success);
		for (int j = 0; j < deep; j++)
			EXPECT_EQ(j % 2 ? mtx_trylock(&m) : mtx_lock(&m), thrd_success);
		if (deep == 1)
			EXPECT_EQ(mtx_trylock(&m), thrd_busy);
		for (int j = 0; j < deep; j++) {
			EXPECT_EQ(tried(&m), thrd_busy);
			EXPECT_EQ(mtx_unlock(&m), thrd_success);
		}
		EXPECT_EQ(tried(&m), thrd_success);
		/* Of a plain one nobody knows whose it is. */
		if (deep > 1)
			EXPECT_EQ(mtx_unlock(&m), thrd_error);
		mtx_destroy(&m);
	}
}

static thrd_t is;
static _Atomic bool leaves;

static int says_who_it_is(void *arg)
{
	is = thrd_current();
	EXPECT(thrd_equal(is, pthread_self()));
	tick(&stage);
	while (!leaves)
		thrd_yield();
	tick(&stage);
	return (int)(long)arg;
}

TEST(a_thread_of_c11_is_joined_or_detached_once)
{
	static const int results[] = { 0, -1, INT_MIN, INT_MAX };
	thrd_t t;
	int r;

	for (long i = 0; i < 4; i++) {
		leaves = false;
		stage.n = 0;
		EXPECT_EQ(thrd_create(&t, says_who_it_is, (void *)(long)results[i]), thrd_success);
		await(&stage, 1);
		EXPECT(thrd_equal(is, t));
		EXPECT(!thrd_equal(is, thrd_current()));
		leaves = true;
		r = 5;
		EXPECT_EQ(thrd_join(t, i == 3 ? NULL : &r), thrd_success);
		EXPECT_EQ(r, i == 3 ? 5 : results[i]);
	}
	for (int i = 0; i < 20; i++) {
		leaves = false;
		stage.n = 0;
		EXPECT_EQ(thrd_create(&t, says_who_it_is, NULL), thrd_success);
		await(&stage, 1);
		EXPECT_EQ(thrd_detach(t), thrd_success);
		EXPECT_EQ(thrd_detach(t), thrd_error);
		EXPECT_EQ(thrd_join(t, &r), thrd_error);
		leaves = true;
		await(&stage, 2);
	}
	EXPECT_EQ(thrd_join(thrd_current(), &r), thrd_error);
	EXPECT_EQ(thrd_sleep(&(struct timespec){ 0, -1 }, NULL), -2);
}

/* ---- the raw futex ---- */

static uint32_t word = 7, word2;
static _Atomic int woken[3];

static long futex(uint32_t *at, int op, uint32_t value, const void *t, uint32_t *to, uint32_t last)
{
	return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, t, to, last);
}

static void *waits_by_bit(void *arg)
{
	int bit = (int)(long)arg;

	EXPECT_EQ(futex(&word, FUTEX_WAIT_BITSET, 7, NULL, NULL, 1u << bit), 0);
	atomic_fetch_add(&woken[bit], 1);
	return NULL;
}

/* As many wait now: on word2. */
static void await_waiters(int n)
{
	while (n > 0) {
		settle();
		long r = futex(&word, FUTEX_CMP_REQUEUE, 0, (void *)INT_MAX, &word2, 7);
		EXPECT(r >= 0 && r <= n);
		n -= (int)r;
	}
}

TEST(a_raw_futex_compares_and_times_out)
{
	struct timespec t = { .tv_nsec = 20 * MS }, until;

	start(threads, 1, takes, NULL);
	for (int i = 0; i < 2; i++) {
		FAILS(futex(&word, FUTEX_WAIT, 6, NULL, NULL, 0), EAGAIN);
		until = in_ms(CLOCK_MONOTONIC, 20);
		FAILS(futex(&word, FUTEX_WAIT, 7, &t, NULL, 0), ETIMEDOUT);
		EXPECT(just_past(CLOCK_MONOTONIC, &until));
		until = in_ms(CLOCK_MONOTONIC, 20);
		FAILS(futex(&word, FUTEX_WAIT_BITSET, 7, &until, NULL, 1), ETIMEDOUT);
		EXPECT(just_past(CLOCK_MONOTONIC, &until));
		until = in_ms(CLOCK_REALTIME, 20);
		EXPECT_EQ(
			futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, &until, NULL, 1),
			-1);
		EXPECT_EQ(errno, ETIMEDOUT);
		EXPECT(just_past(CLOCK_REALTIME, &until));
		FAILS(futex(&word, FUTEX_WAIT_BITSET, 7, NULL, NULL, 0), EINVAL);
		until.tv_nsec = -1;
		FAILS(futex(&word, FUTEX_WAIT, 7, &until, NULL, 0), EINVAL);
		EXPECT_EQ(futex(&word, FUTEX_WAKE, 5, NULL, NULL, 0), 0);
		FAILS(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &word2, 6), EAGAIN);
	}
	sem_post(&sem);
	join(threads, 1);
}

TEST(a_raw_wake_counts_and_takes_only_those_of_its_bits)
{
	for (long i = 0; i < 24; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, waits_by_bit, (void *)(i % 3)), 0);
	await_waiters(24);
	EXPECT_EQ(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0), 0);
	EXPECT_EQ(futex(&word2, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, 8), 0);
	EXPECT_EQ(futex(&word2, FUTEX_WAKE_BITSET, 3, NULL, NULL, 2), 3);
	EXPECT_EQ(futex(&word2, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, 2), 5);
	EXPECT_EQ(futex(&word2, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, 2), 0);
	for (int i = 1; i < 24; i += 3)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	EXPECT_EQ(woken[0] + woken[2], 0);
	EXPECT_EQ(futex(&word2, FUTEX_CMP_REQUEUE, 2, (void *)4, &word, 0), 6);
	EXPECT_EQ(futex(&word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0), 4);
	EXPECT_EQ(futex(&word2, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, 5), 10);
	for (int i = 0; i < 24; i++)
		if (i % 3 != 1)
			EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(woken[i], 8);
}

/* ---- sleeping ---- */

static void *sleeps_exactly(void *arg)
{
	struct timespec t = { .tv_nsec = 20 * MS }, until = in_ms(CLOCK_MONOTONIC, 20);

	EXPECT_EQ(nanosleep(&t, NULL), 0);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
	until = in_ms(CLOCK_REALTIME, 20);
	EXPECT_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	EXPECT_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0);
	until = in_ms(CLOCK_MONOTONIC, 20);
	EXPECT_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL), 0);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
	t.tv_nsec = 1000000000;
	FAILS(nanosleep(&t, NULL), EINVAL);
	EXPECT_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL), EINVAL);
	t.tv_nsec = 0;
	EXPECT_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL), EINVAL);
	EXPECT_EQ(clock_nanosleep(999, 0, &t, NULL), EINVAL);
	t.tv_sec = -1;
	EXPECT_EQ(clock_nanosleep(CLOCK_REALTIME, 0, &t, NULL), EINVAL);
	return arg;
}

TEST(a_sleep_is_as_long_as_asked_for)
{
	sleeps_exactly(NULL);
	start(threads, 4, sleeps_exactly, NULL);
	sleeps_exactly(NULL);
	join(threads, 4);
}

static void *sleeps_100_ms(void *arg)
{
	EXPECT_EQ(usleep(100000), 0);
	return arg;
}

TEST(of_300_threads_all_sleep_at_once)
{
	struct timespec until = in_ms(CLOCK_MONOTONIC, 100);

	run(300, sleeps_100_ms, NULL);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
}
