/* heddle run: a program with libheddle.so injected. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "inject.h"
#include "policies/spec.h"
#include "say.h"
#include "target.h"

/* False: it was said why not. */
static bool inject(void)
{
	char *value = inject_value();
	bool done = value && setenv("LD_PRELOAD", value, 1) == 0;

	if (value && !done)
		fprintf(stderr, "heddle: LD_PRELOAD: %s\n", strerror(errno));
	free(value);
	return done;
}

enum {
	PROCS,
	MAX_THREADS,
	STATS,
	TRACE,
	TRACE_LIMIT,
	DEADLOCK,
	SCHEDTRACE,
	POLICY,
	SEED,
	RECORD,
	REPLAY,
	ONLY,
	OFF
};

static const struct option_row options[] = {
	[PROCS] = { "procs", 'p', "N", "GOMAXPROCS: how many run at once" },
	[MAX_THREADS] = { "max-threads", 0, "N", "rather no more kernel threads than these" },
	[STATS] = { "stats", 0, NULL, "a table on stderr when it ends, if it made threads" },
	[TRACE] = { "trace", 0, "FILE", "what ran where and who waited, for ui.perfetto.dev" },
	[TRACE_LIMIT] = { "trace-limit", 0, "SIZE",
			  "how large FILE may become, as in 64M or 2G; 512M otherwise; 0: any" },
	[DEADLOCK] = { "deadlock", 0, "report|abort",
		       "if all threads wait for each other, say so on stderr" },
	[SCHEDTRACE] = { "schedtrace", 0, "MS",
			 "a line of the scheduler's state on stderr, so often" },
	[POLICY] = { "policy", 0, "NAME[,SWITCH=VALUE...]",
		     "who runs next: go, fifo, rr, lifo, random, cfs, pct, chaos, or a file" },
	[SEED] = { "seed", 0, "N", "of the scheduler's random choices" },
	[RECORD] = { "record", 0, "FILE",
		     "whose turn it was goes to FILE, with -p 1; under random if no --policy" },
	[REPLAY] = { "replay", 0, "FILE",
		     "with those turns, and -p 1; status 125 if the program departs from them" },
	[ONLY] = { "only", 0, "PATTERN",
		   "run what COMMAND starts natively, itself too, but programs named so: 'redis-*,python3'" },
	[OFF] = { "off", 0, NULL, "run natively" },
	{ NULL, 0, NULL, NULL },
};

/* From the root on, for a program that is started in another directory by the first. A file that
 * is there is not for us to write over. */
static bool set_new_file(const char *option, const char *variable, const char *file)
{
	char here[PATH_MAX], path[2 * PATH_MAX];
	struct stat st;

	if (!*file || !getcwd(here, sizeof(here))) {
		fprintf(stderr, "heddle: %s: '%s' is no file's name\n", option, file);
		return false;
	}
	if (lstat(file, &st) == 0) {
		fprintf(stderr, "heddle: %s: %s is there already\n", option, file);
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s", here, file);
	return setenv(variable, *file == '/' ? file : path, 1) == 0;
}

/* Likewise, of one that is there. */
static bool set_replay(const char *file)
{
	char *path = realpath(file, NULL);
	bool done = path && access(path, R_OK) == 0;

	if (!done)
		fprintf(stderr, "heddle: --replay: %s: %s\n", file, strerror(errno));
	done = done && setenv("HEDDLE_REPLAY", path, 1) == 0;
	free(path);
	return done;
}

/* Bytes, or K, M or G of them; as shim/config.c reads it. */
static bool set_trace_limit(const char *value)
{
	enum { LEAST_K = 1024 };
	char *end;
	long n, k;

	errno = 0;
	n = strtol(value, &end, 10);
	k = *end == 0 ? n / 1024 : n;
	for (const char *l = "kmg"; *end && *l; l++) {
		if ((*end | 0x20) == *l && end[1] == 0) {
			end++;
			break;
		}
		k = k > LONG_MAX / 1024 ? LONG_MAX : k * 1024;
	}
	if (errno == 0 && end != value && *end == 0 && *value >= '0' && *value <= '9' &&
	    k < LONG_MAX / 1024 && (n == 0 || k >= LEAST_K))
		return setenv("HEDDLE_TRACE_LIMIT", value, 1) == 0;
	fprintf(stderr, "heddle: --trace-limit: '%s' is no size of 1M or more, nor 0\n", value);
	return false;
}

/* A file from the root on, as set_trace. */
static bool set_policy(const char *text)
{
	char here[PATH_MAX], path[2 * PATH_MAX];
	struct policyspec spec;
	const char *wrong;

	if (!policy_parse(text, &spec, &wrong)) {
		fprintf(stderr, "heddle: --policy: '%s': %s\n", text, wrong);
		return false;
	}
	if (spec.kind != POLICY_OWN)
		return setenv("HEDDLE_POLICY", text, 1) == 0;
	snprintf(path, sizeof(path), "%.*s", (int)spec.filelen, text);
	if (access(path, R_OK) != 0 || !getcwd(here, sizeof(here))) {
		fprintf(stderr, "heddle: --policy: %s: %s\n", path, strerror(errno));
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s", here, text);
	return setenv("HEDDLE_POLICY", *text == '/' ? text : path, 1) == 0;
}

/* An option's wish, to the environment. False: its value cannot be. */
static bool apply(int option, const char *value)
{
	enum { HOUR_MS = 3600 * 1000, ONLY_MOST = 256, MOST_PROCS = 1024, MOST_THREADS = 10000 };
	long n;

	switch (option) {
	case PROCS:
		return read_number("--procs", value, 1, MOST_PROCS, &n) &&
		       setenv("GOMAXPROCS", value, 1) == 0;
	case MAX_THREADS:
		return read_number("--max-threads", value, 1, MOST_THREADS, &n) &&
		       setenv("HEDDLE_MAXTHREADS", value, 1) == 0;
	case STATS:
		return setenv("HEDDLE_STATS", "1", 1) == 0;
	case TRACE:
		return set_new_file("--trace", "HEDDLE_TRACE", value);
	case TRACE_LIMIT:
		return set_trace_limit(value);
	case DEADLOCK:
		if (strcmp(value, "report") == 0 || strcmp(value, "abort") == 0)
			return setenv("HEDDLE_DEADLOCK", value, 1) == 0;
		fprintf(stderr, "heddle: --deadlock: '%s' is neither report nor abort\n", value);
		return false;
	case SCHEDTRACE:
		return read_number("--schedtrace", value, 1, HOUR_MS, &n) &&
		       setenv("HEDDLE_SCHEDTRACE", value, 1) == 0;
	case POLICY:
		return set_policy(value);
	case SEED:
		return read_number("--seed", value, 0, LONG_MAX, &n) &&
		       setenv("HEDDLE_SEED", value, 1) == 0;
	case RECORD:
		return set_new_file("--record", "HEDDLE_RECORD", value);
	case REPLAY:
		return set_replay(value);
	case ONLY:
		if (*value && strlen(value) < ONLY_MOST)
			return setenv("HEDDLE_ONLY", value, 1) == 0;
		fprintf(stderr, "heddle: --only: '%s' is no pattern\n", value);
		return false;
	case OFF:
		return setenv("HEDDLE", "off", 1) == 0;
	default:
		return false;
	}
}

/* Turns are taken on one P; procs: it was said how many there are to be. */
static bool may_turn(bool procs)
{
	const char *n = getenv("GOMAXPROCS"), *policy = getenv("HEDDLE_POLICY");

	if (procs && strcmp(n, "1") != 0) {
		fprintf(stderr, "heddle run: --record and --replay are for -p 1\n");
		return false;
	}
	if (getenv("HEDDLE_RECORD") && policy && strncmp(policy, "go", 2) == 0 &&
	    (policy[2] == 0 || policy[2] == ',')) {
		fprintf(stderr, "heddle run: --record is for other policies than go\n");
		return false;
	}
	return setenv("GOMAXPROCS", "1", 1) == 0;
}

/* False: it was said why not. *native: heddle is to keep away from it. */
static bool may_serve(const char *command, struct target *t, bool *native)
{
	enum verdict verdict = target_check(command, t);

	say_clean(t->path);
	switch (verdict) {
	case TARGET_REFUSED:
		fprintf(stderr,
			"heddle: %s: %s: heddle cannot serve it (heddle run --off runs it natively)\n",
			t->path, t->why);
		return false;
	case TARGET_NATIVE:
		fprintf(stderr, "heddle: %s: %s: it runs natively\n", t->path, t->why);
		*native = true;
		t->why = NULL;
		return true;
	default:
		return true;
	}
}

/* The kernel has refused it, with errno: what is known of it says more than that. */
static int not_run(const char *command, const struct target *t)
{
	int status = errno == ENOENT ? NOT_FOUND : CANNOT_RUN;

	if (t->why)
		fprintf(stderr, "heddle: %s: %s\n", *t->path ? t->path : command, t->why);
	else
		fprintf(stderr, "heddle: %s: %s\n", command, strerror(errno));
	return status;
}

static int run(const struct command *self, int argc, char **argv)
{
	static struct target target;
	bool off = false, native = false, any = true, turned = false, procs = false;
	struct scan scan;
	int found;

	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0) {
		off |= found == OFF;
		any &= found != ONLY;
		procs |= found == PROCS;
		turned |= found == RECORD || found == REPLAY;
		if (!apply(found, scan.value))
			return USAGE;
	}
	if (found != SCAN_END)
		return scan_status(found);
	if (turned && !may_turn(procs))
		return USAGE;
	if (scan.noperands == 0) {
		fprintf(stderr, "heddle run: which command? see heddle run --help\n");
		return USAGE;
	}
	/* With --only it is the way to another, perhaps. */
	if (!off && any && !may_serve(scan.operands[0], &target, &native))
		return CANNOT_RUN;
	if (!off && !native && !inject())
		return CANNOT_RUN;
	execvp(scan.operands[0], scan.operands);
	return not_run(scan.operands[0], &target);
}

const struct command command_run = {
	.name = "run",
	.operands = "[--] COMMAND [ARGUMENT...]",
	.what = "Runs COMMAND with its threads on few kernel threads.",
	.options = options,
	.more = "Exit status: the command's; 125 if it departs from what --replay has; 126 if it cannot be\n"
		"run, 127 if it is not found.\n",
	.run = run,
	.early = true,
};
