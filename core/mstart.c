/* Kernel threads: starting, stopping, handing Ps from one to the other, wiring. Owns
 * sched.midle and the counts of Ms. */
#include "core.h"
#include "fault.h"
#include "netpoll.h"
#include "san.h"
#include "sched.h"
#include "trace.h"

enum {
	G0_STACK = 64 * 1024,
	SIG_STACK = 64 * 1024,
	M_GUARD = 4096,
};

static const struct core_config *config;

/* The mapping of an M: guard, g0's stack, guard, signal stack, thread block, the struct. */
static size_t m_block_size(size_t tls)
{
	return M_GUARD + G0_STACK + M_GUARD + SIG_STACK + arch_tls_size(tls) + sizeof(struct m) +
	       2 * CACHE_LINE;
}

struct m *malloc_m(void)
{
	size_t size = m_block_size(config->tls);
	char *block = os_reserve(size), *at = block;
	struct m *mp;

	if (os_failed(block))
		return NULL;
	if (os_guard(at, M_GUARD) < 0 || os_guard(at + M_GUARD + G0_STACK, M_GUARD) < 0)
		goto fail;
	at += M_GUARD;
	char *g0lo = at;
	at += G0_STACK + M_GUARD;
	char *sigstack = at;
	at += SIG_STACK;
	char *tls = at;
	at += (arch_tls_size(config->tls) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	mp = (struct m *)at;
	mp->spareframe = sigsave_new();
	if (!mp->spareframe)
		goto fail;
	mp->block = block;
	mp->sigstack = sigstack;
	mp->g0.isg0 = true;
	mp->g0.status = GPINNED;
	mp->g0.m = mp;
	mp->g0.stack.lo = (uintptr_t)g0lo;
	mp->g0.stack.hi = (uintptr_t)g0lo + G0_STACK;
	if (config->tls)
		mp->g0.fsbase = arch_tls_init(tls, config->tls);
	mp->id = add_rlx(&sched.midgen, 1);
	mp->rng = sched.seed ^ (mp->id + 1) * 0x9e3779b97f4a7c15u;
	return mp;
fail:
	os_release(block, size);
	return NULL;
}

void mfree(struct m *mp)
{
	sigsave_free(mp->spareframe);
	os_release(mp->block, m_block_size(config->tls));
}

/* From here on mp is there for good. */
static void mpublish(struct m *mp)
{
	/* Release: whoever walks allm sees a whole M. */
	do
		mp->alllink = ld_rlx(&sched.allm);
	while (!cas_rel(&sched.allm, mp->alllink, mp));
}

/* g0's first time on the M of the thread that core_init found: it was left by a G. */
static void m0start(void *arg)
{
	struct m *mp = arg;

	san_fiber_arrived(&mp->g0);
	finish_switch(mp);
	schedule(mp);
}

void madopt(struct m *mp, struct g *gp)
{
	mp->fs = arch_getfs();
	gp->adopted = true;
	if (config->tls)
		gp->fsbase = mp->fs;
	else
		mp->g0.fsbase = mp->fs;
	mp->sigmask = gp->sigmask = os_sigmask(~(uint64_t)0);
	os_sigmask(mp->sigmask);
	arch_context_init(&mp->g0.sched, mp->g0.stack.hi, m0start, mp);
	san_fiber_new(&mp->g0);
	san_fiber_adopt(gp);
	st_rlx(&mp->tid, os_gettid());
	preempt_minit(mp);
	mpublish(mp);
	st_rlx(&mp->curg, gp);
	st_rlx(&gp->m, mp);
	st_rlx(&gp->status, GPINNED);
	setg(gp);
}

void mstart_init(const struct core_config *c)
{
	config = c;
}

/* The first frame of an M that clone started on its g0 stack. */
static void mstart(void *arg)
{
	struct m *mp = arg;

	core_mstart(mp, mp->g0.stack.lo, mp->g0.stack.hi);
}

void core_mstart(struct m *mp, uintptr_t lo, uintptr_t hi)
{
	mp->g0.stack.lo = lo;
	mp->g0.stack.hi = hi;
	mp->fs = arch_getfs();
	if (!mp->g0.fsbase)
		mp->g0.fsbase = mp->fs;
	setg(&mp->g0);
	san_fiber_adopt(&mp->g0);
	st_rlx(&mp->tid, os_gettid());
	mpublish(mp);
	preempt_minit(mp);
	if (mp == sched.sysmonm)
		sysmon();
	acquirep(mp, mp->nextp);
	mp->nextp = NULL;
	count(mp->p, mstarts);
	schedule(mp);
}

int newosproc(struct m *mp)
{
	uint64_t mask;
	long r = fault(FAULT_CLONE);

	if (r < 0)
		return (int)r;
	/* It starts with every signal blocked; the first G it runs brings its own mask. */
	mp->sigmask = ~(uint64_t)0;
	mask = os_sigmask(mp->sigmask);
	if (config->newosproc)
		r = config->newosproc(mp);
	else
		r = arch_clone(mp->g0.stack.hi, mstart, mp, mp->g0.fsbase, &mp->tid);
	os_sigmask(mask);
	return r < 0 ? (int)r : 0;
}

void mput_locked(struct m *mp)
{
	CHECK(GMP_M1, ld_rlx(&mp->p) == NULL && ld_rlx(&mp->curg) == NULL);
	mp->schedlink = sched.midle;
	sched.midle = mp;
	sched.nmidle++;
	checkdead_locked();
}

static struct m *mget_locked(void)
{
	struct m *mp = sched.midle;

	if (mp) {
		sched.midle = mp->schedlink;
		sched.nmidle--;
	}
	return mp;
}

void mpark(struct m *mp)
{
	st_rlx(&mp->blocked, true);
	notesleep(&mp->park);
	noteclear(&mp->park);
	st_rlx(&mp->blocked, false);
}

void stopm(struct m *mp)
{
	struct p *pp;

	CHECK(GMP_M2, !mp->spinning);
	CHECK(GMP_M1, ld_rlx(&mp->p) == NULL && mp->nheld == 0);
	lock(&sched.lock);
	/* One that wanted a spinner found no M; here is one, if it did not find it since. */
	if (ld_sc(&sched.needspinning) != 0 && (pp = pidleget_locked()) != NULL) {
		becomespinning(mp);
		unlock(&sched.lock);
		acquirep(mp, pp);
		return;
	}
	mput_locked(mp);
	unlock(&sched.lock);
	trace_mstop(mp);
	mpark(mp);
	acquirep(mp, mp->nextp);
	mp->nextp = NULL;
	count(mp->p, mstops);
	count(mp->p, mstarts);
}

/* Hands pp to the sleeping M of a locked G at the head part of the global queue, if there is
 * one: no other M can run that G, and there may be no other M. */
static bool start_locked_locked(struct p *pp)
{
	struct g *before = NULL;

	for (struct g *gp = sched.runq.head; gp; before = gp, gp = gp->schedlink) {
		struct m *owner = gp->lockedm;
		if (!owner || !owner->lockedwait)
			continue;
		globrunqremove_locked(gp, before);
		sched.nmidlelocked--;
		owner->nextp = pp;
		notewakeup(&owner->park);
		return true;
	}
	return false;
}

/* Gives back what startm could not use. Work that is queued is found by the next M that
 * schedules, or by sysmon's look. */
static uint64_t startm_failed_locked(struct p *pp, bool spinning)
{
	uint64_t when = 0;

	if (spinning) {
		int32_t before = add_sc(&sched.nmspinning, -1);
		CHECK(WS_I6, before > 0);
	}
	if (ld_rlx(&sched.gcwaiting)) {
		pstopped_locked(pp);
	} else {
		runqdrain_locked(pp);
		if (!start_locked_locked(pp)) {
			when = ld_rlx(&pp->timers.first);
			pidleput_locked(pp);
			st_sc(&sched.needspinning, 1);
		}
	}
	return when;
}

/* The timers of a P that went idle so are the poller's, if there is one, else sysmon's. */
static void leave_timers(uint64_t when)
{
	if (when != 0 && ld_sc(&sched.lastpoll) == 0)
		wakenetpoller(when);
}

void startm(struct p *pp, bool spinning)
{
	uint64_t when = 0;
	struct m *mp;
	bool room;

	lock(&sched.lock);
	if (!pp) {
		pp = pidleget_locked();
		if (!pp) {
			unlock(&sched.lock);
			return;
		}
	}
	mp = mget_locked();
	room = sched.mcount < sched.maxmcount;
	if (!mp && room)
		sched.mcount++;
	/* In the stay in the lock that found no M: the next to go to sleep sees it. */
	if (!mp && !room)
		when = startm_failed_locked(pp, spinning);
	unlock(&sched.lock);

	if (mp) {
		CHECK(GMP_M3, !spinning || runqempty(pp));
		st_rlx(&mp->spinning, spinning);
		mp->nextp = pp;
		notewakeup(&mp->park);
		return;
	}
	if (!room) {
		leave_timers(when);
		return;
	}
	mp = malloc_m();
	if (mp) {
		st_rlx(&mp->spinning, spinning);
		mp->nextp = pp;
		if (newosproc(mp) == 0)
			return;
		mfree(mp);
	}
	lock(&sched.lock);
	sched.mcount--;
	when = startm_failed_locked(pp, spinning);
	unlock(&sched.lock);
	leave_timers(when);
}

void handoffp(struct p *pp)
{
	uint64_t when;

	/* Work to do: start it at once. */
	if (!runqempty(pp) || ld_sc(&sched.runqsize) != 0) {
		startm(pp, false);
		return;
	}
	/* Nobody looks and no P is idle: whoever queues a G now relies on us to. */
	if (ld_sc(&sched.nmspinning) + ld_sc(&sched.npidle) == 0 &&
	    cas_sc(&sched.nmspinning, 0, 1)) {
		st_sc(&sched.needspinning, 0);
		startm(pp, true);
		return;
	}
	lock(&sched.lock);
	if (ld_rlx(&sched.gcwaiting)) {
		pstopped_locked(pp);
		unlock(&sched.lock);
		return;
	}
	/* A submitter that found no idle P relies on whoever goes idle to look. */
	if (ld_sc(&sched.needspinning) != 0 && cas_sc(&sched.nmspinning, 0, 1)) {
		st_sc(&sched.needspinning, 0);
		unlock(&sched.lock);
		startm(pp, true);
		return;
	}
	/* The last P to go idle, and nobody polls: an M must, for whoever waits there. */
	if (sched.runqsize != 0 || (ld_rlx(&sched.npidle) == ld_rlx(&sched.gomaxprocs) - 1 &&
				    ld_rlx(&sched.lastpoll) != 0)) {
		unlock(&sched.lock);
		startm(pp, false);
		return;
	}
	when = ld_rlx(&pp->timers.first);
	pidleput_locked(pp);
	unlock(&sched.lock);
	if (when != 0)
		wakenetpoller(when);
}

/* Puts a locked M to sleep until some other M hands it a P for its G. */
void stoplockedm(struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p) ? releasep(mp) : NULL;

	CHECK(GMP_M6, mp->lockedg && mp->lockedg->lockedm == mp);
	/* Before the hand-off: without another M, the P may come straight back. */
	lock(&sched.lock);
	sched.nmidlelocked++;
	mp->lockedwait = true;
	unlock(&sched.lock);
	if (pp)
		handoffp(pp);
	lock(&sched.lock);
	checkdead_locked();
	unlock(&sched.lock);
	mpark(mp);
	lock(&sched.lock);
	mp->lockedwait = false;
	unlock(&sched.lock);
	CHECK(GMP_M6, ld_rlx(&mp->lockedg->status) == GRUNNABLE);
	acquirep(mp, mp->nextp);
	mp->nextp = NULL;
}

/* mp found gp, which is another M's: gives that M its P and goes to sleep. */
void startlockedm(struct m *mp, struct g *gp)
{
	struct m *owner = gp->lockedm;

	CHECK(GMP_M6, owner != mp && owner->lockedg == gp && !owner->nextp);
	struct p *pp = releasep(mp);

	lock(&sched.lock);
	/* It may be on its way to sleep still, and be counted only then. */
	sched.nmidlelocked--;
	unlock(&sched.lock);
	owner->nextp = pp;
	notewakeup(&owner->park);
	stopm(mp);
}

void lockosthread(void)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	gp->lockedcount++;
	gp->lockedm = mp;
	mp->lockedg = gp;
	unpin(gp);
}

void unlockosthread(void)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	if (gp->lockedcount > 0 && --gp->lockedcount == 0) {
		gp->lockedm = NULL;
		mp->lockedg = NULL;
	}
	unpin(gp);
}
