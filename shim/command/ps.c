/* heddle ps: the processes that heddle serves, of those that one may look into. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "say.h"
#include "scene.h"

enum { COMMAND = 4096 };

static int by_number(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

/* All processes, in order. */
static pid_t *all_pids(int *n)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	pid_t *pids = NULL;

	*n = 0;
	while (proc && (entry = readdir(proc)) != NULL) {
		char *end;
		long pid = strtol(entry->d_name, &end, 10);
		pid_t *more;

		if (*end != 0 || pid <= 0)
			continue;
		if ((*n & (*n - 1)) == 0) {
			more = realloc(pids, (*n ? 2 * (size_t)*n : 1) * sizeof(*pids));
			if (!more)
				break;
			pids = more;
		}
		pids[(*n)++] = (pid_t)pid;
	}
	if (proc)
		closedir(proc);
	if (pids)
		qsort(pids, (size_t)*n, sizeof(*pids), by_number);
	return pids;
}

static bool show(pid_t pid)
{
	const char *why;
	struct view *v = view_of(pid, &why);
	struct scene *s = v ? scene_read(v, false) : NULL;
	char command[COMMAND], up[SAY_TIME];

	if (s) {
		say_command(pid, command, sizeof(command));
		printf("%7d %5llu %7d %7llu %8s  %s\n", pid,
		       (unsigned long long)s->sched.gomaxprocs, s->ngs,
		       (unsigned long long)s->sched.mcount, say_time(up, s->now - v->page.born),
		       command);
	}
	scene_free(s);
	view_close(v);
	return s != NULL;
}

static void heading(void)
{
	printf("%s%7s %5s %7s %7s %8s  %s%s\n", bold(), "PID", "PROCS", "THREADS", "KERNEL",
	       "UPTIME", "COMMAND", plain());
}

int the_only(const char *subcommand)
{
	int n, found = 0;
	pid_t *pids = all_pids(&n), only = 0;

	for (int i = 0; i < n; i++) {
		const char *why;
		struct view *v = view_of(pids[i], &why);
		if (v) {
			only = pids[i];
			found++;
		}
		view_close(v);
	}
	free(pids);
	if (found == 1)
		return only;
	fprintf(stderr, "heddle %s: %s\n", subcommand,
		found ? "which PID? heddle ps lists several"
		      : "there is no process of heddle's that you may look into");
	return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct scan scan;
	int found, n, shown = 0;
	pid_t *pids;

	scan_begin(&scan, self, argc, argv);
	found = scan_next(&scan);
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands > 0) {
		fprintf(stderr, "heddle ps: it takes no operands\n");
		return USAGE;
	}
	pids = all_pids(&n);
	heading();
	for (int i = 0; i < n; i++)
		shown += show(pids[i]);
	free(pids);
	return shown > 0 ? DONE : FAILED;
}

const struct command command_ps = {
	.name = "ps",
	.operands = "",
	.what = "Lists the processes that heddle serves.",
	.more = "PROCS: threads that may run at once. THREADS: the program's. KERNEL: the kernel's,\n"
		"on which they run. Exit status: 1 if there are none that you may look into.\n",
	.run = run,
};
