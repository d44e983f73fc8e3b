/* The single order of all sequentially consistent steps: which loads it forbids.
 *
 * There must be one total order of these steps that agrees with happens-before and, word by
 * word, with the order of the stores: a load stands after the store it reads and before the
 * next, also where those stores are of weaker order (C++20's "coherence-ordered before"). It
 * need not be the order in which the model makes the steps; so it is kept as a graph, closed
 * under "comes before", and a load may return an old store as long as that makes no circle.
 * Happens-before counts in full, as in C11; C++20 weakened that, for POWER. Owns that graph;
 * knows no values. Read memory.c for who asks. */
#include <string.h>

#include "engine.h"

static struct scset earlier[SCEVENTS]; /* all that come before that step */
static unsigned nevents;

void sc_begin(void)
{
	nevents = 0;
}

static bool has(const struct scset *set, unsigned event)
{
	return set->word[event / 64] >> event % 64 & 1;
}

static void add(struct scset *set, unsigned event)
{
	set->word[event / 64] |= 1ull << event % 64;
}

static void unite(struct scset *to, const struct scset *from)
{
	for (unsigned i = 0; i < SCEVENTS / 64; i++)
		to->word[i] |= from->word[i];
}

/* All that come before a step that follows `before` and those lower at its location. */
static struct scset closure(const struct scplaces *places, unsigned place,
			    const struct scset *before)
{
	struct scset all = *before;

	for (unsigned w = 0; w < SCEVENTS / 64; w++)
		for (uint64_t bits = before->word[w]; bits != 0; bits &= bits - 1)
			unite(&all, &earlier[w * 64 + (unsigned)__builtin_ctzll(bits)]);
	for (unsigned i = 0; i < places->n; i++) {
		if (places->place[i] >= place)
			continue;
		add(&all, places->event[i]);
		unite(&all, &earlier[places->event[i]]);
	}
	return all;
}

bool sc_legal(const struct scplaces *places, unsigned place, const struct scset *before)
{
	struct scset all = closure(places, place, before);

	for (unsigned i = 0; i < places->n; i++)
		if (places->place[i] > place && has(&all, places->event[i]))
			return false;
	return true;
}

void sc_add(struct scplaces *places, unsigned place, struct view *view)
{
	unsigned event = nevents++;

	if (nevents > SCEVENTS || places->n == sizeof(places->event))
		model_failed(__FILE__, __LINE__, "the model is too small: sc steps");
	earlier[event] = closure(places, place, &view->sc);
	for (unsigned i = 0; i < places->n; i++) {
		unsigned later = places->event[i];
		if (places->place[i] <= place)
			continue;
		for (unsigned e = 0; e < event; e++) {
			if (e != later && !has(&earlier[e], later))
				continue;
			add(&earlier[e], event);
			unite(&earlier[e], &earlier[event]);
		}
	}
	places->event[places->n] = (uint8_t)event;
	places->place[places->n++] = (uint8_t)place;
	add(&view->sc, event);
}
