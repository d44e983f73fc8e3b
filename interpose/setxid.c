/* Credentials, which POSIX has of the process and the kernel of each thread. glibc's own tells the
 * threads it knows by their tids, which here are no kernel thread's. So each kernel thread of the
 * process, whoever made it, is sent glibc's signal for it, which none of the core's ever blocks
 * (os_sigmask), and makes the bare call in the handler; until a look finds none that did not. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "early.h"
#include "guard.h"
#include "os.h"
#include "signals.h"
#include "sigsave.h"
#include "syscall.h"
#include "thread.h"

enum { RESTORER = 0x04000000, LOOK_NS = 1000 * 1000 };

/* What a kernel thread's word says, above it the number of the call. */
enum { TOLD = 1, SAME = 2, OTHER = 3, STATES = 4 };

FORKED static struct {
	ATOMIC(uint32_t) guard;
	/* Under guard, and read by those that were told: */
	long nr, a[3];
	uint32_t number;
	ATOMIC(uint32_t) *word; /* of each tid; memory only where one is */
} call;

static void on_setxid(int sig)
{
	ATOMIC(uint32_t) *word = &call.word[os_gettid()];
	/* Acquire: pairs with the release in tell: the call is the one it was told. */
	uint32_t told = ld_acq(word);
	long r;

	(void)sig;
	if (told % STATES != TOLD)
		return;
	r = arch_syscall3(call.nr, call.a[0], call.a[1], call.a[2]);
	/* Release: pairs with the acquire in tell: the next call may be put there. */
	st_rel(word, told - TOLD + (r < 0 ? OTHER : SAME));
	arch_syscall6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* In the place of glibc's. */
static void install(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} act = { on_setxid, RESTORER | SA_RESTART | SA_ONSTACK, arch_sigrestorer, ~(uint64_t)0 };

	arch_syscall4(SYS_rt_sigaction, SIG_CREDENTIALS, (long)&act, 0, SIGSET_BYTES);
}

/* False: it was told before. */
static bool tell(int32_t tid)
{
	ATOMIC(uint32_t) *word = &call.word[tid];
	uint32_t told = call.number * STATES + TOLD;
	struct timespec look = { .tv_nsec = LOOK_NS };

	if (ld_rlx(word) / STATES == call.number)
		return false;
	/* Release: pairs with the acquire in on_setxid. */
	st_rel(word, told);
	if (arch_syscall3(SYS_tgkill, getpid(), tid, SIG_CREDENTIALS) < 0)
		return true;
	/* One that ends without having seen the signal tells nobody: so it is looked for. */
	while (ld_acq(word) == told && arch_syscall3(SYS_tgkill, getpid(), tid, 0) == 0)
		arch_syscall6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, told, (long)&look, 0, 0);
	/* Some have what others have not: as glibc, rather than to go on so. */
	if (ld_acq(word) % STATES == OTHER)
		abort();
	return true;
}

/* Tells those in the folder that were not told yet. True: there was one. */
static bool tell_all(long dir)
{
	enum { ENTRIES = 4096, LENGTH_AT = 16, NAME_AT = 19 };
	char buf[ENTRIES];
	bool more = false;
	long got;

	arch_syscall3(SYS_lseek, dir, 0, SEEK_SET);
	while ((got = arch_syscall3(SYS_getdents64, dir, (long)buf, sizeof(buf))) > 0) {
		for (long at = 0; at < got; at += *(unsigned short *)(buf + at + LENGTH_AT)) {
			long tid = strtol(buf + at + NAME_AT, NULL, 10);
			if (tid > 0 && tid < FIRST_TID)
				more |= tell((int32_t)tid);
		}
	}
	return more;
}

/* What setuid and kin do depends on what they find, and a kernel thread that one which was told
 * makes meanwhile has it already, and is told all the same. So the others are told what has come of
 * it here: whoever was as this one was may become so, and whoever is stays so. */
static void tell_outcome(void)
{
	bool user = call.nr == SYS_setuid || call.nr == SYS_setreuid || call.nr == SYS_setresuid;
	uint32_t ids[3];

	if (call.nr == SYS_setgroups)
		return;
	arch_syscall3(user ? SYS_getresuid : SYS_getresgid, (long)&ids[0], (long)&ids[1],
		      (long)&ids[2]);
	call.nr = user ? SYS_setresuid : SYS_setresgid;
	for (int i = 0; i < 3; i++)
		call.a[i] = (long)ids[i];
}

static long everywhere_announced(long dir)
{
	uint64_t mask;
	long r;

	if (dir < 0)
		return dir;
	/* Here first: what is refused changes nothing. No handler may carry us to another kernel
	 * thread meanwhile. */
	mask = os_sigmask(~(uint64_t)0);
	r = arch_syscall3(call.nr, call.a[0], call.a[1], call.a[2]);
	if (r == 0) {
		st_rlx(&call.word[os_gettid()], call.number * STATES + SAME);
		tell_outcome();
	}
	os_sigmask(mask);
	while (r == 0 && tell_all(dir))
		continue;
	return r;
}

static int everywhere(long nr, long a, long b, long c)
{
	bool g = thread_self() != NULL;
	long dir, r = -EAGAIN;

	guard_lock(&call.guard);
	if (!call.word) {
		call.word = os_reserve(FIRST_TID * sizeof(*call.word));
		if (os_failed((void *)call.word))
			call.word = NULL;
		else
			install();
	}
	if (call.word) {
		call.nr = nr;
		call.a[0] = a;
		call.a[1] = b;
		call.a[2] = c;
		call.number = call.number % (UINT32_MAX / STATES) + 1;
		if (g)
			entersyscall();
		dir = arch_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/task",
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		r = everywhere_announced(dir);
		if (dir >= 0)
			arch_syscall3(SYS_close, dir, 0, 0);
		if (g)
			exitsyscall();
	}
	guard_unlock(&call.guard);
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
}

FORKS void credentials_forked(void)
{
	/* Whoever held it is not here. */
	st_rlx(&call.guard, 0);
}

#define XID(name, params, args, nr, a, b, c)                                                       \
	EXPORT int name params                                                                     \
	{                                                                                          \
		return served() && heddle_started() ? everywhere(nr, a, b, c)                      \
						    : real_table.name args;                        \
	}

XID(setuid, (uid_t u), (u), SYS_setuid, (long)u, 0, 0)
XID(setgid, (gid_t g), (g), SYS_setgid, (long)g, 0, 0)
XID(seteuid, (uid_t u), (u), SYS_setresuid, -1, (long)u, -1)
XID(setegid, (gid_t g), (g), SYS_setresgid, -1, (long)g, -1)
XID(setreuid, (uid_t r, uid_t e), (r, e), SYS_setreuid, (long)r, (long)e, 0)
XID(setregid, (gid_t r, gid_t e), (r, e), SYS_setregid, (long)r, (long)e, 0)
XID(setresuid, (uid_t r, uid_t e, uid_t s), (r, e, s), SYS_setresuid, (long)r, (long)e, (long)s)
XID(setresgid, (gid_t r, gid_t e, gid_t s), (r, e, s), SYS_setresgid, (long)r, (long)e, (long)s)
XID(setgroups, (size_t n, const gid_t *list), (n, list), SYS_setgroups, (long)n, (long)list, 0)

/* glibc's sets them by a name of its own. */
EXPORT int initgroups(const char *user, gid_t group)
{
	gid_t *list = NULL;
	int n = 64, r;

	if (!served() || !heddle_started())
		return real_table.initgroups(user, group);
	do {
		gid_t *more = realloc(list, (size_t)n * sizeof(*list));
		if (!more) {
			free(list);
			return -1;
		}
		list = more;
		r = getgrouplist(user, group, list, &n);
	} while (r < 0);
	r = setgroups((size_t)n, list);
	free(list);
	return r;
}
