/* WS_F2. Taking the cpu from a G that does not give it: signal 32 to an M that burns cpu, and
 * the handler that carries the G away. Owns the deny list and the pool of frame buffers.
 *
 * The handler runs on the M's signal stack. It acts only if it wins the G's status word
 * from GRUNNING (or GOFFP), as every entry into the core does; so it never stops a G
 * inside the core. It copies the signal frame into a buffer of the core's, which becomes
 * the G's context, and lets its own return land in g0. When the G runs again it does so
 * on the buffer's small stack, in comeback(), which ends the copied frame. */
#include "preempt.h"

#include "core.h"

#include "early.h"
#include "san.h"
#include "sched.h"
#include "sigleft.h"
#include "sigsave.h"
#include "syscall.h"
#include "trace.h"
#include "vdso.h"

enum {
	SA_FLAGS = 0x4 | 0x08000000 | 0x10000000 |
		   0x04000000, /* SIGINFO ONSTACK RESTART RESTORER */
	MAX_RANGES = 32,
	SIG_STACK = 64 * 1024,
	POOL_SLAB = 8,
	PUTOFF_NS = 1000 * 1000,
};

struct range {
	uintptr_t lo, hi;
	enum denial how;
};

static struct range ranges[MAX_RANGES];
static ATOMIC(int32_t) nranges;
bool preempt_on;
/* Ms have signal stacks; the embedder's handlers come by them, too. */
static const bool stacked = SAN_ASYNC_PREEMPT;

static struct mutex pool_lock = MUTEX_INIT(RANK_LEAF);
FORKED static struct sigsave *pool;
/* Of the newest slab, those that were never taken: their pages are not asked for. */
static char *fresh;
FORKED static int nfresh;

bool preempt_deny(uintptr_t lo, uintptr_t hi, enum denial how)
{
	int32_t n = ld_rlx(&nranges);

	if (n == MAX_RANGES)
		return false;
	ranges[n].lo = lo;
	ranges[n].hi = hi;
	ranges[n].how = how;
	/* Release: the handler sees a whole range. */
	st_rel(&nranges, n + 1);
	return true;
}

struct sigsave *sigsave_new(void)
{
	struct sigsave *save;
	size_t size = arch_sigframe_size();

	lock(&pool_lock);
	save = pool;
	if (save) {
		pool = save->next;
	} else {
		if (nfresh == 0) {
			fresh = os_reserve(size * POOL_SLAB);
			nfresh = os_failed(fresh) ? 0 : POOL_SLAB;
		}
		if (nfresh > 0) {
			save = (struct sigsave *)(fresh + (size_t)--nfresh * size);
			save->size = size;
		}
	}
	unlock(&pool_lock);
	return save;
}

void sigsave_free(struct sigsave *save)
{
	if (!save)
		return;
	lock(&pool_lock);
	save->next = pool;
	pool = save;
	unlock(&pool_lock);
}

/* On the buffer's own stack, pinned, on whatever M runs the G now. */
static void comeback(void *arg)
{
	struct sigsave *save = arg;
	struct g *gp = save->gp;
	struct m *mp = ld_rlx(&gp->m);

	finish_switch(mp);
	gp->frame = NULL;
	/* Noticed or not: what was sent to it may have stayed with the M that it was carried from,
	 * for the kernel delivers signal 32 before those of higher numbers. What is sent again here
	 * stays pending, with all signals blocked, until the frame's mask lets it in. */
	st_rlx(&gp->sigdue, true);
	if (takes_notice(gp) && sigdue((const void *)save->uc))
		arch_sigdivert((void *)save->uc, divert);
	arch_sigrebind((void *)save->uc, mp->sigstack, SIG_STACK);
	/* All signals are blocked (switch_to) until the frame is gone. */
	st_rlx(&mp->sigmask, arch_sigmaskof((const void *)save->uc));
	/* The buffer must stay ours until the kernel has read it. As this M's spare it does:
	 * the next preemption here finds GPINNED, then arch_sigreturn's addresses, until the
	 * frame is gone. The old spare is nobody's. */
	sigsave_free(mp->spareframe);
	mp->spareframe = save;
	/* The store of GRUNNING there is the release of unpin(). */
	arch_sigreturn(save->uc, &gp->status);
}

static const struct range *range_at(uintptr_t pc)
{
	static const struct range own = { 0, 0, DENY_ALWAYS };
	int32_t n = ld_acq(&nranges);

	if (pc >= (uintptr_t)arch_sigreturn && pc < (uintptr_t)arch_sigreturn_end)
		return &own;
	for (int32_t i = 0; i < n; i++)
		if (pc >= ranges[i].lo && pc < ranges[i].hi)
			return &ranges[i];
	return NULL;
}

/* May the G be stopped with its program counter there? */
static bool denied(struct m *mp, const struct g *gp, const void *uc)
{
	const struct range *range = range_at(arch_sigpc(uc));

	if (!range)
		return false;
	if (range->how == DENY_ALWAYS)
		return true;
	if (range->how == DENY_HELD)
		return ld_rlx(&gp->held);
	/* Whoever makes calls all the time is hardly ever found elsewhere. */
	if (range->how == DENY_BUT_CALLS)
		return !arch_sigaftercall(uc);
	/* It may hold a lock of that library's: a moment later, but not for ever. */
	if (mp->putofftick != mp->preempttick) {
		mp->putofftick = mp->preempttick;
		mp->putoffsince = nanotime();
	}
	return nanotime() - mp->putoffsince < PUTOFF_NS;
}

/* Does sysmon want this slice of gp's over? */
static bool wanted_over(struct m *mp, struct g *gp, const void *uc)
{
	uint32_t tick = ld_rlx(&mp->p->schedtick) + 1;

	if (ld_rlx(&mp->looktick) == tick) {
		st_rlx(&mp->looktick, 0);
		if (spin_seen(mp, gp, uc, range_at(arch_sigpc(uc)) != NULL)) {
			count(mp->p, spins);
			return true;
		}
	}
	return ld_rlx(&mp->preempttick) == tick;
}

/* gnotify_now. In an announced call the G is alone with its status, and divert ends the call. */
static void notice(struct g *gp, void *uc)
{
	if (takes_notice(gp) && sigdue(uc))
		arch_sigdivert(uc, divert);
}

static void handler(int sig, void *info, void *uc)
{
	struct g *gp = getg();
	struct m *mp;
	struct sigsave *save;
	uint32_t status = GRUNNING;

	(void)sig;
	(void)info;
	if (choose_policed() && own_abort(uc))
		return;
	if (!gp || on_g0(gp)) {
		if (gp) {
			st_rlx(&gp->m->preemptmissed, true);
			idle_shuts(gp->m, uc);
		}
		return;
	}
	if (unlikely(ld_rlx(&gp->sigdue)) && core_sigplace() != SIGPLACE_CORE)
		notice(gp, uc);
	/* As pin(). */
	if (!cas_acq(&gp->status, GRUNNING, GPINNED)) {
		status = GOFFP;
		if (!cas_acq(&gp->status, GOFFP, GPINNED)) {
			mp = ld_rlx(&gp->m);
			if (mp)
				st_rlx(&mp->preemptmissed, true);
			return;
		}
	}
	/* A handler that is due would have ended the wait. */
	if (likely(!ld_rlx(&gp->sigdue)))
		arch_sigredo(uc);
	mp = ld_rlx(&gp->m);
	save = mp->spareframe;
	if (status == GRUNNING && !wanted_over(mp, gp, uc))
		goto not_now;
	/* A handler of the program's that stands on this M's signal stack cannot leave it. */
	if (arch_sigsp(uc) - (uintptr_t)mp->sigstack < SIG_STACK)
		goto not_now;
	if (!save || denied(mp, gp, uc) || !arch_sigsave(save, uc, &gp->sched, comeback)) {
		if (status == GRUNNING)
			count(mp->p, preemptputoff);
		goto not_now;
	}
	/* It may be on its way out of such a call, and know nothing yet. */
	sigs_take(gp, arch_sigmaskof(uc), ~(uint64_t)0);
	save->gp = gp;
	gp->frame = save;
	mp->spareframe = NULL;
	if (status == GRUNNING)
		slice_ended(mp->p, gp);
	trace_stop(mp, gp, POST_PREEMPT);
	st_rlx(&gp->status, GPREEMPTED);
	/* A handler of the program's may have been running: then this is not gp->sigmask. */
	st_rlx(&mp->sigmask, arch_sigmaskof(uc));
	mp->post.kind = POST_PREEMPT;
	mp->post.g = gp;
	st_rlx(&mp->curg, NULL);
	arch_sigredirect(uc, &mp->g0.sched);
	/* The bases of FS and GS are not in the frame. No call may follow: this is the G's. */
	mp->fs = mp->g0.fsbase;
	arch_setfs(mp->fs);
	gp->gsbase = arch_getgs();
	setg(&mp->g0);
	idle_shuts(mp, uc);
	return;
not_now:
	st_rel(&gp->status, status);
}

enum sigplace core_sigplace(void)
{
	struct g *gp = getg();

	if (!gp)
		return SIGPLACE_PROGRAM;
	if (on_g0(gp))
		return SIGPLACE_CORE;
	switch (ld_acq(&gp->status) & ~(uint32_t)GCLAIM) {
	case GRUNNING:
	case GOFFP:
		return ld_rlx(&gp->held) ? SIGPLACE_CORE : SIGPLACE_PROGRAM;
	case GSYSCALL:
	case GSYSCALLNOP:
		return SIGPLACE_CALL;
	default:
		return SIGPLACE_CORE;
	}
}

struct g *core_sigfault(void)
{
	struct g *gp = getg();

	if (on_g0(gp))
		return NULL;
	/* Who signals it marks it, and does not wait for it to park: it may be about to. */
	st_rlx(&gp->held, true);
	setg(NULL);
	return gp;
}

void core_sigfaulted(struct g *gp)
{
	setg(gp);
	st_rlx(&gp->held, false);
	/* Signal 32 may have come, for a G that it could not find. */
	st_rlx(&ld_rlx(&gp->m)->preemptmissed, true);
}

bool core_sigmove(int sig, const void *info, void *uc, uintptr_t alt, size_t size,
		  void (*fn)(int, void *, void *))
{
	struct g *gp = getg();
	struct m *mp = gp ? ld_rlx(&gp->m) : NULL;

	return mp && (uintptr_t)uc - (uintptr_t)mp->sigstack < SIG_STACK &&
	       arch_sigmove(sig, info, uc, alt, size, fn);
}

bool core_sigrefused(void *uc)
{
	if (core_sigplace() != SIGPLACE_CORE && arch_sigpc(uc) != (uintptr_t)arch_owncall_made)
		return false;
	arch_sigrefused(uc);
	return true;
}

bool core_sigcall(const void *uc)
{
	return arch_sigcall(uc);
}

bool core_sigcallout(void *uc, long nr)
{
	return arch_sigcallout(uc, nr);
}

uintptr_t core_sigpc(const void *uc)
{
	return arch_sigpc(uc);
}

bool core_sigfutex(const void *uc, uintptr_t *addr, int *op)
{
	return arch_sigfutex(uc, addr, op);
}

int preempt_init(bool wanted)
{
	struct {
		void (*handler)(int, void *, void *);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} act = { handler, SA_FLAGS, arch_sigrestorer, ~(uint64_t)0 };

	uintptr_t lo, hi;

	preempt_on = wanted && SAN_ASYNC_PREEMPT;
	if (!preempt_on)
		return 0;
	/* A reader of the kernel's clock page may be between two looks at its count. */
	if (vdso_text(&lo, &hi))
		preempt_deny(lo, hi, DENY_AWHILE);
	return (int)arch_syscall4(__NR_rt_sigaction, SIG_PREEMPT, (long)&act, 0, sizeof(act.mask));
}

struct sigstack {
	void *sp;
	int flags;
	size_t size;
};

void preempt_minit(struct m *mp)
{
	struct sigstack stack = { mp->sigstack, 0, SIG_STACK };

	if (stacked)
		arch_syscall3(__NR_sigaltstack, (long)&stack, 0, 0);
}

void preempt_rebind(struct m *mp, void *uc)
{
	if (stacked)
		arch_sigrebind(uc, mp->sigstack, SIG_STACK);
}

void preempt_undo(void)
{
	enum { SS_DISABLE_ = 2 };
	struct sigstack none = { NULL, SS_DISABLE_, 0 };
	uint64_t act[4] = { 0, 0, 0, 0 };

	if (stacked)
		arch_syscall3(__NR_sigaltstack, (long)&none, 0, 0);
	if (!preempt_on)
		return;
	arch_syscall4(__NR_rt_sigaction, SIG_PREEMPT, (long)act, 0, sizeof(act[3]));
	st_rlx(&nranges, 0);
}

FORKS void preempt_forked(void)
{
	st_rlx(&nranges, 0);
	pool = NULL;
	nfresh = 0;
	st_rlx(&pool_lock.key, 0);
	st_rlx(&pool_lock.sleepers, 0);
}
