/* What a policy's text may change of the scheduler's choices, asked where they are made. The twin
 * in unpoliced/ has Go's answers at compile time: to measure what asking costs. */
#ifndef HEDDLE_KNOBS_H
#define HEDDLE_KNOBS_H

#include "gmp.h"

#define sched_odd() __builtin_expect(sched.odd, 0)
#define sched_knobs() ((const struct knobs *)&sched.knobs)

#endif
