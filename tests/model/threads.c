/* Model threads: coroutines in one kernel thread, and whose turn it is.
 *
 * A thread runs alone up to its next step that others can see, and there hands over to
 * whoever explore.c chooses; so all that lies between two such steps is one move. Switches
 * contexts by the core's own arch_switch. Knows nothing of memory. Read explore.c next. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"

struct thread threads[THREADS];
struct thread *current;

static char stacks[THREADS][STACK] __attribute__((aligned(64)));
static struct gobuf home;
static jmp_buf alone; /* for failures of the setup and of the final checks */
static void (*finally)(void);
static unsigned nmains;
static bool complete;

bool thread_stacked(const void *at)
{
	return (const char *)at >= stacks[0] && (const char *)at < stacks[0] + sizeof(stacks);
}

static void body(void *arg);

static void begin(struct thread *t, const char *name, void (*fn)(void *), void *arg)
{
	t->name = name;
	t->fn = fn;
	t->arg = arg;
	t->phase = START;
	t->ready = NULL;
	t->lastloc = NOBODY;
	t->frame = 0;
	arch_context_init(&t->context, (uintptr_t)stacks[t->id] + STACK, body, t);
}

void model_thread(const char *name, void (*fn)(void *), void *arg, struct g *gp)
{
	struct thread *t = &threads[nmains];

	if (nmains++ == MAINS)
		model_failed(__FILE__, __LINE__, "the model is too small: threads");
	begin(t, name, fn, arg);
	t->g = gp;
}

void model_finally(void (*fn)(void))
{
	finally = fn;
}

void thread_start(struct thread *child, const char *name, void (*fn)(void *), void *arg,
		  const struct thread *like)
{
	if (child->phase != UNUSED && child->phase != DONE)
		model_failed(__FILE__, __LINE__, "the model is too small: %s is still busy", name);
	begin(child, name, fn, arg);
	if (like) {
		view_join(&child->view, &like->view);
		clocks_join(child->causal, like->causal);
	}
}

void thread_note(struct thread *t, uint64_t x)
{
	t->hash = mix(t->hash * 3 + x + 1);
	state_hash -= t->mixed;
	t->mixed = mix(t->hash + ((uint64_t)t->id << 56));
	state_hash += t->mixed;
}

void thread_step(struct thread *t)
{
	if (t->clock == STEPS)
		model_failed(__FILE__, __LINE__, "%s does not end", t->name);
	t->clock++;
	t->view.before[t->id] = t->causal[t->id] = t->clock;
	choices_step(t);
	thread_note(t, t->clock);
}

void threads_stop(void)
{
	struct gobuf nowhere;

	if (!current)
		longjmp(alone, 1);
	arch_switch(&nowhere, &home);
	__builtin_unreachable();
}

static void stuck(void)
{
	char text[512];
	size_t at = 0;

	text[0] = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		const struct thread *t = &threads[i];
		if (t->phase == LIVE && !t->daemon && at < sizeof(text))
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %s waits for %s",
					       at ? "," : "", t->name, t->waitsfor);
	}
	model_failed(__FILE__, __LINE__, "nobody can go on:%s", text);
}

/* Who makes the next step; NULL: none, this execution is over. */
static struct thread *pick(void)
{
	const struct thread *able[THREADS];
	unsigned n = 0;
	bool waiting = false;
	int i;

	for (i = 0; i < THREADS; i++)
		if (threads[i].phase == START)
			return &threads[i];
	for (i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];
		if (t->phase != LIVE)
			continue;
		if (!t->ready || t->ready(t->readyarg)) {
			able[n++] = t;
			continue;
		}
		waiting |= !t->daemon;
		if (t->waitfree)
			model_failed(__FILE__, __LINE__, "%s has to wait for %s", t->name,
				     t->waitsfor);
	}
	if (n == 0) {
		if (waiting)
			stuck();
		complete = true;
		return NULL;
	}
	i = choose_thread(able, n, current);
	return i < 0 ? NULL : &threads[able[i]->id];
}

static void hand_over(void)
{
	struct thread *from = current, *to = pick();

	if (to == from)
		return;
	current = to;
	arch_switch(&from->context, to ? &to->context : &home);
}

static void body(void *arg)
{
	struct thread *t = arg;

	t->phase = LIVE;
	t->fn(t->arg);
	t->phase = DONE;
	hand_over();
	__builtin_unreachable();
}

void thread_turn(void)
{
	current->ready = NULL;
	hand_over();
}

void thread_block(bool (*ready)(const void *), const void *arg, const char *what)
{
	struct thread *t = current;

	t->ready = ready;
	t->readyarg = arg;
	t->waitsfor = what;
	hand_over();
	t->ready = NULL;
}

void threads_run(void (*setup)(void))
{
	memset(threads, 0, sizeof(threads));
	for (unsigned i = 0; i < THREADS; i++)
		threads[i].id = (uint8_t)i;
	nmains = 0;
	finally = NULL;
	complete = false;
	current = NULL;
	if (setjmp(alone) != 0)
		return;
	setup();
	current = pick();
	arch_switch(&home, &current->context);
	current = NULL;
	if (complete && finally)
		finally();
}

void model_until(bool (*cond)(const void *), const void *arg, const char *what)
{
	struct thread *t = current;

	thread_block(cond, arg, what);
	thread_step(t);
	if (replaying)
		trace_step(t, (struct model_site){ what, "", 0 }, NULL, "has come");
}

unsigned model_choose(unsigned n, const char *what)
{
	struct thread *t = current;
	unsigned i;

	thread_step(t);
	i = choose_value(n);
	thread_note(t, i);
	if (replaying)
		trace_step(t, (struct model_site){ what, "", 0 }, NULL, "is %u", i);
	return i;
}

unsigned model_steps(void)
{
	return current->clock;
}

void model_waitfree(bool on)
{
	current->waitfree = on;
}
