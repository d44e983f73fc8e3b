/* glibc's own read and write, in which stdio's make their calls, as points of cancellation. */
#ifndef HEDDLE_POINTS_H
#define HEDDLE_POINTS_H

/* points_lead: from now on they are, if they are as was read in glibc 2.36, or in 2.41 to 2.43.
 * Once in the process's life, on the only thread. */
void points_lead(void);

#endif
