/* Inside the model checker: what threads.c, memory.c, race.c, explore.c and trace.c know of
 * each other. Scenarios need model.h only; stage.c (the modelled scheduler) needs this. */
#ifndef HEDDLE_MODEL_ENGINE_H
#define HEDDLE_MODEL_ENGINE_H

#include "context.h"
#include "model.h"

struct mutex;

enum {
	MAINS = 5, /* threads of a scenario */
	CHILDREN = 3, /* contexts that one of them may bring up: thread_child */
	THREADS = MAINS * (1 + CHILDREN),
	LOCS = 96, /* atomic words that more than one thread touches */
	LOCMSGS = 64, /* stores to one of them */
	MSGS = 1024, /* stores to all of them */
	SCEVENTS = 128, /* sequentially consistent steps */
	STEPS = 240, /* of one thread; more is "does not end" */
	STACK = 32 * 1024,
	NOBODY = 0xff,
};

/* What a thread knows: of each location the oldest store it may still read, of each thread
 * the steps that happened before, and the sequentially consistent steps among them. */
struct scset {
	uint64_t word[SCEVENTS / 64];
};

struct view {
	uint8_t seen[LOCS];
	uint8_t before[THREADS];
	struct scset sc;
};

enum phase { UNUSED, START, LIVE, DONE };

struct thread {
	const char *name;
	void (*fn)(void *);
	void *arg;
	struct g *g; /* what getg() returns */
	enum phase phase;
	uint8_t id;
	uint8_t clock; /* steps made */
	bool daemon; /* may be left waiting at the end */
	bool waitfree;
	struct gobuf context;

	/* Its next step waits for this; NULL: for nothing. */
	bool (*ready)(const void *);
	const void *readyarg;
	const char *waitsfor;

	struct view view;
	uint8_t causal[THREADS]; /* steps that led to here, whether ordered or not */
	uint64_t hash; /* of all it did and read */
	uint64_t mixed; /* its part of the state's hash */

	/* The last load, for model_relax; and loads of old values in a row, by location. */
	uint8_t lastloc, lastindex;
	uint8_t stale[LOCS], stales[LOCS];
	uint8_t swapped; /* step of the last compare-and-swap that succeeded */

	uintptr_t frame; /* of model_frame, 0: none */

	/* stage.c's: */
	const struct mutex *locks[4]; /* held, oldest first */
	uint8_t held;
	bool readied; /* and then, what it knows from there: */
	struct view readyview;
	uint8_t readycausal[THREADS];
	const void *sleepson;
	uint32_t sleepturn;
	bool patient; /* its sleep has a deadline */
	unsigned parks;
	bool woken;
};

/* ---- threads.c: coroutines and whose turn it is ---- */
extern struct thread threads[THREADS];
extern struct thread *current; /* NULL: setup or the final checks run, alone */

/* thread_child: the n-th context of t's, a thread of a scenario. thread_start: starts it,
 * knowing what `like` knows. */
static inline struct thread *thread_child(const struct thread *t, unsigned n)
{
	return &threads[MAINS + (unsigned)t->id * CHILDREN + n];
}

void thread_start(struct thread *child, const char *name, void (*fn)(void *), void *arg,
		  const struct thread *like);

/* thread_turn: the caller is before a step that others can see; returns when it is its
 * turn. thread_block: the same, for a step that must wait for ready(arg). */
void thread_turn(void);
void thread_block(bool (*ready)(const void *), const void *arg, const char *what);

/* thread_step: counts a step, before it is made. thread_note: x is part of its history. */
void thread_step(struct thread *t);
void thread_note(struct thread *t, uint64_t x);

/* thread_stacked: at is on the stack of one of them. */
bool thread_stacked(const void *at);

/* threads_run: one execution. */
void threads_run(void (*setup)(void));

/* threads_stop: ends the execution under way, from a thread of it. */
void threads_stop(void) __attribute__((noreturn));

/* ---- explore.c: choices ---- */
extern uint64_t state_hash; /* of the execution so far: who did and read what */
extern bool replaying; /* a given schedule, step by step, printing */

/* choose_value: below n, one after the other over the executions. choose_thread: one of n
 * threads, the caller first if it can go on; negative if the state is known already. */
unsigned choose_value(unsigned n);
int choose_thread(const struct thread *const *able, unsigned n, const struct thread *from);

/* choices_step: t makes a step. choices_learn: who touches what was not known before, so
 * the exploration must start again. */
void choices_step(const struct thread *t);
void choices_learn(void) __attribute__((noreturn));

static inline uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* ---- memory.c: atomic words ---- */
void memory_begin(void);
void view_join(struct view *to, const struct view *from);
void clocks_join(uint8_t *to, const uint8_t *from);

/* memory_overwritten: plain code stores to that location. memory_knows_newest: t has seen
 * the newest store there. */
void memory_overwritten(uint8_t loc);
bool memory_knows_newest(const struct thread *t, uint8_t loc);

/* ---- steps.c, for stage.c ----
 * memory_sync: acquires and releases a word of the model's own, once
 * ready(arg), if there is one. memory_take: a lock; memory_give: lets it go. */
void memory_sync(uint32_t *word, bool (*ready)(const void *), const void *arg, const char *what);
void memory_take(uint32_t *key);
void memory_give(uint32_t *key);

/* ---- sc.c: the single order of sequentially consistent steps ---- */
void sc_begin(void);

/* sc_legal: may a step at that place of loc's stores come after `before`? sc_add: it does;
 * it becomes part of *view. */
struct scplaces;
bool sc_legal(const struct scplaces *places, unsigned place, const struct scset *before);
void sc_add(struct scplaces *places, unsigned place, struct view *view);

/* Where the steps of that kind at one location stand: a store of index i at 2i, a load of it
 * at 2i + 1. */
struct scplaces {
	uint8_t n;
	uint8_t event[SCEVENTS / 2];
	uint8_t place[SCEVENTS / 2];
};

/* ---- race.c: plain memory ---- */
struct cell {
	uint32_t epoch; /* execution in which the fields up to reads are valid */
	uint8_t loc; /* of memory.c, or NOBODY */
	uint8_t writer, written; /* the last plain write: thread and its step */
	uint8_t deadof; /* a frame that is gone, of this thread, or NOBODY */
	uint8_t reads[THREADS]; /* step of each thread's last read */
	uint32_t touchers, writers; /* bits of threads; kept over the executions */
};

void race_begin(void);
void race_forget(void);

/* race_cell: the bookkeeping of four bytes; NULL outside the model's memory. */
struct cell *race_cell(const void *at);

/* race_atomic: an atomic access by t. race_save: at is about to be written by a step. */
void race_atomic(struct thread *t, const void *at, unsigned size, bool write);
void race_save(const void *at, unsigned size);

/* ---- trace.c ---- */
void trace_step(const struct thread *t, struct model_site site, const void *at, const char *format,
		...) __attribute__((format(printf, 4, 5)));
const char *trace_where(const void *at);
const char *trace_value(uint64_t value);
void names_begin(void);

#endif
