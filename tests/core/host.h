/* What every test of the running core needs: starting it, waiting for Gs, and code for Gs
 * that uses nothing of libc's. */
#ifndef HEDDLE_TESTS_HOST_H
#define HEDDLE_TESTS_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "../test.h"
#include "atomic.h"
#include "core.h"
#include "futex.h"
#include "sleep.h"

enum { SMALL_STACK = 32 * 1024 };

/* start: the core with so many Ps, debug level 1, the test's seed, preemption on. The caller
 * is a G afterwards. start_with: the same, after fn changed the configuration. */
void start(int procs);
void start_with(int procs, void (*fn)(struct core_config *));

/* true if this build can stop a G by signal */
bool can_preempt(void);

/* A counter that Gs bring down and one waits for. */
struct group {
	ATOMIC(uint32_t) left;
};

void group_done(struct group *grp);
void group_wait(struct group *grp);

/* go: newproc that must succeed. */
struct g *go(void (*fn)(void *), void *arg);

uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
void burn_ns(uint64_t ns);
int kernel_tid(void);
uint32_t random_below(uint64_t *state, uint32_t n);

#endif
