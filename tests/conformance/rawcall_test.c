/* syscall(): what blocks there blocks its thread alone, and what it does to descriptors and
 * threads is as if the function of that name had done it. */
#include "common.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void opens_pair(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
}

static long reads(struct wait *w)
{
	char c;

	return syscall(SYS_read, w->fd[0], &c, 1);
}

static long receives(struct wait *w)
{
	char c;

	return syscall(SYS_recvfrom, w->fd[0], &c, 1, 0, NULL, NULL);
}

static long polls(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };

	return syscall(SYS_poll, &p, 1, -1);
}

static long ppolls(struct wait *w)
{
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };

	return syscall(SYS_ppoll, &p, 1, NULL, NULL, 8);
}

static void opens_child(struct wait *w)
{
	EXPECT_EQ(pipe(w->fd), 0);
	w->pid = fork();
	if (w->pid == 0) {
		char c;
		close(w->fd[1]);
		_exit(read(w->fd[0], &c, 1) == 1 ? 0 : 1);
	}
}

static long waits_for_child(struct wait *w)
{
	return syscall(SYS_wait4, w->pid, NULL, 0, NULL) == w->pid ? 0 : -1;
}

HOLDS_UP_NOBODY(a_raw_read, .open = opens_pipe, .block = reads, .release = feeds_pipe, .wants = 1)
HOLDS_UP_NOBODY(a_raw_recvfrom, .open = opens_pair, .block = receives, .release = feeds_pipe,
		.wants = 1)
HOLDS_UP_NOBODY(a_raw_poll, .open = opens_pipe, .block = polls, .release = feeds_pipe, .wants = 1)
HOLDS_UP_NOBODY(a_raw_ppoll, .open = opens_pipe, .block = ppolls, .release = feeds_pipe, .wants = 1)
HOLDS_UP_NOBODY(a_raw_wait4, .open = opens_child, .block = waits_for_child, .release = feeds_pipe)

/* It is no point of cancellation. */
static void *reads_uncancelled(void *arg)
{
	struct wait *w = arg;
	char c;

	pthread_cleanup_push(cleans, NULL);
	tick(&entered);
	EXPECT_EQ(syscall(SYS_read, w->fd[0], &c, 1), 1);
	tick(&w->returned);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

TEST(a_raw_read_is_not_cancelled)
{
	struct wait w = { 0 };
	pthread_t t;

	opens_pipe(&w);
	EXPECT_EQ(pthread_create(&t, NULL, reads_uncancelled, &w), 0);
	await(&entered, 1);
	EXPECT_EQ(pthread_cancel(t), 0);
	settle();
	EXPECT_EQ(w.returned.n, 0);
	feeds_pipe(&w);
	expect_cancelled(t);
	EXPECT_EQ(w.returned.n, 1);
	EXPECT_EQ(cleaned.n, 1);
}

static void *forks_raw(void *arg)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (pid == 0)
		syscall(SYS_exit_group, 7);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
	return arg;
}

TEST(a_raw_fork_makes_a_child_that_can_end)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, forks_raw, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(a_raw_clone3_of_what_cannot_be_read_is_refused)
{
	pthread_t t;

	for (int round = 0; round < 2; round++) {
		EXPECT_EQ(syscall(SYS_clone3, nowhere, 64), -1);
		EXPECT_EQ(errno, EFAULT);
		EXPECT_EQ(pthread_create(&t, NULL, forks_raw, NULL), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* ---- a wait on many futexes ---- */

/* As <linux/futex.h> of 5.16 has them. */
enum { WAITV = 449, FUTEX2_U32_PRIVATE = 2 | 128, WORDS = 3 };

struct waiter {
	uint64_t value, word;
	uint32_t flags, reserved;
};

static _Atomic uint32_t words[WORDS];
static _Atomic bool unknown;

static void *waits_on_many(void *arg)
{
	struct waiter waiters[WORDS] = { 0 };
	long r;

	for (int i = 0; i < WORDS; i++) {
		waiters[i].word = (uintptr_t)&words[i];
		waiters[i].flags = FUTEX2_U32_PRIVATE;
	}
	tick(&entered);
	r = syscall(WAITV, waiters, WORDS, 0, NULL, 0);
	unknown = r < 0 && errno == ENOSYS;
	EXPECT(r == WORDS - 1 || unknown || (r < 0 && errno == EAGAIN));
	tick(&returned);
	return arg;
}

/* Until it was, for who is not asleep yet is not woken. */
static void wakes_one_that_waits(void)
{
	long n;

	do
		n = syscall(SYS_futex, &words[WORDS - 1], FUTEX_WAKE_PRIVATE, 1);
	while (n == 0 && returned.n == 0);
	EXPECT(n == 1 || unknown);
}

TEST(a_raw_wait_on_many_futexes_is_woken_by_each)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, waits_on_many, NULL), 0);
	await(&entered, 1);
	wakes_one_that_waits();
	EXPECT_EQ(pthread_join(t, NULL), 0);
	/* Changed first, as is usual. */
	EXPECT_EQ(pthread_create(&t, NULL, waits_on_many, NULL), 0);
	await(&entered, 2);
	words[WORDS - 1] = 1;
	syscall(SYS_futex, &words[WORDS - 1], FUTEX_WAKE_PRIVATE, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- signals by number ---- */

static void *blocks_raw(void *arg)
{
	unsigned long set = 1ul << (SIGUSR1 - 1), before = 0, now = 0;

	EXPECT_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &before, 8), 0);
	EXPECT_EQ(before & set, 0);
	tick(&entered);
	for (int i = 0; i < 20; i++) {
		sched_yield();
		EXPECT_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8), 0);
		EXPECT_EQ(now & set, set);
		EXPECT_EQ(handled.n, 0);
	}
	EXPECT_EQ(syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8), SIGUSR1);
	EXPECT_EQ(handled.n, 0);
	return arg;
}

TEST(a_raw_mask_is_the_thread_s)
{
	pthread_t t, other;

	handle(SIGUSR1, 0);
	EXPECT_EQ(pthread_create(&t, NULL, blocks_raw, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(pthread_create(&other, NULL, counts, NULL), 0);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	EXPECT_EQ(pthread_join(other, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *suspends_raw(void *arg)
{
	unsigned long none = 0;

	tick(&entered);
	FAILS(syscall(SYS_rt_sigsuspend, &none, 8), EINTR);
	EXPECT_EQ(handled.n, 1);
	return arg;
}

TEST(a_raw_sigsuspend_ends_with_its_handler)
{
	sigset_t set;
	pthread_t t;

	handle(SIGUSR1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	EXPECT_EQ(pthread_create(&t, NULL, suspends_raw, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* The kernel's struct sigaction. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

/* Whose handler was set by the function, so that there is a way back from it. */
static void *sets_handler_raw(void *arg)
{
	struct kernel_action action = { 0 }, old = { 0 };

	EXPECT_EQ(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8), 0);
	EXPECT(action.handler == SIG_DFL);
	EXPECT_EQ(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &action, 8), 0);
	EXPECT(action.handler == handles);
	EXPECT(action.restorer != NULL);
	EXPECT_EQ(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8), 0);
	EXPECT_EQ(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &old, 8), 0);
	EXPECT(memcmp(&old, &action, sizeof(old)) == 0);
	FAILS(syscall(SYS_rt_sigaction, SIGUSR1, 1l, NULL, 8), EFAULT);
	FAILS(syscall(SYS_rt_sigaction, SIGUSR1, NULL, 1l, 8), EFAULT);
	FAILS(syscall(SYS_rt_sigaction, 65, &action, NULL, 8), EINVAL);
	FAILS(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 7), EINVAL);
	return suspends_raw(arg);
}

TEST(a_handler_that_was_set_by_a_raw_call_is_run_as_any_other)
{
	sigset_t set;
	pthread_t t;

	handle(SIGUSR2, SA_RESTART);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	EXPECT_EQ(pthread_create(&t, NULL, sets_handler_raw, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *forks_raw_and_reads(void *arg)
{
	struct wait *w = arg;
	pid_t pid = (pid_t)syscall(SYS_fork);
	int status;
	char c;

	if (pid == 0)
		_exit(read(w->fd[0], &c, 1) == 1 && usleep(1000) == 0 ? 3 : 4);
	settle();
	feeds_pipe(w);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 3);
	return arg;
}

TEST(the_child_of_a_raw_fork_blocks_and_goes_on)
{
	struct wait w = { 0 };
	pthread_t t;

	opens_pipe(&w);
	EXPECT_EQ(pthread_create(&t, NULL, forks_raw_and_reads, &w), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

/* ---- who has the kernel hand it the system calls of all text but glibc's ---- */

enum { SYSCALL_USER_DISPATCH = 59, LET_PASS = 0, CATCH = 1 };

static volatile char how;

static void catches(int sig)
{
	(void)sig;
	how = LET_PASS;
	tick(&handled);
}

static int text_of_glibc(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t *text = arg;

	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
			text[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			text[1] = info->dlpi_phdr[i].p_memsz;
		}
	}
	return 1;
}

static void *sends_to_a_thread_of_nobody(void *arg)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);

	EXPECT_EQ(syscall(SYS_tgkill, getpid(), tid, 0), 0);
	EXPECT_EQ(syscall(SYS_tgkill, getppid(), tid, 0), -1);
	EXPECT_EQ(errno, ESRCH);
	EXPECT_EQ(syscall(SYS_tgkill, -1, tid, 0), -1);
	EXPECT_EQ(errno, EINVAL);
	return arg;
}

TEST(a_raw_tgkill_goes_by_the_process_too)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, sends_to_a_thread_of_nobody, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static uint32_t pair[2];

static long raw_futex(uint32_t *word, int op, int n, long n2, uint32_t *other, uint32_t code)
{
	long r = syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, n, n2, other, code);

	return r < 0 ? -errno : r;
}

static void *waits_raw(void *arg)
{
	EXPECT_EQ(raw_futex(pair, FUTEX_WAIT, 0, 0, NULL, 0), 0);
	return arg;
}

static void *asks_as_of_the_kernel(void *arg)
{
	pthread_t t[2];

	/* Its numbers have a sign. */
	EXPECT_EQ(raw_futex(pair, FUTEX_WAKE_OP, 1, 1, &pair[1],
			    FUTEX_OP(FUTEX_OP_ADD, -1, FUTEX_OP_CMP_GT, -1)),
		  0);
	EXPECT_EQ(pair[1], (uint32_t)-1);
	EXPECT_EQ(raw_futex(pair, FUTEX_REQUEUE, 1, -1, &pair[1], 0), -EINVAL);
	EXPECT_EQ(raw_futex(pair, FUTEX_REQUEUE, -1, 1, &pair[1], 0), -EINVAL);
	EXPECT_EQ(raw_futex(pair, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, 0, NULL, 0), -ENOSYS);
	EXPECT_EQ(raw_futex(pair, FUTEX_REQUEUE, 1, 1, (uint32_t *)((char *)pair + 1), 0), -EINVAL);
	EXPECT_EQ(raw_futex(NULL, FUTEX_WAIT, 0, 0, NULL, 0), -EFAULT);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, waits_raw, NULL), 0);
	settle();
	EXPECT_EQ(raw_futex(pair, FUTEX_REQUEUE, 0, 2, &pair[1], 0), 2);
	EXPECT_EQ(raw_futex(&pair[1], FUTEX_WAKE, 0, 0, NULL, 0), 1);
	EXPECT_EQ(raw_futex(&pair[1], FUTEX_WAKE, -1, 0, NULL, 0), 1);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	return arg;
}

TEST(a_raw_futex_answers_as_the_kernel_does)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, asks_as_of_the_kernel, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

static void *is_woken_raw(void *arg)
{
	struct timespec far = { 20, 0 };

	tick(&entered);
	EXPECT_EQ(raw_futex(arg, FUTEX_WAIT, 0, 0, NULL, 0), 0);
	tick(&entered);
	EXPECT_EQ(syscall(SYS_futex, arg, FUTEX_WAIT_PRIVATE, 0, &far), -1);
	EXPECT_EQ(errno, EINTR);
	return NULL;
}

TEST(a_raw_futex_outlives_a_handler_that_restarts_if_it_has_no_deadline)
{
	static uint32_t word;
	pthread_t t;

	handle(SIGUSR1, SA_RESTART);
	EXPECT_EQ(pthread_create(&t, NULL, is_woken_raw, &word), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	await(&handled, 1);
	settle();
	EXPECT_EQ(raw_futex(&word, FUTEX_WAKE, 1, 0, NULL, 0), 1);
	await(&entered, 2);
	settle();
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(before_there_is_a_second_thread_a_raw_call_is_made_in_glibc_s_text)
{
	uintptr_t text[2];
	pid_t pid = getpid();
	long r;

	handle_with(SIGSYS, catches, 0);
	EXPECT_EQ(dl_iterate_phdr(text_of_glibc, text), 1);
	/* Older kernels do not know of it. */
	if (prctl(SYSCALL_USER_DISPATCH, 1, text[0], text[1], &how) != 0)
		return;
	how = CATCH;
	r = syscall(SYS_getpid);
	how = LET_PASS;
	EXPECT_EQ(r, pid);
	EXPECT_EQ(handled.n, 0);
}

/* ---- raw waits with a mask ---- */

static _Atomic int let_in;

static void is_let_in(int sig)
{
	(void)sig;
	let_in++;
}

enum { SIZE = sizeof(long) }; /* of the kernel's mask */

static long by_ppoll(const sigset_t *mask, struct timespec *span, long size)
{
	return syscall(SYS_ppoll, NULL, 0L, span, mask, size);
}

static long by_pselect6(const sigset_t *mask, struct timespec *span, long size)
{
	const void *both[2] = { mask, (void *)size };

	return syscall(SYS_pselect6, 0L, NULL, NULL, NULL, span, both);
}

static long by_epoll_pwait(const sigset_t *mask, struct timespec *span, long size)
{
	struct epoll_event ev;
	int set = epoll_create1(0);
	long r = syscall(SYS_epoll_pwait, set, &ev, 1L, span ? 1L : -1L, mask, size);
	int why = errno;

	EXPECT_EQ(close(set), 0);
	errno = why;
	return r;
}

static long (*const masked_ways[])(const sigset_t *, struct timespec *,
				   long) = { by_ppoll, by_pselect6, by_epoll_pwait };
enum { MASKED_WAYS = sizeof(masked_ways) / sizeof(*masked_ways) };

static void *is_interrupted(void *arg)
{
	struct sigaction a = { .sa_handler = is_let_in };
	sigset_t mask;

	EXPECT_EQ(sigaction(SIGUSR1, &a, NULL), 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	sigemptyset(&mask);
	for (int i = 0; i < MASKED_WAYS; i++) {
		EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
		EXPECT_EQ(let_in, i);
		EXPECT_EQ(masked_ways[i](&mask, NULL, SIZE), -1);
		EXPECT_EQ(errno, EINTR);
		EXPECT_EQ(let_in, i + 1);
	}
	return arg;
}

TEST(a_raw_wait_lets_in_by_its_mask_what_was_sent_to_the_thread)
{
	on_thread(is_interrupted, NULL);
}

static void *waits_for_a_time(void *arg)
{
	struct timespec span;
	sigset_t mask;

	sigemptyset(&mask);
	for (int i = 0; i < MASKED_WAYS; i++) {
		span = (struct timespec){ .tv_nsec = MS };
		EXPECT_EQ(masked_ways[i](&mask, &span, SIZE), 0);
		if (masked_ways[i] != by_epoll_pwait)
			EXPECT_EQ(span.tv_nsec, 0);
		EXPECT_EQ(masked_ways[i](&mask, &span, SIZE + 1), -1);
		EXPECT_EQ(errno, EINVAL);
		EXPECT_EQ(masked_ways[i]((void *)1, &span, SIZE), -1);
		EXPECT_EQ(errno, EFAULT);
		/* No mask, and no size. */
		EXPECT_EQ(masked_ways[i](NULL, &span, 0), 0);
	}
	EXPECT_EQ(by_ppoll(&mask, (void *)1, SIZE), -1);
	EXPECT_EQ(errno, EFAULT);
	/* The time goes before the mask. */
	span.tv_nsec = -1;
	EXPECT_EQ(by_ppoll((void *)1, &span, SIZE), -1);
	EXPECT_EQ(errno, EINVAL);
	return arg;
}

TEST(a_raw_wait_with_a_mask_says_what_is_left_and_what_is_wrong)
{
	on_thread(waits_for_a_time, NULL);
}
