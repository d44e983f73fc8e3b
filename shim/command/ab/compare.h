/* What may be concluded from two variants' measurements, and what may not.
 *
 * A round has a measurement of each variant, taken one after the other in an order of chance: so
 * the ratios within rounds know nothing of a machine that becomes slower by and by. The variant a
 * is measured twice in each round, under two names. Its second is the control: what is found
 * between the two is not there. It is no waste: each b is compared with both.
 *
 * That b differs is said only where three agree: the bootstrap interval of the median ratio, whole
 * rounds resampled, leaves out 1; Mann and Whitney's test, which knows nothing of rounds, gives a p
 * below 0.05, by Holm's method for all b together; and the control shows no difference, or none
 * that comes near. */
#ifndef HEDDLE_AB_COMPARE_H
#define HEDDLE_AB_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "statistics.h"

/* Of fewer numbers than six no interval from the least to the largest holds the median in 95 % of
 * cases. */
enum { ROUNDS_ENOUGH = 6 };
#define COMPARE_LEVEL 0.95

enum finding {
	TOO_FEW, /* rounds */
	NO_RATIO, /* a measurement is 0 or less */
	NOT_SHOWN,
	UNQUIET, /* a difference no larger than that of a from itself */
	LESS, /* b's numbers are lower */
	MORE,
};

struct comparison {
	int rounds; /* that both have */
	double ratio; /* b to a, the median */
	struct interval interval;
	struct ranks ranks; /* of b against a */
	double p; /* by Holm */
	enum finding verdict;
};

/* compare: n rounds of a, of its control and of nbs others; NAN: there is no measurement. of[0]
 * becomes the control against a, of[1 .. nbs] each b. The same seed, the same intervals. */
void compare(const double *a, const double *control, const double *const *bs, int nbs, int n,
	     uint64_t seed, struct comparison *of);

#endif
