/* From the rings to the file: what the writer of a trace does each time round. For it alone. */
#ifndef HEDDLE_DRAIN_H
#define HEDDLE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

/* drain_begin: begins the file fd; what is in the rings is of it only if it is the whole of the
 * process's life. Returns 0 or -errno. drain_round: takes out what is surely in order, or all;
 * returns how many events, or -errno of the file, which is to be ended then. */
int drain_begin(int fd, uint64_t limit, uint64_t zero, bool whole);
long drain_round(bool all);
void drain_end(void);
bool drain_begun(void);
void drain_forked(void);

/* drain_cut: the file has reached its limit, in bytes. It is whole, and is to be ended.
 * drain_hopeless: in the last round by far the most events were lost. */
bool drain_cut(void);
bool drain_hopeless(void);

#endif
