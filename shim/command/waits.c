/* Reasons of waiting: waits.h. */
#include "waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

static bool waits_for(const struct view *v, const struct g_seen *g, const char *reason)
{
	return strcmp(view_name(v, "gstatus", scene_status(v, g)), "waiting") == 0 &&
	       strcmp(view_name(v, "waitreason", g->waitreason), reason) == 0;
}

/* A mutex has its owner's tid beside the word that is waited on, and that word is locked. */
const struct g_seen *wait_owner(const struct view *v, const struct scene *s, const struct g_seen *g)
{
	const struct view_row *row = view_row(v, "mutex", "owner");
	uint32_t word;
	int32_t owner;

	if (!row || !waits_for(v, g, "futex") ||
	    !mem_read(v->mem, g->waiton, &word, sizeof(word)) || word == 0 || word > 3 ||
	    !mem_read(v->mem, g->waiton + row->at, &owner, sizeof(owner)) || owner <= 0)
		return NULL;
	for (int i = 0; i < s->ngs; i++)
		if ((int32_t)s->gs[i].thread.tid == owner)
			return &s->gs[i];
	return NULL;
}

static void futex_text(const struct view *v, const struct scene *s, const struct g_seen *g,
		       bool brief, char *to)
{
	const struct g_seen *other = scene_host(s, g->thread.joins);

	if (other) {
		snprintf(to, WAIT_TEXT, "joins G %llu", (unsigned long long)other->goid);
		return;
	}
	other = wait_owner(v, s, g);
	if (other == g)
		snprintf(to, WAIT_TEXT, "mutex 0x%llx, which it holds itself",
			 (unsigned long long)g->waiton);
	else if (other)
		snprintf(to, WAIT_TEXT, "mutex 0x%llx, held by G %llu",
			 (unsigned long long)g->waiton, (unsigned long long)other->goid);
	else if (brief)
		snprintf(to, WAIT_TEXT, "futexes");
	else
		snprintf(to, WAIT_TEXT, "futex 0x%llx", (unsigned long long)g->waiton);
}

static void fd_text(const struct view *v, const struct g_seen *g, const char *what, bool brief,
		    char *to)
{
	char path[64], file[64];
	ssize_t n;

	if ((int)g->waiton < 0) {
		snprintf(to, WAIT_TEXT, "any of several descriptors");
		return;
	}
	if (brief) {
		snprintf(to, WAIT_TEXT, "%s descriptors", what);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", v->pid, (int)g->waiton);
	n = readlink(path, file, sizeof(file) - 1);
	file[n > 0 ? n : 0] = 0;
	say_clean(file);
	snprintf(to, WAIT_TEXT, "%s fd %d%s%s", what, (int)g->waiton, n > 0 ? " " : "", file);
}

void wait_text(const struct view *v, const struct scene *s, const struct g_seen *g, bool brief,
	       char *to)
{
	char left[SAY_TIME];
	size_t n;

	to[0] = 0;
	if (waits_for(v, g, "futex"))
		futex_text(v, s, g, brief, to);
	else if (waits_for(v, g, "read") || waits_for(v, g, "write"))
		fd_text(v, g, view_name(v, "waitreason", g->waitreason), brief, to);
	else if (waits_for(v, g, "sleep"))
		snprintf(to, WAIT_TEXT, "sleep");
	else if (waits_for(v, g, "park"))
		snprintf(to, WAIT_TEXT, "park");
	else
		return;
	n = strlen(to);
	if (!brief && g->timerheap != 0 && g->timerwhen > s->now)
		snprintf(to + n, WAIT_TEXT - n, ", for %s more",
			 say_time(left, g->timerwhen - s->now));
}

static int index_of(const struct scene *s, const struct g_seen *g)
{
	return (int)(g - s->gs);
}

int waits_circles(const struct view *v, const struct scene *s)
{
	/* Which walk came by each G; a walk that meets its own steps has found a circle. */
	int *by = calloc((size_t)s->ngs + 1, sizeof(*by)), circles = 0;

	for (int i = 0; by && i < s->ngs; i++) {
		const struct g_seen *g = &s->gs[i], *first;
		while (g && by[index_of(s, g)] == 0) {
			by[index_of(s, g)] = i + 1;
			g = wait_owner(v, s, g);
		}
		if (!g || by[index_of(s, g)] != i + 1)
			continue;
		printf("%sDeadlock:%s G %llu", bold(), plain(), (unsigned long long)g->goid);
		first = g;
		do {
			const struct g_seen *next = wait_owner(v, s, g);
			if (!next)
				break;
			printf(" waits for the mutex 0x%llx, held by G %llu%s",
			       (unsigned long long)g->waiton, (unsigned long long)next->goid,
			       next == first ? ".\n" : ", which");
			g = next;
		} while (g != first);
		circles++;
	}
	free(by);
	return circles;
}
