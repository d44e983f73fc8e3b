/* Where preemption keeps off. */
#ifndef HEDDLE_PREEMPT_H
#define HEDDLE_PREEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIG_PREEMPT = 32 };

/* preempt_deny: a G whose program counter is in [lo, hi) is not stopped by signal.
 * The range that was denied first counts.
 * Returns  false if the list is full. Context: one thread at a time. */
enum denial {
	DENY_ALWAYS,
	DENY_AWHILE, /* not for the first moment: it may hold a lock of that library's */
	DENY_BUT_CALLS, /* but for the way out of a system call, where nothing is held */
	DENY_HELD, /* only where g.held says so */
};
bool preempt_deny(uintptr_t lo, uintptr_t hi, enum denial how);

/* spin_library: the threads of a library with that text wait for each other by spinning there, and
 * do little else: whoever is found there is taken for spinning. One library.
 * core_endsspins: do the slices of those who spin end early, with the policy that there is?
 * Context  the only thread of the program. */
void spin_library(uintptr_t lo, uintptr_t hi);
bool core_endsspins(void);

/* preempt_hold: the caller is about to become another program. No signal 32 is pending for its
 * kernel thread on return, nor sent to it until preempt_release, which must find it there.
 * Context  a G in an announced call. */
void preempt_hold(void);
void preempt_release(void);

/* ---- for handlers of the embedder's ---- */
enum sigplace {
	SIGPLACE_PROGRAM, /* a G in the program's code, or a kernel thread that is no M */
	SIGPLACE_CALL, /* a G between entersyscall and exitsyscall */
	SIGPLACE_CORE, /* inside the core: no code of the program's can run */
};

/* core_sigplace: where did the signal find this kernel thread? */
enum sigplace core_sigplace(void);

/* core_sigmove: a handler with SA_ONSTACK goes on on the program's own stack: the kernel knows of
 * none but the M's, where it must not sleep. True: it must return next, and fn(sig, info, uc) runs
 * then, all signals blocked, as if delivered on the alternate stack at alt, of that size, or, if
 * that is 0 or it runs there already, where the program was interrupted.
 * Returns  false if the handler stands elsewhere, or the frame does not fit.
 * Context  that handler, not in SIGPLACE_CORE. */
bool core_sigmove(int sig, const void *info, void *uc, uintptr_t alt, size_t size,
		  void (*fn)(int, void *, void *));

/* core_sigfault .. core_sigfaulted: about a handler that a fault in SIGPLACE_CORE brings, which
 * would be there again upon return: it runs at once, and its calls are those of a kernel thread
 * that is no M. core_sigfault: the G, which is hidden until then; NULL: its stack is the core's,
 * and nothing of the program's can run. */
struct g *core_sigfault(void);
void core_sigfaulted(struct g *gp);

/* core_sigtake: in SIGPLACE_CORE: the G, of the one that is left here and the one that is to
 * run here, that does not block sig; NULL if both do. It gets core_config.sigdue. */
struct g *core_sigtake(int sig);

/* core_sigmark: has gp call core_config.sigdue before it returns from what it waits for or is
 * called in, if that is over by itself; nobody is woken. Context: any. */
void core_sigmark(struct g *gp);

/* core_sigwired: the G that is wired to this M, if there is one. */
struct g *core_sigwired(void);

/* core_sigcomputes: a G that does not block sig, in a slice and in no call, of one P after the
 * other; or one that waits for a P. NULL: there is none. For handlers. */
struct g *core_sigcomputes(int sig);

/* core_sigbegin .. core_sigend: about a handler of the program's on a G, which may be put to
 * sleep and go on on another M. The embedder's own, around it, blocks every signal.
 * core_sigbegin: mask is the handler's, from here on; ends the announced call of one that was
 *          found in it. Returns the G's mask before.
 * core_sigend: readies the frame at uc for the M that the G runs on now; the embedder's handler
 *          must return next. mask is the G's from then on; call: it goes back into its call. */
uint64_t core_sigbegin(uint64_t mask);
void core_sigend(void *uc, uint64_t mask, bool call);

/* core_sigaccept: a kernel thread of the core's lets in these signals, where no M does: all Gs
 * that do not block them may be parked. It finds SIGPLACE_CORE. handled: all that have a handler;
 * the others the core lets in as Gs do, and the kernel acts upon them. */
void core_sigaccept(uint64_t set, uint64_t handled);

/* core_filters: the program is about to filter system calls: from here on none of the core's finds
 * SIGSYS blocked, if core_sigaccept has named it.
 * Blocks   the kernel thread, for a round of sysmon's. */
void core_filters(void);

/* core_sigrefused: if the call that SIGSYS stopped at uc is the core's, or an arch_owncall, it
 * fails with ENOSYS. Returns  false: it is the program's. */
bool core_sigrefused(void *uc);

/* core_sigcall: true if what was interrupted at uc is a system call that has brought nothing:
 * about to be made, or interrupted. */
bool core_sigcall(const void *uc);

/* core_sigcallout: if that is call nr, it is ended: it returns -EINTR. */
bool core_sigcallout(void *uc, long nr);

/* core_sigpc: where that is. */
uintptr_t core_sigpc(const void *uc);

/* core_sigfutex: true if what was interrupted at uc is a system call on *addr with operation *op,
 * as of futex: about to be made, or ended by nothing but the signal. */
bool core_sigfutex(const void *uc, uintptr_t *addr, int *op);

/* core_sigdefer: has core_config.signalled called soon, elsewhere. Any context. */
void core_sigdefer(void);

/* core_sigleft: a call of the caller's, a G, may have raised one of SIGS_OF_CALLS, SIGPIPE and
 * SIGXFSZ, which the kernel sends the thread that made the call. If the G blocks it, core_config's
 * sigleft gets it when the G leaves this kernel thread. */
#define SIGS_OF_CALLS ((uint64_t)1 << 12 | (uint64_t)1 << 24)
void core_sigleft(void);

/* What is sent to a kernel thread with that as si_errno, which nobody uses, is no more than a word
 * to look. */
enum { SIG_MARK = 0x68656464 };

#endif
