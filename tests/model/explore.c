/* All executions of a scenario, one after the other: depth first over the choices of threads
 * and of values, each execution run from the start.
 *
 * Two executions that have come to the same state go on alike, so the second is given up. A
 * state is what every thread has done and read, and the order of each location's stores;
 * nothing else can differ (state_hash, 64 bits of it). With a bound on preemptions it is
 * also who ran last and how often one was departed. Owns the choices; knows nothing of what
 * they mean. Read threads.c for whose choices they are, main.c for what is printed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "explore.h"

enum { CHOICES = 2048, SEGMENTS = 1024, TABLE_FIRST = 1 << 16, TABLE_MOST = 1 << 25 };

uint64_t state_hash;
bool replaying;

static struct {
	uint8_t n, at;
} choices[CHOICES];
static unsigned nchoices, nprefix;

static uint64_t *table; /* open addressing; 0: free */
static size_t tablesize, nstates;

static int bound, departed;
static bool learned;
static uint32_t reached, mustreach;
static struct outcome *outcome;

/* The execution as it went: who made how many steps, and which value the last took. */
static struct segment {
	uint8_t id, steps, value;
} segments[SEGMENTS];
static unsigned nsegments, segment;
static unsigned left; /* of the segment that is replayed */

void model_failed(const char *file, int line, const char *format, ...)
{
	va_list ap;
	int n = snprintf(outcome->why, sizeof(outcome->why), "%s:%d: ", file, line);

	va_start(ap, format);
	vsnprintf(outcome->why + n, sizeof(outcome->why) - (size_t)n, format, ap);
	va_end(ap);
	outcome->failed = true;
	threads_stop();
}

void choices_learn(void)
{
	learned = true;
	threads_stop();
}

void model_must_reach(unsigned n)
{
	mustreach = n < 32 ? (1u << n) - 1 : UINT32_MAX;
}

void model_reach(unsigned which)
{
	reached |= 1u << which;
}

static unsigned choose(unsigned n)
{
	unsigned at = 0;

	if (n == 1)
		return 0;
	if (nchoices == CHOICES)
		model_failed(__FILE__, __LINE__, "the model is too small: choices");
	if (nchoices < nprefix) {
		at = choices[nchoices].at;
		if (choices[nchoices].n != n)
			model_failed(__FILE__, __LINE__, "the scenario is not deterministic");
	} else {
		choices[nchoices].n = (uint8_t)n;
		choices[nchoices].at = 0;
	}
	nchoices++;
	return at;
}

unsigned choose_value(unsigned n)
{
	unsigned i;

	if (replaying) {
		i = left == 0 && segment < nsegments ? segments[segment].value : 0;
		return i < n ? i : 0;
	}
	if (bound >= 0 && departed >= bound)
		return 0;
	i = choose(n);
	departed += i != 0;
	segments[nsegments - 1].value = (uint8_t)i;
	return i;
}

static void next_segment(void)
{
	if (segment < nsegments && ++segment < nsegments)
		left = segments[segment].steps;
}

void choices_step(const struct thread *t)
{
	struct segment *s = &segments[nsegments - 1];

	if (replaying) {
		/* A step that needs no turn may be the first of a segment. */
		if (left == 0)
			next_segment();
		left -= left > 0;
		return;
	}
	if (nsegments > 0 && s->id == t->id && s->value == 0 && s->steps < 255) {
		s->steps++;
		return;
	}
	if (nsegments == SEGMENTS)
		model_failed(__FILE__, __LINE__, "the model is too small: switches");
	segments[nsegments++] = (struct segment){ t->id, 1, 0 };
}

static bool grow(void)
{
	uint64_t *old = table;
	size_t oldsize = tablesize;

	tablesize = oldsize ? 2 * oldsize : TABLE_FIRST;
	if (tablesize > TABLE_MOST)
		return false;
	table = calloc(tablesize, sizeof(*table));
	if (!table)
		return false;
	for (size_t i = 0; i < oldsize; i++) {
		size_t at = old[i] & (tablesize - 1);
		if (old[i] == 0)
			continue;
		while (table[at] != 0)
			at = (at + 1) & (tablesize - 1);
		table[at] = old[i];
	}
	free(old);
	return true;
}

/* True if it was there before. */
static bool known(uint64_t hash)
{
	size_t at;

	if (hash == 0)
		hash = 1;
	if (nstates * 4 >= tablesize * 3 && !grow())
		model_failed(__FILE__, __LINE__, "the model is too small: states");
	for (at = hash & (tablesize - 1); table[at] != 0; at = (at + 1) & (tablesize - 1))
		if (table[at] == hash)
			return true;
	table[at] = hash;
	nstates++;
	return false;
}

static int replay_thread(const struct thread *const *able, unsigned n, const struct thread *from)
{
	int mine = 0;

	if (left == 0)
		next_segment();
	for (unsigned i = 0; i < n; i++) {
		if (segment < nsegments && able[i]->id == segments[segment].id)
			return (int)i;
		if (able[i] == from)
			mine = (int)i;
	}
	if (segment < nsegments)
		model_failed(__FILE__, __LINE__, "the schedule does not fit");
	return mine;
}

int choose_thread(const struct thread *const *able, unsigned n, const struct thread *from)
{
	unsigned mine = n, i;
	uint64_t hash = state_hash;

	if (replaying)
		return replay_thread(able, n, from);
	for (i = 0; i < n; i++)
		if (able[i] == from)
			mine = i;
	if (bound >= 0)
		hash = mix(hash + (uint64_t)departed * THREADS + from->id);
	if (nchoices >= nprefix && known(hash))
		return -1;
	if (bound >= 0 && departed >= bound && mine < n)
		return (int)mine;
	i = choose(n);
	/* The one that runs comes first: so the first executions are the plain ones. */
	if (mine < n)
		i = i == 0 ? mine : i <= mine ? i - 1 : i;
	if (mine < n && i != mine)
		departed++;
	return (int)i;
}

static bool next_execution(void)
{
	while (nchoices > 0 && choices[nchoices - 1].at + 1 == choices[nchoices - 1].n)
		nchoices--;
	if (nchoices == 0)
		return false;
	choices[nchoices - 1].at++;
	nprefix = nchoices;
	return true;
}

static void forget(void)
{
	free(table);
	table = NULL;
	tablesize = nstates = 0;
	nchoices = nprefix = 0;
	reached = mustreach = 0;
}

static void run_once(const struct model_test *test)
{
	state_hash = 0;
	nchoices = 0;
	departed = 0;
	learned = false;
	if (!replaying)
		nsegments = 0;
	race_begin();
	memory_begin();
	sc_begin();
	names_begin();
	threads_run(test->setup);
	outcome->executions++;
}

static void print_schedule(void)
{
	char *to = outcome->schedule, *end = to + sizeof(outcome->schedule);

	*to = 0;
	for (unsigned i = 0; i < nsegments && end - to > 12; i++) {
		to += sprintf(to, "%c%u", 'a' + segments[i].id, segments[i].steps);
		if (segments[i].value)
			to += sprintf(to, "~%u", segments[i].value);
	}
}

static bool parse_schedule(const char *text)
{
	nsegments = 1; /* the first is left at once */
	segments[0] = (struct segment){ 0, 0, 0 };
	while (*text && nsegments < SEGMENTS) {
		unsigned id = (unsigned)(*text - 'a'), value = 0;
		char *end;
		unsigned long steps = strtoul(text + 1, &end, 10);

		if (id >= THREADS || end == text + 1)
			return false;
		if (*end == '~')
			value = (unsigned)strtoul(end + 1, &end, 10);
		segments[nsegments++] = (struct segment){ (uint8_t)id, (uint8_t)steps,
							  (uint8_t)value };
		text = end;
	}
	segment = left = 0;
	return true;
}

/* Of cpu time: the machine may be busy. */
static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void explore_all(const struct model_test *test, int departures, double limit, struct outcome *out)
{
	double start = seconds();
	bool shown = true; /* by the last execution */

	memset(out, 0, sizeof(*out));
	outcome = out;
	bound = departures;
	replaying = false;
	race_begin();
	race_forget();
	forget();
	do {
		run_once(test);
		if (learned)
			forget();
		else if (!out->failed && seconds() - start > limit) {
			out->failed = true;
			shown = false;
			snprintf(out->why, sizeof(out->why), "not done after %.0f s", limit);
		}
	} while (!out->failed && (learned || next_execution()));
	if (!out->failed && (mustreach & ~reached) != 0) {
		out->failed = true;
		shown = false;
		snprintf(out->why, sizeof(out->why), "never reached: %d",
			 __builtin_ctz(mustreach & ~reached));
	}
	out->states = nstates;
	out->seconds = seconds() - start;
	if (out->failed && shown)
		print_schedule();
	forget();
}

bool explore_one(const struct model_test *test, const char *schedule, struct outcome *out)
{
	memset(out, 0, sizeof(*out));
	outcome = out;
	if (!parse_schedule(schedule))
		return false;
	replaying = true;
	race_begin();
	race_forget();
	run_once(test);
	return true;
}
