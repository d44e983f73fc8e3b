/* The runs: natively, then under heddle until one does otherwise, then that one again. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ab/counters.h"
#include "ab/progress.h"
#include "commands.h"
#include "hunt.h"
#include "say.h"

enum {
	/* A run may take so many times the slowest of the native ones and of its first, and no less
	 * than this. */
	TIMES_LONGER = 20,
	AT_LEAST_S = 10,
	NATIVE_S = 60, /* the first of all */
	REPLAYS = 20,
	SLOW_REPLAYS = 3, /* of one that was waited for in vain */
	FILE_NAME = 64,
};

static void run_done(struct trial *t)
{
	if (t->out >= 0)
		close(t->out);
	if (t->err >= 0)
		close(t->err);
}

/* Again, if we were stopped meanwhile. False: it is over. */
static bool run(const struct hunt *h, const struct variant *v, const char *counters,
		struct trial *t, struct outcome *o)
{
	for (;;) {
		trial_run(&h->setup, v, counters, h->timeout, t);
		if (t->how == ENDED_CUT || t->how == ENDED_NEVER || trial_interrupted)
			break;
		if (t->how != ENDED_STOPPED) {
			judge_read(h, t, o);
			return true;
		}
		run_done(t);
	}
	run_done(t);
	return false;
}

/* ---- natively ---- */

static void native_words(struct hunt *h, const struct outcome *of)
{
	for (int i = 0; i < h->native_done; i++) {
		if (!judge_odd(h, &of[i]))
			continue;
		if (h->native_failed++ == 0)
			words_of(h, &of[i], h->native_words, sizeof(h->native_words));
	}
}

bool hunt_native(struct hunt *h)
{
	static const struct variant native = { .native = true, .cgroup = -1 };
	struct outcome *of = calloc((size_t)h->natives, sizeof(*of));
	double limit = h->timeout;
	int *texts = calloc((size_t)h->natives, sizeof(*texts));
	struct trial t;

	if (!of || !texts)
		abort();
	progress_begin(h->natives);
	for (int i = 0; i < h->natives; i++) {
		struct outcome *o = &of[i];
		if (limit == 0)
			h->timeout = i == 0 ? NATIVE_S
					    : fmax(TIMES_LONGER * h->slowest, AT_LEAST_S);
		if (!run(h, &native, NULL, &t, o))
			break;
		/* So many descriptors are too many: the first ones will do. */
		enum { KEPT = 32 };
		texts[i] = i < KEPT ? t.out : (close(t.out), -1);
		close(t.err);
		progress_step(t.wall);
		h->native_done++;
		if (o->deed != DID_HANG && o->wall > h->slowest)
			h->slowest = o->wall;
	}
	progress_end();
	if (h->native_done == h->natives) {
		h->usual_out = texts[judge_usual(h, of, h->natives)];
		native_words(h, of);
	}
	for (int i = 0; i < h->native_done; i++)
		if (texts[i] >= 0 && texts[i] != h->usual_out)
			close(texts[i]);
	free(texts);
	free(of);
	if (limit == 0)
		h->timeout = fmax(TIMES_LONGER * h->slowest, AT_LEAST_S);
	return h->native_done == h->natives;
}

/* ---- under heddle ---- */

static struct variant variant_of(const struct hunt *h, const struct lot *lot)
{
	struct variant v = { .cgroup = -1 };

	snprintf(v.policy, sizeof(v.policy), "%s", lot->policy);
	v.settings[0].name = "GOMAXPROCS";
	snprintf(v.settings[0].value, sizeof(v.settings[0].value), "%d", h->procs);
	v.settings[1].name = "HEDDLE_SEED";
	snprintf(v.settings[1].value, sizeof(v.settings[1].value), "%llu",
		 (unsigned long long)lot->seed);
	v.settings[2].name = "HEDDLE_DEADLOCK";
	strcpy(v.settings[2].value, "report");
	return v;
}

/* While it writes no more on stderr there is nothing to be read. */
static bool looks(const struct trial *t)
{
	static int of = -1;
	static off_t size;
	off_t is = lseek(t->err, 0, SEEK_END);

	if (of == t->err && is == size)
		return false;
	of = t->err;
	size = is;
	return is > 0 && judge_locked(t);
}

static char *dumped;

/* As heddle dump: into memory, by this process, which may trace its children. */
static void dump(pid_t pid)
{
	static char name[] = "dump", number[16];
	char *argv[] = { name, number, NULL };
	int fd = memfd_create("dump", MFD_CLOEXEC), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	size_t n;

	if (fd < 0 || out < 0)
		goto done;
	snprintf(number, sizeof(number), "%d", pid);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	command_dump.run(&command_dump, 2, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	dumped = trial_text(fd, &n);
done:
	if (fd >= 0)
		close(fd);
	if (out >= 0)
		close(out);
}

static void last_line(int fd, const char *begins, char *to, size_t size)
{
	size_t n;
	char *text = trial_text(fd, &n);

	*to = 0;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
		if (*line && (!begins || strncmp(line, begins, strlen(begins)) == 0))
			snprintf(to, size, "%s", line);
	say_clean(to);
	free(text);
}

static void replay(struct hunt *h, const struct variant *v)
{
	int times = h->replays ? h->replays : h->odd.deed == DID_HANG ? SLOW_REPLAYS : REPLAYS;
	struct outcome o;
	struct trial t;

	h->replayed = h->alike = 0;
	progress_begin(times);
	for (int i = 0; i < times; i++) {
		if (!run(h, v, NULL, &t, &o))
			break;
		run_done(&t);
		h->replayed++;
		h->alike += judge_alike(h, &o, &h->odd);
		progress_step(t.wall);
	}
	progress_end();
}

/* True: that is it. */
static bool look_closer(struct hunt *h, const struct lot *lot, const struct variant *v,
			const struct trial *t, const struct outcome *o)
{
	bool prints = o->deed == DID_END && h->usual.deed == DID_END && h->level < LIKENESSES;

	progress_end();
	h->lot = *lot;
	h->odd = *o;
	*h->difference = 0;
	if (prints)
		judge_difference(h, t->out, h->difference, sizeof(h->difference));
	last_line(t->err, NULL, h->words, sizeof(h->words));
	h->setup.hung = NULL;
	replay(h, v);
	h->setup.hung = dump;
	h->dump = dumped;
	dumped = NULL;
	/* It was the machine that took so long, perhaps. */
	if (o->deed == DID_HANG && h->alike == 0 && h->replayed > 0) {
		h->unsteady++;
		free(h->dump);
		h->dump = NULL;
		return false;
	}
	return h->found = true;
}

/* What only its first run tells. False: it is not served, or has one thread. */
static bool first_run(struct hunt *h, const struct trial *t, const char *file, bool measured)
{
	static struct counters counters;

	counters_read(file, &counters);
	last_line(t->err, "heddle: runs natively", h->natively, sizeof(h->natively));
	if (*h->natively) {
		fprintf(stderr, "heddle explore: %s\n", h->natively);
		return false;
	}
	if (t->how == ENDED_EXIT && counters.processes == 0) {
		fprintf(stderr, "heddle explore: it has one thread: there is nothing to explore\n");
		return false;
	}
	h->points = (long)counters_of(&counters, "points");
	if (measured && t->how == ENDED_EXIT)
		h->timeout = fmax(h->timeout, TIMES_LONGER * t->wall);
	return true;
}

static void search(struct hunt *h, bool measured, const char *file, bool *served)
{
	progress_begin(h->runs);
	for (int i = 1; i <= h->runs && !h->found && *served; i++) {
		struct lot lot = hunt_lot(h, i);
		struct variant v = variant_of(h, &lot);
		struct outcome o;
		struct trial t;
		if (!run(h, &v, i == 1 ? file : NULL, &t, &o))
			break;
		h->done++;
		if (i == 1)
			*served = first_run(h, &t, file, measured);
		if (*served && judge_odd(h, &o) && !look_closer(h, &lot, &v, &t, &o))
			progress_begin(h->runs - i);
		else
			progress_step(t.wall);
		run_done(&t);
	}
	progress_end();
}

bool hunt_search(struct hunt *h)
{
	char folder[] = "/tmp/heddle-explore-XXXXXX", file[sizeof(folder) + FILE_NAME];
	bool measured = h->timeout == 0, served = true;

	trial_signals();
	if (!hunt_native(h)) {
		if (trial_interrupted)
			fprintf(stderr, "heddle explore: ended within the native runs\n");
		return false;
	}
	if (h->usual.deed == DID_HANG) {
		fprintf(stderr,
			"heddle explore: natively it does not end within %.0f s: see --timeout\n",
			h->timeout);
		return false;
	}
	tell_begin(h);
	if (!mkdtemp(folder)) {
		fprintf(stderr, "heddle explore: %s: %s\n", folder, strerror(errno));
		return false;
	}
	snprintf(file, sizeof(file), "%s/counters", folder);
	h->setup.looks = looks;
	h->setup.hung = dump;
	search(h, measured, file, &served);
	unlink(file);
	rmdir(folder);
	return served;
}
