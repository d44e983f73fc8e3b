/* bench: what the plain programs of `make bench` share. They know nothing of heddle: pthreads
 * and libc, no more. tests/bench/run.py runs them natively and preloaded, and compares.
 *
 * A program is a table of rows. `PROGRAM ROW [ARGUMENT...]` measures one in about 0.2 s and
 * prints a line "VALUE UNIT" for each figure of it. A wrong answer is a message on stderr and
 * exit status 1. Next: bench.c. */
#ifndef HEDDLE_BENCH_H
#define HEDDLE_BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct row {
	const char *name;
	/* Does n operations, says in how many ns. Called with ever more, to find how many make a
	 * measurement; the last call counts, those before it warm up. */
	uint64_t (*timed)(uint64_t n);
	uint64_t multiple; /* n is a multiple of it; 0: of 1 */
	/* Or: measures by itself and calls bench_figure. */
	void (*once)(int argc, char **argv);
	bool threaded; /* a thread has come and gone before `timed` is called */
};

/* The program's rows, ended by one without a name. */
extern const struct row bench_rows[];

uint64_t bench_now(void);

/* bench_figure: prints a figure. */
void bench_figure(double value, const char *unit);

/* bench_team: runs fn(i, n) on `threads` threads, which start together.
 * Returns the ns from the first one's start to the last one's end. */
uint64_t bench_team(unsigned threads, void (*fn)(unsigned i, uint64_t n), uint64_t n);

/* bench_spawn: pthread_create, which must succeed. */
void bench_spawn(pthread_t *thread, void *(*fn)(void *), void *arg);

/* bench_same: for bench_spawn; returns what it is given. */
void *bench_same(void *arg);

/* bench_work: a computation of n steps that no compiler shortens. */
uint64_t bench_work(uint64_t n);

/* bench_median: of the n values, which it sorts. */
uint64_t bench_median(uint64_t *v, unsigned n);

/* MUST: what holds if the program was run correctly. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			bench_wrong(__FILE__, __LINE__, #cond);                                    \
	} while (0)
void bench_wrong(const char *file, int line, const char *what) __attribute__((noreturn));

#endif
