/* The records of threads: they are never given back, for whoever walks all Gs may look at one. One
 * whose thread was not made, or had a stack of the program's, serves again, and so does its G if it
 * has one; of all others the core's free lists have both.
 *
 * The spare ones are a stack without a lock: who takes one may be stopped anywhere, and others must
 * not wait for him. Above the address of the first stands how often one was taken: the same may be
 * first again, with another behind it. */
#include "cpu.h"
#include "early.h"
#include "keep.h"
#include "os.h"
#include "thread.h"

#define TAKEN ((uint64_t)1 << 48)

FORKED _Alignas(64) static ATOMIC(uint64_t) spare;

static struct thread *first_of(uint64_t stack)
{
	return (struct thread *)(uintptr_t)(stack % TAKEN);
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
		rest = ld_rlx(&t->spare);
		if (cas_acq(&spare, was, was - was % TAKEN + TAKEN + rest))
			return t;
	}
}

struct thread *spare_take(void)
{
	struct thread *t = take();

	if (t)
		return t;
	t = keep(sizeof(*t));
	return os_failed(t) ? NULL : t;
}

void spare_give(struct thread *t)
{
	uint64_t was;

	do {
		was = ld_rlx(&spare);
		st_rlx(&t->spare, (uintptr_t)first_of(was));
		/* Release: pairs with the acquire in take. */
	} while (!cas_rel(&spare, was, was - was % TAKEN + (uintptr_t)t));
}

FORKS void spare_forked(void)
{
	/* Their Gs were the parent's. */
	st_rlx(&spare, 0);
}
