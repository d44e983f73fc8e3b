/* Single instructions of the cpu that C has no name for. */
#ifndef HEDDLE_ARCH_CPU_H
#define HEDDLE_ARCH_CPU_H

#include <stdint.h>

static inline void arch_relax(void)
{
	__asm__ volatile("pause");
}

/* arch_fetch: into the caches. (gcc takes a function that does no more than __builtin_prefetch for
 * one that does nothing.) */
static inline void arch_fetch(const void *at)
{
	__asm__ volatile("prefetcht0 (%0)" : : "r"(at));
}

/* arch_cycles: a clock that is cheap, monotonic enough for "a while ago", and of
 * no fixed unit. */
static inline uint64_t arch_cycles(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* About 20 µs of arch_cycles() on the machines of this decade. */
enum { ARCH_CYCLES_20US = 50000 };

#endif
