/* Wiring: a locked G runs on one kernel thread, which runs nothing else; whatever it does,
 * and until it is unlocked as often as it was locked. */
#include <pthread.h>

#include "host.h"
#include "mthread.h"
#include "raw.h"
#include "sched.h"
#include "syscall.h"

enum { LOCKED = 6, OTHERS = 20, STEPS = 300 };

static struct group grp, others;
static ATOMIC(bool) stop;

/* The kernel threads that belong to a locked G: nobody else may see one of these as his. */
static ATOMIC(int32_t) taken[LOCKED];

/* All that may send a G to another M. */
static void step(uint64_t *rng)
{
	static ATOMIC(uint32_t) nobody;
	struct deadline d = { 1, now_ns() + random_below(rng, 50) * 1000 };

	switch (random_below(rng, 8)) {
	case 0:
		gosched();
		break;
	case 1:
		goyield();
		break;
	case 2:
		sleep_ns(random_below(rng, 50) * 1000);
		break;
	case 3:
		futex_wait(&nobody, 0, (uint32_t)FUTEX_ANY, &d, 0);
		break;
	case 4:
		/* A call that lasts, so that its P is taken. */
		entersyscall();
		raw_sleep(100 * US);
		exitsyscall();
		break;
	case 5:
		entersyscall();
		exitsyscall();
		break;
	default:
		burn_ns(random_below(rng, 5) * 1000);
	}
}

static void stay(void *arg)
{
	uintptr_t i = (uintptr_t)arg;
	uint64_t rng = (test_seed() + i) | 1;

	for (int round = 0; round < 3; round++) {
		lockosthread();
		int32_t tid = kernel_tid();
		st_sc(&taken[i], tid);
		for (int n = 0; n < STEPS; n++) {
			step(&rng);
			EXPECT_EQ(kernel_tid(), tid);
		}
		st_sc(&taken[i], 0);
		unlockosthread();
		gosched();
	}
	group_done(&grp);
}

static void keep_off(void *arg)
{
	uint64_t rng = (test_seed() + (uintptr_t)arg) | 1;

	while (!ld_rlx(&stop)) {
		int32_t tid = kernel_tid();
		for (int i = 0; i < LOCKED; i++)
			EXPECT(ld_sc(&taken[i]) != tid || kernel_tid() != tid);
		step(&rng);
	}
	group_done(&others);
}

static void locked_among_others(int procs)
{
	start(procs);
	grp.left = LOCKED;
	others.left = OTHERS;
	for (uintptr_t i = 0; i < LOCKED; i++)
		go(stay, (void *)i);
	for (uintptr_t i = 0; i < OTHERS; i++)
		go(keep_off, (void *)(100 + i));
	group_wait(&grp);
	st_rlx(&stop, true);
	group_wait(&others);
}

TEST(a_locked_g_stays_on_its_kernel_thread)
{
	locked_among_others(4);
}

TEST(a_locked_g_stays_on_its_kernel_thread_with_one_p)
{
	locked_among_others(1);
}

static bool wired(void)
{
	struct g *gp = getg();

	EXPECT((gp->lockedm != NULL) == (gp->m->lockedg == gp));
	return gp->lockedm != NULL;
}

TEST(two_locks_need_two_unlocks)
{
	start_with(2, without_preemption);
	EXPECT(!wired());
	lockosthread();
	lockosthread();
	EXPECT(wired());
	unlockosthread();
	EXPECT(wired());
	int32_t tid = kernel_tid();
	for (int i = 0; i < 100; i++) {
		gosched();
		EXPECT_EQ(kernel_tid(), tid);
	}
	unlockosthread();
	EXPECT(!wired());
}

TEST(an_unlock_too_many_does_nothing)
{
	start_with(2, without_preemption);
	unlockosthread();
	EXPECT(!wired());
	lockosthread();
	EXPECT(wired());
	unlockosthread();
	unlockosthread();
	EXPECT(!wired());
}

/* ---- hand to hand ---- */

enum { TURNS = 3000 };

static struct stats stats(void)
{
	struct stats s;
	stats_sum(&s);
	return s;
}

static ATOMIC(uint32_t) ball;

static void play(uint32_t own)
{
	int32_t tid = kernel_tid();

	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t at;
		while ((at = ld_acq(&ball)) % 2 != own)
			futex_wait(&ball, at, (uint32_t)FUTEX_ANY, NULL, 0);
		if (getg()->lockedm)
			EXPECT_EQ(kernel_tid(), tid);
		st_rel(&ball, at + 1);
		futex_wake(&ball, 1, (uint32_t)FUTEX_ANY, i % 2 ? FUTEX_HANDOFF : 0);
	}
}

static void play_locked(void *arg)
{
	(void)arg;
	lockosthread();
	play(1);
	unlockosthread();
	group_done(&grp);
}

/* Without sysmon: every hand-over of the P must be right by itself. */
static void ping_pong(int procs, bool both_locked)
{
	start_with(procs, without_sysmon);
	grp.left = 1;
	go(play_locked, NULL);
	if (both_locked)
		lockosthread();
	play(0);
	group_wait(&grp);
	EXPECT_EQ(ball, 2 * TURNS);
	/* From one's M to the other's: no third has a part in it, but now and then. */
	if (procs == 1 && both_locked && debuglevel < 2)
		EXPECT(stats().mstops < TURNS / 2);
}

static void end_the_game(void *arg)
{
	(void)arg;
	st_rel(&stop, true);
	group_done(&grp);
}

/* Amid the game comes one who is to end it. */
static void play_on(uint32_t own)
{
	enum { AMID = 100 };

	for (uint32_t at = 0; !ld_acq(&stop); at += 2) {
		uint32_t turn;
		while ((turn = ld_acq(&ball)) % 2 != own)
			futex_wait(&ball, turn, (uint32_t)FUTEX_ANY, NULL, 0);
		if (at + own == AMID)
			go(end_the_game, NULL);
		st_rel(&ball, turn + 1);
		futex_wake(&ball, 1, (uint32_t)FUTEX_ANY, 0);
	}
}

static void play_on_locked(void *arg)
{
	(void)arg;
	lockosthread();
	play_on(1);
	unlockosthread();
	group_done(&grp);
}

/* Each wakes the other into runnext, and no slice ends. */
static void starve_nobody(bool both_locked)
{
	start_with(1, without_sysmon);
	grp.left = 2;
	go(play_on_locked, NULL);
	if (both_locked)
		lockosthread();
	play_on(0);
	group_wait(&grp);
}

TEST(two_locked_gs_that_wake_each_other_let_a_third_run)
{
	starve_nobody(true);
}

TEST(a_locked_g_and_a_free_one_that_wake_each_other_let_a_third_run)
{
	starve_nobody(false);
}

TEST(a_locked_g_and_a_free_one_wake_each_other_on_one_p)
{
	ping_pong(1, false);
}

TEST(a_locked_g_and_a_free_one_wake_each_other_on_two_ps)
{
	ping_pong(2, false);
}

TEST(two_locked_gs_wake_each_other_on_one_p)
{
	ping_pong(1, true);
}

TEST(two_locked_gs_wake_each_other_on_two_ps)
{
	ping_pong(2, true);
}

static bool refuse(struct g *gp, void *arg)
{
	(void)gp;
	++*(int *)arg;
	return false;
}

TEST(a_locked_gs_park_that_is_refused_goes_on)
{
	int refused = 0;

	start_with(2, without_sysmon);
	lockosthread();
	int32_t tid = kernel_tid();
	for (int i = 0; i < 1000; i++)
		gopark(refuse, &refused, WAIT_PARK);
	EXPECT_EQ(refused, 1000);
	EXPECT_EQ(kernel_tid(), tid);
}

static bool into_parked(struct g *gp, void *arg)
{
	st_rel((ATOMIC(struct g *) *)arg, gp);
	return true;
}

static ATOMIC(struct g *) parked;

static void *ready_foreign(void *arg)
{
	struct g *gp;

	(void)arg;
	for (int i = 0; i < 1000; i++) {
		while ((gp = ld_acq(&parked)) == NULL)
			os_yield();
		st_rlx(&parked, NULL);
		goready(gp);
	}
	return NULL;
}

TEST(a_foreign_thread_readies_a_locked_g)
{
	pthread_t thread;

	start_with(2, without_sysmon);
	pthread_create(&thread, NULL, ready_foreign, NULL);
	lockosthread();
	int32_t tid = kernel_tid();
	for (int i = 0; i < 1000; i++) {
		gopark(into_parked, &parked, WAIT_PARK);
		EXPECT_EQ(kernel_tid(), tid);
	}
	pthread_join(thread, NULL);
}

/* ---- what a locked G leaves behind ---- */

static void run_elsewhere(void *arg)
{
	EXPECT(kernel_tid() != (int32_t)(uintptr_t)arg);
	group_done(&grp);
}

TEST(the_children_of_a_locked_g_are_not_locked)
{
	start(2);
	lockosthread();
	grp.left = 100;
	for (int i = 0; i < 100; i++)
		go(run_elsewhere, (void *)(uintptr_t)kernel_tid());
	group_wait(&grp);
}

static void lock_and_end(void *arg)
{
	(void)arg;
	lockosthread();
	gosched();
	lockosthread();
	group_done(&grp);
}

TEST(the_end_of_a_locked_g_frees_its_kernel_thread)
{
	struct stats s;

	start(2);
	for (int i = 0; i < 100; i++) {
		grp.left = 10;
		for (int j = 0; j < 10; j++)
			go(lock_and_end, NULL);
		group_wait(&grp);
	}
	/* Till the last one is gone. */
	do {
		gosched();
		stats_sum(&s);
	} while (s.finished != 1000);
	/* Each used the threads of those before it: ten of them, and some to spare. */
	hold(&sched.lock);
	EXPECT(sched.mcount < 50);
	let_go(&sched.lock);
	EXPECT(!wired());
}

/* ---- kernel threads that are changed for good ---- */

enum { SET_TIMERSLACK = 29, GET_TIMERSLACK = 30, ODD_SLACK = 12345, SPOILERS = 300 };

static ATOMIC(uint32_t) spoilt_twice, led;

static long prctl_slack(long how, long ns)
{
	return arch_syscall6(__NR_prctl, how, ns, 0, 0, 0, 0);
}

static void spoil_and_end(void *arg)
{
	(void)arg;
	if (prctl_slack(GET_TIMERSLACK, 0) == ODD_SLACK)
		add_rlx(&spoilt_twice, 1);
	lockosthread();
	gspoil(false);
	led += kernel_tid() == (int32_t)arch_syscall3(__NR_getpid, 0, 0, 0);
	prctl_slack(SET_TIMERSLACK, ODD_SLACK);
	gosched();
	EXPECT_EQ(prctl_slack(GET_TIMERSLACK, 0), ODD_SLACK);
	sleep_ns(20 * 1000);
	EXPECT_EQ(prctl_slack(GET_TIMERSLACK, 0), ODD_SLACK);
	group_done(&grp);
}

static void look_at_slack(void *arg)
{
	(void)arg;
	if (prctl_slack(GET_TIMERSLACK, 0) == ODD_SLACK)
		add_rlx(&spoilt_twice, 1);
	group_done(&others);
}

static void spoil(int procs)
{
	start(procs);
	if (!mthread_ends()) {
		skipped("the kernel threads are the sanitizer's runtime's");
		return;
	}
	for (int i = 0; i < SPOILERS / 3; i++) {
		grp.left = 3;
		others.left = 3;
		for (int j = 0; j < 3; j++) {
			go(spoil_and_end, NULL);
			go(look_at_slack, NULL);
		}
		group_wait(&grp);
		group_wait(&others);
	}
	EXPECT_EQ(ld_rlx(&spoilt_twice), 0);
	EXPECT_EQ(ld_rlx(&led), 0);
	int ms = 0;
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink)
		ms++;
	test_say("  %lld kernel threads' records for %lld that were spoilt", (long long)ms,
		 (long long)SPOILERS);
	/* Those of the ended are used again. */
	EXPECT(ms < 30);
	hold(&sched.lock);
	EXPECT(sched.mcount <= ms);
	let_go(&sched.lock);
}

TEST(a_kernel_thread_that_was_spoilt_serves_nobody_else_on_one_p)
{
	spoil(1);
}

TEST(a_kernel_thread_that_was_spoilt_serves_nobody_else_on_two_ps)
{
	spoil(2);
}
