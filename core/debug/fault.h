/* Fault injection: the n-th call of a kind fails. Debug builds only; the twin in
 * release/ is empty. */
#ifndef HEDDLE_FAULT_H
#define HEDDLE_FAULT_H

#include "atomic.h"

enum faultkind { FAULT_MMAP, FAULT_GUARD, FAULT_CLONE, FAULT_EPOLL, FAULT_KINDS };

/* Calls of each kind that still go well; negative: all do. Written by tests. */
extern ATOMIC(int32_t) fault_after[FAULT_KINDS] __attribute__((visibility("hidden")));

/* fault: 0, or -ENOMEM if this call is to fail. From the first failure on all fail,
 * until a test sets the count anew. */
static inline long fault(enum faultkind kind)
{
	if (ld_rlx(&fault_after[kind]) < 0)
		return 0;
	if (ld_rlx(&fault_after[kind]) == 0)
		return -12;
	add_rlx(&fault_after[kind], -1);
	return 0;
}

#endif
