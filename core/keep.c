/* What is kept lies side by side in plots. The first is small, and its pages are, for most
 * processes have few threads; those after it are a huge page each: of thousands of threads each has
 * its records in as many places, and the cpu's table of pages has not room for all. */
#include "keep.h"

#include <asm/unistd.h>
#include <linux/mman.h>

#include "early.h"
#include "fault.h"
#include "gmp.h"
#include "os.h"
#include "syscall.h"

enum {
	LEAST = 256 * 1024,
	HUGE = 2 * 1024 * 1024,
	LEFT_BITS = 16,
};

/* Where the rest of the plot begins, and how much there is, both in cache lines. */
FORKED _Alignas(64) static ATOMIC(uint64_t) rest;

static uint64_t rest_of(uintptr_t at, size_t left)
{
	return (uint64_t)at / CACHE_LINE << LEFT_BITS | left / CACHE_LINE;
}

static uintptr_t at_of(uint64_t r)
{
	return (uintptr_t)((r >> LEFT_BITS) * CACHE_LINE);
}

static size_t left_of(uint64_t r)
{
	return (size_t)(r & ((1u << LEFT_BITS) - 1)) * CACHE_LINE;
}

/* A huge page begins at a multiple of its size. */
static uintptr_t huge_plot(void)
{
	char *at = os_reserve(2 * HUGE), *from;

	if (os_failed(at))
		return (uintptr_t)at;
	from = (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	if (from > at)
		os_release(at, (size_t)(from - at));
	os_release(from + HUGE, (size_t)(at + HUGE - from));
	arch_syscall3(__NR_madvise, (long)from, HUGE, MADV_HUGEPAGE);
	return (uintptr_t)from;
}

void *keep(size_t len)
{
	size_t size = (len + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	long failed = fault(FAULT_MMAP);

	if (failed)
		return (void *)failed;
	if (size > LEAST / 2)
		return os_reserve(len);
	for (;;) {
		/* Acquire: what is there is mapped. */
		uint64_t r = ld_acq(&rest);
		size_t left = left_of(r), plot = r == 0 ? LEAST : HUGE;
		uintptr_t at = at_of(r);

		if (size <= left) {
			if (cas_acqrel(&rest, r, rest_of(at + size, left - size)))
				return (void *)at;
			continue;
		}
		at = r == 0 ? (uintptr_t)os_reserve(LEAST) : huge_plot();
		if (os_failed((void *)at))
			return (void *)at;
		/* Release: pairs with the acquire above. What was left there is lost. */
		if (cas_acqrel(&rest, r, rest_of(at + size, plot - size)))
			return (void *)at;
		os_release((void *)at, plot);
	}
}
