/* The report for people. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "words.h"

/* Five cells and the count of runs are as wide as a usual terminal. */
enum { NAME = 20, CELL = 11, RUNS = 5, TEXT = 1024 };

/* Bytes of UTF-8 are not columns. */
static int columns(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void left(FILE *to, const char *text, int width)
{
	fprintf(to, "%s%*s", text, width > columns(text) ? width - columns(text) : 0, "");
}

static void right(FILE *to, const char *text, int width)
{
	fprintf(to, "%*s%s", width > columns(text) ? width - columns(text) : 0, "", text);
}

/* Names that are longer are cut. */
static void name_of(const struct experiment *e, int arm, int width, char *buf)
{
	const struct arm *of = &e->arms[arm];
	char full[TEXT];

	snprintf(full, sizeof(full), "%c  %s%s", of->letter, of->variant.text,
		 arm == CONTROL ? ", again" : "");
	if ((int)strlen(full) > width)
		snprintf(buf, TEXT, "%.*s…", width - 1, full);
	else
		strcpy(buf, full);
}

static void heading(const struct experiment *e, FILE *to)
{
	char time[SAY_TIME];

	fprintf(to, "%sheddle ab%s  %s\n", bold(), plain(), e->line);
	fprintf(to, "%d round%s, the order of each by seed %llu; %d warm-up%s of each; %s\n",
		e->rounds, e->rounds == 1 ? "" : "s", (unsigned long long)e->seed, e->warmups,
		e->warmups == 1 ? "" : "s", say_time(time, (uint64_t)(e->took * 1e9)));
	if (e->interrupted)
		fprintf(to, "Cut short: %d rounds were asked for.\n", e->asked);
}

static void row(const struct experiment *e, int arm, FILE *to)
{
	static const double at[] = { 0.5, 0.25, 0.75, 0, 1 };
	double *of = malloc((size_t)(e->rounds + 1) * sizeof(*of));
	char buf[TEXT], number[NUMBER];
	int n = of ? arm_values(e, &e->arms[arm], e->metric, of) : 0;

	name_of(e, arm, NAME, buf);
	fprintf(to, "%s", arm == CONTROL ? dim() : "");
	left(to, buf, NAME);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		right(to, n > 0 ? words_value(e->metric, quantile(of, n, at[i]), number) : "–",
		      CELL);
	fprintf(to, "%*d%s\n", RUNS, n, arm == CONTROL ? plain() : "");
	free(of);
}

static void table(const struct experiment *e, FILE *to)
{
	static const char *const heads[] = { "median", "25 %", "75 %", "least", "most" };
	char name[TEXT];

	snprintf(name, sizeof(name), "%s%s", words_metric(e->metric),
		 e->higher ? ", higher better" : "");
	fprintf(to, "\n%s", bold());
	left(to, name, NAME);
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		right(to, heads[i], CELL);
	fprintf(to, "%*s%s\n", RUNS, "runs", plain());
	for (int k = 0; k < e->narms; k++)
		row(e, k, to);
}

static void wrongs(const struct experiment *e, FILE *to)
{
	char buf[TEXT];
	bool any = false;

	for (int k = 0; k < e->narms; k++) {
		const struct arm *arm = &e->arms[k];
		char name[TEXT];
		name_of(e, k, TEXT / 2, name);
		for (int what = 0; what <= STREAMS; what++) {
			if (what < STREAMS ? !words_answers(e, k, what, buf, sizeof(buf))
					   : !words_failures(e, k, buf))
				continue;
			fprintf(to, "%s%s%s: %s%s\n", any ? "" : "\n", bold(), name, plain(), buf);
			any = true;
			if (what == STREAMS && *arm->last_words)
				fprintf(to, "     its last words: %s\n", arm->last_words);
		}
		if (*arm->natively) {
			fprintf(to, "%s%s%s: %snot under heddle: %s\n", any ? "" : "\n", bold(),
				name, plain(), arm->natively);
			any = true;
		}
	}
}

/* The first part of a verdict in bold; what comes behind a semicolon, and what it rests on, below.
 */
static void verdict(const struct experiment *e, int i, const char *who, FILE *to)
{
	const struct comparison *c = &e->of[i];
	char words[WORDS], p[NUMBER], *more;
	double pairs = (e->higher ? c->ranks.delta + 1 : 1 - c->ranks.delta) / 2;

	words_verdict(e, i, words);
	more = strstr(words, "; ");
	if (more)
		*more = 0;
	fprintf(to, "\n%s%s: %s%s\n", bold(), who, words, plain());
	if (more)
		fprintf(to, "     %s\n", more + 2);
	if (isnan(c->interval.low))
		return;
	words_p(c->p, p);
	fprintf(to,
		"     %sratio %.4g (95 %%: %.4g–%.4g), Mann-Whitney %s\n"
		"     Cliff's delta %+.2f: the better in %.0f %% of pairs%s\n",
		dim(), c->ratio, c->interval.low, c->interval.high, p, c->ranks.delta, pairs * 100,
		plain());
}

static void verdicts(const struct experiment *e, FILE *to)
{
	bool control = e->of[0].verdict == LESS || e->of[0].verdict == MORE;
	char name[TEXT];

	for (int k = FIRST_B; k < e->narms; k++) {
		name_of(e, k, TEXT / 2, name);
		verdict(e, k - 1, name, to);
	}
	verdict(e, 0, "Control, a again", to);
	if (control)
		fputs("     It seems to differ from itself: what is no larger is not believed.\n",
		      to);
	if (e->narms > FIRST_B + 1)
		fprintf(to, "\nEach p is by Holm's method, for %d comparisons together.\n",
			e->narms - FIRST_B);
}

static void counter_head(const struct experiment *e, FILE *to)
{
	char buf[TEXT];

	fprintf(to, "\n%s", bold());
	left(to, "medians", NAME);
	for (int k = 0; k < e->narms; k++) {
		if (k == CONTROL)
			continue;
		name_of(e, k, CELL - 1, buf);
		right(to, buf, CELL);
	}
	fprintf(to, "%s\n", plain());
}

static void measured(const struct experiment *e, FILE *to)
{
	char number[NUMBER];

	for (int m = WALL; m <= CTXSW; m++) {
		left(to, words_metric((enum metric)m), NAME);
		for (int k = 0; k < e->narms; k++)
			if (k != CONTROL)
				right(to,
				      words_value((enum metric)m,
						  arm_median(e, &e->arms[k], (enum metric)m),
						  number),
				      CELL);
		fputc('\n', to);
	}
}

static void counter_row(const struct experiment *e, const char *name, FILE *to)
{
	char number[SAY_COUNT];
	bool any = false;

	for (int k = 0; k < e->narms; k++)
		any |= arm_counter(&e->arms[k], name) > 0;
	if (!any || !counters_text(name))
		return;
	left(to, name, NAME);
	for (int k = 0; k < e->narms; k++)
		if (k != CONTROL)
			right(to,
			      e->arms[k].ncounted == 0
				      ? "–"
				      : say_count(number, (uint64_t)arm_counter(&e->arms[k], name)),
			      CELL);
	fputc('\n', to);
}

static void wait_row(const struct experiment *e, const char *name, double q, FILE *to)
{
	uint64_t waits[TIMES_BUCKETS], longest;
	char number[NUMBER];

	left(to, name, NAME);
	for (int k = 0; k < e->narms; k++) {
		uint64_t ns;
		if (k == CONTROL)
			continue;
		if (!arm_waits(&e->arms[k], waits, &longest)) {
			right(to, "–", CELL);
			continue;
		}
		ns = q > 1 ? longest : counters_wait(waits, q);
		ns = ns > longest ? longest : ns;
		right(to, words_value(WALL, (double)ns / 1e9, number), CELL);
	}
	fputc('\n', to);
}

static void counters(const struct experiment *e, FILE *to)
{
	const struct counters *rows = NULL;

	counter_head(e, to);
	measured(e, to);
	for (int k = 0; k < e->narms; k++)
		for (int i = 0; i < e->arms[k].ncounted; i++)
			if (!rows || e->arms[k].counted[i]->n > rows->n)
				rows = e->arms[k].counted[i];
	if (!rows || rows->processes == 0) {
		if (rows)
			fprintf(to,
				"No counters: no process made a second thread and ended by itself.\n");
		return;
	}
	fprintf(to, "%sof the scheduler, in warm-ups%s\n", dim(), plain());
	for (int i = 0; i < rows->n; i++)
		counter_row(e, rows->of[i].name, to);
	wait_row(e, "wait for a P, median", 0.5, to);
	wait_row(e, "99th percentile", 0.99, to);
	wait_row(e, "longest", 2, to);
}

void report_print(const struct experiment *e, FILE *to)
{
	heading(e, to);
	table(e, to);
	wrongs(e, to);
	verdicts(e, to);
	counters(e, to);
}
