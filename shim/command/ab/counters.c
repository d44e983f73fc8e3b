/* Reading of counters.h. */
#include "counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats.h"

static const struct {
	const char *name, *text;
} meanings[] = { { "threads", "threads at once, heddle's own included" },
		 { "kernelthreads", "kernel threads at most" },
		 { "announced", "calls announced" },
		 { "wired", "times a G was tied to its kernel thread" },
#define X(name, text) { #name, text },
		 STATS(X)
#undef X
};

const char *counters_text(const char *name)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
		if (strcmp(meanings[i].name, name) == 0)
			return meanings[i].text;
	return NULL;
}

static void add(struct counters *c, const char *name, double value)
{
	int at = 0;

	while (at < c->n && strcmp(c->of[at].name, name) != 0)
		at++;
	if (at == COUNTERS_NAMES || strlen(name) >= COUNTERS_NAME)
		return;
	if (at == c->n) {
		strcpy(c->of[at].name, name);
		c->of[at].value = 0;
		c->n++;
	}
	c->of[at].value += value;
}

/* NS:TIMES,NS:TIMES... */
static void add_waits(struct counters *c, const char *text)
{
	char *end;

	while (*text) {
		uint64_t ns = strtoull(text, &end, 10), times;
		if (*end != ':')
			return;
		times = strtoull(end + 1, &end, 10);
		c->waits[times_bucket(ns)] += times;
		text = *end == ',' ? end + 1 : "";
	}
}

static void add_word(struct counters *c, char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return;
	*value++ = 0;
	if (strcmp(word, "waits") == 0) {
		add_waits(c, value);
	} else if (strcmp(word, "longest") == 0) {
		uint64_t ns = strtoull(value, NULL, 10);
		c->longest = ns > c->longest ? ns : c->longest;
	} else {
		add(c, word, strtod(value, NULL));
	}
}

void counters_read(const char *file, struct counters *to)
{
	FILE *f = fopen(file, "re");
	char *line = NULL, *rest, *word;
	size_t size = 0;

	memset(to, 0, sizeof(*to));
	while (f && getline(&line, &size, f) > 0) {
		to->processes++;
		rest = line;
		while ((word = strsep(&rest, " \n")))
			add_word(to, word);
	}
	free(line);
	if (f)
		fclose(f);
	unlink(file);
}

double counters_of(const struct counters *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (strcmp(c->of[i].name, name) == 0)
			return c->of[i].value;
	return 0;
}

uint64_t counters_wait(const uint64_t *waits, double q)
{
	double all = 0, below = 0;
	uint32_t i = 0;

	for (uint32_t k = 0; k < TIMES_BUCKETS; k++)
		all += (double)waits[k];
	if (all == 0)
		return 0;
	while (i < TIMES_BUCKETS - 1 && (below += (double)waits[i]) < q * all)
		i++;
	return times_upto(i);
}
