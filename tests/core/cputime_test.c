/* The cpu time of Gs: each is charged what it ran, by whichever Ms, and whoever asks meanwhile
 * never sees it go back. Not for builds without tracing. */
#include "cputime.h"

#include "host.h"
#include "os.h"
#include "sched.h"

enum {
	GS = 6,
	LOOKERS = 2,
	ROUNDS = 3000,
	PROCESS = 2 /* CLOCK_PROCESS_CPUTIME_ID */,
	MS_NS = 1000 * 1000
};

static struct group grp;
static struct g *gs[GS];
static ATOMIC(uint64_t) sum;
static ATOMIC(uint32_t) done, lookers;

/* Those that compute are stopped when their slices are over, and go on elsewhere. */
static void computes(void *arg)
{
	uint64_t end = gcputime(getg()) + (uintptr_t)arg * MS_NS, begun = end;

	begun -= (uintptr_t)arg * MS_NS;
	EXPECT(begun < 10 * MS_NS);
	while (gcputime(getg()) < end)
		compute(1000);
	add_rlx(&sum, gcputime(getg()) - begun);
	group_done(&grp);
}

static void charged_on(int procs)
{
	uint64_t before, all;

	start(procs);
	gcputime(getg());
	before = os_clock(PROCESS);
	grp.left = GS;
	for (uintptr_t i = 0; i < GS; i++)
		go(computes, (void *)(10 * (i + 1)));
	group_wait(&grp);
	all = os_clock(PROCESS) - before;
	EXPECT(sum >= (uint64_t)210 * MS_NS);
	EXPECT(sum <= all);
}

TEST(each_g_is_charged_what_it_ran_on_one_p)
{
	charged_on(1);
}

TEST(each_g_is_charged_what_it_ran_on_several_ps)
{
	charged_on(4);
}

/* Not before those who look are there, who would else begin as one of these. */
static void hops(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	while (ld_rlx(&lookers) < LOOKERS)
		gosched();
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t now = gcputime(getg());
		EXPECT(now >= last);
		last = now;
		if (i % 64 == 0)
			sleep_ns(1000);
		else
			gosched();
	}
	add_rlx(&done, 1);
	group_done(&grp);
}

static void looks(void *arg)
{
	uint64_t last[GS] = { 0 };

	(void)arg;
	add_rlx(&lookers, 1);
	while (ld_rlx(&done) < GS) {
		for (int i = 0; i < GS; i++) {
			uint64_t now = gcputime(gs[i]);
			EXPECT(now >= last[i]);
			EXPECT(now <= os_clock(PROCESS));
			last[i] = now;
		}
		/* Another that looks may be behind it, whom those who wait for it never steal. */
		gosched();
	}
	group_done(&grp);
}

TEST(it_does_not_go_back_whoever_asks)
{
	start(4);
	grp.left = GS + LOOKERS;
	for (int i = 0; i < GS; i++)
		gs[i] = go(hops, NULL);
	for (int i = 0; i < LOOKERS; i++)
		go(looks, NULL);
	group_wait(&grp);
}

/* Before anybody asks. */
static void computes_for_long(void *arg)
{
	uint64_t begun = os_clock(PROCESS), used;

	(void)arg;
	while (os_clock(PROCESS) - begun < (uint64_t)200 * MS_NS)
		compute(1000);
	used = gcputime(getg());
	EXPECT(used > (uint64_t)120 * MS_NS);
	EXPECT(used < (uint64_t)280 * MS_NS);
	group_done(&grp);
}

TEST(what_ran_before_anybody_asked_is_roughly_known)
{
	start(1);
	grp.left = 1;
	go(computes_for_long, NULL);
	group_wait(&grp);
}
