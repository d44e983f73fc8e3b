/* The futex: wait on an address while it holds a value, wake those who wait there.
 *
 * Gs and kernel threads that are no Ms wait in the same queues, first come first served
 * for each address. The queues are ours, keyed by address, so an object of the
 * program's needs no constructor. Meaning and results are futex(2)'s, with -errno. */
#ifndef HEDDLE_FUTEX_H
#define HEDDLE_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

/* A point in time on a clock: CLOCK_MONOTONIC, CLOCK_REALTIME or another that os_clock
 * reads. For a span, add it to os_clock(1). */
struct deadline {
	int clock;
	uint64_t at; /* ns */
};

enum {
	FUTEX_ANY = -1, /* as a bitset: all bits; as a count: all waiters */
	FUTEX_LIFO = 1, /* wait: before the others; for one that waited already */
	FUTEX_HANDOFF = 2, /* wake: the woken G runs now, in the caller's place */
	FUTEX_FENCED = 4, /* wake: *addr was changed by a sequentially consistent exchange or sum */
	FUTEX_EARLY = 8, /* wake: by who has no P: as if by a timer, before others */
};

/* futex_wait: sleeps while *addr == value until a wake, the deadline or a signal.
 * Returns  0 (woken), -EAGAIN (other value), -ETIMEDOUT, -EINTR, -ENOMEM.
 * Context  a G, or a kernel thread that is no M; not g0, not a handler.
 * Blocks   the G; the kernel thread if it is no M.
 * Order    a waker's writes before its wake are visible; whoever changes *addr and then
 *          wakes finds each waiter that read the old value. */
int futex_wait(ATOMIC(uint32_t) *addr, uint32_t value, uint32_t bitset,
	       const struct deadline *deadline, int flags);

/* futex_wake: wakes up to n waiters whose bitset meets ours, oldest first.
 * Returns  how many. Context: any but a handler. Blocks: nobody. */
int futex_wake(ATOMIC(uint32_t) *addr, int n, uint32_t bitset, int flags);

/* futex_hand: wakes the oldest waiter with *token set to value, for it or another to take, who sets
 * it to 0. Nothing of the caller's is touched once it may be taken and nobody waits who would keep
 * it: one that gives up waits for us first.
 * Returns  false if there is none, and then *token is 0. Context: any but a handler. */
bool futex_hand(ATOMIC(uint32_t) *addr, ATOMIC(int32_t) *token, int32_t value);

/* futex_free: a lock's word becomes free: waited, if anybody waits, and the oldest is woken; else
 * 0. Nothing of the caller's is touched once it is 0. Context: any but a handler. */
void futex_free(ATOMIC(uint32_t) *addr, uint32_t waited);

/* futex_requeue: wakes up to nwake and moves up to nmove of the others to addr2, if *addr
 * is value (check == false: whatever it is).
 * Returns  how many were woken and moved, or -EAGAIN. */
int futex_requeue(ATOMIC(uint32_t) *addr, int nwake, ATOMIC(uint32_t) *addr2, int nmove, bool check,
		  uint32_t value);

/* ---- queues: waiting without a value ----
 *
 * *count is the number of those who wait at it; the program's object holds the word, and
 * only these calls change it. So whoever reads 0 there need not call queue_wake. A waiter
 * that was woken does not touch it again: the waker may destroy the object. */

/* Of a wait in a queue that goes on after signals, in the core: handlers are about to run, which
 * may leave it for good; of a kernel thread that is no M: it begins. One has run, and the thread,
 * no M, waits on. They are over: is it to go on? */
enum queue_among { QUEUE_LEAVES, QUEUE_INTERRUPTED, QUEUE_BACK };

/* queue_wait: joins the queue at count, at its end or (first) before all, as one that waited there
 * already, then calls release(arg), which may let go of what
 * guards the queue and names a futex word on which one waiter is to be woken (NULL: none),
 * then sleeps. No wake-up after the call of release is lost.
 *          release must neither block nor call the core. then: see queue_wakeall.
 *          among: what queue_among says, each time with arg, which is this wait's alone. A wake
 *          that came while handlers ran is not lost. NULL: a signal ends the wait, and its
 *          handlers are not waited for.
 * Returns  0 (woken), -ETIMEDOUT, -EINTR; -EAGAIN (not woken, and yet not time, for the clock
 *          was set back); -ENOMEM without room for the timer. *chained: others
 *          wait at `then` who rely on the caller to wake one there.
 * Context  as futex_wait. Blocks: as futex_wait. */
int queue_wait(ATOMIC(uint32_t) *count, const struct deadline *deadline, bool first,
	       ATOMIC(uint32_t) *(*release)(void *), bool (*among)(void *, enum queue_among),
	       void *arg, ATOMIC(uint32_t) *then, bool *chained);

/* queue_forget: who called is leaving the wait with that arg, or any (NULL), by another way than
 * its return. A wake that it has is passed on. Context: not in the core. */
void queue_forget(const void *arg);

/* queue_wake: wakes up to n, oldest first. Returns how many. Context: any but a handler. */
int queue_wake(ATOMIC(uint32_t) *count, int n);

/* queue_pass: the oldest, if keeps() says that the caller holds the word that it gave, waits there
 * from now on, and is woken when that is let go; else it is woken. keeps: sees to it that it will
 * be. */
void queue_pass(ATOMIC(uint32_t) *count, bool (*keeps)(ATOMIC(uint32_t) *then));

/* queue_wakeall: passes on the oldest or wakes it, as queue_pass; the others, as far as they gave
 * the same futex word as `then`, wait there from now on, as if by futex_wait; the rest are woken.
 */
void queue_wakeall(ATOMIC(uint32_t) *count, bool (*keeps)(ATOMIC(uint32_t) *then));

/* futex_forking: the caller is about to fork. */
void futex_forking(void);

#endif
