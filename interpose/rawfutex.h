/* The futex by syscall(). */
#ifndef HEDDLE_RAWFUTEX_H
#define HEDDLE_RAWFUTEX_H

#include <stdbool.h>

/* private_futex: the operation on a private futex, of which a are the arguments. Returns what the
 * kernel would; *ours: false if it is the kernel's. */
long private_futex(long *a, bool *ours);

/* futex_waits_on_many: the caller is about to call the kernel's futex_waitv. */
void futex_waits_on_many(void);

#endif
