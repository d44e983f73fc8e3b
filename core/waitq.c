/* The treap of waitq.h. Tickets are a hash of the address: as good as random, and the
 * same in every run. */
#include "waitq.h"

#include <stddef.h>

static uint32_t ticket_of(uintptr_t addr)
{
	uint64_t z = addr * 0xd6e8feb86659fd93u;
	z ^= z >> 32;
	return (uint32_t)(z * 0xd6e8feb86659fd93u >> 32);
}

struct waiter *waitq_first(struct bucket *b, uintptr_t addr)
{
	struct waiter *w = b->root;

	while (w && w->addr != addr)
		w = addr < w->addr ? w->left : w->right;
	return w;
}

/* Makes `to` what its parent has in `from`'s place. */
static void replace(struct bucket *b, struct waiter *from, struct waiter *to)
{
	struct waiter *parent = from->parent;

	if (!parent)
		b->root = to;
	else if (parent->left == from)
		parent->left = to;
	else
		parent->right = to;
	if (to)
		to->parent = parent;
}

/* Lifts w, a child, above its parent. */
static void rotate_up(struct bucket *b, struct waiter *w)
{
	struct waiter *parent = w->parent;

	replace(b, parent, w);
	if (parent->left == w) {
		parent->left = w->right;
		if (w->right)
			w->right->parent = parent;
		w->right = parent;
	} else {
		parent->right = w->left;
		if (w->left)
			w->left->parent = parent;
		w->left = parent;
	}
	parent->parent = w;
}

/* Puts `to` in the treap where `from` is, with all that hangs there. */
static void take_place(struct bucket *b, struct waiter *from, struct waiter *to)
{
	to->left = from->left;
	to->right = from->right;
	to->ticket = from->ticket;
	to->last = from->last;
	replace(b, from, to);
	if (to->left)
		to->left->parent = to;
	if (to->right)
		to->right->parent = to;
}

static void insert_node(struct bucket *b, struct waiter *w)
{
	struct waiter *at = b->root, *parent = NULL;

	while (at) {
		parent = at;
		at = w->addr < at->addr ? at->left : at->right;
	}
	w->parent = parent;
	w->left = w->right = NULL;
	w->ticket = ticket_of(w->addr);
	if (!parent)
		b->root = w;
	else if (w->addr < parent->addr)
		parent->left = w;
	else
		parent->right = w;
	while (w->parent && w->ticket < w->parent->ticket)
		rotate_up(b, w);
}

static void remove_node(struct bucket *b, struct waiter *w)
{
	while (w->left && w->right)
		rotate_up(b, w->left->ticket < w->right->ticket ? w->left : w->right);
	replace(b, w, w->left ? w->left : w->right);
}

/* The program's word that says how many wait. */
static void tally(struct waiter *w, uint32_t more)
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)w->addr;

	if (w->counted)
		st_rlx(word, ld_rlx(word) + more);
}

void waitq_add(struct bucket *b, struct waiter *w, bool atfront)
{
	struct waiter *first = waitq_first(b, w->addr), *at = first;

	tally(w, 1);
	w->linked = true;
	w->next = w->prev = NULL;
	w->last = w;
	if (!first) {
		insert_node(b, w);
		return;
	}
	/* Before whom, if not the tail: they stand by priority, and nearly all have none. */
	if (atfront || w->prio > first->last->prio)
		while (at && (at->prio > w->prio || (!atfront && at->prio == w->prio)))
			at = at->next;
	else
		at = NULL;
	if (at == first) {
		take_place(b, first, w);
		w->next = first;
		first->prev = w;
	} else if (at) {
		w->next = at;
		w->prev = at->prev;
		at->prev->next = w;
		at->prev = w;
	} else {
		w->prev = first->last;
		first->last->next = w;
		first->last = w;
	}
}

void waitq_remove(struct bucket *b, struct waiter *w)
{
	tally(w, (uint32_t)-1);
	w->linked = false;
	if (w->prev) {
		struct waiter *first = waitq_first(b, w->addr);
		w->prev->next = w->next;
		if (w->next)
			w->next->prev = w->prev;
		else
			first->last = w->prev;
		return;
	}
	if (!w->next) {
		remove_node(b, w);
		return;
	}
	w->next->prev = NULL;
	take_place(b, w, w->next);
}

void waitq_replace(struct bucket *b, struct waiter *w, struct waiter *by)
{
	w->linked = false;
	by->linked = true;
	by->next = w->next;
	by->prev = w->prev;
	if (w->next)
		w->next->prev = by;
	if (w->prev) {
		w->prev->next = by;
		if (!w->next)
			waitq_first(b, w->addr)->last = by;
		return;
	}
	take_place(b, w, by);
	if (!w->next)
		by->last = by;
}

static bool check_node(const struct waiter *w, const struct waiter *parent, uintptr_t above,
		       uintptr_t below)
{
	const struct waiter *last = w;

	if (!w)
		return true;
	if (w->parent != parent || !w->linked || w->prev || w->addr <= above || w->addr >= below)
		return false;
	if (parent && w->ticket < parent->ticket)
		return false;
	for (; last->next; last = last->next)
		if (last->next->prev != last || last->next->addr != w->addr || !last->next->linked)
			return false;
	return w->last == last && check_node(w->left, w, above, w->addr) &&
	       check_node(w->right, w, w->addr, below);
}

bool waitq_check(const struct bucket *b)
{
	return check_node(b->root, NULL, 0, UINTPTR_MAX);
}
