/* The states of Gs as the file has them: a slice for each that is over, on the track of the G and,
 * of one that ran, on its P's. Owns the names that stand there already. */
#ifndef HEDDLE_SLICES_H
#define HEDDLE_SLICES_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"
#include "tracefile.h"

enum state { NONE, RUNNABLE, RUNNING, WAITING, CALL, BLOCKED };

struct track {
	uint64_t goid; /* 0: a free slot */
	struct g *gp; /* of one that was there when the trace began, else NULL */
	uint64_t since;
	uint64_t on; /* what it waits for; who readied it */
	uint32_t mid;
	uint32_t seq;
	uint16_t p; /* where it runs; where it was readied, or TRACE_NOP */
	uint8_t state;
	uint8_t why; /* it waits: waitreason */
	bool any; /* its next event may have any number */
	bool back; /* this run began before, and lost its P for a while */
	bool held; /* nothing happened to it since, recorded or not */
	bool told; /* its name stands in the file */
	char name[TRACE_NAME_LEN];
};

/* slices_begin: times are since `zero`, and no name is told. untold_names: the file has not its
 * name, or not that of the P it runs on; put_names puts those. put_run: on its P's track; `end`:
 * why it stopped, NULL: it goes on. put_state: on its own. put_arrow: from who readied it to where
 * it runs. */
void slices_begin(uint64_t zero);
bool untold_names(const struct track *t);
void put_names(struct tracefile *f, struct track *t);
void put_run(struct tracefile *f, const struct track *t, uint64_t until, const char *end);
void put_state(struct tracefile *f, const struct track *t, uint64_t until, bool open);
void put_arrow(struct tracefile *f, uint32_t from, uint64_t then, uint32_t to, uint64_t now);
void put_steal(struct tracefile *f, const struct traceevent *ev);

#endif
