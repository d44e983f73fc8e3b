/* The global run queue: a list under sched.lock, with its length readable without. */
#include "policies/turns.h"
#include "sched.h"

static void put_last_locked(struct g *gp)
{
	gqueue_push(&sched.runq, gp);
	st_rlx(&sched.runqsize, sched.runqsize + 1);
}

static void __attribute__((noinline, cold)) put_odd_locked(struct g *gp)
{
	if (!choose_policed() || !plan_put_locked(gp))
		put_last_locked(gp);
}

void globrunqput_locked(struct g *gp)
{
	DCHECK(GMP_G3, ld_rlx(&gp->status) == GRUNNABLE);
	if (sched_odd())
		put_odd_locked(gp);
	else
		put_last_locked(gp);
}

/* By a policy, one by one. */
static bool put_each_locked(struct gqueue *q)
{
	if (!choose_policed())
		return false;
	for (struct g *gp = q->head, *rest; gp; gp = rest) {
		rest = gp->schedlink;
		globrunqput_locked(gp);
	}
	return true;
}

void globrunqputearly_locked(struct gqueue *q, int32_t n)
{
	struct g *before = sched.runqearly;

	if (!q->head || put_each_locked(q))
		return;
	q->tail->schedlink = before ? before->schedlink : sched.runq.head;
	if (before)
		before->schedlink = q->head;
	else
		sched.runq.head = q->head;
	if (!q->tail->schedlink)
		sched.runq.tail = q->tail;
	sched.runqearly = q->tail;
	st_rlx(&sched.early, sched.early + n);
	st_rlx(&sched.runqsize, sched.runqsize + n);
}

void globrunqputbatch_locked(struct gqueue *q, int32_t n)
{
	if (!q->head)
		return;
	q->tail->schedlink = NULL;
	if (put_each_locked(q))
		return;
	if (sched.runq.tail)
		sched.runq.tail->schedlink = q->head;
	else
		sched.runq.head = q->head;
	sched.runq.tail = q->tail;
	st_rlx(&sched.runqsize, sched.runqsize + n);
}

/* Does gp, which is in the queue, stand before the others there? */
static bool early_locked(const struct g *gp)
{
	for (const struct g *at = sched.runqearly ? sched.runq.head : NULL; at;
	     at = at->schedlink) {
		if (at == gp)
			return true;
		if (at == sched.runqearly)
			break;
	}
	return false;
}

void globrunqremove_locked(struct g *gp, struct g *before)
{
	if (early_locked(gp)) {
		st_rlx(&sched.early, sched.early - 1);
		if (sched.runqearly == gp)
			sched.runqearly = before;
	}
	if (before)
		before->schedlink = gp->schedlink;
	else
		sched.runq.head = gp->schedlink;
	if (sched.runq.tail == gp)
		sched.runq.tail = before;
	gp->schedlink = NULL;
	st_rlx(&sched.runqsize, sched.runqsize - 1);
}

static struct g *pop_locked(void)
{
	struct g *gp = sched.runq.head;

	if (!gp)
		return NULL;
	sched.runq.head = gp->schedlink;
	if (!sched.runq.head)
		sched.runq.tail = NULL;
	if (sched.runqearly) {
		st_rlx(&sched.early, sched.early - 1);
		if (sched.runqearly == gp)
			sched.runqearly = NULL;
	}
	gp->schedlink = NULL;
	st_rlx(&sched.runqsize, sched.runqsize - 1);
	return gp;
}

/* A wired G in the list and the policy take turns. */
static struct g *get_policed_locked(const struct p *pp)
{
	struct g *picked = NULL;

	if (!sched.runq.head || plan_turn_locked())
		picked = plan_get_locked(pp->id);
	return picked ? picked : pop_locked();
}

/* The one whose turn it is, in the policy's queue or, if it is wired, in the list. */
static struct g *turn_get_locked(const struct p *pp, uint64_t goid)
{
	struct g *gp = plan_take_locked(goid, pp->id), *before = NULL;

	if (gp)
		return gp;
	for (gp = sched.runq.head; gp && gp->goid != goid; gp = gp->schedlink)
		before = gp;
	if (gp)
		globrunqremove_locked(gp, before);
	return gp;
}

/* By a policy, or as a record has it. */
static struct g *get_odd_locked(const struct p *pp)
{
	uint64_t turn = choose_turned() ? turns_next_locked() : 0;
	struct g *gp = turn ? turn_get_locked(pp, turn) : NULL;

	if (!turn)
		gp = choose_policed() ? get_policed_locked(pp) : pop_locked();
	if (gp && choose_turned())
		turns_picked_locked(gp);
	return gp;
}

struct g *globrunqget_locked(const struct p *pp)
{
	return sched_odd() ? get_odd_locked(pp) : pop_locked();
}

struct g *globrunqgetbatch_locked(const struct p *pp, int32_t max, struct g **rest, int32_t *n)
{
	struct gqueue q = { NULL, NULL };
	struct g *first;
	int32_t share;

	*n = 0;
	if (sched_odd() && (choose_policed() || choose_turned()))
		return get_odd_locked(pp);
	share = choose_globalshare(ld_rlx(&sched.runqsize), max);
	first = pop_locked();
	if (!first)
		return NULL;
	for (; *n + 1 < share; ++*n)
		gqueue_push(&q, pop_locked());
	*rest = q.head;
	return first;
}
