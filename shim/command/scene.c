/* Reading of scene.h. Lists are followed to their end or for so many steps, whichever is first; one
 * that bites its own tail is noticed. */
#include "scene.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MAX_GS = 1 << 22, /* that ever were */
	MAX_MS = 1 << 16,
	MAX_PS = 1 << 12,
};

#define X(name) #name,
static const struct shape sched_shape = { .of = "sched", .names = { SCHED_FIELDS(X) } };
static const struct shape g_shape = { .of = "g", .names = { G_FIELDS(X) } };
static const struct shape m_shape = { .of = "m", .names = { M_FIELDS(X) } };
static const struct shape p_shape = { .of = "p", .names = { P_FIELDS(X) } };
static const struct shape thread_shape = { .of = "thread", .names = { THREAD_FIELDS(X) } };
#undef X

/* Where a list is remembered, to notice that it comes by again: Brent's way. */
struct walk {
	uint64_t seen;
	uint32_t steps, limit;
};

static bool goes_on(struct walk *w, uint64_t at, uint32_t most)
{
	if (at == 0 || at == w->seen || w->steps >= most)
		return false;
	if (w->steps++ == w->limit) {
		w->seen = at;
		w->limit = w->limit * 2 + 1;
	}
	return true;
}

/* Room for one more of n in an array that doubles. */
static void *room_for(void *array, int n, size_t size)
{
	if (n != 0 && (n & (n - 1)) != 0)
		return array;
	return realloc(array, (n == 0 ? 1 : 2 * (size_t)n) * size);
}

/* And what its host knows of it. A scheduler without hosts has no Gs of its own. */
static bool is_the_programs(const struct view *v, const struct shape *host, struct g_seen *g)
{
	if (host->size == 0)
		return true;
	return g->host != 0 && shape_read(v, host, g->host, &g->thread.named) && !g->thread.own;
}

static bool read_gs(const struct view *v, struct scene *s, bool whole)
{
	struct shape shape = g_shape, host = thread_shape;
	uint64_t dead = view_number(v, "gstatus", "dead", 6);
	uint64_t idle = view_number(v, "gstatus", "idle", 0);
	struct walk walk = { 0, 0, 0 };
	uint64_t at = s->sched.allg;

	shape_find(v, &host);
	if (!shape_find(v, &shape))
		return false;
	while (goes_on(&walk, at, MAX_GS)) {
		struct g_seen g = { 0 };
		uint64_t status;

		if (!shape_read(v, &shape, at, &g.goid))
			return false;
		g.at = at;
		at = g.alllink;
		status = scene_status(v, &g);
		if (status == dead || status == idle || !is_the_programs(v, &host, &g))
			continue;
		if (whole) {
			struct g_seen *more = room_for(s->gs, s->ngs, sizeof(*s->gs));
			if (!more)
				return false;
			s->gs = more;
			if (g.thread.named)
				view_text(v, "thread", "name", g.host, g.name, sizeof(g.name));
			s->gs[s->ngs] = g;
		}
		s->ngs++;
	}
	return true;
}

int scene_running(const struct view *v, const struct scene *s, uint64_t *gs, int room)
{
	const struct view_row *m = view_row(v, "p", "m"), *curg = view_row(v, "m", "curg");
	int n = 0;

	mem_fresh(v->mem);
	for (int i = 0; m && curg && i < s->nps && n < room; i++) {
		uint64_t mp = 0, gp = 0;
		if (mem_read(v->mem, s->ps[i].at + m->at, &mp, sizeof(mp)) && mp != 0 &&
		    mem_read(v->mem, mp + curg->at, &gp, sizeof(gp)) && gp != 0)
			gs[n++] = gp;
	}
	return n;
}

bool scene_again(const struct view *v, struct g_seen *g)
{
	struct shape shape = g_shape;

	mem_fresh(v->mem);
	return shape_find(v, &shape) && shape_read(v, &shape, g->at, &g->goid);
}

static bool read_ms(const struct view *v, struct scene *s)
{
	struct shape shape = m_shape;
	struct walk walk = { 0, 0, 0 };
	uint64_t at = s->sched.allm;

	if (!shape_find(v, &shape))
		return false;
	while (goes_on(&walk, at, MAX_MS)) {
		struct m_seen *more = room_for(s->ms, s->nms, sizeof(*s->ms));
		if (!more)
			return false;
		s->ms = more;
		if (!shape_read(v, &shape, at, &more[s->nms].id))
			return false;
		more[s->nms].at = at;
		at = more[s->nms++].alllink;
	}
	return true;
}

static void add_counters(const struct view *v, struct scene *s, uint64_t at)
{
	int n = 0;

	for (uint32_t i = 0; i < v->nrows && n < MAX_COUNTERS; i++) {
		const struct view_row *row = &v->rows[i];
		uint64_t value = 0;

		if (strcmp(row->of, "stats") != 0 || row->name[0] == 0 || row->size > sizeof(value))
			continue;
		mem_read(v->mem, at + row->at, &value, row->size);
		s->counters[n].name = row->name;
		s->counters[n].text = row->text;
		s->counters[n++].value += value;
	}
	s->ncounters = n;
}

/* Ps above GOMAXPROCS keep what they counted. */
static bool read_ps(const struct view *v, struct scene *s)
{
	const struct view_row *stats = view_row(v, "p", "stats");
	const struct view_row *none = view_row(v, "sched", "nopstats");
	uint64_t most = view_number(v, "procs", "max", 1024);
	struct shape shape = p_shape;

	if (!shape_find(v, &shape))
		return false;
	if (none)
		add_counters(v, s, v->page.sched + none->at);
	for (uint64_t i = 0; i < most && i < MAX_PS; i++) {
		struct p_seen *more;
		uint64_t at;

		if (!mem_read(v->mem, s->sched.allp + i * sizeof(at), &at, sizeof(at)))
			return false;
		if (at == 0)
			break;
		if (stats)
			add_counters(v, s, at + stats->at);
		if (i >= s->sched.gomaxprocs)
			continue;
		more = room_for(s->ps, s->nps, sizeof(*s->ps));
		if (!more)
			return false;
		s->ps = more;
		if (!shape_read(v, &shape, at, &more[s->nps].id))
			return false;
		more[s->nps++].at = at;
	}
	return true;
}

static int by_goid(const void *a, const void *b)
{
	uint64_t x = ((const struct g_seen *)a)->goid, y = ((const struct g_seen *)b)->goid;

	return (x > y) - (x < y);
}

struct scene *scene_read(const struct view *v, bool gs)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct shape shape = sched_shape;
	struct timespec ts;

	if (!s)
		return NULL;
	mem_fresh(v->mem);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	s->now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (!shape_find(v, &shape) || !shape_read(v, &shape, v->page.sched, &s->sched.gomaxprocs) ||
	    !read_ps(v, s) || !read_ms(v, s) || !read_gs(v, s, gs)) {
		scene_free(s);
		return NULL;
	}
	if (gs && s->ngs > 0)
		qsort(s->gs, (size_t)s->ngs, sizeof(*s->gs), by_goid);
	return s;
}

void scene_free(struct scene *s)
{
	if (!s)
		return;
	free(s->gs);
	free(s->ms);
	free(s->ps);
	free(s);
}

uint64_t scene_status(const struct view *v, const struct g_seen *g)
{
	return g->status & ~view_number(v, "gclaim", "", 0);
}

uint64_t scene_age(const struct view *v, const struct scene *s, const struct g_seen *g)
{
	const char *status = view_name(v, "gstatus", scene_status(v, g));
	uint64_t since = 0;

	if (strcmp(status, "waiting") == 0)
		since = g->waitsince;
	/* Sysmon's word of the slice that runs on the P. */
	for (int i = 0; strcmp(status, "running") == 0 && i < s->nps; i++)
		if (g->m != 0 && s->ps[i].m == g->m)
			since = s->ps[i].schedwhen;
	return since != 0 && since < s->now ? s->now - since : 0;
}

const struct g_seen *scene_g(const struct scene *s, uint64_t at)
{
	for (int i = 0; at && i < s->ngs; i++)
		if (s->gs[i].at == at)
			return &s->gs[i];
	return NULL;
}

const struct m_seen *scene_m(const struct scene *s, uint64_t at)
{
	for (int i = 0; at && i < s->nms; i++)
		if (s->ms[i].at == at)
			return &s->ms[i];
	return NULL;
}

const struct g_seen *scene_host(const struct scene *s, uint64_t host)
{
	for (int i = 0; host && i < s->ngs; i++)
		if (s->gs[i].host == host)
			return &s->gs[i];
	return NULL;
}

uint64_t scene_counter(const struct scene *s, const char *name)
{
	for (int i = 0; i < s->ncounters; i++)
		if (strcmp(s->counters[i].name, name) == 0)
			return s->counters[i].value;
	return 0;
}
