/* glibc's clone3, which makes the kernel thread of a thread, caught: what the thread is to do first
 * is done here and now. */
#ifndef HEDDLE_CLONES_H
#define HEDDLE_CLONES_H

#include <linux/sched.h>
#include <stdbool.h>

struct clone_taker {
	/* In place of the call, with what it was to begin with. Returns the call's result. */
	long (*take)(struct clone_taker *taker, const struct clone_args *args,
		     void (*start)(void *), void *arg);
};

/* Who takes the next one of the calling thread's that makes a thread; it is asked once. */
extern __thread struct clone_taker *clone_taker
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* clones_catch: from now on they can be. False: they cannot. Once in the life of a process and its
 * children. Context: the only thread. */
bool clones_catch(void);

#endif
