/* The sums of digest.h, in one pass over the lines of a file of any length. */
#include "digest.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "say.h"

enum {
	PROCESS_PS = 1,
	PROCESS_GS = 2,
	MOST_ROWS = 1 << 20,
	FIRST_ROWS = 256,
	MOST_TOP = 100,
	LONGEST = 4096
};

enum state { RUNNING, RUNNABLE, LOCK, SLEEP, IO, BLOCKED, STATES };

static const char *const state_names[STATES] = { "running", "runnable", "lock",
						 "sleep",   "IO",	"blocked" };

/* A G, or a lock: by its number or address. */
struct row {
	uint64_t key; /* 0: free */
	uint64_t ns[STATES];
	uint64_t times, longest; /* of a lock's waits */
	char name[EVENT_TEXT];
};

struct table {
	struct row *rows;
	size_t slots, used;
};

/* A wait for a cpu. */
struct wait {
	uint64_t ns, at, g, by;
};

struct digest {
	struct table gs, locks;
	struct wait waits[MOST_TOP];
	int nwaits, top;
	uint64_t runs, parks, gs_seen, exits, unread, events;
	struct event totals;
	bool ours; /* as its beginning, or what is in it, tells */
	bool summed; /* there are totals */
	bool stopped; /* the file could not grow */
};

/* ---- tables ---- */

static struct row *slot(const struct table *t, uint64_t key)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (t->slots - 1);

	while (t->rows[i].key != key && t->rows[i].key != 0)
		i = (i + 1) & (t->slots - 1);
	return &t->rows[i];
}

static bool grow(struct table *t)
{
	struct table more = { .slots = t->slots ? 2 * t->slots : FIRST_ROWS };

	if (t->used >= MOST_ROWS)
		return false;
	more.rows = calloc(more.slots, sizeof(*more.rows));
	if (!more.rows)
		return false;
	more.used = t->used;
	for (size_t i = 0; i < t->slots; i++)
		if (t->rows[i].key)
			*slot(&more, t->rows[i].key) = t->rows[i];
	free(t->rows);
	*t = more;
	return true;
}

/* NULL: there is no room for more. */
static struct row *row_of(struct table *t, uint64_t key)
{
	struct row *r;

	if (key == 0)
		return NULL;
	if (t->used >= t->slots / 4 * 3 && !grow(t))
		return NULL;
	r = slot(t, key);
	if (r->key == 0) {
		r->key = key;
		t->used++;
	}
	return r;
}

static void add(uint64_t *to, uint64_t ns)
{
	*to = *to + ns < *to ? UINT64_MAX : *to + ns;
}

/* ---- reading ---- */

static enum state state_of(const struct event *e)
{
	if (strcmp(e->name, "running") == 0)
		return RUNNING;
	if (strcmp(e->name, "runnable") == 0)
		return RUNNABLE;
	if (strcmp(e->cat, "wait") != 0)
		return BLOCKED;
	if (strcmp(e->name, "sleep") == 0)
		return SLEEP;
	return strncmp(e->name, "IO", 2) == 0 ? IO : LOCK;
}

/* Keeps the longest, in order. */
static void waited(struct digest *d, const struct event *e)
{
	struct wait w = { e->dur, e->ts, e->tid, e->by };
	int i;

	if (d->nwaits < d->top)
		d->nwaits++;
	else if (d->waits[d->nwaits - 1].ns >= w.ns)
		return;
	for (i = d->nwaits - 1; i > 0 && d->waits[i - 1].ns < w.ns; i--)
		d->waits[i] = d->waits[i - 1];
	d->waits[i] = w;
}

static void slice(struct digest *d, const struct event *e)
{
	struct row *g, *lock;
	enum state s;

	if (e->pid == PROCESS_PS) {
		d->runs += !e->back;
		d->exits += strcmp(e->end, "exit") == 0;
		return;
	}
	s = state_of(e);
	d->parks += strcmp(e->cat, "wait") == 0;
	g = row_of(&d->gs, e->tid);
	if (g)
		add(&g->ns[s], e->dur);
	if (s == RUNNABLE)
		waited(d, e);
	lock = s == LOCK ? row_of(&d->locks, e->on) : NULL;
	if (lock) {
		add(&lock->ns[LOCK], e->dur);
		lock->times++;
		if (e->dur > lock->longest)
			lock->longest = e->dur;
	}
}

static void named(struct digest *d, const struct event *e)
{
	struct row *g = e->pid == PROCESS_GS ? row_of(&d->gs, e->tid) : NULL;

	if (!g)
		return;
	d->gs_seen += g->name[0] == 0;
	strcpy(g->name, e->called);
	say_clean(g->name);
}

static void read_line(struct digest *d, const char *line, size_t n)
{
	struct event e;

	if (n == 0 || line[0] == '[' || line[0] == ']')
		return;
	if (!event_read(line, n, &e)) {
		d->unread++;
		return;
	}
	d->events++;
	if (strcmp(e.ph, "X") == 0 && (e.pid == PROCESS_PS || e.pid == PROCESS_GS)) {
		slice(d, &e);
	} else if (strcmp(e.ph, "M") == 0 && strcmp(e.name, "thread_name") == 0) {
		named(d, &e);
	} else if (strcmp(e.ph, "M") == 0 && strcmp(e.name, "heddle") == 0) {
		d->totals = e;
		d->summed = true;
	} else if (strcmp(e.ph, "M") == 0 && strcmp(e.name, "cut") == 0) {
		d->stopped = true;
	} else if (strcmp(e.ph, "M") == 0 && strcmp(e.name, "process_name") == 0) {
		d->ours |= strcmp(e.called, "Ps: what runs") == 0;
	}
}

/* ---- printing ---- */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_total(FILE *out, const char *what, uint64_t found, uint64_t counted)
{
	char a[SAY_COUNT], b[SAY_COUNT];

	fprintf(out, "  %-10s %12s", what, say_count(a, found));
	if (found != counted)
		fprintf(out, "  the scheduler counted %s", say_count(b, counted));
	fprintf(out, "\n");
}

static void print_totals(FILE *out, const struct digest *d)
{
	const struct event *t = &d->totals;
	/* Of one that was cut they are of later. */
	bool agree = d->summed && !t->cut;
	char n[SAY_COUNT];

	if (!d->summed) {
		fprintf(out, d->stopped
				     ? "The file could grow no further: the trace ends early, and "
				       "has no totals.\n"
				     : "The trace has no end: its totals are missing.\n");
	} else {
		fprintf(out, "Process %llu on %llu Ps, %.3f ms.\n", (unsigned long long)t->args_pid,
			(unsigned long long)t->procs, ms(t->ns));
		if (t->lost)
			fprintf(out, "%s events are missing: more came than could be written.\n",
				say_count(n, t->lost));
		if (t->cut)
			fprintf(out, "It ends there because the file had reached its limit.\n");
	}
	if (d->unread)
		fprintf(out, "%s lines could not be read.\n", say_count(n, d->unread));
	print_total(out, "switches", d->runs, agree ? t->switches : d->runs);
	print_total(out, "waits", d->parks, agree ? t->parks : d->parks);
	/* Of one that began later those that were there before were not counted. */
	print_total(out, "threads", d->gs_seen, agree && t->whole ? t->created : d->gs_seen);
	print_total(out, "ended", d->exits, agree ? t->finished : d->exits);
}

static uint64_t busy(const struct row *r)
{
	return r->ns[RUNNING] + r->ns[RUNNABLE] < r->ns[RUNNING] ? UINT64_MAX
								 : r->ns[RUNNING] + r->ns[RUNNABLE];
}

static int by_busy(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return busy(x) != busy(y) ? (busy(x) < busy(y) ? 1 : -1)
				  : (x->key > y->key) - (x->key < y->key);
}

static int by_lock(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->ns[LOCK] != y->ns[LOCK] ? (x->ns[LOCK] < y->ns[LOCK] ? 1 : -1)
					  : (x->key > y->key) - (x->key < y->key);
}

/* The rows that are used, in order, at the beginning; how many. */
static size_t sorted(struct table *t, int (*order)(const void *, const void *))
{
	size_t n = 0;

	for (size_t i = 0; i < t->slots; i++)
		if (t->rows[i].key)
			t->rows[n++] = t->rows[i];
	if (n > 0)
		qsort(t->rows, n, sizeof(*t->rows), order);
	return n;
}

static void print_gs(FILE *out, struct digest *d)
{
	size_t n = sorted(&d->gs, by_busy);

	fprintf(out,
		"\nTime by state, in ms, of those that ran or waited for a cpu longest:\n  %-24s",
		"");
	for (int s = 0; s < STATES; s++)
		fprintf(out, " %12s", state_names[s]);
	fprintf(out, "\n");
	for (size_t i = 0; i < n && i < (size_t)d->top; i++) {
		const struct row *r = &d->gs.rows[i];
		char name[EVENT_TEXT];
		snprintf(name, sizeof(name), "G %llu", (unsigned long long)r->key);
		fprintf(out, "  %-24s", r->name[0] ? r->name : name);
		for (int s = 0; s < STATES; s++)
			fprintf(out, " %12.3f", ms(r->ns[s]));
		fprintf(out, "\n");
	}
	if (n > (size_t)d->top)
		fprintf(out, "  and %zu more\n", n - (size_t)d->top);
}

static void print_waits(FILE *out, const struct digest *d)
{
	fprintf(out, "\nLongest waits for a cpu, in ms:\n");
	for (int i = 0; i < d->nwaits; i++) {
		const struct wait *w = &d->waits[i];
		fprintf(out, "  %12.3f  G %llu at %.3f", ms(w->ns), (unsigned long long)w->g,
			ms(w->at));
		if (w->by)
			fprintf(out, ", readied by G %llu", (unsigned long long)w->by);
		fprintf(out, "\n");
	}
}

static void print_locks(FILE *out, struct digest *d)
{
	size_t n = sorted(&d->locks, by_lock);

	if (n == 0)
		return;
	fprintf(out,
		"\nLocks and the like, by the time they were waited for, in ms:\n"
		"  %-18s %12s %10s %12s\n",
		"", "together", "waits", "longest");
	for (size_t i = 0; i < n && i < (size_t)d->top; i++) {
		const struct row *r = &d->locks.rows[i];
		fprintf(out, "  0x%-16llx %12.3f %10llu %12.3f\n", (unsigned long long)r->key,
			ms(r->ns[LOCK]), (unsigned long long)r->times, ms(r->longest));
	}
	if (n > (size_t)d->top)
		fprintf(out, "  and %zu more\n", n - (size_t)d->top);
}

bool digest_print(FILE *in, FILE *out, int top)
{
	struct digest d = { .top = top < MOST_TOP ? top : MOST_TOP };
	static char line[LONGEST];

	while (fgets(line, sizeof(line), in)) {
		size_t n = strlen(line);
		bool whole = n > 0 && line[n - 1] == '\n';
		while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == ','))
			n--;
		read_line(&d, line, n);
		/* Of one that is too long the rest is no line. */
		for (int c = 0; !whole && c != '\n' && c != EOF;)
			c = getc(in);
	}
	d.ours |= d.runs + d.parks + d.gs_seen > 0 || d.summed;
	if (d.ours) {
		print_totals(out, &d);
		print_gs(out, &d);
		print_waits(out, &d);
		print_locks(out, &d);
	}
	free(d.gs.rows);
	free(d.locks.rows);
	return d.ours;
}
