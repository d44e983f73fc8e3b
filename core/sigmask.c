/* The signal mask that the program sets. Each G has its own; an M's is changed on a switch
 * only when two Gs in a row differ, so both must hear of a change. */
#include "core.h"
#include "sched.h"
#include "sleep.h"
#include "syscall.h"

void gnotify(struct g *gp)
{
	st_sc(&gp->sigdue, true);
	gointerrupt(gp);
}

void gnotify_self(void)
{
	struct g *gp = getg();
	struct m *mp = ld_rlx(&gp->m);

	st_rlx(&gp->sigdue, true);
	/* unpin sees to it; or, if it was left in between, the next to be unpinned here finds
	 * nothing, and this G looks when it runs again. */
	if (mp)
		st_rlx(&mp->preemptmissed, true);
}

uint64_t gmask(void)
{
	struct g *gp = getg();
	uint64_t mask = 0;

	if (gp)
		return gp->sigmask;
	arch_syscall4(__NR_rt_sigprocmask, 0, 0, (long)&mask, sizeof(mask));
	return mask;
}

uint64_t gmask_of(const struct g *gp)
{
	return gp->sigmask;
}

int gsigprocmask(int how, const uint64_t *set, uint64_t *old)
{
	enum { BLOCK, UNBLOCK, SETMASK };
	struct g *gp = getg();
	struct m *mp = pin(gp);
	uint64_t before = 0;
	long r = arch_syscall4(__NR_rt_sigprocmask, how, (long)set, (long)&before, sizeof(before));

	if (r == 0 && set) {
		uint64_t now = how == BLOCK	? before | *set
			       : how == UNBLOCK ? before & ~*set
						: *set;
		gp->sigmask = mp->sigmask = now;
	}
	if (r == 0 && old)
		*old = before;
	unpin(gp);
	return (int)r;
}
