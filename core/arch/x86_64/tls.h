/* The one thread-local word, and the register that says whose it is.
 *
 * A G with an FS base of its own (all of them, in the injected object) keeps this
 * word for life, so a cached address of it stays right when the G moves to another
 * M. A G without one shares its M's; that is why each switch stores the word anew
 * and why it is read by an instruction that no compiler may hoist. */
#ifndef HEDDLE_ARCH_TLS_H
#define HEDDLE_ARCH_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"

struct g;

extern __thread struct g *heddle_g __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* getg: the running G; the g0 of an M inside its scheduler; NULL on a kernel thread
 * that is not an M. */
static inline struct g *getg(void)
{
	struct g *gp;
	__asm__ volatile("movq heddle_g@gottpoff(%%rip), %0\n\t"
			 "movq %%fs:(%0), %0"
			 : "=r"(gp));
	return gp;
}

/* tls_wordof: the word of another thread block. */
static inline ATOMIC(struct g *) *tls_wordof(uintptr_t fsbase)
{
	uintptr_t off;
	__asm__("movq heddle_g@gottpoff(%%rip), %0" : "=r"(off));
	return (ATOMIC(struct g *) *)(fsbase + off);
}

static inline void setg(struct g *gp)
{
	void *at;
	__asm__ volatile("movq heddle_g@gottpoff(%%rip), %0\n\t"
			 "movq %1, %%fs:(%0)"
			 : "=&r"(at)
			 : "r"(gp)
			 : "memory");
}

/* arch_tls_word: 32 bits of the calling thread's block, at an offset from its FS base. */
static inline uint32_t arch_tls_word(ptrdiff_t offset)
{
	uint32_t word;
	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

/* True if this cpu and kernel let user code load the FS base. Set by arch_init. */
extern bool arch_fsgsbase __attribute__((visibility("hidden")));

/* The same, asked of the kernel: also before arch_init. */
bool arch_loads_bases(void);

uintptr_t arch_getfs(void);
void arch_setfs_slow(uintptr_t base);

static inline void arch_setfs(uintptr_t base)
{
	if (__builtin_expect(arch_fsgsbase, true))
		__asm__ volatile("wrfsbase %0" : : "r"(base) : "memory");
	else
		arch_setfs_slow(base);
}

/* arch_getgs, arch_setgs: the base of GS, which programs load by an instruction: whatever they keep
 * there. 0, and not to be set, where user code cannot. */
static inline uintptr_t arch_getgs(void)
{
	uintptr_t base = 0;

	if (__builtin_expect(arch_fsgsbase, true))
		__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

static inline void arch_setgs(uintptr_t base)
{
	__asm__ volatile("wrgsbase %0" : : "r"(base) : "memory");
}

/* arch_tls_init: makes a bare thread block in mem, good for the core and for calls
 * that use no more of libc's thread-local state than errno.
 * Returns  its FS base; below it are `below` zeroed bytes for thread-local data.
 * mem holds arch_tls_size(below) bytes, zeroed, aligned to 64. */
size_t arch_tls_size(size_t below);
uintptr_t arch_tls_init(void *mem, size_t below);

#endif
