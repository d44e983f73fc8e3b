/* How much the structures hold that a P owns. tests/model/ has a second file of this name,
 * with a ring so small that exploring every interleaving reaches its rim. */
#ifndef HEDDLE_SIZES_H
#define HEDDLE_SIZES_H

enum {
	RUNQ_SIZE = 256, /* a power of two; seed 003 R1 */
	GFREE_LOCAL = 64, /* dead Gs kept by one P before half go to sched */
	GFREE_BINS = 160, /* of their pool */
};

#endif
