/* Reading of options: options.h. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 32, NEAR = 3, NAMES = 32 };

static int least(int a, int b, int c)
{
	int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* How many letters must be added, dropped, changed or swapped with the next. */
static int distance(const char *a, const char *b)
{
	int rows[WORD + 1][WORD + 1];
	int n = (int)strlen(a), m = (int)strlen(b);

	if (n > WORD || m > WORD)
		return WORD;
	for (int i = 0; i <= n; i++) {
		for (int j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				rows[i][j] = i + j;
				continue;
			}
			rows[i][j] = least(rows[i - 1][j] + 1, rows[i][j - 1] + 1,
					   rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    rows[i - 2][j - 2] + 1 < rows[i][j])
				rows[i][j] = rows[i - 2][j - 2] + 1;
		}
	}
	return rows[n][m];
}

const char *nearest(const char *word, const char *const *names)
{
	const char *best = NULL;
	int shortest = NEAR;
	size_t n = strlen(word);

	for (; *names; names++) {
		/* A beginning is as near as one wrong letter. */
		int d = n > 1 && strncmp(word, *names, n) == 0 ? 1 : distance(word, *names);
		/* One that shares no letter is near by its shortness only. */
		if (d < shortest && d < (int)strlen(*names) - 1) {
			shortest = d;
			best = *names;
		}
	}
	return best;
}

bool read_number(const char *what, const char *text, long low, long high, long *n)
{
	char *end;

	errno = 0;
	*n = strtol(text, &end, 10);
	if (errno == 0 && end != text && *end == 0 && *n >= low && *n <= high)
		return true;
	fprintf(stderr, "heddle: %s: '%s' is no number from %ld to %ld\n", what, text, low, high);
	return false;
}

void scan_begin(struct scan *s, const struct command *command, int argc, char **argv)
{
	*s = (struct scan){ .command = command, .argc = argc, .argv = argv, .next = 1 };
	/* Those found so far are moved to where the options were. */
	s->operands = argv + 1;
}

const struct option_row common_options[] = {
	{ "help", 'h', NULL, "this text" },
	{ "version", 'V', NULL, "the version" },
	{ NULL, 0, NULL, NULL },
};

static void print_rows(const struct option_row *rows)
{
	for (; rows && rows->name; rows++) {
		char left[64];
		int n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", rows->letter ? '-' : ' ',
				 rows->letter ? rows->letter : ' ', rows->letter ? "," : " ",
				 rows->name, rows->value ? " " : "",
				 rows->value ? rows->value : "");
		printf("%s%*s %s\n", left, n < 25 ? 25 - n : 0, "", rows->what);
	}
}

static int help(const struct command *c)
{
	printf("usage: heddle %s%s%s%s\n%s\n\n", c->name, c->options ? " [options]" : "",
	       *c->operands ? " " : "", c->operands, c->what);
	print_rows(c->options);
	print_rows(common_options);
	for (const struct option_row *r = c->settings; r && r->name; r++)
		printf("%s  %s=%-*s %s\n", r == c->settings ? "\nSettings:\n" : "", r->name,
		       22 - (int)strlen(r->name), r->value, r->what);
	if (c->more)
		printf("\n%s", c->more);
	return SCAN_ANSWERED;
}

static int mistake(const struct scan *s, const char *word, const char *what)
{
	const char *names[NAMES] = { NULL };
	const char *near;
	int n = 0;

	for (const struct option_row *r = s->command->options; r && r->name && n < NAMES - 3; r++)
		names[n++] = r->name;
	names[n++] = "help";
	names[n++] = "version";
	near = strncmp(word, "--", 2) == 0 ? nearest(word + 2, names) : NULL;
	fprintf(stderr, "heddle %s: %s: %s", s->command->name, word, what);
	if (near)
		fprintf(stderr, "; did you mean --%s?\n", near);
	else
		fprintf(stderr, "; see heddle %s --help\n", s->command->name);
	return SCAN_MISTAKE;
}

/* The row of a long name of n letters, or of a letter; -1: none. */
static int find(const struct option_row *rows, const char *name, size_t n, char letter)
{
	for (int i = 0; rows && rows[i].name; i++)
		if (letter ? rows[i].letter == letter
			   : strlen(rows[i].name) == n && strncmp(rows[i].name, name, n) == 0)
			return i;
	return -1;
}

/* An option, `word`, whose value may be glued to it. */
static int option(struct scan *s, char *word)
{
	bool longer = word[1] == '-';
	const char *name = word + 2, *glued = longer ? strchr(name, '=') : word[2] ? name : NULL;
	size_t n = longer ? (glued ? (size_t)(glued - name) : strlen(name)) : 0;
	char letter = longer ? 0 : word[1];
	int i = find(s->command->options, name, n, letter);

	if (i < 0 && (i = find(common_options, name, n, letter)) >= 0) {
		if (glued)
			return mistake(s, word, "takes no value");
		if (i == 0)
			return help(s->command);
		puts("heddle " HEDDLE_VERSION);
		return SCAN_ANSWERED;
	}
	if (i < 0) {
		char *cut = longer ? strchr(word, '=') : NULL;
		if (cut)
			*cut = 0;
		return mistake(s, word, "no such option");
	}
	s->value = NULL;
	if (!s->command->options[i].value)
		return glued ? mistake(s, word, "takes no value") : i;
	if (glued)
		s->value = longer ? glued + 1 : glued;
	else if (s->next < s->argc)
		s->value = s->argv[s->next++];
	else
		return mistake(s, word, "needs a value");
	return i;
}

int scan_next(struct scan *s)
{
	while (s->next < s->argc) {
		char *word = s->argv[s->next];
		if (word[0] == '-' && word[1] != 0 && strcmp(word, "--") != 0) {
			s->next++;
			return option(s, word);
		}
		if (s->command->early || strcmp(word, "--") == 0) {
			s->next += strcmp(word, "--") == 0;
			while (s->next < s->argc)
				s->operands[s->noperands++] = s->argv[s->next++];
			break;
		}
		s->operands[s->noperands++] = word;
		s->next++;
	}
	s->operands[s->noperands] = NULL;
	return SCAN_END;
}

int scan_status(int result)
{
	return result == SCAN_ANSWERED ? DONE : USAGE;
}
