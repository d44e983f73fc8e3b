/* Memory that is kept for good: what many threads have one of each, and none is ever given back. */
#ifndef HEDDLE_KEEP_H
#define HEDDLE_KEEP_H

#include <stddef.h>

/* keep: len bytes, zeroed, on a cache line of their own; committed by touch, and once there is much
 * of it, as huge pages. Waits for nobody. Returns the address, or -errno cast. Test with
 * os_failed(). Any context. */
void *keep(size_t len);

#endif
