/* Cancellation that does not wait for a cancellation point; that of waits at what other processes
 * use too, and such waits as such. The same holds natively. */
#include "event.h"

#include <error.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready;
static _Atomic int cleaned;
static int ends[2];
static volatile long sum;

static void clean(void *arg)
{
	cleaned += *(int *)arg;
}

/* What follows is told when it runs inside of a call, for only there the compiler counts with an
 * exception. */

static void __attribute__((noipa)) computes(void)
{
	sem_post(&ready);
	for (;;)
		sum += sum * 3 + 1;
}

static void __attribute__((noipa)) computes_in_libc(void)
{
	static char a[20000], b[20000];

	sem_post(&ready);
	for (;;)
		sum += memcmp(a, b, sizeof(a));
}

static void __attribute__((noipa)) makes_short_calls(void)
{
	struct timespec now;

	sem_post(&ready);
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (pthread_mutex_trylock(&mutex) == 0)
			pthread_mutex_unlock(&mutex);
		sum += gettid();
	}
}

static void __attribute__((noipa)) yields(void)
{
	sem_post(&ready);
	for (;;)
		sched_yield();
}

static void __attribute__((noipa)) locks(void)
{
	sem_post(&ready);
	pthread_mutex_lock(&mutex);
	EXPECT(!"reached");
}

static void __attribute__((noipa)) waits(void)
{
	sem_t none;

	sem_init(&none, 0, 0);
	sem_post(&ready);
	for (;;)
		sem_wait(&none);
}

static void __attribute__((noipa)) reads(void)
{
	char c;

	sem_post(&ready);
	for (;;)
		syscall(SYS_read, ends[0], &c, 1);
}

static void *is_cancelled(void *arg)
{
	void (*fn)(void);
	int one = 1;

	memcpy(&fn, arg, sizeof(fn));
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	fn();
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel_in(void (*fn)(void), int rounds)
{
	for (int i = 0; i < rounds; i++) {
		pthread_t t;
		cleaned = 0;
		EXPECT_EQ(pthread_create(&t, NULL, is_cancelled, &fn), 0);
		EXPECT_EQ(sem_wait(&ready), 0);
		/* Sooner and later; some never sleep. */
		if (i % 3)
			usleep((unsigned)i * 100);
		EXPECT_EQ(pthread_cancel(t), 0);
		expect_cancelled(t);
		EXPECT_EQ(cleaned, 1);
	}
}

TEST(an_asynchronous_cancellation_ends_a_thread_that_computes)
{
	sem_init(&ready, 0, 0);
	cancel_in(computes, 20);
	cancel_in(computes_in_libc, 20);
	cancel_in(makes_short_calls, 20);
	cancel_in(yields, 20);
}

TEST(an_asynchronous_cancellation_ends_a_thread_that_waits)
{
	sem_init(&ready, 0, 0);
	pthread_mutex_lock(&mutex);
	cancel_in(locks, 10);
	pthread_mutex_unlock(&mutex);
	cancel_in(waits, 10);
	EXPECT_EQ(pipe(ends), 0);
	cancel_in(reads, 10);
}

static void *computes_among_many(void *arg)
{
	int one = 1;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	computes();
	pthread_cleanup_pop(0);
	return arg;
}

/* More than run at a time: some are stopped in the midst of their work. */
TEST(asynchronous_cancellations_end_all_of_20_threads)
{
	pthread_t t[20];

	sem_init(&ready, 0, 0);
	start(t, 20, computes_among_many, NULL);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(sem_wait(&ready), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(pthread_cancel(t[i]), 0);
	for (int i = 0; i < 20; i++) {
		expect_cancelled(t[i]);
	}
	EXPECT_EQ(cleaned, 20);
}

static struct event enabled, sent;

static void *disables(void *arg)
{
	int one = 1;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, &one);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_post(&ready);
	await(&sent, 1);
	tick(&enabled);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	computes();
	pthread_cleanup_pop(0);
	return arg;
}

TEST(an_asynchronous_cancellation_waits_until_it_is_enabled)
{
	pthread_t t;

	sem_init(&ready, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, disables, NULL), 0);
	EXPECT_EQ(sem_wait(&ready), 0);
	EXPECT_EQ(pthread_cancel(t), 0);
	tick(&sent);
	/* What it gives back is not asked: glibc 2.36 forgets it. */
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(enabled.n, 1);
	EXPECT_EQ(cleaned, 1);
}

/* ---- waits at what other processes use too ---- */

static pthread_mutex_t shared_mutex;
static pthread_cond_t shared_cond;
static sem_t shared_sem;
static int waiting, go;

static void make_shared(void)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;

	pthread_mutexattr_init(&ma);
	pthread_condattr_init(&ca);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
	EXPECT_EQ(pthread_mutex_init(&shared_mutex, &ma), 0);
	EXPECT_EQ(pthread_cond_init(&shared_cond, &ca), 0);
	EXPECT_EQ(sem_init(&shared_sem, 1, 0), 0);
}

/* It must hold the mutex here, or it could not unlock it. */
static void clean_unlock(void *m)
{
	waiting--;
	cleaned++;
	EXPECT_EQ(pthread_mutex_unlock(m), 0);
}

static void *waits_shared(void *m)
{
	EXPECT_EQ(pthread_mutex_lock(m), 0);
	pthread_cleanup_push(clean_unlock, m);
	waiting++;
	sem_post(&ready);
	while (go == 0)
		EXPECT_EQ(pthread_cond_wait(&shared_cond, m), 0);
	go--;
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancel_shared(pthread_mutex_t *m)
{
	for (int i = 0; i < 30; i++) {
		pthread_t t[2];
		void *r;
		cleaned = go = 0;
		start(t, 2, waits_shared, m);
		for (int j = 0; j < 2; j++)
			EXPECT_EQ(sem_wait(&ready), 0);
		if (i % 3)
			settle();
		/* Now and then while it cannot have the mutex back. */
		pthread_mutex_lock(m);
		if (i % 2)
			EXPECT_EQ(pthread_cancel(t[0]), 0);
		EXPECT_EQ(waiting, 2);
		pthread_mutex_unlock(m);
		if (i % 2 == 0)
			EXPECT_EQ(pthread_cancel(t[0]), 0);
		expect_cancelled(t[0]);
		pthread_mutex_lock(m);
		EXPECT_EQ(waiting, 1);
		go = 1;
		pthread_cond_signal(&shared_cond);
		pthread_mutex_unlock(m);
		EXPECT_EQ(pthread_join(t[1], &r), 0);
		EXPECT(r == NULL);
		EXPECT_EQ(waiting, 0);
		EXPECT_EQ(cleaned, 2);
	}
}

TEST(a_wait_at_a_shared_cond_is_cancelled_with_the_mutex_held)
{
	sem_init(&ready, 0, 0);
	make_shared();
	cancel_shared(&shared_mutex);
	cancel_shared(&mutex);
}

static void *waits_shared_sem(void *arg)
{
	int one = 1;

	(void)arg;
	pthread_cleanup_push(clean, &one);
	sem_post(&ready);
	EXPECT_EQ(sem_wait(&shared_sem), 0);
	pthread_cleanup_pop(0);
	return NULL;
}

TEST(a_wait_at_a_shared_semaphore_is_cancelled_or_has_taken)
{
	sem_init(&ready, 0, 0);
	make_shared();
	for (int i = 0; i < 60; i++) {
		pthread_t t;
		void *r;
		int value;
		EXPECT_EQ(pthread_create(&t, NULL, waits_shared_sem, NULL), 0);
		EXPECT_EQ(sem_wait(&ready), 0);
		if (i % 3)
			settle();
		if (i % 2)
			sem_post(&shared_sem);
		EXPECT_EQ(pthread_cancel(t), 0);
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT_EQ(sem_getvalue(&shared_sem, &value), 0);
		if (i % 2 == 0)
			EXPECT(r == PTHREAD_CANCELED);
		EXPECT_EQ(value, i % 2 && r == PTHREAD_CANCELED);
		if (value)
			sem_trywait(&shared_sem);
	}
}

/* ---- a thread that is cancelled first, and blocks later ---- */

static _Atomic int asked;
static FILE *stream;

static void *computes_then_reads_a_line(void *arg)
{
	char line[16];
	int one = 1;

	pthread_cleanup_push(clean, &one);
	sem_post(&ready);
	while (!asked)
		continue;
	EXPECT(fgets(line, sizeof(line), stream) == NULL);
	EXPECT(!"reached");
	pthread_cleanup_pop(0);
	return arg;
}

TEST(a_cancelled_thread_that_comes_to_stdio_ends_there)
{
	EXPECT_EQ(pipe(ends), 0);
	stream = fdopen(ends[0], "r");
	sem_init(&ready, 0, 0);
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		void *r;
		asked = cleaned = 0;
		EXPECT_EQ(pthread_create(&t, NULL, computes_then_reads_a_line, NULL), 0);
		EXPECT_EQ(sem_wait(&ready), 0);
		EXPECT_EQ(pthread_cancel(t), 0);
		asked = 1;
		EXPECT_EQ(pthread_join(t, &r), 0);
		EXPECT(r == PTHREAD_CANCELED);
		EXPECT_EQ(cleaned, 1);
	}
}

/* ---- one that never blocks ---- */

static void *prints_on_and_on(void *arg)
{
	int one = 1;

	pthread_cleanup_push(clean, &one);
	sem_post(&ready);
	for (;;)
		fputs("again and again\n", stream);
	pthread_cleanup_pop(0);
	return arg;
}

static void *reads_on_and_on(void *arg)
{
	char some[512];
	int one = 1;

	pthread_cleanup_push(clean, &one);
	sem_post(&ready);
	while (fread(some, 1, sizeof(some), stream) == sizeof(some))
		continue;
	pthread_cleanup_pop(0);
	return arg;
}

static void is_cancelled_in_stdio(void *(*fn)(void *))
{
	pthread_t t;
	void *r;

	sem_init(&ready, 0, 0);
	cleaned = 0;
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	EXPECT_EQ(sem_wait(&ready), 0);
	EXPECT_EQ(pthread_cancel(t), 0);
	EXPECT_EQ(pthread_join(t, &r), 0);
	EXPECT(r == PTHREAD_CANCELED);
	EXPECT_EQ(cleaned, 1);
	/* The stream is free again. */
	EXPECT_EQ(ftrylockfile(stream), 0);
	funlockfile(stream);
	fclose(stream);
}

TEST(stdio_ends_a_cancelled_thread_though_it_never_blocks)
{
	for (int i = 0; i < 20; i++) {
		stream = fopen("/dev/null", "w");
		is_cancelled_in_stdio(prints_on_and_on);
		stream = fopen("/dev/zero", "r");
		is_cancelled_in_stdio(reads_on_and_on);
	}
}

/* ---- what glibc calls with cancellation switched off ---- */

static void *opens_a_semaphore(void *arg)
{
	char name[40];
	sem_t *sem;

	snprintf(name, sizeof(name), "/heddle-cancel-%d", (int)getpid());
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	sem = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
	EXPECT(sem != SEM_FAILED);
	EXPECT_EQ(sem_unlink(name), 0);
	EXPECT_EQ(sem_close(sem), 0);
	cleaned = 1;
	pthread_testcancel();
	EXPECT(!"reached");
	return arg;
}

static struct event complains;

/* Into a pipe that is full. */
static void *complains_aloud(void *arg)
{
	tick(&complains);
	error(0, 0, "%s", (char *)arg);
	cleaned = 1;
	pthread_testcancel();
	EXPECT(!"reached");
	return arg;
}

/* Called back in the midst of it. */
static void is_at_a_point(void)
{
	pthread_testcancel();
	usleep(0);
	cleaned = 1;
}

static void *complains_by_name(void *arg)
{
	error_print_progname = is_at_a_point;
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	error(0, 0, "%s", "a line that is to be here");
	pthread_testcancel();
	EXPECT(!"reached");
	return arg;
}

TEST(nor_does_it_end_what_glibc_calls_back_there)
{
	pthread_t t;

	cleaned = 0;
	EXPECT_EQ(pthread_create(&t, NULL, complains_by_name, NULL), 0);
	expect_cancelled(t);
	EXPECT_EQ(cleaned, 1);
}

static void ends_in_the_midst(void)
{
	pthread_exit(NULL);
}

static void *ends_in_error(void *arg)
{
	error_print_progname = ends_in_the_midst;
	error(0, 0, "%s", "not said");
	return arg;
}

/* Of glibc's, too: the next thread may have what was the last one's. */
TEST(a_thread_begins_with_cancellation_on)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, ends_in_error, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	for (int i = 0; i < 3; i++) {
		stream = fopen("/dev/null", "w");
		is_cancelled_in_stdio(prints_on_and_on);
	}
}

TEST(a_cancellation_waits_for_what_glibc_does_not_let_it_end)
{
	enum { MOST = 1 << 20, LONG = 100000 };
	static char full[MOST], text[LONG];
	int kept = dup(2), holds;
	ssize_t drained = 0, n;
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		cleaned = 0;
		EXPECT_EQ(pthread_create(&t, NULL, opens_a_semaphore, NULL), 0);
		expect_cancelled(t);
		EXPECT_EQ(cleaned, 1);
	}
	memset(text, 'x', LONG - 1);
	EXPECT_EQ(pipe(ends), 0);
	cleaned = 0;
	holds = fcntl(ends[1], F_GETPIPE_SZ);
	EXPECT(holds > 0 && holds <= MOST);
	EXPECT_EQ(write(ends[1], full, (size_t)holds), holds);
	EXPECT_EQ(dup2(ends[1], 2), 2);
	EXPECT_EQ(pthread_create(&t, NULL, complains_aloud, text), 0);
	await(&complains, 1);
	settle();
	EXPECT_EQ(pthread_cancel(t), 0);
	settle();
	while (drained < holds + LONG && (n = read(ends[0], full, MOST)) > 0)
		drained += n;
	dup2(kept, 2);
	expect_cancelled(t);
	EXPECT_EQ(cleaned, 1);
}

/* ---- mixed ---- */

struct pair {
	pthread_cond_t *c;
	pthread_mutex_t *m;
	int turn;
};

static void *takes_turns(void *arg)
{
	struct pair *p = arg;

	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(p->m);
		while (p->turn != 1)
			EXPECT_EQ(pthread_cond_wait(p->c, p->m), 0);
		p->turn = 0;
		pthread_cond_broadcast(p->c);
		pthread_mutex_unlock(p->m);
	}
	return NULL;
}

static void take_turns(pthread_cond_t *c, pthread_mutex_t *m)
{
	struct pair p = { c, m, 0 };
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, takes_turns, &p), 0);
	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(m);
		while (p.turn != 0)
			EXPECT_EQ(pthread_cond_wait(c, m), 0);
		p.turn = 1;
		pthread_cond_signal(c);
		pthread_mutex_unlock(m);
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(a_shared_cond_works_with_a_private_mutex_and_the_reverse)
{
	static pthread_cond_t private_cond = PTHREAD_COND_INITIALIZER;
	pthread_mutexattr_t ma;
	pthread_mutex_t recursive;

	make_shared();
	pthread_mutexattr_init(&ma);
	pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &ma);
	take_turns(&shared_cond, &mutex);
	take_turns(&shared_cond, &recursive);
	take_turns(&shared_cond, &shared_mutex);
	take_turns(&private_cond, &shared_mutex);
}

/* ---- where a cancellation is seen though nothing waits ---- */

static void sleeps_no_time(void)
{
	static const struct timespec none_such = { 0, -1 }, soon = { 0, 1 };

	pthread_cancel(pthread_self());
	clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &soon, NULL);
	cleaned++;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &none_such, NULL);
	EXPECT(!"reached");
}

static void *sleeps_badly(void *arg)
{
	sleeps_no_time();
	return arg;
}

TEST(a_sleep_of_no_time_is_a_point_of_cancellation)
{
	pthread_t t;
	void *result;

	cleaned = 0;
	start(&t, 1, sleeps_badly, NULL);
	EXPECT_EQ(pthread_join(t, &result), 0);
	EXPECT(result == PTHREAD_CANCELED);
	EXPECT_EQ(cleaned, 1);
}

static pthread_key_t key;

static void cancels_itself(void *arg)
{
	if (cleaned++ > 0)
		return;
	EXPECT_EQ(pthread_setspecific(key, arg), 0);
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
	EXPECT(!"reached");
}

static void *returns_with_a_value(void *arg)
{
	EXPECT_EQ(pthread_setspecific(key, &key), 0);
	return arg;
}

/* As long as destructors run it has not ended. */
TEST(a_destructor_is_cancelled_after_a_return)
{
	pthread_t t;
	void *result;

	cleaned = 0;
	EXPECT_EQ(pthread_key_create(&key, cancels_itself), 0);
	start(&t, 1, returns_with_a_value, NULL);
	EXPECT_EQ(pthread_join(t, &result), 0);
	EXPECT(result == PTHREAD_CANCELED);
	EXPECT_EQ(cleaned, 2);
	EXPECT_EQ(pthread_key_delete(key), 0);
}

/* ---- what was, and what cannot be ---- */

static void *changes_state_and_type(void *arg)
{
	int old = -1;

	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_DEFERRED);
	EXPECT_EQ(pthread_setcanceltype(77, &old), EINVAL);
	EXPECT_EQ(pthread_setcanceltype(-1, NULL), EINVAL);
	EXPECT_EQ(old, PTHREAD_CANCEL_DEFERRED);
	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_ASYNCHRONOUS);
	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL), 0);
	EXPECT_EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_DEFERRED);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_ENABLE);
	EXPECT_EQ(pthread_setcancelstate(77, &old), EINVAL);
	EXPECT_EQ(pthread_setcancelstate(-1, NULL), EINVAL);
	EXPECT_EQ(old, PTHREAD_CANCEL_ENABLE);
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old), 0);
	EXPECT_EQ(old, PTHREAD_CANCEL_DISABLE);
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	pthread_testcancel();
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	/* Deferred, so not there. */
	cleaned++;
	/* The next begins as all do. */
	if (arg)
		EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	pthread_testcancel();
	return NULL;
}

TEST(a_change_of_state_or_type_tells_what_was_and_refuses_what_cannot_be)
{
	for (int i = 1; i <= 4; i++) {
		void *how = i % 2 ? &cleaned : NULL;
		EXPECT_EQ(on_thread(changes_state_and_type, how), how ? 0 : (long)PTHREAD_CANCELED);
		EXPECT_EQ(cleaned, i);
	}
}

/* ---- what is looked at before ---- */

/* Cancelled before it calls: what its arguments are comes first. */
static void *waits_wrongly(void *arg)
{
	static const struct timespec none_such = { .tv_nsec = 1000000000 }, past = { .tv_sec = -1 };
	enum { NO_CLOCK = 77 };
	pthread_mutex_t checks = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t ca;
	pthread_cond_t c;
	sem_t s;
	int shared = arg != NULL;

	EXPECT_EQ(sem_init(&s, shared, 1), 0);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, shared);
	EXPECT_EQ(pthread_cond_init(&c, &ca), 0);
	EXPECT_EQ(pthread_mutex_lock(&plain), 0);
	EXPECT_EQ(pthread_cancel(pthread_self()), 0);
	FAILS(sem_timedwait(&s, &none_such), EINVAL);
	FAILS(sem_clockwait(&s, NO_CLOCK, &past), EINVAL);
	EXPECT_EQ(pthread_cond_timedwait(&c, &plain, &none_such), EINVAL);
	EXPECT_EQ(pthread_cond_clockwait(&c, &plain, NO_CLOCK, &past), EINVAL);
	EXPECT_EQ(pthread_cond_timedwait(&c, &plain, &past), ETIMEDOUT);
	EXPECT_EQ(pthread_cond_wait(&c, &checks), EPERM);
	cleaned++;
	pthread_testcancel();
	return NULL;
}

TEST(a_wait_with_wrong_arguments_is_refused_rather_than_cancelled)
{
	cleaned = 0;
	EXPECT_EQ(on_thread(waits_wrongly, NULL), (long)PTHREAD_CANCELED);
	EXPECT_EQ(on_thread(waits_wrongly, &cleaned), (long)PTHREAD_CANCELED);
	EXPECT_EQ(cleaned, 2);
}
