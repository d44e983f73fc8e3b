/* Making Gs runnable whose waits are over: one, or a list of them, by those who have a P and by
 * those who have none. */
#include "core.h"
#include "courtesy.h"
#include "sched.h"
#include "trace.h"

void await_parked(struct g *gp)
{
	for (int i = 0; ld_acq(&gp->status) == GPINNED; i++) {
		claim_pause(i, &gp->status, GPINNED);
	}
}

void ready(struct m *mp, struct g *gp)
{
	await_parked(gp);
	CHECK(GMP_G4, ld_acq(&gp->status) == GWAITING);
	/* Relaxed: it is ours alone since its wait was claimed; the queue publishes it. */
	st_rlx(&gp->status, GRUNNABLE);
	trace_ready(mp, gp);
	count(mp->p, readies);
	courtesy(mp, mp->p, gp);
	runqput(mp->p, gp, true);
	wakep(mp);
}

void injectready(struct g *gp)
{
	struct glist one = { gp, 1, gp };

	gp->schedlink = NULL;
	injectglist(NULL, &one);
}

void injectglist(struct m *mp, struct glist *list)
{
	struct p *pp = mp ? ld_rlx(&mp->p) : NULL;
	struct gqueue global = { NULL, NULL };
	int32_t n = 0, idle = ld_sc(&sched.npidle);

	for (struct g *gp = list->head; gp; gp = gp->schedlink) {
		await_parked(gp);
		CHECK(GMP_G4, ld_acq(&gp->status) == GWAITING);
		st_rlx(&gp->status, GRUNNABLE);
		trace_ready(mp, gp);
	}
	while (list->head && (!pp || n < idle)) {
		struct g *gp = list->head;
		list->head = gp->schedlink;
		gqueue_push(&global, gp);
		n++;
	}
	list->n -= n;
	if (n > 0) {
		lock(&sched.lock);
		globrunqputbatch_locked(&global, n);
		unlock(&sched.lock);
		/* One M for each, as far as there are idle Ps: they find it in the queue. */
		for (; n > 0 && ld_sc(&sched.npidle) != 0; n--)
			startm(NULL, false);
		if (n > 0)
			rousesysmon(mp);
	}
	if (list->head) {
		runqputbatch(pp, list->head, list->n);
		wakep(mp);
	}
	list->head = NULL;
	list->n = 0;
}

void goready(struct g *gp)
{
	struct g *self = getg();
	struct m *mp = enter(self);

	if (mp)
		ready(mp, gp);
	else
		injectready(gp);
	outof(self);
}
