#ifndef HEDDLE_ONCE_H
#define HEDDLE_ONCE_H

#include <stdint.h>

#include "atomic.h"

/* once_forked: in the child of a fork. once_forks: how many there were, from ONCE_FORK on in steps
 * of it; below it is room for a state. */
enum { ONCE_FORK = 4 };
extern ATOMIC(uint32_t) once_forks;
void once_forked(void);

#endif
