/* Words of words.h. */
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *less, *more;
} metrics[METRICS] = {
	[WALL] = { "wall time", "faster", "slower" },
	[CPU] = { "cpu time", "less cpu", "more cpu" },
	[RSS] = { "memory", "less memory", "more memory" },
	[CTXSW] = { "kernel switches", "fewer switches", "more switches" },
	[MATCHED] = { "what it prints", "lower", "higher" },
};

static const struct {
	enum metric metric;
	double size;
	const char *unit;
} units[] = {
	{ WALL, 1, "s" },	 { WALL, 1e-3, "ms" },	  { WALL, 1e-6, "µs" },
	{ CPU, 1, "s" },	 { CPU, 1e-3, "ms" },	  { CPU, 1e-6, "µs" },
	{ RSS, 1 << 30, "GiB" }, { RSS, 1 << 20, "MiB" }, { RSS, 1 << 10, "KiB" },
};

const char *words_metric(enum metric m)
{
	return metrics[m].name;
}

double words_scale(enum metric m, double most, const char **unit)
{
	double size = 1;

	*unit = "";
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (units[i].metric != m)
			continue;
		size = units[i].size;
		*unit = units[i].unit;
		if (most >= size)
			break;
	}
	return size;
}

const char *words_value(enum metric m, double value, char *buf)
{
	const char *unit;
	double n = value / words_scale(m, value, &unit);
	int digits = n >= 100 || (m == CTXSW && n == floor(n)) ? 0 : n >= 10 ? 1 : 2;

	if (isnan(value))
		snprintf(buf, NUMBER, "–");
	else if (m == MATCHED)
		snprintf(buf, NUMBER, "%.5g", value);
	else
		snprintf(buf, NUMBER, "%.*f%s%s", digits, n, *unit ? " " : "", unit);
	return buf;
}

const char *words_name(const struct arm *arm, char *buf)
{
	snprintf(buf, VARIANT_TEXT + 8, "%c  %s", arm->letter, arm->variant.text);
	return buf;
}

/* As many digits as show that it is not 1. */
static int digits_of(double factor)
{
	return factor < 1.001 ? 4 : factor < 1.01 ? 3 : factor < 10 ? 2 : 1;
}

static const char *direction(const struct experiment *e, bool less, char *buf)
{
	snprintf(buf, NUMBER, "%s%s", less ? metrics[e->metric].less : metrics[e->metric].more,
		 e->metric != MATCHED ? ""
		 : less == !e->higher ? " (better)"
				      : " (worse)");
	return buf;
}

void words_ratio(const struct experiment *e, const struct comparison *c, char *buf)
{
	char word[NUMBER], low[NUMBER], high[NUMBER];
	bool less = c->interval.high < 1;
	double near = less ? 1 / c->interval.high : c->interval.low,
	       far = less ? 1 / c->interval.low : c->interval.high;

	snprintf(low, sizeof(low), "%.*f", digits_of(near), near);
	snprintf(high, sizeof(high), "%.*f", digits_of(near), far);
	snprintf(buf, WORDS, "%s%s%s× %s", low, strcmp(low, high) ? "–" : "",
		 strcmp(low, high) ? high : "", direction(e, less, word));
}

/* The interval as percents, of something that may be on both sides. */
static void words_range(const struct experiment *e, const struct comparison *c, char *buf)
{
	char less[NUMBER], more[NUMBER];
	double low = (c->interval.low - 1) * 100, high = (c->interval.high - 1) * 100;

	direction(e, true, less);
	direction(e, false, more);
	if (low < 0 && high > 0)
		snprintf(buf, WORDS, "between %.1f %% %s and %.1f %% %s", -low, less, high, more);
	else if (low >= 0)
		snprintf(buf, WORDS, "%.1f–%.1f %% %s", low, high, more);
	else
		snprintf(buf, WORDS, "%.1f–%.1f %% %s", -high, -low, less);
}

void words_p(double p, char *buf)
{
	if (p < 0.0001)
		snprintf(buf, NUMBER, "p < 0.0001");
	else
		snprintf(buf, NUMBER, "p = %.*f", p < 0.001 ? 4 : p < 0.1 ? 3 : 2, p);
}

void words_verdict(const struct experiment *e, int i, char *buf)
{
	const struct comparison *c = &e->of[i];
	char range[WORDS] = "";
	double noise;

	if (c->verdict != TOO_FEW && c->verdict != NO_RATIO)
		words_range(e, c, range);
	switch (c->verdict) {
	case TOO_FEW:
		snprintf(buf, WORDS, "%d round%s are too few to say: at least %d", c->rounds,
			 c->rounds == 1 ? "" : "s", ROUNDS_ENOUGH);
		return;
	case NO_RATIO:
		snprintf(buf, WORDS, "a value is 0 or less: there is no ratio");
		return;
	case NOT_SHOWN:
		if (c->interval.low > 1 || c->interval.high < 1) {
			snprintf(buf, WORDS,
				 "no difference shown: not by Mann-Whitney; the rounds say %s",
				 range);
			return;
		}
		noise = (c->interval.high - c->interval.low) / 2 * 100;
		snprintf(buf, WORDS,
			 "no difference shown: n = %d too small, or noise of ± %.1f %%; %s",
			 c->rounds, noise, range);
		return;
	case UNQUIET:
		snprintf(buf, WORDS, "no verdict: a differs from itself as much; %s", range);
		return;
	default:
		words_ratio(e, c, buf);
	}
}

/* ---- what runs did ---- */

static bool has_failed(const struct run *r)
{
	return r->done && !r->good;
}

int arm_failed(const struct experiment *e, const struct arm *arm)
{
	int n = 0;

	for (int i = 0; i < e->rounds; i++)
		n += has_failed(&arm->runs[i]);
	return n + arm->given_up;
}

static void how(const struct experiment *e, const struct run *r, char *buf)
{
	if (r->how == ENDED_SIGNAL)
		snprintf(buf, WORDS / 2, "killed by signal %d (%s)", r->status,
			 strsignal(r->status));
	else if (r->how == ENDED_HUNG)
		snprintf(buf, WORDS / 2, "hung, ended after %.4g s", e->timeout);
	else
		snprintf(buf, WORDS / 2, "status %d", r->status);
}

static bool same_end(const struct run *a, const struct run *b)
{
	return a->how == b->how && a->status == b->status;
}

bool words_failures(const struct experiment *e, int arm, char *buf)
{
	const struct arm *of = &e->arms[arm];
	const struct run *first = NULL;
	char ended[WORDS / 2];
	int alike = 0, all = 0, done = 0;

	if (of->given_up) {
		how(e, &of->failed, ended);
		snprintf(buf, WORDS, "its warm-up failed, and it was given up: %s", ended);
		return true;
	}
	for (int i = 0; i < e->rounds; i++) {
		const struct run *r = &of->runs[i];
		done += r->done;
		if (!has_failed(r))
			continue;
		first = first ? first : r;
		alike += same_end(r, first);
		all++;
	}
	if (all == 0)
		return false;
	how(e, first, ended);
	if (alike == all)
		snprintf(buf, WORDS, "%d of %d runs failed: %s", all, done, ended);
	else
		snprintf(buf, WORDS, "%d of %d runs failed: %d times %s", all, done, alike, ended);
	return true;
}

/* The strictest in which a is like itself; LIKENESSES: in none. The number that is compared may
 * well differ. */
static int likeness_of(const struct experiment *e, int stream)
{
	int l = e->metric == MATCHED ? ALIKE_BUT_NUMBERS : ALIKE_EXACTLY;

	while (l < LIKENESSES &&
	       (e->arms[A].odd[stream][l] >= 0 || e->arms[CONTROL].odd[stream][l] >= 0))
		l++;
	return l;
}

static int odd_runs(const struct experiment *e, const struct arm *arm, int stream, int l)
{
	int n = 0;

	for (int i = 0; i < e->rounds; i++)
		n += arm->runs[i].good &&
		     arm->runs[i].answer[stream].hash[l] != e->first[stream].hash[l];
	return n;
}

static bool answers_differ(const struct experiment *e, int arm, int stream)
{
	int l = likeness_of(e, stream);

	return arm >= FIRST_B && l < LIKENESSES && e->arms[arm].odd[stream][l] >= 0;
}

bool words_answers(const struct experiment *e, int arm, int stream, char *buf, size_t size)
{
	static const char *const names[STREAMS] = { "standard output", "standard error" };
	static const char *const but[LIKENESSES] = { "", ", numbers aside",
						     ", numbers and order aside" };
	const struct arm *of = &e->arms[arm];
	int l = likeness_of(e, stream), n;
	char *a, *b, line[WORDS];
	size_t na, nb;

	if (arm == A && l == LIKENESSES) {
		snprintf(buf, size, "%s differs from run to run: it is not compared",
			 names[stream]);
		return true;
	}
	if (!answers_differ(e, arm, stream))
		return false;
	a = trial_text(e->reference[stream], &na);
	b = trial_text(of->odd[stream][l], &nb);
	answer_difference(a, na, b, nb, (enum likeness)l, line, sizeof(line));
	free(a);
	free(b);
	n = odd_runs(e, of, stream, l);
	snprintf(buf, size, "%s is not a's in %d run%s%s; in round %d%s%s", names[stream], n,
		 n == 1 ? "" : "s", but[l], of->odd_round[stream][l] + 1, *line ? ", " : "", line);
	return true;
}

bool experiment_failed(const struct experiment *e)
{
	for (int k = 0; k < e->narms; k++)
		if (arm_failed(e, &e->arms[k]) > 0 || answers_differ(e, k, OUT) ||
		    answers_differ(e, k, ERR))
			return true;
	return false;
}

/* ---- numbers ---- */

int arm_values(const struct experiment *e, const struct arm *arm, enum metric m, double *to)
{
	int n = 0;

	for (int i = 0; i < e->rounds; i++)
		if (arm->runs[i].good && !isnan(arm->runs[i].value[m]))
			to[n++] = arm->runs[i].value[m];
	sort_numbers(to, n);
	return n;
}

double arm_median(const struct experiment *e, const struct arm *arm, enum metric m)
{
	double *of = malloc((size_t)(e->rounds + 1) * sizeof(*of)), middle = NAN;
	int n = of ? arm_values(e, arm, m, of) : 0;

	if (n > 0)
		middle = quantile(of, n, 0.5);
	free(of);
	return middle;
}

double arm_counter(const struct arm *arm, const char *name)
{
	double of[COUNTED];

	for (int i = 0; i < arm->ncounted; i++)
		of[i] = counters_of(arm->counted[i], name);
	return arm->ncounted > 0 ? median(of, arm->ncounted) : 0;
}

bool arm_waits(const struct arm *arm, uint64_t *waits, uint64_t *longest)
{
	bool any = false;

	memset(waits, 0, TIMES_BUCKETS * sizeof(*waits));
	*longest = 0;
	for (int i = 0; i < arm->ncounted; i++) {
		for (int b = 0; b < TIMES_BUCKETS; b++) {
			waits[b] += arm->counted[i]->waits[b];
			any |= waits[b] > 0;
		}
		if (arm->counted[i]->longest > *longest)
			*longest = arm->counted[i]->longest;
	}
	return any;
}

double worse_by(const struct experiment *e, int i)
{
	const struct comparison *c = &e->of[i];

	if (c->verdict == (e->higher ? LESS : MORE))
		return e->higher ? 1 / c->interval.high - 1 : c->interval.low - 1;
	return 0;
}
