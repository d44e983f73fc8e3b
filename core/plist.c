/* Ps: who holds them, the idle list, the masks. Owns sched.pidle and npidle. */
#include "sched.h"

static void mask_set(ATOMIC(uint64_t) *mask, int32_t id)
{
	or_sc(&mask[id / 64], (uint64_t)1 << (id % 64));
}

static void mask_clear(ATOMIC(uint64_t) *mask, int32_t id)
{
	and_sc(&mask[id / 64], ~((uint64_t)1 << (id % 64)));
}

void acquirep(struct m *mp, struct p *pp)
{
	CHECK(GMP_P1, ld_rlx(&mp->p) == NULL && ld_rlx(&pp->m) == NULL);
	CHECK(WS_S3, ld_rlx(&pp->status) == PIDLE);
	st_rlx(&mp->p, pp);
	st_rlx(&pp->m, mp);
	st_rlx(&pp->status, PRUNNING);
}

struct p *releasep(struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);

	CHECK(GMP_P1, pp && ld_rlx(&pp->m) == mp && ld_rlx(&pp->status) == PRUNNING);
	st_rlx(&mp->p, NULL);
	st_rlx(&pp->m, NULL);
	st_rlx(&pp->status, PIDLE);
	mp->oldp = pp;
	return pp;
}

void wakesysmon(void)
{
	/* Of several, one: the flag goes down once. */
	if (xchg_sc(&sched.sysmonwait, 0) != 0)
		notewakeup(&sched.sysmonnote);
}

static bool any_in_call(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	for (int32_t i = 0; i < n; i++) {
		struct m *mp = ld_acq(&sched.allp[i]->m);
		struct g *gp = mp ? ld_acq(&mp->curg) : NULL;
		if (gp && ld_rlx(&gp->status) == GSYSCALL)
			return true;
	}
	return false;
}

void hurrysysmon(void)
{
	enum { HURRY_NS = 100 * 1000 };

	/* Advisory: who is missed waits for sysmon's next look. */
	if (nanotime() + HURRY_NS >= ld_sc(&sched.sysmonwake) || !any_in_call())
		return;
	st_rlx(&sched.sysmonhurry, true);
	notewakeup(&sched.sysmonnote);
}

void pidleput_locked(struct p *pp)
{
	CHECK(GMP_P2, ld_rlx(&pp->m) == NULL && runqempty(pp));
	if (ld_rlx(&pp->timers.first) == 0)
		mask_clear(sched.timerpmask, pp->id);
	st_rlx(&pp->status, PIDLE);
	pp->chainended = 0;
	mask_set(sched.idlepmask, pp->id);
	pp->link = sched.pidle;
	sched.pidle = pp;
	/* Sequentially consistent: pairs with the look at npidle in wakep. */
	add_sc(&sched.npidle, 1);
}

static void unidled(struct p *pp)
{
	mask_set(sched.timerpmask, pp->id);
	mask_clear(sched.idlepmask, pp->id);
	add_sc(&sched.npidle, -1);
	if (unlikely(ld_sc(&sched.sysmonwait)))
		wakesysmon();
}

struct p *pidleget_locked(void)
{
	struct p *pp = sched.pidle;

	if (!pp)
		return NULL;
	sched.pidle = pp->link;
	pp->link = NULL;
	unidled(pp);
	return pp;
}

bool pidletake_locked(struct p *pp)
{
	for (struct p **at = &sched.pidle; *at; at = &(*at)->link) {
		if (*at != pp)
			continue;
		*at = pp->link;
		pp->link = NULL;
		unidled(pp);
		return true;
	}
	return false;
}

struct p *pidlegetspinning_locked(void)
{
	struct p *pp = pidleget_locked();

	/* WS_I5: the M that is about to give up the P we could not get has looked already, and
	 * is no spinner, so it would not look again. Under the same lock, or in wakep's
	 * short cut, it sees this. */
	if (!pp)
		st_sc(&sched.needspinning, 1);
	return pp;
}
