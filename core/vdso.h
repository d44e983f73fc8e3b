/* What the kernel's shared page of code offers: its functions, and where its text lies.
 * Owns no state. A kernel without one, or one that is laid out in a way we do not know,
 * is no error: callers then use the system call. */
#ifndef HEDDLE_VDSO_H
#define HEDDLE_VDSO_H

#include <stdbool.h>
#include <stdint.h>

/* vdso_symbol: the function of that name ("__vdso_clock_gettime"), whatever its version.
 * Returns  its address, or NULL.
 * Context  any, once os_auxv() has been filled; NULL before. Walks the whole symbol
 *          table: for start-up, not for every call. */
void *vdso_symbol(const char *name);

/* vdso_text: the vDSO's executable pages, [*lo, *hi). A G that stands there may hold the
 * kernel's sequence count half read, so it is not preempted.
 * Returns  false, and an empty range, if there is none.
 * Context  as vdso_symbol. */
bool vdso_text(uintptr_t *lo, uintptr_t *hi);

/* vdso_symbol_in, vdso_text_in: the same, of an image at that address (NULL: none). */
void *vdso_symbol_in(const void *image, const char *name);
bool vdso_text_in(const void *image, uintptr_t *lo, uintptr_t *hi);

#endif
