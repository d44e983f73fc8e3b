/* Signals sent to the process: the first thread takes them while it does not block them, and is
 * interrupted; and each brings what was sent with it. The same holds natively. */
#include "event.h"

#include <sys/file.h>
#include <sys/resource.h>
#include <sys/time.h>

/* FEW: whoever changes its mask, or ends a handler, takes what is pending for the first as yet. */
enum { SIGNALS = 40, FEW = 4, QUEUED = 300, THOUSANDS = 12000, PATIENCE_US = 10 * 1000 * 1000 };

static pthread_t first;
static _Atomic int by_first, by_others, wrong, last;
static _Atomic bool stop;
static struct event taken, begun, over; /* taken: by a handler */

static void counts(int sig)
{
	(void)sig;
	if (pthread_equal(pthread_self(), first))
		by_first++;
	else
		by_others++;
	tick(&taken);
}

static void *computes(void *arg)
{
	tick(&begun);
	while (!stop)
		continue;
	return arg;
}

static void *naps(void *arg)
{
	tick(&begun);
	while (!stop)
		usleep(500);
	return arg;
}

/* Others run, and sleep, and do not block it. They have begun: natively a thread that begins has
 * its mask set, would take what the first is slow to take, and the next as its handler ends, and so
 * on. */
static void among_others(pthread_t t[3])
{
	first = pthread_self();
	start(t, 2, computes, NULL);
	start(t + 2, 1, naps, NULL);
	await(&begun, 3);
}

/* Else the next would go to others as long as the handler runs. */
static void handle(int sig, void (*handler)(int))
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_NODEFER };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

static void end(pthread_t t[3])
{
	stop = true;
	join(t, 3);
}

TEST(each_alarm_interrupts_the_first_thread)
{
	struct itimerval each = { { 0, 3000 }, { 0, 3000 } }, none = { { 0, 0 }, { 0, 0 } };
	pthread_t t[3];

	handle(SIGALRM, counts);
	among_others(t);
	EXPECT_EQ(setitimer(ITIMER_REAL, &each, NULL), 0);
	for (int i = 0; i < SIGNALS; i++)
		FAILS(pause(), EINTR);
	EXPECT_EQ(setitimer(ITIMER_REAL, &none, NULL), 0);
	EXPECT(by_others <= FEW);
	end(t);
}

static void are_of_those_who_compute(__itimer_which_t which, int sig)
{
	enum { SAMPLES = 60, EACH_US = 2000 };
	struct itimerval often = { { 0, EACH_US }, { 0, EACH_US } };

	by_first = by_others = 0;
	taken.n = 0;
	handle(sig, counts);
	EXPECT_EQ(setitimer(which, &often, NULL), 0);
	await(&taken, SAMPLES);
	EXPECT_EQ(setitimer(which, &(struct itimerval){ 0 }, NULL), 0);
	test_say("  of the first %d, of others %d", by_first, by_others);
	/* Who makes the calls here computes for a moment, too. */
	EXPECT(by_first <= SAMPLES / 10);
}

/* As profilers have it. */
TEST(the_time_of_cpus_that_is_over_interrupts_those_who_use_it)
{
	pthread_t t[3];

	among_others(t);
	are_of_those_who_compute(ITIMER_PROF, SIGPROF);
	are_of_those_who_compute(ITIMER_VIRTUAL, SIGVTALRM);
	end(t);
}

TEST(what_another_process_sends_interrupts_the_first_thread)
{
	pid_t parent = getpid(), child;
	pthread_t t[3];

	handle(SIGUSR1, counts);
	among_others(t);
	child = fork();
	while (child == 0 && getppid() == parent) {
		usleep(2000);
		kill(parent, SIGUSR1);
	}
	for (int i = 1; i <= SIGNALS; i++) {
		FAILS(usleep(PATIENCE_US), EINTR);
		EXPECT(by_first >= i);
	}
	EXPECT_EQ(kill(child, SIGKILL), 0);
	while (waitpid(child, NULL, 0) != child)
		EXPECT_EQ(errno, EINTR);
	EXPECT(by_others <= FEW);
	end(t);
}

/* As a timer would. */
static void *goes_on_killing(void *arg)
{
	while (!stop) {
		usleep(2000);
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	}
	return arg;
}

TEST(what_another_thread_sends_the_process_interrupts_the_first)
{
	pthread_t t[3], sender;

	handle(SIGUSR1, counts);
	among_others(t);
	start(&sender, 1, goes_on_killing, NULL);
	for (int i = 1; i <= SIGNALS; i++) {
		FAILS(usleep(PATIENCE_US), EINTR);
		EXPECT(by_first >= i);
	}
	end(t);
	join(&sender, 1);
	EXPECT(by_others <= FEW);
}

static void passes(int turns)
{
	for (volatile int i = 0; i < turns; i++)
		continue;
}

static void *kills_its_process(void *arg)
{
	EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	return arg;
}

/* Sent while the first may take it, and it blocks it at about that time, for long. */
TEST(who_blocks_a_signal_of_the_process_leaves_it_to_others)
{
	pthread_t t[3], sender;

	handle(SIGUSR1, counts);
	among_others(t);
	for (int i = 1; i <= 2 * SIGNALS; i++) {
		start(&sender, 1, kills_its_process, NULL);
		passes(i * 1000);
		mask(SIG_BLOCK, SIGUSR1);
		EXPECT(comes_within_us(&taken, i, PATIENCE_US));
		EXPECT_EQ(by_first + by_others, i);
		join(&sender, 1);
		mask(SIG_UNBLOCK, SIGUSR1);
	}
	end(t);
}

/* ---- who has nothing to do with them ---- */

static pid_t lasting;

static void *waits_for_it(void *arg)
{
	int status;

	EXPECT_EQ(waitpid(lasting, &status, 0), lasting);
	EXPECT_EQ(status, 0);
	return arg;
}

static int locked_file;

static void *waits_for_the_lock(void *arg)
{
	int fd = open("/proc/self/fd/9", O_RDWR);

	(void)arg;
	EXPECT(fd >= 0);
	EXPECT_EQ(flock(fd, LOCK_EX), 0);
	return NULL;
}

TEST(a_call_of_another_thread_is_not_interrupted)
{
	pthread_t t[3], waiters[2], sender;
	int until[2];
	char end_of_it;

	locked_file = memfd_create("lock", 0);
	EXPECT_EQ(dup2(locked_file, 9), 9);
	EXPECT_EQ(flock(9, LOCK_EX), 0);
	EXPECT_EQ(pipe(until), 0);
	lasting = fork();
	if (lasting == 0) {
		close(until[1]);
		_exit((int)read(until[0], &end_of_it, 1));
	}
	handle(SIGUSR1, counts);
	among_others(t);
	start(&waiters[0], 1, waits_for_it, NULL);
	start(&waiters[1], 1, waits_for_the_lock, NULL);
	start(&sender, 1, goes_on_killing, NULL);
	await(&taken, 2 * SIGNALS);
	close(until[1]);
	join(waiters, 1);
	EXPECT_EQ(flock(9, LOCK_UN), 0);
	join(waiters + 1, 1);
	end(t);
	join(&sender, 1);
}

/* ---- what comes with them ---- */

static void told(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_code != SI_QUEUE || info->si_pid != getpid() || info->si_uid != getuid() ||
	    info->si_value.sival_int != last + 1)
		wrong++;
	last++;
	tick(&taken);
}

static void *queues(void *arg)
{
	for (int i = 1; i <= QUEUED; i++)
		EXPECT_EQ(pthread_sigqueue(first, SIGRTMIN + 1, (union sigval){ .sival_int = i }),
			  0);
	return arg;
}

static void all_are_told(void)
{
	EXPECT(comes_within_us(&taken, QUEUED, PATIENCE_US));
	EXPECT_EQ(last, QUEUED);
	EXPECT_EQ(wrong, 0);
	last = taken.n = 0;
}

TEST(each_queued_signal_brings_its_value_in_the_order_of_sending)
{
	struct sigaction act = { .sa_sigaction = told, .sa_flags = SA_SIGINFO };
	pthread_t t[3], sender;

	EXPECT_EQ(sigaction(SIGRTMIN + 1, &act, NULL), 0);
	among_others(t);
	start(&sender, 1, queues, NULL);
	join(&sender, 1);
	all_are_told();
	mask(SIG_BLOCK, SIGRTMIN + 1);
	start(&sender, 1, queues, NULL);
	join(&sender, 1);
	EXPECT_EQ(last, 0);
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	all_are_told();
	end(t);
}

TEST(a_wait_for_queued_signals_is_told_their_values_in_order)
{
	pthread_t t[3], sender;
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	mask(SIG_BLOCK, SIGRTMIN + 1);
	among_others(t);
	start(&sender, 1, queues, NULL);
	for (int i = 1; i <= QUEUED; i++) {
		EXPECT_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 1);
		EXPECT_EQ(info.si_value.sival_int, i);
		EXPECT_EQ(info.si_code, SI_QUEUE);
	}
	join(&sender, 1);
	end(t);
}

static void *queues_thousands(void *arg)
{
	for (int i = 1; i <= THOUSANDS; i++)
		EXPECT_EQ(pthread_sigqueue(first, SIGRTMIN + 1, (union sigval){ .sival_int = i }),
			  0);
	return arg;
}

/* As many as the process may have. */
TEST(thousands_of_queued_signals_are_kept_for_one_thread)
{
	struct sigaction act = { .sa_sigaction = told, .sa_flags = SA_SIGINFO };
	struct rlimit most;

	EXPECT_EQ(getrlimit(RLIMIT_SIGPENDING, &most), 0);
	if (most.rlim_cur < THOUSANDS + QUEUED) {
		test_say("  skipped: no more than %lu may be pending",
			 (unsigned long)most.rlim_cur);
		return;
	}
	EXPECT_EQ(sigaction(SIGRTMIN + 1, &act, NULL), 0);
	first = pthread_self();
	mask(SIG_BLOCK, SIGRTMIN + 1);
	on_thread(queues_thousands, NULL);
	EXPECT_EQ(last, 0);
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	EXPECT(comes_within_us(&taken, THOUSANDS, PATIENCE_US));
	EXPECT_EQ(last, THOUSANDS);
	EXPECT_EQ(wrong, 0);
}

/* All block it, so it is the process's; each who may take it unblocks it, one after the other. */
TEST(what_is_queued_for_the_process_keeps_its_values)
{
	struct sigaction act = { .sa_sigaction = told, .sa_flags = SA_SIGINFO };
	pthread_t t[3];

	EXPECT_EQ(sigaction(SIGRTMIN + 1, &act, NULL), 0);
	mask(SIG_BLOCK, SIGRTMIN + 1);
	among_others(t);
	for (int i = 1; i <= QUEUED; i++)
		EXPECT_EQ(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i }), 0);
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	all_are_told();
	end(t);
}

static void is_from_a_user(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_code != SI_USER || info->si_pid != getpid() || info->si_uid != getuid())
		wrong++;
	last++;
	tick(&taken);
}

static void *kills_twice(void *arg)
{
	EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	await(&taken, 1);
	mask(SIG_UNBLOCK, SIGUSR2);
	EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
	EXPECT_EQ(last, 2);
	return arg;
}

TEST(kill_says_that_it_was_kill)
{
	struct sigaction act = { .sa_sigaction = is_from_a_user, .sa_flags = SA_SIGINFO };
	pthread_t t;

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
	mask(SIG_BLOCK, SIGUSR2);
	start(&t, 1, kills_twice, NULL);
	join(&t, 1);
	EXPECT_EQ(wrong, 0);
}

/* ---- to a thread, or to its process ---- */

enum { ROUNDS = 2000, TO_THREAD = 1, TO_PROCESS = 2 };

static _Atomic int to_thread, to_process, round_of, done;

static void tells_whose(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (info->si_value.sival_int == TO_PROCESS) {
		to_process++;
	} else {
		to_thread++;
		if (info->si_value.sival_int != TO_THREAD || !pthread_equal(pthread_self(), first))
			wrong++;
	}
	tick(&taken);
}

static void *queues_both(void *arg)
{
	union sigval thread = { .sival_int = TO_THREAD }, process = { .sival_int = TO_PROCESS };

	for (int i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(pthread_sigqueue(first, SIGRTMIN + 1, thread), 0);
		EXPECT_EQ(sigqueue(getpid(), SIGRTMIN + 1, process), 0);
		/* The kernel has room for so many. */
		await(&taken, 2 * i - 100);
	}
	stop = true;
	return arg;
}

/* Of the same number: when the first comes to block it only the process's go to others. */
TEST(what_is_queued_for_a_thread_stays_with_it)
{
	struct sigaction act = { .sa_sigaction = tells_whose, .sa_flags = SA_SIGINFO };
	pthread_t t[2];

	EXPECT_EQ(sigaction(SIGRTMIN + 1, &act, NULL), 0);
	first = pthread_self();
	start(t, 1, queues_both, NULL);
	start(t + 1, 1, naps, NULL);
	for (int i = 0; !stop; i++) {
		mask(SIG_BLOCK, SIGRTMIN + 1);
		passes(i * 7 % 3000);
		mask(SIG_UNBLOCK, SIGRTMIN + 1);
		passes(i * 11 % 3000);
	}
	join(t, 2);
	EXPECT(comes_within_us(&taken, 2 * ROUNDS, PATIENCE_US));
	EXPECT_EQ(to_thread, ROUNDS);
	EXPECT_EQ(to_process, ROUNDS);
	EXPECT_EQ(wrong, 0);
}

static void *kills_each_round(void *arg)
{
	for (int i = 1; i <= ROUNDS; i++) {
		while (round_of < i)
			sched_yield();
		passes(i * 7 % 200);
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	}
	return arg;
}

/* The sender does not block it, so whatever the first does, nobody waits for it. */
TEST(a_signal_is_taken_though_the_first_thread_blocks_it_as_it_is_sent)
{
	pthread_t t;

	handle(SIGUSR1, counts);
	first = pthread_self();
	start(&t, 1, kills_each_round, NULL);
	for (int i = 1; i <= ROUNDS; i++) {
		round_of = i;
		passes(i * 11 % 400);
		mask(SIG_BLOCK, SIGUSR1);
		EXPECT(comes_within_us(&taken, i, PATIENCE_US));
		EXPECT_EQ(by_first + by_others, i);
		mask(SIG_UNBLOCK, SIGUSR1);
	}
	join(&t, 1);
}

static void *kills_on(void *arg)
{
	for (int i = 0; i < THOUSANDS; i++)
		EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	stop = true;
	return arg;
}

/* What is meant for the first, which comes to block it, goes by way of others to the sender, whom
 * it may find at that. */
TEST(who_sends_may_be_interrupted_by_what_it_sends)
{
	pthread_t t;

	handle(SIGUSR1, counts);
	first = pthread_self();
	start(&t, 1, kills_on, NULL);
	while (!stop) {
		mask(SIG_BLOCK, SIGUSR1);
		passes(100);
		mask(SIG_UNBLOCK, SIGUSR1);
	}
	join(&t, 1);
	EXPECT(by_first + by_others > 0);
}

static void keeps(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	last = info->si_value.sival_int;
}

static void *sends_many(void *arg)
{
	for (int i = 1; i <= ROUNDS; i++) {
		while (round_of < i)
			sched_yield();
		for (int k = 0; k < 20; k++) {
			EXPECT_EQ(pthread_sigqueue(first, SIGUSR1, (union sigval){ 0 }), 0);
			passes((i + k) * 7 % 100);
		}
		done++;
	}
	return arg;
}

/* Many come at once, of which one is pending and the others are none; nothing stays of these. */
TEST(signals_that_were_merged_leave_no_value_behind)
{
	struct sigaction act = { .sa_sigaction = keeps, .sa_flags = SA_SIGINFO | SA_NODEFER };
	pthread_t t[3];

	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	first = pthread_self();
	start(t, 3, sends_many, NULL);
	for (int i = 1; i <= ROUNDS; i++) {
		round_of = i;
		while (done < 3 * i)
			sched_yield();
		EXPECT_EQ(pthread_sigqueue(first, SIGUSR1, (union sigval){ .sival_int = i }), 0);
		EXPECT_EQ(last, i);
	}
	join(t, 3);
}

static void *kills_its_group(void *arg)
{
	for (int i = 1; i <= SIGNALS; i++) {
		EXPECT_EQ(kill(0, SIGUSR1), 0);
		await(&taken, i);
	}
	tick(&over);
	return arg;
}

TEST(a_signal_to_the_group_interrupts_the_first_thread)
{
	pthread_t t[3], sender;

	EXPECT_EQ(setpgid(0, 0), 0);
	handle(SIGUSR1, counts);
	among_others(t);
	start(&sender, 1, kills_its_group, NULL);
	await(&over, 1);
	join(&sender, 1);
	EXPECT(by_others <= FEW);
	end(t);
}

static void *sends_two_and_takes_one(void *arg)
{
	struct timespec patience = { .tv_sec = 2 };
	sigset_t set;

	settle();
	EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
	await(&over, 1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	EXPECT_EQ(sigtimedwait(&set, NULL, &patience), SIGUSR2);
	return arg;
}

TEST(who_waits_for_two_signals_and_takes_one_leaves_the_other)
{
	sigset_t set;
	pthread_t t;

	handle(SIGUSR1, counts);
	handle(SIGUSR2, counts);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	for (int i = 0; i < SIGNALS; i++) {
		over.n = 0;
		EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
		start(&t, 1, sends_two_and_takes_one, NULL);
		EXPECT_EQ(sigwaitinfo(&set, NULL), SIGUSR1);
		tick(&over);
		join(&t, 1);
		EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	}
	EXPECT_EQ(by_first + by_others, 0);
}
