/* Does heddle serve this process, or does the program run natively? Decided once. */
#ifndef HEDDLE_MODE_H
#define HEDDLE_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "early.h"

enum mode {
	UNBOOTED, /* nobody has asked yet: constructors of libraries may come before ours */
	NATIVE, /* every call goes to the real one */
	SERVING,
	POINTS, /* the same, and each call is a point for the policy: core_point */
};

extern uint8_t heddle_mode __attribute__((visibility("hidden")));

/* mode_slow: boots if need be. True if heddle serves. */
bool mode_slow(void);

/* served: the first question of every entry point. */
static inline bool served(void)
{
	return __builtin_expect(heddle_mode == SERVING, 1) || mode_slow();
}

/* released: the last act of a call that may have made another runnable: what the caller does next
 * it does perhaps later. A point, and else nothing. */
static inline void released(void)
{
	if (__builtin_expect(heddle_mode == POINTS, 0))
		mode_slow();
}

/* heddle_start: brings the scheduler up and makes the caller a G; for the first creation of
 * a thread. False if it cannot be had: from then on the program is native, and a line on
 * stderr has said why. */
bool heddle_start(void);

/* heddle_started: true once it is up. */
bool heddle_started(void);

/* heddle_shuts_in: the program, which has one thread, is about to give up its right to files. */
void heddle_shuts_in(void);

/* heddle_ending: the process is about to end, by no way that runs destructors. */
void heddle_ending(void);

/* heddle_forked: in the child of a fork: asleep again, until it creates a thread. */
void heddle_forked(void);

#endif
