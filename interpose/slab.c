/* The records of threads: they come out of slabs and are never given back, for whoever walks all
 * Gs may look at one. One whose thread was not made, or had a stack of the program's, serves again,
 * and so does its G if it has one; of all others the core's free lists have both. */
#include "cpu.h"
#include "os.h"
#include "thread.h"

enum { SLAB = 256 * 1024 };

static struct {
	ATOMIC(uint32_t) busy;
	/* By whoever made it busy: */
	char *at, *end;
	struct thread *spare;
} slab;

static void slab_lock(void)
{
	while (xchg_acq(&slab.busy, 1) != 0)
		arch_relax();
}

static void slab_unlock(void)
{
	st_rel(&slab.busy, 0);
}

struct thread *slab_take(void)
{
	struct thread *t;

	slab_lock();
	t = slab.spare;
	if (t) {
		slab.spare = t->next;
		slab_unlock();
		return t;
	}
	if (!slab.at || slab.end - slab.at < (ptrdiff_t)sizeof(*t)) {
		char *at = os_reserve(SLAB);
		if (!os_failed(at)) {
			slab.at = at;
			slab.end = at + SLAB;
		}
	}
	if (slab.at && slab.end - slab.at >= (ptrdiff_t)sizeof(*t)) {
		t = (struct thread *)slab.at;
		slab.at += sizeof(*t);
	}
	slab_unlock();
	return t;
}

void slab_give(struct thread *t)
{
	slab_lock();
	t->next = slab.spare;
	slab.spare = t;
	slab_unlock();
}

void slab_forked(void)
{
	/* Their Gs were the parent's. */
	slab.spare = NULL;
	/* Somebody may have been about to take one. */
	if (xchg_acq(&slab.busy, 0) != 0)
		slab.at = NULL;
}
