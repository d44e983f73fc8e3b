/* Sleeps, and the ending of any wait from outside. */
#include <stdbool.h>

#include "sleep.h"

#include "sched.h"

enum { CLOCK_MONO = 1, EINTR_ = 4, ENOMEM_ = 12 };

int gosleep(int clock, uint64_t at)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);
	enum waitresult how = WAIT_TIMEOUT;
	/* Whether the time was over before the call is the machine's to say; a turn is to end here.
	 */
	bool must = choose_turned();

	for (; os_clock(clock) < at || must; must = false) {
		uint64_t when = timer_when(&gp->timer, clock, at);
		/* Armed before the park, on this M: armed after it, it could meet the next
		 * sleep of a G that gointerrupt woke in between. Whoever claims the wait in
		 * the meantime waits for the park (await_parked). */
		if (timer_arm(mp, &gp->timer, when, wait_begin(gp), gp) < 0) {
			how = WAIT_NOMEM;
			break;
		}
		park(mp, gp, NULL, NULL, WAIT_SLEEP);
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

bool interrupt(struct m *mp, struct g *gp)
{
	uint64_t word = ld_acq(&gp->wait);

	if ((word & ((1u << WAIT_BITS) - 1)) != WAIT_PENDING ||
	    !wait_claim(gp, word >> WAIT_BITS, WAIT_INTR))
		return false;
	if (mp)
		ready(mp, gp);
	else
		injectready(gp);
	return true;
}

bool gointerrupt(struct g *gp)
{
	struct g *self = getg();
	bool won;

	if (wait_result(gp) != WAIT_PENDING)
		return false;
	won = interrupt(enter(self), gp);
	outof(self);
	return won;
}
