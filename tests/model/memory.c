/* Atomic words: what each load may return. Owns the locations and their stores.
 *
 * Every location keeps the list of its stores. A thread has a view: for each location the
 * oldest store that it may still read. A load returns any store from there on, and raises
 * the view; a store of release order carries its thread's view, a load of acquire order takes
 * it over; a read-modify-write reads the newest store and carries on what that carried. Plain
 * memory always holds the newest value. Sequentially consistent steps also obey sc.c.
 *
 * Left out: the stores of a location stand in the order in which the model makes them, so two
 * threads that both store to the same two words cannot each be overtaken by the other; a
 * load never returns a store that is made later (load buffering), but for slots, where that
 * matters, late_store finds it; a load returns the same old value twice in a row at most,
 * since stores arrive in the end. Read sc.c and steps.c next. */
#include "memory.h"

enum { STALES = 2, SLOTRANGES = 4 };

static struct location locations[LOCS];
static unsigned nlocations;
static struct message messages[MSGS];
static unsigned nmessages;
static struct {
	uintptr_t lo, hi;
} slots[SLOTRANGES];
static unsigned nslots;

void memory_begin(void)
{
	nlocations = nmessages = nslots = 0;
}

void model_slots(const void *at, size_t size)
{
	slots[nslots].lo = (uintptr_t)at;
	slots[nslots++].hi = (uintptr_t)at + size;
}

void clocks_join(uint8_t *to, const uint8_t *from)
{
	for (unsigned i = 0; i < THREADS; i++)
		to[i] = to[i] > from[i] ? to[i] : from[i];
}

void view_join(struct view *to, const struct view *from)
{
	for (unsigned i = 0; i < LOCS; i++)
		to->seen[i] = to->seen[i] > from->seen[i] ? to->seen[i] : from->seen[i];
	clocks_join(to->before, from->before);
	for (unsigned i = 0; i < SCEVENTS / 64; i++)
		to->sc.word[i] |= from->sc.word[i];
}

struct message *memory_message(const struct location *l, unsigned i)
{
	return &messages[l->message[i]];
}

static struct message *newest(const struct location *l)
{
	return memory_message(l, l->n - 1u);
}

/* A store's name in the hash of a state. */
static uint64_t name_of(const struct message *m)
{
	return (uint64_t)m->writer << 8 | m->step;
}

static struct message *append(struct location *l)
{
	struct message *m = &messages[nmessages];

	if (l->n == LOCMSGS || nmessages == MSGS)
		model_failed(__FILE__, __LINE__, "the model is too small: stores");
	l->message[l->n++] = (uint16_t)nmessages++;
	return m;
}

/* What plain code left there, before any step. */
static void begin_anew(struct location *l)
{
	struct message *m = append(l);

	memset(m, 0, sizeof(*m));
	m->value = memory_get(l->at, l->size);
	m->writer = NOBODY;
	m->step = l->floor = (uint8_t)(l->n - 1);
	l->overwritten = false;
}

struct location *memory_at(const void *at, unsigned size)
{
	struct cell *c = race_cell(at);
	struct location *l;

	if (!c)
		model_failed(__FILE__, __LINE__, "an atomic outside the model's memory");
	if (c->loc == NOBODY) {
		if (nlocations == LOCS)
			model_failed(__FILE__, __LINE__, "the model is too small: locations");
		c->loc = (uint8_t)nlocations;
		l = &locations[nlocations++];
		memset(l, 0, sizeof(*l));
		l->at = at;
		l->size = size;
		for (unsigned i = 0; i < nslots; i++)
			l->slot |= (uintptr_t)at >= slots[i].lo && (uintptr_t)at < slots[i].hi;
		begin_anew(l);
		return l;
	}
	l = &locations[c->loc];
	if (l->size != size)
		model_failed(__FILE__, __LINE__, "an atomic of two sizes");
	/* Compilers may leave out the report of a store to a local variable. */
	if (l->overwritten || newest(l)->value != memory_get(at, size))
		begin_anew(l);
	return l;
}

void memory_overwritten(uint8_t loc)
{
	locations[loc].overwritten = true;
}

bool memory_knows_newest(const struct thread *t, uint8_t loc)
{
	const struct location *l = &locations[loc];

	return t->view.seen[loc] >= l->n - 1 || newest(l)->writer == NOBODY;
}

static uint8_t number_of(const struct location *l)
{
	return (uint8_t)(l - locations);
}

static void sc_step(struct thread *t, struct location *l, unsigned place)
{
	if (!sc_legal(&l->sc, place, &t->view.sc))
		model_failed(__FILE__, __LINE__, "the model has lost its order of sc steps");
	sc_add(&l->sc, place, &t->view);
}

/* t reads the store of that index. */
uint64_t memory_read(struct thread *t, struct location *l, unsigned i, enum model_order order)
{
	const struct message *m = memory_message(l, i);
	uint8_t loc = number_of(l);
	bool old = i + 1u < l->n;

	t->stales[loc] = old && t->stale[loc] == i ? (uint8_t)(t->stales[loc] + 1) : old;
	t->stale[loc] = (uint8_t)i;
	t->view.seen[loc] = (uint8_t)i;
	if (order & MODEL_ACQ)
		view_join(&t->view, &m->view);
	clocks_join(t->causal, m->causal);
	if (order == MODEL_SC)
		sc_step(t, l, 2 * i + 1);
	thread_note(t, name_of(m));
	t->lastloc = loc;
	t->lastindex = (uint8_t)i;
	return m->value;
}

static bool may_read(const struct thread *t, const struct location *l, unsigned i,
		     enum model_order order)
{
	struct scset before = t->view.sc;
	uint8_t loc = number_of(l);

	if (i + 1u < l->n && t->stale[loc] == i && t->stales[loc] >= STALES)
		return false;
	if (order != MODEL_SC)
		return true;
	for (unsigned w = 0; w < SCEVENTS / 64; w++)
		before.word[w] |= memory_message(l, i)->view.sc.word[w];
	return sc_legal(&l->sc, 2 * i + 1, &before);
}

/* The stores that t may read, newest first. */
unsigned memory_readable(const struct thread *t, const struct location *l, enum model_order order,
			 uint8_t *list)
{
	unsigned low = t->view.seen[number_of(l)], n = 0;

	if (low < l->floor)
		low = l->floor;
	for (unsigned i = l->n; i-- > low;)
		if (may_read(t, l, i, order))
			list[n++] = (uint8_t)i;
	return n;
}

/* A thief copies a slot, does more, and the owner, because of that, fills the slot anew: is
 * the copy before the refill? If the two are not ordered, a load that is late sees what
 * came of it, which this model would not show otherwise. What was copied for an exchange
 * that failed does not count. */
static void late_store(const struct thread *t, const struct location *l)
{
	for (unsigned r = 0; l->slot && r < THREADS; r++)
		for (unsigned k = 0; k < 2; k++)
			if (l->loads[r][k] > t->view.before[r] && l->loads[r][k] <= t->causal[r])
				model_failed(__FILE__, __LINE__,
					     "%s's earlier load of %s may see this store of %s's",
					     threads[r].name, trace_where(l->at), t->name);
}

void memory_forget_copies(const struct thread *t)
{
	for (unsigned i = 0; i < nlocations; i++)
		for (unsigned k = 0; locations[i].slot && k < 2; k++)
			if (locations[i].loads[t->id][k] > t->swapped)
				locations[i].loads[t->id][k] = 0;
}

void memory_write(struct thread *t, struct location *l, uint64_t value, enum model_order order,
		  const struct message *carried)
{
	uint8_t loc = number_of(l);
	struct message *m;

	late_store(t, l);
	m = append(l);
	t->view.seen[loc] = (uint8_t)(l->n - 1);
	if (order == MODEL_SC)
		sc_step(t, l, 2 * (l->n - 1u));
	m->value = value;
	m->writer = t->id;
	m->step = t->clock;
	if (order & MODEL_REL) {
		m->view = t->view;
	} else {
		memset(&m->view, 0, sizeof(m->view));
		m->view.seen[loc] = t->view.seen[loc];
	}
	if (carried)
		view_join(&m->view, &carried->view);
	memcpy(m->causal, t->causal, sizeof(m->causal));
	state_hash -= l->mixed;
	l->hash = mix(l->hash + name_of(m) + 1);
	l->mixed = mix(l->hash ^ (uintptr_t)l->at);
	state_hash += l->mixed;
	memory_put((void *)(uintptr_t)l->at, l->size, value);
}

bool memory_changed(const struct thread *t)
{
	return t->lastloc != NOBODY && locations[t->lastloc].n - 1 > t->lastindex;
}
