/* What atomic.h's calls do: a turn, where others may care, and then the step. Knows what a
 * call means, and who touches which word; what may be read there is memory.c's. */
#include "memory.h"

enum share {
	ALONE, /* no other thread cares */
	QUIET, /* this thread is the only one to write here: no need to wait for a turn */
	SEEN,
};

/* Learns who touches what, over all executions, so that steps nobody else can see need no
 * turn of their own. An access that contradicts what was assumed starts everything anew. */
static enum share share_of(const struct thread *t, const void *at, bool write)
{
	struct cell *c = race_cell(at);
	uint32_t me = 1u << t->id, touchers, writers;

	if (replaying || !c)
		return SEEN;
	touchers = c->touchers | me;
	writers = c->writers | (write ? me : 0);
	if (touchers != c->touchers || writers != c->writers) {
		c->touchers = touchers;
		c->writers = writers;
		if (writers != 0 && touchers != me)
			choices_learn();
	}
	if (touchers == me || writers == 0)
		return ALONE;
	return !write && writers == me ? QUIET : SEEN;
}

static uint64_t narrow(uint64_t value, unsigned size)
{
	return size < 8 ? value & ((1ull << 8 * size) - 1) : value;
}

uint64_t model_load(const void *at, unsigned size, enum model_order order, struct model_site site)
{
	struct thread *t = current;
	uint8_t list[LOCMSGS];
	struct location *l;
	enum share share;
	uint64_t value;
	unsigned n, i;

	if (!t)
		return memory_get(at, size);
	share = share_of(t, at, false);
	if (share == SEEN)
		thread_turn();
	thread_step(t);
	race_atomic(t, at, size, false);
	if (share == ALONE) {
		t->lastloc = NOBODY;
		return memory_get(at, size);
	}
	l = memory_at(at, size);
	n = memory_readable(t, l, order, list);
	i = list[choose_value(n)];
	if (order == MODEL_RLX) {
		l->loads[t->id][1] = l->loads[t->id][0];
		l->loads[t->id][0] = t->clock;
	}
	value = memory_read(t, l, i, order);
	if (replaying)
		trace_step(t, site, at, "is %s%s", trace_value(value),
			   i + 1u < l->n ? ", an old value" : "");
	return value;
}

void model_store(void *at, unsigned size, uint64_t value, enum model_order order,
		 struct model_site site)
{
	struct thread *t = current;
	enum share share;

	value = narrow(value, size);
	if (!t) {
		memcpy(at, &value, size);
		return;
	}
	share = share_of(t, at, true);
	if (share == SEEN)
		thread_turn();
	thread_step(t);
	race_atomic(t, at, size, true);
	if (share == ALONE) {
		memory_put(at, size, value);
		return;
	}
	memory_write(t, memory_at(at, size), value, order, NULL);
	if (replaying)
		trace_step(t, site, at, "becomes %s", trace_value(value));
}

static uint64_t operate(enum model_rmw kind, uint64_t old, uint64_t value)
{
	switch (kind) {
	case MODEL_ADD:
		return old + value;
	case MODEL_OR:
		return old | value;
	case MODEL_AND:
		return old & value;
	default:
		return value;
	}
}

/* The part after the turn. */
static uint64_t rmw(struct thread *t, void *at, unsigned size, enum model_rmw kind, uint64_t value,
		    enum model_order order, enum share share, struct model_site site)
{
	struct location *l;
	const struct message *m;
	uint64_t old;

	thread_step(t);
	race_atomic(t, at, size, true);
	if (share == ALONE) {
		old = memory_get(at, size);
		memory_put(at, size, narrow(operate(kind, old, value), size));
		return old;
	}
	l = memory_at(at, size);
	m = memory_message(l, l->n - 1u);
	old = memory_read(t, l, l->n - 1u, order & MODEL_ACQREL);
	value = narrow(operate(kind, old, value), size);
	memory_write(t, l, value, order, m);
	if (replaying)
		trace_step(t, site, at, "was %s, becomes %s", trace_value(old), trace_value(value));
	return old;
}

uint64_t model_rmw(void *at, unsigned size, enum model_rmw kind, uint64_t value,
		   enum model_order order, struct model_site site)
{
	struct thread *t = current;
	enum share share;

	if (!t) {
		uint64_t old = memory_get(at, size);
		value = operate(kind, old, value);
		memcpy(at, &value, size);
		return old;
	}
	share = share_of(t, at, true);
	if (share == SEEN)
		thread_turn();
	return rmw(t, at, size, kind, value, order, share, site);
}

/* Those that make a compare-and-swap fail. */
static unsigned unequal(const struct location *l, uint64_t expect, uint8_t *list, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++)
		if (memory_message(l, list[i])->value != expect)
			list[kept++] = list[i];
	return kept;
}

bool model_cas(void *at, unsigned size, uint64_t expect, uint64_t value, enum model_order good,
	       enum model_order bad, struct model_site site)
{
	struct thread *t = current;
	uint8_t list[LOCMSGS];
	struct location *l;
	enum share share;
	unsigned n, i;
	uint64_t old;

	expect = narrow(expect, size);
	if (t) {
		share = share_of(t, at, true);
		if (share == SEEN)
			thread_turn();
	}
	if (!t || share == ALONE) {
		if (t)
			thread_step(t);
		if (memory_get(at, size) != expect)
			return false;
		value = narrow(value, size);
		if (t)
			memory_put(at, size, value);
		else
			memcpy(at, &value, size);
		return true;
	}
	thread_step(t);
	race_atomic(t, at, size, true);
	l = memory_at(at, size);
	n = unequal(l, expect, list, memory_readable(t, l, bad, list));
	if (memory_message(l, l->n - 1u)->value == expect) {
		i = choose_value(n + 1);
		if (i == 0) {
			const struct message *m = memory_message(l, l->n - 1u);
			memory_read(t, l, l->n - 1u, good & MODEL_ACQREL);
			memory_write(t, l, narrow(value, size), good, m);
			t->swapped = t->clock;
			if (replaying)
				trace_step(t, site, at, "was %s, becomes %s", trace_value(expect),
					   trace_value(narrow(value, size)));
			return true;
		}
		i--;
	} else {
		i = choose_value(n);
	}
	i = list[i];
	old = memory_read(t, l, i, bad);
	memory_forget_copies(t);
	if (replaying)
		trace_step(t, site, at, "fails: is %s%s", trace_value(old),
			   i + 1u < l->n ? ", an old value" : "");
	return false;
}

static bool is_changed(const void *arg)
{
	return memory_changed(arg);
}

void model_relax(void)
{
	struct thread *t = current;

	thread_block(is_changed, t, "a change of what it looks at");
	thread_step(t);
	t->view.seen[t->lastloc] = (uint8_t)(t->lastindex + 1);
}

static struct model_site nosite(const char *call)
{
	return (struct model_site){ call, "", 0 };
}

void memory_sync(uint32_t *word, bool (*ready)(const void *), const void *arg, const char *what)
{
	if (ready)
		thread_block(ready, arg, what);
	else
		thread_turn();
	rmw(current, word, sizeof(*word), MODEL_ADD, 1, MODEL_ACQREL, SEEN, nosite(what));
}

static bool is_zero(const void *arg)
{
	return *(const uint32_t *)arg == 0;
}

void memory_take(uint32_t *key)
{
	struct thread *t = current;
	enum share share;

	if (!t) {
		*key = 1;
		return;
	}
	share = share_of(t, key, true);
	if (share == SEEN || *key != 0)
		thread_block(is_zero, key, "a lock");
	rmw(t, key, sizeof(*key), MODEL_XCHG, 1, MODEL_ACQ, share, nosite("lock"));
}

/* Needs no turn: nobody can do anything with the word until it is 0. */
void memory_give(uint32_t *key)
{
	struct thread *t = current;

	if (!t)
		*key = 0;
	else
		rmw(t, key, sizeof(*key), MODEL_XCHG, 0, MODEL_REL, share_of(t, key, true),
		    nosite("unlock"));
}
