/* Guests: see guest.h, and HACKING.md, "Preemption". Owns g.lentat to g.doubt. */
#include "guest.h"

#include "filters.h"
#include "preempt.h"
#include "sched.h"

enum {
	/* What is done between two calls in no more cpu time than that is little. */
	LIGHT_NS = 200 * 1000,
	/* Of the time of all Ps guests have one part in so many, */
	SHARE = 2,
	/* that much at once, and each pays for so much beside what it uses. */
	ATONCE_NS = 1000 * 1000,
	FEE_NS = 40 * 1000,
	/* So long a call is worth a hand-off, */
	LONG_NS = 20 * 1000,
	/* and so long one waits for a P only where others compute, or a guest among them before it
	 * is known that they do. */
	AMONG_HOGS_NS = 2500 * 1000,
	/* Who runs so long at once computes, too, though he waits by himself in the end. */
	BRIEF_NS = 1000 * 1000,
	/* Who is doubted so much is no guest, but once in a while. */
	DOUBTED = 4,
	FORGIVEN = 20,
	/* So many Ps are looked at, for a look may be two system calls. */
	LOOKS = 4,
	/* Who has that part of a call's time on a cpu does not wait there; who has that, little:
	 * others gain less by it than he loses where he waits for a P longer than the call took. */
	COMPUTES = 2,
	COMPUTES_SOME = 4,
};

/* nanotime up to which what guests have used is paid for by the time that others have. */
static ATOMIC(uint64_t) paid;

/* The cpu clock of an M; 0: it is not to be had. */
static uint64_t clock_of(const struct m *mp)
{
	uint64_t clock = 0;

	if (filters_look()) {
		clock = os_threadclock(ld_rlx(&mp->tid));
		filters_looked();
	}
	return clock;
}

/* A guest pays a fee when it comes, for many may come at once, and for the rest when it is known.
 */
static void pay(uint64_t ns, uint64_t now)
{
	uint64_t price = ns * SHARE / (uint64_t)ld_rlx(&sched.gomaxprocs), was, from;

	do {
		was = ld_rlx(&paid);
		from = was + ATONCE_NS < now ? now - ATONCE_NS : was;
	} while (!cas_rlx(&paid, was, from + price));
}

static bool welcome(const struct g *gp)
{
	return gp->doubt < DOUBTED;
}

static void doubt(struct g *gp, int more)
{
	int now = gp->doubt + more;

	gp->doubt = now < 0 ? 0 : now < FORGIVEN ? (uint8_t)now : DOUBTED - 1;
}

/* What it did since it came back is told by its kernel thread's clock, for it may have been in
 * other calls; but not if others ran there, too, as they did if it was stopped. */
static uint64_t used(struct g *gp, struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);
	uint64_t most = choose_slice(), now;

	if (gp->backp == NULL)
		return 0;
	if (ld_rlx(&gp->stoppedat) != gp->backstopped)
		return most;
	if (gp->backp != pp || gp->backswitches != ld_rlx(&pp->stats.switches))
		return 0;
	now = clock_of(mp);
	return now - gp->backcpu < most ? now - gp->backcpu : most;
}

void guest_lends(struct g *gp)
{
	uint64_t ns = used(gp, ld_rlx(&gp->m));

	gp->lentat = nanotime();
	gp->lentm = ld_rlx(&gp->m);
	gp->lentcpu = clock_of(gp->lentm);
	if (ns != 0)
		doubt(gp, ns <= LIGHT_NS ? -1 : 1);
	if (gp->guest)
		pay(ns, gp->lentat);
	gp->backp = NULL;
	gp->guest = false;
}

void guest_returns(struct g *gp)
{
	uint64_t now = 0;

	/* On another M the clock is another. */
	if (gp->lentat != 0 && gp->lentcpu != 0 && gp->lentm == ld_rlx(&gp->m))
		now = clock_of(gp->lentm);
	gp->lentused = now != 0 ? now - gp->lentcpu : 0;
	gp->lentcpu = 0;
	gp->returns = true;
	gp->endswitches = ld_rlx(&ld_rlx(&gp->m)->oldp->stats.switches);
}

/* Was gp's wait since its call ended one for those that compute? Not a brief one; nor if no slice
 * was ended meanwhile, and they ran but briefly on the P that it had. */
static bool among_hogs(const struct g *gp, const struct p *had, uint64_t ended, uint64_t waited)
{
	uint64_t ran;

	if (waited < AMONG_HOGS_NS)
		return false;
	ran = ld_rlx(&had->stats.switches) - gp->endswitches;
	return ld_rlx(&sched.stoppedat) >= ended || waited / (ran + 1) >= BRIEF_NS;
}

/* May the slice on pp be ended for a guest? Not one of a G that is likely to wait soon, as by
 * sysmon; nor of a wired one, which costs two hand-offs, but for one who is wired, too. */
static bool may_host(struct p *pp, bool wired)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;

	return gp && ld_rlx(&pp->status) == PRUNNING && ld_acq(&gp->status) == GRUNNING &&
	       (wired || !ld_rlx(&mp->lockedg)) && choose_computes(gp);
}

/* Does anybody compute, or did of late? Among others that all wait soon a guest would gain little,
 * and cost the wake-up by which it goes home. */
static bool any_host(uint64_t now, bool wired)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	if (ld_rlx(&sched.stoppedat) + 2 * choose_slice() > now)
		return true;
	for (int32_t i = 0; i < n; i++)
		if (may_host(sched.allp[i], wired))
			return true;
	return false;
}

/* Is gp, which comes back from a call, to go before others, at a fee? */
static bool goes_before(const struct g *gp)
{
	uint64_t now;

	if (!gp->returns || !welcome(gp) || !preempt_on || filters_there() || choose_policed() ||
	    choose_turned())
		return false;
	now = nanotime();
	if (ld_rlx(&paid) > now || !any_host(now, gp->lockedm != NULL))
		return false;
	pay(FEE_NS, now);
	return true;
}

bool guest_is(struct m *mp, struct g *gp)
{
	guest_none(gp);
	if (gp->lockedm || !goes_before(gp))
		return false;
	gp->guest = true;
	gp->home = mp;
	return true;
}

bool guest_wired(const struct g *gp)
{
	return gp->lockedm && goes_before(gp);
}

/* Not if the call came back at once; nor if the G waited for a P longer than the call took among
 * others that compute: it gains nothing by what they do meanwhile. But a guest hardly ever waits so
 * long. (Who waits behind many that lend their Ps, too, does gain: else each would keep its own
 * until sysmon comes.) How long a call took whose P sysmon took nobody knows, nor what was done
 * before it: how good a guest one is shows where it lends. */
bool guest_back(struct g *gp, const struct p *had, uint64_t ended)
{
	struct m *mp = ld_rlx(&gp->m);
	uint64_t waited = nanotime() - ended;
	uint64_t took = gp->lentat != 0 ? ended - gp->lentat : LONG_NS;
	bool soon = !among_hogs(gp, had, ended, waited);
	bool guest = welcome(gp);
	/* As a copy of much out of the page cache does: others would only have had that cpu. */
	bool computed = gp->lentused >= took / COMPUTES ||
			(gp->lentused >= took / COMPUTES_SOME && waited > took);

	doubt(gp, gp->lentat == 0 ? 1 : soon ? 0 : 2);
	gp->lentat = 0;
	gp->returns = false;
	gp->home = NULL;
	/* It was a wait: whoever does little else does not compute. */
	if (took >= LONG_NS)
		st_rlx(&gp->waitsince, ld_rlx(&sched.now));
	/* Where no P was to be waited for it is not worth a system call. */
	if ((gp->guest || waited >= LONG_NS) && (gp->backcpu = clock_of(mp)) != 0) {
		gp->backp = ld_rlx(&mp->p);
		gp->backswitches = ld_rlx(&gp->backp->stats.switches);
		gp->backstopped = ld_rlx(&gp->stoppedat);
	}
	return took >= LONG_NS && !computed && (soon || waited <= took || guest);
}

/* One that is not may be asleep, and a signal would break its call. */
static bool on_cpu(const struct m *mp)
{
	uint64_t clock = clock_of(mp);

	return clock != 0 && clock_of(mp) != clock;
}

/* True: pp lets one in. *refused: it may, by who can tell that its M does not sleep. */
static bool host(struct p *pp, int *looks, bool *refused)
{
	uint32_t tick = ld_rlx(&pp->schedtick);
	struct m *mp;

	if (!may_host(pp, false) || ld_rlx(&pp->urgent) != 0)
		return false;
	mp = ld_acq(&pp->m);
	--*looks;
	if (!mp || !on_cpu(mp)) {
		*refused = true;
		return false;
	}
	/* Who asked it first may be sysmon. */
	if (!cas_rlx(&pp->urgent, 0, 1))
		return false;
	add_rlx(&sched.nopstats.guests, 1);
	preemptslice(pp, tick);
	return true;
}

void guest_asks(const struct m *mp)
{
	int32_t n = ld_acq(&sched.gomaxprocs), first = mp->oldp ? mp->oldp->id : 0;
	bool refused = false;
	int looks = LOOKS;

	for (int32_t i = 0; i < n && looks > 0 && ld_rlx(&sched.early) > 0; i++)
		if (host(sched.allp[(first + i) % n], &looks, &refused)) {
			refused = false;
			break;
		}
	sysmon_serves(refused);
}

bool guest_goes(struct m *mp, struct g *gp)
{
	struct m *home = gp->home;
	bool idle;

	gp->home = NULL;
	if (home == mp)
		return false;
	lock(&sched.lock);
	idle = mtake_locked(home);
	unlock(&sched.lock);
	if (!idle)
		return false;
	home->pendingg = gp;
	home->owes = mp->owes;
	mp->owes = false;
	home->nextp = releasep(mp);
	notewakeup(&home->park);
	stopm(mp);
	return true;
}
