/* The limits of core/limits.h for the model: a ring of four has a rim within reach. Included
 * ahead of everything (-include), so that the guard keeps core/limits.h out. */
#ifndef HEDDLE_LIMITS_H
#define HEDDLE_LIMITS_H

enum {
	RUNQ_SIZE = 4,
	GFREE_LOCAL = 4,
};

#endif
