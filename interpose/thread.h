/* What a pthread is here: the record that stands beside a G and a harvested thread. It is
 * made with the thread and stays for as long; a recycled thread keeps its own. */
#ifndef HEDDLE_THREAD_H
#define HEDDLE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include "atomic.h"
#include "core.h"
#include "harvest.h"
#include "mode.h"
#include "netpoll.h"
#include "once.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))

/* GIVES: may be stopped anywhere, as the program's own code: it neither knows an M nor holds what
 * g.held does not tell. For what is done at once, without a way through the core: who does nothing
 * but call such a one is hardly ever found elsewhere, and would keep its P for seconds. */
#define GIVES __attribute__((section("gives")))
/* A second name of what this file defines. */
#define SAME(name, as) extern __typeof__(as) name __attribute__((alias(#as), visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The entry points, with the prototypes of the table. */
#define CALL(type, name, params, args, road) type name params;
#define ALIAS CALL
#define PLAIN CALL
#include "calls.def"
#undef PLAIN
#undef ALIAS
#undef CALL

enum life {
	DETACHED = 1,
	FINISHED = 2, /* nothing of the program's runs on it any more */
	JOINED = 4, /* somebody joins, or has */
};

enum cancelbits {
	CANCELED = 1,
	DISABLED = 2,
	ASYNC = 4,
	EXITING = 8,
};

enum interruptible {
	NO_WAIT,
	WAITS, /* in the core */
	BLOCKS, /* in the kernel, announced */
};

enum wish {
	WISH_POLICY = 1,
	WISH_CPUS = 2,
	WISH_NICE = 4,
};

enum { NAME_LEN = 16, ROBUST_HEAD_BYTES = 24, QUEUED_SIGNALS = 31 };

/* Pending signals (siginfo.c). */
struct pending {
	ATOMIC(uint64_t) set;
	ATOMIC(uint32_t) queued[QUEUED_SIGNALS]; /* of real-time signals, how many */
};

/* VFORKS: in its memory, and so its kernel thread takes no signal meanwhile. */
enum making { MAKES_NONE, FORKS_ONE, VFORKS_ONE };

/* Of more nobody knows when a thread ends within the call. */
enum { STANDINS_USED = 4 };

struct thread {
	struct g *gp;
	ATOMIC(uint32_t) life; /* enum life; a futex word for those who join */
	ATOMIC(uint32_t) cancel; /* enum cancelbits */
	ATOMIC(uint32_t) interruptible; /* in what a cancellation ends: enum interruptible */
	ATOMIC(int32_t) accepts; /* the listener it answers for (accept.c), plus one; or 0 */
	ATOMIC(uintptr_t) waitsat; /* glibc's object at which it waits to be cancelled, or 0 */
	ATOMIC(uint32_t) holds[2]; /* its places among those who hold a descriptor (standin.c), plus
				      one */
	uint32_t points; /* how many calls it made that read, write or wait */
	uint32_t lookpoint; /* that of the last call that found something at once: poll.h */
	ATOMIC(uint32_t) handled; /* handlers that ran; of those, without SA_RESTART */
	ATOMIC(uint32_t) stopped;
	uint32_t slept; /* handled, when it last went to wait */
	ATOMIC(bool) alert; /* about to sleep: a handler ends the wait before it begins */
	ATOMIC(bool) deaf; /* no handler runs on it any more: it ends */
	bool ownfiles; /* its descriptors are its own: none of the poller's */
	bool parent; /* it made a child once */
	ATOMIC(bool) awaits_any; /* in a call that any handler ends: pause, or one with a mask */
	ATOMIC(bool) masked; /* in one with a mask, and no handler has run: the first returns to */
	ATOMIC(bool) connects; /* in a connect that it is to be called out of */
	ATOMIC(bool) becoming; /* it is in exec_begins .. exec_failed */
	/* So far one cache line, for who waits for descriptors. */
	uint64_t unmasked; /* see masked; and when the call is over this is the mask */
	struct pollkeep keep; /* of the call that waits */
	/* Those that it uses, and where its call has their numbers. */
	struct {
		ATOMIC(const int *) at;
		int fd;
	} standins[STANDINS_USED];
	ATOMIC(uint8_t) making; /* a child whose number it does not know yet: enum making */
	ATOMIC(bool) uncancelled; /* in a call that is no point of cancellation, but made of some */
	void *(*fn)(void *);
	void *arg;
	int (*c11fn)(void *); /* of thrd_create, else NULL */
	void *result;
	ATOMIC(struct thread *) joins; /* whom it joins, to find a circle of two */

	struct harvest harvest;
	pid_t tid; /* what gettid says */
	uint32_t forks; /* once_forks, in the process that it is a thread of */
	uint64_t startmask; /* the signal mask of its start */
	bool ownstack; /* the program brought the stack: not for recycling */
	bool stale; /* its thread-local variables are not renewed: to be made anew before it serves
		       again */
	bool reaped; /* of such a one glibc has nothing any more */
	bool destroyed; /* its thread-local objects have been: others are not */
	unsigned long long seen; /* of libraries, when glibc made it (tls_image.h) */
	bool main;
	bool own; /* heddle's, not the program's */
	bool rawrobust; /* its robust list is the program's word to the kernel, not glibc's */
	struct robust_list_head *glibcs_robust; /* once there was another */
	size_t guard, size; /* as asked for */
	bool explicit; /* policy and priority came by attributes */
	char name[NAME_LEN];
	bool named;
	int policy; /* as recorded */
	int priority;
	ATOMIC(uint32_t) wishes; /* enum wish: to be done by the thread itself, as it next runs */
	ATOMIC(uint32_t) settled; /* its first wishes are fulfilled; futex word of its creator */
	bool pinned; /* cpus is set, or is to be */
	cpu_set_t cpus;
	bool nonew; /* gave up new privileges; its kernel thread is told where that matters */
	bool niced; /* nice is set, or is to be */
	int nice;
	uint8_t wired; /* to its kernel thread: enum wirecause */
	bool spoilt; /* that ends with it */
	uint8_t breeds; /* enum breeds: not 0: what it makes is made by its kernel thread */
	bool tied; /* to that one and no other */
	bool owns; /* glibc's tid for it is that one's */
	ATOMIC(int32_t) owner; /* that one's, if it owns a descriptor */
	bool ceilings; /* glibc was told its policy, for mutexes with a ceiling */
	uint8_t yields;
	uint64_t unlike; /* kinds of announced calls (io.h) whose last was not like most */
	stack_t altstack; /* as the program set it */
	struct pending signals; /* pending for it alone */
	struct pending lent; /* and those that were sent to the process and given to it */
	ATOMIC(uint64_t) awaits; /* what it waits for in sigwait and the like */
	ATOMIC(uint64_t) fed; /* of these, which nudges were sent to its kernel thread */
	ATOMIC(uint32_t) feeders; /* who is about to send one */
	ATOMIC(uint64_t) usertime, systime; /* of its cpu time, as was said last */
	struct counts *counts; /* in cpuclock.c; NULL: it was not asked for */
	struct thread *next; /* of a reaping list */
	ATOMIC(uintptr_t) spare; /* in spare.c */
} __attribute__((aligned(64)));

/* thread_self: of the running G; NULL on a kernel thread that is no M, and before the first
 * thread was created. */
static inline struct thread *thread_self(void)
{
	return ghost_self();
}

enum { FIRST_TID = 1 << 22 /* the kernel's own never reach it */ };

/* id_self: the running thread's, for owners of our own locks: no other's as long as it lives. The
 * true tid, of one that is wired, is not: another one's kernel thread may be the first thread's. */
static inline pid_t id_self(void)
{
	pid_t tid = tid_self();

	/* Before there is a second thread the first one's is its own. */
	if (unlikely(tid < FIRST_TID) && !__libc_single_threaded) {
		struct thread *t = thread_self();
		if (t)
			tid = t->tid;
	}
	return tid;
}

/* thread_known: of a thread that the program names, be it one that did not come along in a fork
 * (thread_here): NULL if it is none of ours. thread_of: NULL for those as well: glibc's word for
 * the end of them is set (thread_gone), which in the fork it has set of all whose stacks it made.
 */
struct thread *thread_gone(struct thread *t);
static inline struct thread *thread_known(pthread_t t)
{
	struct g *gp = t ? gof((uintptr_t)t) : NULL;
	return gp ? ghost_of(gp) : NULL;
}

static inline bool thread_here(const struct thread *t)
{
	return t->forks == ld_rlx(&once_forks);
}

static inline bool thread_over(const struct thread *t)
{
	return ld_acq(&t->life) & FINISHED;
}

static inline struct thread *thread_of(pthread_t thread)
{
	struct thread *t = thread_known(thread);
	return t && unlikely(!thread_here(t)) ? thread_gone(t) : t;
}

/* thread_by_tid: of one that gettid named; NULL if it is none of ours, or has ended.
 * thread_numbered: for callers who are no thread, too. In tids.c. */
struct thread *thread_by_tid(pid_t tid);
struct thread *thread_numbered(pid_t tid);

/* thread_number: gives it the tid of another thread than it was. */
void thread_number(struct thread *t);

/* thread_main_init: the record of the program's first thread, which is to become a G.
 * thread_main_started: now it is one. */
void *thread_main_init(void);
void thread_main_started(void);

/* thread_alone: the caller is the only thread that is alive. In thread.c. */
void thread_alone(void);

/* thread_free: takes back a thread that has ended, from whoever joined or detached it. */
void thread_free(struct thread *t);

/* spare_take: NULL: no memory. Its gp may be there already, dead.
 * spare_give: gives back one whose thread was not made, or is no more.
 * spare_forked: in the child of a fork. */
struct thread *spare_take(void);
void spare_give(struct thread *t);
void spare_forked(void);

/* thread_forked: in the child of a fork: the caller is its first thread. */
void thread_forked(void);

/* process_init: when there are to be threads. process_forking: the caller is about to fork.
 * process_forked: it has, in the parent. process_making: the caller, or NULL, is about to make a
 * child, in any way; asks: one that may ask to be traced; process_made: this one, or none if it is
 * negative. process_maker: who made it, if that is known. In process.c. */
void process_init(void);
void process_forking(void);
void process_forked(void);
struct thread *process_making(bool asks);
void process_made(struct thread *t, pid_t child);
struct thread *process_maker(pid_t child);

/* credentials_forked: in the child of a fork. In setxid.c. */
void credentials_forked(void);

/* thread_create_c11: as pthread_create, for a function that returns int. */
int thread_create_c11(pthread_t *out, int (*fn)(void *), void *arg);

/* thread_main_ended: pthread_exit has unwound main. */
void thread_main_ended(void) __attribute__((noreturn));

/* thread_vanish: ends the running thread without a word to the program. */
void thread_vanish(struct thread *t) __attribute__((noreturn));

/* thread_locals_end: the program's destructors of thread-local data. thread_locals_renew: every
 * image of it as for a fresh thread, and what of libc's own a program can see; nothing of the
 * program's runs on it any more. False if that cannot be: the thread serves no other. In tsd.c. */
void thread_locals_end(bool main);
bool thread_locals_renew(struct thread *t);

/* cancel_point: ends the thread if it is cancelled. cancel_begin .. cancel_end: about a wait
 * that a cancellation ends with EINTR; cancel_begin and cancel_end are cancel_points. */
void cancel_point(void);
bool cancel_pending(void);

/* cancel_asked: is t cancelled, and does it hear of that? */
static inline bool cancel_asked(const struct thread *t)
{
	return (ld_rlx(&t->cancel) & (CANCELED | DISABLED | EXITING)) == CANCELED;
}

/* cancel_look: cancel_point for the running thread t. */
static inline void cancel_look(struct thread *t)
{
	if (unlikely(ld_rlx(&t->cancel) & CANCELED))
		cancel_point();
	else
		t->points++;
}

/* cancel_announce: from here on a canceller interrupts the waits of the running thread t; the
 * look whether it is cancelled comes after. cancel_find: asks the loader. cancel_init: before the
 * second thread; takes over what glibc knows of the first, t. cancel_forked: in the child of a
 * fork, where glibc is to know again. */
void cancel_announce(struct thread *t);
void cancel_find(void);
void cancel_init(struct thread *t);
void cancel_forked(const struct thread *t);
void cancel_begin(void);
void cancel_end(void);

/* cancel_blocks .. cancel_unblocks: entersyscall and exitsyscall about a call of the running
 * thread that a cancellation ends; cancel_blocks is a cancel_point. */
void cancel_blocks(struct thread *t);
bool cancel_unblocks(struct thread *t);

/* unwind_load: who ends a thread sees to it that the unwinder is there, as glibc does: it waits for
 * nothing then that the ending thread could not wait for. unwind_find: asks the loader. */
void unwind_load(void);
void unwind_find(void);

/* accept_leaves: the running thread t, if it accepts, does not any more, or not before something
 * else: another is to look. */
void accept_leaves(struct thread *t);

/* connect_due: is the running thread, interrupted at uc, to leave a connect? Then it has. */
bool connect_due(void *uc);

/* waits_anew: as in the kernel, the first handler from here on decides whether the call that the
 * running thread t is in, or begins, is made again; those that follow before it waits once more do
 * not. */
static inline void waits_anew(struct thread *t)
{
	t->slept = ld_rlx(&t->handled);
}

/* alert: until t->alert is false again a handler of the program's leaves word for the next wait of
 * the running thread t. Whether one ran is looked at after. */
static inline void alert(struct thread *t)
{
	waits_anew(t);
	st_rlx(&t->alert, true);
	compiler_barrier();
}

/* cancel_resume: the running thread t goes on with what a handler of the program's interrupted. */
void cancel_resume(struct thread *t, enum interruptible what);

/* cancel_over: the wait ended by itself, and its outcome stands: only an asynchronous
 * cancellation acts. */
void cancel_over(void);

/* wait_enter: entersyscall, before a call of glibc's that waits for another thread: as a rule that
 * one needs a P. */
static inline void wait_enter(void)
{
	core_lend();
	entersyscall();
}

/* cancel_enter .. cancel_leave: wait_enter and exitsyscall, about a call of glibc's that waits at
 * its object `at`, of that size at most SHARED_BYTES, and that a cancellation ends. */
enum { SHARED_BYTES = 48 };
void cancel_enter(const void *at);
void cancel_leave(void);

/* cancel_due: must the running thread end at once, wherever it is? For handlers too.
 * cancel_act: then that; does not return. */
bool cancel_due(const void *uc);
void cancel_act(void);

/* cancel_fresh: the caller begins, perhaps with a record of glibc's whose last thread ended in the
 * midst of what glibc does not let be cancelled. */
void cancel_fresh(void);

/* cancel_library: about to make a call that glibc takes for a point of cancellation, in glibc. */
void cancel_library(void);

/* cancel_pursues: of a thread that was found asleep in the kernel at pc: is it to be called out? */
bool cancel_pursues(const struct g *gp, uintptr_t pc);

/* thread_rows: what is to be seen of it from outside. In view.c. */
const struct view_row *thread_rows(uint32_t *n);

/* thread_called: a tracer_name. In kthread.c. */
bool thread_called(const struct g *gp, char to[TRACE_NAME_LEN]);

/* thread_first: the program's first. */
struct thread *thread_first(void);

/* thread_due: what core_config.sigdue asks for. */
bool thread_due(const void *uc);

/* thread_start_signals: the thread that finds threads for signals. */
void thread_start_signals(void);

/* deadline_of: *d from a point in time as the program gives it. Returns 0 or EINVAL. valid_nsec:
 * has it nanoseconds as it should? */
struct deadline;
struct timespec;
bool valid_nsec(const struct timespec *at);
int deadline_of(struct deadline *d, clockid_t clock, const struct timespec *at);

#endif
