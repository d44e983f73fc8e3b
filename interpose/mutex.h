/* What condition variables ask of a mutex. */
#ifndef HEDDLE_MUTEX_H
#define HEDDLE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* robust_end: what the kernel does for a thread that ends with robust mutexes locked. In robust.c.
 * robust_orphan: m was just locked: did its owner end so, without the word telling it?
 * robust_becomes: before t becomes another program, and after it did not. */
struct thread;
void robust_end(struct thread *t);
void robust_becomes(struct thread *t, bool becomes);

/* robust_set: the program has told the kernel of another list. */
struct robust_list_head;
void robust_set(struct thread *t, struct robust_list_head *head);
bool robust_orphan(pthread_mutex_t *m);

/* mutex_word: where those wait who wait for m; NULL if that is glibc's business. */
ATOMIC(uint32_t) *mutex_word(pthread_mutex_t *m);

/* mutex_may_wait: EPERM if m keeps an owner and the caller is not it, else 0. */
int mutex_may_wait(pthread_mutex_t *m);

/* mutex_nested: has the caller, who holds m, locked it more than once? A wait lets go of one, as
 * glibc's does, and nobody else gets it meanwhile. */
bool mutex_nested(const pthread_mutex_t *m);

/* mutex_letgo: unlocks m, without waking anybody.
 * Returns  the word on which one waiter must be woken, or NULL. Calls nothing of the core. */
ATOMIC(uint32_t) *mutex_letgo(pthread_mutex_t *m, uint32_t *depth);

/* mutex_keeps: does the caller hold the mutex of this word? Then its unlock will wake one who waits
 * there. Calls nothing of the core. */
bool mutex_keeps(ATOMIC(uint32_t) *word);

/* mutex_getback: locks it again, as deep as it was. chained: the unlock is to wake one.
 * Returns  0, or a robust mutex's error. */
int mutex_getback(pthread_mutex_t *m, uint32_t depth, bool chained);

#endif
