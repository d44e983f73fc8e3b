/* The treap of waiters against a plain model: for each address a list, oldest first. */
#include <stddef.h>
#include <string.h>

#include "host.h"
#include "waitq.h"

enum { WAITERS = 300, MAX_ADDRS = 64 };

static struct bucket b;
static struct waiter waiters[WAITERS];

/* The model. */
static struct waiter *lists[MAX_ADDRS][WAITERS];
static int lengths[MAX_ADDRS];

static uint64_t rng;

static uintptr_t addr_of(int i)
{
	return 0x10000 + (uintptr_t)i * 4;
}

static void add(struct waiter *w, int at, bool atfront)
{
	struct waiter **list = lists[at];

	w->addr = addr_of(at);
	waitq_add(&b, w, atfront);
	if (atfront)
		memmove(list + 1, list, (size_t)lengths[at] * sizeof(*list));
	list[atfront ? 0 : lengths[at]] = w;
	lengths[at]++;
}

static void take_out(int at, int i)
{
	struct waiter **list = lists[at];

	waitq_remove(&b, list[i]);
	EXPECT(!list[i]->linked);
	lengths[at]--;
	memmove(list + i, list + i + 1, (size_t)(lengths[at] - i) * sizeof(*list));
}

static void compare(int addrs)
{
	EXPECT(waitq_check(&b));
	for (int at = 0; at < addrs; at++) {
		struct waiter *w = waitq_first(&b, addr_of(at));
		for (int i = 0; i < lengths[at]; i++, w = w->next)
			EXPECT(w == lists[at][i]);
		EXPECT(w == NULL);
	}
}

/* So many steps over so many addresses; fewer of them make longer lists. */
static void walk(int addrs, int steps)
{
	for (int step = 0; step < steps; step++) {
		struct waiter *w = &waiters[random_below(&rng, WAITERS)];
		if (!w->linked) {
			add(w, (int)random_below(&rng, (uint32_t)addrs),
			    random_below(&rng, 3) == 0);
		} else {
			int at = (int)((w->addr - addr_of(0)) / 4), i = 0;
			while (lists[at][i] != w)
				i++;
			take_out(at, i);
		}
		compare(addrs);
	}
	for (int at = 0; at < addrs; at++)
		while (lengths[at] > 0)
			take_out(at, (int)random_below(&rng, (uint32_t)lengths[at]));
	EXPECT(b.root == NULL);
}

TEST(random_comings_and_goings_match_a_model)
{
	rng = test_seed() | 1;
	walk(1, 2000);
	walk(2, 2000);
	walk(8, 3000);
	walk(MAX_ADDRS, 5000);
}

TEST(an_address_without_waiters_is_not_found)
{
	EXPECT(waitq_first(&b, addr_of(3)) == NULL);
	add(&waiters[0], 3, false);
	EXPECT(waitq_first(&b, addr_of(2)) == NULL);
	EXPECT(waitq_first(&b, addr_of(4)) == NULL);
	EXPECT(waitq_first(&b, addr_of(3)) == &waiters[0]);
	take_out(3, 0);
	EXPECT(waitq_first(&b, addr_of(3)) == NULL);
}

static int depth(const struct waiter *w)
{
	int left = w ? depth(w->left) : 0, right = w ? depth(w->right) : 0;

	return w ? 1 + (left > right ? left : right) : 0;
}

TEST(ten_thousand_addresses_in_a_row_make_no_deep_tree)
{
	enum { ROW = 10000 };
	static struct waiter row[ROW];

	/* Strides of arrays, of pages, of stacks. */
	for (uintptr_t stride = 4; stride <= 1 << 20; stride <<= 3) {
		b.root = NULL;
		for (int i = 0; i < ROW; i++) {
			row[i].addr = 0x7f0000000000 + (uintptr_t)i * stride;
			waitq_add(&b, &row[i], false);
		}
		EXPECT(waitq_check(&b));
		/* A random tree of so many is some 31 deep. */
		EXPECT(depth(b.root) < 60);
		for (int i = 0; i < ROW; i++)
			waitq_remove(&b, &row[i]);
		EXPECT(b.root == NULL);
	}
}

static void three_addresses(void)
{
	memset(waiters, 0, sizeof(waiters));
	memset(lengths, 0, sizeof(lengths));
	b.root = NULL;
	for (int i = 0; i < 9; i++)
		add(&waiters[i], i % 3, false);
	EXPECT(waitq_check(&b));
}

TEST(waitq_check_sees_damage)
{
	struct waiter *w;

	three_addresses();
	b.root->ticket = UINT32_MAX;
	EXPECT(!waitq_check(&b));
	three_addresses();
	b.root->last = b.root;
	EXPECT(!waitq_check(&b));
	three_addresses();
	w = waitq_first(&b, addr_of(1));
	w->next->prev = NULL;
	EXPECT(!waitq_check(&b));
	three_addresses();
	w = waitq_first(&b, addr_of(1));
	w->next->addr = addr_of(2);
	EXPECT(!waitq_check(&b));
	three_addresses();
	w = waitq_first(&b, addr_of(2));
	w->linked = false;
	EXPECT(!waitq_check(&b));
	three_addresses();
	b.root->addr = b.root->left ? b.root->left->addr : b.root->right->addr;
	EXPECT(!waitq_check(&b));
}
