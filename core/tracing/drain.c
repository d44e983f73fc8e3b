/* Taking events out of all rings, in the order of their times, and writing what they tell: drain.h.
 */
#include "drain.h"

#include "early.h"
#include "sched.h"
#include "syscall.h"
#include "trace.h"
#include "tracefile.h"
#include "tracks.h"

/* An event is published that soon after its time was taken, or comes too late. */
enum { SLACK_NS = 50 * 1000 };

enum { HOPELESS = 8 };

static struct {
	struct tracefile file;
	bool whole; /* from the process's start on */
	uint64_t zero, lost;
	bool hopeless;
	uint64_t cut; /* the time of the first event that had no room; or 0 */
	struct stats base;
} drain = { .file = { .fd = -1 } };

/* The ring whose next event is the oldest, and the time of the next of all others. */
static struct ring *oldest(struct ring *active, uint64_t *others)
{
	uint64_t first = UINT64_MAX;
	struct ring *found = NULL;

	*others = UINT64_MAX;
	for (struct ring *r = active; r; r = r->link) {
		uint64_t when;
		if (r->at == r->upto)
			continue;
		when = r->events[r->at % RING_EVENTS].when;
		if (when < first || !found) {
			*others = found ? first : UINT64_MAX;
			first = when;
			found = r;
		} else if (when < *others) {
			*others = when;
		}
	}
	return found;
}

static void put_lost(struct ring *r, uint64_t now)
{
	struct tracefile *f = &drain.file;
	uint64_t lost = ld_rlx(&r->lost);

	if (lost == r->told)
		return;
	put(f, "{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"ts\":");
	put_time(f, now - drain.zero);
	put(f, ",\"name\":\"");
	put_number(f, lost - r->told);
	put(f, " events lost\",\"cat\":\"lost\",\"args\":{\"lost\":");
	put_number(f, lost - r->told);
	put(f, ",\"m\":");
	put_number(f, r->mid);
	put(f, "}},\n");
	tracks_lost(nanotime());
	drain.lost += lost - r->told;
	r->told = lost;
}

/* The last element of the array: what the scheduler itself counted since the trace began. */
static void put_totals(uint64_t now)
{
	struct tracefile *f = &drain.file;
	struct stats s;

	stats_sum(&s);
	put(f, "{\"ph\":\"M\",\"pid\":1,\"name\":\"heddle\",\"args\":{\"pid\":");
	put_number(f, (uint64_t)arch_syscall3(__NR_getpid, 0, 0, 0));
	put(f, ",\"procs\":");
	put_number(f, (uint64_t)ld_rlx(&sched.gomaxprocs));
	put(f, ",\"ns\":");
	put_number(f, now - drain.zero);
	put(f, ",\"lost\":");
	put_number(f, drain.lost);
	put(f, ",\"unsure\":");
	put_number(f, tracks_unsure());
	put(f, ",\"whole\":");
	put_number(f, drain.whole);
	put(f, ",\"cut\":");
	put_number(f, drain.cut != 0);
#define X(name, text)                                                                              \
	put(f, ",\"" #name "\":");                                                                 \
	put_number(f, s.name - drain.base.name);
	STATS(X)
#undef X
	put(f, "}}");
}

/* Writes what was put, and behind it what goes on at `now`, in so many bytes. */
static int write_out(uint64_t now, size_t open)
{
	const char *stays = drain.file.to;

	if (open > 0)
		tracks_open(&drain.file, now, open);
	put_totals(now);
	return tracefile_write(&drain.file, stays);
}

/* There is no room for more. */
static void cut(uint64_t when)
{
	struct tracefile *f = &drain.file;

	drain.cut = when;
	put(f, "{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"ts\":");
	put_time(f, when - drain.zero);
	put(f,
	    ",\"name\":\"the trace ends here: the file has reached its limit\",\"cat\":\"cut\"},\n");
}

/* Takes out all up to the horizon. Returns how many events, or -errno of the file. */
static long take(struct ring *active, uint64_t horizon)
{
	uint64_t others;
	struct ring *r;
	int error;
	long n = 0;

	while ((r = oldest(active, &others)) != NULL) {
		if (others > horizon)
			others = horizon;
		if (r->events[r->at % RING_EVENTS].when > others)
			break;
		do {
			const struct traceevent *ev = &r->events[r->at % RING_EVENTS];
			if (ev->when > others)
				break;
			tracks_event(&drain.file, r->mid, ev);
			n++;
			r->at++;
			if (put_sofar(&drain.file) <= TRACEFILE_FULL)
				continue;
			if (tracefile_full(&drain.file)) {
				cut(ev->when);
				return n;
			}
			if ((error = write_out(ev->when, 0)) < 0)
				return error;
		} while (r->at != r->upto);
	}
	return n;
}

/* Names, and what goes on. Whoever asked for all may be about to end, and has a longer end. */
static long finish_round(uint64_t now, uint64_t horizon, bool all, long n)
{
	struct tracefile *f = &drain.file;
	size_t open = all ? TRACEFILE_LAST : TRACEFILE_END;
	int error;

	while (!tracks_names(f) && drain.cut == 0 && !tracefile_full(f))
		if ((error = write_out(now, 0)) < 0)
			return error;
	if (drain.cut == 0 && tracefile_full(f))
		cut(horizon < now ? horizon : now);
	if (open > TRACEFILE_END &&
	    f->most - f->at - put_sofar(f) < TRACEFILE_LAST + TRACEFILE_RESERVE)
		open = TRACEFILE_END;
	error = write_out(drain.cut ? drain.cut : all ? nanotime() : horizon, open);
	return error < 0 ? error : n;
}

long drain_round(bool all)
{
	uint64_t now = nanotime(), horizon = all ? UINT64_MAX : now - SLACK_NS;
	uint64_t lost = drain.lost;
	struct ring *active = NULL;
	long n;

	for (struct ring *r = trace_rings(); r; r = r->next) {
		/* Acquire: pairs with the release in end(): the events are whole. */
		r->upto = ld_acq(&r->n);
		r->at = ld_rlx(&r->taken);
		if (r->at == r->upto)
			continue;
		r->link = active;
		active = r;
	}
	n = take(active, horizon);
	for (struct ring *r = active; r; r = r->link)
		/* Release: pairs with the acquire in begin(): the slots are read. */
		st_rel(&r->taken, r->at);
	if (n < 0)
		return n;
	for (struct ring *r = trace_rings(); r; r = r->next)
		put_lost(r, now);
	drain.hopeless = drain.lost - lost > HOPELESS * (uint64_t)n;
	return finish_round(now, horizon, all, n);
}

/* The file's beginning; it is whole from here on. */
static int put_processes(void)
{
	struct tracefile *f = &drain.file;
	const char *stays;
	int r;

	put(f, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":"
	       "\"Ps: what runs\"}},\n"
	       "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":"
	       "\"Gs: threads of process ");
	put_number(f, (uint64_t)arch_syscall3(__NR_getpid, 0, 0, 0));
	put(f, "\"}},\n");
	stays = f->to;
	put_totals(drain.zero);
	r = tracefile_write(f, stays);
	if (r < 0)
		tracefile_close(f);
	return r;
}

int drain_begin(int fd, uint64_t limit, uint64_t zero, bool whole)
{
	int r = tracefile_open(&drain.file, fd, limit);

	if (r < 0)
		return r;
	drain.whole = whole;
	drain.lost = drain.cut = 0;
	drain.zero = zero;
	drain.base = (struct stats){ 0 };
	if (!whole)
		stats_sum(&drain.base);
	for (struct ring *ring = trace_rings(); ring && !whole; ring = ring->next) {
		st_rel(&ring->taken, ld_acq(&ring->n));
		ring->told = ld_rlx(&ring->lost);
	}
	tracks_begin(zero);
	return put_processes();
}

void drain_end(void)
{
	tracefile_close(&drain.file);
}

bool drain_begun(void)
{
	return drain.file.fd >= 0;
}

bool drain_cut(void)
{
	return drain.cut != 0;
}

bool drain_hopeless(void)
{
	return drain.hopeless;
}

FORKS void drain_forked(void)
{
	drain.file.fd = -1;
}
