/* The heap of heap.h. */
#include "policies/heap.h"

#include "os.h"

enum { FIRST_ROOM = 512 };

static bool before(const struct plan *a, const struct plan *b)
{
	return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void seat(struct heap *h, uint32_t at, struct plan *plan)
{
	h->of[at] = plan;
	plan->at = at + 1;
}

static void sift_up(struct heap *h, uint32_t at, struct plan *plan)
{
	while (at > 0 && before(plan, h->of[(at - 1) / 2])) {
		seat(h, at, h->of[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	seat(h, at, plan);
}

static void sift_down(struct heap *h, uint32_t at, struct plan *plan)
{
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child + 1 < h->n && before(h->of[child + 1], h->of[child]))
			child++;
		if (child >= h->n || !before(h->of[child], plan))
			break;
		seat(h, at, h->of[child]);
		at = child;
	}
	seat(h, at, plan);
}

static bool make_room(struct heap *h)
{
	uint32_t room = h->room ? 2 * h->room : FIRST_ROOM;
	struct plan **of;

	if (h->n < h->room)
		return true;
	of = os_reserve(room * sizeof(*of));
	if (os_failed(of))
		return false;
	for (uint32_t i = 0; i < h->n; i++)
		of[i] = h->of[i];
	if (h->room)
		os_release(h->of, h->room * sizeof(*of));
	h->of = of;
	h->room = room;
	return true;
}

bool heap_put(struct heap *h, struct plan *plan)
{
	if (!make_room(h))
		return false;
	sift_up(h, h->n++, plan);
	return true;
}

void heap_take(struct heap *h, struct plan *plan)
{
	uint32_t at = plan->at - 1;
	struct plan *last = h->of[--h->n];

	plan->at = 0;
	if (last == plan)
		return;
	if (at > 0 && before(last, h->of[(at - 1) / 2]))
		sift_up(h, at, last);
	else
		sift_down(h, at, last);
}

struct plan *heap_oldest(const struct heap *h)
{
	struct plan *found = h->of[0];

	for (uint32_t i = 1; i < h->n; i++)
		if (h->of[i]->order < found->order)
			found = h->of[i];
	return found;
}

void heap_rank(struct heap *h, void (*rank)(struct plan *plan))
{
	for (uint32_t i = 0; i < h->n; i++)
		rank(h->of[i]);
	for (uint32_t i = h->n / 2; i-- > 0;)
		sift_down(h, i, h->of[i]);
}
