/* Threads that glibc made, without the kernel threads they were made with: a stack, a
 * thread block and glibc's opinion of both, for a G to run on. Design section 2.
 *
 * A harvested thread is parked in the frame that glibc's start_thread called. What runs on
 * it begins below that frame. To reap it is to let a kernel thread go back to that frame,
 * so that glibc ends the thread its own way. */
#ifndef HEDDLE_HARVEST_H
#define HEDDLE_HARVEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "atomic.h"
#include "context.h"
#include "tls.h"

struct robust_list_head;

struct harvest {
	/* Given to harvest_make: */
	uintptr_t lo;
	size_t size;
	/* The caller is a G: its kernel thread may do what the thread begins with. The list of
	 * robust mutexes which that one has. */
	struct robust_list_head *(*keeps)(void);

	/* Found there: */
	pthread_t thread;
	uintptr_t fsbase;
	uintptr_t base; /* runs begin here, going down */
	pid_t *tidaddr; /* glibc's field: the tid by which it knows the thread */
	int32_t *ended; /* what the kernel clears at its end: that field, or another */
	struct robust_list_head *robust; /* glibc's list of robust mutexes it holds */

	struct gobuf parked;
	struct gobuf *maker; /* who waits until it is; NULL: a kernel thread of its own does it */
};

/* harvest_make: makes one on the stack [lo, lo + size), with that tid for glibc to see.
 * Returns  0, or pthread_create's error. Blocks: the kernel thread, unless glibc's clone was
 * caught, for some microseconds. */
int harvest_make(struct harvest *h, pid_t tid);

/* harvest_adopt: the same facts about the calling thread, which keeps running: it is
 * detached from its kernel thread, but keeps its tid. */
void harvest_adopt(struct harvest *h);

/* harvest_reap: ends one that no G runs on, and frees all that glibc had for it.
 * Returns  false if the kernel has no thread for that. Blocks: as harvest_make. */
bool harvest_reap(struct harvest *h);

/* tid_self: the tid by which glibc knows the calling thread. */
extern ptrdiff_t tid_offset __attribute__((visibility("hidden")));
static inline pid_t tid_self(void)
{
	return (pid_t)arch_tls_word(tid_offset);
}

/* harvest_init: finds tid_offset, calling nothing; false if it cannot. harvest_ask: what the loader
 * knows, once. harvest_start: the rest; may glibc's code be patched? On the only thread. */
bool harvest_init(void);
void harvest_ask(void);
void harvest_start(bool patches);

#endif
