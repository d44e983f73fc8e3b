/* The twin of core/arch/<cpu>/cpu.h: a pause waits for a change (atomic.h), and there is no
 * clock but the scenario's. */
#ifndef HEDDLE_ARCH_CPU_H
#define HEDDLE_ARCH_CPU_H

#include <stdint.h>

#include "atomic.h"

static inline void arch_relax(void)
{
	model_relax();
}

static inline uint64_t arch_cycles(void)
{
	return 0;
}

enum { ARCH_CYCLES_20US = 50000 };

static inline void arch_fetch(const void *at)
{
	(void)at;
}

#endif
