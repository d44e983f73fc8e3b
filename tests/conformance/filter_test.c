/* A program that has threads and then filters the system calls of all of them: what glibc's own
 * threads do not need, it may forbid. Each test is a process of its own. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "threads.h"

enum { THREADS = 40, RULES = 20, STACK = 256 * 1024 };

static struct sock_filter code[2 * RULES + 2];
static unsigned short length;

static void rule(unsigned nr, unsigned action)
{
	code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
	code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

static void begin(void)
{
	length = 0;
	code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						      offsetof(struct seccomp_data, nr));
}

/* All others. */
static void allow(void)
{
	code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

static void end(void)
{
	struct sock_fprog program = { .filter = code };

	allow();
	program.len = length;
	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_EQ(
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program),
		0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int here, fds[2];
static bool go;
static _Atomic int handled;

static void on_usr1(int sig)
{
	(void)sig;
	handled++;
}

static void tells_of_itself(void)
{
	pthread_attr_t attr;

	EXPECT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
	pthread_attr_destroy(&attr);
}

static void *answers(void *arg)
{
	struct iovec v[2] = { { "an", 2 }, { "swer", 4 } };
	char question[8];

	EXPECT_EQ(read(*(int *)arg, question, sizeof(question)), 8);
	EXPECT_EQ(writev(*(int *)arg, v, 2), 6);
	return NULL;
}

/* Over a pair of sockets. */
static void talks(void)
{
	char answer[6];
	struct iovec v[2] = { { answer, 3 }, { answer + 3, 3 } };
	pthread_t t;
	int s[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	EXPECT_EQ(pthread_create(&t, NULL, answers, &s[1]), 0);
	EXPECT_EQ(write(s[0], "question", 8), 8);
	EXPECT_EQ(readv(s[0], v, 2), 6);
	EXPECT_EQ(memcmp(answer, "answer", 6), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	close(s[0]);
	close(s[1]);
}

/* Waits, sleeps, computes for some slices, blocks in the kernel. */
static void *lives(void *arg)
{
	struct timespec nap = { 0, 2000000 };
	char c = 0;

	pthread_mutex_lock(&lock);
	here++;
	pthread_cond_broadcast(&changed);
	while (!go)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	nanosleep(&nap, NULL);
	if ((long)arg % 8 == 0)
		for (volatile long i = 0; i < 20000000; i++)
			continue;
	if ((long)arg % 8 == 1)
		syscall(SYS_ppoll, NULL, 0, &nap, NULL, 8);
	EXPECT_EQ(read(fds[0], &c, 1), 1);
	tells_of_itself();
	talks();
	return arg;
}

static void go_on_as_before(void)
{
	pthread_t t[THREADS];
	void *r;

	EXPECT_EQ(pipe(fds), 0);
	here = 0;
	go = false;
	for (long i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, lives, (void *)i), 0);
	pthread_mutex_lock(&lock);
	while (here < THREADS)
		pthread_cond_wait(&changed, &lock);
	go = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	EXPECT_EQ(pthread_kill(t[0], SIGUSR1), 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(write(fds[1], "x", 1), 1);
	for (long i = 0; i < THREADS; i++) {
		EXPECT_EQ(pthread_join(t[i], &r), 0);
		EXPECT_EQ((long)r, i);
	}
	EXPECT_EQ(handled, 1);
}

static void *same(void *arg)
{
	return arg;
}

static _Atomic int refused;

/* Natively nothing is, but that malloc looks into a file for the number of cpus. */
static void on_sys(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	((ucontext_t *)uc)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
	refused += info->si_syscall != SYS_openat;
}

/* rules: what is forbidden. */
static void with_filter(void (*rules)(void))
{
	pid_t pid = fork();
	struct sigaction act = { .sa_handler = on_usr1, .sa_flags = SA_RESTART };
	struct sigaction sys = { .sa_sigaction = on_sys, .sa_flags = SA_SIGINFO };
	pthread_t t;

	if (pid == 0) {
		sigaction(SIGUSR1, &act, NULL);
		sigaction(SIGSYS, &sys, NULL);
		EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
		pthread_join(t, NULL);
		begin();
		rules();
		end();
		go_on_as_before();
		EXPECT_EQ(refused, 0);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
}

static void kills(void)
{
	rule(SYS_set_tid_address, SECCOMP_RET_KILL_PROCESS);
	rule(SYS_get_robust_list, SECCOMP_RET_KILL_PROCESS);
	rule(SYS_prctl, SECCOMP_RET_KILL_PROCESS);
}

TEST(threads_are_made_where_what_glibc_does_not_ask_for_is_death)
{
	with_filter(kills);
}

/* Nor do helpers of the first thread's ask for it later. */
TEST(a_filter_may_come_right_behind_the_first_thread)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t t;
			EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
			begin();
			rule(SYS_close_range, SECCOMP_RET_KILL_PROCESS);
			rule(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS);
			rule(SYS_pidfd_open, SECCOMP_RET_KILL_PROCESS);
			end();
			EXPECT_EQ(pthread_join(t, NULL), 0);
			for (int k = 0; k < 100; k++) {
				EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
				EXPECT_EQ(pthread_join(t, NULL), 0);
			}
			_exit(0);
		}
		EXPECT_EQ(status_of(pid), 0);
	}
}

/* A filter without TSYNC is its caller's, and of those that it makes from then on. */
enum { ODD = 4000 };

static bool is_filtered(void)
{
	return syscall(SYS_getppid) == -1 && errno == ODD;
}

static void *is_filtered_by_birth(void *generations)
{
	long left = (long)generations;

	EXPECT(is_filtered());
	wander();
	EXPECT(is_filtered());
	if (left > 0)
		run(2, is_filtered_by_birth, (void *)(left - 1));
	return NULL;
}

static void *filters_itself(void *arg)
{
	struct sock_fprog program = { .filter = code, .len = length };

	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
	is_filtered_by_birth((void *)2);
	return arg;
}

static void *is_free(void *arg)
{
	for (int i = 0; i < 20; i++) {
		EXPECT(!is_filtered());
		wander();
	}
	return arg;
}

static void *frees(void *arg)
{
	run(2, is_free, NULL);
	return is_free(arg);
}

TEST(a_thread_s_own_filter_is_that_of_those_that_it_makes)
{
	pthread_t t[3], other[3];

	begin();
	rule(SYS_getppid, SECCOMP_RET_ERRNO | ODD);
	allow();
	start(t, 3, filters_itself, NULL);
	start(other, 3, frees, NULL);
	join(t, 3);
	join(other, 3);
	frees(NULL);
	filters_itself(NULL);
}

static void filters(void)
{
	struct sock_fprog program = { .filter = code };

	allow();
	program.len = length;
	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void *makes_many_without_gettid(void *arg)
{
	begin();
	rule(SYS_gettid, SECCOMP_RET_ERRNO | ODD);
	filters();
	for (int i = 0; i < 20; i++)
		run(2, same, NULL);
	return arg;
}

TEST(who_may_not_ask_for_his_tid_makes_threads)
{
	on_thread(makes_many_without_gettid, NULL);
}

/* And nothing stays of them on stacks that are the program's. */
static void *makes_none_on_stacks(void *stacks)
{
	char *lo = stacks;
	pthread_attr_t attr;
	pthread_t t;

	begin();
	rule(SYS_clone, SECCOMP_RET_ERRNO | EPERM);
	rule(SYS_clone3, SECCOMP_RET_ERRNO | EPERM);
	filters();
	for (int i = 0; i < 3; i++, lo += STACK) {
		EXPECT_EQ(pthread_attr_init(&attr), 0);
		EXPECT_EQ(pthread_attr_setstack(&attr, lo, STACK), 0);
		EXPECT_EQ(pthread_create(&t, &attr, same, NULL), EPERM);
		EXPECT_EQ(munmap(lo, STACK), 0);
	}
	return stacks;
}

TEST(who_may_make_no_threads_makes_none)
{
	void *stacks = mmap(NULL, 4 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	pthread_attr_t attr;
	pthread_t t;
	pid_t pid;

	on_thread(makes_none_on_stacks, stacks);
	EXPECT_EQ(pthread_attr_init(&attr), 0);
	EXPECT_EQ(pthread_attr_setstack(&attr, (char *)stacks + 3 * STACK, STACK), 0);
	EXPECT_EQ(pthread_create(&t, &attr, same, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	pid = fork();
	if (pid == 0) {
		run(4, same, NULL);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
}

/* What heddle asks for, where glibc does not. */
static void forbid_files(unsigned action)
{
	rule(SYS_openat, action);
	rule(SYS_pidfd_open, action);
	rule(SYS_pidfd_getfd, action);
	rule(SYS_close_range, action);
	rule(SYS_getsockopt, action);
	rule(SYS_preadv2, action);
	rule(SYS_pwritev2, action);
	rule(SYS_sched_get_priority_min, action);
	kills();
}

static void traps(void)
{
	forbid_files(SECCOMP_RET_TRAP);
}

TEST(threads_go_on_where_what_glibc_does_not_ask_for_is_a_signal)
{
	with_filter(traps);
}

static void fails(void)
{
	forbid_files(SECCOMP_RET_ERRNO | EPERM);
}

TEST(threads_go_on_where_what_glibc_does_not_ask_for_fails)
{
	with_filter(fails);
}

/* glibc reads the clock without a call, where the kernel lets it. */
static void forbids_clocks(void)
{
	rule(SYS_clock_gettime, SECCOMP_RET_TRAP);
	forbid_files(SECCOMP_RET_TRAP);
}

TEST(threads_go_on_where_the_clock_is_not_to_be_asked)
{
	with_filter(forbids_clocks);
}

/* ---- calls that the program makes, where others of the same use are forbidden ---- */

static void *reads_and_writes(void *arg)
{
	char c;

	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(read(((int *)arg)[0], &c, 1), 1);
		EXPECT_EQ(write(((int *)arg)[1], &c, 1), 1);
	}
	return NULL;
}

static void forbid_all_but_read_and_write(unsigned action)
{
	rule(SYS_poll, action);
	rule(SYS_ppoll, action);
	rule(SYS_fcntl, action);
	rule(SYS_ioctl, action);
	rule(SYS_preadv2, action);
	rule(SYS_pwritev2, action);
	rule(SYS_recvfrom, action);
	rule(SYS_sendto, action);
	rule(SYS_epoll_ctl, action);
	rule(SYS_epoll_create1, action);
}

/* Over two pipes, or both ways of a pair of sockets. */
static void play(unsigned action, bool sockets)
{
	int there[2], back[2], theirs[2];
	pid_t pid = fork();
	pthread_t t;
	char c = 'x';

	if (pid != 0) {
		EXPECT_EQ(status_of(pid), 0);
		return;
	}
	EXPECT_EQ(sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, there) : pipe(there), 0);
	EXPECT_EQ(pipe(back), 0);
	theirs[0] = there[0];
	theirs[1] = sockets ? there[0] : back[1];
	EXPECT_EQ(pthread_create(&t, NULL, same, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	begin();
	forbid_all_but_read_and_write(action);
	end();
	EXPECT_EQ(pthread_create(&t, NULL, reads_and_writes, theirs), 0);
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(write(there[1], &c, 1), 1);
		EXPECT_EQ(read(sockets ? there[1] : back[0], &c, 1), 1);
	}
	EXPECT_EQ(pthread_join(t, NULL), 0);
	_exit(0);
}

TEST(who_may_only_read_and_write_does)
{
	for (int sockets = 0; sockets < 2; sockets++) {
		play(SECCOMP_RET_ERRNO | EPERM, sockets);
		play(SECCOMP_RET_ERRNO | ENOSYS, sockets);
	}
}
