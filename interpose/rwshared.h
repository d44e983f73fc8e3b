/* Read-write locks that processes share (rwlock.c has the others). */
#ifndef HEDDLE_RWSHARED_H
#define HEDDLE_RWSHARED_H

#include <pthread.h>
#include <stdbool.h>

/* rwshared_lock: until NULL: however long. Both return as the call of theirs. */
int rwshared_lock(pthread_rwlock_t *l, bool write, clockid_t clock, const struct timespec *until);
int rwshared_trywrlock(pthread_rwlock_t *l);

#endif
