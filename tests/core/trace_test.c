/* The rings of events: who ran where, without gaps, and the newest when one is full. Not for
 * builds without tracing. */
#include "trace.h"

#include "host.h"
#include "sched.h"

enum { RING_EVENTS = 16384, MAX_MS = 64, GS = 100 };

static struct group grp;

/* What trace_read told of one M. */
struct seen {
	uint64_t last; /* time */
	uint64_t running; /* goid; 0: none */
	uint64_t events, runs, stops, steals, mstops;
	bool begun; /* with runs and stops */
};

static struct seen seen[MAX_MS];
static uint64_t run_of[10 * GS], ready_of[10 * GS];

static void look(uint32_t mid, const struct traceevent *ev, void *arg)
{
	struct seen *m = &seen[mid];

	EXPECT(mid < MAX_MS);
	EXPECT(ev->when >= m->last);
	m->last = ev->when;
	m->events++;
	switch (ev->kind) {
	case TRACE_RUN:
		EXPECT_EQ(m->running, 0);
		EXPECT(ev->arg < *(uint32_t *)arg);
		m->running = ev->goid;
		m->begun = true;
		m->runs++;
		run_of[ev->goid]++;
		break;
	case TRACE_STOP:
		/* The first may be of one that ran when the recording began. */
		EXPECT(m->running == ev->goid || !m->begun);
		m->running = 0;
		m->begun = true;
		m->stops++;
		break;
	case TRACE_READY:
		ready_of[ev->goid]++;
		break;
	case TRACE_STEAL:
		EXPECT(ev->arg < *(uint32_t *)arg);
		m->steals++;
		break;
	case TRACE_MSTOP:
		EXPECT_EQ(m->running, 0);
		m->mstops++;
		break;
	default:
		EXPECT(!"an event of that kind");
	}
}

static void yield_some(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		gosched();
		goyield();
	}
	group_done(&grp);
}

static void record(uint32_t procs)
{
	struct stats s;

	grp.left = GS;
	trace_on(true);
	for (int i = 0; i < GS; i++)
		go(yield_some, NULL);
	group_wait(&grp);
	/* Until nobody writes any more. */
	do {
		os_yield();
		stats_sum(&s);
	} while (s.finished < GS);
	while (ld_sc(&sched.npidle) != (int32_t)procs - 1)
		os_yield();
	sleep_ns(1000 * 1000);
	trace_on(false);
}

TEST(each_run_of_a_g_has_its_end)
{
	uint32_t procs = 4;
	uint64_t runs = 0, stops = 0, mstops = 0;
	uint32_t told = 0;

	start_with((int)procs, without_sysmon);
	record(procs);
	trace_read(look, &procs);
	for (int i = 0; i < MAX_MS; i++) {
		runs += seen[i].runs;
		stops += seen[i].stops;
		mstops += seen[i].mstops;
		/* Each M but ours has ended its last. */
		told += seen[i].running != 0;
	}
	EXPECT(told <= 1);
	EXPECT(stops >= runs - 1 && stops <= runs + 1);
	EXPECT(mstops > 0);
	/* Of each G its beginning, and its slices. */
	for (uint64_t g = 0, n = 0; n < GS && g < 10 * GS; g++) {
		if (g == 1 || ready_of[g] == 0)
			continue;
		EXPECT(run_of[g] >= 2);
		n++;
	}
}

TEST(a_full_ring_keeps_the_newest)
{
	uint32_t procs = 1;
	uint64_t from;

	start_with(1, without_sysmon);
	record(1);
	grp.left = 2;
	for (int i = 0; i < 2; i++)
		go(yield_some, NULL);
	trace_on(true);
	/* Each is an end and a beginning. */
	for (int i = 0; i < RING_EVENTS; i++)
		goyield();
	from = now_ns();
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_some, NULL);
	group_wait(&grp);
	trace_on(false);
	trace_read(look, &procs);
	EXPECT_EQ(seen[0].events, RING_EVENTS);
	EXPECT(seen[0].last > from);
}

TEST(nothing_is_recorded_unless_it_is_wanted)
{
	uint32_t procs = 2;

	start(2);
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_some, NULL);
	group_wait(&grp);
	trace_read(look, &procs);
	for (int i = 0; i < MAX_MS; i++)
		EXPECT_EQ(seen[i].events, 0);
}
