/* Preemption by signal: that it comes in time, that what it stops goes on unharmed, and
 * that it leaves alone what it must: denied code, blocked calls, the next slice. */
#include "preempt.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "raw.h"
#include "registers.h"
#include "sched.h"
#include "trace.h"

static struct group grp;
static ATOMIC(uint32_t) stop;

/* Most tests here are about the signal; under a sanitizer there is none. */
static bool no_signal(void)
{
	if (!can_preempt())
		skipped("this build cannot stop a G by signal");
	return !can_preempt();
}

static void hog(void *arg)
{
	(void)arg;
	compute_until(&stop);
	group_done(&grp);
}

static void clock_hog(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		now_ns();
	group_done(&grp);
}

static uint64_t preempts(void)
{
	struct stats sum;
	stats_sum(&sum);
	return sum.preempts;
}

/* On one P, beside Gs that never call the core: how long until the caller's turn comes? */
static uint64_t say_turns(const char *what)
{
	enum { TURNS = 40 };
	static uint64_t took[TURNS];

	for (int i = 0; i < TURNS; i++) {
		uint64_t t = now_ns();
		gosched();
		took[i] = now_ns() - t;
	}
	say_spread(what, took, TURNS);
	return at_best(took, TURNS);
}

static void end_hogs(void)
{
	st_rlx(&stop, 1);
	group_wait(&grp);
}

TEST(a_tight_loop_gives_way)
{
	if (no_signal())
		return;
	start(1);
	grp.left = 1;
	go(hog, NULL);
	EXPECT(say_turns("slice of a tight loop") < 40 * MS);
	end_hogs();
}

static ATOMIC(uint32_t) asked;

static bool count_asked(const void *uc)
{
	EXPECT(uc != NULL);
	add_rlx(&asked, 1);
	return false;
}

static void asking(struct core_config *config)
{
	config->sigdue = count_asked;
}

/* A signal sent to its kernel thread may have come second. */
TEST(who_was_stopped_is_asked_whether_a_signal_is_due)
{
	if (no_signal())
		return;
	start_with(1, asking);
	grp.left = 1;
	go(hog, NULL);
	for (int i = 0; i < 3; i++)
		gosched();
	end_hogs();
	EXPECT(ld_rlx(&asked) > 0);
}

TEST(a_loop_that_reads_the_clock_gives_way)
{
	if (no_signal())
		return;
	start(1);
	grp.left = 1;
	go(clock_hog, NULL);
	EXPECT(say_turns("slice of a loop over the clock") < 60 * MS);
	end_hogs();
}

/* ---- two Gs that wake each other through runnext share one slice ---- */
static ATOMIC(uint32_t) turn;

static void pinger(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		while (ld_sc(&turn) != me && !ld_rlx(&stop))
			futex_wait(&turn, !me, (uint32_t)FUTEX_ANY, NULL, 0);
		st_sc(&turn, !me);
		futex_wake(&turn, 1, (uint32_t)FUTEX_ANY, 0);
	}
	futex_wake(&turn, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_done(&grp);
}

TEST(a_chain_through_runnext_is_preempted_as_one)
{
	if (no_signal())
		return;
	start(1);
	grp.left = 2;
	go(pinger, (void *)0);
	go(pinger, (void *)1);
	EXPECT(say_turns("slice of a chain") < 40 * MS);
	end_hogs();
}

/* ---- registers ---- */
enum { HOLDERS = 6 };

static struct holder {
	struct registers want, have;
	uint64_t rounds, moved;
	long differ;
} holders[HOLDERS];

static enum registers_level level;
static uint64_t spins_per_ms;

static uint64_t measure_spins(void)
{
	static struct registers r, out;
	uint64_t best = UINT64_MAX;

	registers_fill(&r, 1, REGISTERS_SSE);
	for (int i = 0; i < 5; i++) {
		uint64_t t = now_ns();
		registers_hold(&r, &out, 1000000, REGISTERS_SSE);
		t = now_ns() - t;
		if (t < best)
			best = t;
	}
	return 1000000 * (uint64_t)MS / best;
}

static void keep_registers(void *arg)
{
	struct holder *h = arg;
	uint64_t seed = test_seed() + (uint64_t)(h - holders) * 1000;

	while (!ld_rlx(&stop) && h->differ < 0) {
		registers_fill(&h->want, seed + h->rounds, level);
		h->have = (struct registers){ .pad = 0 };
		int tid = kernel_tid();
		registers_hold(&h->want, &h->have, 15 * spins_per_ms, level);
		h->moved += tid != kernel_tid();
		h->rounds++;
		h->differ = registers_differ(&h->want, &h->have);
	}
	group_done(&grp);
}

static bool any_moved(void)
{
	for (int i = 0; i < HOLDERS; i++)
		if (__atomic_load_n(&holders[i].moved, __ATOMIC_RELAXED) > 0)
			return true;
	return false;
}

static void moved_and_whole(int procs, enum registers_level l)
{
	uint64_t moved = 0, rounds = 0;

	start(procs);
	level = l;
	spins_per_ms = measure_spins();
	grp.left = HOLDERS;
	for (int i = 0; i < HOLDERS; i++) {
		holders[i].differ = -1;
		go(keep_registers, &holders[i]);
	}
	/* A second; where others have the cpu, as long as it takes. */
	do
		sleep_ns(1000 * MS);
	while (preempts() == 0 || (procs > 1 && !any_moved()));
	end_hogs();
	for (int i = 0; i < HOLDERS; i++) {
		EXPECT_EQ(holders[i].differ, -1);
		rounds += holders[i].rounds;
		moved += holders[i].moved;
	}
	test_say(
		"  %s, %lld Ps: %llu loops, of which %llu ended on another kernel thread; %llu preemptions",
		l == REGISTERS_AVX512 ? "AVX-512"
		: l == REGISTERS_AVX  ? "AVX2"
				      : "SSE",
		(long long)procs, (unsigned long long)rounds, (unsigned long long)moved,
		(unsigned long long)preempts());
}

TEST(a_stopped_loop_keeps_its_registers_on_one_p)
{
	if (!no_signal())
		moved_and_whole(1, registers_best());
}

TEST(a_stopped_loop_goes_on_elsewhere_with_its_registers)
{
	if (!no_signal())
		moved_and_whole(4, registers_best());
}

TEST(a_stopped_loop_of_sse_goes_on_elsewhere_with_its_registers)
{
	if (!no_signal())
		moved_and_whole(4, REGISTERS_SSE);
}

/* ---- ranges that are denied ---- */
static ATOMIC(uint32_t) phase;

/* From the one phase to the next, and no further: a section of its own, denied as a whole. */
static void __attribute__((noinline, section("held"))) hold_denied(struct holder *h, uint64_t spins)
{
	st_rlx(&phase, 1);
	registers_hold(&h->want, &h->have, spins, REGISTERS_SSE);
	st_rlx(&phase, 2);
}

extern const char __start_held[], __stop_held[];

static void hold_once(void *arg)
{
	struct holder *h = &holders[0];

	registers_fill(&h->want, 7, REGISTERS_SSE);
	hold_denied(h, (uintptr_t)arg * spins_per_ms);
	EXPECT_EQ(registers_differ(&h->want, &h->have), -1);
	group_done(&grp);
}

static uint64_t turn_beside_denied(uintptr_t ms, enum denial how)
{
	uint64_t t;

	start(1);
	spins_per_ms = measure_spins();
	EXPECT(preempt_deny((uintptr_t)registers_hold, (uintptr_t)registers_hold_end, how));
	EXPECT(preempt_deny((uintptr_t)__start_held, (uintptr_t)__stop_held, how));
	grp.left = 1;
	go(hold_once, (void *)ms);
	t = now_ns();
	while (ld_rlx(&phase) == 0)
		gosched();
	t = now_ns() - t;
	return t;
}

TEST(a_g_in_a_denied_range_is_not_stopped)
{
	struct stats sum;

	if (no_signal())
		return;
	uint64_t t = turn_beside_denied(150, DENY_ALWAYS);
	EXPECT_EQ(ld_rlx(&phase), 2);
	stats_sum(&sum);
	test_say("  went on after %llu us, put off %llu times", (unsigned long long)t / US,
		 (unsigned long long)sum.preemptputoff);
	EXPECT(sum.preemptputoff > 0);
	group_wait(&grp);
}

TEST(a_g_in_a_range_denied_for_a_moment_is_stopped_after_some_tries)
{
	struct stats sum;

	if (no_signal())
		return;
	uint64_t t = turn_beside_denied(2000, DENY_AWHILE);
	EXPECT_EQ(ld_rlx(&phase), 1);
	stats_sum(&sum);
	test_say("  stopped after %llu us, put off %llu times", (unsigned long long)t / US,
		 (unsigned long long)sum.preemptputoff);
	EXPECT(sum.preemptputoff > 0);
	group_wait(&grp);
}

static void hold_and_tell(void *arg)
{
	ghold();
	hold_once(arg);
	gunhold();
}

/* The first range that was denied counts. */
static int phase_of_turn(bool holds)
{
	start(1);
	spins_per_ms = measure_spins();
	EXPECT(preempt_deny((uintptr_t)registers_hold, (uintptr_t)registers_hold_end, DENY_HELD));
	EXPECT(preempt_deny((uintptr_t)__start_held, (uintptr_t)__stop_held, DENY_HELD));
	EXPECT(preempt_deny((uintptr_t)registers_hold, (uintptr_t)registers_hold_end, DENY_ALWAYS));
	EXPECT(preempt_deny((uintptr_t)__start_held, (uintptr_t)__stop_held, DENY_ALWAYS));
	grp.left = 1;
	go(holds ? hold_and_tell : hold_once, (void *)150);
	while (ld_rlx(&phase) == 0)
		gosched();
	return (int)ld_rlx(&phase);
}

TEST(a_g_that_says_itself_where_it_holds_something_is_stopped_elsewhere)
{
	if (no_signal())
		return;
	EXPECT_EQ(phase_of_turn(false), 1);
	group_wait(&grp);
}

TEST(a_g_that_says_that_it_holds_something_is_not_stopped_there)
{
	if (no_signal())
		return;
	EXPECT_EQ(phase_of_turn(true), 2);
	group_wait(&grp);
}

static ATOMIC(bool) enough;

static void __attribute__((noinline, section("held"))) spin_denied(void)
{
	for (volatile int i = 0; i < 1900; i++)
		continue;
}

/* As who takes and lets go a lock all the time. */
static void seldom_outside(void *arg)
{
	(void)arg;
	while (!ld_rlx(&enough)) {
		spin_denied();
		for (volatile int i = 0; i < 100; i++)
			continue;
	}
	group_done(&grp);
}

static int longer(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Asked once in 3 ms, it kept the P for 60 ms, twenty asks. It takes 12 to 16 of cpu; on a virtual
 * machine now and then 20, where others keep sysmon from a cpu while the G has one. */
TEST(a_g_seldom_found_where_it_may_be_stopped_is_asked_often)
{
	enum { TURNS = 20 };
	uint64_t took[TURNS];

	if (no_signal())
		return;
	start(1);
	EXPECT(preempt_deny((uintptr_t)__start_held, (uintptr_t)__stop_held, DENY_ALWAYS));
	grp.left = 1;
	go(seldom_outside, NULL);
	for (int i = 0; i < TURNS; i++) {
		took[i] = cpu_ns();
		gosched();
		took[i] = cpu_ns() - took[i];
	}
	st_rlx(&enough, true);
	group_wait(&grp);
	qsort(took, TURNS, sizeof(took[0]), longer);
	test_say("  a slice took %llu us of cpu", (unsigned long long)took[TURNS / 2] / US);
	EXPECT(took[TURNS / 2] < 3 * CHOOSE_SLICE_NS);
}

/* ---- calls that block unannounced ---- */
static ATOMIC(uint32_t) calls, broken;

static void note_call(long r)
{
	add_rlx(&calls, 1);
	if (r == -RAW_EINTR)
		add_rlx(&broken, 1);
}

/* Works for a while, then blocks, as long as the argument says. */
static void blocker(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;
	uint32_t work = (uint32_t)(uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		burn_ns(random_below(&seed, work) * US);
		if (random_below(&seed, 2))
			note_call(raw_sleep((1 + random_below(&seed, 25)) * MS));
		else
			note_call(raw_poll_nothing((int)(1 + random_below(&seed, 25))));
	}
	group_done(&grp);
}

static void tick(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		sleep_ns(1 * MS);
	group_done(&grp);
}

static void resizer(void *arg)
{
	uint64_t seed = test_seed() + 3;

	while (!ld_rlx(&stop)) {
		EXPECT_EQ(core_setprocs(1 + (int)random_below(&seed, (uint32_t)(uintptr_t)arg)), 0);
		sleep_ns(5 * MS);
	}
	group_done(&grp);
}

/* Gs that block beside Gs that do not, and beside what makes the core want Ps back. */
static void none_broken(int procs, uint32_t work_us, int blockers, void (*beside)(void *))
{
	start(procs);
	grp.left = (uint32_t)(blockers + procs + (beside ? 1 : 0));
	for (int i = 0; i < procs; i++)
		go(hog, NULL);
	for (int i = 0; i < blockers; i++)
		go(blocker, (void *)(uintptr_t)work_us);
	if (beside)
		go(beside, (void *)(uintptr_t)procs);
	sleep_ns(1500 * MS);
	end_hogs();
	test_say("  %llu calls, %llu broken, %llu preemptions", (unsigned long long)ld_rlx(&calls),
		 (unsigned long long)ld_rlx(&broken), (unsigned long long)preempts());
	/* A call may begin between sysmon's look at the M and its signal: a matter of
	 * microseconds, but of more where other processes keep sysmon from the cpu there. */
	EXPECT(ld_rlx(&broken) <= 2 + ld_rlx(&calls) / 6);
}

TEST(the_end_of_a_slice_breaks_no_blocked_call)
{
	if (!no_signal())
		none_broken(2, 1, 4, NULL);
}

TEST(the_end_of_a_slice_breaks_no_blocked_call_of_one_that_worked)
{
	if (!no_signal())
		none_broken(2, 12000, 4, NULL);
}

TEST(a_due_timer_breaks_no_blocked_call)
{
	if (!no_signal())
		none_broken(2, 300, 4, tick);
}

TEST(procresize_breaks_no_blocked_call)
{
	if (!no_signal())
		none_broken(4, 300, 4, resizer);
}

TEST(taking_the_cpu_from_one_without_a_p_breaks_no_blocked_call)
{
	if (!no_signal())
		none_broken(1, 600, 6, NULL);
}

/* It runs without a P between its waits, for it never comes to us. */
TEST(who_wakes_now_and_then_without_a_p_is_let_alone)
{
	enum { WAITS = 500 };
	uint32_t ended = 0;

	if (no_signal())
		return;
	start(1);
	grp.left = 1;
	go(hog, NULL);
	for (int i = 0; i < WAITS; i++)
		ended += raw_poll_nothing(3) == -RAW_EINTR;
	end_hogs();
	test_say("  %u of %d waits ended", ended, WAITS);
	/* As above; for who is not let alone it is nine. */
	EXPECT(ended <= 2);
}

/* A read is begun anew by the kernel, and gives what it would have given. */
static int pipe_fd[2];
static uint64_t bytes_read;

static void raw_reader(void *arg)
{
	char buf[64];
	long n;

	(void)arg;
	while ((n = raw_read(pipe_fd[0], buf, sizeof(buf))) != 0) {
		EXPECT(n > 0);
		bytes_read += (uint64_t)n;
	}
	group_done(&grp);
}

TEST(a_blocked_read_goes_on)
{
	uint64_t seed = test_seed(), written = 0;

	raw_pipe(pipe_fd, 0);
	start(2);
	grp.left = can_preempt() ? 3 : 1;
	go(raw_reader, NULL);
	for (int i = 0; i < 2 && can_preempt(); i++)
		go(hog, NULL);
	for (int i = 0; i < 100; i++) {
		char text[64] = { 0 };
		long n = 1 + random_below(&seed, 64);
		sleep_ns(random_below(&seed, 25) * MS / 2);
		EXPECT_EQ(raw_write(pipe_fd[1], text, (size_t)n), n);
		written += (uint64_t)n;
	}
	raw_close(pipe_fd[1]);
	end_hogs();
	EXPECT_EQ(bytes_read, written);
}

/* ---- waits that no kernel makes again ---- */
enum { COMPLETIONS = 200, READABLE = 1 };

static aio_context_t completions;
static ATOMIC(int32_t) waiter;
static ATOMIC(uint32_t) begun;

/* As a library does that asks the kernel itself. */
static long wait_for_completion(void)
{
	struct io_event event;
	register long no_limit __asm__("r8") = 0;
	register void *to __asm__("r10") = &event;
	long r;

	__asm__ volatile("movl %2, %%eax\n\t"
			 "syscall"
			 : "=&a"(r)
			 : "D"(completions), "i"(__NR_io_getevents), "S"(1L), "d"(1L), "r"(to),
			   "r"(no_limit)
			 : "rcx", "r11", "memory");
	return r;
}

static void completed(void *arg)
{
	struct iocb poll = { .aio_lio_opcode = IOCB_CMD_POLL,
			     .aio_fildes = (uint32_t)pipe_fd[0],
			     .aio_buf = READABLE },
		    *one = &poll;
	char c;

	for (int i = 0; i < COMPLETIONS; i++) {
		EXPECT_EQ(arch_syscall3(__NR_io_submit, (long)completions, 1, (long)&one), 1);
		st_rlx(&waiter, os_gettid());
		st_rel(&begun, (uint32_t)i + 1);
		EXPECT_EQ(wait_for_completion(), 1);
		EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), 1);
	}
	(void)arg;
	group_done(&grp);
}

static bool is_asleep(int32_t tid)
{
	char path[64], stat[512];
	const char *at;
	int fd;
	long n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? 0 : raw_read(fd, stat, sizeof(stat) - 1);
	if (fd >= 0)
		raw_close(fd);
	stat[n > 0 ? n : 0] = 0;
	at = strrchr(stat, ')');
	return at && at[2] == 'S';
}

TEST(a_wait_for_completions_is_made_again)
{
	if (no_signal())
		return;
	raw_pipe(pipe_fd, 0);
	/* Some sandboxes have none. */
	if (arch_syscall3(__NR_io_setup, 1, (long)&completions, 0) != 0)
		return;
	start(2);
	grp.left = 1;
	go(completed, NULL);
	for (uint32_t i = 0; i < COMPLETIONS; i++) {
		while (ld_acq(&begun) != i + 1 || !is_asleep(ld_rlx(&waiter)))
			gosched();
		EXPECT(os_tgkill(ld_rlx(&waiter), SIG_PREEMPT));
		EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
	}
	group_wait(&grp);
	arch_syscall3(__NR_io_destroy, (long)completions, 0, 0);
}

/* ---- the mask is the G's ---- */
enum { MASKED = 8 };

static ATOMIC(uint32_t) wrong_masks, masks_seen;

static void mask_keeper(void *arg)
{
	uint64_t want = (uintptr_t)arg, seed = test_seed() + want;

	while (!ld_rlx(&stop)) {
		uint64_t mask = 0;
		arch_syscall4(__NR_rt_sigprocmask, 0, 0, (long)&mask, sizeof(mask));
		add_rlx(&masks_seen, 1);
		if (mask != want)
			add_rlx(&wrong_masks, 1);
		switch (random_below(&seed, 4)) {
		case 0:
			gosched();
			break;
		case 1:
			goyield();
			break;
		case 2:
			sleep_ns(random_below(&seed, 300) * US);
			break;
		default:
			burn_ns(random_below(&seed, 200) * US);
			break;
		}
	}
	group_done(&grp);
}

static void masks_stay(int procs)
{
	start(procs);
	struct g *gp = getg();
	uint64_t own = ld_rlx(&gp->sigmask);
	grp.left = MASKED;
	for (uint64_t i = 0; i < MASKED; i++) {
		/* SIGUSR1, SIGUSR2 and SIGRTMIN+3 in all combinations. */
		uint64_t mask = (i & 1) << 9 | (i >> 1 & 1) << 11 | (i >> 2 & 1) << 36;
		st_rlx(&gp->sigmask, mask);
		go(mask_keeper, (void *)mask);
	}
	st_rlx(&gp->sigmask, own);
	sleep_ns(700 * MS);
	end_hogs();
	test_say("  %llu looks, %llu wrong, %llu preemptions",
		 (unsigned long long)ld_rlx(&masks_seen), (unsigned long long)ld_rlx(&wrong_masks),
		 (unsigned long long)preempts());
	EXPECT_EQ(ld_rlx(&wrong_masks), 0);
}

TEST(the_signal_mask_moves_with_its_g)
{
	masks_stay(4);
}

TEST(the_signal_mask_changes_with_the_g_on_one_p)
{
	masks_stay(1);
}

/* ---- a request that comes late ---- */
static uint64_t rounds_per_ms;

static void nearly_a_slice(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;

	for (int n = 0; n < 30; n++) {
		compute((8 + random_below(&seed, 4)) * rounds_per_ms);
		goyield();
	}
	group_done(&grp);
}

static uint64_t began[1024];
static uint32_t stops, early_stops;

static void look_at_slice(uint32_t mid, const struct traceevent *ev, void *arg)
{
	(void)arg;
	if (mid >= 1024)
		return;
	if (ev->kind == TRACE_RUN)
		began[mid] = ev->when;
	if (ev->kind != TRACE_STOP || ev->arg >> 8 != POST_PREEMPT || began[mid] == 0)
		return;
	stops++;
	if (ev->when - began[mid] < 5 * MS)
		early_stops++;
}

TEST(a_late_request_does_not_stop_the_next_slice)
{
	uint64_t t;

	if (no_signal())
		return;
	start(1);
	t = now_ns();
	compute(1000000);
	rounds_per_ms = 1000000 * (uint64_t)MS / (now_ns() - t);
	trace_on(true);
	grp.left = 4;
	for (uintptr_t i = 0; i < 4; i++)
		go(nearly_a_slice, (void *)i);
	group_wait(&grp);
	trace_on(false);
	trace_read(look_at_slice, NULL);
	test_say("  %llu slices ended by signal, %llu of them younger than 5 ms",
		 (unsigned long long)stops, (unsigned long long)early_stops);
	EXPECT(early_stops <= 2);
}
