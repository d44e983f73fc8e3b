/* Taking Ps from Ms that block: from an announced call, from a block that nobody announced; and
 * what becomes of those that come back without a P. All of it is sysmon's but for the first two
 * functions, which stop-the-world uses too. The claim is told in HACKING.md.
 *
 * Owns the soft limit on kernel threads (HEDDLE_MAXTHREADS): where a hand-off would need one more,
 * the P waits with the M that blocks, as long as something else can run. */
#include "courtesy.h"
#include "cputime.h"
#include "policies/turns.h"
#include "report.h"
#include "sched.h"
#include "trace.h"

enum {
	/* Before an M that shows no progress is asked after. */
	BLOCK_NS = 5 * 1000 * 1000,
	BLOCK_BUSY_NS = 1000 * 1000,
	/* And that, for so long after one that did block. */
	BLOCK_AGAIN_NS = 100 * 1000,
	AGAIN_NS = 10 * 1000 * 1000,
	/* From one look to the next, then. */
	BLOCK_SOON_NS = 25 * 1000,
	/* Where the order is to be the seed's. */
	PATIENCE_NS = 1000 * 1000 * 1000,
	/* So little cpu time since the last look is none. */
	OFFP_CPU_NS = 20 * 1000,
	/* Less than that part of so long a time is not computing, but waking now and then. */
	OFFP_BURNS_NS = 1000 * 1000,
	OFFP_PART = 8,
	/* From the first look at its clock to the next. */
	BLOCK_LOOK_NS = 50 * 1000,
	BESIDE_FEW_NS = 1000 * 1000,
	/* From one request that a slice end to the next, or this part of what it is over. */
	ASK_AGAIN_NS = 100 * 1000,
	ASK_MOST_NS = 100 * 1000 * 1000,
	ASK_PART = 32,
	/* That long work waits with no P that could run it, before the limit gives way. */
	STUCK_NS = 100 * 1000 * 1000,
};

/* When one that blocked unannounced was last found; in how many ns the next look is due, if that is
 * soon. Sysmon's. */
static uint64_t lastblock, soon;

static void come_by(uint64_t ns)
{
	if (ns < soon)
		soon = ns;
}

/* Takes pp from the M that runs a G of that status on it. HACKING.md, "The claim": the
 * status word first, then a second look, then the P. */
static bool retake(struct p *pp, uint32_t from, uint32_t to)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;

	/* Acquire: pairs with the release by which the G left the core: its P is as it was
	 * left. From here on the G cannot enter the core, nor end its call. */
	if (!gp || !cas_acq(&gp->status, from, from | GCLAIM))
		return false;
	/* The three loads above were not one moment: the G may have moved. */
	if (ld_rlx(&gp->m) != mp || ld_rlx(&mp->curg) != gp || ld_rlx(&mp->p) != pp) {
		st_rel(&gp->status, from);
		return false;
	}
	mp->oldp = pp;
	st_rlx(&mp->p, NULL);
	st_rlx(&pp->m, NULL);
	st_rlx(&pp->status, PIDLE);
	trace_taken(gp, from == GSYSCALL);
	/* Release: the G, when it finds this, finds its M without a P. */
	st_rel(&gp->status, to);
	/* Before anybody has the P. */
	if (choose_turned())
		turns_left(gp, TURN_CALL);
	return true;
}

/* GMP_P3: from here on, and not before, the P of a call is somebody else's. */
bool retakesyscall(struct p *pp)
{
	if (!retake(pp, GSYSCALL, GSYSCALLNOP))
		return false;
	count(pp, retakecall);
	handoffp(pp);
	return true;
}

/* GMP_M5 */
bool retakeblocked(struct p *pp)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;

	if (!gp || ld_acq(&gp->status) != GRUNNING || !os_threadasleep(ld_rlx(&mp->tid)))
		return false;
	if (!retake(pp, GRUNNING, GOFFP))
		return false;
	count(pp, retakeblock);
	handoffp(pp);
	return true;
}

/* ---- the soft limit ---- */

/* Of this round: Ps left to Ms that block, and those that run some unlocked G. */
static int spared, running;

static bool full(void)
{
	bool r;

	if (likely(ld_rlx(&sched.softmcount) == 0))
		return false;
	lock(&sched.lock);
	r = !sched.midle && sched.mcount >= ld_rlx(&sched.softmcount);
	unlock(&sched.lock);
	return r;
}

static bool spare(void)
{
	if (!full())
		return false;
	spared++;
	return true;
}

bool spare_blocked(struct p *pp)
{
	struct m *mp = ld_acq(&pp->m);

	return full() && mp && os_threadasleep(ld_rlx(&mp->tid)) && spare();
}

/* Gives way by one when work has waited for long and no P runs. */
static void relax_limit(uint64_t now, bool waits)
{
	static uint64_t since;

	if (ld_rlx(&sched.softmcount) == 0)
		return;
	if (!waits || !full() || running > 0) {
		since = 0;
	} else if (since == 0) {
		since = now;
	} else if (now - since >= STUCK_NS) {
		since = 0;
		lock(&sched.lock);
		st_rlx(&sched.softmcount, sched.mcount + 1);
		st_rlx(&sched.full, false);
		unlock(&sched.lock);
		report_limit(ld_rlx(&sched.softmcount));
	}
}

/* ---- what sysmon sees of each P ---- */

/* True if somebody waits for a P. */
static bool work_waits(struct p *pp)
{
	return !runqempty(pp) || ld_rlx(&sched.runqsize) > 0;
}

/* How long pp's slice has lasted, as far as sysmon has seen: 0 for one seen first now. That is
 * since the clock was read after the slice was seen: whoever is kept from the cpu between the two
 * takes it for younger, never for older. */
static uint64_t slice_age(struct p *pp, struct m *mp, uint64_t now)
{
	struct sysmontick *mon = &pp->mon;
	uint32_t tick = ld_rlx(&pp->schedtick);

	if (mon->m == mp && mon->schedtick == tick)
		return now - mon->schedwhen;
	mon->schedtick = tick;
	mon->schedwhen = nanotime();
	mon->cpuwhen = 0;
	mon->looktick = 0;
	mon->slicecpu = 0;
	mon->askdue = 0;
	return 0;
}

/* How long gp's slices on pp are just now: short ones beside none but those that hardly ever run,
 * for whom the kernel would stop it as they are woken. */
static uint64_t slice_of(const struct p *pp, const struct g *gp)
{
	uint64_t whole = choose_sliceof(gp);

	return whole > BESIDE_FEW_NS && choose_computes(gp) && ld_rlx(&sched.runqsize) == 0 &&
			       courtesy_short(pp)
		       ? BESIDE_FEW_NS
		       : whole;
}

/* Is that slice, of that age, over? */
static bool slice_over(struct p *pp, struct m *mp, struct g *gp, uint64_t age)
{
	struct sysmontick *mon = &pp->mon;
	uint64_t cpu;

	if (age < slice_of(pp, gp))
		return false;
	if (likely(!sched.patient))
		return true;
	cpu = os_threadclock(ld_rlx(&mp->tid));
	if (mon->slicecpu == 0)
		mon->slicecpu = cpu;
	return cpu - mon->slicecpu >= choose_sliceof(gp);
}

/* Has the M of that call had a cpu since the last look? Whoever had its P then would only take that
 * from it, and it would have to wait for one when it is done: as much as a slice each call gets. */
static bool computes_there(struct sysmontick *mon, struct m *mp, uint64_t now)
{
	uint64_t before = mon->callcpu, wall = now - mon->callwhen;
	uint64_t cpu = os_threadclock(ld_rlx(&mp->tid));

	mon->callcpu = cpu;
	mon->callwhen = now;
	/* Of what it did so long ago nothing follows. */
	if (wall > BLOCK_BUSY_NS && before != 0) {
		come_by(BLOCK_LOOK_NS);
		return true;
	}
	return before != 0 && cpu - before >= wall / 8;
}

/* An announced call that pp's M was in already at the last look; or one of many short ones,
 * at the end of a slice. */
static bool check_syscall(struct p *pp, struct m *mp, struct g *gp, uint64_t now)
{
	struct sysmontick *mon = &pp->mon;
	uint32_t tick = ld_rlx(&mp->syscalltick);
	/* It gives way at the end of the call, unless that lasts: then sysmon is to find it soon.
	 */
	bool over = slice_over(pp, mp, gp, slice_age(pp, mp, now)) && work_waits(pp) &&
		    preemptslice(pp, mon->schedtick);

	if (mon->m != mp || mon->syscalltick != tick) {
		mon->syscalltick = tick;
		mon->callwhen = mon->syscallwhen = nanotime();
		mon->callcpu = os_threadclock(ld_rlx(&mp->tid));
		return over;
	}
	/* The order is the seed's, as long as calls end. */
	if (unlikely(sched.patient) &&
	    (mon->syscallwhen + choose_sliceof(gp) > now || !os_threadasleep(ld_rlx(&mp->tid))))
		return false;
	/* Nobody would gain: unless it lasts, for then sysmon can sleep. */
	if (runqempty(pp) && ld_rlx(&sched.runqsize) == 0 &&
	    ld_rlx(&sched.nmspinning) + ld_rlx(&sched.npidle) > 0 &&
	    mon->syscallwhen + choose_slice() > now)
		return false;
	/* Or it waits for one, which other processes have. */
	if (mon->syscallwhen + choose_slice() > now &&
	    (computes_there(mon, mp, now) || !os_threadasleep(ld_rlx(&mp->tid)))) {
		come_by(now - mon->syscallwhen);
		return false;
	}
	return !spare() && retakesyscall(pp);
}

/* How old a slice is before its M is asked after. A program that blocks behind our back does so
 * again and again, as each barrier of an OpenMP team does. */
static uint64_t block_age(bool waits, uint64_t now)
{
	if (!waits)
		return BLOCK_NS;
	return now - lastblock < AGAIN_NS ? BLOCK_AGAIN_NS : BLOCK_BUSY_NS;
}

/* The request may find the G where it must not be stopped, and one that does little else than call
 * us is found there nine times of ten: so it is asked again, ever less often, for under a tracer a
 * signal may take longer than the time to the next, and it would never get any further. */
static void ask(struct p *pp, struct g *gp, uint64_t age)
{
	struct sysmontick *mon = &pp->mon;

	if (age >= mon->askdue) {
		uint64_t slice = slice_of(pp, gp),
			 pause = age > slice ? (age - slice) / ASK_PART : 0;
		preemptslice(pp, mon->schedtick);
		mon->askdue = age + (pause < ASK_AGAIN_NS  ? ASK_AGAIN_NS
				     : pause < ASK_MOST_NS ? pause
							   : ASK_MOST_NS);
	}
	come_by(mon->askdue - age);
}

/* A slice that has lasted: is its M burning cpu, or asleep in the kernel? */
static bool check_running(struct p *pp, struct m *mp, struct g *gp, uint64_t now)
{
	struct sysmontick *mon = &pp->mon;
	uint64_t age = slice_age(pp, mp, now);
	bool waits = work_waits(pp);
	uint64_t look;

	if (unlikely(ld_rlx(&sched.gcwaiting))) {
		/* In this order: a signal would break the call of one that sleeps. */
		if (!retakeblocked(pp))
			preemptone(pp);
		return true;
	}
	if (waits && !sched.patient && (look = spin_check(pp, mp, gp, age, now)) != 0)
		come_by(look);
	if (age < block_age(waits, now)) {
		if (waits)
			come_by(block_age(waits, now) - age);
		return false;
	}
	/* Less than a tenth of the time since the last look spent on a cpu: it sleeps, or
	 * other processes keep it waiting; the kernel knows which. */
	uint64_t cpu = os_threadclock(ld_rlx(&mp->tid));
	uint64_t wall = now - mon->cpuwhen;
	bool first = mon->cpuwhen == 0;
	bool idle = !first && cpu - mon->cputime < wall / 10;
	if (mon->cpuwhen == 0 || wall > BLOCK_BUSY_NS / 2) {
		mon->cpuwhen = now;
		mon->cputime = cpu;
	}
	if (waits && now - lastblock < AGAIN_NS)
		come_by(BLOCK_SOON_NS);
	if (first) {
		if (waits)
			come_by(BLOCK_LOOK_NS);
		return false;
	}
	/* It may be a creation of a thread, on a machine that is busy. */
	if (idle && unlikely(sched.patient) &&
	    (age < PATIENCE_NS || (choose_turned() && turns_keeps())))
		return false;
	if (idle && (waits || age > choose_slice())) {
		/* Once in a round: relax_limit counts them. */
		if (spare_blocked(pp))
			return false;
		if (retakeblocked(pp)) {
			lastblock = now;
			return true;
		}
	}
	/* Other processes may leave it no more than that tenth for ever. */
	if (!waits || !slice_over(pp, mp, gp, age))
		return false;
	/* It burnt cpu since the last look, but may sleep by now. */
	if (spare_blocked(pp))
		return false;
	if (retakeblocked(pp))
		return true;
	ask(pp, gp, age);
	return false;
}

int retakeall(uint64_t now, bool *waits, uint64_t *next)
{
	int32_t n = ld_acq(&sched.gomaxprocs);
	bool looks = courtesy_due(now);
	int taken = 0, before;

	*waits = ld_rlx(&sched.runqsize) > 0;
	spared = running = 0;
	soon = UINT64_MAX;
	for (int32_t i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		struct m *mp = ld_acq(&pp->m);
		struct g *gp = mp ? ld_acq(&mp->curg) : NULL;
		uint32_t status = gp ? ld_acq(&gp->status) : GIDLE;

		if (ld_rlx(&pp->status) != PRUNNING || !mp)
			continue;
		*waits = *waits || work_waits(pp);
		before = spared;
		if (gp)
			cputime_looked(mp, gp, now);
		if (looks && (status == GRUNNING || status == GPINNED))
			courtesy_look(pp, gp);
		if (status == GSYSCALL)
			taken += check_syscall(pp, mp, gp, now);
		else if (status == GRUNNING || status == GPINNED)
			taken += check_running(pp, mp, gp, now);
		running += spared == before && !ld_rlx(&mp->lockedg);
		pp->mon.m = mp;
	}
	relax_limit(now, *waits);
	*next = soon;
	return taken;
}

/* Has it computed since a look some time ago? One that does little between waits of which we do not
 * know is in the next when a signal comes, which would end it with EINTR. */
static bool burns_offp(struct m *mp, uint64_t cpu, uint64_t now)
{
	uint64_t wall = now - mp->offpwhen, used = cpu - mp->offpfrom;

	if (wall < OFFP_BURNS_NS)
		return false;
	mp->offpwhen = now;
	mp->offpfrom = cpu;
	return used >= wall / OFFP_PART;
}

bool check_offp(void)
{
	uint64_t now = 0;
	bool any = false;

	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink) {
		struct g *gp = ld_acq(&mp->curg);
		struct p *pp;
		uint64_t cpu, used;
		bool burns;

		if (!gp || ld_acq(&gp->status) != GOFFP) {
			if (mp->offpwhen != 0)
				mp->offpwhen = 0;
			continue;
		}
		any = true;
		if (now == 0)
			now = nanotime();
		cpu = os_threadclock(ld_rlx(&mp->tid));
		if (mp->offpwhen == 0) {
			mp->offpwhen = now;
			mp->offpfrom = mp->offpcpu = cpu;
			continue;
		}
		used = cpu - mp->offpcpu;
		mp->offpcpu = cpu;
		burns = burns_offp(mp, cpu, now);
		if (used < OFFP_CPU_NS)
			continue;
		/* It worked, and blocks again: nothing to give, and no signal for it. */
		if (os_threadasleep(ld_rlx(&mp->tid)))
			continue;
		lock(&sched.lock);
		pp = choose_turned() ? NULL : pidleget_locked();
		unlock(&sched.lock);
		if (!pp) {
			if (burns && ld_rlx(&sched.npidle) == 0)
				preemptoffp(mp);
			continue;
		}
		/* Acquire: pairs with the release by which its P was taken. */
		if (!cas_acq(&gp->status, GOFFP, GOFFP | GCLAIM)) {
			handoffp(pp);
			continue;
		}
		if (ld_rlx(&gp->m) != mp || ld_rlx(&mp->curg) != gp || ld_rlx(&mp->p)) {
			st_rel(&gp->status, GOFFP);
			handoffp(pp);
			continue;
		}
		acquirep(mp, pp);
		bump(&pp->schedtick);
		trace_back(sched.sysmonm, pp, gp);
		/* Release: pairs with the acquire in pin(): it finds its M with a P. */
		st_rel(&gp->status, GRUNNING);
	}
	return any;
}
