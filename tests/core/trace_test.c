/* The rings of events: who ran where, without gaps; what finds its ring full is counted, and seen
 * by each G's numbers. Not for builds without tracing. */
#include "trace.h"

#include <pthread.h>

#include "host.h"
#include "sched.h"

enum { MAX_MS = 64, GS = 100 };

static struct group grp;

/* What trace_read told of one M. */
struct seen {
	uint64_t last; /* time */
	uint64_t running; /* goid; 0: none */
	uint64_t events, runs, stops;
	bool begun; /* with runs and stops */
};

static struct seen seen[MAX_MS];
static uint64_t run_of[10 * GS], ready_of[10 * GS], new_of[10 * GS];

static void stops(struct seen *m, uint64_t goid)
{
	/* The first may be of one that ran when the recording began. */
	EXPECT(m->running == goid || !m->begun);
	m->running = 0;
	m->begun = true;
	m->stops++;
}

static void runs(struct seen *m, const struct traceevent *ev, uint32_t procs)
{
	EXPECT_EQ(m->running, 0);
	EXPECT(ev->p < procs);
	m->running = ev->goid;
	m->begun = true;
	m->runs++;
	run_of[ev->goid]++;
}

static void look(uint32_t mid, const struct traceevent *ev, void *arg)
{
	struct seen *m = &seen[mid];
	uint32_t procs = *(uint32_t *)arg;

	EXPECT(mid < MAX_MS);
	EXPECT(ev->when >= m->last);
	m->last = ev->when;
	m->events++;
	switch (ev->kind) {
	case TRACE_SWITCH:
		stops(m, ev->other);
		runs(m, ev, procs);
		break;
	case TRACE_RUN:
		runs(m, ev, procs);
		break;
	case TRACE_STOP:
		stops(m, ev->goid);
		break;
	case TRACE_NEW:
		new_of[ev->goid]++;
		break;
	case TRACE_READY:
		ready_of[ev->goid]++;
		break;
	case TRACE_STEAL:
		EXPECT(ev->arg < procs && ev->p < procs);
		break;
	default:
		EXPECT(!"an event of that kind");
	}
}

static uint64_t lost(void)
{
	uint64_t n = 0;

	for (struct ring *r = trace_rings(); r; r = r->next)
		n += ld_rlx(&r->lost);
	return n;
}

static void yield_some(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
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
	trace_on(false);
}

TEST(each_run_of_a_g_has_its_end)
{
	uint32_t procs = 4;
	uint64_t nruns = 0, nstops = 0;
	uint32_t told = 0;

	start_with((int)procs, without_sysmon);
	record(procs);
	trace_read(look, &procs);
	EXPECT_EQ(lost(), 0);
	for (int i = 0; i < MAX_MS; i++) {
		nruns += seen[i].runs;
		nstops += seen[i].stops;
		/* Each M but ours has ended its last. */
		told += seen[i].running != 0;
	}
	EXPECT(told <= 1);
	EXPECT(nstops >= nruns - 1 && nstops <= nruns + 1);
	/* Of each G its beginning, and its slices. */
	for (uint64_t g = 2, n = 0; n < GS && g < 10 * GS; g++) {
		if (new_of[g] == 0)
			continue;
		EXPECT_EQ(new_of[g], 1);
		EXPECT(ready_of[g] >= 1);
		EXPECT(run_of[g] >= 2);
		n++;
	}
}

static uint64_t events, newest;
static uint32_t seq_of[10 * GS];

static void look_at_numbers(uint32_t mid, const struct traceevent *ev, void *arg)
{
	uint32_t *gaps = arg;

	(void)mid;
	events++;
	newest = ev->when;
	if (ev->kind == TRACE_STEAL)
		return;
	if (seq_of[ev->goid] != 0 && ev->seq != seq_of[ev->goid] + 1)
		++*gaps;
	seq_of[ev->goid] = ev->seq;
	if (ev->kind == TRACE_SWITCH)
		seq_of[ev->other] = ev->otherseq;
}

TEST(a_full_ring_keeps_the_oldest_and_counts_the_rest)
{
	enum { MORE = 1000 };
	uint32_t gaps = 0;
	uint64_t full;

	start_with(1, without_sysmon);
	grp.left = 1;
	go(yield_some, NULL);
	group_wait(&grp);
	trace_on(true);
	/* From g0 each is an end and a beginning; nobody else is there. */
	for (int i = 0; i < (RING_EVENTS + MORE) / 2; i++)
		goyield();
	full = now_ns();
	EXPECT(lost() >= MORE && lost() <= MORE + 2);
	trace_read(look_at_numbers, &gaps);
	EXPECT_EQ(events, RING_EVENTS);
	EXPECT(newest < full);
	EXPECT_EQ(gaps, 0);
	/* There is room again; that something is missing shows. */
	goyield();
	trace_on(false);
	trace_read(look_at_numbers, &gaps);
	EXPECT(events > RING_EVENTS && newest > full);
	EXPECT_EQ(gaps, 1);
}

TEST(nothing_is_recorded_unless_it_is_wanted)
{
	start(2);
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_some, NULL);
	group_wait(&grp);
	EXPECT(trace_rings() == NULL);
}

static void *start_ten(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(newproc(yield_some, NULL, SMALL_STACK, NULL), 0);
	return NULL;
}

static uint32_t others, news;

static void look_for_others(uint32_t mid, const struct traceevent *ev, void *arg)
{
	(void)arg;
	if (mid == UINT32_MAX) {
		others++;
		news += ev->kind == TRACE_NEW;
	}
}

TEST(threads_that_are_no_ms_share_a_ring)
{
	pthread_t t[4];

	start(2);
	grp.left = 40;
	trace_on(true);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, start_ten, NULL);
	group_wait(&grp);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	trace_on(false);
	trace_read(look_for_others, NULL);
	EXPECT_EQ(news, 40);
	EXPECT_EQ(others, 80);
}
