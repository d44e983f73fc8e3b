/* The statistics of heddle ab: against what R says (ab_data.txt, made by ab_data.R), and on noise
 * like that of machines, where it is known whether there is a difference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../test.h"
#include "ab/answer.h"
#include "ab/compare.h"
#include "ab/counters.h"
#include "ab/variant.h"

enum { MOST = 128, ARMS = 4 };

/* ---- as R has it ---- */

struct numbers {
	double of[MOST];
	int n;
};

/* The numbers of a line; "NaN" is one. */
static struct numbers numbers_of(char *line)
{
	struct numbers ns = { .n = 0 };
	char *word, *rest = line;

	while ((word = strsep(&rest, " \n")))
		if (*word && ns.n < MOST)
			ns.of[ns.n++] = strtod(word, NULL);
	return ns;
}

/* Calls fn with each line's first word and numbers. */
static int each_line(void (*fn)(const char *word, struct numbers *ns))
{
	FILE *f = fopen("tests/command/ab_data.txt", "r");
	char *line = NULL, *rest;
	size_t size = 0;
	int cases = 0;

	EXPECT(f != NULL);
	while (getline(&line, &size, f) > 0) {
		rest = line;
		char *word = strsep(&rest, " \n");
		struct numbers ns = numbers_of(strcmp(word, "case") == 0 ? word + 4 : rest);
		cases += strcmp(word, "case") == 0;
		fn(word, &ns);
	}
	free(line);
	fclose(f);
	return cases;
}

static struct numbers x, y;

static bool near(double a, double b, double relative)
{
	return fabs(a - b) <= relative * fmax(fabs(a), fabs(b)) + 1e-13;
}

/* Both of R's: with the exact one where it is to be had, and the normal one always. */
static void ranks_agree(const char *word, struct numbers *ns)
{
	struct ranks r;

	if (*word == 'x')
		x = *ns;
	if (*word == 'y')
		y = *ns;
	if (strlen(word) < 1 || *word == 'x' || *word == 'y' || *word == 'h' || *word == 'c')
		return;
	r = mann_whitney(x.of, x.n, y.of, y.n);
	if (strcmp(word, "w") == 0)
		EXPECT(r.w == ns->of[0]);
	if (strcmp(word, "p") == 0)
		EXPECT(isnan(ns->of[0]) ? r.p == 1 : near(r.p, ns->of[0], 1e-9));
	/* R takes the normal one for itself where there are ties, and from fifty on. */
	if (strcmp(word, "p") == 0 && !r.exact && !isnan(ns->of[1]))
		EXPECT(near(r.p, ns->of[1], 1e-9));
	if (strcmp(word, "delta") == 0)
		EXPECT(near(r.delta, ns->of[0], 1e-9));
}

TEST(mann_whitney_and_cliff_agree_with_R)
{
	EXPECT(each_line(ranks_agree) >= 12);
}

static void medians_agree(const char *word, struct numbers *ns)
{
	enum { DRAWN = 9 };
	double low[DRAWN], high[DRAWN], range;

	if (*word == 'x')
		x = *ns;
	if (*word == 'y')
		y = *ns;
	if (strcmp(word, "medians") == 0) {
		EXPECT(near(median(x.of, x.n), ns->of[0], 1e-9));
		EXPECT(near(median(y.of, y.n), ns->of[1], 1e-9));
	}
	if (strcmp(word, "quartiles") == 0) {
		sort_numbers(y.of, y.n);
		EXPECT(near(quantile(y.of, y.n, 0.25), ns->of[0], 1e-9));
		EXPECT(near(quantile(y.of, y.n, 0.75), ns->of[1], 1e-9));
	}
	/* Chance has drawn both, so an end may lie at the next of the sample: seldom, and the seeds
	 * are fixed. */
	if (strcmp(word, "bootstrap") == 0) {
		for (uint64_t seed = 0; seed < DRAWN; seed++) {
			struct chance chance = { seed };
			struct interval i = bootstrap_median(x.of, x.n, 1, 0.95, &chance);
			low[seed] = i.low;
			high[seed] = i.high;
		}
		sort_numbers(low, DRAWN);
		sort_numbers(high, DRAWN);
		sort_numbers(x.of, x.n);
		range = quantile(x.of, x.n, 0.75) - quantile(x.of, x.n, 0.25);
		EXPECT(fabs(low[DRAWN / 2] - ns->of[0]) <= 0.15 * range + 1e-5 * fabs(ns->of[0]));
		EXPECT(fabs(high[DRAWN / 2] - ns->of[1]) <= 0.15 * range + 1e-5 * fabs(ns->of[1]));
	}
}

TEST(medians_quartiles_and_bootstrap_agree_with_R)
{
	EXPECT(each_line(medians_agree) >= 12);
}

static void holm_agrees(const char *word, struct numbers *ns)
{
	if (strcmp(word, "holm") == 0)
		x = *ns;
	if (strcmp(word, "held") != 0)
		return;
	holm(x.of, x.n);
	for (int i = 0; i < x.n; i++)
		EXPECT(near(x.of[i], ns->of[i], 1e-9));
	x.n = -1;
}

TEST(holms_method_agrees_with_R)
{
	each_line(holm_agrees);
	EXPECT_EQ(x.n, -1);
}

/* ---- on noise ---- */

/* What a machine does to times: each run is skewed to the long side, sometimes a neighbour comes
 * and stays for some runs, and it becomes slower by and by. */
struct noise {
	struct chance chance;
	double before, drift, width, neighbour;
};

static double uniform(struct chance *c)
{
	return ((double)(chance_next(c) >> 11) + 0.5) / 9007199254740992.0;
}

static double gauss(struct chance *c)
{
	return sqrt(-2 * log(uniform(c))) * cos(2 * M_PI * uniform(c));
}

/* Each run then has the same noise, whatever was before. */
static bool no_drift;

static double run_time(struct noise *n, double truth)
{
	if (no_drift)
		return truth * exp(n->width * gauss(&n->chance)) +
		       (uniform(&n->chance) < 0.05 ? n->width : 0);
	double spike = uniform(&n->chance) < 0.05 ? -log(uniform(&n->chance)) * 5 * n->width : 0;

	n->before = 0.6 * n->before + 0.8 * n->width * gauss(&n->chance);
	n->drift += 0.001;
	if (uniform(&n->chance) < 0.03)
		n->neighbour = n->neighbour > 0 ? 0 : 4 * n->width;
	return truth * (1 + n->drift + n->neighbour + spike) *
	       exp(n->before + n->width * gauss(&n->chance));
}

/* An experiment as conduct.c does it: in each round each arm once, in an order of chance. arms: a,
 * its control, then some b, of these times. */
static void experiment(struct noise *noise, int n, int arms, const double *truth,
		       struct comparison *of)
{
	static double values[ARMS][MOST];
	const double *bs[ARMS];

	for (int k = 0; k < n; k++) {
		int order[ARMS] = { 0, 1, 2, 3 };
		chance_shuffle(&noise->chance, order, arms);
		for (int i = 0; i < arms; i++)
			values[order[i]][k] = run_time(noise, truth[order[i]]);
	}
	for (int i = 2; i < arms; i++)
		bs[i - 2] = values[i];
	compare(values[0], values[1], bs, arms - 2, n, noise->chance.state, of);
}

static bool verdict_given(const struct comparison *c)
{
	return c->verdict == LESS || c->verdict == MORE;
}

/* In percent of 200 experiments, those in which any b is said to differ. */
static int said_to_differ(uint64_t seed, double width, int n, int arms, const double *truth)
{
	enum { REPEATS = 200 };
	int said = 0;

	for (int r = 0; r < REPEATS; r++) {
		struct noise noise = { .chance = { seed * 1000003 + (uint64_t)r }, .width = width };
		struct comparison of[ARMS];
		bool any = false;
		experiment(&noise, n, arms, truth, of);
		for (int i = 1; i < arms - 1; i++)
			any |= verdict_given(&of[i]);
		said += any;
	}
	return said * 100 / REPEATS;
}

/* The seeds are fixed: what is found is found each time. */
TEST_IN(300, of_200_experiments_on_the_same_at_most_7_in_100_see_a_difference)
{
	static const double same[ARMS] = { 1, 1, 1, 1 };
	int six = said_to_differ(1, 0.02, 6, 3, same),
	    twenty = said_to_differ(2, 0.02, 20, 3, same);
	int two = said_to_differ(3, 0.02, 10, 4, same), plain;

	no_drift = true;
	plain = said_to_differ(4, 0.02, 20, 3, same);
	test_say(
		"# in 100: %d in 6 rounds, %d in 20, %d of two b in 10, %d where runs know nothing of "
		"each other",
		six, twenty, two, plain);
	EXPECT(six <= 7 && twenty <= 7 && two <= 7 && plain <= 7);
}

TEST_IN(300, on_a_quiet_machine_5_percent_are_found_in_30_rounds)
{
	static const double five[ARMS] = { 1, 1, 1.05, 1 };
	int found = said_to_differ(3, 0.01, 30, 3, five);
	int beside = said_to_differ(4, 0.01, 30, 4, five);

	test_say("# found %d times in 100, with a second b %d", found, beside);
	EXPECT(found >= 95);
	EXPECT(beside >= 90);
}

TEST(which_direction_and_how_much)
{
	static const double third[ARMS] = { 3, 3, 1, 3.6 };
	struct noise noise = { .chance = { 5 }, .width = 0.01 };
	struct comparison of[ARMS];

	experiment(&noise, 20, 4, third, of);
	EXPECT_EQ(of[1].verdict, LESS);
	EXPECT(fabs(of[1].ratio * 3 - 1) < 0.05 && of[1].interval.high < 0.36);
	EXPECT_EQ(of[2].verdict, MORE);
	EXPECT(fabs(of[2].ratio / 1.2 - 1) < 0.05 && of[2].interval.low > 1.1);
	EXPECT(of[1].ranks.delta == -1 && of[2].ranks.delta == 1);
}

TEST(from_too_little_nothing_is_concluded)
{
	static const double far[ARMS] = { 1, 1, 9 };
	struct noise noise = { .chance = { 6 }, .width = 0.01 };
	struct comparison of[ARMS];

	experiment(&noise, ROUNDS_ENOUGH - 1, 3, far, of);
	EXPECT_EQ(of[1].verdict, TOO_FEW);
	experiment(&noise, ROUNDS_ENOUGH, 3, far, of);
	EXPECT_EQ(of[1].verdict, MORE);
}

TEST(where_a_differs_from_itself_only_what_is_more_is_believed)
{
	/* A control that cannot be: the second a is slower. */
	static const double odd[ARMS] = { 1, 1.1, 1.12, 2 };
	struct noise noise = { .chance = { 7 }, .width = 0.001 };
	struct comparison of[ARMS];

	experiment(&noise, 20, 4, odd, of);
	EXPECT_EQ(of[0].verdict, MORE);
	EXPECT_EQ(of[1].verdict, UNQUIET);
	EXPECT_EQ(of[2].verdict, MORE);
}

TEST(missing_runs_and_zeros)
{
	double a[8] = { 1, 2, NAN, 4, 5, 6, 7, 8 }, c[8] = { 1, 2, 3, 4, NAN, 6, 7, NAN };
	double b[8] = { 1, NAN, 3, 4, 5, 6, 7, 8 }, zero[8] = { 0 };
	const double *bs[] = { b, zero };
	struct comparison of[3];

	compare(a, c, bs, 2, 8, 1, of);
	EXPECT_EQ(of[0].rounds, 5);
	EXPECT_EQ(of[1].rounds, 7);
	EXPECT_EQ(of[1].verdict, NOT_SHOWN);
	EXPECT(of[1].ratio == 1);
	EXPECT_EQ(of[2].verdict, NO_RATIO);
	for (int i = 0; i < 8; i++)
		b[i] = NAN;
	compare(a, c, bs, 1, 8, 1, of);
	EXPECT_EQ(of[1].verdict, TOO_FEW);
}

/* ---- what is read ---- */

static bool alike(const char *a, const char *b, enum likeness l)
{
	struct answer x_ = answer_of(a, strlen(a)), y_ = answer_of(b, strlen(b));

	return x_.hash[l] == y_.hash[l];
}

TEST(answers_are_alike_exactly_but_numbers_or_but_order)
{
	EXPECT(alike("one\ntwo\n", "one\ntwo\n", ALIKE_EXACTLY));
	EXPECT(!alike("one\ntwo\n", "one\ntwo", ALIKE_EXACTLY));
	EXPECT(!alike("took 1.5e-3 s\n", "took   12 s\n", ALIKE_EXACTLY));
	EXPECT(alike("took 1.5e-3 s\n", "took   12 s\n", ALIKE_BUT_NUMBERS));
	EXPECT(alike("at 0x7ffe12\n", "at 0x1\n", ALIKE_BUT_NUMBERS));
	EXPECT(!alike("took 1 s\n", "lost 1 s\n", ALIKE_BUT_NUMBERS));
	EXPECT(!alike("one\ntwo\n", "two\none\n", ALIKE_BUT_NUMBERS));
	EXPECT(alike("1 one\n2 two\n", "1 two\n2 one\n", ALIKE_BUT_ORDER));
	EXPECT(!alike("one\ntwo\n", "one\none\n", ALIKE_BUT_ORDER));
}

static const char *difference(const char *a, const char *b, enum likeness l)
{
	static char line[256];

	answer_difference(a, strlen(a), b, strlen(b), l, line, sizeof(line));
	return line;
}

TEST(the_first_line_that_differs_is_told)
{
	EXPECT(strcmp(difference("a\nb 1\n", "a\nb 2\n", ALIKE_EXACTLY),
		      "line 2: \"b 1\" became \"b 2\"") == 0);
	EXPECT(strcmp(difference("a\nb 1\n", "a\n", ALIKE_BUT_NUMBERS),
		      "line 2: \"b 1\" became \"\"") == 0);
	EXPECT(strcmp(difference("a 1\nb 2\n", "b 3\nc\na 1\n", ALIKE_BUT_ORDER),
		      "there only: \"c\"") == 0);
	EXPECT(strcmp(difference("a\nb\n", "b\n", ALIKE_BUT_ORDER), "missing: \"a\"") == 0);
	EXPECT(*difference("a\nb\n", "b\na\n", ALIKE_BUT_ORDER) == 0);
}

TEST(variants_are_read_and_mistakes_refused)
{
	static const char *const wrong[] = {
		"",
		"soup",
		"native,p=2",
		"native,steal=one",
		"go,p=0",
		"go,p=x",
		"go,steal=two",
		"go,spin",
		"native,cpus=",
		"native,cpus=3-1",
		"go,seed=",
		"lifo,runnext",
		"go,max-threads=-1",
		"native,quota=0",
	};
	struct variant v;

	EXPECT(variant_read("native,cpus=0", &v) && v.native && v.pinned);
	EXPECT(CPU_COUNT(&v.cpus) == 1 && CPU_ISSET(0, &v.cpus));
	EXPECT(variant_read("go,p=3,seed=7", &v) && !v.native && !*v.policy);
	EXPECT(strcmp(v.settings[0].name, "GOMAXPROCS") == 0 &&
	       strcmp(v.settings[0].value, "3") == 0);
	EXPECT(strcmp(v.settings[1].name, "HEDDLE_SEED") == 0);
	EXPECT(variant_read("p=3", &v) && !v.native && !*v.policy);
	EXPECT(freopen("/dev/null", "w", stderr) != NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		EXPECT(!variant_read(wrong[i], &v));
}

TEST(counters_of_several_processes_are_added_and_their_file_goes)
{
	char name[] = "/tmp/ab_test-XXXXXX";
	FILE *f = fdopen(mkstemp(name), "w");
	static struct counters c;

	EXPECT(f != NULL);
	fputs("pid=1 procs=2 parks=3 longest=90 waits=7:2,95:1\npid=2 procs=2 parks=4 longest=20 waits=7:1\n"
	      "nonsense =,= waits=1:,::: waits=99999999999999999999999:1 parks\n",
	      f);
	fclose(f);
	counters_read(name, &c);
	EXPECT_EQ(c.processes, 3);
	EXPECT(counters_of(&c, "parks") == 7);
	EXPECT_EQ(c.longest, 90);
	EXPECT_EQ(c.waits[times_bucket(7)], 3);
	EXPECT_EQ(counters_wait(c.waits, 0.5), 7);
	EXPECT(fopen(name, "r") == NULL);
	counters_read(name, &c);
	EXPECT_EQ(c.processes, 0);
	EXPECT_EQ(counters_wait(c.waits, 0.5), 0);
}
