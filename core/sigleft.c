/* What a call raises for who made it, SIGPIPE and SIGXFSZ: the kernel keeps it for the kernel
 * thread, if that blocks it. It is taken from there while the G leaves, so that nobody finds
 * another's.
 *
 * Refuses to ask the kernel each time one G gives way to the next, if both block it: then the
 * G's errno says whether to. Next: sigmask.c. */
#include "sigleft.h"
#include "core.h"
#include "mthread.h"
#include "preempt.h"
#include "sched.h"
#include "syscall.h"

struct info {
	int32_t signo, error, code, pad, pid;
	char rest[108];
};

/* Takes sig if it is pending for this kernel thread. One that is pending for the process looks the
 * same and stays. The kernel keeps one of a number for the thread, and gives that out first: what
 * comes back after a mark was sent is the mark, unless there was one. */
static bool take(int32_t pid, int sig, struct info *info)
{
	static const int64_t now[2];
	struct info mark = { .signo = sig, .error = SIG_MARK, .pid = pid };
	uint64_t one = (uint64_t)1 << (sig - 1);

	return arch_syscall4(__NR_rt_tgsigqueueinfo, pid, os_gettid(), sig, (long)&mark) == 0 &&
	       arch_syscall4(__NR_rt_sigtimedwait, (long)&one, (long)info, (long)now,
			     sizeof(one)) == sig &&
	       info->error != SIG_MARK;
}

void sigs_take(struct g *gp, uint64_t set, uint64_t mask)
{
	uint64_t pending = 0;
	struct info info;

	set &= SIGS_OF_CALLS;
	/* A filter's answer would end the process. */
	if (set == 0 || !takes_left() || (mthread_refusals() & mask) != 0)
		return;
	arch_syscall3(__NR_rt_sigpending, (long)&pending, sizeof(pending), 0);
	for (set &= pending; unlikely(set != 0); set &= set - 1) {
		int32_t pid = (int32_t)arch_syscall3(__NR_getpid, 0, 0, 0);
		int sig = __builtin_ctzll(set) + 1;
		if (!take(pid, sig, &info))
			continue;
		/* Another process knows kernel threads, not Gs. */
		if (info.pid != pid)
			arch_syscall3(__NR_rt_sigqueueinfo, pid, sig, (long)&info);
		else if (gp)
			left(gp, sig);
	}
}

void sigs_left(struct m *mp, struct g *gp, bool sure)
{
	uint64_t mask = ld_rlx(&mp->sigmask);
	bool ends = mp->post.kind == POST_EXIT;

	if (!sure && !ends && !ld_rlx(&gp->raised) && !failed())
		return;
	st_rlx(&gp->raised, false);
	/* What is pending for a thread ends with it. */
	sigs_take(ends ? NULL : gp, mask, mask);
}

void core_sigleft(void)
{
	st_rlx(&getg()->raised, true);
}
