/* The futex by syscall(). */
#ifndef HEDDLE_RAWFUTEX_H
#define HEDDLE_RAWFUTEX_H

#include <stdbool.h>

/* private_futex: the operation on a private futex, of which a are the arguments. Returns what the
 * kernel would; *ours: false if it is the kernel's. */
long private_futex(long *a, bool *ours);

#endif
