/* The environment's wishes. Read once, before the program runs. */
#ifndef HEDDLE_CONFIG_H
#define HEDDLE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum deadlock {
	DEADLOCK_OFF,
	DEADLOCK_REPORT,
	DEADLOCK_ABORT,
};

enum { CONFIG_POLICY = 1024 };

struct config {
	bool off; /* HEDDLE=off */
	const char *gomaxprocs; /* GOMAXPROCS, as it is written */
	uint64_t seed; /* HEDDLE_SEED; 0: none */
	const char *record,
		*replay; /* HEDDLE_RECORD, HEDDLE_REPLAY, from the root on; NULL: none */
	const char *policy; /* HEDDLE_POLICY, a file from the root on; NULL: none */
	uint32_t schedtrace; /* HEDDLE_SCHEDTRACE, ms */
	bool scheddetail; /* HEDDLE_SCHEDDETAIL */
	bool preempt; /* HEDDLE_PREEMPT */
	bool patch; /* HEDDLE_PATCH */
	int32_t maxthreads; /* HEDDLE_MAXTHREADS */
	bool stats; /* HEDDLE_STATS */
	const char *statsfile; /* HEDDLE_STATS, if it names a file; else NULL */
	enum deadlock deadlock; /* HEDDLE_DEADLOCK */
	const char *trace; /* HEDDLE_TRACE, from the root on; NULL: none */
	uint64_t tracelimit; /* HEDDLE_TRACE_LIMIT, bytes; 0: none */
	int debuglevel; /* HEDDLE_DEBUG */
};

extern struct config config __attribute__((visibility("hidden")));

/* config_read: a junk value is named on stderr in one line, and ignored. Nothing is read where the
 * program has more rights than who started it (AT_SECURE). */
void config_read(char **environment);

#endif
