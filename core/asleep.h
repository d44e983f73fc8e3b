/* Whether every G waits for another: for the embedder's report of a deadlock. */
#ifndef HEDDLE_ASLEEP_H
#define HEDDLE_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct g;

/* asleep_init: with core_config.asleep, which is asked so often. asleep_every: how often sysmon
 * must come by; 0: it need not. asleep_round: asks. For sysmon. */
enum { ASLEEP_EVERY_NS = 1000 * 1000 * 1000, ASLEEP_SOON_NS = 100 * 1000 * 1000 };
void asleep_init(void (*ask)(void), uint64_t every);
uint64_t asleep_every(void);
void asleep_round(uint64_t now);

/* A G that waits for another, without a deadline. */
struct asleep {
	uint64_t goid;
	uint64_t since; /* nanotime */
	uint64_t wait; /* a number that no other wait of this G has */
	const void *on; /* the futex word */
	uintptr_t context; /* its saved one: ARCH_CONTEXT */
	uintptr_t stackhi; /* 0: not known */
};

enum asleep_state {
	ASLEEP_DEAD, /* there is no such thread */
	ASLEEP_WAITS, /* and the struct is filled in */
	ASLEEP_NOT, /* anything else */
};

/* asleep_look: of one G of geach. Context: core_config.asleep, or a G. */
enum asleep_state asleep_look(const struct g *gp, struct asleep *to);

#endif
