/* heddle top: a process's scheduler, live. What each G has of the cpu is found by looking at who
 * runs, some twenty times between two pictures: it costs the process nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "frame.h"
#include "say.h"
#include "scene.h"
#include "screen.h"

enum { COMMAND = 4096, LOOK_MS = 50, MAX_RUNNING = 1024, FIRST_MS = 250 };

struct top {
	struct view *v;
	struct scene *before, *now;
	struct picture picture;
	struct share *shares; /* of the next */
	int nshares, looks;
	bool live; /* on a terminal */
	long ms; /* between two pictures */
	long left; /* pictures to draw; 0: no end */
};

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct share *)a)->g, y = ((const struct share *)b)->g;

	return (x > y) - (x < y);
}

/* Adds one look to the shares, which stay in order. */
static void look(struct top *t)
{
	uint64_t running[MAX_RUNNING];
	int n = scene_running(t->v, t->now, running, MAX_RUNNING);

	t->looks++;
	for (int i = 0; i < n; i++) {
		struct share one = { running[i], 1 }, *more, *at = NULL;
		if (t->nshares > 0)
			at = bsearch(&one, t->shares, (size_t)t->nshares, sizeof(one), by_address);
		if (at) {
			at->seen++;
			continue;
		}
		more = realloc(t->shares, ((size_t)t->nshares + 1) * sizeof(*more));
		if (!more)
			return;
		t->shares = more;
		t->shares[t->nshares++] = one;
		qsort(t->shares, (size_t)t->nshares, sizeof(one), by_address);
	}
}

/* What was collected is the picture's; anew. */
static void looked(struct top *t)
{
	free(t->picture.shares);
	t->picture.shares = t->shares;
	t->picture.nshares = t->nshares;
	t->picture.looks = t->looks;
	t->shares = NULL;
	t->nshares = t->looks = 0;
}

static void show(struct top *t)
{
	struct picture *p = &t->picture;
	char *text = NULL;
	size_t n = 0;
	FILE *to = t->before ? open_memstream(&text, &n) : NULL;

	if (!to)
		return;
	p->before = t->before;
	p->now = t->now;
	screen_size(&p->columns, &p->rows);
	frame_draw(to, p);
	fclose(to);
	if (t->live)
		screen_show(text, n);
	else
		fwrite(text, 1, n, stdout);
	free(text);
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Until the next picture is due, or wanted. False: it is to end. */
static bool between(struct top *t)
{
	long due = now_ms() + (t->live && !t->before && t->ms > FIRST_MS ? FIRST_MS : t->ms), left;

	while ((left = due - now_ms()) > 0) {
		long nap = left < LOOK_MS ? left : LOOK_MS;
		int key = 0;

		if (t->live)
			key = screen_key((int)nap);
		else
			usleep((useconds_t)nap * 1000);
		if (key == -1 || key == 'q' || key == 'Q')
			return false;
		if (key == 's') {
			t->picture.sorting = (t->picture.sorting + 1) % SORTINGS;
			show(t);
		}
		look(t);
	}
	return true;
}

/* Returns once it is to end; true if because the process has. */
static bool watch(struct top *t)
{
	for (;;) {
		if (!between(t))
			return false;
		scene_free(t->before);
		t->before = t->now;
		t->now = scene_read(t->v, true);
		if (!t->now)
			return true;
		looked(t);
		show(t);
		if (t->left > 0 && --t->left == 0)
			return false;
	}
}

enum { DELAY, COUNT };

static const struct option_row options[] = {
	[DELAY] = { "delay", 'd', "MS", "between two pictures; 1000 without it" },
	[COUNT] = { "count", 'n', "N", "pictures; on a terminal without end, else one" },
	{ NULL, 0, NULL, NULL },
};

static bool apply(struct top *t, int option, const char *value)
{
	enum { SHORTEST = 50, LONGEST = 3600 * 1000, MOST = 1 << 30 };

	return option == DELAY ? read_number("--delay", value, SHORTEST, LONGEST, &t->ms)
			       : read_number("--count", value, 1, MOST, &t->left);
}

static int run(const struct command *self, int argc, char **argv)
{
	/* Where nobody says how large it is. */
	struct top t = { .ms = 1000, .left = -1, .picture = { .columns = 120, .rows = 60 } };
	char command[COMMAND];
	struct scan scan;
	const char *why = "";
	bool ended = true;
	pid_t pid;
	int found;

	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		if (!apply(&t, found, scan.value))
			return USAGE;
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands == 0)
		pid = the_only("top");
	else if (!say_pid("top", scan.noperands, scan.operands, &pid))
		return USAGE;
	if (pid == 0)
		return FAILED;
	t.v = view_of(pid, &why);
	t.now = t.v ? scene_read(t.v, true) : NULL;
	if (!t.now) {
		fprintf(stderr, "heddle top: %d: %s\n", pid, t.v ? "it has ended" : why);
		view_close(t.v);
		return FAILED;
	}
	say_command(pid, command, sizeof(command));
	t.picture.v = t.v;
	t.picture.command = command;
	t.live = t.picture.keys = screen_open();
	if (t.left < 0)
		t.left = t.live ? 0 : 1;
	ended = watch(&t);
	screen_close();
	if (ended)
		fprintf(stderr, "heddle top: %d has ended\n", pid);
	free(t.picture.shares);
	free(t.shares);
	scene_free(t.before);
	scene_free(t.now);
	view_close(t.v);
	return ended && !t.live ? FAILED : DONE;
}

const struct command command_top = {
	.name = "top",
	.operands = "[PID]",
	.what = "Shows a process's scheduler at work: its Ps, rates, and threads.",
	.options = options,
	.more = "Without PID: the only process there is. Keys: q ends, s sorts otherwise (by cpu, age, state,\n"
		"id). Where standard output is no terminal one picture is printed.\n",
	.run = run,
};
