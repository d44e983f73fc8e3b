/* The futex by syscall(). */
#ifndef HEDDLE_RAWFUTEX_H
#define HEDDLE_RAWFUTEX_H

#include <stdbool.h>

#include "atomic.h"

struct deadline;
struct thread;

/* private_futex: the operation on a private futex, of which a are the arguments. Returns what the
 * kernel would; *ours: false if it is the kernel's. */
long private_futex(long *a, bool *ours);

/* pi_futex: one of FUTEX_LOCK_PI, _LOCK_PI2, _TRYLOCK_PI, _UNLOCK_PI at a word that is the
 * program's. */
long pi_futex(struct thread *t, ATOMIC(uint32_t) *word, int cmd, const struct deadline *d);

/* futex_waits_on_many: the caller is about to call the kernel's futex_waitv. */
void futex_waits_on_many(void);

#endif
