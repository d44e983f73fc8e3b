/* heddle ctl: orders to a process, by its page (core/view.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "look.h"
#include "say.h"

enum { PATIENCE_MS = 5000 };

/* The page, to write to; NULL and *why. Sysmon has it in its own table of descriptors. */
static struct view_page *map(const struct view *v, const char **why)
{
	pid_t tid = view_tid(v, (uint64_t)(uint32_t)v->page.systid);
	struct view_page *at = MAP_FAILED;
	char path[96];
	struct stat st;
	int fd, seals;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", v->pid, tid, v->page.fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		*why = strerror(errno);
		return NULL;
	}
	/* Of a size that nobody can take from under us. */
	seals = fcntl(fd, F_GET_SEALS);
	if (fstat(fd, &st) == 0 && st.st_size == VIEW_BYTES && seals >= 0 &&
	    (seals & F_SEAL_SHRINK))
		at = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED || at->magic != VIEW_MAGIC) {
		*why = "its page is not what it should be";
		return NULL;
	}
	return at;
}

/* Gives the order and waits for the answer: 0, an error number, or -1: none came. */
static int order(struct view_page *page, enum view_ordered what, uint32_t arg)
{
	static const struct timespec nap = { 0, 1000 * 1000 };
	uint64_t before = ld_acq(&page->order), mine, answer;

	do
		mine = (uint64_t)arg << 32 |
		       (((uint32_t)before & ~(uint32_t)255) + 256 + (uint32_t)what);
	while (!__atomic_compare_exchange_n(&page->order, &before, mine, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	/* Sysmon's note; it may be asleep without an end. */
	st_rel(&page->wake, 1);
	syscall(SYS_futex, &page->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (int i = 0; i < PATIENCE_MS; i++) {
		answer = ld_acq(&page->answer);
		if ((uint32_t)answer == (uint32_t)mine)
			return (int)(answer >> 32);
		nanosleep(&nap, NULL);
	}
	return -1;
}

static const struct option_row settings[] = {
	{ "procs", 0, "N", "GOMAXPROCS: how many threads run at once" },
	{ "max-threads", 0, "N", "rather no more kernel threads than these; 0: any number" },
	{ "slice", 0, "MS", "how long a thread runs while others wait; 10 at first" },
	{ "trace", 0, "on|off|PATH",
	  "writes a trace from now on, to a new file, heddle-PID.json or the one named, as the "
	  "process's user; off ends it, and that of heddle run --trace" },
	{ NULL, 0, NULL, NULL },
};

enum { SETTINGS = sizeof(settings) / sizeof(*settings) - 1, MOST_ORDERS = 16 };

/* Of each. */
static const struct range {
	enum view_ordered order;
	long least, most; /* most 0: the process says */
} ranges[SETTINGS] = {
	{ VIEW_PROCS, 1, 0 },
	{ VIEW_THREADS, 0, 10000 },
	{ VIEW_SLICE, 1, 10000 },
	{ VIEW_TRACE, 0, 1 },
};

/* One of what was asked for. */
struct wish {
	const struct range *range;
	const char *text, *value;
	uint32_t arg;
	char path[VIEW_BYTES - VIEW_PATH]; /* of a trace that is to begin */
};

static bool no_such(const char *name)
{
	const char *names[SETTINGS + 1] = { NULL }, *near;

	for (int i = 0; i < SETTINGS; i++)
		names[i] = settings[i].name;
	near = nearest(name, names);
	fprintf(stderr, "heddle ctl: %s: no such setting; ", name);
	for (int i = 0; near && i < SETTINGS; i++)
		if (names[i] == near)
			fprintf(stderr, "did you mean %s=%s?\n", near, settings[i].value);
	if (!near)
		fprintf(stderr, "see heddle ctl --help\n");
	return false;
}

/* on, off, or a path: where the trace is to go. */
static bool read_trace(pid_t pid, const char *value, struct wish *wish)
{
	char here[PATH_MAX] = "", name[64] = "";
	const char *file = name;
	int n;

	wish->arg = strcmp(value, "off") != 0;
	if (!wish->arg)
		return true;
	if (strchr(value, '/')) {
		file = value;
	} else if (strcmp(value, "on") == 0) {
		snprintf(name, sizeof(name), "heddle-%d.json", pid);
	} else {
		fprintf(stderr, "heddle ctl: trace: '%s' is neither on nor off, nor a path\n",
			value);
		return false;
	}
	if (*file != '/' && !getcwd(here, sizeof(here))) {
		perror("heddle ctl: trace");
		return false;
	}
	n = snprintf(wish->path, sizeof(wish->path), "%s%s%s", here, *here ? "/" : "", file);
	if (n < (int)sizeof(wish->path))
		return true;
	fprintf(stderr, "heddle ctl: trace: the path is too long\n");
	return false;
}

/* Which setting NAME=VALUE is; else it says what is wrong. */
static bool wish_name(char *text, struct wish *wish)
{
	char *value = strchr(text, '=');
	size_t len = value ? (size_t)(value - text) : strlen(text);

	for (int i = 0; value && i < SETTINGS; i++)
		if (strlen(settings[i].name) == len && strncmp(settings[i].name, text, len) == 0) {
			*wish = (struct wish){ .range = &ranges[i],
					       .text = text,
					       .value = value + 1 };
			return true;
		}
	text[len] = 0;
	return no_such(text);
}

/* Likewise. */
static bool wish_read(const struct view *v, struct wish *wish)
{
	const struct range *range = wish->range;
	long n, most;

	if (range->order == VIEW_TRACE)
		return read_trace(v->pid, wish->value, wish);
	most = range->most ? range->most : (long)view_number(v, "procs", "max", 1024);
	if (!read_number(settings[range - ranges].name, wish->value, range->least, most, &n))
		return false;
	wish->arg = (uint32_t)n;
	return true;
}

static const char *refusal(const struct wish *wish, int error)
{
	if (wish->range->order == VIEW_TRACE && error == EBUSY)
		return "it is traced already";
	if (wish->range->order == VIEW_TRACE && error == ESRCH)
		return "it is not traced";
	return strerror(error);
}

static bool fulfil(const struct view *v, struct view_page *page, const struct wish *wish)
{
	int r;

	if (*wish->path)
		strcpy((char *)page + VIEW_PATH, wish->path);
	r = order(page, wish->range->order, wish->arg);

	if (r < 0)
		fprintf(stderr,
			"heddle ctl: %d: no answer; is it stopped? It will do so when it goes on.\n",
			v->pid);
	else if (r > 0)
		fprintf(stderr, "heddle ctl: %d: %s: %s\n", v->pid, wish->text, refusal(wish, r));
	else if (*wish->path)
		printf("%d writes %s until trace=off\n", v->pid, wish->path);
	return r == 0;
}

/* All are read before the first is ordered. */
static int set(const struct view *v, int n, struct wish *wishes)
{
	struct view_page *page;
	const char *why;
	int done = 0;

	for (int i = 0; i < n; i++)
		if (!wish_read(v, &wishes[i]))
			return USAGE;
	page = map(v, &why);
	if (!page) {
		fprintf(stderr, "heddle ctl: %d: %s\n", v->pid, why);
		return FAILED;
	}
	while (done < n && fulfil(v, page, &wishes[done]))
		done++;
	munmap(page, VIEW_BYTES);
	return done == n ? DONE : FAILED;
}

static int run(const struct command *self, int argc, char **argv)
{
	static struct wish wishes[MOST_ORDERS];
	const char *why;
	struct scan scan;
	struct view *v;
	int found, status;
	pid_t pid;

	scan_begin(&scan, self, argc, argv);
	found = scan_next(&scan);
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands < 2 || scan.noperands > MOST_ORDERS) {
		fprintf(stderr, "heddle ctl: it takes a PID and settings, say procs=4\n");
		return USAGE;
	}
	if (!say_pid("ctl", 1, scan.operands, &pid))
		return USAGE;
	for (int i = 1; i < scan.noperands; i++)
		if (!wish_name(scan.operands[i], &wishes[i - 1]))
			return USAGE;
	v = view_of(pid, &why);
	if (!v) {
		fprintf(stderr, "heddle ctl: %d: %s\n", pid, why);
		return FAILED;
	}
	status = set(v, scan.noperands - 1, wishes);
	view_close(v);
	return status;
}

const struct command command_ctl = {
	.name = "ctl",
	.operands = "PID SETTING=VALUE...",
	.what = "Changes a process while it runs.",
	.settings = settings,
	.run = run,
};
