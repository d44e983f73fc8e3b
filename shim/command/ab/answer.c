/* Comparing of answer.h. */
#include "answer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

enum { LINES = 4000, SHOWN = 48 };

static const uint64_t seed = 0xcbf29ce484222325u, prime = 0x100000001b3u;

static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
	return h ^ (h >> 32);
}

static bool in_number(const char *at, const char *end)
{
	return isalnum((unsigned char)*at) ||
	       (strchr(".,:+-", *at) && at + 1 < end && isdigit((unsigned char)at[1]));
}

/* A line without its numbers: "0x7f3a" and "1.5e-3s" are one '#' each; space is one space, and
 * none at the end. */
static uint64_t hash_but_numbers(const char *at, const char *end)
{
	uint64_t h = seed;
	bool space = false;

	while (at < end) {
		unsigned char c = (unsigned char)*at++;
		if (isspace(c)) {
			space = true;
			continue;
		}
		if (isdigit(c)) {
			while (at < end && in_number(at, end))
				at++;
			c = '#';
			/* So that a number padded to a column is as one that fills it. */
			space = false;
		}
		if (space)
			h = (h ^ ' ') * prime;
		space = false;
		h = (h ^ c) * prime;
	}
	return mix(h);
}

static uint64_t hash_exactly(const char *at, const char *end)
{
	uint64_t h = seed;

	while (at < end)
		h = (h ^ (unsigned char)*at++) * prime;
	return mix(h);
}

/* The end of the line at `at`; past: where the next begins. */
static const char *line_end(const char *at, const char *end, const char **past)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));

	*past = newline ? newline + 1 : end;
	return newline ? newline : end;
}

struct answer answer_of(const char *text, size_t n)
{
	const char *end = text + n, *past;
	struct answer a = { { hash_exactly(text, end), seed, seed } };

	for (const char *at = text; at < end; at = past) {
		uint64_t h = hash_but_numbers(at, line_end(at, end, &past));
		a.hash[ALIKE_BUT_NUMBERS] = mix(a.hash[ALIKE_BUT_NUMBERS] + h) * prime;
		a.hash[ALIKE_BUT_ORDER] += h;
	}
	return a;
}

static void show(char *to, size_t size, const char *at, const char *end)
{
	snprintf(to, size, "%.*s%s", (int)(end - at < SHOWN ? end - at : SHOWN), at,
		 end - at > SHOWN ? "…" : "");
	say_clean(to);
}

/* Is a line like [at, end) among those of the text? */
static bool has_line(const char *text, size_t n, uint64_t hash)
{
	const char *end = text + n, *past;
	int lines = 0;

	for (const char *at = text; at < end && lines < LINES; at = past, lines++)
		if (hash_but_numbers(at, line_end(at, end, &past)) == hash)
			return true;
	return false;
}

static void missing_line(const char *a, size_t na, const char *b, size_t nb, const char *where,
			 char *to, size_t size)
{
	const char *end = a + na, *past;
	char line[SHOWN * 2];
	int lines = 0;

	for (const char *at = a; at < end && lines < LINES && !*to; at = past, lines++) {
		const char *stop = line_end(at, end, &past);
		if (has_line(b, nb, hash_but_numbers(at, stop)))
			continue;
		show(line, sizeof(line), at, stop);
		snprintf(to, size, "%s: \"%s\"", where, line);
	}
}

void answer_difference(const char *a, size_t na, const char *b, size_t nb, enum likeness level,
		       char *to, size_t size)
{
	const char *enda = a + na, *endb = b + nb, *pasta = a, *pastb = b;
	char linea[SHOWN * 2], lineb[SHOWN * 2];
	long line = 0;

	*to = 0;
	if (level == ALIKE_BUT_ORDER) {
		missing_line(b, nb, a, na, "there only", to, size);
		missing_line(a, na, b, nb, "missing", to, size);
		return;
	}
	while (a < enda || b < endb) {
		const char *stopa = line_end(a, enda, &pasta), *stopb = line_end(b, endb, &pastb);
		bool same = level == ALIKE_EXACTLY
				    ? hash_exactly(a, pasta) == hash_exactly(b, pastb)
				    : hash_but_numbers(a, stopa) == hash_but_numbers(b, stopb);
		line++;
		if (!same || (a < enda) != (b < endb)) {
			show(linea, sizeof(linea), a, stopa);
			show(lineb, sizeof(lineb), b, stopb);
			snprintf(to, size, "line %ld: \"%s\" became \"%s\"", line, linea, lineb);
			return;
		}
		a = pasta;
		b = pastb;
	}
}
