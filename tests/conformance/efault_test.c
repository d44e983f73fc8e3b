/* Memory that the kernel is to look at, where there is none, or none to be written: an error of the
 * call, not a fault. The same holds natively. */
#include "common.h"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>

/* A page that can only be read, and one that cannot; `across` begins before the latter. */
static void *volatile readonly, *volatile bad, *volatile across;
static int ends[2];
static pthread_t other;
static pid_t other_tid;
static unsigned word;
static struct timespec soon = { .tv_nsec = MS };

static void *naps(void *arg)
{
	other_tid = (pid_t)syscall(SYS_gettid);
	tick(&entered);
	await(&returned, 1);
	return arg;
}

static void opens_all(void)
{
	char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	EXPECT(pages != MAP_FAILED);
	EXPECT_EQ(mprotect(pages, PAGE, PROT_READ), 0);
	EXPECT_EQ(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE), 0);
	readonly = pages;
	bad = pages + 2 * PAGE;
	across = pages + 2 * PAGE - 4;
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	EXPECT_EQ(pthread_create(&other, NULL, naps, NULL), 0);
	await(&entered, 1);
}

static void run_beside_another(void *(*fn)(void *))
{
	opens_all();
	twice(fn);
	tick(&returned);
	EXPECT_EQ(pthread_join(other, NULL), 0);
}

#define FUTEX(...) syscall(SYS_futex, __VA_ARGS__)

static void *waits_on_futexes(void *arg)
{
	enum { ADDS = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0) };
	enum { NO_OP = (int)FUTEX_OP(7u, 1u, FUTEX_OP_CMP_EQ, 0u) };

	FAILS(FUTEX(bad, FUTEX_WAIT_PRIVATE, 0, NULL), EFAULT);
	FAILS(FUTEX(8l, FUTEX_WAIT_PRIVATE, 0, NULL), EFAULT);
	FAILS(FUTEX(bad, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 1), EFAULT);
	FAILS(FUTEX(&word, FUTEX_WAIT_PRIVATE, 0, bad), EFAULT);
	FAILS(FUTEX(&word, FUTEX_WAIT_PRIVATE, 0, across), EFAULT);
	FAILS(FUTEX(bad, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1l, &word, 0), EFAULT);
	FAILS(FUTEX(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1l, bad, ADDS), EFAULT);
	FAILS(FUTEX(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1l, readonly, ADDS), EFAULT);
	FAILS(FUTEX(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1l, bad, NO_OP), ENOSYS);
	/* These look at no word. */
	EXPECT_EQ(FUTEX(bad, FUTEX_WAKE_PRIVATE, 1), 0);
	EXPECT_EQ(FUTEX(bad, FUTEX_REQUEUE_PRIVATE, 1, 1l, &word, 0), 0);
	FAILS(FUTEX(readonly, FUTEX_WAIT_PRIVATE, 1, NULL), EAGAIN);
	return arg;
}

TEST(a_futex_that_is_not_there_is_told)
{
	run_beside_another(waits_on_futexes);
}

static void *sets_masks(void *arg)
{
	sigset_t set, old;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	FAILS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8), EFAULT);
	FAILS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, across, NULL, 8), EFAULT);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, NULL, bad), EFAULT);
	/* It is set all the same. */
	FAILS(sigprocmask(SIG_BLOCK, &set, readonly), EFAULT);
	EXPECT_EQ(sigprocmask(SIG_BLOCK, NULL, &old), 0);
	EXPECT(sigismember(&old, SIGUSR1));
	FAILS(sigpending(bad), EFAULT);
	FAILS(sigsuspend(bad), EFAULT);
	FAILS(sigtimedwait(bad, NULL, &soon), EFAULT);
	FAILS(sigtimedwait(&set, NULL, bad), EFAULT);
	EXPECT_EQ(sigwait(bad, &(int){ 0 }), EFAULT);
	/* It is taken all the same. */
	EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	FAILS(sigtimedwait(&set, bad, NULL), EFAULT);
	FAILS(sigtimedwait(&set, &info, &soon), EAGAIN);
	EXPECT_EQ(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
	FAILS(syscall(SYS_rt_tgsigqueueinfo, getpid(), other_tid, 0, bad), EFAULT);
	return arg;
}

static void *sets_stacks(void *arg)
{
	static char memory[65536];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) }, old;

	FAILS(sigaltstack(bad, NULL), EFAULT);
	FAILS(sigaltstack(NULL, bad), EFAULT);
	FAILS(sigaltstack(&stack, bad), EFAULT);
	EXPECT_EQ(sigaltstack(NULL, &old), 0);
	EXPECT(old.ss_sp == memory);
	stack.ss_flags = SS_DISABLE;
	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	return arg;
}

TEST(a_mask_or_stack_of_signals_that_is_not_there_is_told)
{
	run_beside_another(sets_masks);
	twice(sets_stacks);
}

static void *waits_for_times(void *arg)
{
	struct pollfd p = { .fd = ends[0], .events = POLLIN };
	int ep = epoll_create1(0);

	FAILS(nanosleep(bad, NULL), EFAULT);
	FAILS(nanosleep(across, NULL), EFAULT);
	EXPECT_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, bad, NULL), EFAULT);
	EXPECT_EQ(thrd_sleep(bad, NULL), -2);
	FAILS(ppoll(&p, 1, &soon, bad), EFAULT);
	FAILS(pselect(0, NULL, NULL, NULL, &soon, bad), EFAULT);
	FAILS(epoll_pwait(ep, &(struct epoll_event){ 0 }, 1, 1, bad), EFAULT);
	FAILS(syscall(SYS_epoll_pwait2, ep, &(struct epoll_event){ 0 }, 1, bad, NULL, 8), EFAULT);
	close(ep);
	return arg;
}

static void *receives_with_a_time(void *arg)
{
	char c;
	struct iovec v = { &c, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	struct timespec *time = readonly;

	EXPECT_EQ(mprotect(readonly, PAGE, PROT_READ | PROT_WRITE), 0);
	*time = (struct timespec){ .tv_sec = 1 };
	EXPECT_EQ(mprotect(readonly, PAGE, PROT_READ), 0);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	FAILS(recvmmsg(ends[0], &m, 1, 0, time), EFAULT);
	return arg;
}

TEST(a_time_that_is_not_there_is_told)
{
	run_beside_another(waits_for_times);
	twice(receives_with_a_time);
}

static void *asks_of_a_thread(void *arg)
{
	enum { CPUS = sizeof(cpu_set_t) };
	void *head;

	FAILS(sched_setscheduler(0, SCHED_OTHER, bad), EFAULT);
	FAILS(sched_setscheduler(other_tid, SCHED_OTHER, bad), EFAULT);
	FAILS(sched_setparam(0, bad), EFAULT);
	FAILS(sched_getparam(other_tid, readonly), EFAULT);
	EXPECT_EQ(pthread_setschedparam(other, SCHED_OTHER, bad), EFAULT);
	FAILS(sched_setaffinity(other_tid, CPUS, bad), EFAULT);
	EXPECT_EQ(pthread_setaffinity_np(other, CPUS, across), EFAULT);
	FAILS(sched_getaffinity(other_tid, CPUS, bad), EFAULT);
	EXPECT_EQ(pthread_getaffinity_np(other, CPUS, bad), EFAULT);
	EXPECT_EQ(pthread_getname_np(other, bad, 16), EFAULT);
	FAILS(syscall(SYS_sched_setattr, 0, bad, 0), EFAULT);
	FAILS(syscall(SYS_get_robust_list, 0, &head, bad), EFAULT);
	FAILS(syscall(SYS_get_robust_list, 0, bad, &(size_t){ 0 }), EFAULT);
	return arg;
}

TEST(what_a_thread_is_to_be_told_where_nothing_is)
{
	cpu_set_t set;

	run_beside_another(asks_of_a_thread);
	returned.n = 0;
	entered.n = 0;
	opens_all();
	/* The answer is another's then. */
	EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	EXPECT_EQ(pthread_setaffinity_np(other, sizeof(set), &set), 0);
	twice(asks_of_a_thread);
	tick(&returned);
	EXPECT_EQ(pthread_join(other, NULL), 0);
}
