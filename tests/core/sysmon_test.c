/* What sysmon sees to: Ps of Ms that block, timers behind hogs, its own sleep, its line. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "raw.h"
#include "sched.h"

static struct group grp, guests;
static ATOMIC(uint32_t) stop;

static void hog(void *arg)
{
	(void)arg;
	compute_until(&stop);
	group_done(&grp);
}

static struct stats summed(void)
{
	struct stats sum;
	stats_sum(&sum);
	return sum;
}

static bool no_signal(void)
{
	if (!can_preempt())
		skipped("this build cannot stop a G by signal");
	return !can_preempt();
}

/* ---- a P comes back from an M that blocks ---- */
enum { ROUNDS = 40 };

static int pipe_fd[2];
static ATOMIC(uint64_t) blocked_at;
static ATOMIC(uint32_t) answers;
static uint64_t took[ROUNDS];

/* Reads one byte in each round, which is only written once others have run. */
static void blocks_unannounced(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char c = 0;
		st_sc(&blocked_at, now_ns());
		EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), 1);
		EXPECT_EQ(c, i);
		raise_by(&answers, 1);
		gosched();
	}
	group_done(&grp);
}

static void blocks_announced(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char c = 0;
		st_sc(&blocked_at, now_ns());
		entersyscall();
		long n = raw_read(pipe_fd[0], &c, 1);
		exitsyscall();
		EXPECT_EQ(n, 1);
		EXPECT_EQ(c, i);
		raise_by(&answers, 1);
		gosched();
	}
	group_done(&grp);
}

/* The caller and one that blocks share one P: the caller's turn comes when the P was taken. */
static void time_blocks(void (*blocks)(void *))
{
	st_sc(&answers, 0);
	grp.left = 1;
	go(blocks, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char c = (unsigned char)i;
		uint64_t at;
		while ((at = ld_sc(&blocked_at)) == 0)
			gosched();
		took[i] = now_ns() - at;
		EXPECT_EQ(ld_sc(&answers), i);
		st_sc(&blocked_at, 0);
		EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
		/* It comes back without a P and wins ours when we sleep. */
		wait_raised(&answers, (uint32_t)i + 1);
	}
	group_wait(&grp);
}

static void others_run(void (*blocks)(void *), const char *what, uint64_t most)
{
	raw_pipe(pipe_fd, 0);
	start(1);
	time_blocks(blocks);
	say_spread(what, took, ROUNDS);
	EXPECT(at_best(took, ROUNDS) < most);
	EXPECT(took[ROUNDS - 1] < SLOW_NS);
}

TEST(an_unannounced_block_does_not_hold_its_p)
{
	others_run(blocks_unannounced, "P retaken from an unannounced block after", 20 * MS);
	EXPECT(summed().retakeblock > 0);
}

/* A first block is a millisecond old when it is found; or a half, as a sleeper of ours is due.
 * Until the machine lets us see it. */
TEST(who_blocks_unannounced_again_is_found_sooner)
{
	raw_pipe(pipe_fd, 0);
	start(1);
	do {
		time_blocks(blocks_unannounced);
		sort_ns(took, ROUNDS);
	} while (at_best(took, ROUNDS) > 4 * MS / 10);
}

TEST(an_announced_block_does_not_hold_its_p)
{
	others_run(blocks_announced, "P retaken from an announced call after", 15 * MS);
	EXPECT(summed().retakecall > 0);
}

/* ---- it has no cpu ---- */
static ATOMIC(uint32_t) served;

/* Takes the cpu from who is in the call there until the P was another's. */
static void *takes_its_cpu(void *arg)
{
	char c;

	(void)arg;
	EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), 1);
	while (!ld_acq(&served))
		continue;
	return NULL;
}

static void calls_without_a_cpu(void *arg)
{
	static const struct sched_param none;

	/* Whoever wants its cpu has it. */
	EXPECT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
	EXPECT_EQ(sched_setaffinity(0, sizeof(cpu_set_t), arg), 0);
	st_sc(&blocked_at, now_ns());
	entersyscall();
	EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
	while (!ld_acq(&served))
		continue;
	exitsyscall();
	group_done(&grp);
}

TEST(a_call_that_waits_for_a_cpu_keeps_its_p_for_a_slice)
{
	pthread_attr_t there;
	pthread_t other;
	cpu_set_t one;

	raw_pipe(pipe_fd, 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	pthread_attr_init(&there);
	pthread_attr_setaffinity_np(&there, sizeof(one), &one);
	EXPECT_EQ(pthread_create(&other, &there, takes_its_cpu, NULL), 0);
	start(1);
	grp.left = 1;
	go(calls_without_a_cpu, &one);
	while (summed().retakecall == 0)
		gosched();
	EXPECT(now_ns() - ld_sc(&blocked_at) >= CHOOSE_SLICE_NS);
	st_rel(&served, 1);
	group_wait(&grp);
	pthread_join(other, NULL);
}

/* ---- it comes back while the only P is busy ---- */
static void comes_back(void *arg)
{
	uint64_t *sum = arg;

	for (int i = 0; i < 20; i++) {
		unsigned char c = 0;
		EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), 1);
		*sum += c;
		if (i % 2)
			goyield();
		else
			sleep_ns(1 * MS);
	}
	group_done(&guests);
}

TEST(one_that_comes_back_to_a_busy_p_queues_for_it)
{
	uint64_t sum = 0;

	if (no_signal())
		return;
	raw_pipe(pipe_fd, 0);
	start(1);
	grp.left = guests.left = 1;
	go(hog, NULL);
	go(comes_back, &sum);
	for (int i = 0; i < 20; i++) {
		unsigned char c = (unsigned char)i;
		sleep_ns(5 * MS);
		EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
	}
	group_wait(&guests);
	st_rlx(&stop, 1);
	group_wait(&grp);
	EXPECT_EQ(sum, 190);
}

/* ---- calls so short that sysmon never sees one twice ---- */
static void many_calls(void *arg)
{
	uint64_t us = (uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		uint64_t until = now_ns() + us * US;
		entersyscall();
		/* Stands for a file's read: the kernel thread is busy, or asleep. */
		if (us >= 1000)
			raw_sleep(us * US);
		else
			while (now_ns() < until)
				;
		exitsyscall();
	}
	group_done(&grp);
}

/* Beside a G that is nearly always in short announced calls, on its P, others have turns. */
static void turns_beside_calls(uintptr_t us)
{
	uint64_t t;

	start(1);
	grp.left = 1;
	go(many_calls, (void *)us);
	for (int i = 0; i < ROUNDS; i++) {
		/* Until sysmon looks every 10 ms only. */
		t = now_ns();
		burn_ns(20 * MS);
		gosched();
		took[i] = now_ns() - t - 20 * MS;
	}
	st_rlx(&stop, 1);
	group_wait(&grp);
	say_spread("turns beside one that makes calls come after", took, ROUNDS);
	EXPECT(at_best(took, ROUNDS) < 40 * MS);
	EXPECT(took[ROUNDS - 1] < SLOW_NS);
}

TEST(calls_of_five_microseconds_do_not_keep_a_p)
{
	turns_beside_calls(5);
}

TEST(calls_of_fifty_microseconds_do_not_keep_a_p)
{
	turns_beside_calls(50);
}

TEST(calls_of_three_milliseconds_do_not_keep_a_p)
{
	turns_beside_calls(3000);
}

/* ---- timers behind hogs ---- */
enum { NAPS = 500 };

static uint64_t late[NAPS];

static void napper(void *arg)
{
	(void)arg;
	for (int i = 0; i < NAPS; i++) {
		uint64_t due = now_ns() + 1 * MS;
		EXPECT_EQ(gosleep(1, due), 0);
		late[i] = now_ns() - due;
	}
	group_done(&guests);
}

static ATOMIC(uint64_t) worked;

/* Counts what it gets done. */
static void worker(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("");
		add_rlx(&worked, 1);
	}
	group_done(&grp);
}

/* What hogs get done in so many ms, for the cpu time that all of us have had. */
static uint64_t work_in(uint64_t ms)
{
	uint64_t before = ld_rlx(&worked), t = cpu_ns();

	sleep_ns(ms * MS);
	return (ld_rlx(&worked) - before) * 1000 / ((cpu_ns() - t) / US);
}

static void served_early(int procs)
{
	start(procs);
	grp.left = (uint32_t)procs;
	guests.left = 1;
	for (int i = 0; i < procs; i++)
		go(worker, NULL);
	uint64_t alone = work_in(400);
	go(napper, NULL);
	uint64_t beside = work_in(400);
	group_wait(&guests);
	st_rlx(&stop, 1);
	group_wait(&grp);
	say_spread("a sleeper of 1 ms beside hogs is late by", late, NAPS);
	test_say("  the hogs did %lld percent of what they do alone",
		 (long long)(beside * 100 / alone));
	/* Served when the slice ends it would be late by 9 ms each time. */
	EXPECT(at_best(late, NAPS) < 8 * MS);
	EXPECT(late[NAPS - 1] < SLOW_NS);
	EXPECT(beside * 100 / alone > 25);
}

TEST(a_sleeper_is_served_beside_a_hog)
{
	if (!no_signal())
		served_early(1);
}

TEST(a_sleeper_is_served_beside_as_many_hogs_as_ps)
{
	if (!no_signal())
		served_early(2);
}

static ATOMIC(uint64_t) disturbed;

/* Works for longer than a hog may beside a sleeper, but waits by itself now and then. It is not
 * like one that spins, as a loop is that reads the clock. Disturbed: the kernel gave its cpu to
 * others for so long that its slice may have been over. */
static void works_and_waits(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		uint64_t began = now_ns();
		while (now_ns() - began < 3 * MS)
			compute(10000);
		add_rlx(&disturbed, now_ns() - began > CHOOSE_SLICE_NS / 2);
		add_rlx(&worked, 1);
		sleep_ns(100 * US);
	}
	group_done(&grp);
}

/* It is not interrupted in what others may wait for. */
TEST(who_waits_by_himself_is_not_stopped_for_a_sleeper)
{
	if (no_signal())
		return;
	start(1);
	grp.left = guests.left = 1;
	go(works_and_waits, NULL);
	go(napper, NULL);
	group_wait(&guests);
	st_rlx(&stop, 1);
	group_wait(&grp);
	say_spread("a sleeper of 1 ms beside it is late by", late, NAPS);
	test_say("  it was stopped %llu times, disturbed %llu times",
		 (unsigned long long)summed().preempts, (unsigned long long)ld_rlx(&disturbed));
	/* The sleeper had to wait for it. */
	EXPECT(ld_rlx(&worked) > NAPS / 10);
	/* For nearly each nap, if it were as a hog is. */
	EXPECT(summed().preempts < NAPS / 10 + ld_rlx(&disturbed));
	EXPECT(late[NAPS - 1] < SLOW_NS);
}

/* ---- without a P ---- */
enum { BURNERS = 6 };

static ATOMIC(uint32_t) waiting;
static struct g *burners[BURNERS];

/* Blocks unannounced until it is told, then computes without a call of the core. */
static void burner(void *arg)
{
	unsigned char c;

	(void)arg;
	add_sc(&waiting, 1);
	EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), 1);
	compute_until(&stop);
	group_done(&grp);
}

static int without_p(void)
{
	int n = 0;
	for (int i = 0; i < BURNERS; i++)
		n += (ld_acq(&burners[i]->status) & ~(uint32_t)GCLAIM) == GOFFP;
	return n;
}

/* A kernel thread that is no M: it sees what sysmon does while every G waits. */
static ATOMIC(uint32_t) done;
static uint64_t settled;
static bool slept_deeply;

static bool wait_for_deep_sleep(void)
{
	for (int i = 0; i < 20000; i++) {
		if (ld_sc(&sched.sysmonwait))
			return true;
		usleep(1000);
	}
	return false;
}

static void *release_burners(void *arg)
{
	char bytes[BURNERS] = { 0 };

	while (ld_sc(&waiting) != BURNERS || without_p() != BURNERS)
		usleep(1000);
	/* Beside hogs it never does. */
	slept_deeply = !arg && wait_for_deep_sleep();
	uint64_t t = now_ns();
	EXPECT_EQ(write(pipe_fd[1], bytes, BURNERS), BURNERS);
	usleep(1000);
	while (without_p() != 0 && now_ns() - t < SLOW_NS)
		usleep(1000);
	settled = now_ns() - t;
	st_sc(&done, 1);
	futex_wake(&done, 1, (uint32_t)FUTEX_ANY, 0);
	return NULL;
}

static void alone_again(bool busy)
{

	raw_pipe(pipe_fd, 0);
	start(2);
	/* From here on the caller's errno and its like are on an FS base of its own. */
	watcher(release_burners, busy ? &stop : NULL);
	grp.left = BURNERS + (busy ? 2 : 0);
	for (int i = 0; i < BURNERS; i++)
		burners[i] = go(burner, NULL);
	for (int i = 0; i < 2 && busy; i++)
		go(hog, NULL);
	while (!ld_sc(&done))
		futex_wait(&done, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  no G ran without a P after %lld us%s", (long long)settled / US,
		 slept_deeply ? "; sysmon had been asleep" : "");
	EXPECT(settled < SLOW_NS);
}

TEST(those_who_come_back_and_compute_soon_have_a_p_or_queue)
{
	if (!no_signal())
		alone_again(true);
}

TEST(those_who_come_back_and_compute_wake_sysmon_from_its_deep_sleep)
{
	if (!no_signal())
		alone_again(false);
}

/* ---- sleep ---- */
static void *look_at_sysmon(void *arg)
{
	(void)arg;
	slept_deeply = wait_for_deep_sleep();
	st_sc(&done, 1);
	futex_wake(&done, 1, (uint32_t)FUTEX_ANY, 0);
	return NULL;
}

TEST(sysmon_sleeps_deeply_when_every_p_is_idle_and_wakes_when_one_is_not)
{

	start(2);
	watcher(look_at_sysmon, NULL);
	while (!ld_sc(&done))
		futex_wait(&done, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	EXPECT(slept_deeply);
	EXPECT_EQ(ld_sc(&sched.sysmonwait), 0);
	/* And keeps its promises again. */
	raw_pipe(pipe_fd, 0);
	grp.left = 1;
	go(blocks_unannounced, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char c = (unsigned char)i;
		EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
	}
	group_wait(&grp);
}

/* ---- its line ---- */
static void trace_often(struct core_config *config)
{
	config->schedtrace = 20;
}

TEST(a_line_of_schedtrace_comes_every_so_often)
{
	static char text[65536];
	uint64_t begin = now_ns();
	int lines = 0, fd[2];

	EXPECT_EQ(pipe2(fd, O_NONBLOCK), 0);
	EXPECT_EQ(dup2(fd[1], 2), 2);
	start_with(3, trace_often);
	sleep_ns(500 * MS);
	long n = raw_read(fd[0], text, sizeof(text) - 1);
	EXPECT(n > 0);
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		unsigned long long ms;
		int procs, idle, threads, spinning, needspinning, idlethreads, runqueue, at = 0;
		*end = 0;
		EXPECT_EQ(
			sscanf(line,
			       "SCHED %llums: gomaxprocs=%d idleprocs=%d threads=%d spinningthreads=%d"
			       " needspinning=%d idlethreads=%d runqueue=%d [ %n",
			       &ms, &procs, &idle, &threads, &spinning, &needspinning, &idlethreads,
			       &runqueue, &at),
			8);
		EXPECT(at > 0);
		EXPECT_EQ(procs, 3);
		EXPECT(idle >= 0 && idle <= 3 && threads >= 2);
		EXPECT(strstr(line, "schedticks=[ ") != NULL);
		lines++;
	}
	uint64_t ms = (now_ns() - begin) / MS;
	test_say("  %lld lines in %lld ms; one each 20 ms was asked for", (long long)lines,
		 (long long)ms);
	EXPECT(lines >= 3 && (uint64_t)lines <= ms / 20 + 1);
}

/* ---- those whom sysmon wakes are not dead ---- */
static ATOMIC(uint32_t) called_dead;

static void note_dead(void)
{
	add_rlx(&called_dead, 1);
}

static void tell_me(struct core_config *config)
{
	config->alldead = note_dead;
}

/* Each time one of them wakes it is sysmon or an M that finds the timer due; in sysmon's
 * hands a G is in no queue and in no heap, while the last M may fall asleep. */
static void short_sleeper(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;

	for (uint64_t until = now_ns() + 1500 * (uint64_t)MS; now_ns() < until;)
		sleep_ns(random_below(&seed, 300) * US);
	group_done(&grp);
}

static void not_dead(int procs, uint32_t sleepers)
{
	start_with(procs, tell_me);
	grp.left = sleepers;
	for (uintptr_t i = 0; i < sleepers; i++)
		go(short_sleeper, (void *)i);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&called_dead), 0);
}

TEST(one_who_sleeps_is_not_called_dead)
{
	not_dead(1, 1);
}

TEST(those_who_sleep_are_not_called_dead)
{
	not_dead(2, 3);
}

/* ---- the program's table of descriptors is its own ---- */
static void blocks_briefly(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		raw_sleep(3 * MS);
		gosched();
	}
	group_done(&grp);
}

/* A program that opens gets the lowest free number, and what it puts at a number by dup2
 * stays there: so nobody else opens or closes anything while it runs. */
static ATOMIC(uint32_t) strange, opens;

static void *open_and_close(void *arg)
{
	int lowest = (int)(uintptr_t)arg;

	while (!ld_sc(&stop)) {
		int fd = open("/dev/null", O_RDONLY);
		add_rlx(&opens, 1);
		if (fd != lowest)
			add_rlx(&strange, 1);
		close(fd);
	}
	st_sc(&done, 1);
	futex_wake(&done, 1, (uint32_t)FUTEX_ANY, 0);
	return NULL;
}

TEST(sysmon_takes_no_descriptor_of_the_program)
{
	if (!can_preempt())
		skipped("the host makes the threads");
	start(2);
	int lowest = open("/dev/null", O_RDONLY);
	close(lowest);
	watcher(open_and_close, (void *)(uintptr_t)lowest);
	grp.left = 4;
	for (int i = 0; i < 4; i++)
		go(blocks_briefly, NULL);
	sleep_ns(2000 * (uint64_t)MS);
	st_sc(&stop, 1);
	group_wait(&grp);
	while (!ld_sc(&done))
		futex_wait(&done, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	test_say("  of %lld opens %lld got another number than the lowest",
		 (long long)ld_rlx(&opens), (long long)ld_rlx(&strange));
	EXPECT_EQ(ld_rlx(&strange), 0);
}

/* Nor does it keep alive what the program has closed. */
TEST(sysmon_holds_no_descriptor_of_the_program)
{
	int fd[2];
	char c;

	if (!can_preempt())
		skipped("the host makes the threads");
	EXPECT_EQ(pipe(fd), 0);
	start(2);
	sleep_ns(20 * MS);
	close(fd[1]);
	EXPECT_EQ(raw_read(fd[0], &c, 1), 0);
}
