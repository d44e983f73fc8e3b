/* The real symbols behind those that heddle puts itself before, from interpose/calls.def.
 * They are looked up once; NULL where this glibc has none. */
#ifndef HEDDLE_REAL_H
#define HEDDLE_REAL_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

struct real {
#define ALIAS(...)
#define CALL(type, name, params, args, road) type(*name) params;
#include "calls.def"
#undef CALL
#undef ALIAS
	/* Written by hand (variadic, or the first of all). */
	long (*syscall)(long nr, ...);
};

extern struct real real_table __attribute__((visibility("hidden")));

/* real_resolve: fills the table; false if glibc lacks one that cannot be done without. */
bool real_resolve(void);

#endif
