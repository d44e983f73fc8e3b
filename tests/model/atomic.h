/* The atomics of core/atomic.h, by the same names, as steps of an explored interleaving.
 *
 * Included ahead of everything (-include), so that the guard keeps core/atomic.h out. Each
 * call hands the address, the order and its own text to memory.c, which decides what it may
 * see. Refuses types wider than a register. Read model.h next. */
#ifndef HEDDLE_ATOMIC_H
#define HEDDLE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define ATOMIC(type) type

enum model_order { MODEL_RLX = 0, MODEL_ACQ = 1, MODEL_REL = 2, MODEL_ACQREL = 3, MODEL_SC = 7 };

enum model_rmw { MODEL_XCHG, MODEL_ADD, MODEL_OR, MODEL_AND };

/* Where in the source a step is: printed, never looked at. */
struct model_site {
	const char *call;
	const char *function;
	int line;
};

uint64_t model_load(const void *at, unsigned size, enum model_order order, struct model_site site);
void model_store(void *at, unsigned size, uint64_t value, enum model_order order,
		 struct model_site site);
uint64_t model_rmw(void *at, unsigned size, enum model_rmw kind, uint64_t value,
		   enum model_order order, struct model_site site);
bool model_cas(void *at, unsigned size, uint64_t expect, uint64_t value, enum model_order good,
	       enum model_order bad, struct model_site site);

/* A spin: the caller looks again only when what it read last has changed. */
void model_relax(void);

#define MODEL_SITE(text) ((struct model_site){ (text), __func__, __LINE__ })
/* The type of *p as a value: without const. */
#define MODEL_TYPE(p) __typeof__((void)0, *(p))
#define MODEL_BITS(v) ((uint64_t)(uintptr_t)(v))
#define MODEL_LD(p, order, text)                                                                   \
	((MODEL_TYPE(p))(uintptr_t)model_load((p), sizeof(*(p)), (order), MODEL_SITE(text)))
#define MODEL_ST(p, v, order, text)                                                                \
	model_store((p), sizeof(*(p)), MODEL_BITS(v), (order), MODEL_SITE(text))
/* In braces, since a caller may drop the result. */
#define MODEL_RMW(p, v, kind, order, text)                                                         \
	({                                                                                         \
		(MODEL_TYPE(p))(uintptr_t) model_rmw((p), sizeof(*(p)), (kind), MODEL_BITS(v),     \
						     (order), MODEL_SITE(text));                   \
	})
#define MODEL_CAS(p, old, new, good, bad, text)                                                    \
	model_cas((p), sizeof(*(p)), MODEL_BITS((MODEL_TYPE(p))(old)),                             \
		  MODEL_BITS((MODEL_TYPE(p))(new)), (good), (bad), MODEL_SITE(text))

#define ld_rlx(p) MODEL_LD(p, MODEL_RLX, "ld_rlx(" #p ")")
#define ld_acq(p) MODEL_LD(p, MODEL_ACQ, "ld_acq(" #p ")")
#define ld_sc(p) MODEL_LD(p, MODEL_SC, "ld_sc(" #p ")")

#define st_rlx(p, v) MODEL_ST(p, v, MODEL_RLX, "st_rlx(" #p ")")
#define st_rel(p, v) MODEL_ST(p, v, MODEL_REL, "st_rel(" #p ")")
#define st_sc(p, v) MODEL_ST(p, v, MODEL_SC, "st_sc(" #p ")")

#define xchg_acq(p, v) MODEL_RMW(p, v, MODEL_XCHG, MODEL_ACQ, "xchg_acq(" #p ")")
#define xchg_rel(p, v) MODEL_RMW(p, v, MODEL_XCHG, MODEL_REL, "xchg_rel(" #p ")")
#define xchg_sc(p, v) MODEL_RMW(p, v, MODEL_XCHG, MODEL_SC, "xchg_sc(" #p ")")

#define add_rlx(p, v) MODEL_RMW(p, v, MODEL_ADD, MODEL_RLX, "add_rlx(" #p ")")
#define add_sc(p, v) MODEL_RMW(p, v, MODEL_ADD, MODEL_SC, "add_sc(" #p ")")
#define or_sc(p, v) MODEL_RMW(p, v, MODEL_OR, MODEL_SC, "or_sc(" #p ")")
#define and_sc(p, v) MODEL_RMW(p, v, MODEL_AND, MODEL_SC, "and_sc(" #p ")")

#define cas_rlx(p, old, new) MODEL_CAS(p, old, new, MODEL_RLX, MODEL_RLX, "cas_rlx(" #p ")")
#define cas_acq(p, old, new) MODEL_CAS(p, old, new, MODEL_ACQ, MODEL_RLX, "cas_acq(" #p ")")
#define cas_rel(p, old, new) MODEL_CAS(p, old, new, MODEL_REL, MODEL_RLX, "cas_rel(" #p ")")
#define cas_acqrel(p, old, new)                                                                    \
	MODEL_CAS(p, old, new, MODEL_ACQREL, MODEL_ACQ, "cas_acqrel(" #p ")")
#define cas_sc(p, old, new) MODEL_CAS(p, old, new, MODEL_SC, MODEL_SC, "cas_sc(" #p ")")

#define bump(p) st_rlx((p), ld_rlx(p) + 1)
#define bump_by(p, n) st_rlx((p), ld_rlx(p) + (n))

#endif
