/* Writing and following of turns.h. */
#include "policies/turns.h"

#include <asm/unistd.h>

#include "early.h"
#include "os.h"
#include "sched.h"
#include "syscall.h"
#include "text.h"

enum {
	TURN_MOST = 20, /* bytes of a turn */
	NEVER_NS = 1000000000, /* twice so many: a slice that is not over */
	SOON_NS = 200 * 1000,
};

/* For a G that is to be woken by another, while none is chosen. */
static const uint64_t PATIENCE_NS = (uint64_t)5 * 1000 * 1000 * 1000;

enum what { OFF, RECORDS, REPLAYS };

/* Under sched.lock, but what is said otherwise. */
static struct {
	struct turnlog *log;
	enum what what;
	uint64_t goid, points; /* of the turn that is under way; goid 0: none */
	/* Of a replay: */
	const uint8_t *at; /* the next turn */
	uint64_t number;
	uint64_t wanted, until; /* the turn that is under way, or next: whose, how many points */
	enum turnend how;
	bool begun;
	uint64_t since; /* nobody was chosen, though it is somebody's turn: sysmon's */
	ATOMIC(bool) due; /* the world's end of a turn: read by all */
} now;

static struct turnhead *head(void)
{
	return (struct turnhead *)(void *)now.log->at;
}

static struct turnmark *latest(void)
{
	return &head()->marks[head()->latest & 1];
}

/* ---- words ---- */

static const char *const were[] = {
	[TURN_WAITS] = " was to wait",	 [TURN_ENDS] = " was to end",
	[TURN_YIELDS] = " was to yield", [TURN_POINT] = " was to give way",
	[TURN_CALL] = " was to block",	 [TURN_CLOCK] = " was to be stopped",
	[TURN_LAST] = " was to go on",	 [TURN_OUTSIDE] = " was to wait",
};

static const char *const are[] = {
	[TURN_WAITS] = " waits",	   [TURN_ENDS] = " ends",
	[TURN_YIELDS] = " yields",	   [TURN_POINT] = " gives way",
	[TURN_CALL] = " blocks in a call", [TURN_CLOCK] = " is stopped",
	[TURN_LAST] = " goes on",	   [TURN_OUTSIDE] = " waits",
};

static void put_g(struct text *t, uint64_t goid)
{
	text_put(t, "G ");
	text_unsigned(t, goid);
}

static void depart_begin(struct text *t)
{
	text_put(t, "heddle: replay: the program departs from ");
	text_put(t, now.log->name);
	text_put(t, " in turn ");
	text_unsigned(t, now.number);
	text_put(t, " of ");
	text_unsigned(t, latest()->turns + 1);
	text_put(t, ": ");
}

static void __attribute__((noreturn)) depart_end(struct text *t)
{
	text_put(t, "\n");
	text_write2(t);
	for (;;)
		arch_syscall3(__NR_exit_group, TURNS_DEPARTED, 0, 0);
}

static void depart(const char *is)
{
	char buf[512];
	struct text t = TEXT(buf);

	depart_begin(&t);
	put_g(&t, now.wanted);
	text_put(&t, were[now.how]);
	text_put(&t, " after ");
	text_unsigned(&t, now.until);
	text_put(&t, " points, and");
	text_put(&t, is);
	text_put(&t, " after ");
	text_unsigned(&t, now.points);
	depart_end(&t);
}

static void say(const char *what)
{
	char buf[512];
	struct text t = TEXT(buf);

	text_put(&t, now.what == RECORDS ? "heddle: record: " : "heddle: replay: ");
	text_put(&t, now.log->name);
	text_put(&t, what);
	text_put(&t, "\n");
	text_write2(&t);
}

/* From here on all is as the policy has it. */
static void stop(void)
{
	now.what = OFF;
	st_rlx(&now.due, false);
}

/* ---- the log ---- */

static uint8_t *put(uint8_t *to, uint64_t n)
{
	while (n >= 0x80) {
		*to++ = (uint8_t)(n | 0x80);
		n >>= 7;
	}
	*to++ = (uint8_t)n;
	return to;
}

static bool get(uint64_t *n)
{
	const uint8_t *end = now.log->at + latest()->used;

	*n = 0;
	for (unsigned shift = 0; now.at < end && shift < 64; shift += 7) {
		*n |= (uint64_t)(*now.at & 0x7f) << shift;
		if (!(*now.at++ & 0x80))
			return true;
	}
	return false;
}

static void write_turn(enum turnend how)
{
	struct turnmark m = *latest();
	uint8_t *to = now.log->at + m.used, *end;

	if (m.used + TURN_MOST > now.log->size && !now.log->grow(now.log)) {
		say(" can grow no more: what comes is not recorded");
		stop();
		return;
	}
	end = put(put(to, now.goid), now.points << TURN_BITS | how);
	m.sum = turns_sum(m.sum, to, (size_t)(end - to));
	m.used += (uint64_t)(end - to);
	m.turns++;
	head()->marks[!head()->latest] = m;
	/* Whoever is killed in between has the mark before. */
	compiler_barrier();
	head()->latest = !head()->latest;
	head()->goid = 0;
}

static void read_turn(void)
{
	uint64_t word;

	now.begun = false;
	now.points = 0;
	now.number++;
	st_rlx(&now.due, false);
	if (now.number > latest()->turns) {
		now.wanted = head()->goid;
		now.until = head()->points;
		now.how = TURN_LAST;
	} else if (get(&now.wanted) && get(&word)) {
		now.until = word >> TURN_BITS;
		now.how = (enum turnend)(word & ((1u << TURN_BITS) - 1));
	} else {
		say(" is damaged: the program goes on by itself");
		stop();
	}
}

static bool by_world(enum turnend how)
{
	return how == TURN_CALL || how == TURN_CLOCK || how == TURN_OUTSIDE;
}

static void set_due(void)
{
	st_rlx(&now.due, now.begun && by_world(now.how) && now.points >= now.until);
}

/* The last turn of the log has no end there: the process ended within it, or was. */
static void log_ends(void)
{
	say(" ends here: the program goes on by itself");
	stop();
}

/* ---- the beginning and the end ---- */

void turns_begin(struct turnlog *log)
{
	sched.turned = log != NULL;
	now = (__typeof__(now)){ .log = log, .what = OFF };
	if (!log)
		return;
	now.what = log->replays ? REPLAYS : RECORDS;
	now.goid = 1;
	if (now.what == RECORDS) {
		latest()->used = sizeof(struct turnhead);
		head()->goid = now.goid;
		return;
	}
	now.at = log->at + sizeof(struct turnhead);
	read_turn();
	now.begun = true;
	set_due();
}

void turns_over(void)
{
	if (now.what == REPLAYS && (now.how != TURN_LAST || now.points < now.until))
		depart(" ends the process");
	now.what = OFF;
}

FORKS void turns_forked(void)
{
	if (sched.turned)
		now.what = OFF;
}

/* ---- what is decided ---- */

static bool replay_point(const struct g *gp, bool *again)
{
	if (!now.begun || gp->goid != now.wanted)
		return false;
	/* It was stopped before it got here. */
	if (by_world(now.how) && now.points == now.until)
		return *again = true;
	now.points++;
	if (now.points > now.until && now.how == TURN_LAST)
		log_ends();
	else if (now.points > now.until)
		depart(are[TURN_LAST]);
	set_due();
	return now.how == TURN_POINT && now.points == now.until;
}

bool turns_point_locked(const struct g *gp, bool gives, bool *again)
{
	if (now.what == REPLAYS)
		return replay_point(gp, again);
	if (now.what == RECORDS && gp->goid == now.goid)
		head()->points = ++now.points;
	return gives;
}

/* What it begins now lasted, then: at its end it is to give way. If it lasts again sysmon sees to
 * it before. */
void turns_pointed(void)
{
	struct m *mp;
	struct g *gp;

	if (likely(!ld_rlx(&now.due)) || now.how != TURN_CALL)
		return;
	gp = getg();
	mp = pin(gp);
	st_rlx(&mp->preempttick, ld_rlx(&mp->p->schedtick) + 1);
	/* As unpin(), which would look at the mark at once. */
	st_rel(&gp->status, GRUNNING);
	compiler_barrier();
	st_rlx(&mp->preemptmissed, true);
}

static void replay_left(const struct g *gp, enum turnend how)
{
	if (!now.begun || gp->goid != now.wanted)
		return;
	if (now.how == TURN_LAST && !by_world(how)) {
		log_ends();
		return;
	}
	/* Each may stand for the other, and for giving way where it went on then. */
	if (by_world(now.how) && now.points == now.until &&
	    (by_world(how) || how == TURN_POINT ||
	     (now.how == TURN_OUTSIDE && how == TURN_WAITS))) {
		read_turn();
		return;
	}
	if (how == TURN_OUTSIDE && now.how == TURN_WAITS && now.points == now.until)
		how = TURN_WAITS;
	if (by_world(how)) {
		/* Its turn goes on when it is back. */
		now.begun = false;
		st_rlx(&now.due, false);
		return;
	}
	if (how != now.how || now.points != now.until)
		depart(are[how]);
	read_turn();
}

void turns_left(const struct g *gp, enum turnend how)
{
	lock(&sched.lock);
	if (now.what == REPLAYS) {
		replay_left(gp, how);
	} else if (now.what == RECORDS && gp->goid == now.goid) {
		write_turn(how);
		now.goid = 0;
	}
	unlock(&sched.lock);
}

uint64_t turns_next_locked(void)
{
	if (now.what != REPLAYS)
		return 0;
	/* It came to its end with nobody running; and now somebody is. */
	if (now.wanted == 0 && now.how == TURN_LAST && sched.runqsize > 0) {
		log_ends();
		return 0;
	}
	/* GOMAXPROCS is 1: whoever asks holds the only P. */
	return now.wanted;
}

bool turns_may_locked(const struct g *gp)
{
	return now.what != REPLAYS || gp->goid == now.wanted;
}

void turns_picked_locked(const struct g *gp)
{
	if (now.what == RECORDS) {
		now.goid = head()->goid = gp->goid;
		now.points = head()->points = 0;
	} else if (now.what == REPLAYS) {
		now.begun = true;
		now.since = 0;
		set_due();
	}
}

/* ---- the clock ---- */

uint64_t turns_slice(void)
{
	if (now.what != REPLAYS)
		return 0;
	return ld_rlx(&now.due) ? SOON_NS : (uint64_t)NEVER_NS * NEVER_NS;
}

bool turns_keeps(void)
{
	return now.what == REPLAYS && !ld_rlx(&now.due);
}

bool turns_waits(void)
{
	return now.what == REPLAYS && !now.begun;
}

static struct g *g_of(uint64_t goid)
{
	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		if (gp->goid == goid && ld_acq(&gp->status) != GDEAD)
			return gp;
	return NULL;
}

/* Who waits for another is woken by one that runs, and none does. What comes from outside comes in
 * its own time. */
static const char *never_comes(const struct g *gp)
{
	if (!gp)
		return ", which is not there";
	if (ld_acq(&gp->status) == GWAITING && gp->waitreason == WAIT_FUTEX &&
	    !ld_rlx(&gp->timer.heap))
		return ", which waits for another";
	return NULL;
}

void turns_watch(uint64_t at)
{
	char buf[512];
	struct text t = TEXT(buf);
	const char *why;

	if (now.what != REPLAYS)
		return;
	lock(&sched.lock);
	if (now.begun || now.wanted == 0) {
		now.since = 0;
	} else if ((why = never_comes(g_of(now.wanted))) == NULL || now.since == 0) {
		now.since = at;
	} else if (at - now.since > PATIENCE_NS) {
		depart_begin(&t);
		text_put(&t, "it is the turn of ");
		put_g(&t, now.wanted);
		text_put(&t, why);
		depart_end(&t);
	}
	unlock(&sched.lock);
}
