/* The table that HEDDLE_STATS asks for, or the line in a file. It is printed where the process ends
 * by itself: by exit, by _exit, with its last thread; a signal or a raw exit_group leaves none.
 *
 * Programs close standard error before they end, and may have made something else of number 2. So
 * a duplicate of it is kept, high up, and both are asked whether they still are what they were; as
 * is a file's descriptor, where that is kept (files.h). */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "early.h"
#include "ending.h"
#include "files.h"
#include "os.h"
#include "policies.h"
#include "summary.h"
#include "syscall.h"
#include "text.h"
#include "wire.h"

enum { HIGH = 900, TABLE = 2048, COLUMN = 18, LINE = 16384 };

FORKED static ATOMIC(bool) wanted;
static long pid;
static const char *file;
static int kept = -1;
static struct stat where;

static bool is_there(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == where.st_dev &&
	       st.st_ino == where.st_ino;
}

/* Said at once, for by the end there may be nowhere to say it. */
static bool can_be_opened(void)
{
	int fd = file_open(FILE_STATS);
	char buf[TABLE];
	struct text t = TEXT(buf);

	if (fd >= 0) {
		arch_syscall3(SYS_close, fd, 0, 0);
		return true;
	}
	text_put(&t, "heddle: HEDDLE_STATS: ");
	text_put(&t, file);
	text_error(&t, -fd);
	text_put(&t, "\n");
	text_write2(&t);
	return false;
}

void ending_begin(const char *to)
{
	file = to;
	if (file) {
		kept = file_kept(FILE_STATS);
		if (kept < 0 && !can_be_opened())
			return;
		if (kept >= 0)
			fstat(kept, &where);
	} else {
		if (fstat(STDERR_FILENO, &where) != 0)
			return;
		kept = (int)arch_syscall3(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, HIGH);
	}
	pid = arch_syscall3(SYS_getpid, 0, 0, 0);
	st_rlx(&wanted, true);
}

/* ---- words ---- */

static void put_count(struct text *t, uint64_t n)
{
	if (n >= 1000) {
		put_count(t, n / 1000);
		text_put(t, ",");
		n %= 1000;
		text_put(t, n < 10 ? "00" : n < 100 ? "0" : "");
	}
	text_unsigned(t, n);
}

/* Three figures or more. */
static void put_time(struct text *t, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 1000000000, " s" }, { 1000000, " ms" }, { 1000, " µs" } };

	for (int i = 0; i < 3; i++) {
		uint64_t whole = ns / units[i].ns,
			 hundredths = ns % units[i].ns / (units[i].ns / 100);
		if (whole == 0)
			continue;
		put_count(t, whole);
		if (whole < 100) {
			text_put(t, ".");
			text_unsigned(t, hundredths / 10);
			if (whole < 10)
				text_unsigned(t, hundredths % 10);
		}
		text_put(t, units[i].name);
		return;
	}
	text_unsigned(t, ns);
	text_put(t, " ns");
}

static void begin_row(struct text *t, const char *name)
{
	size_t before = t->len;

	text_put(t, "  ");
	text_put(t, name);
	while (t->len - before < COLUMN && t->len + 1 < t->cap)
		text_put(t, " ");
}

static void counted(struct text *t, const char *before, uint64_t n, const char *after)
{
	text_put(t, before);
	put_count(t, n);
	text_put(t, after);
}

static void rows_of_threads(struct text *t, const struct summary *s)
{
	/* One is heddle's own, which finds threads for signals; and the first was there. */
	uint64_t made = s->stats.created > 1 ? s->stats.created - 2 : 0;
	uint64_t peak = s->peakgs > 1 ? s->peakgs - 1 : 0;

	begin_row(t, "threads");
	counted(t, "", made, " made beside the first");
	counted(t, ", at most ", peak, " at once\n");
	begin_row(t, "kernel threads");
	counted(t, "", (uint64_t)s->kthreads, " at most");
	counted(t, ", natively ", peak, "\n");
	begin_row(t, "switches");
	counted(t, "", s->stats.switches, "");
	counted(t, "; of slices that were over ", s->stats.preempts, "");
	counted(t, ", by yields ", s->stats.yields, "\n");
	begin_row(t, "steals");
	counted(t, "", s->stats.steals, "");
	counted(t, ", of ", s->stats.stolen, " threads\n");
}

static void row_of_wired(struct text *t)
{
	static const char *const causes[] = {
		NULL,
#define X(cause, name) name,
		WIRE_CAUSES(X)
#undef X
	};
	const char *before = ": ";

	begin_row(t, "wired");
	counted(t, "", wire_count(UNWIRED), " times a thread was tied to its kernel thread");
	for (uint32_t i = UNWIRED + 1; i < WIRE_CAUSES_END; i++) {
		if (wire_count(i) == 0)
			continue;
		text_put(t, before);
		text_put(t, causes[i]);
		counted(t, " ", wire_count(i), "");
		before = ", ";
	}
	text_put(t, "\n");
}

static void rows_of_blocking(struct text *t, const struct summary *s)
{
	static const char *const reasons[] = { NULL, "lock", "sleep", "read", "write", "park" };
	bool any = false;

	begin_row(t, "parks");
	counted(t, "", s->stats.parks, "");
	for (uint32_t i = 1; i < sizeof(reasons) / sizeof(*reasons); i++) {
		if (s->parks[i] == 0)
			continue;
		text_put(t, any ? ", " : ": ");
		text_put(t, reasons[i]);
		counted(t, " ", s->parks[i], "");
		any = true;
	}
	text_put(t, "\n");
	begin_row(t, "announced calls");
	counted(t, "", s->calls, "");
	counted(t, ", of which ", s->stats.retakecall, " gave way to others\n");
	begin_row(t, "unannounced");
	counted(t, "", s->stats.retakeblock, " blocks that gave way to others\n");
	row_of_wired(t);
}

static void row_of_waiting(struct text *t, const struct summary *s)
{
	if (s->waited == 0)
		return;
	begin_row(t, "wait for a cpu");
	text_put(t, "p50 ");
	put_time(t, s->p50);
	text_put(t, ", p99 ");
	put_time(t, s->p99);
	text_put(t, ", longest ");
	put_time(t, s->longest);
	text_put(t, "\n");
}

static void for_people(const struct summary *s)
{
	char buf[TABLE];
	struct text t = TEXT(buf);
	int fd = is_there(kept) ? kept : is_there(STDERR_FILENO) ? STDERR_FILENO : -1;

	if (fd < 0)
		return;
	text_put(&t, "heddle: process ");
	text_num(&t, pid);
	text_put(&t, " on ");
	text_num(&t, s->procs);
	text_put(&t, s->procs == 1 ? " P, " : " Ps, ");
	put_time(&t, s->lived);
	policies_row(&t);
	text_put(&t, "\n");
	rows_of_threads(&t, s);
	row_of_waiting(&t, s);
	rows_of_blocking(&t, s);
	os_enlarge(SYS_write, fd, (long)buf, (long)t.len, 0);
}

static void word(struct text *t, const char *name, uint64_t n)
{
	text_put(t, t->len ? " " : "");
	text_put(t, name);
	text_put(t, "=");
	text_unsigned(t, n);
}

/* waits=NS:TIMES,NS:TIMES...: so often a G waited for a P, no longer than that. */
static void word_of_waits(struct text *t, const struct summary *s)
{
	const char *before = " waits=";

	for (uint32_t i = 0; i < TIMES_BUCKETS; i++) {
		if (s->waits[i] == 0)
			continue;
		text_put(t, before);
		text_unsigned(t, times_upto(i));
		text_put(t, ":");
		text_unsigned(t, s->waits[i]);
		before = ",";
	}
}

/* One write at the file's end: lines of several processes do not mix. */
static void for_programs(const struct summary *s)
{
	static char buf[LINE];
	struct text t = TEXT(buf);
	int fd;

	word(&t, "pid", (uint64_t)pid);
	word(&t, "procs", (uint64_t)s->procs);
	word(&t, "lived", s->lived);
	word(&t, "threads", s->peakgs);
	word(&t, "kernelthreads", (uint64_t)s->kthreads);
	word(&t, "announced", s->calls);
	word(&t, "wired", wire_count(UNWIRED));
#define X(cause, name) word(&t, "wired" name, wire_count(WIRED_##cause));
	WIRE_CAUSES(X)
#undef X
#define X(name, text) word(&t, #name, s->stats.name);
	STATS(X)
#undef X
	word(&t, "longest", s->longest);
	word_of_waits(&t, s);
	text_put(&t, "\n");
	fd = is_there(kept) ? kept : file_open(FILE_STATS);
	if (fd < 0)
		return;
	os_enlarge(SYS_write, fd, (long)buf, (long)t.len, 0);
	arch_syscall3(SYS_close, fd, 0, 0);
}

void ending_print(void)
{
	static struct summary s;

	/* Not in the child of a vfork, which has our memory. */
	if (!ld_rlx(&wanted) || arch_syscall3(SYS_getpid, 0, 0, 0) != pid ||
	    !xchg_acq(&wanted, false))
		return;
	summary_read(&s);
	if (file)
		for_programs(&s);
	else
		for_people(&s);
}

FORKS void ending_forked(void)
{
	st_rlx(&wanted, false);
}
