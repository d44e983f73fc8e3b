/* Reading of spec.h's texts. Calls no libc, and keeps nothing. */
#include "policies/spec.h"

enum {
	NS_PER_US = 1000,
	SLICE_MOST_US = 10 * 1000 * 1000,
	LOCAL_MOST = 256,
	/* Each time: who is preempted would keep all local queues waiting. So would 2, for a slice
	 * that sysmon ends counts twice. */
	GRQ_LEAST = 3,
	ANY = 1u << POLICY_KINDS
};

enum key { SLICE, GRQ, LOCAL, STEAL, RUNNEXT, YIELD, SPIN, DEPTH, STEPS };

/* A switch, and for which policies. */
static const struct {
	const char *name;
	enum key key;
	uint32_t kinds; /* bits; ANY: all */
} switches[] = {
	{ "slice", SLICE, ANY },
	{ "grq", GRQ, 1u << POLICY_GO },
	{ "local", LOCAL, 1u << POLICY_GO },
	{ "steal", STEAL, 1u << POLICY_GO | 1u << POLICY_LIFO },
	{ "runnext", RUNNEXT, 1u << POLICY_GO },
	{ "yield", YIELD, 1u << POLICY_GO },
	{ "spin", SPIN, ANY },
	{ "depth", DEPTH, 1u << POLICY_PCT },
	{ "steps", STEPS, 1u << POLICY_PCT },
};

static const char *const names[POLICY_KINDS] = {
	[POLICY_GO] = "go",	[POLICY_FIFO] = "fifo",	    [POLICY_RR] = "rr",
	[POLICY_LIFO] = "lifo", [POLICY_RANDOM] = "random", [POLICY_CFS] = "cfs",
	[POLICY_PCT] = "pct",	[POLICY_CHAOS] = "chaos",   [POLICY_OWN] = "your own",
};

const char *policy_name(enum policykind kind)
{
	return names[kind];
}

bool policy_seeded(const struct policyspec *spec)
{
	return spec->kind == POLICY_RANDOM || spec->kind == POLICY_PCT ||
	       spec->kind == POLICY_CHAOS;
}

static bool is_end(char c)
{
	return c == 0 || c == ',' || c == ':';
}

/* If the word at *s is that: goes behind it. */
static bool word(const char **s, const char *is)
{
	const char *at = *s;

	while (*is && *at == *is)
		at++, is++;
	if (*is || !(is_end(*at) || *at == '='))
		return false;
	*s = at;
	return true;
}

static bool number(const char **s, uint64_t most, uint64_t *n)
{
	const char *at = *s;

	for (*n = 0; *at >= '0' && *at <= '9'; at++) {
		*n = *n * 10 + (uint64_t)(*at - '0');
		if (*n > most)
			return false;
	}
	if (at == *s)
		return false;
	*s = at;
	return true;
}

static bool read_slice(const char **s, uint64_t *ns)
{
	uint64_t n;
	bool us;

	if (!number(s, SLICE_MOST_US, &n) || n == 0)
		return false;
	us = (*s)[0] == 'u' && (*s)[1] == 's';
	if (us || ((*s)[0] == 'm' && (*s)[1] == 's'))
		*s += 2;
	*ns = n * NS_PER_US * (us ? 1 : 1000);
	return n <= SLICE_MOST_US / (us ? 1 : 1000);
}

static bool read_count(const char **s, uint64_t least, uint64_t most, uint32_t *to)
{
	uint64_t n;

	if (!number(s, most, &n) || n < least)
		return false;
	*to = (uint32_t)n;
	return true;
}

static bool read_on(const char **s, bool *to)
{
	*to = word(s, "on");
	return *to || word(s, "off");
}

static bool read_steal(const char **s, struct policyspec *to)
{
	if (word(s, "half"))
		to->steal = STEAL_HALF;
	else if (word(s, "one"))
		to->steal = STEAL_ONE;
	else if (to->kind == POLICY_GO && word(s, "off"))
		to->steal = STEAL_OFF;
	else
		return false;
	return true;
}

static bool read_yield(const char **s, bool *own)
{
	*own = word(s, "own");
	return *own || word(s, "global");
}

static const char *read_value(enum key key, const char **s, struct policyspec *to)
{
	switch (key) {
	case SLICE:
		return read_slice(s, &to->slice)
			       ? NULL
			       : "slice is a number of ms, or of us with us behind it, up to 10 s";
	case GRQ:
		return read_count(s, GRQ_LEAST, 1000000, &to->grq)
			       ? NULL
			       : "grq is a number from 3 to 1000000";
	case LOCAL:
		return read_count(s, 1, LOCAL_MOST, &to->local) ? NULL
								: "local is a number from 1 to 256";
	case STEAL:
		return read_steal(s, to) ? NULL : "steal is half or one, with go also off";
	case RUNNEXT:
		return read_on(s, &to->runnext) ? NULL : "runnext is on or off";
	case YIELD:
		return read_yield(s, &to->yieldown) ? NULL : "yield is own or global";
	case SPIN:
		return read_on(s, &to->spin) ? NULL : "spin is on or off";
	case DEPTH:
		return read_count(s, 1, 64, &to->depth) ? NULL : "depth is a number from 1 to 64";
	default:
		return read_count(s, 1, 1000000000, &to->steps) ? NULL : "steps is a number";
	}
}

static const char *read_switch(const char **s, struct policyspec *to)
{
	const char *wrong;

	for (unsigned i = 0; i < sizeof(switches) / sizeof(*switches); i++) {
		if (!word(s, switches[i].name))
			continue;
		if (!(switches[i].kinds & (ANY | 1u << to->kind)))
			return "this policy has no such switch";
		if (*(*s)++ != '=')
			return "a switch is followed by = and a value";
		wrong = read_value(switches[i].key, s, to);
		return wrong || is_end(**s) ? wrong : "there is more than a value";
	}
	return "the switches are slice, spin, grq, local, steal, runnext, yield, depth and steps";
}

static bool is_file(const char *text, size_t *len)
{
	bool slash = false;

	for (*len = 0; text[*len] && text[*len] != ','; ++*len)
		slash |= text[*len] == '/';
	return slash;
}

bool policy_parse(const char *text, struct policyspec *to, const char **wrong)
{
	const char *s = text;

	*to = (struct policyspec){ .text = text,
				   .grq = 61,
				   .local = LOCAL_MOST,
				   .depth = 3,
				   .steps = 1000,
				   .runnext = true,
				   .yieldown = true,
				   .spin = true };
	*wrong = NULL;
	if (is_file(text, &to->filelen)) {
		to->kind = POLICY_OWN;
		to->arguments = text + to->filelen + (text[to->filelen] == ',');
		return true;
	}
	while (to->kind < POLICY_OWN && !word(&s, names[to->kind]))
		to->kind++;
	if (to->kind == POLICY_OWN || *s == '=')
		*wrong =
			"the policies are go, fifo, rr, lifo, random, cfs, pct, chaos, or a file (with a / in its name)";
	while (!*wrong && *s++)
		*wrong = read_switch(&s, to);
	return !*wrong;
}
