/* The queue of a policy: see plan.h. Owns the heaps, and who is in them. */
#include "policies/plan.h"
#include "policies/heap.h"
#include "policies/turns.h"

#include "preempt.h"
#include "text.h"

enum { SLAB = 64 };

static struct policyspec spec;
static ATOMIC(uint64_t) slice; /* of those that have none of their own */
static ATOMIC(bool) sliced; /* somebody asked for it: then no ranking draws others */
static struct heap heaps[MAX_PROCS];
static int32_t nheaps;
static uint64_t seed, orders;
static uint32_t turns;
static struct plan *slab;
static int32_t nslab;

const struct policyspec *plan_spec(void)
{
	return &spec;
}

uint64_t plan_lot(void)
{
	return choose_mix(seed += CHOOSE_GAMMA);
}

static bool insert(struct plan *plan, int32_t heap)
{
	if (!heap_put(&heaps[heap], plan))
		return false;
	if (heap >= nheaps)
		nheaps = heap + 1;
	plan->heap = heap;
	return true;
}

static void take_out(struct plan *plan)
{
	heap_take(&heaps[plan->heap], plan);
}

/* ---- plans ---- */

static struct plan *new_plan(void)
{
	struct plan *plan;

	if (nslab == 0) {
		plan = os_reserve(SLAB * sizeof(*plan));
		if (os_failed(plan))
			return NULL;
		slab = plan;
		nslab = SLAB;
	}
	plan = slab++;
	nslab--;
	return plan;
}

static void name_it(struct plan *plan)
{
	_Static_assert(sizeof(plan->t.name) == TRACE_NAME_LEN, "a name");
	if (!sched.name || !sched.name(plan->gp, plan->t.name))
		plan->t.name[0] = 0;
}

/* The plan of gp, which may be another than it was when it last had one. */
static struct plan *plan_of(struct g *gp)
{
	struct plan *plan = ld_rlx(&gp->plan);

	if (!plan && !(plan = new_plan()))
		return NULL;
	if (plan->t.id == gp->goid)
		return plan;
	plan->t = (struct heddle_thread){
		.id = gp->goid, .born = nanotime(), .reason = HEDDLE_NEW, .last = -1
	};
	plan->gp = gp;
	plan->key = 0;
	plan->pointed = false;
	st_rlx(&plan->slice, 0);
	/* Release: sysmon reads through it. */
	st_rel(&gp->plan, plan);
	if (spec.kind == POLICY_OWN) {
		name_it(plan);
		own_started(plan);
	}
	return plan;
}

/* The P of whoever runs here. */
static int32_t here(void)
{
	struct g *self = getg();
	struct m *mp = self ? ld_rlx(&self->m) : NULL;
	struct p *pp = mp ? ld_rlx(&mp->p) : NULL;

	return pp ? pp->id : 0;
}

/* ---- when it breaks a rule ---- */

static void say_fault(const char *what)
{
	char buf[256];
	struct text t = TEXT(buf);

	text_put(&t, "heddle: policy ");
	text_put(&t, spec.kind == POLICY_OWN ? own_name() : policy_name(spec.kind));
	text_put(&t, " ");
	text_put(&t, what);
	text_put(&t, ": the program goes on under go\n");
	text_write2(&t);
}

static void give_up(const char *what)
{
	say_fault(what);
	st_rlx(&sched.policy, false);
	st_rlx(&sched.slice, CHOOSE_SLICE_NS);
	for (int32_t i = 0; i < nheaps; i++) {
		while (heaps[i].n > 0) {
			struct plan *plan = heap_oldest(&heaps[i]);
			take_out(plan);
			gqueue_push(&sched.runq, plan->gp);
		}
	}
}

/* ---- the queue ---- */

/* Has each P a heap? */
static bool each_its_own(void)
{
	return rankings[spec.kind].own || (spec.kind == POLICY_OWN && own_steals());
}

static bool rank(struct plan *plan)
{
	if (spec.kind != POLICY_OWN) {
		rankings[spec.kind].rank(plan);
		return true;
	}
	name_it(plan);
	own_readied(plan, here());
	return !own_fault();
}

bool plan_put_locked(struct g *gp)
{
	struct plan *plan = gp->lockedm ? NULL : plan_of(gp);

	if (gp->lockedm)
		return false;
	if (!plan) {
		give_up("has no memory");
		return false;
	}
	if (plan->pointed) {
		plan->pointed = false;
		plan->t.reason = HEDDLE_YIELD;
	}
	plan->t.ready = nanotime();
	plan->order = ++orders;
	if (!rank(plan) || !insert(plan, each_its_own() ? here() : 0)) {
		give_up(own_fault() ? own_fault() : "has no memory");
		return false;
	}
	st_rlx(&sched.runqsize, sched.runqsize + 1);
	return true;
}

/* From whom, by lot, and how many. */
static uint32_t choose_victim(int32_t *victim)
{
	uint32_t queued;

	*victim = (int32_t)(plan_lot() % (uint64_t)nheaps);
	while ((queued = heaps[*victim].n) == 0)
		*victim = (*victim + 1) % nheaps;
	return spec.steal == STEAL_ONE ? 1 : queued - queued / 2;
}

static uint32_t choose_victim_own(int32_t pid, int32_t *victim)
{
	static uint32_t queued[MAX_PROCS];
	uint32_t n;

	for (int32_t i = 0; i < nheaps; i++)
		queued[i] = heaps[i].n;
	n = own_steal(pid, queued, nheaps, victim);
	if (own_fault() || n == 0 || *victim < 0 || *victim >= nheaps || heaps[*victim].n == 0) {
		give_up(own_fault() ? own_fault() : "stole none while some were runnable");
		return 0;
	}
	return n < heaps[*victim].n ? n : heaps[*victim].n;
}

/* Of the Ps' own heaps: a thief takes the oldest of another, and more to its own. */
static struct plan *steal(int32_t pid)
{
	int32_t victim;
	uint32_t n = spec.kind == POLICY_OWN ? choose_victim_own(pid, &victim)
					     : choose_victim(&victim);
	struct heap *h;
	struct plan *first;

	if (n == 0)
		return NULL;
	h = &heaps[victim];
	first = heap_oldest(h);
	take_out(first);
	while (--n > 0) {
		struct plan *more = heap_oldest(h);
		take_out(more);
		if (!insert(more, pid)) {
			/* There was room where it came from. */
			insert(more, victim);
			break;
		}
	}
	return first;
}

static bool is_queued(const struct heddle_thread *t)
{
	for (uint32_t i = 0; i < heaps[0].n; i++)
		if (&heaps[0].of[i]->t == t)
			return true;
	return false;
}

void plan_rank_queued(void (*key)(struct plan *plan))
{
	for (int32_t i = 0; i < nheaps; i++)
		heap_rank(&heaps[i], key);
}

static struct plan *pick_own(int32_t pid)
{
	const struct heddle_thread *t;

	t = own_pick(pid);
	if (own_fault() || !t || !is_queued(t)) {
		give_up(own_fault() ? own_fault()
			: t	    ? "picked a thread that is not runnable"
				    : "picked none while some were runnable");
		return NULL;
	}
	return (struct plan *)(uintptr_t)t;
}

static struct plan *pick(const struct heap *h)
{
	const struct ranking *r = &rankings[spec.kind];

	/* Two that wake each other must not keep all others waiting. */
	if (r->own && ++turns % CHOOSE_GLOBAL_TICK == 0)
		return heap_oldest(h);
	return h->of[r->lots ? plan_lot() % h->n : 0];
}

struct g *plan_get_locked(int32_t pid)
{
	struct heap *h = &heaps[each_its_own() ? pid : 0];
	struct plan *plan;

	if (plan_queued_locked() == 0)
		return NULL;
	if (spec.kind == POLICY_OWN && own_picks())
		plan = pick_own(pid);
	else if (h->n > 0)
		plan = pick(h);
	else
		plan = steal(pid);
	if (!plan)
		return NULL;
	if (plan->at != 0)
		take_out(plan);
	st_rlx(&sched.runqsize, sched.runqsize - 1);
	plan->since = nanotime();
	plan->t.last = pid;
	if (spec.kind == POLICY_OWN)
		own_slice(plan);
	else if (rankings[spec.kind].picked)
		rankings[spec.kind].picked(plan);
	return plan->gp;
}

struct g *plan_take_locked(uint64_t goid, int32_t pid)
{
	struct heap *h = &heaps[0];

	for (uint32_t i = 0; i < h->n; i++) {
		struct plan *plan = h->of[i];
		if (plan->t.id != goid)
			continue;
		take_out(plan);
		st_rlx(&sched.runqsize, sched.runqsize - 1);
		plan->since = nanotime();
		plan->t.last = pid;
		return plan->gp;
	}
	return NULL;
}

bool plan_turn_locked(void)
{
	return ++turns % 2 == 0;
}

int32_t plan_queued_locked(void)
{
	int32_t n = 0;

	for (int32_t i = 0; i < nheaps; i++)
		n += (int32_t)heaps[i].n;
	return n;
}

static int32_t reason_of(enum postkind kind, unsigned waitreason)
{
	switch (kind) {
	case POST_PARK:
		return waitreason == WAIT_FUTEX	  ? HEDDLE_LOCK
		       : waitreason == WAIT_SLEEP ? HEDDLE_SLEEP
		       : waitreason == WAIT_READ  ? HEDDLE_READ
		       : waitreason == WAIT_WRITE ? HEDDLE_WRITE
						  : HEDDLE_OTHER;
	case POST_NOP:
		return HEDDLE_CALL;
	case POST_PREEMPT:
		return HEDDLE_SLICE;
	default:
		return HEDDLE_YIELD;
	}
}

static enum turnend turn_end(const struct g *gp, const struct plan *plan, int kind)
{
	bool pointed = plan && plan->t.id == gp->goid && plan->pointed;

	bool timed = gp->waitreason != WAIT_FUTEX || ld_rlx(&gp->timer.heap);

	return kind == POST_PARK && timed		    ? TURN_OUTSIDE
	       : kind == POST_PARK			    ? TURN_WAITS
	       : kind == POST_EXIT			    ? TURN_ENDS
	       : kind == POST_YIELD || kind == POST_GOSCHED ? TURN_YIELDS
	       : pointed				    ? TURN_POINT
							    : TURN_CLOCK;
}

void plan_left(struct g *gp, int kind)
{
	struct plan *plan = ld_rlx(&gp->plan);

	if (choose_turned() && kind != POST_NOP)
		turns_left(gp, turn_end(gp, plan, kind));
	if (!plan || plan->t.id != gp->goid)
		return;
	plan->t.ran += nanotime() - plan->since;
	plan->t.reason = reason_of((enum postkind)kind, gp->waitreason);
	plan->t.waits += kind == POST_PARK;
	if (kind == POST_EXIT && spec.kind == POLICY_OWN) {
		lock(&sched.lock);
		if (ld_rlx(&sched.policy))
			own_ended(plan);
		if (own_fault() && ld_rlx(&sched.policy))
			give_up(own_fault());
		unlock(&sched.lock);
	}
}

uint64_t plan_slice(const struct g *gp)
{
	const struct plan *plan = ld_acq(&gp->plan);
	bool draws = spec.kind == POLICY_OWN || !ld_rlx(&sliced);
	uint64_t ns = choose_turned() ? turns_slice() : 0;

	if (ns == 0 && plan && draws)
		ns = ld_rlx(&plan->slice);
	return ns ? ns : ld_rlx(&slice);
}

void plan_slice_is(uint64_t ns)
{
	st_rlx(&slice, ns);
	st_rlx(&sliced, true);
}

/* ---- points ---- */

static bool gives_way_locked(struct g *gp, bool *again)
{
	const struct ranking *r = &rankings[spec.kind];
	struct plan *plan = plan_of(gp);
	const struct heap *h = &heaps[0];
	bool gives;

	if (!plan)
		return false;
	gives = !gp->lockedm && r->point && r->point(plan, h->n > 0 ? h->of[0] : NULL);
	if (choose_turned())
		gives = turns_point_locked(gp, gives, again);
	plan->pointed = gives;
	return gives;
}

void core_point(void)
{
	struct g *gp = getg();
	struct m *mp;
	bool yields, again;

	if (!ld_rlx(&sched.policy) || core_sigplace() != SIGPLACE_PROGRAM || !gp)
		return;
	do {
		again = false;
		mp = pin(gp);
		count(mp->p, points);
		lock(&sched.lock);
		yields = ld_rlx(&sched.policy) && gives_way_locked(gp, &again);
		unlock(&sched.lock);
		if (yields)
			leave(mp, gp, POST_PREEMPT, NULL, NULL);
		unpin(gp);
	} while (again);
	if (choose_turned())
		turns_pointed();
}

/* ---- the beginning ---- */

bool plan_begin(const struct policyspec *wanted, const struct heddle_policy *own,
		struct turnlog *log)
{
	enum { LEAST_LOOK_NS = 50 * 1000 };

	/* In the child of a fork: what was in memory is left alone. */
	for (int32_t i = 0; i < nheaps; i++)
		heaps[i] = (struct heap){ NULL, 0, 0 };
	nheaps = 0;
	orders = 0;
	spec = *wanted;
	seed = sched.seed;
	rankings_begin();
	sched.knobs = (struct knobs){
		.grq = spec.grq,
		.local = spec.local,
		.steal = spec.steal,
		.runnext = spec.runnext,
		.spin = spec.spin,
		.yieldown = spec.yieldown,
	};
	sched.odd = true;
	if (spec.kind == POLICY_OWN && !own_begin(own, &spec, seed)) {
		say_fault("does not want to");
		spec.kind = POLICY_GO;
	}
	st_rlx(&sliced, spec.slice != 0);
	if (!spec.slice)
		spec.slice = rankings[spec.kind].slice ? rankings[spec.kind].slice
						       : CHOOSE_SLICE_NS;
	st_rlx(&slice, spec.slice);
	sched.slice = spec.slice < LEAST_LOOK_NS ? LEAST_LOOK_NS : spec.slice;
	st_rlx(&sched.policy, spec.kind != POLICY_GO);
	turns_begin(spec.kind == POLICY_GO ? NULL : log);
	sched.patient = rankings[spec.kind].point != NULL || sched.turned;
	return sched.patient;
}
