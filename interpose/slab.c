/* The records of threads: they come out of slabs and are never given back, for whoever walks all
 * Gs may look at one. One whose thread was not made, or had a stack of the program's, serves again,
 * and so does its G if it has one; of all others the core's free lists have both.
 *
 * The spare ones are a stack without a lock: who takes one may be stopped anywhere, and others must
 * not wait for him. Above the address of the first stands how often one was taken: the same may be
 * first again, with another behind it. */
#include "cpu.h"
#include "early.h"
#include "os.h"
#include "thread.h"

enum { SLAB = 32 * 1024, PER_SLAB = SLAB / sizeof(struct thread) };

#define TAKEN ((uint64_t)1 << 48)

FORKED _Alignas(64) static ATOMIC(uint64_t) spare;

static struct thread *first_of(uint64_t stack)
{
	return (struct thread *)(uintptr_t)(stack % TAKEN);
}

/* The link of a spare one. 0, as in one that was never touched: the next of its slab; so the pages
 * of those that nobody takes are never asked for. */
enum { NOBODY = 1 };

static uintptr_t link_to(const struct thread *next)
{
	return next ? (uintptr_t)next : NOBODY;
}

static uintptr_t linked(const struct thread *t)
{
	uintptr_t link = ld_rlx(&t->spare);

	return link == NOBODY ? 0 : link ? link : (uintptr_t)(t + 1);
}

/* The chain from first to last, which is nobody's. */
static void put(struct thread *first, struct thread *last)
{
	uint64_t was;

	do {
		was = ld_rlx(&spare);
		st_rlx(&last->spare, link_to(first_of(was)));
		/* Release: pairs with the acquire in take. */
	} while (!cas_rel(&spare, was, was - was % TAKEN + (uintptr_t)first));
}

static struct thread *take(void)
{
	for (;;) {
		/* Acquire: the link is as it was put. */
		uint64_t was = ld_acq(&spare), rest;
		struct thread *t = first_of(was);

		if (!t)
			return NULL;
		/* Of one that others have taken meanwhile it is anything. */
		rest = linked(t);
		if (cas_acq(&spare, was, was - was % TAKEN + TAKEN + rest))
			return t;
	}
}

struct thread *slab_take(void)
{
	struct thread *t = take();

	if (t)
		return t;
	t = os_reserve(SLAB);
	if (os_failed(t))
		return NULL;
	put(&t[1], &t[PER_SLAB - 1]);
	return t;
}

void slab_give(struct thread *t)
{
	put(t, t);
}

FORKS void slab_forked(void)
{
	/* Their Gs were the parent's. */
	st_rlx(&spare, 0);
}
