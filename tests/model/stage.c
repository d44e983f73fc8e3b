/* Locks, parking, timers and the kernel, modelled.
 *
 * A park is two model threads: the parked G, and the context that comes next on its M, which
 * publishes GWAITING and runs the unlockf while the G may be readied and run elsewhere. A
 * timer is a thread that fires at any moment after it was armed. Owns nothing that is under
 * test; checks what callers owe: the order of locks, no lock across a park, one ready a
 * park. Read futex_model.c next. */
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "guest.h"
#include "policies/turns.h"
#include "stage.h"

enum { EARLY = 1000, LATE = 1000000, FIRSTCHILD = 0, TIMERCHILD = 2 };
enum { EINTR_ = 4, EAGAIN_ = 11, ENOMEM_ = 12, ETIMEDOUT_ = 110, CLOCK_MONO = 1 };

struct sched sched;
struct actor actors[ACTORS];
bool stage_nomem;
int stage_signals;
void (*stage_unlocking)(struct mutex *l);
struct g *stage_order[16];
int stage_nready, stage_handoffs;

static int nthreads;
static struct thread *thread_of[ACTORS];
static char names[ACTORS][2][24];
static uint32_t kernel; /* the lock of the kernel's own futex queue */
static uint32_t turns;

void stage_begin(void)
{
	memset(&sched, 0, sizeof(sched));
	memset(actors, 0, sizeof(actors));
	sched.lock.rank = RANK_SCHED;
	sched.gomaxprocs = 2;
	sched.knobs = (struct knobs)CHOOSE_KNOBS;
	stage_nomem = false;
	stage_signals = 0;
	stage_unlocking = NULL;
	stage_nready = stage_handoffs = 0;
	nthreads = 0;
	kernel = turns = 0;
	model_name(&sched.lock, sizeof(sched.lock), "sched.lock");
	model_name(&sched.runqsize, sizeof(sched.runqsize), "sched.runqsize");
	model_name(&kernel, sizeof(kernel), "the kernel's queue");
}

struct g *stage_g(const char *name, void (*fn)(void *), void *arg)
{
	int i = nthreads++;
	struct actor *a = &actors[i];

	thread_of[i] = &threads[i];
	a->g.goid = (uint64_t)i + 1;
	a->g.m = &a->m;
	a->g.status = GPINNED;
	a->m.p = &a->p;
	a->m.curg = &a->g;
	a->m.g0.isg0 = true;
	a->m.g0.m = &a->m;
	a->p.m = &a->m;
	a->p.timers.lock.rank = RANK_TIMERS;
	if (replaying) {
		snprintf(names[i][0], sizeof(names[i][0]), "%s's M", name);
		snprintf(names[i][1], sizeof(names[i][1]), "%s's timer", name);
	}
	model_name(&a->g, sizeof(a->g), "%s.g", name);
	model_name(&a->g.status, sizeof(a->g.status), "%s.status", name);
	model_name(&a->g.wait, sizeof(a->g.wait), "%s.wait", name);
	model_name(&a->g.timer, sizeof(a->g.timer), "%s.timer", name);
	model_name(&a->p, sizeof(a->p), "%s.p", name);
	model_name(&a->p.timers, sizeof(a->p.timers), "%s.timers", name);
	model_thread(name, fn, arg, &a->g);
	return &a->g;
}

void stage_foreign(const char *name, void (*fn)(void *), void *arg)
{
	thread_of[nthreads] = &threads[nthreads];
	nthreads++;
	model_thread(name, fn, arg, NULL);
}

static struct actor *actor_of(const struct g *gp)
{
	return (struct actor *)(uintptr_t)gp;
}

/* Of its contexts the one that its next park brings up. */
static unsigned parkchild(const struct thread *t)
{
	return FIRSTCHILD + (t->parks & 1);
}

bool stage_parked(const void *arg)
{
	const struct thread *t = thread_of[actor_of(arg) - actors];

	return t->parks > 1 || (t->parks == 1 && thread_child(t, FIRSTCHILD)->phase == DONE);
}

/* The actor whose context runs. */
static struct actor *own_actor(void)
{
	unsigned id = current->id;

	return &actors[id < MAINS ? id : (id - MAINS) / CHILDREN];
}

/* ---- check.h, tls.h ---- */

static const char *const invariants[] = {
#define INVARIANT(id, text, enforced, test) #id,
#include "invariants.def"
#undef INVARIANT
};

void check_failed(enum invariant id, const char *what, const char *file, int line)
{
	model_failed(file, line, "%s is broken: %s", invariants[id], what);
}

struct g *getg(void)
{
	return current ? current->g : NULL;
}

/* ---- lock.h ---- */

static void owes_no_lock(const char *what, unsigned but)
{
	if (current && current->held > but)
		model_failed(__FILE__, __LINE__, "%s %s with a lock held", current->name, what);
}

void lock(struct mutex *l)
{
	struct thread *t = current;

	for (unsigned i = 0; t && i < t->held; i++)
		if (t->locks[i]->rank > l->rank ||
		    (t->locks[i]->rank == l->rank && t->locks[i] >= l))
			model_failed(__FILE__, __LINE__, "%s takes locks out of order", t->name);
	memory_take(&l->key);
	if (t)
		t->locks[t->held++] = l;
}

void unlock(struct mutex *l)
{
	struct thread *t = current;
	unsigned i = 0;

	if (stage_unlocking && t)
		stage_unlocking(l);
	while (t && i < t->held && t->locks[i] != l)
		i++;
	if (t && i == t->held)
		model_failed(__FILE__, __LINE__, "%s lets go a lock it has not", t->name);
	memory_give(&l->key);
	if (!t)
		return;
	for (t->held--; i < t->held; i++)
		t->locks[i] = t->locks[i + 1];
}

/* ---- pin.c ---- */

struct m *pin(struct g *gp)
{
	return &actor_of(gp)->m;
}

void unpin(struct g *gp)
{
	(void)gp;
	owes_no_lock("leaves the core", 0);
}

struct m *enter(struct g *self)
{
	return self ? self->m : NULL;
}

void outof(struct g *self)
{
	(void)self;
	owes_no_lock("leaves the core", 0);
}

/* ---- policies/: there is none ---- */

bool plan_put_locked(struct g *gp)
{
	EXPECT(!gp);
	return false;
}

struct g *plan_get_locked(int32_t pid)
{
	EXPECT(pid < 0);
	return NULL;
}

bool plan_turn_locked(void)
{
	return false;
}

struct g *plan_take_locked(uint64_t goid, int32_t pid)
{
	EXPECT(goid == 0 && pid < 0);
	return NULL;
}

uint64_t turns_next_locked(void)
{
	return 0;
}

void turns_picked_locked(const struct g *gp)
{
	EXPECT(!gp);
}

/* ---- schedule.c ---- */

static bool is_readied(const void *arg)
{
	return ((const struct thread *)arg)->readied;
}

/* From here on gp runs, and knows what the caller knows. */
static void resume(struct g *gp)
{
	struct thread *t = thread_of[actor_of(gp) - actors];

	if (t->readied || t->ready != is_readied)
		model_failed(__FILE__, __LINE__, "%s is readied, but %s", t->name,
			     t->readied ? "was already" : "does not wait");
	t->readied = true;
	t->readyview = current->view;
	memcpy(t->readycausal, current->causal, sizeof(t->readycausal));
}

void await_parked(struct g *gp)
{
	while (ld_acq(&gp->status) == GPINNED)
		arch_relax();
}

static void make_ready(struct g *gp)
{
	await_parked(gp);
	CHECK(GMP_G4, ld_acq(&gp->status) == GWAITING);
	st_rlx(&gp->status, GRUNNABLE);
	actor_of(gp)->readied++;
	if (stage_nready < 16)
		stage_order[stage_nready++] = gp;
	resume(gp);
}

void ready(struct m *mp, struct g *gp)
{
	EXPECT(mp && mp->p);
	owes_no_lock("readies", 0);
	make_ready(gp);
}

void injectready(struct g *gp)
{
	owes_no_lock("readies", 0);
	make_ready(gp);
}

void injectglist(struct m *mp, struct glist *list)
{
	int32_t n = 0;

	(void)mp;
	owes_no_lock("readies", 0);
	for (struct g *gp = list->head, *rest; gp; gp = rest, n++) {
		rest = gp->schedlink;
		make_ready(gp);
	}
	EXPECT_EQ(n, list->n);
	list->head = NULL;
	list->n = 0;
}

/* For a wake that is to come before others; nobody has a slice here. */
bool ready_early(struct glist *list)
{
	injectglist(NULL, list);
	return false;
}

void sysmon_serves(bool at_once)
{
	(void)at_once;
}

struct parking {
	struct g *gp;
	bool (*fn)(struct g *, void *);
	void *arg;
};

static struct parking parkings[ACTORS];

/* The context that comes next on the M of a G that parks: finish_switch(). */
static void after_park(void *arg)
{
	struct parking p = *(struct parking *)arg;

	st_rel(&p.gp->status, GWAITING);
	if (p.fn && !p.fn(p.gp, p.arg)) {
		st_rlx(&p.gp->status, GRUNNABLE);
		resume(p.gp);
	}
	owes_no_lock("schedules", 0);
}

void park(struct m *mp, struct g *gp, bool (*unlockf)(struct g *, void *), void *arg,
	  enum waitreason reason)
{
	struct thread *t = current, *next;
	unsigned i = (unsigned)(actor_of(gp) - actors);

	(void)mp;
	(void)reason;
	EXPECT(t->g == gp);
	owes_no_lock("parks", unlockf ? 1 : 0);
	parkings[i] = (struct parking){ gp, unlockf, arg };
	/* The one before may not be through: the G came back on another M. */
	next = thread_child(t, parkchild(t));
	thread_start(next, names[i][0], after_park, &parkings[i], t);
	t->parks++;
	next->g = &actor_of(gp)->m.g0;
	memcpy(next->locks, t->locks, sizeof(next->locks));
	next->held = t->held;
	t->held = 0;
	thread_block(is_readied, t, "a wake-up");
	thread_step(t);
	t->readied = false;
	view_join(&t->view, &t->readyview);
	clocks_join(t->causal, t->readycausal);
	st_rlx(&gp->status, GPINNED);
	if (replaying)
		trace_step(t, (struct model_site){ "park", "", 0 }, NULL, "is over");
}

void leave(struct m *mp, struct g *gp, enum postkind kind, bool (*fn)(struct g *, void *),
	   void *arg)
{
	(void)arg;
	EXPECT(kind == POST_YIELD && !fn && mp == gp->m && current->g == gp);
	owes_no_lock("yields", 0);
	stage_handoffs++;
}

/* ---- steal.c ---- */

/* After any time: the model runs others in between. */
bool steal_backoff(struct p *victim, struct g *next)
{
	return ld_rlx(&victim->runnext) != next;
}

/* ---- timers.c ---- */

static bool is_armed(const void *arg)
{
	return ((const struct timer *)arg)->heap != NULL;
}

static void run_timer(void *arg)
{
	struct actor *a = arg;
	struct timer *timer = &a->g.timer;
	struct timers *ts = &a->p.timers;

	for (;;) {
		bool won = false;

		model_until(is_armed, timer, "the deadline");
		lock(&ts->lock);
		if (ld_rlx(&timer->heap) == ts) {
			struct g *gp = timer->g;
			uint64_t seq = timer->seq;

			a->late = true;
			st_rel(&timer->heap, NULL);
			won = wait_claim(gp, seq, WAIT_TIMEOUT);
		}
		unlock(&ts->lock);
		if (won)
			injectready(&a->g);
	}
}

uint64_t timer_when(struct timer *t, int clock, uint64_t at)
{
	(void)t;
	(void)clock;
	return at;
}

int timer_arm(struct m *mp, struct timer *t, uint64_t when, uint64_t seq, struct g *gp)
{
	struct timers *ts = &mp->p->timers;
	struct actor *a = actor_of(gp);
	struct thread *child = thread_child(thread_of[a - actors], TIMERCHILD);

	if (stage_nomem)
		return -ENOMEM_;
	lock(&ts->lock);
	EXPECT(ld_rlx(&t->heap) == NULL);
	t->when = when;
	t->seq = seq;
	t->g = gp;
	st_rel(&t->heap, ts);
	unlock(&ts->lock);
	if (child->phase == UNUSED) {
		thread_start(child, names[a - actors][1], run_timer, a, NULL);
		child->daemon = true;
	}
	return 0;
}

void timer_disarm(struct timer *t)
{
	struct timers *ts;

	while ((ts = ld_acq(&t->heap)) != NULL) {
		lock(&ts->lock);
		if (ld_rlx(&t->heap) == ts) {
			st_rel(&t->heap, NULL);
			unlock(&ts->lock);
			return;
		}
		unlock(&ts->lock);
	}
}

/* ---- os.h ---- */

/* Deadlines lie between EARLY and LATE. The clock of a G is late once its timer has fired;
 * that of a foreign thread whenever it looks. Other clocks have been set back. */
uint64_t os_clock(int clock)
{
	struct actor *a = own_actor();

	if (clock != CLOCK_MONO)
		return EARLY;
	if (!current->g && !a->late)
		a->late = model_choose(2, "the time, late") == 1;
	return a->late ? LATE : EARLY;
}

uint64_t nanotime(void)
{
	return EARLY;
}

static bool sleep_ends(const void *arg)
{
	const struct thread *t = arg;

	return t->woken || t->patient || stage_signals > 0;
}

int futexsleep(ATOMIC(uint32_t) *at, uint32_t value, int64_t ns)
{
	struct thread *t = current;
	bool signal;

	memory_sync(&kernel, NULL, NULL, "futexsleep");
	thread_note(t, *at);
	if (*at != value)
		return -EAGAIN_;
	t->sleepson = at;
	t->sleepturn = ++turns;
	t->woken = false;
	t->patient = ns >= 0;
	memory_sync(&kernel, sleep_ends, t, "futexsleep's end");
	t->sleepson = NULL;
	if (t->woken)
		return 0;
	signal = stage_signals > 0 && (!t->patient || model_choose(2, "a signal") == 1);
	if (signal) {
		stage_signals--;
		return -EINTR_;
	}
	own_actor()->late = true;
	return -ETIMEDOUT_;
}

void futexwakeup(ATOMIC(uint32_t) *at, int n)
{
	/* Nobody sleeps yet. */
	if (!current)
		return;
	memory_sync(&kernel, NULL, NULL, "futexwakeup");
	for (; n > 0; n--) {
		struct thread *first = NULL;

		for (int i = 0; i < nthreads; i++) {
			struct thread *t = thread_of[i];
			if (t->sleepson == at && !t->woken &&
			    (!first || t->sleepturn < first->sleepturn))
				first = t;
		}
		if (!first)
			return;
		first->woken = true;
	}
}
