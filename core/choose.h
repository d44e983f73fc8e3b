/* Every choice of the scheduler, in one place: which G, how many, from whom, how long.
 * Owns Go's answers; a policy replaces them here and nowhere else.
 *
 * Random choices come from mp->rng, which is seeded from sched.seed, so that a seed names
 * them all. */
#ifndef HEDDLE_CHOOSE_H
#define HEDDLE_CHOOSE_H

#include "check.h"
#include "cpu.h"
#include "gmp.h"
#include "knobs.h"
#include "policies/spec.h"
#include "tls.h"

/* plan_slice: see policies/plan.h; timers_due: sched.h, which includes this. */
uint64_t plan_slice(const struct g *gp);
bool timers_due(struct p *pp);

enum {
	CHOOSE_GLOBAL_TICK = 61, /* each so many slices the global queue goes first */
	CHOOSE_STEAL_ROUNDS = 4,
	CHOOSE_ROW = 16,
	CHOOSE_ROW_CYCLES = 4 * ARCH_CYCLES_20US,
	CHOOSE_ROW_CYCLES_SLOW = 2 * CHOOSE_ROW_CYCLES,
	CHOOSE_SLICE_NS = 10 * 1000 * 1000, /* unless it is ordered otherwise: sched.slice */
	/* A slice of one that spins while others wait; how old one is before it is looked at. */
	CHOOSE_SPIN_NS = 100 * 1000,
	CHOOSE_LOOK_NS = 1000 * 1000,
	/* A G that timer or poller made ready may end a slice this old of one that computes. */
	CHOOSE_EARLY_NS = 500 * 1000,
};

/* What of it can be ordered otherwise, as Go has it. */
#define CHOOSE_KNOBS                                                                               \
	{                                                                                          \
		.grq = CHOOSE_GLOBAL_TICK, .local = RUNQ_SIZE, .steal = STEAL_HALF,                \
		.runnext = true, .spin = true, .yieldown = true                                    \
	}

/* The scheduler before it is up. */
#define SCHED_FRESH                                                                                \
	{                                                                                          \
		.lock = MUTEX_INIT(RANK_SCHED), .stoplock = MUTEX_INIT(RANK_STOP),                 \
		.glock = MUTEX_INIT(RANK_GLIST), .knobs = CHOOSE_KNOBS                             \
	}

/* Does a policy choose, in place of all below? */
static inline bool choose_policed(void)
{
	return sched_odd() && ld_rlx(&sched.policy);
}

/* Are its choices recorded or replayed? Then there is one road to each. */
static inline bool choose_turned(void)
{
	return sched_odd() && sched.turned;
}

/* How long a G runs while others wait, at the least. */
static inline uint64_t choose_slice(void)
{
	return ld_rlx(&sched.slice);
}

/* How long that one does. */
static inline uint64_t choose_sliceof(const struct g *gp)
{
	return choose_policed() ? plan_slice(gp) : choose_slice();
}

/* Who has had a slice ended since he waited last computes; another is likely to wait soon by
 * himself, and others may wait for what he has begun, some by spinning. */
static inline bool choose_computes(const struct g *gp)
{
	return ld_rlx(&gp->stoppedat) > ld_rlx(&gp->waitsince);
}

/* How old a slice of that one is to be before it may be ended for one that timer or poller made
 * ready. */
static inline uint64_t choose_early(const struct g *gp)
{
	return choose_computes(gp) ? CHOOSE_EARLY_NS : choose_slice();
}

/* splitmix64 */
#define CHOOSE_GAMMA 0x9e3779b97f4a7c15u

static inline uint64_t choose_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t choose_random(struct m *mp)
{
	return choose_mix(mp->rng += CHOOSE_GAMMA);
}

static inline uint32_t choose_below(struct m *mp, uint32_t n)
{
	return (uint32_t)((choose_random(mp) >> 32) * n >> 32);
}

/* WS_I4: half, rounded up. */
static inline uint32_t choose_stealamount(uint32_t queued)
{
	if (sched_knobs()->steal == STEAL_ONE)
		return queued > 0;
	return queued - queued / 2;
}

/* May a thief take anything from other Ps' queues? */
static inline bool choose_steals(void)
{
	return sched_knobs()->steal != STEAL_OFF;
}

/* Does one that is made ready go before all others of its P? */
static inline bool choose_runnext(void)
{
	return sched_knobs()->runnext;
}

/* WS_I3: how many a local queue holds. */
static inline uint32_t choose_room(void)
{
	return sched_knobs()->local;
}

/* How many a P takes from the global queue at most: they have room in its own. */
static inline int32_t choose_batch(void)
{
	return 1 + (int32_t)(choose_room() - 1) / 2;
}

/* One P's share of the global queue. */
static inline int32_t choose_globalshare(int32_t size, int32_t max)
{
	int32_t n = size / ld_rlx(&sched.gomaxprocs) + 1;
	if (n > size)
		n = size;
	return n < max ? n : max;
}

/* WS_L4, WS_F3: true if this slice begins with the global queue. */
static inline bool choose_globalfirst(const struct p *pp)
{
	return ld_rlx(&pp->schedtick) % sched_knobs()->grq == 0 && ld_rlx(&sched.runqsize) > 0;
}

/* Where one that yields goes: behind all, as in Go; where the slices of its P are short, behind
 * those of its P, but for one in each row of them. (Ps that yield all the time would meet at the
 * global queue's lock, and exchange all their Gs.) Who yields next has the P take its share of that
 * queue, and all keep their turns. */
enum yielding { YIELD_GLOBAL, YIELD_OWN, YIELD_TAKE };

/* Where each switch is a call of the kernel's, a row of them takes that long by itself. */
static inline uint64_t choose_row(void)
{
	return arch_fsgsbase ? CHOOSE_ROW_CYCLES : CHOOSE_ROW_CYCLES_SLOW;
}

static inline enum yielding choose_yield(struct p *pp)
{
	uint32_t at = ld_rlx(&pp->schedtick) - pp->rowtick;
	uint64_t now, row;

	if (__builtin_expect(at < CHOOSE_ROW, 1))
		return !pp->shortrow ? YIELD_GLOBAL : at <= 1 ? YIELD_TAKE : YIELD_OWN;
	now = arch_cycles();
	row = now - pp->rowseen;
	pp->rowseen = now;
	pp->rowtick += at;
	pp->shortrow = row < choose_row() && sched_knobs()->yieldown && !choose_policed();
	return YIELD_GLOBAL;
}

/* Does the next choice take more than a look at the local queue? One question for all that is out
 * of the ordinary, and the usual tick, for the remainder by a constant is much the cheaper. */
static inline bool choose_hard(struct p *pp)
{
	if (__builtin_expect(ld_rlx(&sched.gcwaiting) | sched_odd(), 0) &&
	    (ld_rlx(&sched.gcwaiting) != 0 || sched.turned || choose_globalfirst(pp)))
		return true;
	return debuglevel >= 2 || ld_rlx(&pp->urgent) != 0 ||
	       (ld_rlx(&pp->schedtick) % CHOOSE_GLOBAL_TICK == 0 && ld_rlx(&sched.runqsize) > 0) ||
	       (ld_rlx(&pp->timers.first) != 0 &&
		arch_cycles() - pp->timerseen > ARCH_CYCLES_20US && timers_due(pp));
}

/* GMP_M7: half of the busy Ps search at most. */
static inline bool choose_spin(void)
{
	int32_t busy = ld_rlx(&sched.gomaxprocs) - ld_rlx(&sched.npidle);

	/* One must: who sleeps without a look relies on one that has it still to come. */
	if (!sched_knobs()->spin)
		return ld_rlx(&sched.nmspinning) == 0;
	return 2 * ld_rlx(&sched.nmspinning) < busy;
}

/* WS_F1: the order in which a thief visits all Ps: from a random start in random strides that
 * are coprime to their number, so that each is seen once. */
struct stealorder {
	uint32_t n, at, stride, left;
};

static inline uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

static inline struct stealorder choose_stealorder(struct m *mp, uint32_t n)
{
	struct stealorder o = { n, 0, 1, n };
	if (n > 1) {
		o.at = choose_below(mp, n);
		o.stride = 1 + choose_below(mp, n - 1);
		while (gcd(o.stride, n) != 1)
			o.stride = o.stride % (n - 1) + 1;
	}
	return o;
}

static inline bool stealorder_next(struct stealorder *o, uint32_t *at)
{
	if (o->left == 0)
		return false;
	o->left--;
	*at = o->at;
	o->at = (o->at + o->stride) % o->n;
	return true;
}

#endif
