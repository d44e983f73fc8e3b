/* The free lists: dead Gs that serve again. Each keeps its stack, so that the next one starts on
 * warm pages: those of the P, a list that its owner takes whole, and puts back; and the common
 * pool.
 *
 * How deep a stack was used nobody knows. Natively its pages go with the thread, by a call that
 * takes as long as a recycled G's whole life may. Here sysmon sees to it, for those that nobody
 * wanted for a while: at each round it takes the lists of all Ps; what is in the pool's fresh list
 * at one round, and still at the next, is aged: its pages but the hot ones go, and it is cold. */
#include "core.h"
#include "futex.h"
#include "sched.h"

enum {
	/* With so many in the pool those that come now are not wanted soon. */
	GFREE_WARM = 2048,
	ROUND_NS = 500 * 1000 * 1000,
	SOON_NS = 1000 * 1000,
	/* Of every hosted one. */
	LEAST_GUARD = 4096,
	/* In one look of sysmon's, which has others to see to. */
	AT_ONCE = 32,
};

static void cool(struct g *gp)
{
	stackscavenge(&gp->stack, gp->hosted ? gp->base : 0);
}

/* ---- the pool ---- */

static struct g *pop_locked(ATOMIC(struct g *) *list)
{
	struct g *gp = ld_rlx(list);

	if (gp) {
		st_rlx(list, gp->schedlink);
		st_rlx(&sched.ngfree, ld_rlx(&sched.ngfree) - 1);
	}
	return gp;
}

static void push(ATOMIC(struct g *) *list, struct g *first, struct g *last, int32_t n)
{
	if (n == 0)
		return;
	lock(&sched.glock);
	last->schedlink = ld_rlx(list);
	st_rlx(list, first);
	st_rlx(&sched.ngfree, ld_rlx(&sched.ngfree) + n);
	unlock(&sched.glock);
}

static struct g *pool_get_locked(void)
{
	struct g *gp = pop_locked(&sched.gfresh);

	if (!gp)
		gp = pop_locked(&sched.gaged);
	return gp ? gp : pop_locked(&sched.gcold);
}

/* ---- those of a P ---- */

/* By its owner, or sysmon. */
static struct g *take_all(struct p *pp)
{
	/* Acquire: pairs with the release in put_all. */
	return ld_rlx(&pp->gfree) ? xchg_acq(&pp->gfree, NULL) : NULL;
}

/* By the owner, who took what was there. */
static void put_all(struct p *pp, struct g *list, int32_t n)
{
	pp->ngfree = n;
	st_rel(&pp->gfree, list);
}

/* All but the first `keep` of the list to the pool. */
static struct g *spill(struct g *list, int32_t keep)
{
	struct g *gp, **at = &list, *first, *last = NULL;
	bool cold = ld_rlx(&sched.ngfree) > GFREE_WARM;
	int32_t n = 0;

	for (; keep > 0 && *at; keep--)
		at = &(*at)->schedlink;
	first = *at;
	*at = NULL;
	for (gp = first; gp; gp = gp->schedlink) {
		if (cold)
			cool(gp);
		last = gp;
		n++;
	}
	push(cold ? &sched.gcold : &sched.gfresh, first, last, n);
	return list;
}

void gfree_purge(struct p *pp)
{
	spill(take_all(pp), 0);
}

void gfree_put(struct p *pp, struct g *gp)
{
	struct g *list;
	int32_t n;

	if (!pp) {
		push(&sched.gfresh, gp, gp, 1);
		return;
	}
	list = take_all(pp);
	n = list ? pp->ngfree : 0;
	gp->schedlink = list;
	if (n + 1 < GFREE_LOCAL)
		put_all(pp, gp, n + 1);
	else
		put_all(pp, spill(gp, GFREE_LOCAL / 2), GFREE_LOCAL / 2);
}

/* Can it run what asks for so much stack, above such a guard? One that is not hosted is given
 * another. */
static bool fits(const struct g *gp, size_t size, size_t guard)
{
	size_t have = gp->stack.hi - gp->stack.lo;

	return !gp->hosted || (have >= size && have / 4 <= size &&
			       (guard <= LEAST_GUARD || stackguard(&gp->stack) >= guard));
}

static struct g *get_foreign(size_t size, size_t guard)
{
	struct g *gp;

	lock(&sched.glock);
	gp = pool_get_locked();
	unlock(&sched.glock);
	if (gp && !fits(gp, size, guard)) {
		gfree_put(NULL, gp);
		gp = NULL;
	}
	return gp;
}

struct g *gfree_get(struct p *pp, size_t size, size_t guard)
{
	struct g *list, **at, *gp;
	int32_t n;

	/* Most often there is none, or one of its own. */
	if (ld_rlx(&sched.ngfree) == 0 && (!pp || !ld_rlx(&pp->gfree)))
		return NULL;
	if (!pp)
		return get_foreign(size, guard);
	list = take_all(pp);
	n = list ? pp->ngfree : 0;
	if (!list) {
		lock(&sched.glock);
		for (at = &list; n < GFREE_LOCAL / 2 && (gp = pool_get_locked()) != NULL; n++) {
			*at = gp;
			at = &gp->schedlink;
		}
		*at = NULL;
		unlock(&sched.glock);
	}
	for (at = &list; (gp = *at) != NULL; at = &gp->schedlink) {
		if (!fits(gp, size, guard))
			continue;
		*at = gp->schedlink;
		n--;
		break;
	}
	put_all(pp, list, n);
	return gp;
}

/* ---- ageing ---- */

uint64_t gfree_next(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	if (ld_rlx(&sched.gaged))
		return SOON_NS;
	if (ld_rlx(&sched.gfresh))
		return ROUND_NS;
	for (int32_t i = 0; i < n; i++)
		if (ld_rlx(&sched.allp[i]->gfree))
			return ROUND_NS;
	return 0;
}

/* Those that it has in hand are in no list, and whoever wants one meanwhile makes one anew: so
 * few at a time. */
static void cool_some(void)
{
	struct g *first = NULL, *last = NULL, *gp;
	int32_t n = 0;

	lock(&sched.glock);
	for (; n < AT_ONCE && (gp = pop_locked(&sched.gaged)) != NULL; n++) {
		gp->schedlink = first;
		first = gp;
		if (!last)
			last = gp;
	}
	unlock(&sched.glock);
	for (gp = first; gp; gp = gp->schedlink)
		cool(gp);
	push(&sched.gcold, first, last, n);
}

static void age_all(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	lock(&sched.glock);
	st_rlx(&sched.gaged, ld_rlx(&sched.gfresh));
	st_rlx(&sched.gfresh, NULL);
	unlock(&sched.glock);
	for (int32_t i = 0; i < n; i++)
		spill(take_all(sched.allp[i]), 0);
}

/* Sequentially consistent: an odd number is seen by whoever finds the lists without what sysmon
 * took out of them; gsettled acquires what the even one releases. */
static void hands_full(void)
{
	add_sc(&sched.gfreehands, 1);
}

static void hands_empty(void)
{
	add_sc(&sched.gfreehands, 1);
	futex_wake(&sched.gfreehands, FUTEX_ANY, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
}

void gfree_age(uint64_t now)
{
	static uint64_t due;
	bool old = now >= due && !ld_rlx(&sched.gaged);

	if (!ld_rlx(&sched.gaged) && !old)
		return;
	hands_full();
	if (old) {
		due = now + ROUND_NS;
		age_all();
	} else {
		cool_some();
	}
	hands_empty();
}

uint32_t gsettled(void)
{
	uint32_t n;

	/* Acquire: what it gave back is in the lists. */
	while ((n = ld_acq(&sched.gfreehands)) % 2 != 0)
		futex_wait(&sched.gfreehands, n, (uint32_t)FUTEX_ANY, NULL, 0);
	return n;
}
