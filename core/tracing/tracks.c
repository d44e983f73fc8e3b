/* The states of Gs, as tracks.h has them. */
#include "tracks.h"

#include "core.h"
#include "report.h"
#include "san.h"
#include "sched.h"

enum { FIRST_SLOTS = 1024, PROCESS_PS = 1, PROCESS_GS = 2 };

enum state { NONE, RUNNABLE, RUNNING, WAITING, CALL, BLOCKED };

struct track {
	uint64_t goid; /* 0: a free slot */
	struct g *gp; /* of one that was there when the trace began, else NULL */
	uint64_t since;
	uint64_t on; /* what it waits for; who readied it */
	uint32_t mid;
	uint32_t seq;
	uint16_t p; /* where it runs; where it was readied, or TRACE_NOP */
	uint8_t state;
	uint8_t why; /* it waits: waitreason */
	bool any; /* its next event may have any number */
	bool back; /* this run began before, and lost its P for a while */
	bool held; /* nothing happened to it since, recorded or not */
	bool told; /* its name stands in the file */
	char name[TRACE_NAME_LEN];
};

static struct track *tracks;
static uint32_t slots, used;
static uint64_t zero, unsure, arrows;
static uint64_t lostat; /* when events were last found to be lost */
static uint64_t told_ps[MAX_PROCS / 64];

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

/* ---- what is put ---- */

static void put_name(struct tracefile *f, const struct track *t)
{
	put(f, "G ");
	put_number(f, t->goid);
	if (t->name[0])
		put(f, " ");
	put_text(f, t->name, TRACE_NAME_LEN);
}

static void put_track_name(struct tracefile *f, uint64_t process, uint64_t track)
{
	put(f, "{\"ph\":\"M\",\"pid\":");
	put_number(f, process);
	put(f, ",\"tid\":");
	put_number(f, track);
	put(f, ",\"name\":\"thread_name\",\"args\":{\"name\":\"");
}

static bool on_untold_p(const struct track *t)
{
	return t->state == RUNNING && !(told_ps[t->p / 64] >> t->p % 64 & 1);
}

static void tell_names(struct tracefile *f, struct track *t)
{
	if (!t->told) {
		t->told = true;
		put_track_name(f, PROCESS_GS, t->goid);
		put_name(f, t);
		put(f, "\"}},\n");
	}
	if (on_untold_p(t)) {
		told_ps[t->p / 64] |= (uint64_t)1 << t->p % 64;
		put_track_name(f, PROCESS_PS, t->p);
		put(f, "P ");
		put_number(f, t->p);
		put(f, "\"}},\n");
	}
}

static void put_span(struct tracefile *f, uint64_t track, uint64_t since, uint64_t until)
{
	put_number(f, track);
	put(f, ",\"ts\":");
	put_time(f, since - zero);
	put(f, ",\"dur\":");
	put_time(f, until - since);
	put(f, ",\"name\":\"");
}

static const char *why_name(uint8_t why)
{
	static const char *const names[] = {
		[POST_GOSCHED] = "yield", [POST_YIELD] = "yield",     [POST_EXIT] = "exit",
		[POST_NOP] = "no P",	  [POST_PREEMPT] = "preempt",
	};

	if (why & TRACE_PARK)
		return waitreason_name(why & (uint8_t)~TRACE_PARK);
	return why < sizeof(names) / sizeof(*names) && names[why] ? names[why] : "?";
}

static void put_word(struct tracefile *f, const char *word)
{
	while (*word)
		*f->to++ = *word++;
}

/* On its P's track: end: why it stopped; NULL: it goes on. */
static void put_run(struct tracefile *f, const struct track *t, uint64_t until, const char *end)
{
	put(f, "{\"ph\":\"X\",\"pid\":1,\"tid\":");
	put_span(f, t->p, t->since, until);
	put_name(f, t);
	put(f, "\",\"args\":{\"g\":");
	put_number(f, t->goid);
	put(f, ",\"m\":");
	put_number(f, t->mid);
	if (t->back)
		put(f, ",\"back\":true");
	if (end) {
		put(f, ",\"end\":\"");
		put_word(f, end);
		put(f, "\"}},\n");
	} else {
		put(f, ",\"open\":true}},\n");
	}
}

static void put_wait(struct tracefile *f, const struct track *t)
{
	bool fd = t->why == WAIT_READ || t->why == WAIT_WRITE;

	put_word(f, waitreason_name(t->why));
	put(f, "\",\"cat\":\"wait\",\"args\":{\"w\":");
	put_number(f, t->why);
	if (t->on != 0 && fd && (int32_t)t->on >= 0) {
		put(f, ",\"fd\":");
		put_number(f, t->on);
	} else if (t->on != 0 && !fd) {
		put(f, ",\"on\":\"");
		put_hex(f, t->on);
		put(f, "\"");
	}
}

/* On its own track. */
static void put_state(struct tracefile *f, const struct track *t, uint64_t until, bool open)
{
	put(f, "{\"ph\":\"X\",\"pid\":2,\"tid\":");
	put_span(f, t->goid, t->since, until);
	switch (t->state) {
	case RUNNING:
		put(f, "running\",\"args\":{\"p\":");
		put_number(f, t->p);
		break;
	case RUNNABLE:
		put(f, "runnable\",\"args\":{\"by\":");
		put_number(f, t->on);
		break;
	case WAITING:
		put_wait(f, t);
		break;
	case CALL:
		put(f, "call\",\"args\":{\"m\":");
		put_number(f, t->mid);
		break;
	default:
		put(f, "blocked\",\"args\":{\"m\":");
		put_number(f, t->mid);
	}
	if (open)
		put(f, ",\"open\":true");
	put(f, "}},\n");
}

/* From who readied it to where it runs. */
static void put_arrow(struct tracefile *f, uint32_t from, uint64_t then, uint32_t to, uint64_t now)
{
	put(f, "{\"ph\":\"s\",\"pid\":1,\"cat\":\"ready\",\"name\":\"ready\",\"id\":");
	put_number(f, ++arrows);
	put(f, ",\"tid\":");
	put_number(f, from);
	put(f, ",\"ts\":");
	put_time(f, then - zero);
	put(f, "},\n{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"cat\":\"ready\",\"name\":\"ready\","
	       "\"id\":");
	put_number(f, arrows);
	put(f, ",\"tid\":");
	put_number(f, to);
	put(f, ",\"ts\":");
	put_time(f, now - zero);
	put(f, "},\n");
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
		tell_names(f, t);
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

static void stolen(struct tracefile *f, const struct traceevent *ev)
{
	put(f, "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"name\":\"steal\",\"tid\":");
	put_number(f, ev->p);
	put(f, ",\"ts\":");
	put_time(f, ev->when - zero);
	put(f, ",\"args\":{\"g\":");
	put_number(f, ev->goid);
	put(f, ",\"from\":");
	put_number(f, ev->arg);
	put(f, "}},\n");
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
		stolen(f, ev);
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
	unsure = arrows = lostat = 0;
	for (uint32_t i = 0; i < MAX_PROCS / 64; i++)
		told_ps[i] = 0;
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
		if (tracks[i].goid == 0 || (tracks[i].told && !on_untold_p(&tracks[i])))
			continue;
		if (put_sofar(f) > TRACEFILE_FULL)
			return false;
		tell_names(f, &tracks[i]);
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
