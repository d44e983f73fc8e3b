/* The process of image.h: a page, rows for the fields that matter, and a few structs. */
#include "image.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "look.h"
#include "regs.h"
#include "scene.h"
#include "unwind.h"
#include "waits.h"

enum {
	ROWS = 0x2000,
	SCHED = 0x5000,
	GS = 0x5100,
	MS = 0x5500,
	PS = 0x5700,
	ALLP = 0x5900,
	HOSTS = 0x5a00,
	STACK = 0x6000,
	TABLE = 0x7000,
	STEP = 0x80,
};

static uint8_t *at;
static uint32_t nrows;

static void row(const char *of, const char *name, uint32_t where, uint32_t size)
{
	struct view_row *r = (struct view_row *)(at + ROWS) + nrows++;

	snprintf(r->of, sizeof(r->of), "%s", of);
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->at = where;
	r->size = size;
}

static void rows(const char *of, const char *const *names, uint32_t size)
{
	for (uint32_t i = 0; names[i]; i++)
		row(of, names[i], i * 8, 8);
	row(of, "", 0, size);
}

static void put(uint64_t where, uint64_t value)
{
	memcpy(at + where, &value, sizeof(value));
}

static void all_rows(void)
{
#define X(name) #name,
	static const char *const sched[] = { SCHED_FIELDS(X) NULL };
	static const char *const g[] = { G_FIELDS(X) NULL };
	static const char *const m[] = { M_FIELDS(X) NULL };
	static const char *const p[] = { P_FIELDS(X) NULL };
	static const char *const thread[] = { THREAD_FIELDS(X) NULL };
#undef X
	static const char *const registers[] = { "r15", "r14", "r13", "r12",
						 "rbx", "rbp", "rip", NULL };

	rows("sched", sched, STEP);
	rows("g", g, STEP);
	rows("m", m, STEP);
	rows("p", p, STEP);
	rows("thread", thread, STEP);
	rows("context", registers, 56);
	row("thread", "name", 64, 16);
	row("p", "stats", 72, 16);
	row("stats", "switches", 0, 8);
	row("stats", "parks", 8, 8);
	row("mutex", "owner", 8, 4);
	row("gstatus", "waiting", 4, 0);
	row("gstatus", "dead", 6, 0);
	row("waitreason", "futex", 1, 0);
	row("waitreason", "read", 3, 0);
}

/* A field by its place in the lists of scene.h. */
static uint64_t field(uint64_t base, int index)
{
	return base + (uint64_t)index * 8;
}

void image_make(uint8_t *image)
{
	struct view_page page = { .magic = VIEW_MAGIC, .version = VIEW_VERSION };

	at = image;
	nrows = 0;
	memset(image, 0, IMAGE_BYTES);
	all_rows();
	page.size = sizeof(page);
	page.sched = SCHED;
	page.core = (struct view_table){ ROWS, nrows, sizeof(struct view_row) };
	memcpy(image + IMAGE_PAGE, &page, sizeof(page));
	put(field(SCHED, 0), IMAGE_PS);
	put(field(SCHED, 1), ALLP);
	put(field(SCHED, 2), GS);
	put(field(SCHED, 3), MS);
	for (uint64_t i = 0; i < IMAGE_PS; i++) {
		put(ALLP + 8 * i, PS + STEP * i);
		put(PS + STEP * i + 72, 100 + i);
	}
	for (uint64_t i = 0; i < IMAGE_MS; i++) {
		put(field(MS + STEP * i, 0), i);
		put(field(MS + STEP * i, 7), i + 1 < IMAGE_MS ? MS + STEP * (i + 1) : 0);
	}
	for (uint64_t i = 0; i < IMAGE_GS; i++) {
		uint64_t g = GS + STEP * i, host = HOSTS + STEP * i;
		put(field(g, 0), i + 1);
		put(field(g, 1), 4);
		put(field(g, 4), i % 2 ? 1 : 3);
		put(field(g, 6), SCHED - 16);
		put(field(g, 9), STACK + 0x100 * i);
		put(field(g, 13), host);
		put(field(g, 14), i + 1 < IMAGE_GS ? g + STEP : 0);
		put(field(host, 0), 1);
		put(field(host, 3), i + 1000);
		memcpy(image + host + 64, "\033[2Jname", 9);
		put(STACK + 0x100 * i + 48, 0x400);
	}
	/* The mutex that some wait for is the last one's. */
	put(SCHED - 16, 2);
	put(SCHED - 8, IMAGE_GS - 1 + 1000);
}

static void look_at(const struct view *v, struct scene *s, struct g_seen *g)
{
	struct module m = { .lo = 0x100, .hi = IMAGE_BYTES, .segbase = TABLE, .table = TABLE + 12 };
	struct modules ms = { .mem = v->mem, .of = &m, .n = 1 };
	static struct stack stack;
	char text[WAIT_TEXT];
	struct held held;
	struct regs regs;

	mem_read(v->mem, TABLE + 8, &m.ntable, 1);
	wait_text(v, s, g, false, text);
	/* Kernel threads are not made up. */
	g->m = 0;
	if (regs_of(v, s, g, &regs, &held) == NULL)
		unwind(&ms, &regs, &stack);
}

int image_look(const uint8_t *image, size_t n)
{
	int fd = memfd_create("image", MFD_CLOEXEC), seen = -1;
	struct scene *s = NULL;
	struct view *v = NULL;

	if (fd >= 0 && write(fd, image, n) == (ssize_t)n)
		v = view_in(1, mem_of(fd), IMAGE_PAGE);
	if (v)
		s = scene_read(v, true);
	if (s) {
		seen = s->ngs;
		for (int i = 0; i < s->ngs && i < 64; i++)
			look_at(v, s, &s->gs[i]);
		/* What it prints is of no interest. */
		waits_circles(v, s);
	}
	scene_free(s);
	view_close(v);
	return seen;
}
