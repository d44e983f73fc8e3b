/* Conclusions: compare.h. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define P_BELOW 0.05

struct pool {
	double *logs; /* of ratios, `width` for each round */
	int rounds;
	double *x, *y; /* of b and of a: for the test */
	int nx, ny;
	bool positive;
};

/* A round's ratios to what a has there; of one measurement alone it is taken twice, so that rounds
 * stay alike. */
static void add_round(struct pool *p, double b, double a, double control, int width)
{
	double first = isnan(a) ? control : a, second = isnan(control) ? a : control;

	if (!isnan(a))
		p->y[p->ny++] = a;
	if (width == 2 && !isnan(control))
		p->y[p->ny++] = control;
	if (!isnan(b))
		p->x[p->nx++] = b;
	if (isnan(b) || isnan(first))
		return;
	p->positive &= b > 0 && first > 0 && second > 0;
	if (!p->positive)
		return;
	p->logs[p->rounds * width] = log(b / first);
	if (width == 2)
		p->logs[p->rounds * width + 1] = log(b / second);
	p->rounds++;
}

static void judge(struct pool *p, int width, struct chance *chance, struct comparison *to)
{
	*to = (struct comparison){ .rounds = p->rounds, .ratio = NAN, .p = 1 };
	to->interval = (struct interval){ NAN, NAN };
	to->ranks = mann_whitney(p->x, p->nx, p->y, p->ny);
	to->p = to->ranks.p;
	to->verdict = !p->positive ? NO_RATIO : TOO_FEW;
	if (!p->positive || p->rounds == 0)
		return;
	if (p->rounds >= ROUNDS_ENOUGH) {
		struct interval i = bootstrap_median(p->logs, p->rounds, width, COMPARE_LEVEL,
						     chance);
		to->interval = (struct interval){ exp(i.low), exp(i.high) };
		to->verdict = NOT_SHOWN;
	}
	to->ratio = exp(median(p->logs, p->rounds * width));
}

static bool differs(const struct comparison *c)
{
	return c->verdict == NOT_SHOWN && c->p < P_BELOW &&
	       (c->interval.low > 1 || c->interval.high < 1);
}

/* How far from 1 in either direction: the far end of an interval, and the near one. */
static double far_end(const struct interval *i)
{
	return fmax(i->high, 1 / i->low);
}
static double near_end(const struct interval *i)
{
	return i->low > 1 ? i->low : 1 / i->high;
}

static void conclude(struct comparison *of, int nbs)
{
	double floor = differs(&of[0]) ? far_end(&of[0].interval) : 1;

	for (int i = nbs; i >= 0; i--) {
		if (!differs(&of[i]))
			continue;
		of[i].verdict = of[i].interval.low > 1 ? MORE : LESS;
		if (i > 0 && near_end(&of[i].interval) <= floor)
			of[i].verdict = UNQUIET;
	}
}

void compare(const double *a, const double *control, const double *const *bs, int nbs, int n,
	     uint64_t seed, struct comparison *of)
{
	size_t most = (size_t)(n > 0 ? n : 1) * 2 * sizeof(double);
	struct pool p = { malloc(most), 0, malloc(most), malloc(most), 0, 0, true };
	double *ps = malloc(((size_t)nbs + 1) * sizeof(*ps));
	struct chance chance = { seed };

	if (!p.logs || !p.x || !p.y || !ps)
		abort();
	for (int k = 0; k < n; k++)
		add_round(&p, control[k], a[k], NAN, 1);
	judge(&p, 1, &chance, &of[0]);
	for (int i = 0; i < nbs; i++) {
		p.rounds = p.nx = p.ny = 0;
		p.positive = true;
		for (int k = 0; k < n; k++)
			add_round(&p, bs[i][k], a[k], control[k], 2);
		judge(&p, 2, &chance, &of[i + 1]);
		ps[i] = of[i + 1].p;
	}
	holm(ps, nbs);
	for (int i = 0; i < nbs; i++)
		of[i + 1].p = ps[i];
	conclude(of, nbs);
	free(p.logs);
	free(p.x);
	free(p.y);
	free(ps);
}
