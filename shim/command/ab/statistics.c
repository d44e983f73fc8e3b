/* The statistics of statistics.h. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_BELOW = 50 }; /* as R has it */

uint64_t chance_next(struct chance *c)
{
	uint64_t z = c->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t chance_below(struct chance *c, uint32_t n)
{
	return (uint32_t)(((chance_next(c) >> 32) * n) >> 32);
}

void chance_shuffle(struct chance *c, int *of, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)chance_below(c, (uint32_t)i + 1), kept = of[i];
		of[i] = of[j];
		of[j] = kept;
	}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void sort_numbers(double *of, int n)
{
	qsort(of, (size_t)n, sizeof(*of), ascending);
}

double quantile(const double *sorted, int n, double q)
{
	double at = (n - 1) * q;
	int below = (int)at;

	if (below >= n - 1)
		return sorted[n - 1];
	return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

double median(double *of, int n)
{
	sort_numbers(of, n);
	return quantile(of, n, 0.5);
}

/* ---- Mann and Whitney's test ---- */

/* Of all orders of nx x's and ny y's, the share in which W is at most u. ways[j][k] counts those of
 * i x's and j y's with W = k: the greatest of them is an x, above j, or a y, above none. Sums of
 * what is positive: nothing is lost. */
static double share_at_most(int u, int nx, int ny)
{
	size_t row = (size_t)u + 1;
	double *ways = calloc((size_t)(ny + 1) * row, sizeof(*ways)), sum = 0, all = 1;

	if (!ways)
		abort();
	for (int j = 0; j <= ny; j++)
		ways[(size_t)j * row] = 1;
	for (int i = 1; i <= nx; i++) {
		all = all * (ny + i) / i;
		for (int j = 1; j <= ny; j++) {
			double *to = ways + (size_t)j * row;
			for (int k = u; k >= 0; k--)
				to[k] = (k >= j ? to[k - j] : 0) + to[k - (int)row];
		}
	}
	for (int k = 0; k <= u; k++)
		sum += ways[(size_t)ny * row + (size_t)k];
	free(ways);
	return sum / all;
}

static double exact_p(double w, int nx, int ny)
{
	/* It is the same from both ends; the sum from the lower loses nothing. */
	double lower = w < nx * ny - w ? w : nx * ny - w, p = 2 * share_at_most((int)lower, nx, ny);

	return p < 1 ? p : 1;
}

static double normal_p(double w, int nx, int ny, double ties)
{
	double n = nx + ny, off = fabs(w - nx * (double)ny / 2);
	double sigma = sqrt(nx * (double)ny / 12 * (n + 1 - ties / (n * (n - 1))));

	if (sigma == 0 || off <= 0.5)
		return 1;
	return erfc((off - 0.5) / sigma / sqrt(2));
}

/* The sum over all ties of t³ - t, t numbers being equal. */
static double ties_of(const double *sorted, int n)
{
	double sum = 0;

	for (int i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && sorted[end] == sorted[i]; end++)
			;
		sum += (double)(end - i) * (end - i) * (end - i) - (end - i);
	}
	return sum;
}

struct ranks mann_whitney(const double *x, int nx, const double *y, int ny)
{
	double *both = malloc((size_t)(nx + ny) * sizeof(*both)), ties;
	struct ranks r = { .p = 1 };

	if (!both)
		abort();
	for (int i = 0; i < nx; i++)
		for (int j = 0; j < ny; j++)
			r.w += x[i] > y[j] ? 1 : x[i] == y[j] ? 0.5 : 0;
	memcpy(both, x, (size_t)nx * sizeof(*x));
	memcpy(both + nx, y, (size_t)ny * sizeof(*y));
	sort_numbers(both, nx + ny);
	ties = ties_of(both, nx + ny);
	free(both);
	if (nx == 0 || ny == 0)
		return r;
	r.exact = ties == 0 && nx < EXACT_BELOW && ny < EXACT_BELOW;
	r.p = r.exact ? exact_p(r.w, nx, ny) : normal_p(r.w, nx, ny, ties);
	r.delta = 2 * r.w / (nx * (double)ny) - 1;
	return r;
}

/* ---- resampling ---- */

struct numbered {
	double number;
	int round;
};

static int ascending_numbered(const void *a, const void *b)
{
	return ascending(&((const struct numbered *)a)->number,
			 &((const struct numbered *)b)->number);
}

/* All numbers are sorted once; a resample is how often each round was drawn, and its middle is
 * counted off. */
static double median_of_draws(const struct numbered *sorted, const int *drawn, int all)
{
	int seen = 0, at = 0;
	double lower;

	while (seen + drawn[sorted[at].round] < (all + 1) / 2)
		seen += drawn[sorted[at++].round];
	lower = sorted[at].number;
	if (all % 2)
		return lower;
	while (seen + drawn[sorted[at].round] < all / 2 + 1)
		seen += drawn[sorted[at++].round];
	return (lower + sorted[at].number) / 2;
}

struct interval bootstrap_median(const double *of, int n, int width, double level, struct chance *c)
{
	struct numbered *sorted = malloc((size_t)(n * width) * sizeof(*sorted));
	double *medians = malloc(BOOTSTRAPS * sizeof(*medians));
	int *drawn = malloc((size_t)n * sizeof(*drawn));
	struct interval i;

	if (!sorted || !medians || !drawn)
		abort();
	for (int k = 0; k < n * width; k++)
		sorted[k] = (struct numbered){ of[k], k / width };
	qsort(sorted, (size_t)(n * width), sizeof(*sorted), ascending_numbered);
	for (int b = 0; b < BOOTSTRAPS; b++) {
		memset(drawn, 0, (size_t)n * sizeof(*drawn));
		for (int k = 0; k < n; k++)
			drawn[chance_below(c, (uint32_t)n)]++;
		medians[b] = median_of_draws(sorted, drawn, n * width);
	}
	sort_numbers(medians, BOOTSTRAPS);
	i.low = quantile(medians, BOOTSTRAPS, (1 - level) / 2);
	i.high = quantile(medians, BOOTSTRAPS, (1 + level) / 2);
	free(sorted);
	free(medians);
	free(drawn);
	return i;
}

/* The least is multiplied by n, the next by n - 1, and none is below one before it. */
void holm(double *p, int n)
{
	bool *done = calloc((size_t)n + 1, sizeof(*done));
	double least = 0;

	if (!done)
		abort();
	for (int left = n; left > 0; left--) {
		int at = -1;
		for (int i = 0; i < n; i++)
			if (!done[i] && (at < 0 || p[i] < p[at]))
				at = i;
		done[at] = true;
		p[at] *= left;
		p[at] = p[at] > 1 ? 1 : p[at];
		p[at] = p[at] < least ? least : p[at];
		least = p[at];
	}
	free(done);
}
