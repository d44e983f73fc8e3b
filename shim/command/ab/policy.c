/* Which policies there are: the one place where the command judges a policy's text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "variant.h"

/* What the library reads of the environment. */
static const char *const variables[] = {
#define VARIABLE(name, kind, most, set, form, means) name,
#include "../../variables.def"
#undef VARIABLE
};

static const char *const names[] = {
	"go", "fifo", "lifo", "random", "rr", "pct", "chaos", "cfs", NULL,
};

/* Its values by name, or a number: N, and as a time. */
static const struct policy_switch {
	const char *name, *values;
} switches[] = {
	{ "runnext", "on|off" }, { "steal", "half|one|off" },
	{ "spin", "on|off" },	 { "slice", "TIME" },
	{ "grq", "N" },		 { "local", "N" },
	{ "depth", "N" },
};

enum { SWITCHES = sizeof(switches) / sizeof(*switches) };

static bool is_number(const char *text, bool time)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	strtoul(text, &end, 10);
	return *end == 0 || (time && (strcmp(end, "ms") == 0 || strcmp(end, "us") == 0));
}

static bool is_one_of(const char *value, const char *values)
{
	size_t n = strlen(value);

	for (const char *at = values; at; at = strchr(at, '|')) {
		at += *at == '|';
		if (strncmp(at, value, n) == 0 && (at[n] == 0 || at[n] == '|') && n > 0)
			return true;
	}
	return false;
}

static bool fits(const struct policy_switch *s, const char *value)
{
	if (*s->values == 'N' || *s->values == 'T')
		return is_number(value, *s->values == 'T');
	return is_one_of(value, s->values);
}

static const char *check_switch(char *word)
{
	static char why[160];
	char *value = strchr(word, '=');

	if (value)
		*value++ = 0;
	for (int i = 0; i < SWITCHES; i++) {
		if (strcmp(switches[i].name, word) != 0)
			continue;
		if (value && fits(&switches[i], value))
			return NULL;
		snprintf(why, sizeof(why), "%s=%s is meant", word, switches[i].values);
		return why;
	}
	snprintf(why, sizeof(why), "no policy has a switch '%s'", word);
	return why;
}

static bool library_reads(const char *variable)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		if (strcmp(variables[i], variable) == 0)
			return true;
	return false;
}

const char *policy_check(const char *policy)
{
	static char why[160];
	char copy[VARIANT_TEXT], *rest = copy, *word, **known = (char **)names;
	const char *near;

	snprintf(copy, sizeof(copy), "%s", policy);
	word = strsep(&rest, ",:");
	while (*known && strcmp(*known, word) != 0)
		known++;
	/* Somebody's own, to be loaded. */
	if (!*known && !strchr(word, '/')) {
		near = nearest(word, names);
		snprintf(why, sizeof(why), "there is no policy '%s'%s%s%s", word,
			 near ? "; is " : "", near ? near : "", near ? " meant?" : "");
		return why;
	}
	if (strcmp(policy, "go") != 0 && !library_reads("HEDDLE_POLICY"))
		return "the library has no policy but go";
	/* What is somebody's own knows its own switches. */
	while (*known && (word = strsep(&rest, ",:")))
		if (check_switch(word))
			return check_switch(word);
	return NULL;
}
