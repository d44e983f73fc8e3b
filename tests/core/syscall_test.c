/* Announced system calls: a long one gives its P away, a short one keeps it, and whoever
 * comes back gets his old P, another, or queues. The calls end when another side says so. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "host.h"
#include "preempt.h"
#include "raw.h"
#include "sched.h"
#include "syscall.h"

static struct group grp;
static ATOMIC(uint32_t) ran;
static ATOMIC(bool) stop;
static int pipefd[2];

static void read_one(void)
{
	char c;
	EXPECT_EQ(arch_syscall3(__NR_read, pipefd[0], (long)&c, 1), 1);
}

static void write_one(void)
{
	EXPECT_EQ(arch_syscall3(__NR_write, pipefd[1], (long)"x", 1), 1);
}

static struct stats stats(void)
{
	struct stats s;
	stats_sum(&s);
	return s;
}

static void read_announced(void *arg)
{
	(void)arg;
	entersyscall();
	read_one();
	exitsyscall();
	add_rlx(&ran, 1);
	group_done(&grp);
}

static void until_status(struct g *gp, uint32_t status)
{
	while (ld_acq(&gp->status) != status)
		os_yield();
}

/* The call can not end before we ran. */
TEST(a_long_call_gives_its_p_away)
{
	start(1);
	EXPECT_EQ(pipe(pipefd), 0);
	for (int i = 0; i < 100; i++) {
		grp.left = 1;
		struct g *gp = go(read_announced, NULL);
		while (ld_acq(&gp->status) != GSYSCALLNOP)
			gosched();
		write_one();
		group_wait(&grp);
	}
	EXPECT(stats().retakecall >= 100);
}

static void counts(void *arg)
{
	(void)arg;
	add_rlx(&ran, 1);
	group_done(&grp);
}

static void counts_and_tells(void *arg)
{
	counts(arg);
	write_one();
}

/* One that waits for it has the P before the call has begun. */
TEST(a_p_is_lent_at_once)
{
	uint32_t lasted = 0;

	start(1);
	EXPECT_EQ(pipe(pipefd), 0);
	for (int i = 0; i < 100; i++) {
		grp.left = 1;
		go(counts_and_tells, NULL);
		EXPECT(core_lend());
		EXPECT_EQ(ld_acq(&gself()->status), GOFFP);
		entersyscall();
		read_one();
		raw_sleep(MS / 10);
		lasted += exitsyscall();
		group_wait(&grp);
	}
	EXPECT(stats().retakecall >= 100);
	/* But those of which the kernel kept the P's M from the cpu. */
	EXPECT(lasted > 50);
}

/* And an idle P for whoever is made ready meanwhile, if nobody does yet. Who lends hears whether it
 * was worth it. */
TEST(a_p_is_lent_though_nobody_waits_and_a_call_that_comes_back_at_once_did_not_last)
{
	enum { CALLS = 100 };
	uint32_t lasted = 0;

	start(1);
	for (int i = 0; i < CALLS; i++) {
		EXPECT(core_lend());
		EXPECT_EQ(ld_acq(&gself()->status), GOFFP);
		entersyscall();
		lasted += exitsyscall();
	}
	/* Those that the kernel kept from the cpu. */
	EXPECT(lasted <= CALLS / 2);
	lasted = 0;
	for (int i = 0; i < CALLS; i++) {
		EXPECT(core_lend());
		entersyscall();
		raw_sleep(MS / 10);
		lasted += exitsyscall();
	}
	EXPECT(lasted > CALLS / 2);
}

static ATOMIC(bool) computed;

static void has_the_p(void *arg)
{
	volatile uint64_t n = 0;

	(void)arg;
	while (!ld_rlx(&computed)) {
		uint64_t until = nanotime() + 6 * MS;
		/* Not one that waits in a loop, whose slices are short. */
		for (uint64_t i = 0; i % 4096 != 0 || nanotime() < until; i++)
			n = n * 5 + i;
		gosched();
	}
	group_done(&grp);
}

/* Who comes back waits for the end of the other's slice. */
TEST(a_call_that_took_less_than_the_wait_for_a_p_was_not_worth_it)
{
	enum { CALLS = 20 };
	uint32_t lasted = 0;

	start(1);
	grp.left = 1;
	go(has_the_p, NULL);
	for (int calls = 0; calls < CALLS;) {
		uint64_t took = nanotime();
		/* Nor is a slice ended for it: guest.h. */
		getg()->doubt = 10;
		EXPECT(core_lend());
		entersyscall();
		raw_sleep(MS / 10);
		took = nanotime() - took;
		bool did = exitsyscall();
		/* Not one that other processes kept from the cpu. */
		if (took > MS)
			continue;
		lasted += did;
		calls++;
	}
	EXPECT(lasted <= CALLS / 2);
	st_rlx(&computed, true);
	group_wait(&grp);
}

/* A third of it on a cpu. Returns 1 or 0: was it worth it?; -1: others kept it from the cpu. */
static int computes_some(void)
{
	uint64_t began = nanotime(), took;
	bool did;

	getg()->doubt = 10;
	EXPECT(core_lend());
	entersyscall();
	burn_ns(MS / 10);
	raw_sleep(MS / 10);
	took = nanotime() - began;
	did = exitsyscall();
	return took > MS ? -1 : did;
}

static uint32_t worth_of(int calls)
{
	uint32_t worth = 0;

	while (calls > 0) {
		int did = computes_some();
		worth += did > 0;
		calls -= did >= 0;
	}
	return worth;
}

TEST(a_call_that_computes_for_a_part_is_worth_it_where_it_waits_for_no_p)
{
	enum { CALLS = 20 };
	uint32_t alone, among;

	start(1);
	alone = worth_of(CALLS);
	grp.left = 1;
	go(has_the_p, NULL);
	/* That one waits by itself, after 6 ms: a wait for it is longer than the call. */
	among = worth_of(CALLS);
	st_rlx(&computed, true);
	group_wait(&grp);
	test_say("  %u of %d alone, %u beside another", alone, CALLS, among);
	EXPECT(alone > CALLS / 2);
	EXPECT(among <= CALLS / 2);
}

static void write_announced(void *arg)
{
	(void)arg;
	entersyscall();
	write_one();
	exitsyscall();
	group_done(&grp);
}

TEST(two_calls_on_one_p_wait_for_each_other)
{
	start(1);
	EXPECT_EQ(pipe(pipefd), 0);
	for (int i = 0; i < 300; i++) {
		grp.left = 2;
		go(write_announced, NULL);
		go(read_announced, NULL);
		group_wait(&grp);
	}
}

TEST(a_short_call_keeps_its_p)
{
	enum { CALLS = 100000 };
	struct stats before;
	struct g *gp;
	struct p *pp;

	start(2);
	before = stats();
	for (int i = 0; i < CALLS; i++) {
		entersyscall();
		arch_syscall3(__NR_getppid, 0, 0, 0);
		exitsyscall();
	}
	/* Now and then the kernel takes the cpu from us for a whole slice. */
	EXPECT(stats().retakecall - before.retakecall < CALLS / 1000);
	EXPECT(stats().syscallslow - before.syscallslow < CALLS / 1000);

	/* Meanwhile it is wired to its M, and not idle. */
	gp = getg();
	entersyscall();
	pp = ld_rlx(&gp->m->p);
	if (pp) {
		uint32_t status = ld_rlx(&pp->status);
		uint64_t idle = ld_rlx(&sched.idlepmask[0]) >> pp->id & 1;
		/* Unless it was claimed just then. */
		if (ld_acq(&gp->status) == GSYSCALL) {
			EXPECT_EQ(status, PRUNNING);
			EXPECT_EQ(idle, 0);
		}
	}
	exitsyscall();
}

TEST(a_call_within_a_slice_keeps_its_p_while_nobody_wants_it)
{
	uint32_t lasted = 0;
	struct stats before;

	start(2);
	before = stats();
	for (int i = 0; i < 50; i++) {
		uint64_t t = now_ns();
		entersyscall();
		raw_sleep(MS);
		exitsyscall();
		/* When other processes run it may last. */
		lasted += now_ns() - t >= CHOOSE_SLICE_NS;
	}
	EXPECT(stats().retakecall - before.retakecall <= lasted);
}

TEST(without_a_taker_a_call_of_any_length_keeps_its_p)
{
	struct p *pp;
	struct g *gp;

	start_with(2, without_sysmon);
	gp = getg();
	for (int i = 0; i < 20; i++) {
		pp = gp->m->p;
		entersyscall();
		EXPECT_EQ(ld_acq(&gp->status), GSYSCALL);
		raw_sleep(MS);
		EXPECT(ld_rlx(&pp->m) == gp->m && ld_rlx(&gp->m->p) == pp);
		EXPECT_EQ(ld_rlx(&pp->status), PRUNNING);
		EXPECT_EQ(ld_rlx(&sched.idlepmask[0]) >> pp->id & 1, 0);
		exitsyscall();
		EXPECT_EQ(ld_acq(&gp->status), GRUNNING);
		EXPECT(gp->m->p == pp);
	}
	EXPECT_EQ(stats().retakecall, 0);
	EXPECT_EQ(stats().syscallslow, 0);
}

/* ---- coming back ---- */

enum { PS = 4, RETURNS = 30 };

static ATOMIC(uint32_t) calls;

static void until_idle(int32_t n)
{
	while (ld_sc(&sched.npidle) != n || ld_sc(&sched.nmspinning) != 0)
		os_yield();
}

/* A G that has a P till it is told. */
struct holder {
	ATOMIC(struct p *) p;
	ATOMIC(bool) go;
};

static void keep_a_p(void *arg)
{
	struct holder *h = arg;

	st_rel(&h->p, ld_rlx(&getg()->m->p));
	while (!ld_acq(&h->go))
		os_yield();
}

/* Uses two Ps at once, and that of the caller, if it is one of them, no longer than the
 * other: so it is not the first on the idle list. */
static void shuffle_ps(struct p *of_caller)
{
	struct holder h[2] = { { NULL, false }, { NULL, false } };

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(newproc(keep_a_p, &h[i], SMALL_STACK, NULL), 0);
	for (int i = 0; i < 2; i++)
		while (!ld_acq(&h[i].p))
			os_yield();
	int first = ld_rlx(&h[0].p) == of_caller ? 0 : 1;
	st_rel(&h[first].go, true);
	until_idle(PS - 1);
	st_rel(&h[1 - first].go, true);
	until_idle(PS);
}

struct returns {
	struct g *caller;
	ATOMIC(struct p *) p;
};

/* Ends each call of that G once its P has been taken and is idle, as all others are. */
static void *end_calls_when_all_is_idle(void *arg)
{
	struct returns *r = arg;

	for (uint32_t i = 1; i <= RETURNS; i++) {
		while (ld_acq(&calls) != i)
			os_yield();
		until_status(r->caller, GSYSCALLNOP);
		until_idle(PS);
		shuffle_ps(ld_rlx(&r->p));
		EXPECT_EQ(write(pipefd[1], "x", 1), 1);
	}
	return NULL;
}

TEST(who_comes_back_gets_his_old_p)
{
	struct returns r = { NULL, NULL };
	pthread_t thread;

	start_with(PS, without_preemption);
	EXPECT_EQ(pipe(pipefd), 0);
	r.caller = getg();
	pthread_create(&thread, NULL, end_calls_when_all_is_idle, &r);
	for (uint32_t i = 0; i < RETURNS; i++) {
		struct p *pp;
		int32_t tid;
		uint64_t slow;

		/* Begins with a P of its own, whatever the last round left. */
		sleep_ns(1000);
		pp = ld_rlx(&r.caller->m->p);
		tid = kernel_tid();
		slow = stats().syscallslow;
		st_rlx(&r.p, pp);
		entersyscall();
		st_rel(&calls, i + 1);
		read_one();
		exitsyscall();
		/* And its kernel thread, for it never left it. */
		EXPECT(ld_rlx(&r.caller->m->p) == pp);
		EXPECT_EQ(kernel_tid(), tid);
		EXPECT_EQ(stats().syscallslow, slow + 1);
	}
	pthread_join(thread, NULL);
}

TEST(who_comes_back_to_find_all_ps_busy_queues)
{
	struct g *gp;
	uint64_t t;

	start_with(1, without_preemption);
	EXPECT_EQ(pipe(pipefd), 0);
	for (int i = 0; i < 200; i++) {
		ran = 0;
		grp.left = 1;
		gp = go(read_announced, NULL);
		while (ld_acq(&gp->status) != GSYSCALLNOP)
			gosched();
		write_one();
		/* We hold the only P and do not give it up. */
		while (ld_rlx(&sched.runqsize) != 1)
			os_yield();
		EXPECT_EQ(ld_rlx(&gp->status), GRUNNABLE);
		EXPECT_EQ(ld_rlx(&ran), 0);
		/* That this slice is over does not end the next one. */
		for (t = nanotime() + 10 * MS + (uint64_t)(i % 50) * 4000; nanotime() < t;)
			;
		gosched();
		EXPECT(ld_rlx(&ran) == 1 || nanotime() - t >= CHOOSE_SLICE_NS);
		group_wait(&grp);
	}
}

/* ---- many ---- */

TEST(a_thousand_gs_are_in_calls_at_once)
{
	/* ThreadSanitizer's threads are heavy. */
	uint32_t n = can_preempt() ? 1000 : 200;
	struct stats s;

	start(2);
	EXPECT_EQ(pipe(pipefd), 0);
	grp.left = n;
	for (uint32_t i = 0; i < n; i++)
		go(read_announced, NULL);
	/* All are in the kernel, or on their way, and none holds a P. */
	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		while (gp != getg() && ld_acq(&gp->status) != GSYSCALLNOP)
			gosched();
	EXPECT_EQ(ld_rlx(&ran), 0);
	for (uint32_t i = 0; i < n; i++)
		write_one();
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), n);
	s = stats();
	EXPECT(s.retakecall >= n);
	EXPECT_EQ(s.syscallslow, n);
}

static void call_often(void *arg)
{
	uint64_t rng = (test_seed() + (uintptr_t)arg) | 1;

	for (int i = 0; i < 200; i++) {
		entersyscall();
		if (random_below(&rng, 8) == 0)
			raw_sleep(random_below(&rng, 200) * 1000);
		else
			arch_syscall3(__NR_getppid, 0, 0, 0);
		exitsyscall();
		if (random_below(&rng, 4) == 0)
			gosched();
		add_rlx(&ran, 1);
	}
	group_done(&grp);
}

TEST(calls_of_all_lengths_lose_nobody)
{
	enum { CALLERS = 50 };

	start(3);
	grp.left = CALLERS;
	for (uintptr_t i = 0; i < CALLERS; i++)
		go(call_often, (void *)i);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), 200 * CALLERS);
	/* Every P is where it belongs. */
	while (ld_sc(&sched.npidle) != 2)
		os_yield();
}

static void call_then_spin(void *arg)
{
	for (int i = 0; i < 10; i++) {
		entersyscall();
		raw_sleep((uintptr_t)arg);
		exitsyscall();
	}
	raise_by(&ran, 1);
	while (!ld_rlx(&stop))
		arch_relax();
	group_done(&grp);
}

/* As Go's TestPreemptionAfterSyscall: a P that came back by whatever way is watched again. */
static void spin_after_calls_of(int64_t ns)
{
	if (!can_preempt()) {
		skipped("no preemption");
		return;
	}
	start(1);
	grp.left = 2;
	for (int i = 0; i < 2; i++)
		go(call_then_spin, (void *)(uintptr_t)ns);
	wait_raised(&ran, 2);
	st_rlx(&stop, true);
	group_wait(&grp);
}

TEST(a_loop_after_calls_of_10_us_is_preempted)
{
	spin_after_calls_of(10 * 1000);
}

TEST(a_loop_after_calls_of_100_us_is_preempted)
{
	spin_after_calls_of(100 * 1000);
}

TEST(a_loop_after_calls_of_1_ms_is_preempted)
{
	spin_after_calls_of(MS);
}

/* ---- the soft limit on kernel threads ---- */

static void soft_limit(struct core_config *config)
{
	/* And the starter, which is not counted. */
	config->softmcount = 3 + 1;
}

/* By so much, in how many calls, the limit may have given way: when the machine stands still a call
 * does not end. */
static ATOMIC(uint64_t) stalls;

static void naps_announced(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		uint64_t t = now_ns();
		entersyscall();
		raw_sleep(2 * MS);
		exitsyscall();
		add_sc(&stalls, (now_ns() - t) / (90 * MS));
	}
	group_done(&grp);
}

TEST(calls_that_end_wait_their_turn_at_the_soft_limit)
{
	start_with(2, soft_limit);
	grp.left = 20;
	for (int i = 0; i < 20; i++)
		go(naps_announced, NULL);
	group_wait(&grp);
	EXPECT(sched.mcount <= sched.softmcount);
	EXPECT((uint64_t)sched.softmcount <= 3 + ld_sc(&stalls));
}

static void naps_unannounced(void *arg)
{
	(void)arg;
	raw_sleep(400 * MS);
	st_rlx(&stop, true);
	group_done(&grp);
}

static void computes(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		gosched();
	group_done(&grp);
}

TEST(the_soft_limit_holds_while_one_p_runs)
{
	enum { HOGS = 3 };

	start_with(2, soft_limit);
	grp.left = 1 + HOGS;
	go(naps_unannounced, NULL);
	for (int i = 0; i < HOGS; i++)
		go(computes, NULL);
	group_wait(&grp);
	EXPECT_EQ(sched.softmcount, 3);
}

static void spins_locked(void *arg)
{
	(void)arg;
	lockosthread();
	raise_by(&ran, 1);
	while (!ld_rlx(&stop))
		arch_relax();
	group_done(&grp);
}

static void stops(void *arg)
{
	(void)arg;
	st_rlx(&stop, true);
	group_done(&grp);
}

TEST(the_soft_limit_gives_way_where_locked_gs_have_all_kernel_threads)
{
	start_with(4, soft_limit);
	lockosthread();
	grp.left = 2;
	go(spins_locked, NULL);
	wait_raised(&ran, 1);
	/* Nothing of ours blocks, and none of the two Ms may run it. */
	go(stops, NULL);
	while (!ld_rlx(&stop))
		arch_relax();
	unlockosthread();
	group_wait(&grp);
	EXPECT_EQ(sched.softmcount, 4);
}

static void limit_of_six(struct core_config *config)
{
	config->softmcount = 6 + 1;
}

TEST(the_soft_limit_gives_way_where_locked_gs_take_turns)
{
	enum { HOGS = 4 };

	if (!can_preempt()) {
		skipped("no preemption");
		return;
	}
	start_with(2, limit_of_six);
	lockosthread();
	grp.left = HOGS + 1;
	for (int i = 0; i < HOGS; i++)
		go(spins_locked, NULL);
	/* Theirs, ours and sysmon's. */
	wait_raised(&ran, HOGS);
	go(stops, NULL);
	group_wait(&grp);
	EXPECT(sched.softmcount > 6);
}

TEST(the_soft_limit_gives_way_where_nothing_else_could_run)
{
	enum { READERS = 3 };

	start_with(1, soft_limit);
	EXPECT_EQ(pipe(pipefd), 0);
	for (int i = 0; i < 3; i++) {
		ran = 0;
		grp.left = READERS;
		for (int j = 0; j < READERS; j++)
			go(read_announced, NULL);
		/* That we come here with all of them blocked took a thread for each. */
		for (int j = 0; j < 10; j++)
			gosched();
		EXPECT_EQ(ran, 0);
		for (int j = 0; j < READERS; j++)
			write_one();
		group_wait(&grp);
		/* Ours, sysmon's, and theirs; made once. */
		EXPECT(sched.mcount <= 2 + READERS);
	}
	EXPECT(sched.mcount > 3);
}

/* ---- handlers ---- */

static ATOMIC(uint32_t) handled;

/* Of the kernel thread that runs this. */
static __attribute__((noinline)) void set_errno(int to)
{
	errno = to;
}

/* What core_sigbegin and core_sigend do about a handler of the program's, errno included: it may be
 * that of another kernel thread afterwards. */
static void leaves_and_goes_back(int sig)
{
	int saved = errno;

	(void)sig;
	if (core_sigplace() == SIGPLACE_CALL) {
		exitsyscall();
		entersyscall();
	}
	add_rlx(&handled, 1);
	set_errno(saved);
}

static void *signals_caller(void *arg)
{
	const struct g *caller = arg;

	while (!ld_acq(&stop)) {
		struct m *mp = ld_rlx(&caller->m);
		uint32_t before = ld_rlx(&handled);
		if (mp)
			os_tgkill(ld_rlx(&mp->tid), SIGUSR1);
		/* It may be where none is let in. */
		for (int i = 0; i < 1000 && ld_rlx(&handled) == before; i++)
			arch_relax();
	}
	st_rel(&stop, false);
	return arg;
}

/* It may be found between the look that its P is gone and the winning of another. */
TEST(a_handler_may_win_a_p_wherever_it_finds_the_end_of_a_call)
{
	struct sigaction sa = { .sa_handler = leaves_and_goes_back, .sa_flags = SA_NODEFER };

	start(2);
	sigaction(SIGUSR1, &sa, NULL);
	watcher(signals_caller, gself());
	for (int i = 0; i < 100000; i++) {
		core_lend();
		entersyscall();
		exitsyscall();
	}
	st_rel(&stop, true);
	while (ld_acq(&stop))
		os_yield();
	EXPECT(ld_rlx(&handled) > 0);
}
