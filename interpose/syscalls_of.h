/* Where functions of glibc's make their system calls. */
#ifndef HEDDLE_SYSCALLS_OF_H
#define HEDDLE_SYSCALLS_OF_H

#include <stddef.h>
#include <stdint.h>

enum { SYSCALL_BYTES = 2 };

/* syscalls_of: the addresses behind the system calls that fn, of that size, may make, itself or by
 * what it calls: at most so many. Returns how many. */
int syscalls_of(const void *fn, size_t size, uintptr_t *found, int most);

#endif
