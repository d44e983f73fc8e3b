/* Which thread a signal is for, and when its handler runs. The same holds natively. */
#include "event.h"

#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

static pthread_t taker;
static struct event handled;
static volatile sig_atomic_t wrong, stop;
static sem_t ready, done;

static bool pending(int sig)
{
	sigset_t set;

	EXPECT_EQ(sigpending(&set), 0);
	return sigismember(&set, sig) == 1;
}

/* Without a tie to the thread: sem_wait may be interrupted. */
static void down(sem_t *s)
{
	while (sem_wait(s) != 0)
		EXPECT_EQ(errno, EINTR);
}

static void counts_one(int sig)
{
	(void)sig;
	tick(&handled);
}

/* ---- a sleep ---- */

static struct event woken;

static void *sleeps_long(void *arg)
{
	errno = 0;
	EXPECT(sleep(1000) > 0);
	EXPECT_EQ(errno, EINTR);
	errno = 0;
	EXPECT_EQ(usleep(100000000), -1);
	EXPECT_EQ(errno, EINTR);
	tick(&woken);
	return arg;
}

TEST(a_sleep_that_a_handler_ends_says_so)
{
	pthread_t t;

	signal(SIGUSR1, counts_one);
	EXPECT_EQ(pthread_create(&t, NULL, sleeps_long, NULL), 0);
	interrupt(t, SIGUSR1, &woken, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- a storm ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t posted[2];

static void posts(int sig)
{
	if (!pthread_equal(pthread_self(), taker))
		wrong++;
	tick(&handled);
	sem_post(&posted[sig == SIGUSR1]);
}

static void *waits_in_the_storm(void *arg)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	mask(SIG_UNBLOCK, SIGUSR2);
	pthread_mutex_lock(&mutex);
	while (!stop)
		EXPECT_EQ(pthread_cond_wait(&cond, &mutex), 0);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *sends(void *arg)
{
	int sig = *(int *)arg;

	for (int i = 0; i < 1500; i++) {
		down(&posted[sig == SIGUSR1]);
		EXPECT_EQ(kill(getpid(), sig), 0);
	}
	down(&posted[sig == SIGUSR1]);
	return arg;
}

static void *signals_the_cond(void *arg)
{
	while (!stop) {
		/* Often, but not all the time. */
		usleep(1);
		pthread_cond_signal(&cond);
	}
	return arg;
}

/* One thread takes them, and it waits most of the time; each of the two senders sends the next
 * when the last was handled. */
TEST(of_a_storm_of_signals_none_is_lost)
{
	static int numbers[] = { SIGUSR1, SIGUSR2 };
	pthread_t senders[2], other;

	handle_with(SIGUSR1, posts, 0);
	handle_with(SIGUSR2, posts, 0);
	mask(SIG_BLOCK, SIGUSR1);
	mask(SIG_BLOCK, SIGUSR2);
	sem_init(&posted[0], 0, 1);
	sem_init(&posted[1], 0, 1);
	EXPECT_EQ(pthread_create(&taker, NULL, waits_in_the_storm, NULL), 0);
	EXPECT_EQ(pthread_create(&other, NULL, signals_the_cond, NULL), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&senders[i], NULL, sends, &numbers[i]), 0);
	join(senders, 2);
	stop = 1;
	EXPECT_EQ(pthread_join(other, NULL), 0);
	pthread_mutex_lock(&mutex);
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	EXPECT_EQ(pthread_join(taker, NULL), 0);
	EXPECT_EQ(handled.n, 3000);
	EXPECT_EQ(wrong, 0);
}

/* ---- pending ---- */

static void counts(int sig)
{
	(void)sig;
	if (!pthread_equal(pthread_self(), taker))
		wrong++;
	tick(&handled);
}

static void *has_none_pending(void *arg)
{
	EXPECT(!pending(SIGUSR1));
	mask(SIG_UNBLOCK, SIGUSR1);
	settle();
	EXPECT(!pending(SIGUSR1));
	return arg;
}

TEST(what_is_pending_for_one_thread_is_not_for_those_it_creates)
{
	taker = pthread_self();
	handle_with(SIGUSR1, counts, 0);
	mask(SIG_BLOCK, SIGUSR1);
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT(pending(SIGUSR1));
		on_thread(has_none_pending, NULL);
		EXPECT_EQ(handled.n, 0);
	}
	mask(SIG_UNBLOCK, SIGUSR1);
	EXPECT_EQ(handled.n, 1);
	EXPECT_EQ(wrong, 0);
	EXPECT(!pending(SIGUSR1));
}

static void *unblocks_when_told(void *arg)
{
	sem_post(&ready);
	down(&done);
	EXPECT_EQ(handled.n, 0);
	EXPECT(pending(SIGUSR1));
	mask(SIG_UNBLOCK, SIGUSR1);
	EXPECT_EQ(handled.n, 1);
	return arg;
}

TEST(a_blocked_signal_waits_for_its_own_thread)
{
	handle_with(SIGUSR1, counts, 0);
	mask(SIG_BLOCK, SIGUSR1);
	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	EXPECT_EQ(pthread_create(&taker, NULL, unblocks_when_told, NULL), 0);
	down(&ready);
	EXPECT_EQ(pthread_kill(taker, SIGUSR1), 0);
	on_thread(has_none_pending, NULL);
	EXPECT(!pending(SIGUSR1));
	sem_post(&done);
	EXPECT_EQ(pthread_join(taker, NULL), 0);
	EXPECT_EQ(wrong, 0);
}

static void *raises(void *arg)
{
	sigset_t set, old;

	taker = pthread_self();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 1; i <= 100; i++) {
		EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
		EXPECT_EQ(i % 2 ? raise(SIGUSR1) : (int)syscall(SYS_tkill, gettid(), SIGUSR1), 0);
		EXPECT_EQ(handled.n, i - 1);
		EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
		EXPECT_EQ(handled.n, i);
	}
	return arg;
}

TEST(what_a_thread_raises_is_its_own_as_soon_as_it_unblocks_it)
{
	handle_with(SIGUSR1, counts, 0);
	on_thread(raises, NULL);
	EXPECT_EQ(wrong, 0);
}

static void *blocks_all(void *arg)
{
	mask(SIG_BLOCK, SIGUSR1);
	sem_post(&ready);
	down(&done);
	return arg;
}

TEST(what_the_process_sends_itself_and_all_block_is_pending_at_once)
{
	pthread_t t;

	handle_with(SIGUSR1, counts_one, 0);
	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, blocks_all, NULL), 0);
	down(&ready);
	for (int i = 1; i <= 1000; i++) {
		mask(SIG_BLOCK, SIGUSR1);
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
		EXPECT(pending(SIGUSR1));
		mask(SIG_UNBLOCK, SIGUSR1);
		EXPECT_EQ(handled.n, i);
	}
	sem_post(&done);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *takes_by_call(void *arg)
{
	sigset_t set;
	int sig = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 0; i < 100; i++) {
		sem_post(&ready);
		EXPECT_EQ(sigwait(&set, &sig), 0);
		EXPECT_EQ(sig, SIGUSR1);
	}
	return arg;
}

TEST(sigwait_takes_what_was_sent_to_its_thread)
{
	handle_with(SIGUSR1, counts, 0);
	mask(SIG_BLOCK, SIGUSR1);
	sem_init(&ready, 0, 0);
	EXPECT_EQ(pthread_create(&taker, NULL, takes_by_call, NULL), 0);
	for (int i = 0; i < 100; i++) {
		down(&ready);
		if (i % 10 == 0)
			settle();
		EXPECT_EQ(pthread_kill(taker, SIGUSR1), 0);
	}
	EXPECT_EQ(pthread_join(taker, NULL), 0);
	EXPECT_EQ(handled.n, 0);
}

/* ---- handlers ---- */

static void *computes_until_told(void *arg)
{
	sem_post(&ready);
	while (!stop)
		continue;
	return arg;
}

TEST(each_signal_to_a_thread_is_handled_by_it_computing_or_waiting)
{
	handle_with(SIGUSR1, counts, SA_RESTART);
	sem_init(&ready, 0, 0);
	EXPECT_EQ(pthread_create(&taker, NULL, computes_until_told, NULL), 0);
	down(&ready);
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(pthread_kill(taker, SIGUSR1), 0);
		await(&handled, i + 1);
	}
	stop = 1;
	EXPECT_EQ(pthread_join(taker, NULL), 0);
	EXPECT_EQ(wrong, 0);
}

/* The handler sleeps, so that other threads run meanwhile, on the same kernel threads. */
static void sleeps(int sig)
{
	sigset_t set;

	tick(&handled);
	usleep(2000);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	if (sigismember(&set, sig) != 1)
		wrong++;
	sem_post(&done);
}

static void *checks_its_mask(void *arg)
{
	sigset_t set;

	while (!stop) {
		/* Where most signals find it. */
		usleep(100);
		pthread_sigmask(SIG_BLOCK, NULL, &set);
		EXPECT_EQ(sigismember(&set, SIGUSR1), arg != NULL);
		EXPECT_EQ(sigismember(&set, SIGUSR2), 0);
	}
	return NULL;
}

TEST(a_handler_that_sleeps_blocks_its_signal_for_its_thread_alone)
{
	pthread_t t[6];

	handle_with(SIGUSR2, sleeps, 0);
	sem_init(&done, 0, 0);
	for (int i = 0; i < 6; i++) {
		mask(i % 2 ? SIG_BLOCK : SIG_UNBLOCK, SIGUSR1);
		EXPECT_EQ(pthread_create(&t[i], NULL, checks_its_mask, i % 2 ? t : NULL), 0);
	}
	for (int i = 0; i < 30; i++) {
		EXPECT_EQ(pthread_kill(t[i % 6], SIGUSR2), 0);
		if (i % 3 == 2)
			for (int j = 0; j < 3; j++)
				down(&done);
	}
	stop = 1;
	join(t, 6);
	EXPECT_EQ(handled.n, 30);
	EXPECT_EQ(wrong, 0);
}

static sigjmp_buf back;

static void jumps(int sig)
{
	(void)sig;
	tick(&handled);
	siglongjmp(back, 1);
}

static void *jumps_out(void *arg)
{
	for (volatile int i = 0; i < 20; i++) {
		if (sigsetjmp(back, 1) == 0)
			pthread_kill(pthread_self(), SIGUSR1);
		/* It sleeps and wakes as before. */
		usleep(100);
	}
	return arg;
}

TEST(a_jump_out_of_a_handler_brings_the_mask_back)
{
	handle_with(SIGUSR1, jumps, 0);
	on_thread(jumps_out, NULL);
	EXPECT_EQ(handled.n, 20);
}

static void leaves(int sig)
{
	(void)sig;
	tick(&handled);
	pthread_exit(&ready);
}

static void *waits_for_the_handler(void *arg)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	sem_post(&ready);
	for (;;)
		pause();
	return arg;
}

static void *parks_for_the_handler(void *arg)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	sem_post(&ready);
	for (;;)
		sem_wait(&done);
	return arg;
}

/* Sent to the process: the one thread that does not block it takes it, wherever it is. */
TEST(pthread_exit_in_a_handler_ends_the_thread_that_took_the_signal)
{
	handle_with(SIGUSR1, leaves, 0);
	mask(SIG_BLOCK, SIGUSR1);
	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	for (int i = 0; i < 20; i++) {
		void *r;
		EXPECT_EQ(pthread_create(&taker, NULL,
					 i % 2 ? waits_for_the_handler : parks_for_the_handler,
					 NULL),
			  0);
		down(&ready);
		if (i % 4 < 2)
			settle();
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
		EXPECT_EQ(pthread_join(taker, &r), 0);
		EXPECT(r == &ready);
		EXPECT_EQ(handled.n, i + 1);
	}
}

/* ---- what is done with a signal changes all the time ---- */

static void *waits_for_its_end(void *arg)
{
	sem_post(&ready);
	down(&done);
	return arg;
}

static long switches(void)
{
	struct rusage used;

	EXPECT_EQ(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_nvcsw;
}

/* As libcurl does it around each of its calls. */
TEST(a_signal_that_is_ignored_now_and_then_wakes_nobody)
{
	enum { TIMES = 2000 };
	pthread_t t;
	long before, since;

	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, waits_for_its_end, NULL), 0);
	down(&ready);
	before = switches();
	for (int i = 0; i < TIMES; i++) {
		EXPECT(signal(SIGPIPE, i % 2 == 0 ? SIG_IGN : SIG_DFL) != SIG_ERR);
		/* Whoever was woken is asleep again. */
		for (since = now_us(); now_us() - since < 50;)
			continue;
	}
	EXPECT(switches() - before < TIMES / 4);
	sem_post(&done);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- a signal that was sent before something else has been handled when that is known ---- */

TEST(what_a_child_sent_was_handled_when_its_end_is_known)
{
	enum { CHILDREN = 200 };
	pthread_t t;
	int late = 0;

	handle_with(SIGUSR1, counts_one, SA_RESTART);
	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, waits_for_its_end, NULL), 0);
	down(&ready);
	for (int i = 1; i <= CHILDREN; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			kill(getppid(), SIGUSR1);
			_exit(0);
		}
		EXPECT_EQ(waitpid(pid, NULL, 0), pid);
		late += handled.n != i;
		await(&handled, i);
		/* To other kernel threads, perhaps. */
		usleep(300);
	}
	test_say("  %d of %d late", late, CHILDREN);
	/* The kernel may have given it to a thread of ours that it then stopped. */
	EXPECT(late <= CHILDREN / 8);
	sem_post(&done);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- once a signal is handled, it ends nothing more ---- */

static struct event waits, reads_on;
enum { WAITS = 20 };
static int line[2];

static void *computes_too(void *arg)
{
	while (!stop)
		continue;
	return arg;
}

/* A signal in each wait, and a line after it. */
static void *calls_out(void *arg)
{
	for (int i = 1; i <= WAITS; i++) {
		await(&waits, i);
		/* It may be there already. Others who compute have each a turn. */
		wander();
		EXPECT_EQ(pthread_kill(taker, SIGUSR1), 0);
		await(&reads_on, i);
		wander();
		EXPECT_EQ(write(line[1], "line\n", 5), 5);
	}
	return arg;
}

TEST(a_signal_that_ended_a_wait_does_not_end_the_next)
{
	struct sigaction act = { .sa_handler = counts_one };
	char text[16];
	pthread_t t[3];
	FILE *file;

	taker = pthread_self();
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	EXPECT_EQ(pipe(line), 0);
	file = fdopen(line[0], "r");
	start(t, 2, computes_too, NULL);
	start(t + 2, 1, calls_out, NULL);
	for (int i = 1; i <= WAITS; i++) {
		tick(&waits);
		while (handled.n < i)
			poll(NULL, 0, 20);
		tick(&reads_on);
		EXPECT(fgets(text, sizeof(text), file) != NULL);
	}
	stop = 1;
	join(t, 3);
	fclose(file);
}

/* ---- what is waited for comes, and then a signal ---- */

enum { ROUNDS = 20 };
static struct event came;

static void *takes_what_came(void *arg)
{
	const int *fds = arg;
	struct epoll_event e;
	uint64_t count;

	for (int i = 1; i <= ROUNDS; i++) {
		tick(&came);
		EXPECT_EQ(epoll_wait(fds[0], &e, 1, -1), 1);
		await(&handled, i);
		EXPECT_EQ(read(fds[1], &count, sizeof(count)), sizeof(count));
	}
	return NULL;
}

/* The kernel looks for it before it looks for signals. */
TEST(what_came_before_a_signal_ends_the_call)
{
	struct sigaction act = { .sa_handler = counts_one };
	struct epoll_event wanted = { .events = EPOLLIN };
	int fds[] = { epoll_create1(0), eventfd(0, 0) };
	uint64_t one = 1;
	pthread_t t;

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	EXPECT_EQ(epoll_ctl(fds[0], EPOLL_CTL_ADD, fds[1], &wanted), 0);
	start(&t, 1, takes_what_came, fds);
	for (int i = 1; i <= ROUNDS; i++) {
		await(&came, i);
		settle();
		EXPECT_EQ(write(fds[1], &one, sizeof(one)), sizeof(one));
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, i);
	}
	join(&t, 1);
	close(fds[0]);
	close(fds[1]);
}
