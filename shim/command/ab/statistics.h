/* The statistics of an experiment: numbers in, numbers out. They know nothing of runs or of words,
 * and are compared with R's in tests/command/ab_test.c. Read next: compare.h, which draws
 * conclusions. */
#ifndef HEDDLE_AB_STATISTICS_H
#define HEDDLE_AB_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

/* A source of chance, the same for the same seed: SplitMix64. chance_below: of [0, n), n > 0. */
struct chance {
	uint64_t state;
};
uint64_t chance_next(struct chance *c);
uint32_t chance_below(struct chance *c, uint32_t n);
void chance_shuffle(struct chance *c, int *of, int n);

/* sort_numbers: ascending. quantile: of n > 0 sorted numbers, interpolated as R's type 7 does;
 * median: likewise, of numbers in any order, which it sorts. */
void sort_numbers(double *of, int n);
double quantile(const double *sorted, int n, double q);
double median(double *of, int n);

/* mann_whitney: of two samples, in any order. */
struct ranks {
	double w; /* how often one of x is above one of y, a tie being half: R's W */
	double p; /* two-sided: exact for less than 50 without ties, else normal with correction for
		   * ties and continuity; 1 where all are equal */
	bool exact;
	double delta; /* Cliff's: -1 all of x are below all of y .. 1 */
};
struct ranks mann_whitney(const double *x, int nx, const double *y, int ny);

/* bootstrap_median: of n rounds of `width` numbers each, whole rounds are drawn with replacement, n
 * each time, BOOTSTRAPS times: the interval in which the middle `level` of their medians lie. */
enum { BOOTSTRAPS = 10000 };
struct interval {
	double low, high;
};
struct interval bootstrap_median(const double *of, int n, int width, double level,
				 struct chance *c);

/* holm: n p values become those that hold for all n together. */
void holm(double *p, int n);

#endif
