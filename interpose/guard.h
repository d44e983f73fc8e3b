/* A lock of ours inside an object of the program's: one word, zeroed. It blocks Gs. It is free in
 * the child of a fork, whoever held it: so the word bears the number of forks (once.h). */
#ifndef HEDDLE_GUARD_H
#define HEDDLE_GUARD_H

#include <stddef.h>

#include "core.h"
#include "futex.h"
#include "once.h"

enum { GUARD_HELD = 1, GUARD_WAITED = 2, GUARD_STATE = 3 };

/* Is it free, for this process? */
static inline bool guard_free(uint32_t was, uint32_t forks)
{
	return was == 0 || (was & ~(uint32_t)GUARD_STATE) != forks;
}

static inline void guard_lock(ATOMIC(uint32_t) *word)
{
	uint32_t forks = ld_rlx(&once_forks), waited = forks | GUARD_WAITED;

	/* Acquire: pairs with the release in guard_letgo. */
	if (cas_acq(word, 0, forks | GUARD_HELD))
		return;
	/* It is never held for long, and whoever waits for it may hold what others wait for. */
	for (int i = 0; core_canspin(i); i++) {
		if (ld_rlx(word) == 0 && cas_acq(word, 0, forks | GUARD_HELD))
			return;
		core_dospin();
	}
	for (;;) {
		uint32_t was = ld_rlx(word);
		if (guard_free(was, forks)) {
			if (cas_acq(word, was, waited))
				return;
		} else if (was == waited || cas_rlx(word, was, waited)) {
			futex_wait(word, waited, (uint32_t)FUTEX_ANY, NULL, 0);
		}
	}
}

/* guard_letgo: unlocks. Returns the word if one waiter must be woken there, else NULL; the
 * object may be gone by then. A release for queue_wait. */
static inline ATOMIC(uint32_t) *guard_letgo(void *word)
{
	ATOMIC(uint32_t) *w = word;

	return (xchg_rel(w, 0) & GUARD_STATE) == GUARD_WAITED ? w : NULL;
}

static inline void guard_unlock(ATOMIC(uint32_t) *word)
{
	if (guard_letgo(word))
		futex_wake(word, 1, (uint32_t)FUTEX_ANY, 0);
}

#endif
