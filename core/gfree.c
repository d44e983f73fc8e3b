/* The free lists: dead Gs that serve again. Each keeps its stack, so that the next one starts on
 * warm pages: those of the P, a list that its owner takes whole, and puts back; and the common
 * pool.
 *
 * How deep a stack was used nobody knows. Natively its pages go with the thread, by a call that
 * takes as long as a recycled G's whole life may. Here sysmon sees to it, for those that nobody
 * wanted for a while: at each round it takes the lists of all Ps; what is on the pool's fresh shelf
 * at one round, and still at the next, is aged: its pages but the hot ones go, and it is cold.
 *
 * Threads may have stacks of many sizes, and who asks for one finds what fits however many others
 * there are: a shelf has bins, four for each doubling of a stack's size, and as many for those with
 * larger guards than a page. */
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
	/* So many are looked at in a bin. */
	LOOKS = 32,
	/* A stack of less is in the first bin of hosted ones. The bin before is for those that have
	 * their stacks to come. */
	BIN_SHIFT = 13,
	BIN_FINE = 2,
	/* Of one guard. */
	BINS = GFREE_BINS / 2,
	/* In one look of sysmon's, which has others to see to. */
	AT_ONCE = 32,
};

static void cool(struct g *gp)
{
	stackscavenge(&gp->stack, gp->hosted ? gp->base : 0);
}

/* ---- the pool ---- */

/* Can it run what asks for so much stack, above such a guard? One that is not hosted is given
 * another. */
static bool fits(const struct g *gp, size_t size, size_t guard)
{
	size_t have = gp->stack.hi - gp->stack.lo;

	return !gp->hosted || (have >= size && have / 4 <= size &&
			       (guard <= LEAST_GUARD || stackguard(&gp->stack) >= guard));
}

uint8_t gfree_bin(size_t size, size_t guard)
{
	int bin = 1, log = 63 - __builtin_clzl(size | 1);

	if (log >= BIN_SHIFT)
		bin += ((log - BIN_SHIFT) << BIN_FINE) +
		       (int)(size >> (log - BIN_FINE) & ((1 << BIN_FINE) - 1));
	if (bin >= BINS)
		bin = BINS - 1;
	return (uint8_t)(guard > LEAST_GUARD ? BINS + bin : bin);
}

/* Locks, of these: sched.glock. */
static void shelf_add(struct gshelf *s, int n)
{
	st_rlx(&s->n, ld_rlx(&s->n) + n);
	st_rlx(&sched.ngfree, ld_rlx(&sched.ngfree) + n);
}

/* All from the first to the last, which are of one bin. */
static void shelf_put(struct gshelf *s, struct g *first, struct g *last, int n)
{
	last->schedlink = s->bin[first->bin];
	s->bin[first->bin] = first;
	shelf_add(s, n);
}

/* So many as there are, but no more than n, of that bin; before those of list. Returns how many. */
static int shelf_more(struct gshelf *s, int bin, int n, struct g **list)
{
	struct g *first = s->bin[bin], *last = first;
	int k = 1;

	if (!first || n <= 0)
		return 0;
	for (; k < n && last->schedlink; k++)
		last = last->schedlink;
	s->bin[bin] = last->schedlink;
	last->schedlink = *list;
	*list = first;
	shelf_add(s, -k);
	return k;
}

static struct g *bin_take(struct gshelf *s, int bin, size_t size, size_t guard)
{
	struct g **at = &s->bin[bin], *gp;

	for (int i = 0; (gp = *at) != NULL && i < LOOKS; at = &gp->schedlink, i++)
		if (fits(gp, size, guard)) {
			*at = gp->schedlink;
			shelf_add(s, -1);
			return gp;
		}
	return NULL;
}

static struct g *shelf_take(struct gshelf *s, size_t size, size_t guard)
{
	/* Up to four times as large. */
	int bin = gfree_bin(size, guard), end = bin < BINS ? BINS : GFREE_BINS;
	int last = bin + (2 << BIN_FINE);
	struct g *gp;

	if (ld_rlx(&s->n) == 0)
		return NULL;
	gp = bin_take(s, 0, size, guard);
	for (; !gp && bin <= last && bin < end; bin++)
		gp = bin_take(s, bin, size, guard);
	return gp;
}

/* Any. */
static struct g *shelf_pop(struct gshelf *s)
{
	struct g *gp;

	for (int bin = 0; bin < GFREE_BINS; bin++)
		if ((gp = s->bin[bin]) != NULL) {
			s->bin[bin] = gp->schedlink;
			shelf_add(s, -1);
			return gp;
		}
	return NULL;
}

/* *s: where it was. */
static struct g *pool_get_locked(size_t size, size_t guard, struct gshelf **s)
{
	struct gshelf *const all[] = { &sched.gfresh, &sched.gaged, &sched.gcold };
	struct g *gp = NULL;

	for (int i = 0; i < 3 && !gp; i++) {
		*s = all[i];
		gp = shelf_take(*s, size, guard);
	}
	return gp;
}

static void push(struct gshelf *s, struct g *list)
{
	struct g *last, *next;

	if (!list)
		return;
	lock(&sched.glock);
	for (; list; list = next) {
		int n = 1;
		for (last = list; (next = last->schedlink) && next->bin == list->bin; n++)
			last = next;
		shelf_put(s, list, last, n);
	}
	unlock(&sched.glock);
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
	struct g **at = &list, *first;
	bool cold = ld_rlx(&sched.ngfree) > GFREE_WARM;

	for (; keep > 0 && *at; keep--)
		at = &(*at)->schedlink;
	first = *at;
	*at = NULL;
	for (struct g *gp = cold ? first : NULL; gp; gp = gp->schedlink)
		cool(gp);
	push(cold ? &sched.gcold : &sched.gfresh, first);
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
		gp->schedlink = NULL;
		push(&sched.gfresh, gp);
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

static struct g *get_foreign(size_t size, size_t guard)
{
	struct gshelf *s;
	struct g *gp;

	lock(&sched.glock);
	gp = pool_get_locked(size, guard, &s);
	unlock(&sched.glock);
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
	for (at = &list; (gp = *at) != NULL && !fits(gp, size, guard); at = &gp->schedlink)
		continue;
	if (gp) {
		*at = gp->schedlink;
		n--;
	} else if (ld_rlx(&sched.ngfree) > 0) {
		struct gshelf *s;
		/* Others like it will be asked for, too. */
		lock(&sched.glock);
		gp = pool_get_locked(size, guard, &s);
		if (gp)
			n += shelf_more(s, gp->bin, GFREE_LOCAL / 2 - 1 - n, &list);
		unlock(&sched.glock);
	}
	put_all(pp, list, n);
	return gp;
}

/* ---- ageing ---- */

uint64_t gfree_next(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	if (ld_rlx(&sched.gaged.n))
		return SOON_NS;
	if (ld_rlx(&sched.gfresh.n))
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
	struct g *first = NULL, *gp;

	lock(&sched.glock);
	for (int n = 0; n < AT_ONCE && (gp = shelf_pop(&sched.gaged)) != NULL; n++) {
		gp->schedlink = first;
		first = gp;
	}
	unlock(&sched.glock);
	for (gp = first; gp; gp = gp->schedlink)
		cool(gp);
	push(&sched.gcold, first);
}

static void age_all(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	/* There is no aged one left. */
	lock(&sched.glock);
	for (int bin = 0; bin < GFREE_BINS; bin++) {
		sched.gaged.bin[bin] = sched.gfresh.bin[bin];
		sched.gfresh.bin[bin] = NULL;
	}
	st_rlx(&sched.gaged.n, ld_rlx(&sched.gfresh.n));
	st_rlx(&sched.gfresh.n, 0);
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
	bool old = now >= due && !ld_rlx(&sched.gaged.n);

	if (!ld_rlx(&sched.gaged.n) && !old)
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
