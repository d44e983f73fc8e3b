/* What the futex scenarios have in common. Read stage.h first. */
#ifndef HEDDLE_MODEL_FUTEX_SCENE_H
#define HEDDLE_MODEL_FUTEX_SCENE_H

#include "futex.h"
#include "stage.h"

enum { EINTR_ = 4, EAGAIN_ = 11, ENOMEM_ = 12, ETIMEDOUT_ = 110, CLOCK_MONO = 1 };
enum { WAITERS = 4, NEVER = 99 };

/* Words that hold 0: a and b in two buckets in this order, twin in a's. */
extern ATOMIC(uint32_t) *a, *b, *twin;
extern const struct deadline soon;

extern int result[WAITERS]; /* of each wait; NEVER: none */
extern int count_of[4]; /* what wakers and requeuers returned, one each */
extern int written; /* plain, set before each wake: whoever is woken sees it */

/* begin: first call of a TEST. no_waiters: part of each final check. */
void begin(void);
void no_waiters(void);

/* linked_waiters: how many stand in a queue, for conditions of model_until. */
unsigned linked_waiters(void);

/* wait_on: futex_wait while the word is 0; watches the caller's stack frame. */
int wait_on(ATOMIC(uint32_t) *at, const struct deadline *d, int flags);

/* Waiters, arg being where the result goes. The second waits once the first is parked; the
 * third then goes before both. */
void wait_a(void *arg);
void wait_a_timed(void *arg);
void wait_b(void *arg);
void wait_second(void *arg);
void wait_third_but_first(void *arg);

/* check_order: those three were woken in that order. */
void check_order(void);

/* until_parked: waits until the first n actors, all Gs, have been parked. */
void until_parked(const int *n);
extern const int one, two, three;

#endif
