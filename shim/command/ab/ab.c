/* heddle ab: does it matter? Runs of one command under variants, in turns, and what may be
 * concluded. Reads the options; conduct.c does the runs, compare.c concludes, report.c, json.c and
 * page.c tell. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "experiment.h"
#include "inject.h"
#include "progress.h"
#include "say.h"
#include "target.h"
#include "words.h"

enum { WORSE = 3, LINE = 4096 };

enum {
	A_VARIANT,
	B_VARIANT,
	ROUNDS,
	METRIC,
	HIGHER,
	LOWER,
	WARMUP,
	THRESHOLD,
	TIMEOUT,
	INPUT,
	EXPECT,
	KEEP,
	JSON,
	HTML,
	SEED,
};

static const struct option_row options[] = {
	[A_VARIANT] = { "a", 'a', "VARIANT", "what the others are compared with (native)" },
	[B_VARIANT] = { "b", 'b', "VARIANT", "what is compared with it; may be repeated (go)" },
	[ROUNDS] = { "rounds", 'n', "N", "in each every variant runs once, and a twice (20)" },
	[METRIC] = { "metric", 'm', "wall|cpu|rss|ctxsw|REGEX",
		     "what is compared (wall); of a REGEX the number in its first group" },
	[HIGHER] = { "higher", 0, NULL, "a REGEX's higher number is the better" },
	[LOWER] = { "lower", 0, NULL, "its lower number is (so it is without a word)" },
	[WARMUP] = { "warmup", 0, "N",
		     "runs of each before, not measured, with heddle's counters on (3)" },
	[THRESHOLD] = { "threshold", 0, "PERCENT", "status 3 if a b is surely worse by more" },
	[TIMEOUT] = { "timeout", 0, "SECONDS",
		      "a run that takes longer hangs (20 times a's warm-up, a minute or more)" },
	[INPUT] = { "stdin", 0, "FILE", "standard input of each run (/dev/null)" },
	[EXPECT] = { "expect", 0, "N", "the exit status of a run that is well (0)" },
	[KEEP] = { "keep", 0, "DIR", "leave there what each run wrote" },
	[JSON] = { "json", 0, "FILE", "write all numbers to it, too; - is standard output" },
	[HTML] = { "html", 0, "FILE", "write a page with drawings to it, too" },
	[SEED] = { "seed", 0, "N", "of the order of runs" },
	{ NULL, 0, NULL, NULL },
};

struct request {
	const char *a, *bs[ARMS - FIRST_B];
	int nbs;
	const char *json, *html;
	double threshold; /* NAN: none */
};

static bool mistake(const char *what, const char *text, const char *why)
{
	fprintf(stderr, "heddle ab: %s: '%s' %s\n", what, text, why);
	return false;
}

static bool set_metric(struct experiment *e, const char *text)
{
	static const char *const names[] = { "wall", "cpu", "rss", "ctxsw" };
	char why[128];
	int error;

	for (int m = WALL; m <= CTXSW; m++)
		if (strcmp(text, names[m]) == 0) {
			e->metric = (enum metric)m;
			return true;
		}
	if (e->pattern)
		return mistake("--metric", text, "is a second pattern");
	error = regcomp(&e->regex, text, REG_EXTENDED | REG_NEWLINE);
	if (error) {
		regerror(error, &e->regex, why, sizeof(why));
		fprintf(stderr, "heddle ab: --metric: '%s': %s\n", text, why);
		return false;
	}
	e->metric = MATCHED;
	e->pattern = text;
	return true;
}

static bool read_real(const char *what, const char *text, double least, double *to)
{
	char *end;

	*to = strtod(text, &end);
	return (end > text && *end == 0 && *to >= least && isfinite(*to)) ||
	       mistake(what, text, "is no such number");
}

static bool apply(struct experiment *e, struct request *r, int option, const char *value)
{
	enum { MOST_ROUNDS = 10000 };
	long n = 0;
	bool good;

	switch (option) {
	case A_VARIANT:
		r->a = value;
		return true;
	case B_VARIANT:
		if (r->nbs == ARMS - FIRST_B)
			return mistake("--b", value, "is one too many");
		r->bs[r->nbs++] = value;
		return true;
	case ROUNDS:
		good = read_number("--rounds", value, 1, MOST_ROUNDS, &n);
		e->asked = (int)n;
		return good;
	case METRIC:
		return set_metric(e, value);
	case HIGHER:
	case LOWER:
		e->higher = option == HIGHER;
		return true;
	case WARMUP:
		good = read_number("--warmup", value, 0, COUNTED, &n);
		e->warmups = (int)n;
		return good;
	case THRESHOLD:
		return read_real("--threshold", value, 0, &r->threshold);
	case TIMEOUT:
		return read_real("--timeout", value, 0.001, &e->timeout);
	case INPUT:
		e->setup.input = value;
		return access(value, R_OK) == 0 || mistake("--stdin", value, strerror(errno));
	case EXPECT:
		good = read_number("--expect", value, 0, 255, &n);
		e->expect = (int)n;
		return good;
	case KEEP:
		e->keep = value;
		return mkdir(value, 0777) == 0 || errno == EEXIST ||
		       mistake("--keep", value, strerror(errno));
	case JSON:
		r->json = value;
		return true;
	case HTML:
		r->html = value;
		return true;
	case SEED:
		good = read_number("--seed", value, 0, LONG_MAX, &n);
		e->seed = (uint64_t)n;
		return good;
	default:
		return false;
	}
}

/* Six digits are enough to be told apart, and short enough to be typed. */
static uint64_t fresh_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)time(NULL);
	return seed % 1000000;
}

static bool read_variants(struct experiment *e, const struct request *r)
{
	e->narms = FIRST_B + r->nbs;
	for (int k = 0; k < e->narms; k++) {
		struct arm *arm = &e->arms[k];
		arm->letter = (char)(k <= CONTROL ? 'a' : 'a' + k - CONTROL);
		if (k == CONTROL)
			arm->variant = e->arms[A].variant;
		else if (!variant_read(k == A ? r->a : r->bs[k - FIRST_B], &arm->variant))
			return false;
		say_clean(arm->variant.text);
	}
	return true;
}

/* Nothing is run of which it is known that it cannot be measured. */
static bool can_run(struct experiment *e)
{
	static struct target target;
	enum verdict verdict = target_check(e->command[0], &target);
	bool native = true;

	for (int k = 0; k < e->narms; k++)
		native &= e->arms[k].variant.native;
	if (verdict == TARGET_MISSING || (!native && verdict != TARGET_SERVED)) {
		say_clean(target.path);
		fprintf(stderr, "heddle ab: %s: %s%s\n", *target.path ? target.path : e->command[0],
			target.why, verdict == TARGET_MISSING ? "" : ": heddle cannot serve it");
		return false;
	}
	e->setup.preload = native ? "" : inject_value();
	return e->setup.preload != NULL;
}

static void set_line(struct experiment *e)
{
	static char line[LINE];
	size_t n = 0;

	for (char **word = e->command; *word && n < sizeof(line) - 1; word++) {
		bool quote = !**word || strpbrk(*word, " \t\n\"'$\\*?;&|<>()");
		int add = snprintf(line + n, sizeof(line) - n, "%s%s%s%s", n ? " " : "",
				   quote ? "'" : "", *word, quote ? "'" : "");
		n += (size_t)add;
	}
	say_clean(line);
	e->line = line;
}

static void conclude(struct experiment *e)
{
	double *of[ARMS];

	for (int k = 0; k < e->narms; k++) {
		of[k] = malloc((size_t)(e->rounds + 1) * sizeof(double));
		if (!of[k])
			abort();
		for (int i = 0; i < e->rounds; i++)
			of[k][i] = e->arms[k].runs[i].good ? e->arms[k].runs[i].value[e->metric]
							   : NAN;
	}
	compare(of[A], of[CONTROL], (const double *const *)of + FIRST_B, e->narms - FIRST_B,
		e->rounds, e->seed, e->of);
	for (int k = 0; k < e->narms; k++)
		free(of[k]);
}

/* Into a file of that name, or standard output. */
static bool tell(const struct experiment *e, const char *name,
		 void (*report)(const struct experiment *, FILE *))
{
	bool out = strcmp(name, "-") == 0, written;
	FILE *f = out ? stdout : fopen(name, "we");

	if (f)
		report(e, f);
	written = f && fflush(f) == 0 && !ferror(f);
	if (f && !out)
		written &= fclose(f) == 0;
	if (!written)
		fprintf(stderr, "heddle ab: %s: %s\n", name, strerror(errno));
	return written;
}

static int status_of(const struct experiment *e, const struct request *r)
{
	if (trial_interrupted)
		return 128 + trial_interrupted;
	if (experiment_failed(e))
		return FAILED;
	for (int i = 1; i < e->narms - 1; i++)
		if (worse_by(e, i) * 100 > r->threshold)
			return WORSE;
	return DONE;
}

/* Of the pattern no run had a number: that is no measurement. */
static bool unmatched(const struct experiment *e)
{
	return e->metric == MATCHED && isnan(arm_median(e, &e->arms[A], MATCHED));
}

static int experiment(struct experiment *e, const struct request *r)
{
	bool useful, quiet = r->json && strcmp(r->json, "-") == 0;
	struct timespec from, to;
	char why[WORDS];
	int status;

	clock_gettime(CLOCK_MONOTONIC, &from);
	useful = conduct(e);
	clock_gettime(CLOCK_MONOTONIC, &to);
	e->took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	if (!useful) {
		if (words_failures(e, A, why))
			fprintf(stderr, "heddle ab: a, %s: %s%s%s\n", e->arms[A].variant.text, why,
				*e->arms[A].last_words ? ": " : "", e->arms[A].last_words);
		else
			fprintf(stderr, "heddle ab: ended before the first round\n");
		return trial_interrupted ? 128 + trial_interrupted : FAILED;
	}
	if (unmatched(e)) {
		fprintf(stderr, "heddle ab: --metric: no run of a has a number that '%s' finds\n",
			e->pattern);
		return FAILED;
	}
	conclude(e);
	status = status_of(e, r);
	report_print(e, quiet ? stderr : stdout);
	if (r->json && !tell(e, r->json, report_json))
		status = FAILED;
	if (r->html && !tell(e, r->html, report_page))
		status = FAILED;
	return status;
}

static int run(const struct command *self, int argc, char **argv)
{
	static struct experiment e = {
		.asked = 20,
		.warmups = 3,
		.setup = { .who = "heddle ab", .input = "/dev/null", .tick = progress_draw }
	};
	struct request r = { .a = "native", .threshold = NAN };
	struct scan scan;
	int found, status = USAGE;

	e.seed = fresh_seed();
	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		if (!apply(&e, &r, found, scan.value))
			return USAGE;
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands == 0) {
		fprintf(stderr, "heddle ab: which command? see heddle ab --help\n");
		return USAGE;
	}
	if (e.higher && e.metric != MATCHED) {
		fprintf(stderr, "heddle ab: --higher is for a REGEX\n");
		return USAGE;
	}
	if (r.nbs == 0)
		r.bs[r.nbs++] = "go";
	e.command = e.setup.command = scan.operands;
	set_line(&e);
	if (read_variants(&e, &r) && can_run(&e))
		status = experiment(&e, &r);
	cgroup_remove();
	return status;
}

const struct command command_ab = {
	.name = "ab",
	.operands = "[--] COMMAND [ARGUMENT...]",
	.what = "Runs COMMAND under variants, in turns, and says whether they differ.",
	.options = options,
	.more = "A VARIANT is native, or a policy of heddle's with its switches: go, or lifo,steal=one.\n"
		"Behind commas it may have p=N for GOMAXPROCS, max-threads=N, seed=N; and native, too,\n"
		"cpus=0-1+4, as taskset has, and quota=1.5 cpus, by a cgroup.\n"
		"\n"
		"That b differs is said if three agree: the 95 % interval of the median ratio, whole\n"
		"rounds resampled, leaves out 1; Mann-Whitney gives p below 0.05, by Holm's method for\n"
		"several b; and a does not differ from itself as much, for it runs twice in each round.\n"
		"Of fewer than 6 rounds nothing is concluded.\n"
		"\n"
		"Exit status: 0 whatever the verdict; 1 if runs failed or answered otherwise than a's;\n"
		"2 for a mistake, before anything is run; 3 by the threshold.\n",
	.run = run,
	.early = true,
};
