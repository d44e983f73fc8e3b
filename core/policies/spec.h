/* The text that asks for a policy: NAME[,SWITCH=VALUE...]; what a NAME with a slash in it, a
 * file's, is followed by is that policy's own business. Read alike by the library and by the
 * command. */
#ifndef HEDDLE_SPEC_H
#define HEDDLE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policykind {
	POLICY_GO, /* the default: local queues, stealing */
	POLICY_FIFO, /* one queue */
	POLICY_RR, /* the same, with the slice that was asked for */
	POLICY_LIFO, /* the latest of the own P first; thieves take the oldest */
	POLICY_RANDOM,
	POLICY_CFS, /* who has had the least of the cpus */
	POLICY_PCT, /* priorities at random, and some changes of them */
	POLICY_CHAOS, /* some starve for a while, slices are short */
	POLICY_OWN,
	POLICY_KINDS,
};

enum stealing { STEAL_HALF, STEAL_ONE, STEAL_OFF };

struct policyspec {
	enum policykind kind;
	const char *text; /* all of it */
	const char *arguments; /* POLICY_OWN: what follows the file's name */
	size_t filelen;
	uint64_t slice; /* ns; 0: the policy's own */
	uint32_t grq; /* each so many slices the global queue goes first */
	uint32_t local; /* room in a local queue */
	uint32_t depth; /* POLICY_PCT: changes of priority, and one */
	uint32_t steps; /* over so many points */
	uint8_t steal; /* enum stealing */
	bool runnext;
	bool spin;
	bool yieldown;
};

/* policy_parse: false: *wrong says in a few words why not. The text must stay. */
bool policy_parse(const char *text, struct policyspec *to, const char **wrong);

/* policy_seeded: does it draw lots? policy_name: of one that is built in. */
bool policy_seeded(const struct policyspec *spec);
const char *policy_name(enum policykind kind);

#endif
