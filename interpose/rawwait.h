/* syscall(), of calls that wait for descriptors or for time. */
#ifndef HEDDLE_RAWWAIT_H
#define HEDDLE_RAWWAIT_H

#include <stdbool.h>

/* raw_wait: the system call nr by the function of that name, which answers as syscall() does; false
 * if it is none of these. */
bool raw_wait(long nr, const long *a, long *r);

#endif
