/* The ways of a signal to a thread. The set of those pending for one thread alone is its
 * record's; a signal for the process is lent to a thread that does not block it. */
#ifndef HEDDLE_SIGNALS_H
#define HEDDLE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct pending;
struct thread;

enum {
	SIGNALS = 65,
	/* the kernel's */
	SIGSET_BYTES = 8,
	SIGINFO_BYTES = 48, /* the rest is empty */
};

/* The first of those of which as many are pending as were sent. */
enum { FIRST_QUEUED = 34 };

static inline uint64_t signal_bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

/* SIGKILL, SIGSTOP, and the two that glibc keeps for itself. */
#define UNBLOCKABLE (signal_bit(9) | signal_bit(19) | signal_bit(32) | signal_bit(33))

static const uint64_t signals_ignored_by_default = (uint64_t)1 << (SIGCHLD - 1) |
						   (uint64_t)1 << (SIGCONT - 1) |
						   (uint64_t)1 << (SIGURG - 1) |
						   (uint64_t)1 << (SIGWINCH - 1);

/* Those that a thread brings upon itself, and would again. */
#define SIGNALS_OF_FAULTS                                                                          \
	(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) | signal_bit(SIGFPE) |      \
	 signal_bit(SIGTRAP) | signal_bit(SIGSYS))

/* signal_tid: as tgkill, if tid is a thread's of ours; else false. signal_tid_info: as the kernel's
 * rt_tgsigqueueinfo. In tids.c. */
bool signal_tid(pid_t tid, int sig, long *r);
bool signal_tid_info(pid_t tid, int sig, const siginfo_t *info, long *r);

/* timer_taken: the program is about to hear of that signal: of what timer_getoverrun tells, if it
 * is a timer's; *info is made complete. For handlers too. In timer.c. */
void timer_taken(siginfo_t *info);

/* on_altstack: does t, which is the caller, run on the alternate stack that it has set? */
bool on_altstack(const struct thread *t);

/* altstack_begin: a handler of t's, which is the caller, begins: what its frame says of the
 * alternate stack. altstack_end: it has ended, and the frame says that. */
stack_t altstack_begin(struct thread *t);
void altstack_end(struct thread *t, const stack_t *was);

/* ---- sigcalls.c ---- */

/* signals_mask: pthread_sigmask of the running thread. signals_return: it has that mask from here
 * on. signal_self: sends it sig, on the kernel
 * thread that it runs on, and on no other that it may come to in between; 0 or -errno. */
int signals_mask(int how, const sigset_t *set, sigset_t *old);
void signals_return(uint64_t mask);
long signal_self(int sig);

/* signals_timedwait: sigtimedwait as the kernel has it, for the running thread.
 * sigwait_over: the running thread waits no more for what it awaited: no nudge for that stays
 * behind on its kernel thread. */
int signals_timedwait(const sigset_t *set, siginfo_t *info, const struct timespec *time);
void sigwait_over(struct thread *t);

/* signals_feed: what is pending for the running thread, and it blocks, the kernel is told of, too,
 * for the program that it is about to become. signals_unfeed: not any more. In an announced call.
 */
void signals_feed(struct thread *t);
void signals_unfeed(struct thread *t);

/* ---- sigown.c ---- */

/* signal_queue_raw: rt_sigqueueinfo, as syscall() answers. */
int signal_queue_raw(pid_t pid, int sig, const void *from);

/* pidfd_send_signal: younger than some headers and C libraries. */
int pidfd_send_signal(int fd, int sig, siginfo_t *from, unsigned flags);

/* ---- sigpend.c: pending for a thread ---- */

/* signal_thread: makes sig, which comes with info, pending for t and sees that t takes it if it
 * does not block it; 0, or -EAGAIN: of those that are queued there are too many. signal_push: the
 * latter alone. Context: any but a handler. */
long signal_thread(struct thread *t, int sig, const siginfo_t *info);
void signal_push(struct thread *t, int sig);

/* signal_lend: makes sig, which came with info and was sent to the process, pending for t, or, if
 * that has ended, for another; someone else pushes. signal_push_lent: does, or, if t blocks it,
 * has another take it (not in handlers). For handlers too. */
void signal_push_lent(struct thread *t, int sig);
void signal_lend(struct thread *t, int sig, const siginfo_t *info);

/* signal_marked: *info is one of signal_thread's: says no more than to look at the set. */
bool signal_marked(const siginfo_t *info);

/* signals_of: those pending for t. signal_claim: true for the one who takes a signal out of them,
 * in a handler or by a call. */
uint64_t signals_of(struct thread *t);
bool signal_claim(struct thread *t, int sig, siginfo_t *info);

/* signals_run: on the running G: takes what is pending and not blocked. signals_here: the same
 * where all signals are blocked, or the G cannot be stopped: it is taken when that ends. */
void signals_run(void);
void signals_here(void);

/* signals_unblocked: the mask has changed: also what was held back for the process becomes
 * pending for the running thread. True: signals_run is due. signals_unblocked_here: where all
 * signals are blocked; signals_here is due. */
bool signals_unblocked(void);
bool signals_unblocked_here(void);

/* signals_pull: what was sent to the process before, and the kernel would have given to the running
 * thread, natively, has been handled when it returns. For where the sender may be heard of by
 * other ways, and before a handler changes. */
void signals_pull(void);

/* signals_last: the running thread is about to end: takes what only it can take, and may block all
 * from then on; returns its own mask. signals_deafen: no handler runs on it any more. signals_hear:
 * nobody is left, so it calls exit, with that mask. signals_end: it has ended: what was lent to it
 * goes to others. */
uint64_t signals_last(struct thread *t);
void signals_deafen(struct thread *t);
void signals_hear(struct thread *t, uint64_t mask);
void signals_end(struct thread *t);

/* signal_left: sig, which a call of gp's raised and gp blocks, is pending for it. call_failed: may
 * the last call that failed have raised one? Context: any. */
struct g;
void signal_left(struct g *gp, int sig);
bool call_failed(void);

/* signals_adopt: what was pending for the kernel thread of the program's first thread. */
void signals_adopt(struct thread *t);

/* ---- siginfo.c: what came with those that are pending ---- */

/* pending_room: may one more be queued? RLIMIT_SIGPENDING says how many, of ours alone.
 * pending_add: one more; of a number that is not queued the first stays, beside those of timers,
 * and of a timer, which counts the others. pending_claim: true for the one who takes the oldest
 * away. pending_count: how many. pending_look: what came with the oldest from that place on; its
 * place, 0: none. pending_drop: forgets all. siginfo_make: what comes with one that is sent
 * without. pending_forked, siginfo_forked: in a child, of one thread: nothing is pending. For
 * handlers too. */
bool pending_room(void);
void pending_add(struct pending *p, int sig, const siginfo_t *info);
bool pending_claim(struct pending *p, int sig, siginfo_t *info);
uint32_t pending_count(const struct pending *p, int sig);
uint64_t pending_look(const struct pending *p, int sig, uint64_t from, siginfo_t *info);
void pending_drop(struct pending *p);
void pending_forked(struct pending *p);
void siginfo_make(siginfo_t *info, int sig, int code);
void siginfo_forked(void);

/* ---- sigaction.c: what the program has the signals do ---- */

struct action {
	const struct action *older;
	const struct action *after; /* what there is when it has been taken: itself, as a rule */
	void (*handler)(
		int); /* SIG_DFL: of one that was to run once, or that ours still stands for */
	int flags;
	uint64_t mask;
};

/* action_look: what is to run for sig, for which ours stands. action_take: the same for who runs
 * it. actions_ours: false in a child of vfork. For handlers. */
const struct action *action_look(int sig);
const struct action *action_take(int sig);
bool actions_ours(void);

/* action_default: what was taken is no handler: it is the kernel's from here on. */
void action_default(int sig, const struct action *seen);

/* signal_interrupts: so says siginterrupt. */
bool signal_interrupts(int sig);

/* signal_action: sigaction, as the kernel has it, whatever another library makes of it. */
int signal_action(int sig, const struct sigaction *act, struct sigaction *old);

/* handlers_find: looks for what signal_action goes by, as long as it is found by name.
 * handlers_start: from here on ours stands before the program's handlers. handlers_forked: not any
 * more, in a child of one thread. */
void handlers_find(void);
void handlers_start(void);
void handlers_forked(void);

/* on_signal: ours. In sighandler.c. */
void on_signal(int sig, siginfo_t *info, void *uc);

/* ---- sigroute.c: signals of the process that found no thread ---- */

/* signal_put_off: sig came with info where no thread could take it. signal_choice: makes it pending
 * for the thread that the kernel would choose; false: that is the caller, or cannot take it.
 * signal_of_child: it tells what became of a child. signal_of_clock: that time of a cpu is over,
 * which is for who uses it. signals_push_soon: someone pushes it. For
 * handlers too. */
void signal_put_off(int sig, const siginfo_t *info);
bool signal_choice(int sig, const siginfo_t *info);
bool signal_of_child(int sig, const siginfo_t *info);
bool signal_of_clock(int sig, const siginfo_t *info);

/* signal_timer: sig is for the process, rather for t (or NULL): makes it pending for who can take
 * it, and pushes, or holds it. False: it is the kernel's: without a handler, or shown by a
 * descriptor. */
bool signal_timer(struct thread *t, int sig, const siginfo_t *info);

/* signal_return: gives it back to the kernel, pending for the process. */
void signal_return(int sig, const siginfo_t *info);

/* signals_pass_on: of these, lent to t, those that it blocks go to others. */
void signals_pass_on(struct thread *t, uint64_t set);
void signals_push_soon(int sig);

/* signals_open: a thread has that mask. signal_handled: has sig a handler of the program's?
 * Of both follows which signals must be let in although no running thread does. */
void signals_open(uint64_t mask);
void signal_handled(int sig, bool handled);
bool signal_has_handler(int sig);

/* signals_let_in: these. signals_shown: a signalfd shows these, and they are none. */
uint64_t signals_let_in(void);
void signals_shown(uint64_t set);

/* signal_ignored: is it, by the program or by default? signal_ignores: would it be, with that?
 * signal_discard: forgets it, where it is pending for a thread. */
bool signal_ignored(int sig);
bool signal_ignores(int sig, const struct sigaction *act);
void signal_discard(int sig);
void signals_forked(void);

/* signals_held: those that every thread blocked when a thread was looked for; signals_holds: the
 * same with all that came with them. signal_unhold: true for the one who takes it over.
 * signals_unhold: t takes over all of set; signals_unhold_here: where nothing can stop the caller.
 * signals_moving: +1 and -1 about such a move, and that of one which the kernel gave to the
 * scheduler. signals_settle: those under way before have arrived. */
uint64_t signals_held(void);
const struct pending *signals_holds(void);
bool signal_unhold(int sig, siginfo_t *info);
void signals_unhold(struct thread *t, uint64_t set);
void signals_unhold_here(struct thread *t, uint64_t set);
void signals_settle(void);
void signals_moving(int n);

/* signals_thread: the body of the thread that finds threads for those put off; it does not
 * return. signals_wake: there are some. */
void *signals_thread(void *arg);
void signals_wake(void);

#endif
