/* What is made of events. Not for builds without tracing. */
#include "tracks.h"

#include <string.h>

#include "host.h"
#include "sched.h"

static ATOMIC(uint32_t) word, begun;

static void computes_then_sleeps(void *arg)
{
	st_sc(&begun, 1);
	while (ld_sc(&begun) == 1)
		arch_relax();
	futex_wait(&word, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	group_done(arg);
}

static char bytes[TRACEFILE_BYTES];

static bool says(const struct tracefile *f, const char *text)
{
	return memmem(f->buf, put_sofar(f), text, strlen(text)) != NULL;
}

/* It looked whether it is traced just before the trace began, and stopped after. */
TEST(who_stops_unrecorded_as_the_trace_begins_does_not_run_for_ever)
{
	static struct group grp;
	struct tracefile f = { .buf = bytes, .to = bytes };
	struct g *gp;

	start(2);
	grp.left = 1;
	gp = go(computes_then_sleeps, &grp);
	while (ld_sc(&begun) != 1)
		gosched();
	tracks_begin(now_ns());
	tracks_seed(gp, (char[TRACE_NAME_LEN]){ "it" });
	tracks_open(&f, now_ns(), TRACEFILE_LAST);
	EXPECT(says(&f, "\"running\""));
	st_sc(&begun, 2);
	until_waiting(gp);
	f.to = f.buf;
	tracks_open(&f, now_ns(), TRACEFILE_LAST);
	EXPECT(!says(&f, "\"running\""));
	EXPECT(says(&f, "\"cat\":\"wait\""));
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

/* Nor is it shown as running when the next that is recorded of it is that it is made ready. */
TEST(who_is_made_ready_did_not_run_until_then)
{
	static struct group grp;
	struct tracefile f = { .buf = bytes, .to = bytes };
	struct traceevent ev = { .kind = TRACE_READY };
	struct g *gp;

	start(2);
	grp.left = 1;
	gp = go(computes_then_sleeps, &grp);
	while (ld_sc(&begun) != 1)
		gosched();
	tracks_begin(now_ns());
	tracks_seed(gp, (char[TRACE_NAME_LEN]){ "it" });
	ev.goid = gp->goid;
	ev.seq = ld_rlx(&gp->traceseq) + 1;
	ev.when = now_ns();
	tracks_event(&f, 1, &ev);
	EXPECT(!says(&f, "\"running\""));
	st_sc(&begun, 2);
	until_waiting(gp);
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}
