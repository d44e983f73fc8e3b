/* An experiment: what was asked, and what came of it. Filled by ab.c and conduct.c; told by the
 * reports: report.c, json.c, page.c. */
#ifndef HEDDLE_AB_EXPERIMENT_H
#define HEDDLE_AB_EXPERIMENT_H

#include <regex.h>
#include <stdint.h>
#include <stdio.h>

#include "answer.h"
#include "compare.h"
#include "counters.h"
#include "trial.h"
#include "variant.h"

enum metric { WALL, CPU, RSS, CTXSW, MATCHED, METRICS };

/* Arms: a, its control, then each b. */
enum { ARMS = 14, A = 0, CONTROL = 1, FIRST_B = 2, COUNTED = 16 };

enum { OUT, ERR, STREAMS };

struct run {
	bool done, good;
	enum ended how;
	int status;
	double value[METRICS]; /* NAN: none */
	struct answer answer[STREAMS];
	int order; /* it was that one of all, from 1 */
};

struct arm {
	struct variant variant;
	char letter; /* a, b, c ... */
	struct run *runs; /* one a round */
	bool given_up; /* it did not do its warm-up */
	struct run failed; /* how */
	char last_words[160]; /* the last line on stderr of a run that failed */
	int ncounted;
	struct counters *counted[COUNTED]; /* of warm-ups */
	char natively[160]; /* heddle's line that says it does not serve; "": it does */
	/* The first run whose output differs from the first of a, by each likeness: -1, or its
	 * text. */
	int odd[STREAMS][LIKENESSES];
	int odd_round[STREAMS][LIKENESSES];
};

struct experiment {
	char **command;
	char *line; /* the command, cleaned */
	enum metric metric;
	const char *pattern; /* MATCHED */
	regex_t regex;
	bool higher; /* is better */
	int asked, rounds; /* those that were to be; those that were begun */
	int warmups;
	uint64_t seed;
	double timeout; /* of a run, s; 0: it is made from the first */
	int expect; /* the status of success */
	const char *keep; /* a folder; or NULL */
	struct trial_setup setup;
	bool interrupted;
	double took; /* s, all */

	int narms;
	struct arm arms[ARMS];
	int reference[STREAMS]; /* the texts of a's first good run; -1: there was none */
	struct answer first[STREAMS];
	struct comparison of[ARMS]; /* as compare() numbers them: 0: the control; 1: the first b */
};

/* conduct: warm-ups, then rounds; fills arms, and rounds. False: there is nothing to be told. */
bool conduct(struct experiment *e);

/* report_print: for people. report_json: one object. report_page: HTML, in one file. */
void report_print(const struct experiment *e, FILE *to);
void report_json(const struct experiment *e, FILE *to);
void report_page(const struct experiment *e, FILE *to);

#endif
