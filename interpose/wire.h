/* Threads that are tied to one kernel thread for what the kernel knows of it. */
#ifndef HEDDLE_WIRE_H
#define HEDDLE_WIRE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct m;
struct thread;

/* Why: the first reason stands. */
#define WIRE_CAUSES(X)                                                                             \
	X(POLICY, "policy") /* its policy, priority, niceness or cpus */                           \
	X(STATE, "state") /* its credentials, namespaces, filters and the like */                  \
	X(LOCK, "lock") /* the kernel or another process knows an owner by its tid */              \
	X(TRACER, "tracer") /* it traces, or may make one that is traced */                        \
	X(RING, "ring") /* an io_uring ring is its alone */                                        \
	X(TIMER, "timer") /* a timer's signals are for it alone */                                 \
	X(OWNER, "owner") /* a descriptor's are */

enum wirecause {
	UNWIRED,
#define X(cause, name) WIRED_##cause,
	WIRE_CAUSES(X)
#undef X
		WIRE_CAUSES_END
};

/* thread_wire: the calling thread stays on its kernel thread from here on. thread_wire_sig: the
 * same for wishes_do in a handler. thread_own_tid: and that one's tid is what glibc knows it by,
 * and its robust list the kernel. Not before an object asks for it: the loader's lock, which is
 * held while a library begins, bears the tid that the thread had. thread_unwire: before it ends.
 * thread_spoil: it is about to change its kernel thread in what cannot be taken back, which so is
 * to end with it; the first thread's does not. thread_spoil_sig: after thread_wire_sig.
 * thread_state: thread_spoil for what the kernel hands on to who is made: credentials, namespaces,
 * filters and the like. thread_breeds: makes a kernel thread for one that is to be made, with all
 * that the caller's has; returns as os_failed has it. thread_bred: it is t's;
 * thread_unbred: it is nobody's. thread_tie: stays on this very kernel thread, which the kernel
 * knows it by. */
void thread_wire(struct thread *t, enum wirecause cause);
void thread_wire_sig(struct thread *t, enum wirecause cause);
void thread_spoil(struct thread *t, enum wirecause cause);
void thread_spoil_sig(struct thread *t);
void thread_state(struct thread *t);
struct m *thread_breeds(void);
void thread_bred(struct thread *t, const struct thread *maker, struct m *bred);
void thread_unbred(struct m *bred);
void thread_tie(struct thread *t, enum wirecause cause);
void thread_own_tid(struct thread *t);
void thread_unwire(struct thread *t);

/* wire_count: how often a thread was, by cause; UNWIRED: by any. */
uint64_t wire_count(enum wirecause cause);

/* wire_first: the program's only thread, before there is a second, may own what the kernel knows it
 * by: it is to be wired from the start. wire_first_do: at the start. */
void wire_first(void);
void wire_first_do(struct thread *t);

/* state_call: the system call nr by the function of that name, which answers as syscall() does, if
 * it is one of kstate.c's, or of priorities; else false. */
bool state_call(long nr, const long *a, long *r);

/* What a thread's kernel thread hands on: for good, or a memory policy that it may take back. */
enum breeds { BREEDS = 1, BREEDS_POLICY = 2 };

/* state_changes: the calling thread is about to make the system call nr, one of those by which the
 * kernel means a kernel thread. */
void state_changes(struct thread *t, long nr, const long *a);

/* state_kept: the system call nr is about to be made, by any thread: is it one by which the kernel
 * means a kernel thread, for good, of the cpu's? Then it is that thread's. */
void state_kept(long nr, const long *a);

/* state_sets_filter: does that system call set a filter of system calls? */
bool state_sets_filter(long nr, const long *a);

/* state_settle: what is only in the calling thread's record becomes its kernel thread's, for it
 * makes a process, or becomes another program. */
void state_settle(void);

/* exec_begins .. exec_failed: about a call that makes the process another program, which a signal
 * 32 that is pending then would end; it is announced. NULL: there is nothing to do, and exec_failed
 * takes it so. exec_holds, exec_lets_go: the inner half of the two, about the same call. */
struct thread *exec_begins(void);
void exec_holds(struct thread *t);
void exec_lets_go(struct thread *t);
void exec_failed(struct thread *t);

/* state_filters: the program has set a filter of system calls, before there were threads.
 * state_filtered: so it, or one that it was forked from, did. */
void state_filters(void);
bool state_filtered(void);

/* ---- policy.c ---- */

/* wishes_try: could t be given that policy and that set of cpus? Returns 0 or what pthread_create
 * fails with; then t has these wishes. wishes_do: on t, which runs: fulfils them; uc as of
 * core_config.sigdue. */
int wishes_try(struct thread *t, int policy, int priority, const cpu_set_t *cpus);
void wishes_do(struct thread *t, const void *uc);

/* wishes_first: on t, at its start. wishes_await: until it did that: for its creator, who counts on
 * a thread of higher priority to go before it. policy_init: of the program's first thread. */
void wishes_first(struct thread *t);
void wishes_await(struct thread *t);
void policy_init(struct thread *t);

/* policy_noted: t's policy and priority are changed, as its G is to know. */
void policy_noted(struct thread *t);

/* policy_by_tid: the record that a tid means, NULL if it is none of ours. policy_give_cpus: as
 * pthread_setaffinity_np. */
struct thread *policy_by_tid(pid_t tid);
int policy_give_cpus(struct thread *t, size_t n, const cpu_set_t *set);

/* policy_unpinned: the tid of a kernel thread that has the cpus of who is not pinned; 0: the
 * running one. */
pid_t policy_unpinned(void);

/* policy_call: of syscall()'s, about the caller by whatever tid. False: it is to be made, with what
 * a is then. */
bool policy_call(long nr, long *a, long *r);

/* policy_reset: of that kernel thread (0: this), which is to serve others: as it was before t had
 * wishes. */
void policy_reset(const struct thread *t, pid_t tid);

/* policy_bred: that kernel thread, a copy of t's maker's, becomes as t's wishes have it, with what
 * privileges the maker has. */
void policy_bred(struct thread *t, const struct thread *maker, pid_t tid);

/* The same for niceness: nice.c. nice_do: t, which runs, gets what it wished. nice_noted: it was
 * set there some other way. nice_limit: the RLIMIT_NICE that allows the usual one. */
void nice_init(void);
unsigned long nice_limit(void);
void nice_noted(struct thread *t);
void nice_reset(const struct thread *t, pid_t tid);
void nice_do(const struct thread *t);

/* ---- ceiling.c ---- */

/* ceiling_begins: t, which runs and owns its tid, is about to lock a mutex with a priority ceiling.
 * From then on (t->ceilings) ceiling_policy: sets its policy, from any thread, as
 * pthread_setschedparam; ceiling_param: what sched_getparam says of it, with the ceiling. */
void ceiling_begins(struct thread *t);
int ceiling_policy(struct thread *t, int policy, const struct sched_param *param);
int ceiling_param(const struct thread *t, struct sched_param *param);

#endif
