/* Stacks for Gs: any size, a guard page below, no mapping of its own for each.
 *
 * Large arenas are reserved and cut up; kernel markers serve as guards, so that a
 * million stacks are a handful of mappings. A freed stack is reused first, with its
 * top pages still in the cache. */
#ifndef HEDDLE_STACK_H
#define HEDDLE_STACK_H

#include <stddef.h>
#include <stdint.h>

struct stack {
	uintptr_t lo; /* the lowest byte the program may touch; the guard lies below */
	uintptr_t hi;
};

/* stackalloc: a stack of at least size usable bytes, above a guard of at least guard
 * bytes (0: none).
 * Returns  0, -ENOMEM, or -EINVAL for a size that cannot be.
 * Context  any; Locks: RANK_STACK. Order: stackfree before is visible. */
int stackalloc(struct stack *st, size_t size, size_t guard);

/* stackguard: how large the guard below it is. Context, Locks: as stackalloc. */
size_t stackguard(const struct stack *st);

/* stackexecutable: the stacks of the arenas to come are to be, for a program that asks for it. */
void stackexecutable(void);

/* stackfree: takes it back for reuse. It may be handed out again at once. */
void stackfree(const struct stack *st);

/* stackscavenge: gives back every page of an unused stack but the hot ones: at its top or, if that
 * is not 0, around `base`, where its next use begins, and above. */
void stackscavenge(const struct stack *st, uintptr_t base);

/* stackmapped: bytes reserved for stacks so far; for reports and tests. */
size_t stackmapped(void);

#endif
