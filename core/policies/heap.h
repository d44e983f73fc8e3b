/* A heap of plans: the one of the least key, and among equals the oldest, is of[0]. */
#ifndef HEDDLE_HEAP_H
#define HEDDLE_HEAP_H

#include "policies/plan.h"

struct heap {
	struct plan **of;
	uint32_t n, room;
};

/* heap_put: false: there is no memory. heap_take: out of the heap that it is in. heap_oldest: of
 * all, whatever their keys; n > 0. heap_rank: gives each a new key, and its place. */
bool heap_put(struct heap *h, struct plan *plan);
void heap_take(struct heap *h, struct plan *plan);
struct plan *heap_oldest(const struct heap *h);
void heap_rank(struct heap *h, void (*rank)(struct plan *plan));

#endif
