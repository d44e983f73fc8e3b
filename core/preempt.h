/* Where preemption keeps off. */
#ifndef HEDDLE_PREEMPT_H
#define HEDDLE_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>

/* preempt_deny: a G whose program counter is in [lo, hi) is not stopped by signal: never,
 * or (always == false) not the first few times in a row, since it may hold a lock of that
 * library's.
 * Returns  false if the list is full. Context: one thread at a time. */
bool preempt_deny(uintptr_t lo, uintptr_t hi, bool always);

/* ---- for handlers of the embedder's ---- */
enum sigplace {
	SIGPLACE_PROGRAM, /* a G in the program's code, or a kernel thread that is no M */
	SIGPLACE_CALL, /* a G between entersyscall and exitsyscall */
	SIGPLACE_CORE, /* inside the core: no code of the program's can run */
};

/* core_sigplace: where did the signal find this kernel thread? */
enum sigplace core_sigplace(void);

/* gself_in_core: true if SIGPLACE_CORE is a G in the core, not a scheduler's stack. */
bool gself_in_core(void);

/* core_sigdefer: has core_config.signalled called soon, elsewhere. Any context. */
void core_sigdefer(void);

#endif
