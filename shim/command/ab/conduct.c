/* Warm-ups and rounds. A round runs each arm once, in an order of chance. The warm-ups are not
 * measured: heddle's counters and clocks are on in them, so that they cost the others nothing. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "experiment.h"
#include "progress.h"
#include "say.h"

/* A run may take so many times the longest warm-up of a, and no less than this. */
enum { TIMES_LONGER = 20, AT_LEAST_S = 60, FILE_NAME = 4096 };

static char folder[] = "/tmp/heddle-ab-XXXXXX"; /* of the counters' file */

static void say_unkept(const char *path)
{
	static bool said;

	if (!said) {
		progress_end();
		fprintf(stderr, "heddle ab: %s: %s\n", path, strerror(errno));
	}
	said = true;
}

/* What it wrote, in the folder that was asked for. */
static void keep(const struct experiment *e, const char *name, const char *kind, const char *text,
		 size_t n)
{
	char path[FILE_NAME];
	bool written;
	FILE *f;

	if (!e->keep)
		return;
	snprintf(path, sizeof(path), "%s/%s.%s", e->keep, name, kind);
	f = fopen(path, "we");
	written = f && fwrite(text, 1, n, f) == n;
	if (f)
		written &= fclose(f) == 0;
	if (!written)
		say_unkept(path);
}

/* The first group of the first match, as a number; of the pattern without groups, the match. */
static double matched(const struct experiment *e, const char *out, const char *err)
{
	const char *texts[STREAMS] = { out, err };
	regmatch_t m[2];

	for (int s = 0; s < STREAMS; s++) {
		const char *at;
		char *end;
		double value;
		if (regexec(&e->regex, texts[s], 2, m, 0) != 0)
			continue;
		at = texts[s] + (e->regex.re_nsub > 0 && m[1].rm_so >= 0 ? m[1].rm_so : m[0].rm_so);
		value = strtod(at, &end);
		return end > at && isfinite(value) ? value : NAN;
	}
	return NAN;
}

/* One line of a text: the last, or that which begins so. */
static void pick_line(const char *text, const char *begins, char *to, size_t size)
{
	const char *at = text, *found = NULL;
	size_t most = size < 120 ? size : 120;

	for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (*at != '\n' &&
		    (!begins || (!found && strncmp(at, begins, strlen(begins)) == 0)))
			found = at;
	*to = 0;
	if (found) {
		snprintf(to, most, "%.*s", (int)strcspn(found, "\n"), found);
		say_clean(to);
	}
}

/* The first text of a is what all are compared with; of each arm the first that differs is kept. */
static void compare_answers(struct experiment *e, struct arm *arm, const struct run *r, int stream,
			    int fd, int round)
{
	bool ours = arm == &e->arms[A] || arm == &e->arms[CONTROL];

	if (e->reference[stream] < 0 && ours) {
		e->reference[stream] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		e->first[stream] = r->answer[stream];
	}
	for (int l = 0; round >= 0 && e->reference[stream] >= 0 && l < LIKENESSES; l++) {
		if (arm->odd[stream][l] >= 0 ||
		    e->first[stream].hash[l] == r->answer[stream].hash[l])
			continue;
		arm->odd[stream][l] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		arm->odd_round[stream][l] = round;
	}
}

/* round: from 0; -1: a warm-up. */
static void take(struct experiment *e, struct arm *arm, const struct trial *t, struct run *r,
		 const char *name, int round)
{
	char *text[STREAMS];
	size_t n[STREAMS];

	text[OUT] = trial_text(t->out, &n[OUT]);
	text[ERR] = trial_text(t->err, &n[ERR]);
	r->done = true;
	r->how = t->how;
	r->status = t->status;
	r->good = t->how == ENDED_EXIT && t->status == e->expect;
	r->value[WALL] = t->wall;
	r->value[CPU] = t->cpu;
	r->value[RSS] = t->rss;
	r->value[CTXSW] = t->ctxsw;
	r->value[MATCHED] = e->metric == MATCHED ? matched(e, text[OUT], text[ERR]) : NAN;
	for (int s = 0; s < STREAMS; s++) {
		r->answer[s] = answer_of(text[s], n[s]);
		keep(e, name, s == OUT ? "out" : "err", text[s], n[s]);
		if (r->good)
			compare_answers(e, arm, r, s, s == OUT ? t->out : t->err, round);
	}
	if (!r->good)
		pick_line(text[ERR], NULL, arm->last_words, sizeof(arm->last_words));
	if (!arm->variant.native && !*arm->natively)
		pick_line(text[ERR], "heddle: runs natively", arm->natively, sizeof(arm->natively));
	free(text[OUT]);
	free(text[ERR]);
}

/* Again, if we were stopped meanwhile. False: it is over. */
static bool one(struct experiment *e, struct arm *arm, const char *counters, struct run *r,
		const char *name, int round)
{
	struct trial t;

	do {
		trial_run(&e->setup, &arm->variant, counters, e->timeout, &t);
		if (t.how == ENDED_CUT || t.how == ENDED_NEVER) {
			e->interrupted = true;
		} else if (t.how != ENDED_STOPPED) {
			take(e, arm, &t, r, name, round);
			progress_step(t.wall);
		}
		if (t.out >= 0)
			close(t.out);
		if (t.err >= 0)
			close(t.err);
	} while (t.how == ENDED_STOPPED && !trial_interrupted);
	e->interrupted |= trial_interrupted != 0;
	return !e->interrupted;
}

/* The first of several is for caches to fill. */
static void count(const struct experiment *e, struct arm *arm, const char *file, int warmup)
{
	if (arm->ncounted == COUNTED || (warmup == 0 && e->warmups > 1)) {
		unlink(file);
		return;
	}
	arm->counted[arm->ncounted] = malloc(sizeof(struct counters));
	if (!arm->counted[arm->ncounted])
		abort();
	counters_read(file, arm->counted[arm->ncounted++]);
}

/* Of a once: its control is the same. An arm that fails is given up; where a does, there is
 * nothing to compare with. */
static bool warm_up(struct experiment *e, const char *file)
{
	char name[32];
	double longest = 0;

	for (int w = 0; w < e->warmups; w++) {
		for (int k = 0; k < e->narms; k++) {
			struct arm *arm = &e->arms[k];
			struct run r = { 0 };
			if (k == CONTROL || arm->given_up)
				continue;
			snprintf(name, sizeof(name), "warm-up-%d-%c", w + 1, arm->letter);
			if (!one(e, arm, arm->variant.native ? NULL : file, &r, name, -1))
				return false;
			if (!arm->variant.native)
				count(e, arm, file, w);
			if (!r.good) {
				arm->given_up = true;
				arm->failed = r;
				/* Of its part in the rounds. */
				for (int i = w + 1; i < e->warmups + e->asked; i++)
					progress_step(0);
			}
			if (k == A && !r.good)
				return false;
			longest = k == A && r.value[WALL] > longest ? r.value[WALL] : longest;
			if (k == A && e->timeout == 0)
				e->timeout = fmax(TIMES_LONGER * longest, AT_LEAST_S);
		}
	}
	return true;
}

static void go_round(struct experiment *e, struct chance *chance, int round, int *order)
{
	int arms[ARMS];
	char name[32];

	for (int k = 0; k < e->narms; k++)
		arms[k] = k;
	chance_shuffle(chance, arms, e->narms);
	for (int k = 0; k < e->narms; k++) {
		struct arm *arm = &e->arms[arms[k]];
		struct run *r = &arm->runs[round];
		if (arm->given_up)
			continue;
		snprintf(name, sizeof(name), "round-%d-%c%s", round + 1, arm->letter,
			 arms[k] == CONTROL ? "-control" : "");
		if (!one(e, arm, NULL, r, name, round))
			return;
		r->order = ++*order;
	}
}

static void prepare(struct experiment *e)
{
	for (int k = 0; k < e->narms; k++) {
		struct arm *arm = &e->arms[k];
		arm->runs = calloc((size_t)e->asked, sizeof(*arm->runs));
		if (!arm->runs)
			abort();
		for (int i = 0; i < e->asked * METRICS; i++)
			arm->runs[i / METRICS].value[i % METRICS] = NAN;
		memset(arm->odd, -1, sizeof(arm->odd));
	}
	e->reference[OUT] = e->reference[ERR] = -1;
}

bool conduct(struct experiment *e)
{
	struct chance chance = { e->seed };
	char file[sizeof(folder) + 16];
	int order = 0, bs = e->narms - FIRST_B;
	bool useful;

	prepare(e);
	if (!mkdtemp(folder)) {
		fprintf(stderr, "heddle ab: %s: %s\n", folder, strerror(errno));
		return false;
	}
	snprintf(file, sizeof(file), "%s/counters", folder);
	trial_signals();
	progress_begin((bs + 1) * e->warmups + e->narms * e->asked);
	useful = warm_up(e, file);
	for (int i = 0; useful && i < e->asked && !e->interrupted; i++) {
		e->rounds = i + 1;
		go_round(e, &chance, i, &order);
	}
	progress_end();
	unlink(file);
	rmdir(folder);
	return useful && order > 0;
}
