/* The limits of core/sizes.h for the model: a ring of four has a rim within reach. Included
 * ahead of everything (-include), so that the guard keeps core/sizes.h out. */
#ifndef HEDDLE_SIZES_H
#define HEDDLE_SIZES_H

enum {
	RUNQ_SIZE = 4,
	GFREE_LOCAL = 4,
	GFREE_BINS = 4,
};

#endif
