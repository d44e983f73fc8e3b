/* The printed interleaving: what a replay says of each step, and by which names. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"

enum { NAMES = 256, TEXTS = 4 };

static struct {
	uintptr_t at;
	size_t size;
	char text[24];
} names[NAMES];
static unsigned nnames, nlines;

void names_begin(void)
{
	nnames = nlines = 0;
}

void model_name(const void *at, size_t size, const char *format, ...)
{
	va_list ap;

	if (!replaying || nnames == NAMES)
		return;
	names[nnames].at = (uintptr_t)at;
	names[nnames].size = size;
	va_start(ap, format);
	vsnprintf(names[nnames++].text, sizeof(names[0].text), format, ap);
	va_end(ap);
}

/* A few results live at a time. */
static char *text(void)
{
	static char texts[TEXTS][64];
	static unsigned next;

	return texts[next++ % TEXTS];
}

/* The smallest named object around it. */
static const char *named(uintptr_t at)
{
	unsigned best = NAMES;
	char *to = text();

	for (unsigned i = 0; i < nnames; i++)
		if (at - names[i].at < names[i].size &&
		    (best == NAMES || names[i].size < names[best].size))
			best = i;
	if (best == NAMES)
		return NULL;
	if (at == names[best].at)
		return names[best].text;
	snprintf(to, 64, "%s+%zu", names[best].text, (size_t)(at - names[best].at));
	return to;
}

const char *trace_where(const void *at)
{
	const char *name = named((uintptr_t)at);
	char *to = text();

	if (name)
		return name;
	for (unsigned i = 0; thread_stacked(at) && i < THREADS; i++) {
		uintptr_t top = threads[i].frame;
		if (top > (uintptr_t)at && top - (uintptr_t)at < STACK) {
			snprintf(to, 64, "%s's stack-%zu", threads[i].name,
				 (size_t)(top - (uintptr_t)at));
			return to;
		}
	}
	snprintf(to, 64, "%p", at);
	return to;
}

const char *trace_value(uint64_t value)
{
	const char *name = value > 4096 ? named((uintptr_t)value) : NULL;
	char *to = text();

	if (name)
		return name;
	if (value < 1 << 20)
		snprintf(to, 64, "%llu", (unsigned long long)value);
	else
		snprintf(to, 64, "%#llx", (unsigned long long)value);
	return to;
}

void trace_step(const struct thread *t, struct model_site site, const void *at, const char *format,
		...)
{
	va_list ap;
	char place[64] = "";

	if (site.line)
		snprintf(place, sizeof(place), "%s:%d", site.function, site.line);
	printf("  %3u %-10s %-22s %s: ", ++nlines, t->name, place, site.call);
	if (at)
		printf("%s ", trace_where(at));
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
}
