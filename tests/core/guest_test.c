/* Guests: who comes back from a call that blocked is let in among those that compute; but not one
 * that computes itself, and not more often than they bear. */
#include <time.h>

#include "guest.h"
#include "host.h"
#include "preempt.h"
#include "raw.h"
#include "sched.h"

enum { CALLS = 200 };

static struct group grp;
static ATOMIC(uint32_t) over;

static struct stats stats(void)
{
	struct stats s;
	stats_sum(&s);
	return s;
}

static void computes(void *arg)
{
	(void)arg;
	compute_until(&over);
	group_done(&grp);
}

static void computes_wired(void *arg)
{
	lockosthread();
	computes(arg);
	unlockosthread();
}

/* It has had a slice ended, and so is known to compute. */
static struct g *hog_by(void (*fn)(void *))
{
	struct g *gp = go(fn, NULL);

	while (!choose_computes(gp))
		gosched();
	return gp;
}

static struct g *hog(void)
{
	return hog_by(computes);
}

static uint64_t process_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* How long it waited for a P after a call. */
static uint64_t blocked(void)
{
	uint64_t ended;

	EXPECT(core_lend());
	entersyscall();
	raw_sleep(MS / 10);
	ended = nanotime();
	exitsyscall();
	return nanotime() - ended;
}

static void end(void)
{
	st_rlx(&over, 1);
	group_wait(&grp);
}

TEST(who_comes_back_from_a_call_is_let_in_in_the_midst_of_a_slice)
{
	uint32_t soon = 0;

	start(1);
	grp.left = 1;
	hog();
	for (int i = 0; i < CALLS; i++)
		soon += blocked() < 2 * MS;
	test_say("  %u of %d had a P within 2 ms, %llu as guests", soon, CALLS,
		 (unsigned long long)stats().guests);
	/* Without, each would wait for the end of a slice. */
	EXPECT(soon > CALLS / 8);
	EXPECT(stats().guests > 0);
	end();
}

/* Beside others that are wired, as all who lock what a dead one's heirs may have. */
TEST(who_is_wired_is_let_in_too)
{
	uint32_t soon = 0;

	start(1);
	grp.left = 1;
	hog_by(computes_wired);
	lockosthread();
	for (int i = 0; i < CALLS; i++)
		soon += blocked() < 3 * MS;
	unlockosthread();
	test_say("  %u of %d had a P within 3 ms", soon, CALLS);
	EXPECT(soon > CALLS / 8);
	end();
}

/* But for the first few, until it is known. */
TEST(who_computes_is_no_guest)
{
	enum { COMPUTES = 60 };

	start(1);
	grp.left = 1;
	hog();
	for (int i = 0; i < COMPUTES; i++) {
		blocked();
		burn_ns(MS);
	}
	test_say("  %llu of %d", (unsigned long long)stats().guests, COMPUTES);
	EXPECT(stats().guests <= COMPUTES / 4);
	end();
}

TEST(there_are_no_guests_where_system_calls_are_filtered)
{
	start(1);
	grp.left = 1;
	hog();
	core_filters();
	for (int i = 0; i < 20; i++)
		blocked();
	EXPECT_EQ(stats().guests, 0);
	end();
}

/* With a call each time that its P is worth: the P is lent for the next, too. */
static void works(void *arg)
{
	enum { ROUNDS = 20 };
	ATOMIC(uint32_t) *worth = arg;

	for (int i = 0; i < ROUNDS; i++) {
		burn_ns(MS / 5);
		EXPECT(core_lend());
		entersyscall();
		raw_sleep(MS / 5);
		add_rlx(worth, exitsyscall());
	}
	group_done(&grp);
}

/* They wait for a P longer than a call takes, and for as long as others do among those that
 * compute. */
TEST(among_others_that_block_a_call_is_worth_its_p)
{
	enum { WORKERS = 24, CALLED = WORKERS * 20 };
	ATOMIC(uint32_t) worth = 0;

	start(1);
	grp.left = WORKERS;
	for (int i = 0; i < WORKERS; i++)
		go(works, &worth);
	group_wait(&grp);
	test_say("  %u of %d", ld_rlx(&worth), CALLED);
	EXPECT(ld_rlx(&worth) > CALLED / 2);
}

static ATOMIC(uint32_t) waited, asguests;

static void works_briefly(void *arg)
{
	(void)arg;
	for (int i = 0; i < CALLS; i++) {
		add_rlx(&waited, blocked() > MS / 10);
		add_rlx(&asguests, getg()->guest);
		burn_ns(MS / 10);
	}
	group_done(&grp);
}

/* A guest is served by the M that he has left, which is to be woken for it. */
TEST(where_nobody_computes_there_are_no_guests)
{
	enum { WORKERS = 8 };

	start(1);
	grp.left = WORKERS;
	for (int i = 0; i < WORKERS; i++)
		go(works_briefly, NULL);
	group_wait(&grp);
	test_say("  %u of %d waited, %u as guests", ld_rlx(&waited), WORKERS * CALLS,
		 ld_rlx(&asguests));
	EXPECT(ld_rlx(&waited) > WORKERS * CALLS / 4);
	EXPECT(ld_rlx(&asguests) < ld_rlx(&waited) / 4);
}

static void calls(void *arg)
{
	(void)arg;
	while (!ld_rlx(&over))
		blocked();
	group_done(&grp);
}

static uint64_t its, all;

/* Has the host had its share of what the process had meanwhile? */
static bool shared(struct g *host, uint64_t ns)
{
	uint64_t until = nanotime() + ns;

	its = gcputime(host);
	all = process_cpu();
	while (nanotime() < until)
		blocked();
	its = gcputime(host) - its;
	all = process_cpu() - all;
	return its > all / 8;
}

/* However many there are, and each of them comes before it: it is not starved. Beside other
 * processes the kernel shares by the thread, and the guests have many. */
TEST(many_guests_leave_their_host_its_share)
{
	enum { CALLERS = 20, PARTS = 20, PART_MS = 100 };
	struct g *gp;
	bool once = false;

	start(1);
	grp.left = CALLERS + 1;
	gp = hog();
	for (int i = 0; i < CALLERS; i++)
		go(calls, NULL);
	for (int i = 0; i < PARTS && !once; i++)
		once = shared(gp, PART_MS * MS);
	test_say("  %llu guests; %llu of %llu us of cpu were the host's",
		 (unsigned long long)stats().guests, (unsigned long long)its / 1000,
		 (unsigned long long)all / 1000);
	EXPECT(once);
	end();
}
