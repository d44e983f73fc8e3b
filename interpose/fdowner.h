/* Threads that own a descriptor: its signals (SIGIO, SIGURG) are for them alone. */
#ifndef HEDDLE_FDOWNER_H
#define HEDDLE_FDOWNER_H

#include <stdbool.h>

struct thread;

/* owner_set, owner_get: fcntl's F_SETOWN_EX, by self or, before there is a second, the program's
 * only thread (NULL), and F_GETOWN_EX; 0 or -errno. */
long owner_set(struct thread *self, int fd, const void *arg);
long owner_get(int fd, void *arg);

/* owner_here: does the thread to which this kernel thread belongs own one? Context: handlers. */
bool owner_here(void);

#endif
