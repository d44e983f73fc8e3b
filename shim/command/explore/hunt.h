/* A search for a schedule under which the command fails: what was asked, and what came of it.
 * Filled by explore.c and search.c; told by tell.c.
 *
 * Native runs come first: what they do is what it does. Then one run after the other under a policy
 * that draws lots, each with its own seed, until one does otherwise; and that one again. */
#ifndef HEDDLE_EXPLORE_HUNT_H
#define HEDDLE_EXPLORE_HUNT_H

#include <regex.h>
#include <stdint.h>
#include <stdio.h>

#include "ab/answer.h"
#include "ab/trial.h"

enum { HUNT_TEXT = 200, HUNT_POLICY = 64 };

/* What one run did. */
enum deed {
	DID_END, /* by itself, with a status */
	DID_DIE, /* of a signal */
	DID_HANG, /* its time was over */
	DID_LOCK, /* all its threads waited for each other */
};

struct outcome {
	enum deed deed;
	int status; /* of DID_END; the signal of DID_DIE */
	double wall; /* s */
	struct answer answer; /* its standard output, or what of it counts */
};

/* One run under heddle, to be had again. */
struct lot {
	int number; /* from 1 */
	char policy[HUNT_POLICY];
	uint64_t seed;
};

struct hunt {
	FILE *to; /* what is told */
	char **command;
	char *line; /* the command, as a shell would read it */
	struct trial_setup setup;
	int runs, natives,
		replays; /* how many of each are asked for; replays 0: as many as usual */
	int procs;
	double timeout; /* of a run, s; 0: it is measured */
	bool silent; /* its output does not count */
	const char *pattern; /* of the output only these count; or NULL */
	regex_t regex;
	uint64_t seed; /* of the series */

	/* What it does natively: the outcome that most of the runs have. */
	struct outcome usual;
	int level; /* enum likeness in which those agree; LIKENESSES: in none */
	int native_done, native_failed;
	char native_words[HUNT_TEXT]; /* how the first of those that fail does */
	double slowest; /* s */
	int usual_out; /* the text; a descriptor */

	long points; /* of its first run under heddle; 0: it is not known */
	int done; /* runs under heddle */
	int unsteady; /* that took too long, and did not when they were tried again */
	char natively[HUNT_TEXT]; /* heddle's line that says it does not serve; "": it does */
	double took; /* s, all */

	bool found;
	struct lot lot;
	struct outcome odd;
	char difference[HUNT_TEXT]; /* what it printed otherwise */
	char words[HUNT_TEXT]; /* its last on stderr */
	int replayed, alike; /* of so many replays so many did the same */
	char *dump; /* of its threads, when it hung; or NULL */
};

/* hunt_native: the reference. False: there is none, or it was interrupted: it was said why.
 * hunt_search: the runs under heddle; false: there was nothing to be searched. In search.c. */
bool hunt_native(struct hunt *h);
bool hunt_search(struct hunt *h);

/* hunt_lot: the n-th of the series. In lot.c. */
struct lot hunt_lot(const struct hunt *h, int n);

/* judge_read: what a run did. judge_odd: is it not what it usually does? judge_alike: did two do
 * the same? judge_usual: of n native runs' outcomes. judge_difference: between two runs' output. In
 * judge.c. */
void judge_read(const struct hunt *h, const struct trial *t, struct outcome *o);
bool judge_odd(const struct hunt *h, const struct outcome *o);
bool judge_alike(const struct hunt *h, const struct outcome *a, const struct outcome *b);
int judge_usual(struct hunt *h, const struct outcome *of, int n);
void judge_difference(const struct hunt *h, int fd, char *to, size_t size);
bool judge_locked(const struct trial *t);

/* words_of: what a run did, in words. tell_*: to h->to, and all of it as JSON. In tell.c. */
void words_of(const struct hunt *h, const struct outcome *o, char *to, size_t size);
void tell_begin(const struct hunt *h);
void tell_end(const struct hunt *h);
void tell_json(const struct hunt *h, FILE *to);

#endif
