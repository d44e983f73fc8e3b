/* Reading of the variables of config.h: one row of variables.def each. Calls no libc: a sanitizer's
 * runtime may have put itself before it, and not be ready. */
#include "config.h"

#include <asm/unistd.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "os.h"
#include "syscall.h"
#include "text.h"
#include "tracer.h"

enum kind { BOOL, NUMBER, WORD, PATH, DEADLOCK, STATS, SIZE, KINDS };

enum { TRACE_LIMIT = 512 * 1024 * 1024, TRACE_LEAST = 1024 * 1024 };

struct row {
	const char *name;
	enum kind kind;
	uint64_t most;
	void (*set)(uint64_t n, const char *text);
};

struct config config = { .preempt = true, .patch = true, .tracelimit = TRACE_LIMIT };

static void set_heddle(uint64_t n, const char *text)
{
	(void)text;
	config.off = n == 0;
}

/* A copy: programs write over their environment, for a title in the list of processes. */
static void set_gomaxprocs(uint64_t n, const char *text)
{
	static char copy[64];

	for (n = 0; n < sizeof(copy) - 1 && text[n]; n++)
		copy[n] = text[n];
	copy[n] = 0;
	config.gomaxprocs = copy;
}

/* From the root on: it is opened when there is a second thread, perhaps in another directory. */
static void put_path(struct text *t, const char *text)
{
	if (*text != '/' && arch_syscall3(__NR_getcwd, (long)t->buf, (long)t->cap, 0) > 0) {
		while (t->buf[t->len])
			t->len++;
		text_put(t, "/");
	}
	text_put(t, text);
}

static void set_trace(uint64_t n, const char *text)
{
	static char path[TRACER_PATH];
	struct text t = TEXT(path);

	(void)n;
	config.trace = NULL;
	if (!*text)
		return;
	put_path(&t, text);
	config.trace = path;
}

static void set_turns(const char **which, char path[TRACER_PATH], const char *text)
{
	struct text t = { .buf = path, .cap = TRACER_PATH, .len = 0 };

	*which = *text ? path : NULL;
	if (*text)
		put_path(&t, text);
}

static void set_record(uint64_t n, const char *text)
{
	static char path[TRACER_PATH];

	(void)n;
	set_turns(&config.record, path, text);
}

static void set_replay(uint64_t n, const char *text)
{
	static char path[TRACER_PATH];

	(void)n;
	set_turns(&config.replay, path, text);
}

enum { ONLY_MOST = 256, PATH_MOST = 4096 };

/* The programs that are served, if not all: patterns, with commas between. */
/* As arch_fsgsbase: it is looked at in each process. */
static char only[ONLY_MOST] __attribute__((section(".data")));

static void set_only(uint64_t n, const char *text)
{
	for (n = 0; text[n]; n++)
		only[n] = text[n];
	only[n] = 0;
}

static bool is_file(const char *text)
{
	while (*text && *text != ',' && *text != '/')
		text++;
	return *text == '/';
}

static void set_policy(uint64_t n, const char *text)
{
	static char copy[CONFIG_POLICY];
	struct text t = TEXT(copy);

	(void)n;
	config.policy = NULL;
	if (!*text)
		return;
	if (is_file(text))
		put_path(&t, text);
	else
		text_put(&t, text);
	config.policy = copy;
}

enum { STATS_FILE = 2, STATS_PATH = 1024 };

static void set_stats(uint64_t n, const char *text)
{
	static char copy[STATS_PATH];
	struct text t = TEXT(copy);

	config.stats = n != 0;
	config.statsfile = n == STATS_FILE ? copy : NULL;
	text_put(&t, n == STATS_FILE ? text : "");
}

#define SETTER(field, type)                                                                        \
	static void set_##field(uint64_t n, const char *text)                                      \
	{                                                                                          \
		(void)text;                                                                        \
		config.field = (type)n;                                                            \
	}
SETTER(seed, uint64_t)
SETTER(schedtrace, uint32_t)
SETTER(scheddetail, bool)
SETTER(preempt, bool)
SETTER(patch, bool)
SETTER(maxthreads, int32_t)
SETTER(deadlock, enum deadlock)
SETTER(tracelimit, uint64_t)
SETTER(debuglevel, int)
#undef SETTER

static const struct row rows[] = {
#define VARIABLE(name, kind, most, set, form, means) { name, kind, most, set },
#include "variables.def"
#undef VARIABLE
};

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* The value of "name=value", or NULL. */
static const char *value_of(const char *entry, const char *name)
{
	while (*name && *entry == *name)
		entry++, name++;
	return *name == 0 && *entry == '=' ? entry + 1 : NULL;
}

static bool parse_bool(const char *s, uint64_t *n)
{
	static const char *const yes[] = { "1", "on", "yes", "true" };
	static const char *const no[] = { "0", "off", "no", "false" };

	for (int i = 0; i < 4; i++) {
		if (same(s, yes[i]) || same(s, no[i])) {
			*n = same(s, yes[i]);
			return true;
		}
	}
	return false;
}

static bool parse_deadlock(const char *s, uint64_t *n)
{
	if (same(s, "report"))
		*n = DEADLOCK_REPORT;
	else if (same(s, "abort"))
		*n = DEADLOCK_ABORT;
	else
		return parse_bool(s, n);
	return true;
}

static bool parse_number(const char *s, uint64_t most, uint64_t *n)
{
	*n = 0;
	if (!*s)
		return false;
	for (; *s; s++) {
		unsigned digit = (unsigned)(*s - '0');
		if (digit > 9 || digit > most || *n > (most - digit) / 10)
			return false;
		*n = *n * 10 + digit;
	}
	return true;
}

/* Bytes, or K, M or G of them; 0 is none. */
static bool parse_size(const char *s, uint64_t most, uint64_t *n)
{
	static const char letters[] = "KMG";
	char digits[24];
	int i = 0, shift = 0;

	for (; *s >= '0' && *s <= '9' && i < (int)sizeof(digits) - 1; s++)
		digits[i++] = *s;
	digits[i] = 0;
	for (int l = 0; l < 3; l++) {
		if (*s == letters[l] || *s == (letters[l] | 0x20)) {
			shift = 10 * (l + 1);
			s++;
			break;
		}
	}
	if (*s || !parse_number(digits, most >> shift, n))
		return false;
	*n <<= shift;
	return *n == 0 || *n >= TRACE_LEAST;
}

static bool parse_stats(const char *s, uint64_t most, uint64_t *n)
{
	uint64_t len = 0;

	if (*s != '/')
		return parse_bool(s, n);
	*n = STATS_FILE;
	while (s[len])
		len++;
	return len <= most;
}

static bool parse(const struct row *row, const char *value, uint64_t *n)
{
	switch (row->kind) {
	case BOOL:
		return parse_bool(value, n);
	case NUMBER:
		return parse_number(value, row->most, n);
	case DEADLOCK:
		return parse_deadlock(value, n);
	case SIZE:
		return parse_size(value, row->most, n);
	case STATS:
		return parse_stats(value, row->most, n);
	case PATH:
		while (value[*n])
			++*n;
		return *n <= row->most;
	default:
		return true;
	}
}

static void apply(const struct row *row, const char *value)
{
	static const char *const wrong[KINDS] = {
		[BOOL] = " is neither on nor off",
		[NUMBER] = " is no number in its range",
		[PATH] = " is too long",
		[STATS] = " is neither on nor off nor a path from the root on",
		[DEADLOCK] = " is neither report nor abort nor off",
		[SIZE] = " is no size of 1M or more, as in 500M or 2G, nor 0",
	};
	uint64_t n = 0;

	if (parse(row, value, &n)) {
		row->set(n, value);
		return;
	}
	char buf[256];
	struct text t = TEXT(buf);
	text_put(&t, "heddle: ");
	text_put(&t, row->name);
	text_put(&t, "=");
	text_put(&t, value);
	text_put(&t, wrong[row->kind]);
	text_put(&t, ", ignored\n");
	text_write2(&t);
}

/* Any letters for a star, any one for a question mark; up to a comma. */
static bool matches(const char *pattern, const char *name)
{
	const char *star = NULL, *mark = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			mark = name;
		} else if (*pattern && *pattern != ',' && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++mark;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern || *pattern == ',';
}

/* A pattern with a slash is of the path, else of its last part. */
static bool is_among(const char *path)
{
	const char *last = path;

	for (const char *s = path; *s; s++)
		if (*s == '/')
			last = s + 1;
	for (const char *p = only, *next; *p; p = *next ? next + 1 : next) {
		bool whole = false;
		for (next = p; *next && *next != ','; next++)
			whole |= *next == '/';
		if (matches(p, whole ? path : last))
			return true;
	}
	return false;
}

/* By the name that it was started by, a script's for one, or that of its file. */
static bool is_meant(void)
{
	const char *started = (const char *)getauxval(AT_EXECFN);
	char file[PATH_MOST];
	long n;

	if (!only[0] || (started && is_among(started)))
		return true;
	n = arch_syscall3(__NR_readlink, (long)"/proc/self/exe", (long)file, sizeof(file) - 1);
	file[n > 0 ? n : 0] = 0;
	return is_among(file);
}

void config_read(char **environment)
{
	if (getauxval(AT_SECURE))
		return;
	for (char **e = environment; e && *e; e++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			const char *value = value_of(*e, rows[i].name);
			if (value)
				apply(&rows[i], value);
		}
	}
	config.off |= !is_meant();
}
