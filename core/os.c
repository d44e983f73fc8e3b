/* The raw system calls of os.h. Owns the auxiliary vector and the clock's address;
 * refuses everything that would need libc. Next: arch/x86_64/syscall.h. */
#include "os.h"

#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <sys/mman.h>

#include "early.h"
#include "fault.h"
#include "syscall.h"
#include "text.h"
#include "vdso.h"

enum {
	EAGAIN_ = 11,
	EBADF_ = 9,
	O_RDONLY_CLOEXEC = 02000000,
	AT_FDCWD_ = -100,
	CLOCK_MONO = 1,
	EFBIG_ = 27,
	EINVAL_ = 22,
	SIGXFSZ_ = 25,
	SIGSYS_ = 31,
	SIG_SETMASK_ = 2,
	PAGE = 4096,
	MADV_GUARD_INSTALL_ = 102,
	MADV_GUARD_REMOVE_ = 103,
	PR_GET_AUXV_ = 0x41555856,
};

struct timespec64 {
	int64_t sec;
	int64_t nsec;
};

static uint64_t auxv[64];
static ATOMIC(bool) membarrier_refused;
/* The threads with a table of their own, the second in that of the first; and the process as seen
 * from there. */
FORKED static ATOMIC(int32_t) tabletid, joinedtid;
static int processfd = -1;
static int (*vdso_gettime)(int, struct timespec64 *);

uint64_t os_auxv(uint64_t type)
{
	for (unsigned i = 0; i + 1 < 64 && auxv[i] != 0; i += 2)
		if (auxv[i] == type)
			return auxv[i + 1];
	return 0;
}

void osinit(void)
{
	/* prctl for kernels from 6.4 on; the file may be closed to us (a process that is
	 * not dumpable), the prctl is not. */
	if (arch_syscall6(__NR_prctl, PR_GET_AUXV_, (long)auxv, sizeof(auxv) - 16, 0, 0, 0) < 0)
		os_readfile("/proc/self/auxv", (char *)auxv, sizeof(auxv) - 8);
	arch_init();
	if (arch_syscall3(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
		st_rlx(&membarrier_refused, true);
	vdso_gettime = (int (*)(int, struct timespec64 *))vdso_symbol("__vdso_clock_gettime");
}

uint64_t os_clock(int clock)
{
	struct timespec64 ts = { 0, 0 };
	if (!vdso_gettime || vdso_gettime(clock, &ts) != 0)
		if (arch_syscall3(__NR_clock_gettime, clock, (long)&ts, 0) < 0)
			return 0;
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

uint64_t nanotime(void)
{
	return os_clock(CLOCK_MONO);
}

uint64_t os_threadclock(int32_t tid)
{
	/* The kernel's coding of "cpu clock, of one thread": CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
	 */
	struct timespec64 ts = { 0, 0 };
	int clock = (int)(~(uint32_t)tid << 3 | 4 | 2);
	if (arch_syscall3(__NR_clock_gettime, clock, (long)&ts, 0) < 0)
		return 0;
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

static int read_task(int32_t tid, const char *file, char *to, size_t n)
{
	char path[64];
	struct text t = TEXT(path);

	text_put(&t, "/proc/self/task/");
	text_num(&t, tid);
	text_put(&t, file);
	return os_readfile(path, to, n);
}

bool os_threadasleep(int32_t tid)
{
	char stat[256];

	/* No descriptor to be had, or no /proc: the cpu clock, which made the caller ask, must
	 * do. */
	if (read_task(tid, "/stat", stat, sizeof(stat)) <= 0)
		return true;
	/* "tid (name) S ...": the name may hold anything, so look from its last ')'. */
	const char *close = NULL;
	for (const char *s = stat; *s; s++)
		if (*s == ')')
			close = s;
	return close && close[1] == ' ' && (close[2] == 'S' || close[2] == 'D');
}

/* "0 0x3 0x7f… … SP PC": the number of the call, its six arguments, two addresses. */
uintptr_t os_threadpc(int32_t tid)
{
	char text[256];
	const char *last = NULL;
	uintptr_t pc = 0;

	if (read_task(tid, "/syscall", text, sizeof(text)) <= 0 || text[0] < '0' || text[0] > '9')
		return 0;
	for (const char *s = text; *s; s++)
		if (s[0] == '0' && s[1] == 'x')
			last = s + 2;
	for (; last && *last > ' '; last++)
		pc = pc << 4 | (uintptr_t)(*last <= '9' ? *last - '0' : *last - 'a' + 10);
	return pc;
}

void *os_reserve(size_t len)
{
	long at = fault(FAULT_MMAP);
	if (at == 0)
		at = arch_syscall6(__NR_mmap, 0, (long)len, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (!os_failed((void *)at))
		arch_syscall3(__NR_madvise, at, (long)len, MADV_NOHUGEPAGE);
	return (void *)at;
}

int os_executable(void *at, size_t len)
{
	return (int)arch_syscall3(__NR_mprotect, (long)at, (long)len,
				  PROT_READ | PROT_WRITE | PROT_EXEC);
}

void os_release(void *at, size_t len)
{
	arch_syscall3(__NR_munmap, (long)at, (long)len, 0);
}

int os_guard(void *at, size_t len)
{
	/* One kernel either knows the advice or does not; a stale answer costs one call. */
	static ATOMIC(bool) old_kernel;
	long r = fault(FAULT_GUARD);
	if (r < 0)
		return (int)r;
	if (!ld_rlx(&old_kernel)) {
		r = arch_syscall3(__NR_madvise, (long)at, (long)len, MADV_GUARD_INSTALL_);
		if (r != -EINVAL_)
			return (int)r;
		st_rlx(&old_kernel, true);
	}
	return (int)arch_syscall3(__NR_mprotect, (long)at, (long)len, PROT_NONE);
}

int os_unguard(void *at, size_t len)
{
	long r = arch_syscall3(__NR_madvise, (long)at, (long)len, MADV_GUARD_REMOVE_);
	if (r != -EINVAL_)
		return (int)r;
	return (int)arch_syscall3(__NR_mprotect, (long)at, (long)len, PROT_READ | PROT_WRITE);
}

void os_discard(void *at, size_t len)
{
	arch_syscall3(__NR_madvise, (long)at, (long)len, MADV_DONTNEED);
}

static int futex_sleep(ATOMIC(uint32_t) *at, int op, uint32_t value, int64_t ns)
{
	struct timespec64 ts = { ns / 1000000000, ns % 1000000000 };
	return (int)arch_syscall6(__NR_futex, (long)at, op, value, ns < 0 ? 0 : (long)&ts, 0, 0);
}

int futexsleep(ATOMIC(uint32_t) *at, uint32_t value, int64_t ns)
{
	return futex_sleep(at, FUTEX_WAIT_PRIVATE, value, ns);
}

int futexsleep_shared(ATOMIC(uint32_t) *at, uint32_t value, int64_t ns)
{
	return futex_sleep(at, FUTEX_WAIT, value, ns);
}

void futexwakeup_shared(ATOMIC(uint32_t) *at, int n)
{
	arch_syscall4(__NR_futex, (long)at, FUTEX_WAKE, n, 0);
}

void futexwakeup(ATOMIC(uint32_t) *at, int n)
{
	arch_syscall4(__NR_futex, (long)at, FUTEX_WAKE_PRIVATE, n, 0);
}

bool os_membarrier(void)
{
	if (ld_rlx(&membarrier_refused))
		return false;
	return arch_syscall3(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int32_t os_gettid(void)
{
	return (int32_t)arch_syscall3(__NR_gettid, 0, 0, 0);
}

void os_yield(void)
{
	arch_syscall3(__NR_sched_yield, 0, 0, 0);
}

void os_timerslack(uint64_t ns)
{
	arch_syscall6(__NR_prctl, PR_SET_TIMERSLACK, (long)ns, 0, 0, 0, 0);
}

bool os_tgkill(int32_t tid, int sig)
{
	long pid = arch_syscall3(__NR_getpid, 0, 0, 0);
	return arch_syscall3(__NR_tgkill, pid, tid, sig) != -EAGAIN_;
}

uint64_t os_sigmask(uint64_t mask)
{
	uint64_t old = 0;

	mask &= ~((uint64_t)1 << (SIG_CREDENTIALS - 1));
	arch_syscall4(__NR_rt_sigprocmask, SIG_SETMASK_, (long)&mask, (long)&old, sizeof(mask));
	return old;
}

bool os_owntable(void)
{
	long pid = arch_syscall3(__NR_getpid, 0, 0, 0);

	/* Asked with arguments that cannot be served: the answer tells what is allowed, and no
	 * descriptor comes to be in the table that is still the program's. */
	if (arch_syscall3(__NR_pidfd_open, 0, 0, 0) != -EINVAL_ ||
	    arch_syscall3(__NR_pidfd_getfd, -1, -1, 0) != -EBADF_ ||
	    arch_syscall3(__NR_close_range, 1, 0, 0) != -EINVAL_ ||
	    arch_syscall3(__NR_close_range, 0, UINT32_MAX, CLOSE_RANGE_UNSHARE) != 0)
		return false;
	processfd = (int)arch_syscall3(__NR_pidfd_open, pid, 0, 0);
	st_rlx(&tabletid, os_gettid());
	return true;
}

FORKS void os_forked(void)
{
	st_rlx(&tabletid, 0);
	st_rlx(&joinedtid, 0);
	processfd = -1;
}

void os_jointable(void)
{
	st_rlx(&joinedtid, os_gettid());
}

static bool in_own_table(void)
{
	int32_t tid;

	if (ld_rlx(&tabletid) == 0)
		return false;
	tid = os_gettid();
	return tid == ld_rlx(&tabletid) || tid == ld_rlx(&joinedtid);
}

int os_fetchfd(int fd)
{
	if (!in_own_table())
		return fd;
	return (int)arch_syscall3(__NR_pidfd_getfd, processfd, fd, 0);
}

void os_dropfetched(int there, int fd)
{
	if (there >= 0 && there != fd)
		arch_syscall3(__NR_close, there, 0, 0);
}

int os_readfile(const char *path, char *buf, size_t len)
{
	size_t have = 0;
	long fd = arch_syscall4(__NR_openat, AT_FDCWD_, (long)path, O_RDONLY_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	while (have < len - 1) {
		long n = arch_syscall3(__NR_read, fd, (long)(buf + have), (long)(len - 1 - have));
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	arch_syscall3(__NR_close, fd, 0, 0);
	buf[have] = 0;
	return (int)have;
}

long os_enlarge(long nr, long fd, long a, long b, long c)
{
	static const int64_t now[2];
	uint64_t excess = (uint64_t)1 << (SIGXFSZ_ - 1);
	/* But SIGSYS: a filter's answer would end the process where that is blocked. */
	uint64_t mask = os_sigmask(~((uint64_t)1 << (SIGSYS_ - 1)));
	long r = arch_syscall4(nr, fd, a, b, c);

	/* The kernel has sent it to this thread. */
	if (r == -EFBIG_)
		arch_syscall4(__NR_rt_sigtimedwait, (long)&excess, 0, (long)now, sizeof(excess));
	os_sigmask(mask);
	return r;
}

void os_write2(const char *text, size_t len)
{
	int fd = os_fetchfd(2);

	os_enlarge(__NR_write, fd, (long)text, (long)len, 0);
	os_dropfetched(fd, 2);
}

void os_abort(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} dfl = { 0, 0, 0, 0 };
	arch_syscall4(__NR_rt_sigaction, 6, (long)&dfl, 0, sizeof(dfl.mask));
	os_sigmask(0);
	os_tgkill(os_gettid(), 6);
	arch_syscall3(__NR_exit_group, 134, 0, 0);
	__builtin_unreachable();
}
