/* Interleavings that once broke the core, each made likely on purpose. */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"
#include "host.h"
#include "netpoll.h"
#include "os.h"
#include "raw.h"
#include "sched.h"
#include "sigsave.h"
#include "syscall.h"

static struct group grp;
static ATOMIC(uint32_t) stop;

static void announced_nap(uint64_t ns)
{
	entersyscall();
	raw_sleep(ns);
	exitsyscall();
}

static void caller(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		announced_nap(50000);
	group_done(&grp);
}

TEST_IN(60, a_p_taken_while_the_world_restarts_is_not_stopped_again)
{
	uint64_t random = test_seed() | 1;

	start(4);
	grp.left = 8;
	for (int i = 0; i < 8; i++)
		go(caller, NULL);
	for (int i = 0; i < 3000; i++) {
		EXPECT_EQ(core_setprocs(2 + (int)random_below(&random, 3)), 0);
		announced_nap(100000);
		EXPECT_EQ(ld_rlx(&sched.stopwait), 0);
	}
	st_rlx(&stop, 1);
	group_wait(&grp);
}

/* ---- calls that no signal of ours may break ---- */

static long poll_result = -1;
static ATOMIC(uint32_t) polled, poller;

static void raw_poll(void *ms)
{
	st_sc(&poller, (uint32_t)kernel_tid());
	poll_result = arch_syscall3(SYS_poll, 0, 0, (long)ms);
	st_sc(&polled, 1);
	group_done(&grp);
}

/* Until it sleeps in the kernel, which only that can tell; on a P of our own, so that it keeps its.
 */
static void until_polling(void)
{
	uint32_t tid;

	while (!(tid = ld_sc(&poller)) || !os_threadasleep((int32_t)tid))
		os_yield();
}

static void sleeps_until_polled(void *arg)
{
	(void)arg;
	while (!ld_rlx(&polled))
		sleep_ns(1500000);
	group_done(&grp);
}

TEST(a_due_timer_does_not_break_the_call_of_a_blocked_g)
{
	start(1);
	grp.left = 2;
	go(sleeps_until_polled, NULL);
	sleep_ns(20000000);
	go(raw_poll, (void *)100);
	group_wait(&grp);
	EXPECT_EQ(poll_result, 0);
}

TEST(stop_the_world_does_not_break_the_call_of_a_blocked_g)
{
	start(2);
	grp.left = 1;
	go(raw_poll, (void *)100);
	until_polling();
	EXPECT_EQ(core_setprocs(2), 0);
	group_wait(&grp);
	EXPECT_EQ(poll_result, 0);
}

static void burns_then_polls(void *arg)
{
	burn_ns(200000000);
	goyield();
	raw_poll(arg);
}

static void yields_until_polled(void *arg)
{
	(void)arg;
	while (!ld_rlx(&polled)) {
		burn_ns(1000);
		gosched();
	}
	group_done(&grp);
}

TEST(sysmons_first_look_does_not_break_the_call_of_a_blocked_g)
{
	start(1);
	grp.left = 2;
	go(burns_then_polls, (void *)100);
	sleep_ns(150000000);
	go(yields_until_polled, NULL);
	group_wait(&grp);
	EXPECT_EQ(poll_result, 0);
}

/* ---- what a preempted G must not leave behind, nor lose ---- */

static void holds_x87_stack(void *arg)
{
	(void)arg;
	__asm__ volatile("fld1\n fld1\n fld1\n fld1\n fld1\n" ::: "memory");
	while (!ld_rlx(&stop))
		arch_relax();
	__asm__ volatile(
		"fstp %%st(0)\n fstp %%st(0)\n fstp %%st(0)\n fstp %%st(0)\n fstp %%st(0)\n" ::
			: "memory");
	group_done(&grp);
}

static ATOMIC(uint32_t) wrong;

static void uses_x87_stack(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		double sum = 0;
		__asm__ volatile("fld1\n fld1\n fld1\n fld1\n fld1\n fld1\n"
				 "faddp\n faddp\n faddp\n faddp\n faddp\n fstpl %0\n"
				 : "=m"(sum)
				 :
				 : "memory");
		if (sum < 6.0 || sum > 6.0)
			add_rlx(&wrong, 1);
		gosched();
	}
	st_rlx(&stop, 1);
	group_done(&grp);
}

TEST(the_x87_stack_of_a_preempted_g_is_its_own)
{
	start(1);
	if (!can_preempt())
		return;
	grp.left = 2;
	go(holds_x87_stack, NULL);
	go(uses_x87_stack, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&wrong), 0);
}

static uint16_t x87_flags(void)
{
	uint16_t sw;
	__asm__ volatile("fnstsw %0" : "=m"(sw));
	return sw & 0x3f;
}

static void raises_zero_divide(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		__asm__ volatile("fld1\n fldz\n fdivrp\n fstp %%st(0)\n" ::: "memory");
		gosched();
		EXPECT_EQ(x87_flags() & 4, 4);
	}
	group_done(&grp);
}

static void raises_nothing(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(x87_flags(), 0);
		gosched();
	}
	group_done(&grp);
}

TEST(x87_exception_flags_belong_to_the_g)
{
	start(1);
	grp.left = 2;
	go(raises_zero_divide, NULL);
	go(raises_nothing, NULL);
	group_wait(&grp);
}

/* ---- preemption inside a signal handler of the program's ---- */

static ATOMIC(uint32_t) in_handler;

static void long_handler(int sig)
{
	uint64_t until = now_ns() + 60000000;

	(void)sig;
	st_rlx(&in_handler, 1);
	while (now_ns() < until)
		arch_relax();
	st_rlx(&in_handler, 2);
}

static void raises_usr1(void *arg)
{
	arch_syscall3(SYS_tgkill, getpid(), os_gettid(), SIGUSR1);
	st_rlx(&stop, 1);
	(void)arg;
	group_done(&grp);
}

static uint64_t mask_seen;

static void looks_at_mask(void *arg)
{
	(void)arg;
	while (ld_rlx(&in_handler) == 0)
		gosched();
	arch_syscall4(SYS_rt_sigprocmask, 0, 0, (long)&mask_seen, sizeof(mask_seen));
	group_done(&grp);
}

TEST(a_handlers_mask_stays_with_its_g)
{
	struct sigaction sa = { .sa_handler = long_handler };

	if (!can_preempt())
		return;
	sigaction(SIGUSR1, &sa, NULL);
	start(1);
	grp.left = 2;
	go(raises_usr1, NULL);
	go(looks_at_mask, NULL);
	group_wait(&grp);
	EXPECT_EQ(mask_seen >> (SIGUSR1 - 1) & 1, 0);
}

static void hog(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		arch_relax();
	group_done(&grp);
}

static void handler_with_locals(int sig)
{
	volatile uint64_t local[64];
	uint64_t until = now_ns() + 60000000;

	(void)sig;
	for (int i = 0; i < 64; i++)
		local[i] = 0x1234567890abcdef;
	while (now_ns() < until)
		arch_relax();
	for (int i = 0; i < 64; i++)
		if (local[i] != 0x1234567890abcdef)
			add_rlx(&wrong, 1);
}

TEST(a_handler_on_the_ms_signal_stack_is_not_carried_away)
{
	struct sigaction sa = { .sa_handler = handler_with_locals, .sa_flags = SA_ONSTACK };

	if (!can_preempt())
		return;
	sigaction(SIGUSR1, &sa, NULL);
	start(1);
	grp.left = 2;
	go(raises_usr1, NULL);
	go(hog, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&wrong), 0);
}

/* A storm of preemptions and of a program's signals with deep handlers: none of these may
 * come while a G stands on the buffer that its frame is kept in. */

static bool within(const struct sigsave *save, uintptr_t sp)
{
	return save && sp + 8192 >= (uintptr_t)save && sp < (uintptr_t)save + save->size;
}

static ATOMIC(uint32_t) handled;

static void deep_handler(int sig)
{
	volatile char room[6000];
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	struct g *gp = getg();

	(void)sig;
	for (int i = 0; i < 6000; i += 8)
		room[i] = 0x5a;
	add_rlx(&handled, (uint32_t)(room[0] != 0));
	if (gp && (within(gp->frame, sp) || (gp->m && within(gp->m->spareframe, sp))))
		add_rlx(&wrong, 1);
}

static void keeps_xmm(void *arg)
{
	uint64_t value = (uintptr_t)arg * 0x0101010101010101u, got;

	while (!ld_rlx(&stop)) {
		__asm__ volatile("movq %1, %%xmm7\n\t"
				 "movl $2000, %%ecx\n"
				 "1:\tpause\n\t"
				 "decl %%ecx\n\t"
				 "jnz 1b\n\t"
				 "movq %%xmm7, %0"
				 : "=r"(got)
				 : "r"(value)
				 : "xmm7", "ecx", "memory");
		if (got != value)
			add_rlx(&wrong, 1);
	}
	group_done(&grp);
}

static void *poke(void *arg)
{
	uint64_t until = now_ns() + 1500000000, random = test_seed() | 1;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (now_ns() < until || ld_rlx(&handled) <= 100) {
		struct p *pp = sched.allp[0];
		struct m *mp;
		preemptone(pp);
		for (uint32_t k = random_below(&random, 120); k > 0; k--)
			arch_relax();
		if ((mp = ld_rlx(&pp->m)) != NULL)
			os_tgkill(ld_rlx(&mp->tid), SIGUSR1);
		for (int i = 0; i < 200; i++)
			arch_relax();
	}
	st_sc(&stop, 1);
	return arg;
}

TEST(no_handler_runs_on_the_buffer_of_a_preempted_gs_frame)
{
	struct sigaction sa = { .sa_handler = deep_handler };
	pthread_t t;

	if (!can_preempt())
		return;
	sigaction(SIGUSR1, &sa, NULL);
	start(1);
	grp.left = 4;
	for (uintptr_t i = 1; i <= 4; i++)
		EXPECT_EQ(newproc(keeps_xmm, (void *)i, 1 << 20, NULL), 0);
	entersyscall();
	pthread_create(&t, NULL, poke, NULL);
	pthread_detach(t);
	exitsyscall();
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&wrong), 0);
}

/* ---- a descriptor closed and reused while another M blocks in the poller ---- */

static int idle_pipe[2], reused[2];
static ATOMIC(uint32_t) phase;

static void waits_for_ever(void *arg)
{
	(void)arg;
	netpoll_wait(idle_pipe[0], POLL_READ, netpoll_ticket(idle_pipe[0], POLL_READ), NULL);
}

static void reuses_its_descriptor(void *arg)
{
	struct deadline soon = { 1, nanotime() + 5000000 };
	int fd = reused[0], p[2];

	(void)arg;
	netpoll_wait(fd, POLL_READ, netpoll_ticket(fd, POLL_READ), &soon);
	close(reused[0]);
	close(reused[1]);
	EXPECT_EQ(pipe(p), 0);
	EXPECT_EQ(p[0], fd);
	reused[1] = p[1];
	burn_ns(60000000);
	raise_by(&phase, 1);
	netpoll_wait(fd, POLL_READ, netpoll_ticket(fd, POLL_READ), NULL);
	st_sc(&phase, 2);
	group_done(&grp);
}

static void *writes_later(void *arg)
{
	wait_raised(&phase, 1);
	/* Until it waits, and an M in the poller on its behalf, which nothing tells. */
	usleep(100000);
	EXPECT_EQ(write(reused[1], "x", 1), 1);
	return arg;
}

TEST_IN(10, a_reused_descriptor_is_noticed_while_another_m_polls)
{
	pthread_t t;

	EXPECT_EQ(pipe(idle_pipe), 0);
	EXPECT_EQ(pipe(reused), 0);
	pthread_create(&t, NULL, writes_later, NULL);
	pthread_detach(t);
	start(2);
	grp.left = 1;
	go(waits_for_ever, NULL);
	go(reuses_its_descriptor, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_sc(&phase), 2);
}

/* ---- the far end of the clock ---- */

static void sleeps_for_ever(void *arg)
{
	(void)arg;
	gosleep(1, UINT64_MAX);
}

TEST(a_deadline_beyond_the_clock_is_never_due)
{
	static ATOMIC(uint32_t) word;
	struct stats st;

	start(1);
	go(sleeps_for_ever, NULL);
	sleep_ns(50000000);
	stats_sum(&st);
	EXPECT(st.timersfired < 10);
	struct deadline soon = { 1, now_ns() + 10000000 };
	EXPECT_EQ(futex_wait(&word, 0, (uint32_t)FUTEX_ANY, &soon, 0), -110);
}

/* ---- too few kernel threads ---- */

static void two_ms(struct core_config *config)
{
	config->maxmcount = 2;
}

TEST_IN(10, at_the_limit_of_threads_a_locked_g_gets_its_own_m_back)
{
	start_with(1, two_ms);
	lockosthread();
	for (int i = 0; i < 10; i++)
		gosched();
	sleep_ns(1000000);
	unlockosthread();
}
