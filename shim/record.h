/* The file of HEDDLE_RECORD and HEDDLE_REPLAY: policies/turns.h is what stands in it. */
#ifndef HEDDLE_RECORD_H
#define HEDDLE_RECORD_H

#include <stdint.h>

struct turnlog;

/* record_begin: the log that is to be written or followed; NULL: there is none, and if one was
 * asked for it was said why not. policy, seed: of what is recorded. In a process once.
 * record_end: the process is about to end by itself. record_forked: in the child of a fork. */
struct turnlog *record_begin(const char *policy, uint64_t seed);
void record_end(void);
void record_forked(void);

#endif
