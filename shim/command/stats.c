/* heddle stats: the counters of a process, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "say.h"
#include "scene.h"

enum { COMMAND = 4096, STATES = 16 };

/* How many Gs are in each state; states of one name are one. */
struct states {
	int n;
	struct {
		const char *name;
		uint64_t count;
	} of[STATES];
};

static void count_states(const struct view *v, const struct scene *s, struct states *states)
{
	states->n = 0;
	for (int i = 0; i < s->ngs; i++) {
		const char *name = view_name(v, "gstatus", scene_status(v, &s->gs[i]));
		int at = 0;
		while (at < states->n && strcmp(states->of[at].name, name) != 0)
			at++;
		if (at == STATES)
			continue;
		if (at == states->n) {
			states->of[at].name = name;
			states->of[at].count = 0;
			states->n++;
		}
		states->of[at].count++;
	}
}

struct gauge {
	const char *name, *text;
	uint64_t value;
};

enum { GAUGES = 7 };

static void gauges(const struct view *v, const struct scene *s, struct gauge *g)
{
	const struct gauge all[GAUGES] = {
		{ "procs", "threads that may run at once (GOMAXPROCS)", s->sched.gomaxprocs },
		{ "idle_procs", "of these, without work", s->sched.npidle },
		{ "threads", "threads of the program that are alive", (uint64_t)s->ngs },
		{ "kernel_threads", "kernel threads of the scheduler", s->sched.mcount },
		{ "idle_kernel_threads", "of these, asleep without work", s->sched.nmidle },
		{ "global_queue", "threads in the global run queue", s->sched.runqsize },
		{ "uptime_seconds", "seconds since the program's second thread",
		  (s->now - v->page.born) / 1000000000u },
	};

	memcpy(g, all, sizeof(all));
}

static void for_people(const struct view *v, const struct scene *s, const char *command)
{
	struct gauge g[GAUGES];
	struct states states;
	char n[SAY_COUNT];

	gauges(v, s, g);
	count_states(v, s, &states);
	printf("%s%d %s%s\n", bold(), v->pid, command, plain());
	for (int i = 0; i < GAUGES; i++)
		printf("%16s  %s\n", say_count(n, g[i].value), g[i].text);
	for (int i = 0; i < states.n; i++)
		printf("%16s  threads: %s\n", say_count(n, states.of[i].count), states.of[i].name);
	printf("\n");
	for (int i = 0; i < s->ncounters; i++)
		printf("%16s  %s\n", say_count(n, s->counters[i].value), s->counters[i].text);
}

static void as_json(const struct view *v, const struct scene *s, const char *command)
{
	struct gauge g[GAUGES];
	struct states states;

	gauges(v, s, g);
	count_states(v, s, &states);
	printf("{\"pid\": %d, \"command\": ", v->pid);
	say_json(command);
	for (int i = 0; i < GAUGES; i++)
		printf(", \"%s\": %" PRIu64, g[i].name, g[i].value);
	printf(", \"states\": {");
	for (int i = 0; i < states.n; i++) {
		printf("%s", i ? ", " : "");
		say_json(states.of[i].name);
		printf(": %" PRIu64, states.of[i].count);
	}
	printf("}, \"counters\": {");
	for (int i = 0; i < s->ncounters; i++) {
		printf("%s", i ? ", " : "");
		say_json(s->counters[i].name);
		printf(": %" PRIu64, s->counters[i].value);
	}
	printf("}}\n");
}

/* A name of the process's, as part of a metric's. */
static void metric(const char *name)
{
	for (; *name; name++)
		putchar(strchr("abcdefghijklmnopqrstuvwxyz0123456789_", *name) ? *name : '_');
}

static void for_prometheus(const struct view *v, const struct scene *s)
{
	struct gauge g[GAUGES];
	struct states states;

	gauges(v, s, g);
	count_states(v, s, &states);
	for (int i = 0; i < GAUGES; i++)
		printf("# HELP heddle_%s %s\n# TYPE heddle_%s gauge\nheddle_%s{pid=\"%d\"} "
		       "%" PRIu64 "\n",
		       g[i].name, g[i].text, g[i].name, g[i].name, v->pid, g[i].value);
	printf("# HELP heddle_state_threads threads in each state\n"
	       "# TYPE heddle_state_threads gauge\n");
	for (int i = 0; i < states.n; i++) {
		printf("heddle_state_threads{pid=\"%d\",state=", v->pid);
		say_json(states.of[i].name);
		printf("} %" PRIu64 "\n", states.of[i].count);
	}
	for (int i = 0; i < s->ncounters; i++) {
		char text[64];
		snprintf(text, sizeof(text), "%s", s->counters[i].text);
		say_clean(text);
		printf("# HELP heddle_");
		metric(s->counters[i].name);
		printf("_total %s\n# TYPE heddle_", text);
		metric(s->counters[i].name);
		printf("_total counter\nheddle_");
		metric(s->counters[i].name);
		printf("_total{pid=\"%d\"} %" PRIu64 "\n", v->pid, s->counters[i].value);
	}
}

enum { JSON, PROMETHEUS };

static const struct option_row options[] = {
	{ "json", 0, NULL, "one object" },
	{ "prometheus", 0, NULL, "the text format that Prometheus reads" },
	{ NULL, 0, NULL, NULL },
};

static int run(const struct command *self, int argc, char **argv)
{
	char command[COMMAND];
	struct scan scan;
	struct scene *s;
	struct view *v;
	const char *why;
	int found, form = -1;
	pid_t pid;

	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		form = found;
	if (found != SCAN_END)
		return scan_status(found);
	if (!say_pid("stats", scan.noperands, scan.operands, &pid))
		return USAGE;
	v = view_of(pid, &why);
	s = v ? scene_read(v, true) : NULL;
	if (!s) {
		fprintf(stderr, "heddle stats: %d: %s\n", pid, v ? "it has ended" : why);
		view_close(v);
		return FAILED;
	}
	say_command(pid, command, sizeof(command));
	if (form == JSON)
		as_json(v, s, command);
	else if (form == PROMETHEUS)
		for_prometheus(v, s);
	else
		for_people(v, s, command);
	scene_free(s);
	view_close(v);
	return DONE;
}

const struct command command_stats = {
	.name = "stats",
	.operands = "PID",
	.what = "Prints what the scheduler of that process has counted so far.",
	.options = options,
	.run = run,
};
