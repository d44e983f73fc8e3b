/* Mapped objects and stacks of this process, as sysmon can tell of them: without libc, without the
 * loader's lock, and without a fault whatever is there. One thread at a time. */
#ifndef HEDDLE_BACKTRACE_H
#define HEDDLE_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* maps_read: what is mapped, for the calls below. False if it is not to be had, or too much. */
bool maps_read(void);

/* memory_read: n bytes of this process's at that address. False if they are not there. */
bool memory_read(uintptr_t at, void *to, size_t n);

/* maps_private: no other process has that memory. */
bool maps_private(uintptr_t at);

enum { BACKTRACE_FRAMES = 40 };

/* backtrace_of: the frames of a saved context, of a stack that ends at hi (0: as far as it is
 * mapped); of heddle's own only the one next to the program's. They are those words of the stack
 * that may be return addresses: one of a call that is over may be among them.
 * Returns  how many. */
int backtrace_of(uintptr_t context, uintptr_t hi, uintptr_t *to);

/* backtrace_put: a line for one of them. */
void backtrace_put(struct text *t, uintptr_t pc);

#endif
