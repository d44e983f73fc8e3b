/* The states of Gs, as tracks.h has them. */
#include "tracks.h"

#include "core.h"
#include "report.h"
#include "san.h"
#include "sched.h"
#include "slices.h"

enum { FIRST_SLOTS = 1024 };

static struct track *tracks;
static uint32_t slots, used;
static uint64_t zero, unsure;
static uint64_t lostat; /* when events were last found to be lost */

/* ---- the table: open addressing ---- */

static uint32_t home_of(uint64_t goid)
{
	return (uint32_t)(goid * 0x9e3779b97f4a7c15u >> 32) & (slots - 1);
}

static struct track *slot_of(uint64_t goid)
{
	uint32_t i = home_of(goid);

	while (tracks[i].goid != goid && tracks[i].goid != 0)
		i = (i + 1) & (slots - 1);
	return &tracks[i];
}

static bool grow(void)
{
	uint32_t n = slots ? 2 * slots : FIRST_SLOTS, before = slots;
	struct track *old = tracks, *more = os_reserve(n * sizeof(*more));

	if (os_failed(more))
		return false;
	tracks = more;
	slots = n;
	for (uint32_t i = 0; i < before; i++)
		if (old[i].goid)
			*slot_of(old[i].goid) = old[i];
	if (old)
		os_release(old, before * sizeof(*old));
	return true;
}

/* NULL: it is not known, and there is no memory. */
static struct track *track_of(uint64_t goid)
{
	struct track *t = slots ? slot_of(goid) : NULL;

	if (t && t->goid)
		return t;
	if (used >= slots / 4 * 3 && !grow())
		return NULL;
	t = slot_of(goid);
	*t = (struct track){ .goid = goid, .any = true };
	used++;
	return t;
}

/* Those behind it move up, so that each is found from its home. */
static void forget(struct track *t)
{
	uint32_t hole = (uint32_t)(t - tracks), i = hole;

	used--;
	for (;;) {
		tracks[hole].goid = 0;
		do {
			i = (i + 1) & (slots - 1);
			if (tracks[i].goid == 0)
				return;
		} while (((i - home_of(tracks[i].goid)) & (slots - 1)) <
			 ((i - hole) & (slots - 1)));
		tracks[hole] = tracks[i];
		hole = i;
	}
}

/* ---- what happens ---- */

/* Ends the state that t is in. False: it is not to be trusted, for events are missing. */
static bool over(struct tracefile *f, struct track *t, uint32_t seq, uint64_t when, const char *end)
{
	bool sure = t->any || seq == t->seq + 1;

	t->seq = seq;
	t->any = false;
	if (when < t->since)
		when = t->since;
	if (t->state != NONE && !sure)
		unsure++;
	if (t->state != NONE && sure) {
		put_names(f, t);
		if (t->state == RUNNING)
			put_run(f, t, when, end);
		put_state(f, t, when, false);
	}
	return sure;
}

static void begins(struct track *t, enum state state, uint64_t when)
{
	t->state = (uint8_t)state;
	if (when > t->since)
		t->since = when;
}

static const char *why_name(uint8_t why)
{
	static const char *const names[] = {
		[POST_GOSCHED] = "yield", [POST_YIELD] = "yield",     [POST_EXIT] = "exit",
		[POST_NOP] = "no P",	  [POST_PREEMPT] = "preempt", [POST_COURTESY] = "courtesy",
	};

	if (why & TRACE_PARK)
		return waitreason_name(why & (uint8_t)~TRACE_PARK);
	return why < sizeof(names) / sizeof(*names) && names[why] ? names[why] : "?";
}

static void stops(struct tracefile *f, uint64_t goid, uint32_t seq, const struct traceevent *ev)
{
	struct track *t = track_of(goid);

	if (!t)
		return;
	/* That it ran is missing. */
	if (t->state == RUNNABLE || t->state == WAITING) {
		t->state = NONE;
		unsure++;
	}
	over(f, t, seq, ev->when, why_name(ev->why));
	if (ev->why == POST_EXIT) {
		forget(t);
		return;
	}
	begins(t, ev->why & TRACE_PARK ? WAITING : RUNNABLE, ev->when);
	t->why = ev->why & (uint8_t)~TRACE_PARK;
	t->on = ev->arg;
	t->p = TRACE_NOP;
}

/* It begins to run, or to be ready, and has run on: that it stopped is missing. */
static void unseen_stop(struct track *t)
{
	if (t->state != RUNNING)
		return;
	t->state = NONE;
	unsure++;
}

static void runs(struct tracefile *f, uint32_t mid, const struct traceevent *ev)
{
	struct track *t = track_of(ev->goid);

	if (!t)
		return;
	unseen_stop(t);
	if (over(f, t, ev->seq, ev->when, NULL) && t->state == RUNNABLE && t->p != TRACE_NOP)
		put_arrow(f, t->p, t->since, ev->p, ev->when > t->since ? ev->when : t->since);
	begins(t, RUNNING, ev->when);
	t->p = ev->p;
	t->mid = mid;
	t->back = ev->kind == TRACE_BACK;
}

static void readied(struct tracefile *f, const struct traceevent *ev)
{
	struct track *t = track_of(ev->goid), *by = ev->other ? track_of(ev->other) : NULL;

	/* The second may have moved the first. */
	t = track_of(ev->goid);
	if (!t)
		return;
	unseen_stop(t);
	over(f, t, ev->seq, ev->when, NULL);
	begins(t, RUNNABLE, ev->when);
	t->on = ev->other;
	t->p = by && by->state == RUNNING ? by->p : TRACE_NOP;
}

static void named(const struct traceevent *ev)
{
	struct track *t = track_of(ev->goid);

	if (!t || ev->why > TRACE_NAME_LEN - sizeof(ev->arg))
		return;
	__builtin_memcpy(t->name + ev->why, &ev->arg, sizeof(ev->arg));
	t->told = false;
}

void tracks_event(struct tracefile *f, uint32_t mid, const struct traceevent *ev)
{
	struct track *t;

	/* Begun while the trace before was on. */
	if (ev->when < zero)
		return;
	switch (ev->kind) {
	case TRACE_NEW:
		t = track_of(ev->goid);
		if (t)
			t->seq = ev->seq, t->any = false;
		break;
	case TRACE_NAME:
		named(ev);
		break;
	case TRACE_READY:
		readied(f, ev);
		break;
	case TRACE_SWITCH:
		stops(f, ev->other, ev->otherseq, ev);
		runs(f, mid, ev);
		break;
	case TRACE_RUN:
	case TRACE_BACK:
		runs(f, mid, ev);
		break;
	case TRACE_STOP:
		stops(f, ev->goid, ev->seq, ev);
		break;
	case TRACE_TAKEN:
		t = track_of(ev->goid);
		if (!t)
			break;
		over(f, t, ev->seq, ev->when, ev->why ? "call" : "block");
		begins(t, ev->why ? CALL : BLOCKED, ev->when);
		break;
	case TRACE_STEAL:
		put_steal(f, ev);
		break;
	}
}

void tracks_begin(uint64_t from)
{
	if (tracks)
		os_release(tracks, slots * sizeof(*tracks));
	tracks = NULL;
	slots = used = 0;
	zero = from;
	unsure = lostat = 0;
	slices_begin(from);
}

/* Torn if it goes on meanwhile; then its next event does not fit, or names another state. */
SAN_RACY static void look_at(struct track *t, struct g *gp, uint32_t status)
{
	struct m *mp = ld_acq(&gp->m);
	struct p *pp = mp ? ld_acq(&mp->p) : NULL;

	t->mid = mp ? mp->id : 0;
	t->seq = ld_rlx(&gp->traceseq);
	t->state = NONE;
	t->p = TRACE_NOP;
	if (status == GWAITING) {
		t->state = WAITING;
		t->why = gp->waitreason;
		t->on = t->why == WAIT_FUTEX ? (uintptr_t)ld_rlx(&gp->waiton) : 0;
	} else if (status == GRUNNABLE || status == GPREEMPTED) {
		t->state = RUNNABLE;
	} else if (status == GSYSCALLNOP || status == GOFFP) {
		t->state = status == GOFFP ? BLOCKED : CALL;
	} else if (pp) {
		t->state = RUNNING;
		t->p = (uint16_t)pp->id;
	}
}

static uint32_t status_of(const struct g *gp)
{
	return ld_acq(&gp->status) & ~(uint32_t)GCLAIM;
}

SAN_RACY void tracks_seed(struct g *gp, const char name[TRACE_NAME_LEN])
{
	uint32_t status = status_of(gp);
	struct track *t;

	if (status == GDEAD || status == GIDLE || !(t = track_of(gp->goid)))
		return;
	t->gp = gp;
	t->since = zero;
	t->any = false;
	__builtin_memcpy(t->name, name, TRACE_NAME_LEN);
	look_at(t, gp, status);
}

/* It was found running when the trace began, and nothing is recorded of it:
 *
 *   G: looks, is not traced     we: turn the trace on
 *      stops                        find it running
 *
 * By now it is through with that. */
SAN_RACY static void look_again(struct track *t)
{
	if (t->gp && t->since == zero && t->state == RUNNING && t->gp->goid == t->goid &&
	    ld_rlx(&t->gp->traceseq) == t->seq)
		look_at(t, t->gp, status_of(t->gp));
}

bool tracks_names(struct tracefile *f)
{
	for (uint32_t i = 0; i < slots; i++) {
		if (tracks[i].goid == 0 || !untold_names(&tracks[i]))
			continue;
		if (put_sofar(f) > TRACEFILE_FULL)
			return false;
		put_names(f, &tracks[i]);
	}
	return true;
}

void tracks_lost(uint64_t now)
{
	lostat = now;
}

/* Of those whose state may have ended unseen: has it? */
SAN_RACY static void look_who_held(void)
{
	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink) {
		struct track *t = slots ? slot_of(gp->goid) : NULL;
		if (t && t->goid)
			t->held = ld_rlx(&gp->traceseq) == t->seq;
	}
}

/* In the order of the table, which is none. */
void tracks_open(struct tracefile *f, uint64_t now, size_t bytes)
{
	size_t most = put_sofar(f) + bytes - 8 * TRACEFILE_PIECE;

	if (lostat != 0)
		look_who_held();
	for (uint32_t i = 0; i < slots && put_sofar(f) < most; i++) {
		struct track *t = &tracks[i];
		uint64_t until = now > t->since ? now : t->since;
		look_again(t);
		if (t->goid == 0 || t->state == NONE || (t->since < lostat && !t->held))
			continue;
		if (t->state == RUNNING)
			put_run(f, t, until, NULL);
		put_state(f, t, until, true);
	}
}

uint64_t tracks_unsure(void)
{
	return unsure;
}
