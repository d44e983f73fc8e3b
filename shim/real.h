/* The real symbols behind those that heddle puts itself before, from interpose/calls.def.
 * Each is looked up when it is first called, or by real_complete; NULL where this glibc has none.
 */
#ifndef HEDDLE_REAL_H
#define HEDDLE_REAL_H

#include <aio.h>
#include <grp.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct real {
#define ALIAS(...)
#define PLAIN CALL
#define CALL(type, name, params, args, road) type(*name) params;
#include "calls.def"
#undef PLAIN
#undef CALL
#undef ALIAS
	/* Written by hand (variadic, or the first of all). */
	long (*syscall)(long nr, ...);
};

extern struct real real_table __attribute__((visibility("hidden")));

/* real_resolve: fills the table; false if glibc lacks one that cannot be done without. */
bool real_resolve(void);

/* real_complete: what nobody has called yet is looked up now: before anybody takes the address of
 * one, and before there is something else in its place (lookup_replace). Any thread. */
void real_complete(void);

/* real_hidden: of a call that heddle answers itself, instead of passing it on, another object
 * behind heddle has one, too, which would never be called: the name of one such; *file: whose it
 * is. NULL: there is none. To be asked after real_resolve. */
const char *real_hidden(const char **file);

#endif
