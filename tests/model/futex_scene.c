/* The scene of the futex scenarios: two words in two buckets, a third in the first's. Owns
 * the record of which buckets were touched: whatever happens, in the end none counts or
 * holds a waiter. Read futex_scene.h first. */
#include "futex_scene.h"

#include <string.h>

#include "waitq.h"

enum { WORDS = 4096 };

static ATOMIC(uint32_t) words[WORDS];
ATOMIC(uint32_t) *a, *b, *twin;

const struct deadline soon = { CLOCK_MONO, 5000 };
int result[WAITERS];
int count_of[4];
int written;

static struct bucket *touched[8];
static int ntouched;

/* As futex.c's bucket_of; a scenario that hits another bucket than it means to is weaker, not
 * wrong. */
static unsigned hash(const void *addr)
{
	return (unsigned)((uintptr_t)addr * 0x9e3779b97f4a7c15u >> 54);
}

MODEL_UNWATCHED static void check_bucket(struct mutex *l)
{
	struct bucket *bucket = (struct bucket *)l;

	if (l->rank != RANK_FUTEX)
		return;
	EXPECT(waitq_check(bucket));
	for (int i = 0; i < ntouched; i++)
		if (touched[i] == bucket)
			return;
	model_name(bucket, sizeof(*bucket), "bucket%d", ntouched);
	touched[ntouched++] = bucket;
}

void begin(void)
{
	stage_begin();
	stage_unlocking = check_bucket;
	memset(count_of, 0, sizeof(count_of));
	for (int i = 0; i < WAITERS; i++)
		result[i] = NEVER;
	ntouched = written = 0;
	a = &words[0];
	for (int i = 1; !b || !twin; i++) {
		if (!b && hash(&words[i]) > hash(a))
			b = &words[i];
		if (!twin && hash(&words[i]) == hash(a))
			twin = &words[i];
	}
	*a = *b = *twin = 0;
	model_name(a, 4, "*a");
	model_name(b, 4, "*b");
	model_name(twin, 4, "*twin");
}

MODEL_UNWATCHED unsigned linked_waiters(void)
{
	unsigned n = 0;

	for (int i = 0; i < ntouched; i++)
		for (const struct waiter *w = touched[i]->root; w; w = w->next)
			n++;
	return n;
}

void no_waiters(void)
{
	for (int i = 0; i < ntouched; i++) {
		EXPECT_EQ(touched[i]->nwait, 0);
		EXPECT(touched[i]->root == NULL);
		EXPECT_EQ(touched[i]->lock.key, 0);
	}
	for (int i = 0; i < ACTORS; i++)
		EXPECT(actors[i].g.timer.heap == NULL);
}

/* ---- what threads do ---- */

__attribute__((noinline)) int wait_on(ATOMIC(uint32_t) *at, const struct deadline *d, int flags)
{
	int r;

	model_frame();
	r = futex_wait(at, 0, (uint32_t)FUTEX_ANY, d, flags);
	model_frame_over();
	if (getg())
		EXPECT(ld_rlx(&getg()->timer.heap) == NULL);
	/* The waker's writes are visible: else this is a data race. */
	if (r == 0)
		EXPECT_EQ(written, 1);
	return r;
}

void wait_a(void *arg)
{
	*(int *)arg = wait_on(a, NULL, 0);
}

void wait_a_timed(void *arg)
{
	*(int *)arg = wait_on(a, &soon, 0);
}

void wait_b(void *arg)
{
	*(int *)arg = wait_on(b, NULL, 0);
}

static bool are_parked(const void *arg)
{
	const int *n = arg;

	for (int i = 0; i < *n; i++)
		if (!stage_parked(&actors[i].g))
			return false;
	return true;
}

/* Until the first n threads, all Gs, wait. */
void until_parked(const int *n)
{
	model_until(are_parked, n, "the waiters are parked");
}

const int one = 1, two = 2, three = 3;

void wait_second(void *arg)
{
	until_parked(&one);
	*(int *)arg = wait_on(a, NULL, 0);
}

void wait_third_but_first(void *arg)
{
	until_parked(&two);
	*(int *)arg = wait_on(a, NULL, FUTEX_LIFO);
}

void check_order(void)
{
	no_waiters();
	EXPECT_EQ(stage_nready, 3);
	EXPECT(stage_order[0] == &actors[2].g);
	EXPECT(stage_order[1] == &actors[0].g);
	EXPECT(stage_order[2] == &actors[1].g);
	for (int i = 0; i < 3; i++)
		EXPECT(result[i] == 0);
}
