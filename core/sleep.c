/* Sleeps, and the ending of any wait from outside. */
#include <stdbool.h>

#include "sleep.h"

#include "sched.h"

enum { CLOCK_MONO = 1, EINTR_ = 4, ENOMEM_ = 12 };

struct sleep {
	uint64_t when;
	uint64_t seq;
};

static bool sleepf(struct g *gp, void *arg)
{
	struct sleep s = *(struct sleep *)arg;

	if (timer_arm(ld_rlx(&getg()->m), &gp->timer, s.when, s.seq, gp) == 0)
		return true;
	return !wait_claim(gp, s.seq, WAIT_NOMEM);
}

int gosleep(int clock, uint64_t at)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);
	enum waitresult how = WAIT_TIMEOUT;
	while (os_clock(clock) < at) {
		struct sleep s = { timer_when(&gp->timer, clock, at), wait_begin(gp) };
		park(mp, gp, sleepf, &s, WAIT_SLEEP);
		how = wait_result(gp);
		mp = ld_rlx(&gp->m);
		if (how != WAIT_TIMEOUT)
			break;
	}
	if (how == WAIT_INTR)
		timer_disarm(&gp->timer);
	unpin(gp);
	return how == WAIT_INTR ? -EINTR_ : how == WAIT_NOMEM ? -ENOMEM_ : 0;
}

bool gointerrupt(struct g *gp)
{
	struct g *self = getg();
	struct m *mp;
	uint64_t word = ld_acq(&gp->wait);
	bool won;

	if ((word & ((1u << WAIT_BITS) - 1)) != WAIT_PENDING)
		return false;
	mp = enter(self);
	won = wait_claim(gp, word >> WAIT_BITS, WAIT_INTR);
	if (won) {
		/* It may still be on its way into the park. */
		while (ld_acq(&gp->status) != GWAITING)
			arch_relax();
		if (mp)
			ready(mp, gp);
		else
			injectready(gp);
	}
	outof(self);
	return won;
}
