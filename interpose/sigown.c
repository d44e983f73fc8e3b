/* Signals that a thread sends to its own process: natively one that the caller alone may take is
 * delivered before the call returns, whatever the call. Whom the kernel gives it to here need not
 * be the caller's kernel thread. Next: sigroute.c, how one that came by the kernel finds a thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "text.h"
#include "thread.h"
#include "user.h"

/* Does the kernel take that for this process? Each of its threads' tids names it. */
static bool is_own(pid_t pid)
{
	return pid == getpid() || thread_by_tid(pid);
}

static long by_kernel(int sig, const siginfo_t *info)
{
	if (info->si_code == SI_USER)
		return arch_syscall3(SYS_kill, getpid(), sig, 0);
	return arch_syscall3(SYS_rt_sigqueueinfo, getpid(), sig, (long)info);
}

/* By the kernel, too, to the kernel thread that the caller is on. */
static long by_kernel_here(int sig, const siginfo_t *info)
{
	long r;

	if (info->si_code == SI_USER)
		return signal_self(sig);
	entersyscall();
	r = arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), os_gettid(), sig, (long)info);
	exitsyscall();
	return r;
}

/* The first thread takes it, if it does not block it, as the kernel has it; else the caller, if
 * that does not block it: so it is delivered before the call returns, as it would be if the caller
 * were the only one to take it. Else it is pending by then, for the process or for one who does not
 * block it, which it would not be if the kernel gave it to a thread of ours that has yet to run and
 * to let us know. */
static long to_process(int sig, const siginfo_t *info)
{
	if (sig <= 0 || sig > 64)
		return by_kernel(sig, info);
	if (!(signals_let_in() & signal_bit(sig)))
		return gmask() & signal_bit(sig) ? by_kernel(sig, info) : by_kernel_here(sig, info);
	if (sig >= FIRST_QUEUED && info->si_code != SI_USER && !pending_room())
		return -EAGAIN;
	if (signal_choice(sig, info)) {
		signal_push_lent(thread_first(), sig);
		/* Only the caller, perhaps, does not block it. */
		if (unlikely(signals_held() & ~gmask()) && signals_unblocked())
			signals_run();
	} else if (gmask() & signal_bit(sig)) {
		signal_put_off(sig, info);
	} else {
		return signal_thread(thread_self(), sig, info);
	}
	return 0;
}

static int answer(long r)
{
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
}

EXPORT int kill(pid_t pid, int sig)
{
	siginfo_t info;

	if (!served() || !thread_self() || (pid > 0 && !is_own(pid)))
		return real_table.kill(pid, sig);
	/* Perhaps to this process, too. */
	if (pid <= 0) {
		int r = real_table.kill(pid, sig);
		signals_pull();
		return r;
	}
	siginfo_make(&info, sig, SI_USER);
	return answer(to_process(sig, &info));
}

EXPORT int killpg(pid_t group, int sig)
{
	if (group >= 0)
		return kill(-group, sig);
	errno = EINVAL;
	return -1;
}

EXPORT int sigqueue(pid_t pid, int sig, const union sigval value)
{
	siginfo_t info;

	if (!served() || !thread_self() || !is_own(pid))
		return real_table.sigqueue(pid, sig, value);
	siginfo_make(&info, sig, SI_QUEUE);
	info.si_value = value;
	return answer(to_process(sig, &info));
}

/* What a user's has with it; 0 or -errno. Of what the kernel and kill() send the first thread alone
 * may say that it has come: 1, the kernel sends it. */
static long fetched(siginfo_t *info, int sig, const void *from)
{
	memset(info, 0, sizeof(*info));
	if (user_fetch(info, from, SIGINFO_BYTES) != 0)
		return -EFAULT;
	if (info->si_code >= 0 || info->si_code == SI_TKILL)
		return thread_self() == thread_first() ? 1 : -EPERM;
	info->si_signo = sig;
	return 0;
}

int signal_queue_raw(pid_t pid, int sig, const void *from)
{
	siginfo_t info;
	long r = 1;

	if (is_own(pid)) {
		pid = getpid();
		r = fetched(&info, sig, from);
	}
	if (r == 1)
		r = arch_syscall3(SYS_rt_sigqueueinfo, pid, sig, (long)from);
	else if (r == 0)
		r = to_process(sig, &info);
	return answer(r);
}

/* Is it a descriptor of this process? Of one that pidfd_open made its fdinfo tells; but its
 * directory in /proc is one as well. */
static bool is_own_fd(int fd)
{
	char path[48], buf[512];
	struct text t = TEXT(path);
	const char *at;
	long n;

	text_put(&t, "/proc/thread-self/fdinfo/");
	text_num(&t, fd);
	if (os_readfile(path, buf, sizeof(buf)) < 0)
		return false;
	at = strstr(buf, "\nPid:\t");
	if (at)
		return atoi(at + strlen("\nPid:\t")) == getpid();
	t.len = 0;
	text_put(&t, "/proc/thread-self/fd/");
	text_num(&t, fd);
	n = arch_syscall3(SYS_readlink, (long)path, (long)buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = 0;
	t.len = 0;
	text_put(&t, "/proc/");
	text_num(&t, getpid());
	return strcmp(buf, path) == 0;
}

/* SYS_pidfd_send_signal, which some headers lack. */
enum { PIDFD_SEND_SIGNAL = 424 };

EXPORT int pidfd_send_signal(int fd, int sig, siginfo_t *from, unsigned flags)
{
	siginfo_t info;
	long r = 1;

	siginfo_make(&info, sig, SI_USER);
	if (served() && thread_self() && flags == 0 && is_own_fd(fd))
		r = from ? fetched(&info, sig, from) : 0;
	if (r == 0 && from && from->si_signo != sig)
		r = -EINVAL;
	if (r == 1)
		r = arch_syscall4(PIDFD_SEND_SIGNAL, fd, sig, (long)from, flags);
	else if (r == 0)
		r = to_process(sig, &info);
	return answer(r);
}
