/* Sending signal 32: to end a slice, to look at a G, to call one out of the kernel; and that it
 * comes in no call but those that it is to end. Owns m.sending and m.settled. */
#include "preempt.h"

#include "core.h"

#include "sched.h"

/* m.sending: how many are at it, and above that how many were sent. */
enum { SENT = 1 << 16 };

static bool in_call(struct m *mp)
{
	struct g *gp = ld_sc(&mp->curg);
	uint32_t status = gp ? ld_sc(&gp->status) & ~(uint32_t)GCLAIM : GIDLE;

	return status == GSYSCALL || status == GSYSCALLNOP;
}

/* None goes to an M whose G is about to become another program: what is pending then would end
 * that program, which has no handler; nor, unless it is to end one, to an M in an announced call:
 * semop, say, would fail for it, and a receive of many bytes be over with a few. Nobody waits for
 * that to be over, for its G may have to wait for a P until somebody else is made to give way. Of
 * the two words each side writes one and reads the other, sequentially consistent, so one of the
 * two sees the other: for the call they are `sending` and the G's status. */
static bool nudge(struct m *mp, bool calls)
{
	bool sent;

	add_sc(&mp->sending, 1);
	/* Without a signal the M gives way when it next enters the core. */
	sent = !ld_sc(&mp->becoming) && (calls || !in_call(mp));
	if (sent) {
		add_sc(&mp->sending, SENT);
		sent = os_tgkill(ld_rlx(&mp->tid), SIG_PREEMPT);
	}
	if (!sent)
		st_rlx(&mp->preemptmissed, true);
	sub_sc(&mp->sending, 1);
	return sent;
}

/* Until nobody is at sending to mp: what m.sending is then. */
static uint32_t await_senders(struct m *mp)
{
	enum { LOOK_EVERY = 2000 };
	uint32_t n;

	for (int i = 0; (n = ld_sc(&mp->sending)) % SENT != 0; i++) {
		/* The child of a fork has the count, and not those who are counted. */
		if (i % LOOK_EVERY == LOOK_EVERY - 1 && os_gettid() != ld_rlx(&mp->tid))
			break;
		claim_pause(i, &mp->sending, n);
	}
	return n;
}

/* A handler of the program's may take the G to another M meanwhile. What is settled here is then of
 * the first, and no more than was sent there. */
void preempt_settle(struct m *mp)
{
	uint32_t n = await_senders(mp);

	/* What is pending is delivered on the way out of a call. */
	os_gettid();
	st_rlx(&mp->settled, n);
}

void preempt_hold(void)
{
	struct m *mp = ld_rlx(&getg()->m);

	DCHECK(GMP_G2, core_sigplace() == SIGPLACE_CALL);
	st_sc(&mp->becoming, true);
	(void)await_senders(mp);
	/* What is pending is delivered on the way out of a call. */
	os_gettid();
}

void preempt_release(void)
{
	st_rlx(&ld_rlx(&getg()->m)->becoming, false);
}

bool preemptslice(struct p *pp, uint32_t tick)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;
	uint32_t status = gp ? ld_acq(&gp->status) : GIDLE;

	if (status != GRUNNING && status != GPINNED && status != GSYSCALL)
		return false;
	st_rlx(&mp->preempttick, tick + 1);
	if (!preempt_on || status == GSYSCALL) {
		/* Its next way through the core will do; no signal may end its call. */
		st_rlx(&mp->preemptmissed, true);
		return true;
	}
	(void)nudge(mp, false);
	return true;
}

bool preemptone(struct p *pp)
{
	return preemptslice(pp, ld_rlx(&pp->schedtick));
}

bool preemptlook(struct p *pp)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;

	if (!preempt_on || !gp || ld_acq(&gp->status) != GRUNNING)
		return false;
	st_rlx(&mp->looktick, ld_rlx(&pp->schedtick) + 1);
	(void)nudge(mp, false);
	return true;
}

bool gnotify_now(struct g *gp)
{
	struct g *self = getg();
	uint64_t mask = 0;
	struct m *mp;

	gnotify(gp);
	mp = m_of(gp);
	/* If it went elsewhere since, it has looked there. */
	if (preempt_on && mp) {
		/* Else it might be stopped in the midst of it, or run a handler there. */
		if (!self)
			mask = os_sigmask(~(uint64_t)0);
		enter(self);
		(void)nudge(mp, true);
		outof(self);
		if (!self)
			os_sigmask(mask);
	}
	return preempt_on || !mp;
}

/* gnotify_now, for sysmon, of a G that it saw on mp. The look whether it is pursued still comes
 * when gescaped would wait for the signal: it: pursued = false        we: sending + 1 is somebody
 * sending?       is it pursued? */
void preempt_callout(struct m *mp, struct g *gp)
{
	gnotify(gp);
	if (!preempt_on)
		return;
	add_sc(&mp->sending, 1);
	/* On another M it is in another call. */
	if (ld_sc(&mp->becoming) || !ld_sc(&gp->pursued) || ld_rlx(&gp->m) != mp) {
		st_rlx(&mp->preemptmissed, true);
	} else {
		st_sc(&mp->called, true);
		os_tgkill(ld_rlx(&mp->tid), SIG_PREEMPT);
	}
	sub_sc(&mp->sending, 1);
}

void gescaped(void)
{
	struct g *gp = getg();
	struct m *mp = ld_rlx(&gp->m);

	gpursued(gp);
	(void)await_senders(mp);
	if (likely(!ld_sc(&mp->called)))
		return;
	st_rlx(&mp->called, false);
	/* What is pending is delivered on the way out of a call. */
	os_gettid();
}

/* One that runs without a P: it must win one, or queue. */
void preemptoffp(struct m *mp)
{
	if (preempt_on)
		(void)nudge(mp, false);
}

bool preempt_idle(struct m *mp)
{
	return preempt_on && nudge(mp, false);
}
