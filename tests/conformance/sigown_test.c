/* A signal that a thread sends to its own process, by whatever call, and that only it may take is
 * delivered before the call returns; and one that the first thread may take goes to that. */
#include "event.h"

#include <signal.h>
#include <sys/syscall.h>

#include "others.h"

enum { TIMES = 400, VALUE = 7, PIDFD_OPEN = 434, PIDFD_SEND_SIGNAL = 424 };

static volatile int taken, wrong;
static pthread_t taker;
static int pidfd, directory;

static void takes(int sig, siginfo_t *info, void *context)
{
	(void)context;
	/* Whoever sends with a value does so by SI_QUEUE. */
	bool with = info->si_code == SI_QUEUE;

	taken++;
	if (info->si_signo != sig || info->si_pid != getpid() || info->si_uid != getuid() ||
	    !pthread_equal(pthread_self(), taker) || (with && info->si_value.sival_int != VALUE) ||
	    (!with && info->si_code != SI_USER))
		wrong++;
}

static siginfo_t queued(int sig)
{
	siginfo_t info = { .si_signo = sig, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = VALUE;
	return info;
}

static long by_kill(int sig)
{
	return kill(getpid(), sig);
}

static long by_raw_kill(int sig)
{
	return syscall(SYS_kill, getpid(), sig);
}

static long by_sigqueue(int sig)
{
	return sigqueue(getpid(), sig, (union sigval){ .sival_int = VALUE });
}

static long by_raw_queue(int sig)
{
	siginfo_t info = queued(sig);

	return syscall(SYS_rt_sigqueueinfo, getpid(), sig, &info);
}

static long by_pidfd(int sig)
{
	return syscall(PIDFD_SEND_SIGNAL, pidfd, sig, NULL, 0);
}

static long by_pidfd_with_value(int sig)
{
	siginfo_t info = queued(sig);

	return syscall(PIDFD_SEND_SIGNAL, pidfd, sig, &info, 0);
}

static long by_directory(int sig)
{
	return syscall(PIDFD_SEND_SIGNAL, directory, sig, NULL, 0);
}

static long (*const roads[])(int) = { by_kill,	by_raw_kill,	     by_sigqueue, by_raw_queue,
				      by_pidfd, by_pidfd_with_value, by_directory };
enum { ROADS = sizeof(roads) / sizeof(*roads) };

static void takes_up(int sig)
{
	struct sigaction act = { .sa_sigaction = takes, .sa_flags = SA_SIGINFO };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

static void *sends_to_itself(void *arg)
{
	int signals[] = { SIGUSR1, SIGRTMIN + 1 };

	taker = pthread_self();
	for (int s = 0; s < 2; s++) {
		mask(SIG_UNBLOCK, signals[s]);
		for (int i = 0; i < TIMES; i++) {
			int before = taken;
			EXPECT_EQ(roads[i % ROADS](signals[s]), 0);
			EXPECT_EQ(taken, before + 1);
		}
	}
	EXPECT_EQ(wrong, 0);
	return arg;
}

static void begin(void)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d", (int)getpid());
	directory = open(path, O_RDONLY | O_DIRECTORY);
	pidfd = (int)syscall(PIDFD_OPEN, getpid(), 0);
	EXPECT(directory >= 0);
	EXPECT(pidfd >= 0);
	takes_up(SIGUSR1);
	takes_up(SIGRTMIN + 1);
	mask(SIG_BLOCK, SIGUSR1);
	mask(SIG_BLOCK, SIGRTMIN + 1);
}

TEST(what_only_the_sender_may_take_is_delivered_before_the_call_returns)
{
	begin();
	among_others(sends_to_itself, NULL);
}

TEST(what_the_first_thread_alone_sends_and_may_take_is_delivered_before_the_call_returns)
{
	pthread_t t[2];

	begin();
	start(&t[0], 1, yields_on, NULL);
	start(&t[1], 1, sleeps_on, NULL);
	sends_to_itself(NULL);
	others_end = true;
	join(t, 2);
}

static void *sends_what_it_blocks(void *arg)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	for (int i = 0; i < ROADS; i++) {
		EXPECT_EQ(roads[i](SIGRTMIN + 1), 0);
		EXPECT_EQ(sigpending(&set), 0);
		EXPECT(sigismember(&set, SIGRTMIN + 1));
		sigemptyset(&set);
		sigaddset(&set, SIGRTMIN + 1);
		EXPECT_EQ(sigtimedwait(&set, &info, &(struct timespec){ 0, 0 }), SIGRTMIN + 1);
		EXPECT(info.si_code == SI_USER || info.si_value.sival_int == VALUE);
	}
	EXPECT_EQ(taken, 0);
	return arg;
}

TEST(what_all_block_is_pending_when_the_call_returns)
{
	begin();
	/* Let in once: from then on it is another matter who keeps it. */
	mask(SIG_UNBLOCK, SIGRTMIN + 1);
	mask(SIG_BLOCK, SIGRTMIN + 1);
	among_others(sends_what_it_blocks, NULL);
}

static void *fails(void *arg)
{
	siginfo_t info = queued(SIGUSR1);
	int none = open("/dev/null", O_RDONLY);

	EXPECT_EQ(sigqueue(getpid(), 0, (union sigval){ 0 }), 0);
	FAILS(sigqueue(getpid(), 65, (union sigval){ 0 }), EINVAL);
	FAILS(sigqueue(0x7ffffff0, SIGUSR1, (union sigval){ 0 }), ESRCH);
	FAILS(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, 1L), EFAULT);
	EXPECT_EQ(syscall(PIDFD_SEND_SIGNAL, pidfd, 0, NULL, 0), 0);
	FAILS(syscall(PIDFD_SEND_SIGNAL, pidfd, 65, NULL, 0), EINVAL);
	FAILS(syscall(PIDFD_SEND_SIGNAL, pidfd, SIGUSR1, 1L, 0), EFAULT);
	FAILS(syscall(PIDFD_SEND_SIGNAL, pidfd, SIGUSR2, &info, 0), EINVAL);
	FAILS(syscall(PIDFD_SEND_SIGNAL, pidfd, SIGUSR1, NULL, 1 << 30), EINVAL);
	FAILS(syscall(PIDFD_SEND_SIGNAL, none, SIGUSR1, NULL, 0), EBADF);
	FAILS(syscall(PIDFD_SEND_SIGNAL, -1, SIGUSR1, NULL, 0), EBADF);
	/* Who is not the process's first thread says only of its own what no user sends. */
	info.si_code = SI_USER;
	FAILS(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info), EPERM);
	FAILS(syscall(PIDFD_SEND_SIGNAL, pidfd, SIGUSR1, &info, 0), EPERM);
	close(none);
	EXPECT_EQ(taken, 0);
	return arg;
}

TEST(what_cannot_be_sent_fails_as_the_kernel_has_it)
{
	begin();
	among_others(fails, NULL);
}
