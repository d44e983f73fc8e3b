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

/* configure: what start would give to core_init. */
void configure(struct core_config *config, int procs);

/* without_sysmon, without_preemption: for start_with. Without sysmon nobody makes up for a
 * wake-up that was forgotten, so a test of one hangs instead of being late; and nobody
 * takes a P away. */
void without_sysmon(struct core_config *config);
void without_preemption(struct core_config *config);

/* true if this build can stop a G by signal, and gives each G an FS base of its own */
bool can_preempt(void);

/* true if this build has DCHECK */
bool has_dcheck(void);

/* expect_broken: fn, in a child process, must end by a CHECK of that row of
 * invariants.def. For the start of a test, while the process has one thread. */
void expect_broken(const char *row, void (*fn)(void));

/* hold, let_go: a lock of the core's, by a G, which cannot be stopped meanwhile. */
struct mutex;
void hold(struct mutex *l);
void let_go(struct mutex *l);

/* skipped: says why a test can not be had in this build; the caller returns. */
void skipped(const char *why);

/* A counter that Gs bring down and one waits for. */
struct group {
	ATOMIC(uint32_t) left;
};

void group_done(struct group *grp);
void group_wait(struct group *grp);

/* A word that Gs raise, and that Gs and kernel threads which are no Ms wait for: until it has
 * come to least; raised_within: for so long at the most, then it says whether it has. */
void raise_by(ATOMIC(uint32_t) *word, uint32_t by);
void wait_raised(ATOMIC(uint32_t) *word, uint32_t least);
bool raised_within(ATOMIC(uint32_t) *word, uint32_t least, uint64_t ns);

/* Until that G sleeps, which only its state tells. */
void until_waiting(struct g *gp);

/* go: newproc that must succeed. */
struct g *go(void (*fn)(void *), void *arg);

uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
void burn_ns(uint64_t ns);

/* compute: n rounds of a loop that has a result, and calls nobody; compute_until: until *stop. */
void compute(uint64_t n);
void compute_until(ATOMIC(uint32_t) *stop);
int kernel_tid(void);
uint32_t random_below(uint64_t *state, uint32_t n);

#endif
