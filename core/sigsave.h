/* Where a preempted G's signal frame is kept: a buffer of the core's own, never the
 * program's stack. Below the frame is a small stack, on which the G comes back. */
#ifndef HEDDLE_SIGSAVE_H
#define HEDDLE_SIGSAVE_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"

struct g;

struct sigsave {
	struct sigsave *next; /* in the pool */
	size_t size; /* of the whole buffer */
	uintptr_t uc; /* the saved ucontext, inside */
	struct g *gp;
};

/* arch_sigsave: copies the frame of the signal handler that got uc into save, and makes
 * *buf a context that calls comeback(save) on save's own stack.
 * Returns  false if it does not fit. Context: that handler. */
bool arch_sigsave(struct sigsave *save, const void *uc, struct gobuf *buf,
		  void (*comeback)(void *));

/* arch_sigframe_size: what one frame needs at most, on this cpu. */
size_t arch_sigframe_size(void);

/* arch_sigredirect: makes the return from this handler land in the context *buf, as if it
 * had been switched to. After arch_sigsave made its copy: the frame is changed. */
void arch_sigredirect(void *uc, const struct gobuf *buf);

/* arch_sigregs: what was interrupted at uc had in its registers; vector: a digest of those. */
enum { SIGREGS = 15 };
struct sigregs {
	uintptr_t pc, sp;
	uint64_t others[SIGREGS];
	uint64_t vector;
};
void arch_sigregs(const void *uc, struct sigregs *to);

uintptr_t arch_sigpc(const void *uc);
uintptr_t arch_sigsp(const void *uc);

/* arch_sigmove: core_sigmove, from whatever stack the handler stands on: the frame is copied, and
 * what the copy was made of becomes the way to it. */
bool arch_sigmove(int sig, const void *info, void *uc, uintptr_t alt, size_t size,
		  void (*fn)(int, void *, void *));

/* arch_sigmaskof: the signal mask that the kernel installs when that frame ends. */
uint64_t arch_sigmaskof(const void *uc);

/* arch_sigblock: adds set to that mask. */
void arch_sigblock(void *uc, uint64_t set);

/* arch_sigrebind: writes the kernel thread's signal stack into a frame. The mask in
 * it stays: it is the G's, and a handler of the program's may have been running. */
void arch_sigrebind(void *uc, void *sigstack, size_t len);

/* arch_sigrefused: the call that was stopped at uc fails with ENOSYS. */
void arch_sigrefused(void *uc);

/* arch_sigdivert: the context interrupted at uc calls fn, on its own stack, instead of going on;
 * fn does not return, but may unwind. Context: a handler on another stack, or who owns a saved
 * frame. */
void arch_sigdivert(void *uc, void (*fn)(void));
void arch_diverted(void);

/* arch_sigfutex, arch_sigcall, arch_sigcallout: see core_sigfutex and so on. */
bool arch_sigcall(const void *uc);
bool arch_sigcallout(void *uc, long nr);

/* arch_sigredo: if what was interrupted at uc is a wait for completions (io_getevents,
 * io_pgetevents, io_uring_enter), made by an instruction of a library's own and ended by nothing
 * but the signal, it is made again: the kernel does not, whatever the handler's flags. Which call
 * it was no frame tells: that is read before the instruction, where compilers put it. */
void arch_sigredo(void *uc);

/* arch_sigaftercall: is a system call's the last instruction before uc? */
bool arch_sigaftercall(const void *uc);
bool arch_sigfutex(const void *uc, uintptr_t *addr, int *op);

/* arch_sigreturn: ends the frame at uc; *status becomes GRUNNING as the last thing done in
 * user space. arch_sigreturn_end is the address behind it. */
void arch_sigreturn(uintptr_t uc, uint32_t *status) __attribute__((noreturn));
void arch_sigreturn_end(void);
void arch_sigrestorer(void);

#endif
