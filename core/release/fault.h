/* No fault injection: the twin of debug/fault.h. */
#ifndef HEDDLE_FAULT_H
#define HEDDLE_FAULT_H

enum faultkind { FAULT_MMAP, FAULT_GUARD, FAULT_CLONE, FAULT_EPOLL, FAULT_KINDS };

static inline long fault(enum faultkind kind)
{
	(void)kind;
	return 0;
}

#endif
