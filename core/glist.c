/* G structs: making, ending, serving again; the free lists are gfree.c's. A struct g, once made,
 * stays for ever: stale pointers to one (a late timer, sysmon's look) always point to a G. */
#include "core.h"
#include "cputime.h"
#include "early.h"
#include "guest.h"
#include "keep.h"
#include "san.h"
#include "sched.h"
#include "trace.h"

enum {
	GOID_BATCH = 16,
	ENOMEM_ = 12,
	GUARD = 4096,
};

static size_t g_tls;

void glist_init(size_t tls)
{
	g_tls = tls;
}

static void list(struct g *gp)
{
	/* Release: whoever walks allg sees a whole G. */
	do
		gp->alllink = ld_rlx(&sched.allg);
	while (!cas_rel(&sched.allg, gp->alllink, gp));
}

struct g *gagain(struct g *gp)
{
	uint64_t wait = ld_rlx(&gp->wait);
	struct g fresh = { .head = { 0 } };

	*gp = fresh;
	/* So that no number comes twice. */
	st_rlx(&gp->wait, wait);
	list(gp);
	return gp;
}

struct g *gnew(void)
{
	struct g *gp = keep(sizeof(*gp));

	if (os_failed(gp))
		return NULL;
	st_rlx(&gp->sigmask, ~(uint64_t)0);
	list(gp);
	return gp;
}

void gfput(struct m *mp, struct g *gp)
{
	struct p *pp = ld_rlx(&mp->p);
	bool kept;

	st_rlx(&gp->sigmask, ~(uint64_t)0);
	if (gp->lockedm)
		st_rlx(&gp->lockedm->lockedg, NULL);
	gp->lockedm = NULL;
	gp->lockedcount = 0;
	guest_ended(gp);
	if (unlikely(ld_rlx(&gp->spinner) || gp->spinmisses != 0))
		spin_ended(gp);
	if (gp->adopted) {
		/* The program's own stack and thread block; the next user gets some of ours. */
		gp->adopted = false;
		gp->stack.lo = gp->stack.hi = 0;
		gp->fsbase = 0;
	}
	san_fiber_free(gp);
	kept = gp->kept;
	/* Release: pairs with the acquire in gdead: nobody stands on its stack any more. From
	 * here on a kept one is whoever's who asks, and may be listed by them. */
	st_rel(&gp->status, GDEAD);
	if (!kept)
		gfree_put(pp, gp);
}

static uint64_t goidget(struct p *pp)
{
	if (!pp)
		return add_rlx(&sched.goidgen, 1) + 1;
	if (pp->goidnext == pp->goidend) {
		pp->goidnext = add_rlx(&sched.goidgen, GOID_BATCH) + 1;
		pp->goidend = pp->goidnext + GOID_BATCH;
	}
	return pp->goidnext++;
}

/* The first thing on a G's own stack. */
static void gmain(void *arg)
{
	struct g *gp = arg;

	san_fiber_arrived(gp);
	st_rlx(&gp->fresh, false);
	finish_switch(ld_rlx(&gp->m));
	if (unlikely(ld_rlx(&gp->sigdue)))
		st_rlx(&ld_rlx(&gp->m)->preemptmissed, true);
	if (!gp->hosted)
		unpin(gp);
	gp->fn(gp->arg);
	goexit();
}

void gbegun(void)
{
	unpin(getg());
}

/* A stack of the size asked for, and the thread block at its top. */
static int gstack(struct g *gp, size_t size)
{
	size_t have = gp->stack.hi - gp->stack.lo;
	size_t tls = g_tls ? (arch_tls_size(g_tls) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1)
			   : 0;
	int r;

	size += tls;
	if (have >= size && have / 4 <= size)
		return 0;
	if (have)
		stackfree(&gp->stack);
	gp->stack.lo = gp->stack.hi = 0;
	r = stackalloc(&gp->stack, size, GUARD);
	if (r < 0)
		return r;
	if (tls) {
		char *at = (char *)((gp->stack.hi - tls) & ~(uintptr_t)(CACHE_LINE - 1));
		for (size_t i = 0; i < g_tls; i++)
			at[i] = 0;
		gp->fsbase = arch_tls_init(at, g_tls);
	}
	return 0;
}

static uintptr_t gstack_top(const struct g *gp)
{
	return gp->hosted   ? gp->base & ~(uintptr_t)15
	       : gp->fsbase ? (gp->fsbase - ((g_tls + 63) & ~(size_t)63)) & ~(uintptr_t)15
			    : gp->stack.hi & ~(uintptr_t)15;
}

/* A new G's first way to a queue. With mp, its P is held. */
static void make_runnable(struct m *mp, struct g *gp, bool recycled)
{
	struct p *pp;

	gp->absent = NULL;
	/* As the kernel hands it on. */
	gp->gsbase = arch_getgs();
	st_rlx(&gp->fresh, true);
	cputime_begin(gp);
	trace_new(mp, gp);
	if (!mp) {
		add_rlx(&sched.nopstats.created, 1);
		add_rlx(&sched.nopstats.recycled, recycled);
		/* As if it had been waiting. */
		st_rlx(&gp->status, GWAITING);
		injectready(gp);
		return;
	}
	pp = ld_rlx(&mp->p);
	st_rlx(&gp->status, GRUNNABLE);
	count(pp, created);
	if (recycled)
		count(pp, recycled);
	trace_ready(mp, gp);
	runqput(pp, gp, true);
	wakep(mp);
}

int newproc(void (*fn)(void *), void *arg, size_t stacksize, struct g **out)
{
	struct g *self = getg(), *gp;
	struct m *mp = self && !on_g0(self) ? pin(self) : NULL;
	struct p *pp = mp ? ld_rlx(&mp->p) : NULL;
	bool recycled = true;
	int r = 0;

	gp = gfree_get(pp, stacksize, 0);
	if (!gp) {
		recycled = false;
		gp = gnew();
	}
	if (!gp || (r = gstack(gp, stacksize)) < 0) {
		if (gp) {
			/* It has no stack; it may get one another time. */
			st_rlx(&gp->status, GDEAD);
			gfree_put(NULL, gp);
		}
		if (mp)
			unpin(self);
		return r < 0 ? r : -ENOMEM_;
	}
	gp->fn = fn;
	gp->arg = arg;
	gp->goid = goidget(pp);
	if (self)
		st_rlx(&gp->sigmask, ld_rlx(&self->sigmask));
	else
		gmask_set(gp, sched.foreignmask);
	arch_context_init(&gp->sched, gstack_top(gp), gmain, gp);
	san_fiber_new(gp);
	if (out)
		*out = gp;
	make_runnable(mp, gp, recycled);
	if (mp)
		unpin(self);
	return 0;
}

/* Who is stopped on the way out of gnew's call holds glock until it runs again, and an M that
 * spills dead Gs meanwhile waits for that with the P it would run on. */
static struct g *gnew_pinned(void)
{
	struct g *self = getg(), *gp;

	(void)enter(self);
	gp = gnew();
	outof(self);
	return gp;
}

struct g *ghost(const struct ghostspec *spec)
{
	struct g *gp = gnew_pinned();

	if (!gp)
		return NULL;
	st_rlx(&gp->status, GDEAD);
	gp->hosted = true;
	grehost(gp, spec);
	return gp;
}

void grehost(struct g *gp, const struct ghostspec *spec)
{
	gp->stack.lo = spec->lo;
	gp->stack.hi = spec->hi;
	gp->bin = gfree_bin(spec->hi - spec->lo, stackguard(&gp->stack));
	gp->base = spec->base;
	gp->fsbase = spec->fsbase;
	gp->head.host = spec->host;
	/* Before its first run, for gof. */
	st_rlx(tls_wordof(spec->fsbase), gp);
}

struct g *gown(size_t stacksize)
{
	struct g *gp = gnew();

	if (!gp)
		return NULL;
	st_rlx(&gp->status, GDEAD);
	if (gstack(gp, stacksize) == 0)
		return gp;
	gfree_put(NULL, gp);
	return NULL;
}

struct g *gtake(size_t size, size_t guard)
{
	struct g *self = getg(), *gp;
	struct m *mp = enter(self);

	gp = gfree_get(mp ? ld_rlx(&mp->p) : NULL, size, guard);
	outof(self);
	return gp;
}

void gstart(struct g *gp, void (*fn)(void *), void *arg, uint64_t sigmask)
{
	struct g *self = getg();
	struct m *mp = enter(self);

	gp->fn = fn;
	gp->arg = arg;
	gp->goid = goidget(mp ? ld_rlx(&mp->p) : NULL);
	gmask_set(gp, sigmask);
	st_rlx(&gp->sigdue, false);
	arch_context_init(&gp->sched, gstack_top(gp), gmain, gp);
	san_fiber_new(gp);
	make_runnable(mp, gp, false);
	outof(self);
}

void gkeep(bool keep)
{
	getg()->kept = keep;
}

void grecycle(struct g *gp)
{
	struct g *self = getg();
	struct m *mp = enter(self);

	gp->kept = false;
	gfree_put(mp ? ld_rlx(&mp->p) : NULL, gp);
	outof(self);
}

bool gdead(const struct g *gp)
{
	/* Acquire: pairs with the release in gfput. */
	return ld_acq(&gp->status) == GDEAD;
}

struct g *geach(struct g *gp)
{
	return gp ? gp->alllink : ld_acq(&sched.allg);
}

struct g *gof(uintptr_t fsbase)
{
	struct g *gp = ld_rlx(tls_wordof(fsbase));

	/* The word is that of a child, during a vfork. */
	if (unlikely(!gp))
		for (gp = ld_acq(&sched.allg); gp && gp->fsbase != fsbase; gp = gp->alllink)
			continue;
	return gp;
}

struct m *m_of(const struct g *gp)
{
	struct m *mp = ld_acq(&gp->m);

	return mp && ld_rlx(&mp->curg) == gp ? mp : NULL;
}

int32_t gtid(const struct g *gp)
{
	struct m *mp = m_of(gp);

	return mp ? ld_rlx(&mp->tid) : 0;
}
