/* Drawing of frame.h: the process, its rates, its Ps, its Gs. */
#include "frame.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "waits.h"

enum { LINE = 512, MAX_PS_SHOWN = 8, HEADINGS = 6 };

static const char *const sortings[SORTINGS] = { "cpu", "age", "state", "id" };

/* A line, cut to the screen; the sequences about it take no room. */
static void __attribute__((format(printf, 4, 5)))
line(FILE *to, const struct picture *p, const char *style, const char *format, ...)
{
	char text[LINE];
	va_list args;
	int n, most = p->columns < LINE ? p->columns : LINE - 1;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > most)
		n = most;
	/* Not in the midst of a letter. */
	while (n > 0 && n == most && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n > 0 ? n : 0] = 0;
	fprintf(to, "%s%s%s\n", style, text, *style ? plain() : "");
}

static double rate(const struct picture *p, const char *counter)
{
	uint64_t ns = p->now->now - p->before->now;
	uint64_t more = scene_counter(p->now, counter) - scene_counter(p->before, counter);

	return ns == 0 || more > INT64_MAX ? 0 : (double)more * 1e9 / (double)ns;
}

/* Short, whatever its size. */
static const char *short_rate(char *buf, double r)
{
	if (r < 0.05)
		snprintf(buf, SAY_TIME, "0");
	else if (r < 9.95)
		snprintf(buf, SAY_TIME, "%.1f", r);
	else if (r < 99999.5)
		snprintf(buf, SAY_TIME, "%.0f", r);
	else if (r < 99999500)
		snprintf(buf, SAY_TIME, "%.0fk", r / 1e3);
	else
		snprintf(buf, SAY_TIME, "%.0fM", r / 1e6);
	return buf;
}

static void draw_process(FILE *to, const struct picture *p)
{
	static const char *const counters[] = { "switches",  "created",	   "preempts",
						"steals",    "retakecall", "retakeblock",
						"pollready", "timersfired" };
	static const char *const names[] = { "switches", "new",		"preempted", "steals",
					     "retakes",	 "unannounced", "net",	     "timers" };
	char up[SAY_TIME], r[SAY_TIME], text[LINE];
	int n = 0;

	line(to, p, bold(), "heddle top  %d  %s", p->v->pid, p->command);
	line(to, p, "", "up %s   %d threads on %llu kernel threads   GOMAXPROCS=%llu",
	     say_time(up, p->now->now - p->v->page.born), p->now->ngs,
	     (unsigned long long)p->now->sched.mcount,
	     (unsigned long long)p->now->sched.gomaxprocs);
	for (unsigned i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s %s",
			      i ? "  " : "per second: ", short_rate(r, rate(p, counters[i])),
			      names[i]);
	line(to, p, "", "%s", text);
}

static void draw_states(FILE *to, const struct picture *p)
{
	const char *names[16];
	int counts[16], kinds = 0, n = 0;
	char text[LINE] = "";

	for (int i = 0; i < p->now->ngs; i++) {
		const char *name = view_name(p->v, "gstatus", scene_status(p->v, &p->now->gs[i]));
		int at = 0;
		while (at < kinds && strcmp(names[at], name) != 0)
			at++;
		if (at == 16)
			continue;
		if (at == kinds) {
			names[kinds] = name;
			counts[kinds++] = 0;
		}
		counts[at]++;
	}
	for (int i = 0; i < kinds && n < LINE - 64; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%d %s", i ? "   " : "",
			      counts[i], names[i]);
	line(to, p, "", "%s   global queue %llu", text, (unsigned long long)p->now->sched.runqsize);
}

/* The G that runs on a P; NULL: none. */
static const struct g_seen *g_of(const struct picture *p, const struct p_seen *pp)
{
	const struct m_seen *m = scene_m(p->now, pp->m);

	return m ? scene_g(p->now, m->curg) : NULL;
}

static int draw_ps(FILE *to, const struct picture *p, int room)
{
	int shown = p->now->nps < MAX_PS_SHOWN ? p->now->nps : MAX_PS_SHOWN, drawn = 1;

	if (shown > room - 1)
		shown = room > 1 ? room - 1 : 0;
	line(to, p, dim(), "%4s %-9s %6s %7s %9s  %s", "P", "STATE", "QUEUE", "TIMERS", "SLICES/S",
	     "RUNS");
	for (int i = 0; i < shown; i++, drawn++) {
		const struct p_seen *pp = &p->now->ps[i];
		const struct g_seen *g = g_of(p, pp);
		uint64_t ns = p->now->now - p->before->now;
		double slices = 0;
		char r[SAY_TIME], runs[64] = "";

		if (i < p->before->nps && ns > 0)
			slices = (double)(uint32_t)(pp->schedtick - p->before->ps[i].schedtick) *
				 1e9 / (double)ns;
		if (g)
			snprintf(runs, sizeof(runs), "G %llu %s", (unsigned long long)g->goid,
				 g->name);
		say_clean(runs);
		line(to, p, "", "%4llu %-9s %6u %7llu %9s  %s", (unsigned long long)pp->id,
		     view_name(p->v, "pstatus", pp->status),
		     (uint32_t)(pp->runqtail - pp->runqhead) + (pp->runnext != 0),
		     (unsigned long long)pp->timers, short_rate(r, slices), runs);
	}
	if (shown < p->now->nps && drawn < room) {
		line(to, p, dim(), "     and %d more", p->now->nps - shown);
		drawn++;
	}
	return drawn;
}

/* ---- Gs ---- */

struct row {
	const struct g_seen *g;
	int percent;
	uint64_t age;
	const char *state;
};

static const struct picture *sorted_for;

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int by = 0;

	switch (sorted_for->sorting) {
	case BY_CPU:
		by = y->percent - x->percent;
		break;
	case BY_AGE:
		by = (y->age > x->age) - (y->age < x->age);
		break;
	case BY_STATE:
		by = strcmp(x->state, y->state);
		if (by == 0)
			by = (x->g->waitreason > y->g->waitreason) -
			     (x->g->waitreason < y->g->waitreason);
		break;
	case BY_ID:
	case SORTINGS:
		break;
	}
	return by ? by : (x->g->goid > y->g->goid) - (x->g->goid < y->g->goid);
}

static int by_address(const void *key, const void *share)
{
	uint64_t x = *(const uint64_t *)key, y = ((const struct share *)share)->g;

	return (x > y) - (x < y);
}

static struct row row_of(const struct picture *p, const struct g_seen *g)
{
	const struct share *share = bsearch(&g->at, p->shares, (size_t)p->nshares,
					    sizeof(*p->shares), by_address);
	struct row r = { .g = g, .state = view_name(p->v, "gstatus", scene_status(p->v, g)) };

	if (share && p->looks > 0)
		r.percent = 100 * share->seen / p->looks;
	r.age = scene_age(p->v, p->now, g);
	return r;
}

static void draw_gs(FILE *to, const struct picture *p, int room)
{
	struct row *rows = malloc(((size_t)p->now->ngs + 1) * sizeof(*rows));

	line(to, p, dim(), "%8s %-15s %-14s %8s %5s  %s", "G", "NAME", "STATE", "FOR", "CPU%",
	     "WAITS FOR");
	for (int i = 0; rows && i < p->now->ngs; i++)
		rows[i] = row_of(p, &p->now->gs[i]);
	sorted_for = p;
	if (rows)
		qsort(rows, (size_t)p->now->ngs, sizeof(*rows), compare);
	for (int i = 0; rows && i < p->now->ngs && i < room - 1; i++) {
		const struct g_seen *g = rows[i].g;
		char wait[WAIT_TEXT], age[SAY_TIME] = "", name[sizeof(g->name)];
		wait_text(p->v, p->now, g, false, wait);
		if (rows[i].age)
			say_time(age, rows[i].age);
		memcpy(name, g->name[0] || !g->thread.main ? g->name : "main",
		       g->name[0] ? sizeof(name) : 5);
		say_clean(name);
		line(to, p, "", "%8llu %-15s %-14s %8s %5d  %s", (unsigned long long)g->goid, name,
		     rows[i].state, age, rows[i].percent, wait);
	}
	free(rows);
}

void frame_draw(FILE *to, const struct picture *p)
{
	int left = p->rows - HEADINGS - (p->keys ? 1 : 0);

	draw_process(to, p);
	draw_states(to, p);
	line(to, p, "", "%s", "");
	if (left > 2) {
		left -= draw_ps(to, p, left / 2);
		line(to, p, "", "%s", "");
	}
	if (left > 1)
		draw_gs(to, p, left);
	if (p->keys)
		line(to, p, dim(), "q ends   s sorts, now by %s", sortings[p->sorting]);
}
