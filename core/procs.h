/* How many Ps to start with: $GOMAXPROCS, or what the machine and the cgroup allow, as
 * Go 1.25 decides it. Owns no state and follows no later change of a quota. */
#ifndef HEDDLE_PROCS_H
#define HEDDLE_PROCS_H

#include <stdbool.h>

/* procs_default: the number of Ps. text is the value of $GOMAXPROCS, NULL or "" if it is
 * not set. What is no number from 1 to MAX_PROCS is refused with one line on standard
 * error, and counts as not set.
 * Returns  1 to MAX_PROCS; *complained tells whether the line was written.
 * Context  any kernel thread with a page of stack; memory is mapped and given back.
 * Blocks   the kernel thread, for files of /proc and /sys. */
int procs_default(const char *text, bool *complained);

/* procs_available: the lesser of procs_affinity and procs_quota; a quota counts as two cpus
 * at least, since one P alone can not even notice that it is stuck.
 * root     is put before each path that is read: "", or a test's own tree.
 * Returns  1 to MAX_PROCS. Context and Blocks as above. */
int procs_available(const char *root);

/* procs_affinity: cpus in the calling thread's mask; 1 if the kernel will not say. */
int procs_affinity(void);

/* procs_quota: cpus that the cgroups of this process may use, a part of one counted as one;
 * the least of all its ancestors that can be seen from here, of cgroup v2 and v1.
 * Returns  at least 1; 0 if there is no quota, or none that can be read.
 * root, Context and Blocks as above. */
int procs_quota(const char *root);

#endif
