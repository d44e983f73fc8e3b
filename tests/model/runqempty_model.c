/* core/runq.c, every interleaving: looks at a queue by those who neither put nor take. A
 * spinner that finds all queues empty goes to sleep, so it must not be wrong. Read
 * runq_scene.h first. */
#include "runq_scene.h"

static void kick_and_get(void *arg)
{
	(void)arg;
	put(1, true);
	get();
	put(2, false);
	get();
}

static void look(void *arg)
{
	(void)arg;
	EXPECT(!runqempty(p0));
}

/* A G goes from runnext to the ring, from the ring to the owner, another follows. */
TEST(a_queue_that_always_has_work_is_never_called_empty)
{
	begin(0);
	runqput(p0, &gs[nput++], true);
	stage_g("owner", kick_and_get, NULL);
	stage_g("spinner", look, NULL);
	nall = 3;
	model_finally(check);
}

static void put_three_then_overflow(void *arg)
{
	(void)arg;
	for (int i = 1; i < 5; i++)
		put(i, false);
}

/* Half of it goes to the global queue, the other half stays. */
TEST(a_queue_that_overflows_is_not_called_empty)
{
	begin(0);
	fill(1);
	stage_g("owner", put_three_then_overflow, NULL);
	stage_g("spinner", look, NULL);
	nall = 5;
	model_finally(check);
}

static void put_next_only(void *arg)
{
	(void)arg;
	put(1, true);
}

/* Once there is something in runnext. */
static void steal_the_other(void *arg)
{
	while (ld_acq(&p0->runnext) == NULL)
		arch_relax();
	steal_into_p1(arg);
}

/* A G leaves the ring when another is in runnext. */
TEST(a_queue_whose_ring_is_emptied_is_not_called_empty)
{
	begin(0);
	fill(1);
	stage_g("owner", put_next_only, NULL);
	stage_g("thief1", steal_the_other, NULL);
	stage_g("spinner", look, NULL);
	nall = 2;
	model_finally(check);
}

/* The dance of WS_I5. The owner: a put, then a look for spinners. The spinner: its mark
 * dropped, then a look at the queue. If neither sees the other the G lies there alone. */
static int sawspinner, sawnothing;

static void drop_the_mark_and_look(void *arg)
{
	(void)arg;
	add_sc(&sched.nmspinning, -1);
	sawnothing = runqempty(p0);
}

static void check_dance(void)
{
	all_there(1);
	EXPECT(!(sawspinner && sawnothing));
	model_reach((unsigned)(sawspinner ? 0 : 1 + sawnothing));
}

static void dance(void (*owner)(void *))
{
	begin(0);
	sched.nmspinning = 1;
	stage_g("owner", owner, NULL);
	stage_g("spinner", drop_the_mark_and_look, NULL);
	model_finally(check_dance);
	model_must_reach(3);
}

static void put_next_and_look(void *arg)
{
	(void)arg;
	put(0, true);
	sawspinner = ld_sc(&sched.nmspinning) != 0;
}

TEST(a_put_into_runnext_or_the_last_look_sees_the_other)
{
	dance(put_next_and_look);
}

static void put_batch_and_look(void *arg)
{
	(void)arg;
	gs[0].goid = 100;
	st_rlx(&gs[0].waitsince, 100);
	runqputbatch(p0, &gs[0], 1);
	sawspinner = ld_sc(&sched.nmspinning) != 0;
}

TEST(a_batch_or_the_last_look_sees_the_other)
{
	dance(put_batch_and_look);
}
