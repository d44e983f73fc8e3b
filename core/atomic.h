/* The atomics of the core. Each name ends in its memory order, so that a call
 * site says what it relies on; the comment beside it says with whom it pairs.
 * Fields used through these are declared with ATOMIC().
 *
 * There is no fence here: ThreadSanitizer does not model one. Where two sides
 * must see each other (store, then look) both use the _sc forms.
 *
 * tests/model/ has a second file of this name, in which each call is a step of
 * an explored interleaving; runq.c and futex.c compile against both. */
#ifndef HEDDLE_ATOMIC_H
#define HEDDLE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define ATOMIC(type) type

#define ld_rlx(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define ld_acq(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ld_sc(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)

#define st_rlx(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define st_rel(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define st_sc(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

#define xchg_rlx(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)
#define xchg_acq(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define xchg_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define xchg_sc(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)

/* These return the value before the addition. */
#define add_rlx(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define add_sc(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define sub_sc(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)
#define or_sc(p, v) __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST)
#define and_sc(p, v) __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST)

/* cas_*(p, old, new): true if *p was old and is new now. */
#define cas_order(p, old, new, good, bad)                                                          \
	({                                                                                         \
		__typeof__(*(p)) cas_expect = (old);                                               \
		__atomic_compare_exchange_n((p), &cas_expect, (new), false, (good), (bad));        \
	})
#define cas_rlx(p, old, new) cas_order(p, old, new, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_acq(p, old, new) cas_order(p, old, new, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define cas_rel(p, old, new) cas_order(p, old, new, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define cas_acqrel(p, old, new) cas_order(p, old, new, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define cas_sc(p, old, new) cas_order(p, old, new, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* Keeps the compiler from moving memory accesses across; costs nothing at run time. */
#define compiler_barrier() __asm__ volatile("" ::: "memory")

/* A counter with one writer: no locked instruction, readers see whole values. */
#define bump(p) st_rlx((p), ld_rlx(p) + 1)
#define bump_by(p, n) st_rlx((p), ld_rlx(p) + (n))

#endif
