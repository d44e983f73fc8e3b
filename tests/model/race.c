/* Plain memory: data races, use of frames that are gone, and putting all back in its place
 * between executions. Owns the shadow of the program's data.
 *
 * What is under test, and the scenarios, are compiled with -fsanitize=thread; the compiler
 * then reports each plain access to the functions below (there is no other runtime). An
 * access must happen after the last write of the same bytes by another thread, and a write
 * also after their reads. Bytes are watched in fours. Read memory.c first. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { SAVES = 8192, GRAIN = 4 };

extern char __data_start[], _end[];

static struct cell *shadow;
static uint32_t epoch;

static struct {
	void *at;
	uint8_t size;
	uint64_t value;
} saves[SAVES];
static unsigned nsaves;

static bool watching(void)
{
	return current != NULL;
}

struct cell *race_cell(const void *at)
{
	uintptr_t a = (uintptr_t)at, lo = (uintptr_t)__data_start;
	struct cell *c;

	if (a < lo || a >= (uintptr_t)_end)
		return NULL;
	c = &shadow[(a - lo) / GRAIN];
	if (c->epoch != epoch) {
		c->epoch = epoch;
		c->loc = c->writer = c->deadof = NOBODY;
		memset(c->reads, 0, sizeof(c->reads));
	}
	return c;
}

/* Newest first, so that each place ends with what it had before the execution. */
void race_begin(void)
{
	if (!shadow) {
		shadow = calloc((size_t)(_end - __data_start) / GRAIN + 1, sizeof(*shadow));
		if (!shadow)
			abort();
	}
	while (nsaves > 0) {
		nsaves--;
		memcpy(saves[nsaves].at, &saves[nsaves].value, saves[nsaves].size);
	}
	epoch++;
}

void race_forget(void)
{
	memset(shadow, 0, ((size_t)(_end - __data_start) / GRAIN + 1) * sizeof(*shadow));
}

void race_save(const void *at, unsigned size)
{
	/* Stacks begin anew anyway. */
	if (thread_stacked(at))
		return;
	for (unsigned done = 0; done < size; done += 8) {
		if (nsaves == SAVES)
			model_failed(__FILE__, __LINE__, "the model is too small: plain writes");
		saves[nsaves].at = (char *)(uintptr_t)at + done;
		saves[nsaves].size = (uint8_t)(size - done < 8 ? size - done : 8);
		memcpy(&saves[nsaves].value, saves[nsaves].at, saves[nsaves].size);
		nsaves++;
	}
}

static void check_alive(const struct thread *t, const struct cell *c, const void *at)
{
	if (c->deadof != NOBODY && c->deadof != t->id)
		model_failed(__FILE__, __LINE__, "%s touches %s in a frame of %s's that is gone",
			     t->name, trace_where(at), threads[c->deadof].name);
}

static void check_after(const struct thread *t, unsigned other, uint8_t step, const void *at,
			const char *what, const char *how)
{
	if (other != t->id && step > t->view.before[other])
		model_failed(__FILE__, __LINE__,
			     "data race: %s %s %s, which %s %s (its step %u) with no order between",
			     t->name, what, trace_where(at), threads[other].name, how, step);
}

static void plain(const void *at, size_t size, bool write)
{
	struct thread *t = current;
	uint8_t step = (uint8_t)(t->clock + 1); /* belongs to the step that follows */
	const char *what = write ? "writes" : "reads";

	for (uintptr_t a = (uintptr_t)at & ~(uintptr_t)(GRAIN - 1); a < (uintptr_t)at + size;
	     a += GRAIN) {
		struct cell *c = race_cell((const void *)a);
		if (!c)
			return;
		check_alive(t, c, at);
		if (c->writer != NOBODY)
			check_after(t, c->writer, c->written, at, what, "wrote");
		if (c->loc != NOBODY && !memory_knows_newest(t, c->loc))
			model_failed(__FILE__, __LINE__, "data race: %s %s %s plainly", t->name,
				     what, trace_where(at));
		if (!write) {
			c->reads[t->id] = step;
			continue;
		}
		for (unsigned r = 0; r < THREADS; r++)
			if (c->reads[r] != 0)
				check_after(t, r, c->reads[r], at, what, "read");
		memset(c->reads, 0, sizeof(c->reads));
		c->writer = t->id;
		c->written = step;
		c->deadof = NOBODY;
		if (c->loc != NOBODY)
			memory_overwritten(c->loc);
	}
	if (write)
		race_save(at, (unsigned)size);
}

void race_atomic(struct thread *t, const void *at, unsigned size, bool write)
{
	for (unsigned done = 0; done < size; done += GRAIN) {
		struct cell *c = race_cell((const char *)at + done);
		if (!c)
			return;
		check_alive(t, c, at);
		if (c->writer != NOBODY)
			check_after(t, c->writer, c->written, at, write ? "changes" : "loads",
				    "wrote plainly");
		c->reads[t->id] = t->clock;
	}
}

/* The part of a stack that is looked at. */
enum { FRAMES = 2048 };

static void frames_are(const struct thread *t, uint8_t deadof)
{
	for (uintptr_t a = t->frame - FRAMES; a < t->frame; a += GRAIN) {
		struct cell *c = race_cell((const void *)a);
		for (unsigned r = 0; deadof != NOBODY && r < THREADS; r++)
			if (c->reads[r] != 0)
				check_after(t, r, c->reads[r], (const void *)a, "leaves", "reads");
		if (deadof != NOBODY && c->writer != NOBODY)
			check_after(t, c->writer, c->written, (const void *)a, "leaves", "writes");
		c->loc = c->writer = NOBODY;
		c->deadof = deadof;
		memset(c->reads, 0, sizeof(c->reads));
	}
}

__attribute__((noinline)) void model_frame(void)
{
	current->frame = ((uintptr_t)__builtin_frame_address(0) + 16) & ~(uintptr_t)15;
	frames_are(current, NOBODY);
}

void model_frame_over(void)
{
	frames_are(current, current->id);
}

/* What the compiler calls. The names are its own. */
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(void *at, size_t size);
void __tsan_write_range(void *at, size_t size);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *at, size_t size)
{
	if (watching())
		plain(at, size, false);
}

void __tsan_write_range(void *at, size_t size)
{
	if (watching())
		plain(at, size, true);
}

#define ACCESS(name, size, write)                                                                  \
	void __tsan_##name(void *at);                                                              \
	void __tsan_##name(void *at)                                                               \
	{                                                                                          \
		if (watching())                                                                    \
			plain(at, size, write);                                                    \
	}

ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)
