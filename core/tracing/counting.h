/* Counters of stats.h, counted; the twin in notrace/ counts nothing. For who holds pp. */
#ifndef HEDDLE_COUNTING_H
#define HEDDLE_COUNTING_H

#include "atomic.h"

#define count(pp, name) bump(&(pp)->stats.name)
#define count_by(pp, name, n) bump_by(&(pp)->stats.name, (n))

#endif
