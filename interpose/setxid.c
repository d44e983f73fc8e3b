/* Credentials, which POSIX has of the process and the kernel of each thread. glibc's own tells the
 * threads it knows by their tids, which here are no kernel thread's. So each kernel thread of the
 * process, whoever made it, is sent glibc's signal for it, which none of the core's ever blocks
 * (os_sigmask), and makes the bare call in the handler; again, until a look finds no new one. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "os.h"
#include "syscall.h"
#include "thread.h"

enum { SIGSETXID = 33, MOST = 4096, SIGSET_BYTES = 8, RESTORER = 0x04000000, NAP_NS = 20000 };

static struct {
	ATOMIC(uint32_t) busy;
	long nr, a[3];
	ATOMIC(uint32_t) n;
	struct {
		ATOMIC(int32_t) tid;
		ATOMIC(uint32_t) done; /* 1: as the caller; 2: otherwise */
	} who[MOST];
} all;

static void on_setxid(int sig)
{
	int32_t tid = os_gettid();

	(void)sig;
	for (uint32_t i = 0; i < ld_acq(&all.n); i++) {
		if (ld_rlx(&all.who[i].tid) != tid || ld_rlx(&all.who[i].done))
			continue;
		/* Release: the waiter reuses the arguments. */
		st_rel(&all.who[i].done,
		       arch_syscall3(all.nr, all.a[0], all.a[1], all.a[2]) < 0 ? 2 : 1);
	}
}

static void nap(void)
{
	struct timespec t = { .tv_nsec = NAP_NS };

	arch_syscall3(SYS_nanosleep, (long)&t, 0, 0);
}

static void install(void)
{
	struct sigaction act;
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} k;

	/* The restorer is glibc's, of any handler. */
	memset(&k, 0, sizeof(k));
	memset(&act, 0, sizeof(act));
	arch_syscall4(SYS_rt_sigaction, SIGSETXID, 0, (long)&k, SIGSET_BYTES);
	if (k.handler == on_setxid)
		return;
	if (!k.restorer)
		arch_syscall4(SYS_rt_sigaction, 32, 0, (long)&k, SIGSET_BYTES);
	k.handler = on_setxid;
	k.flags = RESTORER | SA_RESTART | SA_ONSTACK;
	k.mask = ~(uint64_t)0;
	arch_syscall4(SYS_rt_sigaction, SIGSETXID, (long)&k, 0, SIGSET_BYTES);
}

/* Tells those that were not told yet. True: there was one. */
static bool tell(long dir)
{
	char buf[4096];
	bool more = false;
	long got;

	arch_syscall3(SYS_lseek, dir, 0, SEEK_SET);
	while ((got = arch_syscall3(SYS_getdents64, dir, (long)buf, sizeof(buf))) > 0) {
		for (long at = 0; at < got; at += *(unsigned short *)(buf + at + 16)) {
			int32_t tid = (int32_t)strtol(buf + at + 19, NULL, 10);
			uint32_t n = ld_rlx(&all.n), i = 0;
			while (i < n && ld_rlx(&all.who[i].tid) != tid)
				i++;
			if (tid == 0 || i < n)
				continue;
			if (n == MOST)
				abort();
			st_rlx(&all.who[n].tid, tid);
			st_rlx(&all.who[n].done, 0);
			st_rel(&all.n, n + 1);
			more = true;
			if (arch_syscall3(SYS_tgkill, getpid(), tid, SIGSETXID) < 0)
				st_rlx(&all.who[n].done, 1);
		}
	}
	for (uint32_t i = 0; i < ld_rlx(&all.n); i++) {
		uint32_t done;
		while ((done = ld_acq(&all.who[i].done)) == 0 &&
		       arch_syscall3(SYS_tgkill, getpid(), ld_rlx(&all.who[i].tid), 0) == 0)
			nap();
		/* Some have what others have not. */
		if (done > 1)
			abort();
	}
	return more;
}

static int everywhere(long nr, long a, long b, long c)
{
	long dir, r;

	while (xchg_acq(&all.busy, 1) != 0)
		sched_yield();
	dir = arch_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/task",
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	install();
	all.nr = nr;
	all.a[0] = a;
	all.a[1] = b;
	all.a[2] = c;
	/* Here first: what is refused changes nothing. */
	st_rlx(&all.who[0].tid, os_gettid());
	st_rlx(&all.who[0].done, 1);
	st_rel(&all.n, 1);
	r = dir < 0 ? dir : arch_syscall3(nr, a, b, c);
	while (r == 0 && tell(dir))
		continue;
	if (dir >= 0)
		arch_syscall3(SYS_close, dir, 0, 0);
	st_rel(&all.busy, 0);
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
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
