/* glibc's clone3, which makes the kernel thread of a thread, caught: what the thread is to do first
 * is done here and now. */
#ifndef HEDDLE_CLONES_H
#define HEDDLE_CLONES_H

#include <linux/sched.h>
#include <stdbool.h>
#include <stdint.h>

struct clone_taker {
	/* In place of the call, with what it was to begin with. Returns the call's result. */
	long (*take)(struct clone_taker *taker, const struct clone_args *args,
		     void (*start)(void *), void *arg);
};

/* Who takes the one of the calling thread's that makes a thread on that stack, where it begins; it
 * is asked once. Others may come first: of a thread that the program's malloc makes. */
extern __thread struct clone_taker *clone_taker
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
extern __thread uintptr_t clone_stack
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* clones_catch: from now on they can be, if that function is glibc's: another's, which has glibc's
 * called, may have its maker and the new thread wait for each other. If they can already, as in the
 * child of a fork, or if it may not patch code, nothing changes. False: they cannot. Context: the
 * only thread. */
bool clones_catch(const void *create, bool may);

#endif
