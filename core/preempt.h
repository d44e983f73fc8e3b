/* Where preemption keeps off. */
#ifndef HEDDLE_PREEMPT_H
#define HEDDLE_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>

/* preempt_deny: a G whose program counter is in [lo, hi) is not stopped by signal: never,
 * or (always == false) not the first few times in a row, since it may hold a lock of that
 * library's.
 * Returns  false if the list is full. Context: one thread at a time. */
bool preempt_deny(uintptr_t lo, uintptr_t hi, bool always);

#endif
