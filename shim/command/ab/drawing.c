/* Drawing of drawing.h. Widths and heights are in the units of the viewBox, the page scales it. */
#include "drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 190.0
#define RIGHT 20.0
#define WIDTH 860.0
#define ROW 46.0
#define AXIS 34.0

/* What is drawn from LEFT to WIDTH - RIGHT. */
struct scale {
	double low, high;
	bool logarithmic;
};

static double at(const struct scale *s, double v)
{
	double low = s->logarithmic ? log(s->low) : s->low,
	       high = s->logarithmic ? log(s->high) : s->high, x = s->logarithmic ? log(v) : v;

	return LEFT + (x - low) / (high - low) * (WIDTH - LEFT - RIGHT);
}

void draw_text(FILE *to, const char *text)
{
	for (; *text; text++)
		if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else
			fputc(*text, to);
}

void draw_name(const struct experiment *e, int arm, FILE *to)
{
	fprintf(to, "%c ", e->arms[arm].letter);
	draw_text(to, e->arms[arm].variant.text);
	fputs(arm == CONTROL ? ", again" : "", to);
}

static void begin(FILE *to, double height, const char *label)
{
	fprintf(to, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", WIDTH,
		height, label);
}

static void label(const struct experiment *e, int arm, double y, FILE *to)
{
	fprintf(to, "<text class=\"name\" x=\"%.0f\" y=\"%.1f\">", LEFT - 14, y + 4);
	/* Long ones are cut by who sees them, not by us: the page has them whole in its tables. */
	if (strlen(e->arms[arm].variant.text) > 22) {
		char cut[32];
		snprintf(cut, sizeof(cut), "%c %.20s…", e->arms[arm].letter,
			 e->arms[arm].variant.text);
		draw_text(to, cut);
	} else {
		draw_name(e, arm, to);
	}
	fputs("</text>\n", to);
}

/* The step of 1, 2 or 5 times a power of ten of which some six are in the range. */
static double step_of(const struct scale *s)
{
	double rough = (s->high - s->low) / 6, power = pow(10, floor(log10(rough)));

	return rough < 1.5 * power   ? power
	       : rough < 3.5 * power ? 2 * power
	       : rough < 7.5 * power ? 5 * power
				     : 10 * power;
}

static void tick(double x, double bottom, const char *text, FILE *to)
{
	fprintf(to,
		"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%.1f\"/>"
		"<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
		x, x, bottom, x, bottom + 18, text);
}

static void ticks(const struct scale *s, double bottom, double divisor, const char *unit, FILE *to)
{
	struct scale told = { s->low / divisor, s->high / divisor, false };
	double step = step_of(&told);
	char text[64];

	for (double t = ceil(told.low / step) * step; t <= told.high; t += step) {
		snprintf(text, sizeof(text), "%.6g%s%s", fabs(t) < step / 2 ? 0 : t,
			 *unit ? " " : "", unit);
		tick(at(s, t * divisor), bottom, text, to);
	}
}

/* From the least to the largest of all runs, and a little more. */
static struct scale scale_of(const struct experiment *e)
{
	double *of = malloc((size_t)(e->rounds + 1) * sizeof(*of)), room;
	struct scale s = { INFINITY, -INFINITY, false };

	for (int k = 0; of && k < e->narms; k++) {
		int n = arm_values(e, &e->arms[k], e->metric, of);
		if (n > 0) {
			s.low = fmin(s.low, of[0]);
			s.high = fmax(s.high, of[n - 1]);
		}
	}
	free(of);
	if (s.low > s.high)
		s = (struct scale){ 0, 1, false };
	room = s.high > s.low ? (s.high - s.low) * 0.04 : fabs(s.low) * 0.05 + 1e-9;
	s.low -= room;
	s.high += room;
	return s;
}

static double dot(const struct experiment *e, int arm, int round, double x, double y, FILE *to)
{
	char value[NUMBER];
	double v = e->arms[arm].runs[round].value[e->metric];

	fprintf(to,
		"<circle class=\"k%d dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\"><title>round %d: %s"
		"</title></circle>\n",
		arm, x, y, round + 1, words_value(e->metric, v, value));
	return v;
}

static bool has_value(const struct experiment *e, int arm, int round)
{
	const struct run *r = &e->arms[arm].runs[round];

	return r->good && !isnan(r->value[e->metric]);
}

void draw_values(const struct experiment *e, FILE *to)
{
	double *of = malloc((size_t)(e->rounds + 1) * sizeof(*of)), bottom = e->narms * ROW + 6;
	struct scale s = scale_of(e);
	const char *unit;
	double divisor = words_scale(e->metric, s.high, &unit);

	begin(to, bottom + AXIS, "the runs of each variant");
	ticks(&s, bottom, divisor, unit, to);
	for (int k = 0; of && k < e->narms; k++) {
		double y = 6 + (k + 0.5) * ROW;
		int n = arm_values(e, &e->arms[k], e->metric, of);
		label(e, k, y, to);
		if (n == 0)
			continue;
		fprintf(to,
			"<rect class=\"k%d box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"30\" rx=\"3\"/>\n",
			k, at(&s, quantile(of, n, 0.25)), y - 15,
			fmax(1, at(&s, quantile(of, n, 0.75)) - at(&s, quantile(of, n, 0.25))));
		for (int i = 0; i < e->rounds; i++)
			if (has_value(e, k, i))
				dot(e, k, i, at(&s, e->arms[k].runs[i].value[e->metric]),
				    y + (fmod(i * 0.618034, 1) - 0.5) * 22, to);
		fprintf(to,
			"<line class=\"k%d median\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
			k, at(&s, quantile(of, n, 0.5)), at(&s, quantile(of, n, 0.5)), y - 18,
			y + 18);
	}
	fputs("</svg>\n", to);
	free(of);
}

void draw_ratios(const struct experiment *e, FILE *to)
{
	struct scale s = { 0.97, 1.03, true };
	double bottom = (e->narms - 1) * 36 + 6;
	static const double marks[] = { 0.01, 0.02, 0.05, 0.1,	0.2, 0.25, 0.33, 0.5, 0.67,
					0.8,  0.9,  0.95, 0.98, 1,   1.02, 1.05, 1.1, 1.25,
					1.5,  2,    3,	  4,	5,   10,   20,	 50,  100 };

	for (int i = 0; i < e->narms - 1; i++) {
		if (isnan(e->of[i].interval.low))
			continue;
		s.low = fmin(s.low, e->of[i].interval.low / 1.02);
		s.high = fmax(s.high, e->of[i].interval.high * 1.02);
	}
	begin(to, bottom + AXIS, "the ratio of each variant to a");
	for (size_t i = 0, shown = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		static double last;
		char text[32];
		double x;
		if (marks[i] < s.low || marks[i] > s.high)
			continue;
		x = at(&s, marks[i]);
		if (shown++ > 0 && x - last < 44)
			continue;
		/* Room for the 1 that is to come. */
		if (marks[i] < 1 && s.high > 1 && at(&s, 1) - x < 44)
			continue;
		last = x;
		snprintf(text, sizeof(text), "%g×", marks[i]);
		tick(x, bottom, text, to);
	}
	fprintf(to, "<line class=\"one\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%.1f\"/>\n",
		at(&s, 1), at(&s, 1), bottom);
	for (int i = 0; i < e->narms - 1; i++) {
		const struct comparison *c = &e->of[i];
		double y = 6 + (i + 0.5) * 36;
		label(e, i + 1, y, to);
		if (isnan(c->interval.low))
			continue;
		fprintf(to,
			"<line class=\"k%d interval\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<circle class=\"k%d dot ratio\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>%.4g, 95 %%: "
			"%.4g–%.4g</title></circle>\n",
			i + 1, at(&s, c->interval.low), at(&s, c->interval.high), y, y, i + 1,
			at(&s, c->ratio), y, c->ratio, c->interval.low, c->interval.high);
	}
	fputs("</svg>\n", to);
}

void draw_rounds(const struct experiment *e, FILE *to)
{
	enum { HEIGHT = 220 };
	struct scale s = scale_of(e), told;
	const char *unit;
	double divisor = words_scale(e->metric, s.high, &unit), step;

	begin(to, HEIGHT + AXIS, "the runs in the order of rounds");
	told = (struct scale){ s.low / divisor, s.high / divisor, false };
	step = step_of(&told);
	for (double t = ceil(told.low / step) * step; t <= told.high; t += step) {
		double y = HEIGHT - (t - told.low) / (told.high - told.low) * (HEIGHT - 8);
		fprintf(to,
			"<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text class=\"name\" x=\"%.0f\" y=\"%.1f\">%.6g %s</text>\n",
			LEFT, WIDTH - RIGHT, y, y, LEFT - 14, y + 4, t, unit);
	}
	for (int i = 0; i < e->rounds; i++) {
		double x = LEFT + (i + 0.5) / e->rounds * (WIDTH - LEFT - RIGHT);
		if (e->rounds <= 20 || i % (e->rounds / 10) == 0)
			fprintf(to, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%d</text>\n", x,
				HEIGHT + 18, i + 1);
		for (int k = 0; k < e->narms; k++) {
			double v = e->arms[k].runs[i].value[e->metric];
			if (has_value(e, k, i))
				dot(e, k, i, x,
				    HEIGHT - (v - s.low) / (s.high - s.low) * (HEIGHT - 8), to);
		}
	}
	fputs("</svg>\n", to);
}

/* ---- waits for a P ---- */

enum { TENTH_POWERS = 10, WAITS_ROW = 74 };

static const char *power_name(int power)
{
	static const char *const names[TENTH_POWERS + 1] = {
		"1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs",
		"1 ms", "10 ms", "100 ms", "1 s",  "10 s",
	};

	return names[power];
}

/* Two steps to each power of two, drawn as one outline. The highest of all arms has the height of
 * a row. */
static void outline(const double *shares, int n, double most, const struct scale *s, int arm,
		    double floor_y, FILE *to)
{
	fprintf(to, "<path class=\"k%d wave\" d=\"M%.1f %.1f", arm, at(s, s->low), floor_y);
	for (int i = 0; i < n; i++) {
		double y = floor_y - shares[i] / most * (WAITS_ROW - 16);
		double from = fmax(s->low, s->low * pow(2, i / 2.0)),
		       next = fmin(s->high, s->low * pow(2, (i + 1) / 2.0));
		if (from >= s->high)
			break;
		fprintf(to, "L%.1f %.1fL%.1f %.1f", at(s, from), y, at(s, next), y);
	}
	fprintf(to, "L%.1f %.1fZ\"/>\n", at(s, s->high), floor_y);
}

enum { STEPS = 64 };

static double shares_of(const uint64_t *waits, const struct scale *s, double *shares)
{
	double all = 0, most = 0;

	memset(shares, 0, STEPS * sizeof(*shares));
	for (uint32_t b = 0; b < TIMES_BUCKETS; b++)
		all += (double)waits[b];
	for (uint32_t b = 0; b < TIMES_BUCKETS && all > 0; b++) {
		double ns = fmax(s->low, (double)times_upto(b));
		int step = (int)(log2(ns / s->low) * 2);
		step = step < STEPS ? step : STEPS - 1;
		shares[step] += (double)waits[b] / all;
		most = fmax(most, shares[step]);
	}
	return most;
}

static void wait_mark(const uint64_t *waits, uint64_t longest, double q, const char *name,
		      const struct scale *s, double y, int arm, FILE *to)
{
	uint64_t ns = counters_wait(waits, q);
	char value[NUMBER];
	bool before;
	double x;

	ns = ns > longest ? longest : ns;
	x = at(s, fmin(s->high, fmax(s->low, (double)ns)));
	/* Beside the mark, outwards; of one at the edge inwards and lower. */
	before = q < 0.9 || x > WIDTH - 110;
	fprintf(to,
		"<line class=\"k%d mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
		"<text class=\"mark%s\" x=\"%.1f\" y=\"%.1f\">%s %s</text>\n",
		arm, x, x, y - WAITS_ROW + 14, y, before ? " before" : "", before ? x - 4 : x + 4,
		y - WAITS_ROW + (q > 0.9 && before ? 36 : 23), name,
		words_value(WALL, (double)ns / 1e9, value));
}

bool draw_waits(const struct experiment *e, FILE *to)
{
	struct scale s = { 100, 1e9, true };
	double shares[STEPS], most = 0, bottom;
	uint64_t waits[TIMES_BUCKETS], longest;
	int rows = 0;

	for (int k = 0; k < e->narms; k++)
		if (arm_waits(&e->arms[k], waits, &longest)) {
			most = fmax(most, shares_of(waits, &s, shares));
			rows++;
		}
	if (rows == 0)
		return false;
	bottom = rows * WAITS_ROW + 6;
	begin(to, bottom + AXIS, "how long threads waited for a P");
	for (int power = 2; power <= 9; power++)
		tick(at(&s, pow(10, power)), bottom, power_name(power), to);
	for (int k = 0, row = 0; k < e->narms; k++) {
		double y;
		if (!arm_waits(&e->arms[k], waits, &longest))
			continue;
		shares_of(waits, &s, shares);
		y = 6 + ++row * WAITS_ROW;
		label(e, k, y - WAITS_ROW / 2.0, to);
		outline(shares, STEPS, most, &s, k, y, to);
		wait_mark(waits, longest, 0.5, "half", &s, y, k, to);
		wait_mark(waits, longest, 0.99, "99 %", &s, y, k, to);
	}
	fputs("</svg>\n", to);
	return true;
}
