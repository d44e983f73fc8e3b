/* A saved context and the switch between two. A context is a stack pointer: all
 * else lies on the stack, with call-frame information, so that an unwinder walks a
 * parked G to its start. */
#ifndef HEDDLE_ARCH_CONTEXT_H
#define HEDDLE_ARCH_CONTEXT_H

#include <stdint.h>

#include "atomic.h"

struct gobuf {
	uintptr_t sp;
};

/* Where a saved context keeps what, above its stack pointer; and its size. */
#define ARCH_CONTEXT(X)                                                                            \
	X(r15, 16)                                                                                 \
	X(r14, 24)                                                                                 \
	X(r13, 32)                                                                                 \
	X(r12, 40)                                                                                 \
	X(rbx, 48)                                                                                 \
	X(rbp, 56)                                                                                 \
	X(rip, 64)
enum { ARCH_CONTEXT_SIZE = 72 };

/* arch_switch: saves the caller into *from and goes on in *to.
 * Returns  when someone switches to *from, perhaps on another kernel thread.
 * Context  any; the callee-saved registers, the SSE and x87 control words and exception
 *          flags and, where arch_use_pkru() and arch_use_tiles() say so, PKRU and the
 *          tiles move with the context: the latter take 9 KB of its stack. The FS
 *          base does not: arch_setfs comes first. */
void arch_switch(struct gobuf *from, const struct gobuf *to);

/* arch_switch_landing: the second half of arch_switch, as an address to return to with
 * the stack pointer at a gobuf's sp. */
void arch_switch_landing(void);

/* arch_context_init: makes *buf a context that calls entry(arg) on the stack that ends
 * at top (16-byte aligned); entry must not return. */
void arch_context_init(struct gobuf *buf, uintptr_t top, void (*entry)(void *), void *arg);

/* arch_switch_exit: saves the caller into *from, as arch_switch does, and ends the kernel
 * thread. Returns when someone switches to *from. */
void arch_switch_exit(struct gobuf *from);

/* arch_clone_into: raw clone of a kernel thread that goes on in *to with FS base fs; *tid
 * is its tid while it lives, and 0, with a futex wake, when it is gone.
 * Returns  its tid, or -errno. */
long arch_clone_into(const struct gobuf *to, uintptr_t fs, int32_t *tid);

/* arch_extras: what contexts carry beside what all do: extras.h. */
extern ATOMIC(uint8_t) arch_extras __attribute__((visibility("hidden")));

/* arch_use_pkru: from here on contexts carry their PKRU, if the cpu has it; those saved before have
 * the one that the first caller has now. */
void arch_use_pkru(void);

/* arch_use_tiles: from here on contexts carry the tiles of AMX and their configuration, if the cpu
 * has them. By the ABI no call keeps them; in a thread of the kernel's they are there all the same,
 * and there are libraries that count on it. arch_has_tiles: has the kernel permitted them already?
 */
void arch_use_tiles(void);
bool arch_has_tiles(void);

/* arch_clone: raw clone of a kernel thread of this process that runs entry(arg) on the
 * stack that ends at top, with FS base fs, and exits with it.
 * Returns  its tid, or -errno. */
long arch_clone(uintptr_t top, void (*entry)(void *), void *arg, uintptr_t fs, int32_t *tid);

#endif
