/* heddle explore: is there an order of its threads in which a command fails? Reads the options;
 * search.c does the runs, judge.c says what is odd, tell.c tells. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ab/progress.h"
#include "commands.h"
#include "hunt.h"
#include "inject.h"
#include "say.h"
#include "target.h"

enum { LINE = 4096 };

enum { RUNS, SEED, NATIVE, OUTPUT, TIMEOUT, REPLAYS, PROCS, INPUT, JSON };

static const struct option_row options[] = {
	[RUNS] = { "runs", 'n', "N", "so many at the most, each by another order (1000)" },
	[SEED] = { "seed", 0, "N", "of the series: the same one, the same orders" },
	[NATIVE] = { "native", 0, "N", "native runs before, which say what it usually does (3)" },
	[OUTPUT] = { "output", 0, "ignore|REGEX",
		     "compare nothing of what it prints, or only what that matches" },
	[TIMEOUT] = { "timeout", 0, "SECONDS",
		      "a run that takes longer hangs (20 times the slowest, 10 or more)" },
	[REPLAYS] = { "replays", 0, "N", "how often what was found is run again (20)" },
	[PROCS] = { "procs", 'p', "N",
		    "GOMAXPROCS (1: with more the same seed is not the same order)" },
	[INPUT] = { "stdin", 0, "FILE", "standard input of each run (/dev/null)" },
	[JSON] = { "json", 0, "FILE", "write all of it there, too; - is standard output" },
	{ NULL, 0, NULL, NULL },
};

static bool mistake(const char *what, const char *text, const char *why)
{
	fprintf(stderr, "heddle explore: %s: '%s' %s\n", what, text, why);
	return false;
}

static bool set_count(const char *what, const char *value, long least, long most, int *to)
{
	long n = 0;
	bool good = read_number(what, value, least, most, &n);

	*to = (int)n;
	return good;
}

static bool set_output(struct hunt *h, const char *text)
{
	char why[128];
	int error;

	h->silent = strcmp(text, "ignore") == 0;
	if (h->silent)
		return true;
	if (h->pattern)
		return mistake("--output", text, "is a second pattern");
	error = regcomp(&h->regex, text, REG_EXTENDED | REG_NEWLINE);
	if (error) {
		regerror(error, &h->regex, why, sizeof(why));
		fprintf(stderr, "heddle explore: --output: '%s': %s\n", text, why);
		return false;
	}
	h->pattern = text;
	return true;
}

static bool apply(struct hunt *h, const char **json, int option, const char *value)
{
	enum { MOST_RUNS = 10000000, MOST = 10000, MOST_PROCS = 1024 };
	char *end;
	long n = 0;

	switch (option) {
	case RUNS:
		return set_count("--runs", value, 1, MOST_RUNS, &h->runs);
	case SEED:
		if (!read_number("--seed", value, 0, LONG_MAX, &n))
			return false;
		h->seed = (uint64_t)n;
		return true;
	case NATIVE:
		return set_count("--native", value, 1, MOST, &h->natives);
	case OUTPUT:
		return set_output(h, value);
	case TIMEOUT:
		h->timeout = strtod(value, &end);
		return (end > value && *end == 0 && h->timeout >= 0.001 && isfinite(h->timeout)) ||
		       mistake("--timeout", value, "is no such number");
	case REPLAYS:
		return set_count("--replays", value, 1, MOST, &h->replays);
	case PROCS:
		return set_count("--procs", value, 1, MOST_PROCS, &h->procs);
	case INPUT:
		h->setup.input = value;
		return access(value, R_OK) == 0 || mistake("--stdin", value, strerror(errno));
	default:
		*json = value;
		return true;
	}
}

/* Short enough to be typed. */
static uint64_t fresh_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)time(NULL);
	return seed % 1000000;
}

/* Nothing is run of which it is known that it cannot be explored. */
static bool can_run(struct hunt *h)
{
	static struct target target;
	enum verdict verdict = target_check(h->command[0], &target);

	if (verdict != TARGET_SERVED) {
		say_clean(target.path);
		fprintf(stderr, "heddle explore: %s: %s%s\n",
			*target.path ? target.path : h->command[0], target.why,
			verdict == TARGET_MISSING ? "" : ": heddle cannot serve it");
		return false;
	}
	h->setup.preload = inject_value();
	return h->setup.preload != NULL;
}

/* As it is to be typed again. */
static void set_line(struct hunt *h)
{
	static char line[LINE];
	size_t n = 0;

	for (char **word = h->command; *word && n < sizeof(line) - 1; word++) {
		bool quote = !**word || strpbrk(*word, " \t\n\"'$\\*?;&|<>()#~`!{}[]");
		if (n > 0)
			line[n++] = ' ';
		if (quote && n < sizeof(line) - 1)
			line[n++] = '\'';
		for (const char *c = *word; *c && n < sizeof(line) - 6; c++) {
			if (*c == '\'')
				n += (size_t)snprintf(line + n, sizeof(line) - n, "'\\''");
			else
				line[n++] = *c;
		}
		if (quote && n < sizeof(line) - 1)
			line[n++] = '\'';
	}
	line[n] = 0;
	say_clean(line);
	h->line = line;
}

/* Into a file of that name, or standard output. */
static bool write_json(const struct hunt *h, const char *name)
{
	bool out = strcmp(name, "-") == 0, written;
	FILE *f = out ? stdout : fopen(name, "we");

	if (f)
		tell_json(h, f);
	written = f && fflush(f) == 0 && !ferror(f);
	if (f && !out)
		written &= fclose(f) == 0;
	if (!written)
		fprintf(stderr, "heddle explore: %s: %s\n", name, strerror(errno));
	return written;
}

static int explore(struct hunt *h, const char *json)
{
	struct timespec from, to;
	bool searched;

	h->to = json && strcmp(json, "-") == 0 ? stderr : stdout;
	clock_gettime(CLOCK_MONOTONIC, &from);
	searched = hunt_search(h);
	clock_gettime(CLOCK_MONOTONIC, &to);
	h->took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
	if (searched)
		tell_end(h);
	if (searched && json && !write_json(h, json))
		return USAGE;
	if (trial_interrupted)
		return 128 + trial_interrupted;
	return !searched ? USAGE : h->found ? FAILED : DONE;
}

static int run(const struct command *self, int argc, char **argv)
{
	static struct hunt h = { .runs = 1000,
				 .natives = 3,
				 .procs = 1,
				 .setup = { .who = "heddle explore",
					    .input = "/dev/null",
					    .nocore = true,
					    .tick = progress_draw } };
	const char *json = NULL;
	struct scan scan;
	int found;

	h.seed = fresh_seed();
	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		if (!apply(&h, &json, found, scan.value))
			return USAGE;
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands == 0) {
		fprintf(stderr, "heddle explore: which command? see heddle explore --help\n");
		return USAGE;
	}
	h.command = h.setup.command = scan.operands;
	set_line(&h);
	return can_run(&h) ? explore(&h, json) : USAGE;
}

const struct command command_explore = {
	.name = "explore",
	.operands = "[--] COMMAND [ARGUMENT...]",
	.what = "Runs COMMAND in one order of its threads after the other, until it fails.",
	.options = options,
	.more = "It fails if it dies of a signal, hangs, or ends or prints otherwise than natively. Then\n"
		"the command line is printed that has that order again, how often it did, what\n"
		"differed, and of a hang every thread, as heddle dump prints it.\n"
		"\n"
		"The orders are those of the policies pct (with depth 1 to 4), random and chaos. They\n"
		"change at calls that heddle answers, and within a computation only where a thread\n"
		"computes for long. What is printed is compared as far as native runs agree: exactly,\n"
		"but for numbers, but for the order of lines, or not at all; standard error is not.\n"
		"\n"
		"Exit status: 0 if nothing was found; 1 if something was; 2 for a mistake, or if there\n"
		"is nothing to explore.\n",
	.run = run,
	.early = true,
};
