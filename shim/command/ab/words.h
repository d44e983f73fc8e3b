/* The words of the reports: units, verdicts, what runs did. Texts go to the caller's buffers. */
#ifndef HEDDLE_AB_WORDS_H
#define HEDDLE_AB_WORDS_H

#include "experiment.h"

enum { WORDS = 256, NUMBER = 32 };

/* words_metric: "wall time". words_value: a number with its unit, as "1.32 s". words_scale: the
 * divisor and unit in which numbers up to `most` are told. */
const char *words_metric(enum metric m);
const char *words_value(enum metric m, double value, char *buf);
double words_scale(enum metric m, double most, const char **unit);

/* words_name: of an arm: its letter and text. */
const char *words_name(const struct arm *arm, char *buf);

/* words_ratio: the interval of b to a, as "1.18–1.24× faster"; words_verdict: of the i-th
 * comparison, in one sentence. */
void words_ratio(const struct experiment *e, const struct comparison *c, char *buf);
void words_verdict(const struct experiment *e, int i, char *buf);

/* words_p: "p < 0.0001". */
void words_p(double p, char *buf);

/* words_failures: how runs of the arm ended that should not; false: there are none.
 * words_answers: whether its output is a's; false: there is nothing to be told. */
bool words_failures(const struct experiment *e, int arm, char *buf);
bool words_answers(const struct experiment *e, int arm, int stream, char *buf, size_t size);

/* ---- numbers of an arm, of its good runs ---- */

/* arm_values: to a buffer for e->rounds numbers, sorted; how many. */
int arm_values(const struct experiment *e, const struct arm *arm, enum metric m, double *to);
double arm_median(const struct experiment *e, const struct arm *arm, enum metric m);

/* arm_counter: the median of a counter over the counted runs. arm_waits: all waits for a P, added
 * up; false: there were none. */
double arm_counter(const struct arm *arm, const char *name);
bool arm_waits(const struct arm *arm, uint64_t *waits, uint64_t *longest);

/* arm_failed: how many runs did; experiment_failed: any of any arm, or it answered otherwise. */
int arm_failed(const struct experiment *e, const struct arm *arm);
bool experiment_failed(const struct experiment *e);

/* worse_by: by how much b is surely worse, 0.05 for 5 %; 0 or less: it is not. */
double worse_by(const struct experiment *e, int i);

#endif
