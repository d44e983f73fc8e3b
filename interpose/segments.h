/* What of the cpu's own a kernel thread has, beside its registers. */
#ifndef HEDDLE_SEGMENTS_H
#define HEDDLE_SEGMENTS_H

#include <stdbool.h>

/* segments_change: does the system call nr set it? */
bool segments_change(long nr, const long *a);

/* segments_ask: arch_prctl is about to be called with that code. Any context. */
void segments_ask(long code);

#endif
