/* The kernel threads themselves: their memory, their first frames, and who clones them. Owns
 * the starter, which makes threads for sysmon. Next: mstart.c, which says when. */
#include "mthread.h"

#include "core.h"
#include "early.h"
#include "fault.h"
#include "filters.h"
#include "preempt.h"
#include "san.h"
#include "sched.h"
#include "sigleft.h"
#include "syscall.h"
#include "tracer.h"
#include "view.h"

enum {
	G0_STACK = 64 * 1024,
	SIG_STACK = 64 * 1024,
	M_GUARD = 4096,
};

static const struct core_config *config;

/* Sysmon has a table of descriptors of its own, which a thread made by it would share. So
 * those it needs are made by this one; which also does what a handler cannot. */
FORKED static struct {
	ATOMIC(bool) none; /* there is none, and will be none */
	struct note note;
	ATOMIC(struct m *) wanted; /* linked by schedlink; each has its nextp */
	ATOMIC(bool) signalled; /* core_sigdefer was called */
	ATOMIC(uint64_t) accepts; /* signals that it is to let in */
	ATOMIC(uint64_t) open; /* those that it lets in, or is about to */
	ATOMIC(uint64_t) handled; /* signals that have a handler */
	ATOMIC(uint64_t) refusals; /* as far as sysmon knows of it: mthread_refusals() */
} starter;

FORKED static struct note begun; /* sysmon is through with what it begins with */

/* SIGSYS, if the program has a handler of it. A filter of the program's may answer a call of ours
 * by that signal; where it is blocked it ends the process. */
uint64_t mthread_refusals(void)
{
	enum { SIGSYS_ = 31 };

	/* Acquire: pairs with the release in core_sigaccept. */
	return ld_acq(&starter.accepts) & (uint64_t)1 << (SIGSYS_ - 1);
}

void mthread_accept(void)
{
	uint64_t set = mthread_refusals();

	if (likely(set == ld_rlx(&starter.refusals)))
		return;
	os_sigmask(~set);
	/* Release: pairs with the acquire in core_filters. */
	st_rel(&starter.refusals, set);
}

uint64_t mthread_handled(void)
{
	return ld_sc(&starter.handled);
}

bool mthread_lingers(uint64_t set)
{
	return (ld_sc(&starter.open) & ~ld_sc(&starter.accepts) & set) != 0;
}

void mthread_letin(uint64_t set)
{
	os_sigmask(~(set | ld_rlx(&starter.refusals)));
}

void mthread_watched(void)
{
	notewakeup(&begun);
}

/* Until sysmon has a table of descriptors of its own there is a copy of the program's, and no
 * descriptor that the program closes is closed for whoever is at the other end. And it begins with
 * calls that no filter of the program's may find, nor a limit, nor the child of a fork. */
void mthread_settle(void)
{
	/* Asleep at once: the kernel has most often put sysmon behind us, on our own cpu. */
	if (!config->newosproc)
		notesleep(&begun);
}

void core_filters(void)
{
	filters_set();
	while (ld_acq(&starter.refusals) != mthread_refusals()) {
		wakesysmon();
		os_yield();
	}
}

/* Ms whose kernel thread has ended, or is about to: linked by schedlink. They stay in sched.allm.
 */
static struct mutex ended_lock = MUTEX_INIT(RANK_LEAF);
FORKED static struct m *ended;

/* The mapping of an M: guard, g0's stack, guard, signal stack, thread block, the struct. */
static size_t m_block_size(size_t tls)
{
	return M_GUARD + G0_STACK + M_GUARD + SIG_STACK + arch_tls_size(tls) + sizeof(struct m) +
	       2 * CACHE_LINE;
}

static struct m *take_ended(void)
{
	struct m *mp, **at = &ended;

	lock(&ended_lock);
	/* Acquire: the kernel clears it when nobody stands on the M's stacks any more. */
	while ((mp = *at) != NULL && ld_acq(&mp->tid) != 0)
		at = &mp->schedlink;
	if (mp)
		*at = mp->schedlink;
	unlock(&ended_lock);
	if (!mp)
		return NULL;
	/* Perhaps of one that could not be cloned. */
	mp->schedlink = NULL;
	mp->nextp = NULL;
	mp->spoilt = mp->bred = false;
	st_rlx(&mp->spinning, false);
	st_rlx(&mp->charged, 0);
	st_rlx(&mp->lookedcpu, 0);
	return mp;
}

static void put_ended(struct m *mp)
{
	lock(&ended_lock);
	mp->schedlink = ended;
	ended = mp;
	unlock(&ended_lock);
}

struct m *malloc_m(void)
{
	size_t size = m_block_size(config->tls);
	struct m *mp = take_ended();
	char *block, *at;

	if (mp)
		return mp;
	block = at = os_reserve(size);
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
	/* Unless core_init gives all back. */
	if (mp->published && sched.up) {
		put_ended(mp);
		return;
	}
	sigsave_free(mp->spareframe);
	os_release(mp->block, m_block_size(config->tls));
}

/* From here on mp is there for good. */
static void mpublish(struct m *mp)
{
	if (mp->published)
		return;
	mp->published = true;
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
	mp->leader = true;
	mp->fs = arch_getfs();
	gp->adopted = true;
	if (config->tls)
		gp->fsbase = mp->fs;
	else
		mp->g0.fsbase = mp->fs;
	st_rlx(&gp->sigmask, os_sigmask(~(uint64_t)0));
	st_rlx(&mp->sigmask, ld_rlx(&gp->sigmask));
	os_sigmask(ld_rlx(&mp->sigmask));
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

void mthread_init(const struct core_config *c)
{
	config = c;
	st_rlx(&starter.none, c->newosproc != NULL);
}

/* The first frame of an M that clone started on its g0 stack. */
static void mstart(void *arg)
{
	struct m *mp = arg;

	core_mstart(mp, mp->g0.stack.lo, mp->g0.stack.hi);
}

int newosproc(struct m *mp)
{
	uint64_t mask;
	long r = fault(FAULT_CLONE);

	if (r < 0)
		return (int)r;
	/* It starts with every signal blocked; the first G it runs brings its own mask. */
	st_rlx(&mp->sigmask, ~mthread_refusals());
	mask = os_sigmask(ld_rlx(&mp->sigmask));
	if (config->newosproc)
		r = config->newosproc(mp);
	else
		r = arch_clone(mp->g0.stack.hi, mstart, mp, mp->g0.fsbase, &mp->tid);
	os_sigmask(mask);
	return r < 0 ? (int)r : 0;
}

static void clone_m(struct m *mp)
{
	struct p *pp = mp->nextp;
	bool spinning = ld_rlx(&mp->spinning);

	if (newosproc(mp) == 0)
		return;
	mfree(mp);
	mstart_failed(pp, spinning);
}

static void clone_wanted(void)
{
	struct m *mp = xchg_sc(&starter.wanted, NULL);

	while (mp) {
		struct m *next = mp->schedlink;
		mp->schedlink = NULL;
		clone_m(mp);
		mp = next;
	}
}

/* open: what it lets in. Who takes one back has written that, and then looks whether we let it in,
 * or are about to; we say that we are about to, and then look once more at what we are to let in.
 */
static uint64_t starter_opens(uint64_t open)
{
	for (uint64_t set;
	     (set = ld_sc(&starter.accepts)) != open || ld_rlx(&starter.open) != open;) {
		st_sc(&starter.open, open | set);
		if (ld_sc(&starter.accepts) != set)
			continue;
		os_sigmask(~set);
		open = set;
		/* Release: pairs with the acquire in mthread_lingers. */
		st_rel(&starter.open, open);
	}
	return open;
}

static void starter_main(void *arg)
{
	uint64_t open = 0;

	setg(arg);
	for (;;) {
		open = starter_opens(open);
		notesleep(&starter.note);
		noteclear(&starter.note);
		if (xchg_sc(&starter.signalled, false) && config->signalled)
			config->signalled();
		clone_wanted();
	}
}

bool sigdue(const void *uc)
{
	return config->sigdue && config->sigdue(uc);
}

bool failed(void)
{
	return config->failed && config->failed();
}

bool takes_left(void)
{
	return config->sigleft != NULL;
}

void left(struct g *gp, int sig)
{
	config->sigleft(gp, sig);
}

bool pursues(const struct g *gp, uintptr_t pc)
{
	return config->pursues && config->pursues(gp, pc);
}

uint64_t mthread_clocked(uint64_t now, bool idle)
{
	return config->clocked ? config->clocked(now, idle) : 0;
}

void divert(void)
{
	config->divert();
}

void core_sigdefer(void)
{
	st_sc(&starter.signalled, true);
	notewakeup(&starter.note);
}

void core_sigaccept(uint64_t set, uint64_t handled)
{
	uint64_t lost = xchg_sc(&starter.handled, handled) & ~handled;

	if (xchg_sc(&starter.accepts, set) != set)
		notewakeup(&starter.note);
	if (lost != 0)
		sigopen_lost(lost);
}

void mthread_lets(uint64_t *accepts)
{
	uint64_t set = mthread_refusals();

	if (likely(set == *accepts))
		return;
	*accepts = set;
	os_sigmask(~set);
}

bool mhelper(void (*fn)(void *g0))
{
	struct m *mp = malloc_m();
	uint64_t mask;
	long r;

	if (!mp)
		return false;
	mask = os_sigmask(~(uint64_t)0);
	r = arch_clone(mp->g0.stack.hi, fn, &mp->g0, mp->g0.fsbase, &mp->tid);
	os_sigmask(mask);
	if (r < 0)
		mfree(mp);
	return r >= 0;
}

static bool start_starter(void)
{
	if (mhelper(starter_main))
		return true;
	/* Then looks, as mcreate does: one of the two finds what was wanted meanwhile. */
	st_sc(&starter.none, true);
	clone_wanted();
	return false;
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
	/* Unless the host made it, the kernel has: a filter may refuse the call. */
	if (ld_rlx(&mp->tid) == 0)
		st_rlx(&mp->tid, os_gettid());
	mpublish(mp);
	preempt_minit(mp);
	if (mp == sched.sysmonm) {
		/* Where the host makes the threads, its runtime may count on one table. */
		bool own = !config->newosproc && start_starter() && os_owntable();
		if (own)
			view_open(config->rows, config->nrows);
		tracer_start(own);
		sysmon();
	}
	mbegin(mp);
}

bool mthread_ends(void)
{
	/* It is the host's runtime that knows how its threads end. */
	return !config->newosproc;
}

void mthread_end(struct m *mp)
{
	/* No handler may find it. */
	os_sigmask(~(uint64_t)0);
	st_rel(&mp->sigmask, ~(uint64_t)0);
	/* The process's first, or a parent, stays as long as the process; but serves nobody. */
	while (mp->leader || mp->parent)
		futexsleep(&mp->park.key, ld_rlx(&mp->park.key), -1);
	mp->spoilt = false;
	put_ended(mp);
	arch_syscall3(__NR_exit, 0, 0, 0);
	__builtin_unreachable();
}

/* A kernel thread inherits from its parent: a table of descriptors from sysmon, affinity and
 * class, and more, from an M that a G is, or was, wired to for their sake. Who is no M may be the
 * child of a vfork, which wakes a G in its parent's memory: its threads would be its own, and end
 * with it. */
static bool is_special(void)
{
	struct g *self = getg();
	struct m *mp = self ? ld_rlx(&self->m) : NULL;

	return !self || on_sysmon() || (mp && (mp->lockedg || mp->spoilt));
}

void mcreate(struct m *mp)
{
	if (!is_special() || ld_sc(&starter.none)) {
		clone_m(mp);
		return;
	}
	/* Pairs with the exchange in clone_wanted; and comes before the look below. */
	do
		mp->schedlink = ld_rlx(&starter.wanted);
	while (!cas_sc(&starter.wanted, mp->schedlink, mp));
	notewakeup(&starter.note);
	if (ld_sc(&starter.none))
		clone_wanted();
}

FORKS void mthread_forked(void)
{
	st_rlx(&starter.accepts, 0);
	st_rlx(&starter.open, 0);
	st_rlx(&starter.handled, 0);
	st_rlx(&starter.refusals, 0);
	noteclear(&starter.note);
	noteclear(&begun);
	st_rlx(&starter.wanted, NULL);
	ended = NULL;
	st_rlx(&ended_lock.key, 0);
	st_rlx(&ended_lock.sleepers, 0);
}
