/* Who comes out of the poller with somebody to run: is another M woken, to poll in its place? That
 * costs as much as a brief answer, and after a brief one it is back before the other gets there: a
 * client that waits for each answer was served half as fast on two Ps as on one. So where the last
 * ones were brief, and follow closely, nobody is woken. Sysmon looks each ms then, and wakes one if
 * this one lasts; after that many are to be brief before any is taken for it. */
#include "core.h"
#include "policies/turns.h"
#include "poller.h"
#include "sched.h"

enum {
	BRIEF_CYCLES = 5 * ARCH_CYCLES_20US,
	CLOSE_CYCLES = 10 * ARCH_CYCLES_20US,
	/* A call that finds an event returns in less. */
	WAIT_CYCLES = ARCH_CYCLES_20US / 4,
	BELIEVED = 4,
	DOUBTED = -64,
	/* Who polls sees to the timers of idle Ps, too. */
	TIMERS_NS = 2 * 1000 * 1000,
};

static ATOMIC(int32_t) brief; /* so many in a row were */
static ATOMIC(uint64_t) left; /* when one last came out, in cycles */
static ATOMIC(int32_t) vain; /* so many looks in a row were, and the waits after them were none */

bool poll_left(struct m *mp, const struct g *gp, int32_t others, bool waited)
{
	uint64_t now = arch_cycles(), before = ld_rlx(&left), timer;

	st_rlx(&left, now);
	mp->polled = now;
	/* It was there before: they come side by side, and another P would have had it run. */
	if (!waited && ld_rlx(&brief) > 0)
		st_rlx(&brief, 0);
	if (others > 0 || now - before > CLOSE_CYCLES || ld_rlx(&brief) < BELIEVED ||
	    ld_sc(&sched.npidle) == 0 || gp->lockedm || gp->home || choose_turned())
		return false;
	timer = timers_next();
	return (timer == 0 || timer > nanotime() + TIMERS_NS) && sysmon_watches();
}

void poll_back(struct m *mp)
{
	bool was = arch_cycles() - mp->polled < BRIEF_CYCLES;
	int32_t n = ld_rlx(&brief);

	mp->polled = 0;
	if (was && n < BELIEVED)
		st_rlx(&brief, n + 1);
	else if (!was && n > 0)
		st_rlx(&brief, 0);
}

/* Who is about to wait sees there what the look would have found. */
bool poll_looks(void)
{
	return ld_rlx(&vain) < BELIEVED || ld_sc(&sched.npidle) + 1 < ld_rlx(&sched.gomaxprocs) ||
	       choose_policed() || choose_turned();
}

void poll_looked(bool found)
{
	int32_t n = ld_rlx(&vain);

	if (found && n > 0)
		st_rlx(&vain, 0);
	else if (!found && n < BELIEVED)
		st_rlx(&vain, n + 1);
}

bool poll_waited(uint64_t since)
{
	bool waited = arch_cycles() - since >= WAIT_CYCLES;

	if (!waited && ld_rlx(&vain) > 0)
		st_rlx(&vain, 0);
	return waited;
}

bool poll_forgotten(uint64_t now)
{
	uint64_t last = ld_sc(&sched.lastpoll);

	if (last == 0 || last + POLL_EARLY_NS / 2 > now ||
	    (!netpoll_anywaiters() && timers_next() == 0))
		return false;
	st_rlx(&brief, DOUBTED);
	return true;
}
