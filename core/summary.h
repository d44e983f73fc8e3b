/* What there is to say of a scheduler's life when it ends. */
#ifndef HEDDLE_SUMMARY_H
#define HEDDLE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "stats.h"
#include "times.h"

struct summary {
	struct stats stats;
	uint64_t lived; /* ns */
	int32_t procs;
	int32_t kthreads; /* of the scheduler's own, ever at once */
	uint32_t peakgs; /* Gs alive at once; 0: not kept */
	uint64_t calls; /* announced */
	uint64_t parks[TIMES_REASONS];
	uint64_t waited; /* times that a G was runnable and then ran: how often, and how long in ns
			  */
	uint64_t p50, p99, longest;
	uint64_t waits[TIMES_BUCKETS]; /* these times: see times.h */
};

/* times_on: from here on times are kept; before the second G. False if this build has none. */
bool times_on(void);

/* summary_read: of all so far. Any context; torn while others run. */
void summary_read(struct summary *to);

#endif
