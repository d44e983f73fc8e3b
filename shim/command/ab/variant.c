/* Reading of a variant, and what a child does to become one: variant.h. */
#include "variant.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policies/spec.h"

/* What heddle reads would show in the runs. */
static const char *const unwanted[] = {
	"HEDDLE_POLICY",      "HEDDLE_STATS", "HEDDLE_DEADLOCK", "HEDDLE_SCHEDTRACE",
	"HEDDLE_SCHEDDETAIL", "HEDDLE_TRACE", "HEDDLE",
};

static bool wrong(const struct variant *v, const char *why)
{
	fprintf(stderr, "heddle ab: variant '%s': %s\n", v->text, why);
	return false;
}

/* "0", "0-3", "0-1+4": a comma begins another setting. */
static bool read_cpus(const char *value, cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	for (;;) {
		char *end;
		unsigned long from = strtoul(value, &end, 10), to = from;
		if (end == value || *value < '0' || *value > '9')
			return false;
		if (*end == '-') {
			value = end + 1;
			to = strtoul(value, &end, 10);
			if (end == value || *value < '0' || *value > '9')
				return false;
		}
		if (to >= CPU_SETSIZE || from > to)
			return false;
		for (; from <= to; from++)
			CPU_SET(from, cpus);
		if (*end == 0)
			return true;
		if (*end != '+')
			return false;
		value = end + 1;
	}
}

static bool take_cpus(struct variant *v, const char *value)
{
	cpu_set_t ours, both;

	if (!read_cpus(value, &v->cpus))
		return wrong(v, "cpus=LIST, as 0 or 0-3 or 0-1+4, is meant");
	v->pinned = true;
	if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
		return true;
	CPU_AND(&both, &ours, &v->cpus);
	return CPU_EQUAL(&both, &v->cpus) || wrong(v, "there are not all of these cpus for us");
}

static bool take_quota(struct variant *v, const char *value)
{
	char *end;

	v->quota = strtod(value, &end);
	if (end == value || *end != 0 || !(v->quota >= 0.01 && v->quota <= 1024))
		return wrong(v, "quota=CPUS, from 0.01 to 1024, is meant");
	return true;
}

static bool take_number(struct variant *v, const char *name, const char *value, long least,
			long most)
{
	char *end;
	long n = strtol(value, &end, 10);
	int at = 0;

	if (end == value || *end != 0 || n < least || n > most)
		return wrong(v, "a number is too large, too small, or none");
	while (at < VARIANT_SETTINGS - 1 && v->settings[at].name &&
	       strcmp(v->settings[at].name, name) != 0)
		at++;
	v->settings[at].name = name;
	snprintf(v->settings[at].value, sizeof(v->settings[at].value), "%ld", n);
	return true;
}

/* A word that is not the policy's; *ours: it was one. */
static bool take(struct variant *v, const char *word, bool *ours)
{
	static const struct {
		const char *word, *variable;
		long least, most;
	} rows[] = {
		{ "p=", "GOMAXPROCS", 1, 1024 },
		{ "max-threads=", "HEDDLE_MAXTHREADS", 1, 10000 },
		{ "seed=", "HEDDLE_SEED", 0, LONG_MAX },
	};

	*ours = true;
	if (strncmp(word, "cpus=", 5) == 0)
		return take_cpus(v, word + 5);
	if (strncmp(word, "quota=", 6) == 0)
		return take_quota(v, word + 6);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t n = strlen(rows[i].word);
		if (strncmp(word, rows[i].word, n) != 0)
			continue;
		if (v->native)
			return wrong(v, "native has only cpus= and quota=");
		return take_number(v, rows[i].variable, word + n, rows[i].least, rows[i].most);
	}
	*ours = false;
	return true;
}

bool variant_read(const char *text, struct variant *v)
{
	char copy[VARIANT_TEXT], *rest = copy, *word;
	struct policyspec spec;
	const char *why;

	*v = (struct variant){ .cgroup = -1 };
	snprintf(v->text, sizeof(v->text), "%s", text);
	if (strlen(text) >= sizeof(copy) - 4)
		return wrong(v, "it is too long");
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		bool ours, first = word == copy;
		if (first && strcmp(word, "native") == 0) {
			v->native = true;
			continue;
		}
		if (!take(v, word, &ours))
			return false;
		/* "p=4" alone is go's. */
		if (ours && first)
			strcpy(v->policy, "go");
		if (ours)
			continue;
		if (v->native)
			return wrong(v, "native has only cpus= and quota=");
		strcat(v->policy, *v->policy ? "," : "");
		strcat(v->policy, word);
	}
	if (!v->native && !policy_parse(v->policy, &spec, &why))
		return wrong(v, why);
	/* Go is what it has without a word. */
	if (strcmp(v->policy, "go") == 0)
		v->policy[0] = 0;
	return v->quota == 0 || cgroup_make(v);
}

void variant_environment(const struct variant *v, const char *preload, const char *counters)
{
	for (size_t i = 0; i < sizeof(unwanted) / sizeof(*unwanted); i++)
		unsetenv(unwanted[i]);
	if (v->native) {
		const char *others = getenv("LD_PRELOAD");
		/* Whoever started us may run all under heddle. */
		if (others && strstr(others, "libheddle.so"))
			setenv("HEDDLE", "off", 1);
		return;
	}
	setenv("LD_PRELOAD", preload, 1);
	if (*v->policy)
		setenv("HEDDLE_POLICY", v->policy, 1);
	for (int i = 0; i < VARIANT_SETTINGS && v->settings[i].name; i++)
		setenv(v->settings[i].name, v->settings[i].value, 1);
	if (counters)
		setenv("HEDDLE_STATS", counters, 1);
}

bool variant_confine(const struct variant *v)
{
	/* "0": who writes it. */
	if (v->cgroup >= 0 && write(v->cgroup, "0\n", 2) != 2)
		return false;
	return !v->pinned || sched_setaffinity(0, sizeof(v->cpus), &v->cpus) == 0;
}
