/* heddle dump: every G, with its stack. Those with the same stack are one entry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "regs.h"
#include "say.h"
#include "scene.h"
#include "unwind.h"
#include "waits.h"

enum { COMMAND = 4096, SLOTS = 4096 };

struct entry {
	struct entry *chain; /* of a slot */
	struct entry *next; /* in the order of their first Gs */
	const char *state;
	uint64_t reason;
	const char *wired; /* for its what; "" for nobody knows, NULL: it is not */
	const char *nostack; /* why there is none */
	struct stack stack;
	const struct g_seen **gs;
	int ngs;
};

struct dump {
	struct view *v;
	struct scene *s;
	struct modules *ms;
	bool all; /* frames of heddle's own, too */
	struct entry *slots[SLOTS];
	struct entry *first, **last;
};

static bool is_ours(const struct dump *d, uint64_t pc)
{
	const struct module *m = module_at(d->ms, pc);

	return m && strcmp(m->name, "libheddle.so") == 0;
}

/* Of heddle's frames at either end only the one next to the program's is left. */
static void trim(const struct dump *d, struct stack *stack)
{
	int top = 0, n = stack->n;

	while (top + 1 < n && is_ours(d, stack->pc[top + 1]))
		top++;
	if (!is_ours(d, stack->pc[0]))
		top = 0;
	while (n - 2 > top && is_ours(d, stack->pc[n - 1]) && is_ours(d, stack->pc[n - 2]))
		n--;
	memmove(stack->pc, stack->pc + top, (size_t)(n - top) * sizeof(*stack->pc));
	stack->n = n - top;
}

static uint64_t hash(const struct entry *e)
{
	uint64_t h = 14695981039346656037u;

	for (int i = 0; i < e->stack.n; i++)
		h = (h ^ e->stack.pc[i]) * 1099511628211u;
	return h ^ h >> 32;
}

static bool same(const struct entry *a, const struct entry *b)
{
	return a->state == b->state && a->reason == b->reason && a->wired == b->wired &&
	       a->nostack == b->nostack && a->stack.n == b->stack.n &&
	       memcmp(a->stack.pc, b->stack.pc, (size_t)a->stack.n * sizeof(*a->stack.pc)) == 0;
}

/* The entry that is as `like`, which is made if there is none. */
static struct entry *entry_of(struct dump *d, const struct entry *like)
{
	struct entry **slot = &d->slots[hash(like) % SLOTS], *e;

	for (e = *slot; e; e = e->chain)
		if (same(e, like))
			return e;
	e = malloc(sizeof(*e));
	if (!e)
		return NULL;
	*e = *like;
	e->chain = *slot;
	*slot = e;
	*d->last = e;
	d->last = &e->next;
	return e;
}

/* One that was off the cpu may have come back to it while it was looked at: then once more. */
static void look_at(struct dump *d, struct g_seen *g, struct entry *like)
{
	enum { TRIES = 10 };

	for (int i = 0; i < TRIES; i++) {
		struct g_seen before;
		struct held held;
		struct regs regs;

		like->stack.n = 0;
		like->nostack = regs_of(d->v, d->s, g, &regs, &held);
		if (!like->nostack)
			unwind(d->ms, &regs, &like->stack);
		regs_done(&held);
		before = *g;
		if (like->nostack || g->m != 0 || !scene_again(d->v, g) ||
		    (g->m == 0 && g->sp == before.sp && g->status == before.status))
			return;
	}
}

static void add_g(struct dump *d, struct g_seen *g)
{
	struct entry like = { .ngs = 0 }, *e;

	look_at(d, g, &like);
	like.state = view_name(d->v, "gstatus", scene_status(d->v, g));
	like.reason = g->waitreason;
	if (g->thread.wired)
		like.wired = view_name(d->v, "wired", g->thread.wired);
	else if (g->lockedm)
		like.wired = "";
	if (!like.nostack && !d->all && like.stack.n > 0)
		trim(d, &like.stack);
	e = entry_of(d, &like);
	if (!e)
		return;
	if ((e->ngs & (e->ngs - 1)) == 0) {
		const struct g_seen **more = realloc(e->gs, (e->ngs ? 2 * (size_t)e->ngs : 1) *
								    sizeof(*more));
		if (!more)
			return;
		e->gs = more;
	}
	e->gs[e->ngs++] = g;
}

/* ---- printing ---- */

static void print_frame(const struct dump *d, uint64_t pc)
{
	struct module *m = module_at(d->ms, pc);
	const char *name = NULL;
	char text[256];
	uint64_t in = 0;

	if (!m) {
		printf("    0x%llx\n", (unsigned long long)pc);
		return;
	}
	name = module_symbol(d->ms, m, pc, &in);
	if (name)
		snprintf(text, sizeof(text), "%s+0x%llx", name, (unsigned long long)in);
	else
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(pc - m->bias));
	say_clean(text);
	printf("    %-44s", text);
	snprintf(text, sizeof(text), "%s", m->name);
	say_clean(text);
	printf(" %s%s%s\n", dim(), text, plain());
}

static void print_age(const struct dump *d, const struct entry *e)
{
	uint64_t least = UINT64_MAX, most = 0;
	char a[SAY_TIME], b[SAY_TIME];

	for (int i = 0; i < e->ngs; i++) {
		uint64_t age = scene_age(d->v, d->s, e->gs[i]);
		if (age < least)
			least = age;
		if (age > most)
			most = age;
	}
	if (most == 0)
		return;
	say_time(a, least);
	say_time(b, most);
	if (strcmp(a, b) == 0)
		printf(" for %s", b);
	else
		printf(" for %s to %s", a, b);
}

static void print_g(const struct dump *d, const struct g_seen *g)
{
	const struct m_seen *m = scene_m(d->s, g->m);
	char name[sizeof(g->name)];

	printf("%sG %llu%s", bold(), (unsigned long long)g->goid, plain());
	memcpy(name, g->name, sizeof(name));
	say_clean(name);
	if (name[0])
		printf(" \"%s\"", name);
	else if (g->thread.main)
		printf(" main");
	if (g->thread.tid)
		printf(" tid %llu", (unsigned long long)g->thread.tid);
	if (m)
		printf(", on kernel thread %llu", (unsigned long long)m->tid);
}

/* "3, 5-9, 12" of those whose wait is that of gs[from]; marks them. */
static void print_ids(const struct dump *d, const struct entry *e, int from, bool brief,
		      const char *wait, char *done)
{
	uint64_t begin = 0, end = 0;
	char other[WAIT_TEXT];
	int n = 0;

	for (int i = from; i <= e->ngs; i++) {
		uint64_t id = i < e->ngs ? e->gs[i]->goid : 0;
		if (i < e->ngs) {
			if (done[i])
				continue;
			wait_text(d->v, d->s, e->gs[i], brief, other);
			if (strcmp(other, wait) != 0)
				continue;
			done[i] = 1;
		}
		if (n > 0 && i < e->ngs && id == end + 1) {
			end = id;
			n++;
			continue;
		}
		if (begin != 0 && begin == end)
			printf("%llu", (unsigned long long)begin);
		else if (begin != 0)
			printf("%llu-%llu", (unsigned long long)begin, (unsigned long long)end);
		if (begin != 0 && i < e->ngs)
			printf(", ");
		begin = end = id;
		n += i < e->ngs;
	}
}

/* More waits than one reads: what they have in common will do. */
static bool many_waits(const struct dump *d, const struct entry *e)
{
	enum { FEW = 6 };
	char waits[FEW][WAIT_TEXT], wait[WAIT_TEXT];
	int n = 0;

	for (int i = 0; i < e->ngs; i++) {
		int at = 0;
		wait_text(d->v, d->s, e->gs[i], false, wait);
		while (at < n && strcmp(waits[at], wait) != 0)
			at++;
		if (at == FEW)
			return true;
		if (at == n)
			memcpy(waits[n++], wait, sizeof(wait));
	}
	return false;
}

/* Each wait once, with who is in it. */
static void print_members(const struct dump *d, const struct entry *e)
{
	char *done = calloc((size_t)e->ngs, 1), wait[WAIT_TEXT];
	bool brief = many_waits(d, e);

	for (int i = 0; done && i < e->ngs; i++) {
		if (done[i])
			continue;
		wait_text(d->v, d->s, e->gs[i], brief, wait);
		printf("  %sG ", bold());
		print_ids(d, e, i, brief, wait, done);
		printf("%s%s%s\n", plain(), wait[0] ? ": " : "", wait);
	}
	free(done);
}

static void print_entry(const struct dump *d, const struct entry *e)
{
	char wait[WAIT_TEXT];

	if (e->ngs == 1) {
		print_g(d, e->gs[0]);
	} else {
		printf("%s%d threads%s", bold(), e->ngs, plain());
	}
	if (e->wired)
		printf(", wired%s%s", e->wired[0] ? " for its " : "", e->wired);
	printf(": %s", e->state);
	print_age(d, e);
	if (e->ngs == 1) {
		wait_text(d->v, d->s, e->gs[0], false, wait);
		printf("%s%s\n", wait[0] ? ": " : "", wait);
	} else {
		printf("\n");
		print_members(d, e);
	}
	if (e->nostack)
		printf("    (no stack: %s)\n", e->nostack);
	for (int i = 0; i < e->stack.n; i++)
		print_frame(d, e->stack.pc[i]);
	if (e->stack.cut)
		printf("    ...\n");
	printf("\n");
}

static void dump_free(struct dump *d)
{
	struct entry *e = d->first;

	while (e) {
		struct entry *next = e->next;
		free(e->gs);
		free(e);
		e = next;
	}
	modules_free(d->ms);
	scene_free(d->s);
	view_close(d->v);
}

static bool dump(struct dump *d, pid_t pid, const char **why)
{
	d->last = &d->first;
	d->v = view_of(pid, why);
	if (!d->v)
		return false;
	*why = "it has ended";
	d->s = scene_read(d->v, true);
	d->ms = d->s ? modules_read(pid, d->v->mem) : NULL;
	if (!d->ms)
		return false;
	for (int i = 0; i < d->s->ngs; i++)
		add_g(d, &d->s->gs[i]);
	return true;
}

enum { ALL };

static const struct option_row options[] = {
	[ALL] = { "all", 'a', NULL, "heddle's own frames, too" },
	{ NULL, 0, NULL, NULL },
};

static int run(const struct command *self, int argc, char **argv)
{
	struct dump d = { .all = false };
	char command[COMMAND];
	struct scan scan;
	const char *why;
	int found, status = FAILED;
	pid_t pid;

	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		d.all = true;
	if (found != SCAN_END)
		return scan_status(found);
	if (!say_pid("dump", scan.noperands, scan.operands, &pid))
		return USAGE;
	if (dump(&d, pid, &why)) {
		say_command(pid, command, sizeof(command));
		printf("%s%d %s%s\n%d threads, %d kernel threads, GOMAXPROCS=%llu\n\n", bold(), pid,
		       command, plain(), d.s->ngs, d.s->nms,
		       (unsigned long long)d.s->sched.gomaxprocs);
		for (const struct entry *e = d.first; e; e = e->next)
			print_entry(&d, e);
		waits_circles(d.v, d.s);
		status = DONE;
	} else {
		fprintf(stderr, "heddle dump: %d: %s\n", pid, why);
	}
	dump_free(&d);
	return status;
}

const struct command command_dump = {
	.name = "dump",
	.operands = "PID",
	.what = "Prints every thread of a process: its state, what it waits for, its stack.",
	.options = options,
	.more = "Threads with the same stack are printed once. The process may be stopped or hung. Of a\n"
		"thread that runs, the kernel's thread is held still for some microseconds. Names of C++ are\n"
		"as the linker has them: heddle dump PID | c++filt.\n",
	.run = run,
};
