/* The turns of the Gs, one after the other, at GOMAXPROCS=1: written down (record), or followed
 * (replay). A turn is what one G does from when it is chosen to when it gives up its P; that, and
 * after how many points and in what manner it does, is all that a scheduler decides.
 *
 * How a turn ends is the program's doing (it waits for another, ends, yields), the policy's (it
 * gives way at a point), or the world's (its slice was over; its call lasted; what it reads was not
 * there yet). A replay sees to the second; looks that the first are as they were, or the program
 * departs from the log and is ended; and has the third between the same two points: who need not
 * wait this time gives way at the next one, and who must wait though it did not then has its turn
 * still when it is back.
 *
 * The log is memory: a file's, which the embedder has mapped, so that what is written stays however
 * the process ends. It begins with a struct turnhead, then each turn is two numbers, seven bits a
 * byte, the lowest first: the G; and points << TURN_BITS | enum turnend.
 *
 * All _locked need sched.lock. */
#ifndef HEDDLE_TURNS_H
#define HEDDLE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct g;

enum { TURNS_DEPARTED = 125 }; /* the status of a program that does */

enum turnend {
	TURN_WAITS,
	TURN_ENDS,
	TURN_YIELDS,
	TURN_POINT,
	TURN_CALL, /* its P was taken while it was in a call */
	TURN_CLOCK,
	TURN_LAST, /* of which there is no end in the log */
	TURN_OUTSIDE, /* it waits for what no other G will do, or for a time */
	TURN_BITS = 3,
};

struct turnmark {
	uint64_t used; /* bytes, the head included */
	uint64_t turns;
	uint64_t sum; /* turns_sum() of them */
};

struct turnhead {
	char magic[8];
	uint64_t latest; /* which mark holds: the other is written before it does */
	struct turnmark marks[2];
	uint64_t goid; /* whose turn it is; 0: nobody's */
	uint64_t points; /* that it has passed */
	uint64_t seed;
	char policy[64];
	char program[360]; /* its file */
};

#define TURN_MAGIC "heddle\n1"

/* turns_sum: of n bytes, going on from a sum; 0 at the beginning. */
static inline uint64_t turns_sum(uint64_t sum, const uint8_t *of, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ of[i] ^ 0xcbf29ce484222325u) * 0x100000001b3u;
	return sum;
}

struct turnlog {
	bool replays;
	const char *name; /* of the file */
	uint8_t *at; /* NULL: neither */
	size_t size; /* that may be touched, of a replay: sound, to the latest mark */
	bool (*grow)(struct turnlog *log); /* to make it more; false: there is no more */
};

/* turns_begin: with core_config.turns, before the first G, whose turn it is; NULL: there is none.
 * Sets sched.turned. turns_over: the process ends by itself: a replay looks that it was to.
 * turns_forked: in the child of a fork, which is neither recorded nor replayed. */
void turns_begin(struct turnlog *log);
void turns_over(void);
void turns_forked(void);

/* ---- where all that is decided comes by ---- */

/* turns_point_locked: the running gp is at a point, where the policy has it give way, or not: does
 * it? *again: it must ask once more when it is back, for that point is in its next turn.
 * turns_pointed: afterwards, by gp, on its way into a call. */
bool turns_point_locked(const struct g *gp, bool gives, bool *again);
void turns_pointed(void);

/* turns_left: gp gave up its P so. */
void turns_left(const struct g *gp, enum turnend how);

/* turns_next_locked: the G whose turn is next; 0: anybody's. turns_may_locked: may gp go on with an
 * idle P, chosen by nobody? turns_picked_locked: gp's turn begins. */
uint64_t turns_next_locked(void);
bool turns_may_locked(const struct g *gp);
void turns_picked_locked(const struct g *gp);

/* turns_slice: of gp, ns; 0: the policy's. turns_keeps: is no P to be taken? turns_waits: some are
 * runnable, and none of them is to run. turns_watch: by sysmon: does what is waited for never come?
 */
uint64_t turns_slice(void);
bool turns_keeps(void);
bool turns_waits(void);
void turns_watch(uint64_t now);

#endif
