/* Kernel threads: their memory and their clones. */
#ifndef HEDDLE_MTHREAD_H
#define HEDDLE_MTHREAD_H

#include <stdbool.h>
#include <stdint.h>

struct core_config;
struct g;
struct m;

/* malloc_m: a new M, not yet running, perhaps one whose thread has ended; NULL without memory.
 * newosproc: its kernel thread; 0 or -errno. mfree: takes back one whose thread was not started. */
struct m *malloc_m(void);
int newosproc(struct m *mp);
void mfree(struct m *mp);

/* mcreate: newosproc for an M with its nextp and spinning set; it sees to failures itself.
 * Sysmon's are made by the starter, some time later. */
void mcreate(struct m *mp);

/* mhelper: a kernel thread in its own struct m that is no M: fn(its g0), with every signal blocked.
 * It has the caller's table of descriptors. mthread_lets: by such a one, each time round: lets in
 * what none may block since *accepts. */
bool mhelper(void (*fn)(void *g0));
void mthread_lets(uint64_t *accepts);

/* mthread_end: the end of the kernel thread of an M that has ended (mend). Context: on its g0.
 * mthread_ends: can one end? */
bool mthread_ends(void);
void mthread_end(struct m *mp) __attribute__((noreturn));

void mthread_init(const struct core_config *config);
void mthread_forked(void);

/* mthread_watched: said by sysmon once it asks for nothing more than it asks for at any time.
 * mthread_settle: waits for that. */
void mthread_watched(void);
void mthread_settle(void);

/* mthread_accept: sysmon's first act in each round: lets in what core_sigaccept says, of that what
 * it may cause itself. */
void mthread_accept(void);

/* mthread_refusals: SIGSYS, if the program has a handler of it: where that is blocked no call may
 * be made that a filter may refuse. */
uint64_t mthread_refusals(void);

/* mthread_handled: the signals that have a handler of the program's. mthread_letin: sysmon lets in
 * set, and what mthread_accept says. mthread_lingers: does the starter still let in one of set that
 * core_sigaccept took back? */
uint64_t mthread_handled(void);
void mthread_letin(uint64_t set);
bool mthread_lingers(uint64_t set);

/* mthread_clocked: core_config's. */
uint64_t mthread_clocked(uint64_t now, bool idle);

/* madopt: makes the calling kernel thread mp, and what it runs gp. */
void madopt(struct m *mp, struct g *gp);

#endif
