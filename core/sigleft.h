/* Signals that a call raises for its caller, and he blocks: for those by whom a G leaves a kernel
 * thread. What core_sigleft is for the embedder: preempt.h. */
#ifndef HEDDLE_SIGLEFT_H
#define HEDDLE_SIGLEFT_H

#include <stdbool.h>
#include <stdint.h>

struct g;
struct m;

/* sigs_left: gp is about to leave mp; sure: the kernel is to be asked in any case. sigs_take: asks
 * it: those of set that gp's calls raised become gp's (NULL: nobody's); mask: what this kernel
 * thread blocks, set among it. Context: any. */
void sigs_left(struct m *mp, struct g *gp, bool sure);
void sigs_take(struct g *gp, uint64_t set, uint64_t mask);

/* ---- mthread.c ---- */

/* failed, left: core_config's failed and sigleft; takes_left: is there the latter? */
bool failed(void);
bool takes_left(void);
void left(struct g *gp, int sig);

#endif
