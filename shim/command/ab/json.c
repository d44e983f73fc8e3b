/* All numbers, as one object of JSON: what the reports rest on, and each run. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "say.h"
#include "words.h"

static const char *const metrics[METRICS] = { "wall", "cpu", "rss", "ctxsw", "matched" };

/* There is no NaN in JSON. */
static void number(FILE *to, const char *name, double value)
{
	fprintf(to, "\"%s\": ", name);
	if (isfinite(value))
		fprintf(to, "%.9g", value);
	else
		fputs("null", to);
}

static void named(FILE *to, const char *name, const char *text)
{
	fprintf(to, "\"%s\": ", name);
	say_json_to(to, text);
}

static void run(FILE *to, const struct run *r)
{
	static const char *const ends[] = {
		[ENDED_EXIT] = "exit", [ENDED_SIGNAL] = "signal",   [ENDED_HUNG] = "hung",
		[ENDED_CUT] = "cut",   [ENDED_STOPPED] = "stopped", [ENDED_NEVER] = "never",
	};

	if (!r->done) {
		fputs("null", to);
		return;
	}
	fprintf(to, "{\"order\": %d, \"ended\": \"%s\", \"status\": %d, \"good\": %s", r->order,
		ends[r->how], r->status, r->good ? "true" : "false");
	for (int m = 0; m < METRICS; m++) {
		fputs(", ", to);
		number(to, metrics[m], r->value[m]);
	}
	fprintf(to, ", \"stdout\": \"%016" PRIx64 "\", \"stderr\": \"%016" PRIx64 "\"}",
		r->answer[OUT].hash[ALIKE_EXACTLY], r->answer[ERR].hash[ALIKE_EXACTLY]);
}

static void counted(FILE *to, const struct counters *c)
{
	const char *before = "";

	fprintf(to, "{\"processes\": %d", c->processes);
	for (int i = 0; i < c->n; i++) {
		fputs(", ", to);
		number(to, c->of[i].name, c->of[i].value);
	}
	fprintf(to, ", \"longest_wait_ns\": %" PRIu64 ", \"waits\": [", c->longest);
	for (uint32_t b = 0; b < TIMES_BUCKETS; b++) {
		if (c->waits[b] == 0)
			continue;
		fprintf(to, "%s{\"up_to_ns\": %" PRIu64 ", \"times\": %" PRIu64 "}", before,
			times_upto(b), c->waits[b]);
		before = ", ";
	}
	fputs("]}", to);
}

static void arm(const struct experiment *e, int k, FILE *to)
{
	const struct arm *of = &e->arms[k];
	char text[1024];

	fprintf(to, "\n  {\"letter\": \"%c\", ", of->letter);
	named(to, "variant", of->variant.text);
	fprintf(to, ", \"control\": %s, \"failed\": %d, ", k == CONTROL ? "true" : "false",
		arm_failed(e, of));
	number(to, "median", arm_median(e, of, e->metric));
	fputs(", \"notes\": [", to);
	for (int what = 0, n = 0; what <= STREAMS; what++) {
		if (what < STREAMS ? !words_answers(e, k, what, text, sizeof(text))
				   : !words_failures(e, k, text))
			continue;
		fputs(n++ ? ", " : "", to);
		say_json_to(to, text);
	}
	fputs("], \"runs\": [", to);
	for (int i = 0; i < e->rounds; i++) {
		fputs(i ? ",\n    " : "\n    ", to);
		run(to, &of->runs[i]);
	}
	fputs("], \"counted\": [", to);
	for (int i = 0; i < of->ncounted; i++) {
		fputs(i ? ",\n    " : "\n    ", to);
		counted(to, of->counted[i]);
	}
	fputs("]}", to);
}

static void comparison(const struct experiment *e, int i, FILE *to)
{
	static const char *const verdicts[] = {
		[TOO_FEW] = "too few", [NO_RATIO] = "no ratio", [NOT_SHOWN] = "not shown",
		[UNQUIET] = "unquiet", [LESS] = "less",		[MORE] = "more",
	};
	const struct comparison *c = &e->of[i];
	char words[WORDS];

	words_verdict(e, i, words);
	fprintf(to, "\n  {\"arm\": %d, \"control\": %s, \"rounds\": %d, ", i + 1,
		i == 0 ? "true" : "false", c->rounds);
	fprintf(to, "\"verdict\": \"%s\", ", verdicts[c->verdict]);
	named(to, "words", words);
	fputs(", ", to);
	number(to, "ratio", c->ratio);
	fputs(", ", to);
	number(to, "low", c->interval.low);
	fputs(", ", to);
	number(to, "high", c->interval.high);
	fputs(", ", to);
	number(to, "p", c->p);
	fputs(", ", to);
	number(to, "u", c->ranks.w);
	fprintf(to, ", \"exact\": %s, ", c->ranks.exact ? "true" : "false");
	number(to, "cliffs_delta", c->ranks.delta);
	fputs("}", to);
}

void report_json(const struct experiment *e, FILE *to)
{
	fputs("{\"command\": [", to);
	for (char **word = e->command; *word; word++) {
		fputs(word == e->command ? "" : ", ", to);
		say_json_to(to, *word);
	}
	fprintf(to, "],\n \"metric\": \"%s\", ", metrics[e->metric]);
	named(to, "pattern", e->pattern ? e->pattern : "");
	fprintf(to, ", \"better\": \"%s\", \"seed\": %" PRIu64 ", \"rounds\": %d, \"asked\": %d, ",
		e->higher ? "higher" : "lower", e->seed, e->rounds, e->asked);
	fprintf(to, "\"warmups\": %d, \"interrupted\": %s, \"failed\": %s, ", e->warmups,
		e->interrupted ? "true" : "false", experiment_failed(e) ? "true" : "false");
	number(to, "seconds", e->took);
	fputs(",\n \"arms\": [", to);
	for (int k = 0; k < e->narms; k++) {
		fputs(k ? "," : "", to);
		arm(e, k, to);
	}
	fputs("],\n \"comparisons\": [", to);
	for (int i = 0; i < e->narms - 1; i++) {
		fputs(i ? "," : "", to);
		comparison(e, i, to);
	}
	fputs("]}\n", to);
}
