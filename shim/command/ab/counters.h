/* What a scheduler has counted in one run: the lines that the library adds to a file
 * (HEDDLE_STATS). Of several processes of one run the counters are added up. */
#ifndef HEDDLE_AB_COUNTERS_H
#define HEDDLE_AB_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "times.h"

enum { COUNTERS_NAMES = 48, COUNTERS_NAME = 20 };

struct counters {
	int processes; /* that had a scheduler */
	int n;
	struct {
		char name[COUNTERS_NAME];
		double value;
	} of[COUNTERS_NAMES];
	uint64_t waits[TIMES_BUCKETS]; /* for a P: by times_bucket() */
	uint64_t longest; /* ns */
};

/* counters_read: what the file has, and empties it. */
void counters_read(const char *file, struct counters *to);

/* counters_of: by name; 0 if there is none. counters_text: what it means; NULL: it is for nobody.
 */
double counters_of(const struct counters *c, const char *name);
const char *counters_text(const char *name);

/* counters_wait: the time within which the share q of all waits ended, ns; 0 of none. */
uint64_t counters_wait(const uint64_t *waits, double q);

#endif
