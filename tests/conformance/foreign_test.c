/* Kernel threads that pthread_create did not make for the program: one by clone(), and those on
 * which the C library calls the program's functions. They and threads lock, post and signal for
 * each other, in both directions. The same holds natively. */
#include "event.h"

#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <semaphore.h>

/* The sides of a meeting. */
enum { FOREIGN, OURS };
enum { TURNS = 200, LOCKERS = 3, LOCKINGS = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t twofold = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem[2], over;

/* By semaphores; by the condition, whose first is OURS, too. */
static int turn = OURS, next_turn = OURS;
static long sum;

static void waits_for(sem_t *s)
{
	while (sem_wait(s) != 0)
		EXPECT_EQ(errno, EINTR);
}

/* ---- turn by turn: each waits for the other ---- */

static void by_semaphores(int side)
{
	for (int i = 0; i < TURNS; i++) {
		EXPECT_EQ(sem_wait(&sem[side]), 0);
		EXPECT_EQ(turn % 2, side);
		turn++;
		EXPECT_EQ(sem_post(&sem[1 - side]), 0);
	}
}

static void by_a_condition(int side)
{
	struct timespec late = in_ms(CLOCK_REALTIME, 3L * SLOW_MS), soon;

	EXPECT_EQ(pthread_mutex_lock(&lock), 0);
	for (int i = 0; i < TURNS; i++) {
		while (next_turn % 2 != side)
			EXPECT_EQ(i % 2 ? pthread_cond_timedwait(&changed, &lock, &late)
					: pthread_cond_wait(&changed, &lock),
				  0);
		next_turn++;
		EXPECT_EQ(pthread_cond_signal(&changed), 0);
	}
	EXPECT_EQ(pthread_mutex_unlock(&lock), 0);
	soon = in_ms(CLOCK_REALTIME, 2);
	EXPECT_EQ(pthread_mutex_lock(&lock), 0);
	while (pthread_cond_timedwait(&changed, &lock, &soon) == 0)
		continue;
	EXPECT(just_past(CLOCK_REALTIME, &soon));
	EXPECT_EQ(pthread_mutex_unlock(&lock), 0);
}

/* ---- one lock, and many that want it ---- */

static void locks_often(void)
{
	for (int i = 0; i < LOCKINGS; i++) {
		long now;
		EXPECT_EQ(pthread_mutex_lock(&lock), 0);
		now = sum;
		if (i % 32 == 0)
			sched_yield();
		sum = now + 1;
		EXPECT_EQ(pthread_mutex_unlock(&lock), 0);
	}
}

static void *is_locker(void *arg)
{
	locks_often();
	return arg;
}

/* ---- one that holds it, and one that sleeps for it ---- */

#define LOCKS(name, call)                                                                          \
	static int name(void)                                                                      \
	{                                                                                          \
		return call;                                                                       \
	}
LOCKS(locks, pthread_mutex_lock(&lock))
LOCKS(tries, pthread_mutex_trylock(&lock))
LOCKS(unlocks, pthread_mutex_unlock(&lock))
LOCKS(locks_twice, pthread_mutex_lock(&twofold) | pthread_mutex_lock(&twofold))
LOCKS(tries_twofold, pthread_mutex_trylock(&twofold))
LOCKS(unlocks_twice, pthread_mutex_unlock(&twofold) | pthread_mutex_unlock(&twofold))
LOCKS(locks_to_read, pthread_rwlock_rdlock(&rwlock))
LOCKS(locks_to_write, pthread_rwlock_wrlock(&rwlock))
LOCKS(tries_to_read, pthread_rwlock_tryrdlock(&rwlock))
LOCKS(tries_to_write, pthread_rwlock_trywrlock(&rwlock))
LOCKS(unlocks_rw, pthread_rwlock_unlock(&rwlock))

static const struct way {
	int (*holds)(void), (*wants)(void), (*tries)(void), (*leaves)(void);
} ways[] = {
	{ locks, locks, tries, unlocks },
	{ locks_twice, locks_twice, tries_twofold, unlocks_twice },
	{ locks_to_read, locks_to_write, tries_to_write, unlocks_rw },
	{ locks_to_write, locks_to_read, tries_to_read, unlocks_rw },
};

static _Atomic bool held, got;

static void holds(const struct way *w)
{
	EXPECT_EQ(w->holds(), 0);
	held = true;
}

static void leaves(const struct way *w)
{
	held = false;
	EXPECT_EQ(w->leaves(), 0);
}

static void wants(const struct way *w)
{
	EXPECT_EQ(w->wants(), 0);
	EXPECT(!held);
	got = true;
	EXPECT_EQ(w->leaves(), 0);
}

static void *is_wanting(void *way)
{
	wants(way);
	return NULL;
}

static void holds_foreign(const struct way *w)
{
	waits_for(&sem[FOREIGN]);
	holds(w);
	sem_post(&sem[OURS]);
	waits_for(&sem[FOREIGN]);
	leaves(w);
	waits_for(&sem[FOREIGN]);
	wants(w);
	sem_post(&sem[OURS]);
}

static void holds_ours(const struct way *w)
{
	pthread_t t;

	sem_post(&sem[FOREIGN]);
	waits_for(&sem[OURS]);
	EXPECT_EQ(w->tries(), EBUSY);
	got = false;
	start(&t, 1, is_wanting, (void *)(uintptr_t)w);
	settle();
	EXPECT(!got);
	sem_post(&sem[FOREIGN]);
	join(&t, 1);
	got = false;
	holds(w);
	sem_post(&sem[FOREIGN]);
	settle();
	EXPECT(!got);
	leaves(w);
	waits_for(&sem[OURS]);
	EXPECT(got);
}

/* ---- a signal for it ---- */

static _Atomic pid_t foreign, handled_by;
static struct event interrupted;

static void notes_who(int sig)
{
	(void)sig;
	handled_by = (pid_t)syscall(SYS_gettid);
}

static void is_interrupted(void)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	foreign = (pid_t)syscall(SYS_gettid);
	sem_post(&sem[OURS]);
	FAILS(sem_wait(&sem[FOREIGN]), EINTR);
	tick(&interrupted);
	waits_for(&sem[FOREIGN]);
}

static void interrupts(void)
{
	waits_for(&sem[OURS]);
	EXPECT(foreign != gettid());
	do
		EXPECT_EQ(tgkill(getpid(), foreign, SIGUSR1), 0);
	while (!comes_within_us(&interrupted, 1, 500));
	EXPECT_EQ(handled_by, foreign);
	sem_post(&sem[FOREIGN]);
}

/* ---- the meeting ---- */

static void *adds_one(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
	return arg;
}

static _Atomic int rounds;

static void meets_at_barrier(void)
{
	for (int i = 0; i < TURNS; i++) {
		int r = pthread_barrier_wait(&barrier);
		EXPECT(r == 0 || r == PTHREAD_BARRIER_SERIAL_THREAD);
		rounds += r != 0;
		/* Who came last has said so before the next round. */
		EXPECT(rounds >= i && rounds <= i + 2);
	}
}

/* What takes what the C library knows of its threads. */
static void is_known_thread(void)
{
	_Atomic int n = 0;

	run(3, adds_one, &n);
	EXPECT_EQ(n, 3);
	meets_at_barrier();
	for (int i = 1; i < 4; i++)
		holds_foreign(&ways[i]);
}

static void meets_known_thread(void)
{
	meets_at_barrier();
	for (int i = 1; i < 4; i++)
		holds_ours(&ways[i]);
}

static void is_foreign(bool known)
{
	by_semaphores(FOREIGN);
	by_a_condition(FOREIGN);
	locks_often();
	holds_foreign(&ways[0]);
	if (known)
		is_known_thread();
	is_interrupted();
	sem_post(&over);
}

static void is_known_foreign(union sigval value)
{
	(void)value;
	is_foreign(true);
}

static void meets(void (*begins)(void), bool known)
{
	pthread_t lockers[LOCKERS];

	handle_with(SIGUSR1, notes_who, 0);
	sem_init(&sem[FOREIGN], 0, 0);
	sem_init(&sem[OURS], 0, 1);
	sem_init(&over, 0, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	/* Before there is a foreign one there are others. */
	start(lockers, LOCKERS, is_locker, NULL);
	begins();
	by_semaphores(OURS);
	by_a_condition(OURS);
	join(lockers, LOCKERS);
	/* Its turn would be next. */
	EXPECT_EQ(sem_wait(&sem[OURS]), 0);
	holds_ours(&ways[0]);
	if (known) {
		meets_known_thread();
		EXPECT_EQ(rounds, TURNS);
	}
	interrupts();
	waits_for(&over);
	EXPECT_EQ(sum, (LOCKERS + 1) * LOCKINGS);
}

/* ---- by clone() ---- */

/* Below where the thread's own variables end is room for those of all libraries, and above for
 * what the C library knows of a thread: nothing, but for the words with which it begins. */
enum { ROOM = 64 * 1024, WORDS = 7 };
static _Alignas(64) char block[2 * ROOM], stack[4 * ROOM];
static _Atomic pid_t lives;

static int is_cloned(void *arg)
{
	(void)arg;
	is_foreign(false);
	syscall(SYS_exit, 0);
	return 0;
}

static void begins_by_clone(void)
{
	void **own = __builtin_thread_pointer(), **its = (void **)(uintptr_t)(block + ROOM);

	for (int i = 0; i < WORDS; i++)
		its[i] = own[i] == own ? its : own[i];
	lives = 1;
	EXPECT(clone(is_cloned, stack + sizeof(stack),
		     CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			     CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID,
		     NULL, NULL, its, &lives) > 0);
}

TEST(a_cloned_thread_and_others_wait_for_each_other)
{
	meets(begins_by_clone, false);
	while (lives)
		syscall(SYS_futex, &lives, FUTEX_WAIT, 1, NULL, NULL, 0);
}

/* ---- the C library's own ---- */

static struct sigevent calls_us = { .sigev_notify = SIGEV_THREAD,
				    .sigev_notify_function = is_known_foreign };

static void begins_by_timer(void)
{
	struct itimerspec soon = { .it_value = { 0, MS } };
	timer_t timer;

	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &calls_us, &timer), 0);
	EXPECT_EQ(timer_settime(timer, 0, &soon, NULL), 0);
}

TEST(the_thread_of_a_timer_and_others_wait_for_each_other)
{
	meets(begins_by_timer, true);
}

static void begins_by_message(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	char name[32];
	mqd_t q;

	snprintf(name, sizeof(name), "/foreign-%d", (int)getpid());
	q = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
	EXPECT(q >= 0);
	EXPECT_EQ(mq_unlink(name), 0);
	EXPECT_EQ(mq_notify(q, &calls_us), 0);
	EXPECT_EQ(mq_send(q, "x", 1, 0), 0);
}

TEST(the_thread_of_a_message_and_others_wait_for_each_other)
{
	meets(begins_by_message, true);
}

static void begins_by_write(void)
{
	static struct aiocb writes;
	int fd[2];

	EXPECT_EQ(pipe(fd), 0);
	writes = (struct aiocb){
		.aio_fildes = fd[1], .aio_buf = "x", .aio_nbytes = 1, .aio_sigevent = calls_us
	};
	EXPECT_EQ(aio_write(&writes), 0);
}

TEST(the_thread_of_an_asynchronous_write_and_others_wait_for_each_other)
{
	meets(begins_by_write, true);
}

static void begins_by_name(void)
{
	static const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	static struct gaicb asked = { .ar_name = "127.0.0.1", .ar_request = &hints };
	static struct gaicb *list[] = { &asked };

	EXPECT_EQ(getaddrinfo_a(GAI_NOWAIT, list, 1, &calls_us), 0);
}

TEST(the_thread_of_a_name_that_was_looked_up_and_others_wait_for_each_other)
{
	meets(begins_by_name, true);
}
