/* Between memory.c, which knows locations and stores, and steps.c, which makes steps of them. */
#ifndef HEDDLE_MODEL_MEMORY_H
#define HEDDLE_MODEL_MEMORY_H

#include <string.h>

#include "engine.h"

struct message {
	uint64_t value;
	uint8_t writer, step;
	struct view view;
	uint8_t causal[THREADS];
};

struct location {
	const void *at;
	unsigned size;
	uint8_t n, floor;
	bool overwritten; /* by plain code: the next access begins anew */
	bool slot;
	uint16_t message[LOCMSGS];
	uint64_t hash, mixed;
	uint8_t loads[THREADS][2]; /* steps of the last relaxed ones */
	struct scplaces sc;
};

/* memory_at: the location of an atomic word. memory_message: its i-th store. */
struct location *memory_at(const void *at, unsigned size);
struct message *memory_message(const struct location *l, unsigned i);

/* memory_readable: the stores that t may read, newest first, by number; how many. */
unsigned memory_readable(const struct thread *t, const struct location *l, enum model_order order,
			 uint8_t *list);

/* memory_read: t reads the i-th store. memory_write: t stores; carried: what a
 * read-modify-write read, else NULL. */
uint64_t memory_read(struct thread *t, struct location *l, unsigned i, enum model_order order);
void memory_write(struct thread *t, struct location *l, uint64_t value, enum model_order order,
		  const struct message *carried);

/* memory_forget_copies: what t copied from slots for an exchange that failed. */
void memory_forget_copies(const struct thread *t);

/* memory_changed: a store came after the one that t read last. */
bool memory_changed(const struct thread *t);

/* memory_get, memory_put: the newest value, as plain code sees it. */
static inline uint64_t memory_get(const void *at, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

static inline void memory_put(void *at, unsigned size, uint64_t value)
{
	race_save(at, size);
	memcpy(at, &value, size);
}

#endif
