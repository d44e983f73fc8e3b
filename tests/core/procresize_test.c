/* core_setprocs: every P comes to a stop, wherever its M is; what the Ps that end had lives
 * on elsewhere; those that begin are used. */
#include <pthread.h>
#include <unistd.h>

#include "host.h"
#include "sched.h"
#include "syscall.h"

enum { MS = 1000 * 1000, SECOND = 1000 * MS, MANY = 64, EINVAL_ = 22 };

static struct group grp;
static ATOMIC(uint32_t) ran, met;
static ATOMIC(bool) stop;

/* Idle, busy and dead Ps, as they must be while only the caller runs. */
static void check_ps(int n)
{
	int32_t idle = 0, dead = 0;

	/* Those that were started to look for work find none; one that polled may come back to
	 * look, too. */
	for (;;) {
		hold(&sched.lock);
		if (ld_sc(&sched.npidle) == n - 1)
			break;
		let_go(&sched.lock);
		os_yield();
	}
	for (int i = 0; i < MAX_PROCS && sched.allp[i]; i++) {
		struct p *pp = sched.allp[i];
		EXPECT_EQ(pp->id, i);
		idle += ld_rlx(&pp->status) == PIDLE;
		dead += ld_rlx(&pp->status) == PDEAD;
		EXPECT_EQ(ld_rlx(&pp->status) == PDEAD, i >= n);
		EXPECT_EQ(ld_rlx(&sched.idlepmask[i / 64]) >> (i % 64) & 1,
			  ld_rlx(&pp->status) == PIDLE);
		EXPECT(ld_rlx(&pp->status) != PDEAD || (!ld_rlx(&pp->m) && runqempty(pp)));
	}
	EXPECT_EQ(idle, n - 1);
	EXPECT_EQ(sched.gcwaiting, 0);
	EXPECT_EQ(sched.stopwait, 0);
	let_go(&sched.lock);
	EXPECT_EQ(core_procs(), n);
}

static void set(int n)
{
	EXPECT_EQ(core_setprocs(n), 0);
	EXPECT_EQ(core_procs(), n);
}

TEST(the_number_of_ps_goes_up_and_down)
{
	uint64_t rng = test_seed() | 1;

	start_with(1, without_sysmon);
	check_ps(1);
	for (int n = 1; n <= MANY; n++) {
		set(n);
		check_ps(n);
	}
	for (int n = MANY; n >= 1; n--) {
		set(n);
		check_ps(n);
	}
	for (int i = 0; i < 200; i++) {
		int n = 1 + (int)random_below(&rng, MANY);
		set(n);
		check_ps(n);
	}
	set(MAX_PROCS);
	check_ps(MAX_PROCS);
	set(1);
	check_ps(1);
}

TEST(a_number_that_cannot_be_is_refused)
{
	start(3);
	EXPECT_EQ(core_setprocs(0), -EINVAL_);
	EXPECT_EQ(core_setprocs(-1), -EINVAL_);
	EXPECT_EQ(core_setprocs(MAX_PROCS + 1), -EINVAL_);
	check_ps(3);
}

static void run_at_once(void *arg)
{
	uint32_t n = (uint32_t)(uintptr_t)arg;
	uint32_t until = (add_sc(&met, 1) / n + 1) * n;

	for (int i = 0; ld_sc(&met) < until; i++)
		if (i > 100)
			os_yield();
	group_done(&grp);
}

TEST(new_ps_are_used)
{
	start_with(1, without_sysmon);
	for (uint32_t n = 2; n <= 8; n++) {
		/* Its members run at the same time, or for ever. */
		set((int)n);
		met = 0;
		grp.left = n;
		for (uint32_t i = 0; i < n - 1; i++)
			go(run_at_once, (void *)(uintptr_t)n);
		run_at_once((void *)(uintptr_t)n);
		group_wait(&grp);
	}
}

static ATOMIC(uint32_t) running, most;

static void count_who_runs(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		uint32_t now = add_sc(&running, 1) + 1, before = ld_rlx(&most);
		while (now > before && !cas_rlx(&most, before, now))
			before = ld_rlx(&most);
		os_yield();
		add_sc(&running, (uint32_t)-1);
		gosched();
	}
	group_done(&grp);
}

/* The kernel threads of the other Ps must have stopped, not only the numbers changed. Sysmon gives
 * the P of one that sleeps unannounced, if only in a page fault, to another. */
TEST(no_more_gs_run_at_once_than_there_are_ps)
{
	start_with(8, without_sysmon);
	for (uint32_t n = 8; n >= 1; n--) {
		set((int)n);
		most = 0;
		grp.left = 20;
		for (int i = 0; i < 20; i++)
			go(count_who_runs, NULL);
		group_wait(&grp);
		EXPECT(ld_rlx(&most) <= n);
	}
}

/* ---- what the Ps had ---- */

static ATOMIC(uint32_t) asleep;

static void sleep_once(void *arg)
{
	uint64_t at = *(uint64_t *)arg;

	add_sc(&asleep, 1);
	EXPECT_EQ(gosleep(1, at), 0);
	EXPECT(now_ns() >= at);
	add_rlx(&ran, 1);
	group_done(&grp);
}

static void yield_until_stop(void *arg)
{
	uint32_t *turns = arg;

	while (!ld_rlx(&stop)) {
		goyield();
		bump(turns);
	}
	group_done(&grp);
}

static uint32_t timers_from(int first, int n)
{
	uint32_t sum = 0;

	for (int i = first; i < n; i++) {
		struct timers *ts = &sched.allp[i]->timers;
		hold(&ts->lock);
		sum += ts->n;
		let_go(&ts->lock);
	}
	return sum;
}

static bool queues_from(int first, int n)
{
	for (int i = first; i < n; i++)
		if (!runqempty(sched.allp[i]))
			return true;
	return false;
}

enum { SLEEPERS = 400, YIELDERS = 40, BUSY_PS = 4 };

static uint32_t turns[YIELDERS];

static void until_all_take_turns(void)
{
	for (int i = 0; i < YIELDERS; i++) {
		uint32_t before = ld_rlx(&turns[i]);
		while (ld_rlx(&turns[i]) == before)
			gosched();
	}
}

/* True if none of the sleepers was due before the Ps ended; otherwise it says nothing of timers. */
static bool survive(uint64_t ms)
{
	uint64_t at = now_ns() + ms * MS;
	uint32_t sleepers = 0;
	bool in_time;

	asleep = ran = 0;
	/* Some on each P, or at least on one that will end. */
	while (sleepers < SLEEPERS || (timers_from(1, BUSY_PS) == 0 && now_ns() < at)) {
		add_sc(&grp.left, 1);
		go(sleep_once, &at);
		if (++sleepers % 16 == 0)
			gosched();
	}
	while (ld_sc(&asleep) != sleepers || (timers_from(0, BUSY_PS) != sleepers && now_ns() < at))
		gosched();
	while (!queues_from(1, BUSY_PS))
		gosched();
	set(1);
	EXPECT_EQ(timers_from(1, BUSY_PS), 0);
	EXPECT(!queues_from(1, BUSY_PS));
	uint32_t left = timers_from(0, 1);
	in_time = now_ns() < at;
	if (in_time) {
		EXPECT_EQ(ld_rlx(&ran), 0);
		EXPECT_EQ(left, sleepers);
	}
	until_all_take_turns();
	set(BUSY_PS);
	until_all_take_turns();
	while (ld_rlx(&ran) != sleepers)
		gosched();
	return in_time;
}

TEST_IN(240, timers_and_gs_survive_the_end_of_their_p)
{
	start(BUSY_PS);
	grp.left = YIELDERS;
	for (int i = 0; i < YIELDERS; i++)
		go(yield_until_stop, &turns[i]);
	for (uint64_t ms = can_preempt() ? 1500 : 4000; !survive(ms); ms *= 2)
		continue;
	st_rlx(&stop, true);
	group_wait(&grp);
}

static void end_at_once(void *arg)
{
	(void)arg;
	group_done(&grp);
}

static void run_many(int n)
{
	grp.left = (uint32_t)n;
	for (int i = 0; i < n; i++)
		go(end_at_once, NULL);
	group_wait(&grp);
}

static int count_gs(void)
{
	int n = 0;

	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		n++;
	return n;
}

TEST(the_dead_gs_of_an_ended_p_are_used_again)
{
	int before;

	start_with(BUSY_PS, without_sysmon);
	run_many(1000);
	before = count_gs();
	for (int i = 0; i < 20; i++) {
		set(1);
		/* None is kept where nobody looks for it. */
		for (int j = 1; j < BUSY_PS; j++)
			EXPECT(!ld_rlx(&sched.allp[j]->gfree));
		run_many(100);
		set(BUSY_PS);
		run_many(100);
	}
	EXPECT(count_gs() < before + 200);
}

/* ---- wherever the Ms are ---- */

static int pipefd[2];

static void read_announced(void *arg)
{
	char c;

	(void)arg;
	entersyscall();
	add_sc(&ran, 1);
	EXPECT_EQ(arch_syscall3(__NR_read, pipefd[0], (long)&c, 1), 1);
	exitsyscall();
	group_done(&grp);
}

static void read_unannounced(void *arg)
{
	char c;

	(void)arg;
	add_sc(&ran, 1);
	EXPECT_EQ(arch_syscall3(__NR_read, pipefd[0], (long)&c, 1), 1);
	group_done(&grp);
}

/* Nothing ends the calls but we, after the world has been stopped and started. */
static void stop_while_they_block(void (*block)(void *), void (*with)(struct core_config *))
{
	start_with(4, with);
	EXPECT_EQ(pipe(pipefd), 0);
	grp.left = 3;
	for (int i = 0; i < 3; i++)
		go(block, NULL);
	while (ld_sc(&ran) != 3)
		gosched();
	set(2);
	set(5);
	EXPECT_EQ(write(pipefd[1], "abc", 3), 3);
	group_wait(&grp);
}

TEST(announced_calls_do_not_hold_the_world_up)
{
	/* Nobody but the stopper takes their Ps. */
	stop_while_they_block(read_announced, without_sysmon);
}

TEST(unannounced_blocks_do_not_hold_the_world_up)
{
	stop_while_they_block(read_unannounced, NULL);
}

static void spin_until_stop(void *arg)
{
	(void)arg;
	add_sc(&ran, 1);
	while (!ld_rlx(&stop))
		arch_relax();
	group_done(&grp);
}

TEST(tight_loops_do_not_hold_the_world_up)
{
	if (!can_preempt()) {
		skipped("no preemption");
		return;
	}
	start(4);
	grp.left = 3;
	for (int i = 0; i < 3; i++)
		go(spin_until_stop, NULL);
	while (ld_sc(&ran) != 3)
		gosched();
	for (int i = 0; i < 20; i++)
		set(1 + i % 6);
	st_rlx(&stop, true);
	group_wait(&grp);
}

static void locked_steps(void *arg)
{
	int32_t tid;

	(void)arg;
	lockosthread();
	tid = kernel_tid();
	while (!ld_rlx(&stop)) {
		gosched();
		EXPECT_EQ(kernel_tid(), tid);
		sleep_ns(10000);
		EXPECT_EQ(kernel_tid(), tid);
	}
	group_done(&grp);
}

TEST(locked_gs_stop_and_start_with_the_world)
{
	start(4);
	grp.left = 3;
	for (int i = 0; i < 3; i++)
		go(locked_steps, NULL);
	lockosthread();
	int32_t tid = kernel_tid();
	for (int i = 0; i < 200; i++) {
		set(1 + i % 6);
		EXPECT_EQ(kernel_tid(), tid);
		sleep_ns(20000);
	}
	st_rlx(&stop, true);
	group_wait(&grp);
}

/* ---- several callers ---- */

enum { CALLERS = 4 };

static ATOMIC(int32_t) last[CALLERS];

static void set_often(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	uint64_t rng = (test_seed() + id) | 1;

	for (int i = 0; i < 50; i++) {
		int n = 1 + (int)random_below(&rng, 8);
		EXPECT_EQ(core_setprocs(n), 0);
		st_rlx(&last[id], n);
		gosched();
	}
	group_done(&grp);
}

TEST(callers_take_turns)
{
	bool found = false;

	start(4);
	grp.left = CALLERS;
	for (uintptr_t i = 0; i < CALLERS; i++)
		go(set_often, (void *)i);
	group_wait(&grp);
	for (int i = 0; i < CALLERS; i++)
		found |= ld_rlx(&last[i]) == core_procs();
	EXPECT(found);
	check_ps(core_procs());
}
