/* Gs that spin: that wait for another thread by looking at memory, again and again. While others
 * wait for a P such a one gets a short slice, for what it waits for may be done by one of them.
 *
 * Nobody says that he spins; his registers do. Sysmon has signal 32 look at a G whose slice is
 * CHOOSE_LOOK_NS old, and again a few times. It spins if it was found in the same few
 * instructions each time, with the same vector registers, and no more than one of its registers
 * had another value every time: a loop that computes has a result beside its counter. From
 * then on its slices are short (turn_of), unless it is found outside those instructions, where
 * it has its work to do: then it is looked at again when the slice is twice as old, for it may
 * spin after that. Who is looked at for nothing is left alone for a while.
 *
 * Whoever is found in a library that spins (spin_library) is taken for one at once, whatever its
 * registers hold. And who looks by calls, with poll say, says so by these: core_looked. */
#include "choose.h"
#include "preempt.h"
#include "sched.h"

enum {
	NEAR_PC = 4096,
	NEAR_SP = 256,
	/* Around what was seen. */
	MARGIN = 32,
	CREDIT = 8,
	/* Turns after which all is looked at anew. */
	BELIEVED = 250,
	/* Of cpu, from the end of a look to the next. To be looked at takes tens of microseconds of
	 * it where signals cost a virtual machine much, and in those nothing moves. */
	APART_NS = 200 * 1000,
	/* That long it is seen to burn cpu before it is looked at. */
	BURNS_NS = 50 * 1000,
	SKIP_MOST = 15,
	/* So many looks in a row, and so far apart at most. */
	LOOKS = 16,
	LOOK_CYCLES = ARCH_CYCLES_20US,
};

/* spin_library's; 0: there is none. Relaxed: written before there is a G that may be looked at. */
static struct {
	ATOMIC(uintptr_t) lo, hi;
} library;

void spin_library(uintptr_t lo, uintptr_t hi)
{
	st_rlx(&library.lo, lo);
	st_rlx(&library.hi, hi);
}

bool core_endsspins(void)
{
	return preempt_on && !sched.patient;
}

static bool in_library(uintptr_t pc)
{
	return pc >= ld_rlx(&library.lo) && pc < ld_rlx(&library.hi);
}

static bool near(uintptr_t a, uintptr_t b, uintptr_t most)
{
	return a - b <= most || b - a <= most;
}

static bool alike(const struct sigregs *a, const struct sigregs *b)
{
	return near(a->pc, b->pc, NEAR_PC) && near(a->sp, b->sp, NEAR_SP) && a->vector == b->vector;
}

/* Had that register another value each time? But for once: where a hypervisor has the cpu, its
 * clock goes on and the G does not. */
static bool runs_on(const struct spinlooks *l, int reg)
{
	int again = 0;

	for (int i = 1; i < SPIN_LOOKS; i++) {
		int j = 0;
		while (j < i && l->seen[i].others[reg] != l->seen[j].others[reg])
			j++;
		again += j < i;
	}
	return again <= 1;
}

static bool gets_nowhere(const struct spinlooks *l)
{
	int running = 0;

	for (int reg = 0; reg < SIGREGS; reg++)
		running += runs_on(l, reg);
	return running <= 1;
}

static void remember(struct g *gp, const struct spinlooks *l)
{
	uintptr_t lo = l->seen[0].pc, hi = lo;
	struct spinplace *place = &gp->spins[gp->spinnext];

	for (int i = 1; i < SPIN_LOOKS; i++) {
		uintptr_t pc = l->seen[i].pc;
		lo = pc < lo ? pc : lo;
		hi = pc > hi ? pc : hi;
	}
	gp->spinnext = (uint8_t)((gp->spinnext + 1) % SPIN_PLACES);
	gp->spinmisses = 0;
	gp->spincredit = CREDIT;
	place->lo = lo - MARGIN;
	place->hi = hi + MARGIN;
	place->turns = 0;
	st_rlx(&gp->spinner, true);
}

static void forget(struct g *gp)
{
	for (int i = 0; i < SPIN_PLACES; i++)
		gp->spins[i].hi = 0;
	st_rlx(&gp->spinner, false);
}

static void look_elsewhere(struct g *gp)
{
	if (gp->spinmisses < SKIP_MOST)
		gp->spinmisses = (uint8_t)(2 * gp->spinmisses + 1);
	st_rlx(&gp->spinskip, gp->spinmisses);
}

/* One that is known to: does it at this moment? */
static bool seen_again(struct g *gp, uintptr_t pc)
{
	for (int i = 0; i < SPIN_PLACES; i++) {
		struct spinplace *place = &gp->spins[i];
		if (pc < place->lo || pc > place->hi)
			continue;
		gp->spincredit = CREDIT;
		/* It may never have spun. */
		if (++place->turns == BELIEVED)
			place->hi = 0;
		return true;
	}
	return false;
}

static bool apart(const struct spinlooks *l, uint64_t cpu)
{
	return cpu - ld_rlx(&l->cpu) >= APART_NS;
}

static bool seen(struct m *mp, struct g *gp, const void *uc, bool denied)
{
	struct spinlooks *l = &mp->looks;
	uint32_t tick = ld_rlx(&mp->p->schedtick) + 1;

	bool known = ld_rlx(&gp->spinner), first = ld_rlx(&l->tick) != tick || l->gp != gp;

	/* A late request. */
	if (ld_rlx(&mp->lookedtick) == tick)
		return false;
	if (first) {
		st_rlx(&l->tick, tick);
		l->gp = gp;
		l->n = 0;
	}
	if (in_library(arch_sigpc(uc))) {
		gp->spincredit = CREDIT;
		gp->spinmisses = 0;
		st_rlx(&gp->spinner, true);
		st_rlx(&mp->lookedtick, tick);
		return true;
	}
	if (known && seen_again(gp, arch_sigpc(uc))) {
		st_rlx(&mp->lookedtick, tick);
		return true;
	}
	/* Not to be found so counts once in a slice. */
	if (known && first && --gp->spincredit == 0)
		forget(gp);
	if (l->n > 0 && !apart(l, os_threadclock(ld_rlx(&mp->tid))))
		return false;
	arch_sigregs(uc, &l->seen[l->n]);
	if (!denied && alike(&l->seen[0], &l->seen[l->n]) && ++l->n < SPIN_LOOKS) {
		st_rlx(&l->cpu, os_threadclock(ld_rlx(&mp->tid)));
		return false;
	}
	/* Of one that is known: it may spin in another place later in this slice. */
	if (known && l->n < SPIN_LOOKS) {
		l->n = 0;
		return false;
	}
	st_rlx(&mp->lookedtick, tick);
	/* Another P's slice may have the same number. */
	st_rlx(&l->tick, 0);
	l->gp = NULL;
	if (l->n == SPIN_LOOKS && gets_nowhere(l)) {
		remember(gp, l);
		return true;
	}
	if (!known)
		look_elsewhere(gp);
	return false;
}

bool spin_seen(struct m *mp, struct g *gp, const void *uc, bool denied)
{
	if (!seen(mp, gp, uc, denied))
		return false;
	st_rlx(&gp->spunat, nanotime());
	st_rlx(&gp->spuntick, ld_rlx(&mp->p->schedtick));
	st_rlx(&gp->spunon, mp->p->id);
	return true;
}

void spin_ended(struct g *gp)
{
	forget(gp);
	gp->spinmisses = 0;
	gp->lookturn = 0;
	st_rlx(&gp->spinskip, 0);
}

/* When so many have run for that long meanwhile. */
static uint64_t turn_after(uint64_t ns, uint32_t slices)
{
	uint64_t turn = ns / slices / 2;

	if (turn > choose_slice())
		turn = choose_slice();
	return turn < CHOOSE_SPIN_NS ? CHOOSE_SPIN_NS : turn;
}

/* How long one may run that is known to spin: half of what each of those ran, on the average, who
 * had the P since it gave way. So among spinners turns are short; and who was taken for one, and
 * computes, loses no more than a part of its share. */
static uint64_t turn_of(struct g *gp, struct p *pp)
{
	uint64_t since = ld_rlx(&gp->spunat), begun = pp->mon.schedwhen;
	uint32_t slices = ld_rlx(&pp->schedtick) - ld_rlx(&gp->spuntick);

	if (ld_rlx(&gp->spunon) != pp->id || begun <= since || slices < 2)
		return CHOOSE_SPIN_NS;
	return turn_after(begun - since, slices - 1);
}

uint64_t spin_check(struct p *pp, struct m *mp, struct g *gp, uint64_t age, uint64_t now)
{
	struct sysmontick *mon = &pp->mon;
	uint32_t tick = ld_rlx(&pp->schedtick) + 1;
	bool known = ld_rlx(&gp->spinner), first = mon->looktick != tick, burns;
	uint64_t due = known ? turn_of(gp, pp) : CHOOSE_LOOK_NS, cpu;
	uint8_t skip;

	/* It had its work to do when it was looked at last. */
	if (known && !first && due < mon->lookdue)
		due = mon->lookdue;
	if (age < due && !(known && first))
		return known || ld_rlx(&gp->spinskip) == 0 ? due - age : 0;
	if (ld_rlx(&mp->lookedtick) == tick)
		return 0;
	skip = ld_rlx(&gp->spinskip);
	if (!known && skip != 0) {
		st_rlx(&gp->spinskip, (uint8_t)(skip - 1));
		st_rlx(&mp->lookedtick, tick);
		return 0;
	}
	/* A signal would break the call of one that sleeps. */
	cpu = os_threadclock(ld_rlx(&mp->tid));
	burns = cpu - mon->lookcpu > (now - mon->lookwhen) / 2;
	mon->looktick = tick;
	if (first)
		mon->lookdue = 0;
	mon->lookwhen = now;
	mon->lookcpu = cpu;
	if (age < due)
		return due - age;
	if (first)
		return BURNS_NS;
	if (burns && ld_rlx(&mp->looks.tick) == tick && !apart(&mp->looks, cpu))
		return APART_NS - (cpu - ld_rlx(&mp->looks.cpu));
	/* It may have fallen asleep since. */
	if (!burns || os_threadasleep(ld_rlx(&mp->tid)) || !preemptlook(pp))
		return 0;
	/* Of one that is known the next slice begins at once. */
	mon->lookdue = 2 * age;
	return known ? BURNS_NS : APART_NS;
}

/* Its next turn is half as long as those of the others meanwhile. */
static void let_others_look(struct m *mp, struct g *gp)
{
	struct p *pp = mp->p, *now;
	uint32_t tick = ld_rlx(&pp->schedtick), others = 0;
	uint64_t since = nanotime();

	count(pp, yields);
	leave(mp, gp, POST_PREEMPT, NULL, NULL);
	now = ld_rlx(&gp->m)->p;
	if (now == pp)
		others = ld_rlx(&pp->schedtick) - tick;
	gp->lookturn = turn_after(nanotime() - since, others > 2 ? others - 2 : 1);
	gp->looks = 1;
	gp->looksbegan = gp->lookedat = arch_cycles();
}

/* By calls, and so in code where nobody is stopped to be looked at. Who has slept meanwhile has
 * begun another wait. */
void core_looked(bool again)
{
	struct g *gp = getg();
	uint64_t now = arch_cycles(), turn, wait = ld_rlx(&gp->wait) >> WAIT_BITS;
	struct m *mp;

	if (!again || now - gp->lookedat > LOOK_CYCLES || wait != gp->lookedwait) {
		gp->looks = 0;
		gp->looksbegan = now;
		gp->lookedwait = wait;
	}
	gp->lookedat = now;
	if (gp->looks++ < LOOKS)
		return;
	turn = gp->lookturn < CHOOSE_SPIN_NS ? CHOOSE_SPIN_NS : gp->lookturn;
	if (now - gp->looksbegan < turn * ARCH_CYCLES_20US / 20000 || !core_endsspins() ||
	    choose_turned())
		return;
	mp = pin(gp);
	if ((ld_rlx(&sched.runqsize) > 0 || !runqempty(mp->p)) && !mp->lockedg)
		let_others_look(mp, gp);
	unpin(gp);
}
