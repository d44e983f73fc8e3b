/* The local run queue on bare structs, without a running scheduler: what is put is got,
 * once, in order, by owner and thieves, across the wrap of the indices and at the rim. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/resource.h>

#include "host.h"
#include "sched.h"

enum { GS = 2 * RUNQ_SIZE + 100 };

static struct p ps[2];
static struct p *const p0 = &ps[0], *const p1 = &ps[1];
static struct g gs[GS];

/* Where the indices stand when a queue is new: also just before they wrap. */
static const uint32_t starts[] = { 0,	      1, RUNQ_SIZE - 1, UINT32_MAX - 300, UINT32_MAX - 127,
				   UINT32_MAX };

enum { STARTS = sizeof(starts) / sizeof(starts[0]) };

static void fresh(uint32_t at)
{
	memset(ps, 0, sizeof(ps));
	p0->runqhead = p0->runqtail = at;
	p1->runqhead = p1->runqtail = at + 77;
	sched.runq.head = sched.runq.tail = sched.runqearly = NULL;
	sched.runqsize = 0;
	sched.gomaxprocs = 1;
	for (int i = 0; i < GS; i++) {
		gs[i].goid = (uint64_t)i;
		gs[i].status = GRUNNABLE;
		gs[i].schedlink = NULL;
	}
}

static void put_first(int n)
{
	for (int i = 0; i < n; i++)
		runqput(p0, &gs[i], false);
}

static struct g *get(struct p *pp)
{
	bool inherit = true;
	struct g *gp = runqget(pp, &inherit);

	EXPECT(!inherit);
	return gp;
}

static struct g *get_global(void)
{
	struct g *gp;

	lock(&sched.lock);
	gp = globrunqget_locked(NULL);
	unlock(&sched.lock);
	return gp;
}

TEST(what_is_put_is_got_in_order)
{
	for (int s = 0; s < STARTS; s++) {
		fresh(starts[s]);
		for (int n = 0; n <= RUNQ_SIZE; n++) {
			EXPECT(get(p0) == NULL);
			put_first(n);
			EXPECT_EQ(p0->runqtail - p0->runqhead, n);
			for (int i = 0; i < n; i++)
				EXPECT(get(p0) == &gs[i]);
			EXPECT(get(p0) == NULL);
		}
		EXPECT_EQ(sched.runqsize, 0);
	}
}

TEST(runqgrab_takes_half_rounded_up)
{
	for (int s = 0; s < STARTS; s++) {
		for (int n = 0; n <= RUNQ_SIZE; n++) {
			int half = (n + 1) / 2;
			fresh(starts[s]);
			put_first(n);
			EXPECT_EQ(runqgrab(p0, p1, 1000, false), half);
			/* The oldest, in order, and they are gone from the victim. */
			for (int i = 0; i < half; i++)
				EXPECT(p1->runq[(1000 + i) % RUNQ_SIZE] == &gs[i]);
			EXPECT_EQ(p0->runqtail - p0->runqhead, n - half);
			for (int i = half; i < n; i++)
				EXPECT(get(p0) == &gs[i]);
			/* The thief's tail moves in runqsteal only. */
			EXPECT(p1->runqhead == p1->runqtail);
		}
	}
}

TEST(what_is_stolen_is_run_once)
{
	for (int s = 0; s < STARTS; s++) {
		fresh(starts[s]);
		for (int n = 0; n <= RUNQ_SIZE; n++) {
			int half = (n + 1) / 2;
			put_first(n);
			/* The last one grabbed runs first, the others queue up in order. */
			EXPECT(runqsteal(p1, p0, true) == (n ? &gs[half - 1] : NULL));
			for (int i = 0; i < half - 1; i++)
				EXPECT(get(p1) == &gs[i]);
			EXPECT(get(p1) == NULL);
			for (int i = half; i < n; i++)
				EXPECT(get(p0) == &gs[i]);
			EXPECT(get(p0) == NULL);
		}
	}
}

TEST(the_257th_g_moves_half_to_the_global_queue)
{
	for (int s = 0; s < STARTS; s++) {
		fresh(starts[s]);
		put_first(RUNQ_SIZE);
		EXPECT_EQ(sched.runqsize, 0);
		EXPECT_EQ(p0->stats.overflows, 0);
		runqput(p0, &gs[RUNQ_SIZE], false);
		EXPECT_EQ(p0->runqtail - p0->runqhead, RUNQ_SIZE / 2);
		EXPECT_EQ(sched.runqsize, RUNQ_SIZE / 2 + 1);
		EXPECT_EQ(p0->stats.overflows, 1);
		for (int i = 0; i < RUNQ_SIZE / 2; i++)
			EXPECT(get_global() == &gs[i]);
		EXPECT(get_global() == &gs[RUNQ_SIZE]);
		EXPECT(get_global() == NULL);
		for (int i = RUNQ_SIZE / 2; i < RUNQ_SIZE; i++)
			EXPECT(get(p0) == &gs[i]);
		EXPECT(get(p0) == NULL);
	}
}

TEST(runnext_kicks_its_predecessor_to_the_tail)
{
	bool inherit = false;

	fresh(UINT32_MAX);
	runqput(p0, &gs[0], false);
	runqput(p0, &gs[1], true);
	EXPECT(p0->runnext == &gs[1]);
	EXPECT_EQ(p0->runqtail - p0->runqhead, 1);
	runqput(p0, &gs[2], true);
	EXPECT(p0->runnext == &gs[2]);
	EXPECT_EQ(p0->runqtail - p0->runqhead, 2);
	EXPECT(runqget(p0, &inherit) == &gs[2]);
	EXPECT(inherit);
	EXPECT(p0->runnext == NULL);
	EXPECT(get(p0) == &gs[0]);
	EXPECT(get(p0) == &gs[1]);
	EXPECT(get(p0) == NULL);
}

TEST(runnext_does_not_count_among_the_256)
{
	bool inherit;

	fresh(0);
	put_first(RUNQ_SIZE);
	runqput(p0, &gs[RUNQ_SIZE], true);
	EXPECT_EQ(sched.runqsize, 0);
	/* Its successor kicks it into a full ring. */
	runqput(p0, &gs[RUNQ_SIZE + 1], true);
	EXPECT_EQ(sched.runqsize, RUNQ_SIZE / 2 + 1);
	EXPECT(runqget(p0, &inherit) == &gs[RUNQ_SIZE + 1]);
}

TEST(runnext_is_left_alone_unless_asked_for)
{
	fresh(UINT32_MAX);
	runqput(p0, &gs[0], true);
	EXPECT_EQ(runqgrab(p0, p1, 0, false), 0);
	EXPECT(runqsteal(p1, p0, false) == NULL);
	EXPECT(p0->runnext == &gs[0]);
	/* Even then the ring goes first. */
	runqput(p0, &gs[1], false);
	EXPECT(runqsteal(p1, p0, true) == &gs[1]);
	EXPECT(p0->runnext == &gs[0]);
	EXPECT(runqsteal(p1, p0, true) == &gs[0]);
	EXPECT(p0->runnext == NULL);
	EXPECT(runqsteal(p1, p0, true) == NULL);
	EXPECT(p1->runqhead == p1->runqtail);
}

/* p0 has one in runnext, and runs a G of that status. */
static void next_beside(uint32_t status)
{
	static struct m owner;
	static struct g running;

	st_rlx(&running.status, status);
	st_rlx(&owner.curg, &running);
	st_rlx(&p0->m, &owner);
	runqput(p0, &gs[0], true);
}

/* ns that the theft of runnext takes while its owner runs a G of that status. */
static uint64_t theft_takes(uint32_t status)
{
	uint64_t t;

	fresh(0);
	next_beside(status);
	t = now_ns();
	EXPECT(runqsteal(p1, p0, true) == &gs[0]);
	return now_ns() - t;
}

TEST(a_thief_gives_the_owner_3_us_for_its_runnext)
{
	enum { BACKOFF_NS = 3000 };
	uint64_t fastest = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t ns = theft_takes(GSYSCALL);
		EXPECT(theft_takes(GRUNNING) >= BACKOFF_NS);
		EXPECT(theft_takes(GPINNED) >= BACKOFF_NS);
		fastest = ns < fastest ? ns : fastest;
	}
	/* An owner in a system call will not come to it soon. */
	EXPECT(fastest < BACKOFF_NS);
}

static void *steal_until_kept(void *arg)
{
	while (!ld_rlx(&p0->kept))
		if (runqsteal(p1, p0, true))
			EXPECT(!ld_rlx(&p0->kept));
	return arg;
}

/* How often did the search for a G of p0's sleep? A sanitizer may have put it to sleep, too. */
static long theft_sleeps(struct g **got)
{
	struct rusage before, after;

	EXPECT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
	*got = runqsteal(p1, p0, true);
	EXPECT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
	return after.ru_nvcsw - before.ru_nvcsw;
}

TEST(a_thief_sleeps_for_the_runnext_of_an_owner_that_took_the_last)
{
	pthread_t thief;
	struct g *got;
	bool inherit;

	fresh(0);
	EXPECT_EQ(pthread_create(&thief, NULL, steal_until_kept, NULL), 0);
	while (!ld_rlx(&p0->kept)) {
		next_beside(GRUNNING);
		for (int i = 0; i < 100; i++)
			arch_relax();
		runqget(p0, &inherit);
	}
	EXPECT_EQ(pthread_join(thief, NULL), 0);
	next_beside(GRUNNING);
	EXPECT(theft_sleeps(&got) > 0 && got == &gs[0]);
	/* It got it this time. */
	next_beside(GRUNNING);
	EXPECT(theft_sleeps(&got) == 0 && got == &gs[0]);
}

static ATOMIC(bool) stolen_from;

static void *takes_its_next_on_and_on(void *arg)
{
	bool inherit;

	/* Another each time, and one is nearly always there. */
	for (int k = 0; !ld_rlx(&stolen_from); k = (k + 1) % 7) {
		runqget(p0, &inherit);
		runqput(p0, &gs[k], true);
		for (int i = 0; i < 100; i++)
			arch_relax();
	}
	return arg;
}

/* There may be others with work. */
TEST(a_thief_waits_for_one_runnext_of_an_owner_and_no_more)
{
	pthread_t owner;
	struct g *got;
	long waits = 0, sleeps = 0;

	fresh(0);
	next_beside(GRUNNING);
	EXPECT_EQ(pthread_create(&owner, NULL, takes_its_next_on_and_on, NULL), 0);
	while (waits < 100) {
		long n;
		st_rlx(&p0->kept, true);
		n = theft_sleeps(&got);
		waits += n > 0;
		sleeps += n;
	}
	EXPECT(sleeps < waits + waits / 4);
	st_rlx(&stolen_from, true);
	EXPECT_EQ(pthread_join(owner, NULL), 0);
}

static struct g *chain(int from, int n)
{
	for (int i = from; i < from + n; i++)
		gs[i].schedlink = i + 1 < from + n ? &gs[i + 1] : NULL;
	return n ? &gs[from] : NULL;
}

TEST(a_batch_fills_the_ring_and_the_rest_goes_to_the_global_queue)
{
	for (int s = 0; s < STARTS; s++) {
		for (int have = 0; have <= RUNQ_SIZE; have += 64) {
			for (int n = 0; have + n <= RUNQ_SIZE + 100; n += 50) {
				int fits = n < RUNQ_SIZE - have ? n : RUNQ_SIZE - have;
				fresh(starts[s]);
				put_first(have);
				runqputbatch(p0, chain(have, n), n);
				EXPECT_EQ(p0->runqtail - p0->runqhead, have + fits);
				EXPECT_EQ(sched.runqsize, n - fits);
				for (int i = 0; i < have + fits; i++)
					EXPECT(get(p0) == &gs[i]);
				for (int i = have + fits; i < have + n; i++)
					EXPECT(get_global() == &gs[i]);
				EXPECT(get_global() == NULL);
			}
		}
	}
}

TEST(a_drained_queue_is_whole_in_the_global_one)
{
	for (int s = 0; s < STARTS; s++) {
		fresh(starts[s]);
		put_first(200);
		runqput(p0, &gs[200], true);
		lock(&sched.lock);
		runqdrain_locked(p0);
		unlock(&sched.lock);
		EXPECT(runqempty(p0));
		EXPECT_EQ(sched.runqsize, 201);
		EXPECT(get_global() == &gs[200]);
		for (int i = 0; i < 200; i++)
			EXPECT(get_global() == &gs[i]);
	}
}

static void put_early(int first)
{
	struct gqueue q = { NULL, NULL };

	gqueue_push(&q, &gs[first]);
	gqueue_push(&q, &gs[first + 1]);
	globrunqputearly_locked(&q, 2);
}

TEST(one_share_of_the_global_queue_is_its_oldest)
{
	struct g *rest;
	int32_t n;

	fresh(0);
	sched.gomaxprocs = 4;
	lock(&sched.lock);
	for (int i = 0; i < 100; i++)
		globrunqput_locked(&gs[i]);
	/* 100 / 4 + 1 */
	EXPECT(globrunqgetbatch_locked(NULL, 128, &rest, &n) == &gs[0]);
	EXPECT_EQ(n, 25);
	for (int i = 1; i <= 25; i++, rest = rest->schedlink)
		EXPECT(rest == &gs[i]);
	EXPECT(rest == NULL);
	EXPECT_EQ(sched.runqsize, 74);
	EXPECT(globrunqgetbatch_locked(NULL, 1, &rest, &n) == &gs[26]);
	EXPECT_EQ(n, 0);
	/* What comes early goes before all others, in its order. */
	put_early(200);
	put_early(202);
	EXPECT_EQ(sched.runqsize, 77);
	EXPECT_EQ(sched.early, 4);
	EXPECT(globrunqget_locked(NULL) == &gs[200]);
	/* The last of them, from behind the one that is first now. */
	globrunqremove_locked(&gs[203], &gs[202]);
	EXPECT_EQ(sched.early, 2);
	put_early(204);
	/* One that did not. */
	globrunqremove_locked(&gs[27], &gs[205]);
	EXPECT_EQ(sched.early, 4);
	EXPECT(globrunqget_locked(NULL) == &gs[201]);
	EXPECT(globrunqget_locked(NULL) == &gs[202]);
	EXPECT(globrunqget_locked(NULL) == &gs[204]);
	EXPECT(globrunqget_locked(NULL) == &gs[205]);
	EXPECT_EQ(sched.early, 0);
	EXPECT(globrunqget_locked(NULL) == &gs[28]);
	unlock(&sched.lock);
}

static void put_one_that_waits(void)
{
	fresh(0);
	gs[0].status = GWAITING;
	runqput(p0, &gs[0], false);
}

static void put_one_that_runs_globally(void)
{
	fresh(0);
	gs[0].status = GRUNNING;
	globrunqput_locked(&gs[0]);
}

TEST(a_g_that_is_not_runnable_is_refused)
{
	if (!has_dcheck()) {
		skipped("DCHECK is empty");
		return;
	}
	expect_broken("WS_I10", put_one_that_waits);
	expect_broken("GMP_G3", put_one_that_runs_globally);
}

/* ---- with real threads ---- */

static ATOMIC(bool) over;

enum { MOVES = 1000000 };

static void *look_whether_empty(void *arg)
{
	EXPECT(!runqempty(p0));
	sem_post(arg);
	while (!ld_acq(&over))
		EXPECT(!runqempty(p0));
	return NULL;
}

/* As Go's RunSchedLocalQueueEmptyTest, but that the G goes round and round: from runnext to
 * the ring and, because a thief takes the one before it, alone in runnext again. */
TEST(a_queue_that_always_holds_one_never_looks_empty)
{
	pthread_t looker;
	sem_t looking;
	bool inherit;

	sem_init(&looking, 0, 0);
	fresh(UINT32_MAX - 1000);
	runqput(p0, &gs[0], true);
	pthread_create(&looker, NULL, look_whether_empty, &looking);
	EXPECT_EQ(sem_wait(&looking), 0);
	for (int i = 0; i < MOVES; i++) {
		struct g *gp = &gs[(i + 1) % 2];
		runqput(p0, gp, true);
		EXPECT(runqget(p0, &inherit) == gp);
		runqput(p0, gp, true);
		EXPECT_EQ(runqgrab(p0, p1, 0, false), 1);
	}
	st_rel(&over, true);
	pthread_join(looker, NULL);
}

enum { THIEVES = 3, STORM = 300000, STOLEN = 3000 };

static ATOMIC(uint32_t) taken[GS]; /* how often each G was put, less how often got */
static ATOMIC(uint32_t) got;
static ATOMIC(uint32_t) stolen;

static void take(struct g *gp)
{
	EXPECT_EQ(add_sc(&taken[gp->goid], (uint32_t)-1), 1);
	add_sc(&got, 1);
	/* From here on the owner may put it again. */
	st_rel(&gp->waitreason, 0);
}

static void *steal(void *arg)
{
	struct p *mine = arg;
	struct g *gp;
	bool inherit;

	while (!ld_acq(&over)) {
		gp = runqsteal(mine, p0, ld_rlx(&got) % 2);
		if (!gp) {
			sched_yield();
			continue;
		}
		add_rlx(&stolen, 1);
		take(gp);
		while ((gp = runqget(mine, &inherit)) != NULL)
			take(gp);
	}
	return NULL;
}

static void put_free_one(uint64_t *rng, uint32_t *put)
{
	struct g *gp = &gs[random_below(rng, GS)];

	if (ld_acq(&gp->waitreason) != 0)
		return;
	st_rlx(&gp->waitreason, 1);
	add_sc(&taken[gp->goid], 1);
	++*put;
	runqput(p0, gp, random_below(rng, 4) == 0);
}

TEST(owner_and_thieves_take_each_g_once)
{
	static struct p thieves[THIEVES];
	pthread_t threads[THIEVES];
	uint64_t rng = test_seed() | 1;
	uint32_t put = 0;
	struct g *gp;
	bool inherit;

	fresh(UINT32_MAX - STORM / 3);
	/* Once for sure; later it depends on the thieves. */
	while (p0->stats.overflows == 0)
		put_free_one(&rng, &put);
	for (int i = 0; i < THIEVES; i++)
		pthread_create(&threads[i], NULL, steal, &thieves[i]);
	while (put < STORM || ld_rlx(&stolen) < STOLEN) {
		/* Bursts fill the queue to the rim, and over. */
		for (uint32_t n = random_below(&rng, 600); n > 0; n--)
			put_free_one(&rng, &put);
		for (uint32_t n = random_below(&rng, 20); n > 0; n--)
			if ((gp = runqget(p0, &inherit)) != NULL)
				take(gp);
		while (random_below(&rng, 8) != 0 && (gp = get_global()) != NULL)
			take(gp);
	}
	while ((gp = runqget(p0, &inherit)) != NULL || (gp = get_global()) != NULL)
		take(gp);
	/* What is left is in the hands of thieves, who come to it before they end. */
	st_rel(&over, true);
	for (int i = 0; i < THIEVES; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(got, put);
	for (int i = 0; i < GS; i++)
		EXPECT_EQ(taken[i], 0);
}
