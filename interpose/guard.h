/* A lock of ours inside an object of the program's: one word, zeroed. It blocks Gs. */
#ifndef HEDDLE_GUARD_H
#define HEDDLE_GUARD_H

#include <stddef.h>

#include "futex.h"

static inline void guard_lock(ATOMIC(uint32_t) *word)
{
	/* Acquire: pairs with the release in guard_letgo. */
	if (cas_acq(word, 0, 1))
		return;
	while (xchg_acq(word, 2) != 0)
		futex_wait(word, 2, (uint32_t)FUTEX_ANY, NULL, 0);
}

/* guard_letgo: unlocks. Returns the word if one waiter must be woken there, else NULL; the
 * object may be gone by then. A release for queue_wait. */
static inline ATOMIC(uint32_t) *guard_letgo(void *word)
{
	ATOMIC(uint32_t) *w = word;

	return xchg_rel(w, 0) == 2 ? w : NULL;
}

static inline void guard_unlock(ATOMIC(uint32_t) *word)
{
	if (guard_letgo(word))
		futex_wake(word, 1, (uint32_t)FUTEX_ANY, 0);
}

#endif
