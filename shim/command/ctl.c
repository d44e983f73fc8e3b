/* heddle ctl: orders to a process, by its page (core/view.h). */
#include <errno.h>
#include <fcntl.h>
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

static int set_procs(const struct view *v, long n)
{
	const char *why;
	struct view_page *page = map(v, &why);
	int r;

	if (!page) {
		fprintf(stderr, "heddle ctl: %d: %s\n", v->pid, why);
		return FAILED;
	}
	r = order(page, VIEW_PROCS, (uint32_t)n);
	munmap(page, VIEW_BYTES);
	if (r == 0)
		return DONE;
	if (r < 0)
		fprintf(stderr,
			"heddle ctl: %d: no answer; is it stopped? It will do so when it goes on.\n",
			v->pid);
	else
		fprintf(stderr, "heddle ctl: %d: procs=%ld: %s\n", v->pid, n, strerror(r));
	return FAILED;
}

static const struct option_row settings[] = {
	{ "procs", 0, "N", "GOMAXPROCS: how many run at once" },
	{ NULL, 0, NULL, NULL },
};

/* The value of "name=value", whose name it is; NULL: there is no such; it was said on stderr. */
static const char *setting(char *word)
{
	const char *names[sizeof(settings) / sizeof(*settings)] = { NULL };
	char *value = strchr(word, '=');
	const struct option_row *near = NULL;

	if (value)
		*value++ = 0;
	for (int i = 0; settings[i].name; i++)
		names[i] = settings[i].name;
	for (const struct option_row *r = settings; r->name; r++) {
		if (value && strcmp(r->name, word) == 0)
			return value;
		if (nearest(word, names) == r->name)
			near = r;
	}
	fprintf(stderr, "heddle ctl: %s: ", word);
	if (near)
		fprintf(stderr, "no such setting; did you mean %s=%s?\n", near->name, near->value);
	else
		fprintf(stderr, "no such setting; see heddle ctl --help\n");
	return NULL;
}

static int run(const struct command *self, int argc, char **argv)
{
	const char *why, *value;
	struct scan scan;
	struct view *v;
	int found, status;
	pid_t pid;
	long n;

	scan_begin(&scan, self, argc, argv);
	found = scan_next(&scan);
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands != 2) {
		fprintf(stderr, "heddle ctl: it takes a PID and a setting, say procs=4\n");
		return USAGE;
	}
	if (!say_pid("ctl", 1, scan.operands, &pid))
		return USAGE;
	value = setting(scan.operands[1]);
	if (!value)
		return USAGE;
	v = view_of(pid, &why);
	if (!v) {
		fprintf(stderr, "heddle ctl: %d: %s\n", pid, why);
		return FAILED;
	}
	status = read_number("procs", value, 1, (long)view_number(v, "procs", "max", 1024), &n)
			 ? set_procs(v, n)
			 : USAGE;
	view_close(v);
	return status;
}

const struct command command_ctl = {
	.name = "ctl",
	.operands = "PID SETTING=VALUE",
	.what = "Changes a process while it runs.",
	.settings = settings,
	.run = run,
};
