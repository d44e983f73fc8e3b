/* The core's public calls: what interpose and shim build on. The futex is in futex.h,
 * sleeps and clocks in sleep.h, fds in netpoll.h, reports in report.h.
 *
 * A "G" below is a context that newproc made or core_init adopted. Calls said to be for
 * a G must not be made from another kernel thread, from a signal handler, or while the
 * caller is inside the core. */
#ifndef HEDDLE_CORE_H
#define HEDDLE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tls.h"
#include "tracer.h"

struct g;
struct heddle_policy;
struct m;
struct policyspec;
struct turnlog;
struct view_row;

/* What a struct g begins with. */
struct ghead {
	void *host; /* the embedder's own */
};

struct core_config {
	const char *gomaxprocs; /* the variable's text, or NULL */
	uint64_t seed; /* of all random choices; 0: the clock's */
	const struct policyspec *policy; /* policies/spec.h; or NULL: go */
	const struct heddle_policy *ownpolicy; /* policy.h, for POLICY_OWN */
	struct turnlog *turns; /* policies/turns.h, with a policy other than go; or NULL */
	int32_t maxmcount; /* kernel threads at most; 0: 10000, as Go */
	int32_t softmcount; /* rather no more than so many, unless nothing else could run; 0: any */
	bool preempt; /* stop Gs that run over their slice, by signal 32 */
	int debuglevel; /* debug builds: 1 or 2 */
	uint32_t schedtrace; /* ms between lines on stderr; 0: none */
	bool scheddetail;
	bool times; /* keep them: times.h */
	const char *trace; /* the file of a trace from here on: tracer.h; or NULL */
	int traceopen; /* the descriptor of that file plus one, if there is one already; else 0 */
	uint64_t tracelimit; /* bytes that it may have; 0: any */
	tracer_name *name; /* or NULL */

	/* Bytes of thread-local data below the FS base of the bare thread block that each
	 * new G and each M gets. 0: they have none; Gs run on their M's FS base, and
	 * newosproc must be given. */
	size_t tls;

	bool alone; /* no other thread has the caller's memory and descriptors */

	/* The caller's, as of a hosted G. */
	void *host;

	/* The G that it was in the process that forked, or NULL: what that left on its stack, if a
	 * handler forked, knows it by its struct. */
	struct g *was;

	/* Where the G that the caller becomes is written first, for handlers; or NULL. */
	struct g **self;

	/* The bounds of the caller's stack, for sanitizers and reports; 0: not known. */
	uintptr_t stacklo, stackhi;

	/* newosproc: starts a kernel thread that calls core_mstart(m, lo, hi) with the
	 * bounds of its stack. NULL: raw clone. Returns 0 or -errno. */
	int (*newosproc)(struct m *mp);

	/* sigdue: after gnotify or a preemption, on that G: in the program's place, or with all
	 * signals blocked until it is there again: then uc is what it was interrupted in, else
	 * NULL. True: it is not to go on but to call divert, which does not return: perhaps in the
	 * midst of the program's code, or of an announced call. */
	bool (*sigdue)(const void *uc);
	void (*divert)(void);

	/* pursues: of a G of gpursue that was found asleep in the kernel at pc (0: not known), by
	 * sysmon: is it to be called out? It may look, not call. */
	bool (*pursues)(const struct g *gp, uintptr_t pc);

	/* clocked: what goes by the cpu time of Gs: by sysmon; idle: every P is, so that only who
	 * is in a call may use some. Returns when it is to be asked again, by nanotime; 0: it need
	 * not. It may look, and core_sigdefer, not call. NULL: nothing does. */
	uint64_t (*clocked)(uint64_t now, bool idle);

	/* sigleft: a call of gp's had the kernel send it sig, which it blocks, and gp is about to
	 * leave its kernel thread. It is the embedder's now. It may look, and core_sigmark, not
	 * call. NULL: such stay where they are. failed: may one that the running G made, and did
	 * not tell of by core_sigleft, have been such a call? NULL: none was. */
	void (*sigleft)(struct g *gp, int sig);
	bool (*failed)(void);

	/* signalled: after core_sigdefer, on a kernel thread of the core's; it may wake Gs, and
	 * must not block. */
	void (*signalled)(void);

	/* What view.h is to tell of its own structs, as the G's host. */
	const struct view_row *rows;
	uint32_t nrows;

	/* alldead: every G waits and nothing the core knows of can wake one. NULL: one
	 * line on stderr. Called once, under sched.lock: it may look, not call. */
	void (*alldead)(void);

	/* asleep: every M is idle, no timer is armed, nobody waits for a descriptor, and the
	 * process has no kernel thread that is not ours: asleep.h tells of each G. By sysmon,
	 * about each second, under no lock: it may look, write, and end the process, not call.
	 * NULL: sysmon does not come by for that. */
	void (*asleep)(void);
};

/* core_init: starts the scheduler and makes the caller a G, in GRUNNING, on an M of its own.
 * Returns  0 or -errno; on failure nothing is left behind and the caller is a plain thread.
 * Context  once in a process, on a kernel thread that is no M. */
int core_init(const struct core_config *config);

/* core_forked: in the child of a fork: the caller is a plain thread, of a process in which
 * core_init was never called. What the parent's scheduler had in memory is left alone; its
 * locks may be held there by threads that are not here.
 * Context  the only thread of the child, outside the core. */
void core_forked(void);

/* core_mstart: the body of a kernel thread that newosproc started. Does not return. */
void core_mstart(struct m *mp, uintptr_t lo, uintptr_t hi);

/* newproc: a new G that runs fn(arg), soon, with the signal mask of the caller.
 * Returns  0 and, if gp is not NULL, the G; -ENOMEM.
 * Context  a G, or a kernel thread that is no M.
 * Blocks   nobody.
 * Order    what the caller did before is visible to fn. */
int newproc(void (*fn)(void *), void *arg, size_t stacksize, struct g **gp);

/* Hosted Gs: contexts whose stack and FS base the embedder brings. They are made once and
 * run many times, on whatever lies below `base`.
 *
 * ghost: makes one, dead as yet. NULL without memory.
 * gtake: a dead one from the free lists, with a stack about as large as asked for, above no
 *        smaller a guard; or NULL.
 * gstart: runs fn(arg) on one that ghost or gtake gave, as newproc does; mask is its
 *         signal mask. fn begins inside the core and calls gbegun once it can bear whatever
 *         sigdue and divert do: before, no handler of the program's runs on it.
 * gkeep: is the running G, when it ends, to stay off the free lists?
 * gdead: true if such a G has ended and nobody stands on its stack any more.
 * grecycle: puts one that is dead on the free lists.
 * grehost: another base and FS base for one that is dead and on no list, on the same stack.
 * Context  a G, or a kernel thread that is no M. Blocks: nobody. */
struct ghostspec {
	uintptr_t lo, hi; /* the stack */
	uintptr_t base;
	uintptr_t fsbase;
	void *host;
};
struct g *ghost(const struct ghostspec *spec);
void grehost(struct g *gp, const struct ghostspec *spec);
struct g *gtake(size_t stacksize, size_t guard);
void gstart(struct g *gp, void (*fn)(void *), void *arg, uint64_t sigmask);
void gbegun(void);
void gkeep(bool keep);
bool gdead(const struct g *gp);
void grecycle(struct g *gp);

/* gself: the running G, NULL on a kernel thread that is no M. ghost_of: its host; ghost_self: that
 * of the running G. */
static inline struct g *gself(void)
{
	return getg();
}

static inline void *ghost_of(const struct g *gp)
{
	return ((const struct ghead *)gp)->host;
}

static inline void *ghost_self(void)
{
	struct g *gp = getg();

	return gp ? ghost_of(gp) : NULL;
}

/* gof: the G, if any, whose FS base that is. */
struct g *gof(uintptr_t fsbase);

/* gtid: the kernel thread that gp runs on, or blocks with; 0 if it does neither. It may be
 * another the next moment. */
int32_t gtid(const struct g *gp);

/* gnotify: has core_config.sigdue called on gp, as soon as it runs; ends its wait, if it is
 * in one. gnotify_now: also if it runs, or is blocked in the kernel: by signal 32; false if it
 * does and there is no such signal (core_config.preempt).
 * gnotify_self: the same for the running G: the wait that it is about to begin ends at once.
 * Context  any but a handler; gnotify_self: a handler. */
void gnotify(struct g *gp);
bool gnotify_now(struct g *gp);
void gnotify_self(void);

/* ghold: from here on no handler runs on the caller, nor is sigdue called: others wait for what it
 * has in hand. Signals that come are its all the same; a wait of its goes on, as a rule. A call
 * that it has announced, and is within, is that no more. gunhold: sees to them. queue_wait does
 * not, whose release lets go of what was in hand: then as in any wait. Context  a G or a kernel
 * thread that is none, whom handlers interrupt all the same. */
void ghold(void);
void gunhold(void);

/* gpin: from here on nothing stops the caller, and no handler runs on it: others spin for what it
 * has in hand. For a few steps, none of them one that enters the core but what handlers may do.
 * gunpin: sees to what came. Context  a G, or a kernel thread that is none, whom handlers interrupt
 * all the same. */
void gpin(void);
void gunpin(void);

/* gfaulted: the caller is a handler, of what went wrong in the program's hands. It holds off
 * nobody. */
void gfaulted(void);

/* gpursue: from here on, whenever gp is found asleep in the kernel, sysmon asks
 * core_config.pursues, and does gnotify_now if it says so; until gpursued. Any context but a
 * handler. */
void gpursue(struct g *gp);
void gpursued(struct g *gp);

/* gescaped: gpursued for the running G, which was to be called out of the call that it has just
 * made: on return no signal 32 of sysmon's pursuit is pending for its kernel thread, nor will be:
 * it could end the next call, which may be of those that are not to be ended.
 * Context  between entersyscall and exitsyscall. */
void gescaped(void);

/* gmute: no signal that finds the running G in the core is for it from here on; it is about to
 * end. geach: the G after gp of all there are or were, NULL for the first; NULL after the last. */
void gmute(void);
struct g *geach(struct g *gp);

/* gcputime: the cpu time that gp has used, in ns. It never goes back. Kept from the first call on;
 * what was used before is known roughly. core_clocked: core_config.clocked has a reason to be asked
 * again by that time. Context: a G; gcputime, once it is kept: core_config.clocked, too. */
uint64_t gcputime(struct g *gp);
void core_clocked(uint64_t when);

/* gsetprio: in the queues of futex.h gp goes before those of less. */
void gsetprio(struct g *gp, int prio);

/* gmask: the signal mask of the caller. gsigprocmask: rt_sigprocmask for the running G;
 * returns 0 or -errno. */
uint64_t gmask(void);
uint64_t gmask_of(const struct g *gp);
int gsigprocmask(int how, const uint64_t *set, uint64_t *old);

/* gopark: puts the running G to sleep until goready() is called on it. Once its context
 * is saved, unlockf(gp, lock) runs, on whatever runs next on that M; false wakes it again.
 *          It may let go of a lock, and must not call the core.
 * Context  a G.
 * Blocks   the G only; its M goes on to run another.
 * Order    what the waker did before goready() is visible on return. */
void gopark(bool (*unlockf)(struct g *, void *), void *lock, int waitreason);

/* goready: makes a parked G runnable; exactly one call for each park.
 * Context  any but a signal handler. */
void goready(struct g *gp);

/* gosched: to the tail of the global queue; false if there was nobody else to run here. goyield: to
 * the tail of the local one. */
bool gosched(void);
void goyield(void);

/* core_points: does the policy want to choose at points, too? core_point: here is one: the running
 * G gives way if the policy says so. Any context; elsewhere than in the program's code it is none.
 */
bool core_points(void);
void core_point(void);

/* core_turnsend: the process is about to end by itself: of a replay, the last look. */
void core_turnsend(void);

/* goexit: ends the running G. */
void goexit(void) __attribute__((noreturn));

/* entersyscall .. exitsyscall: brackets a call that may block the kernel thread. Between
 * the two its P may be given to others; if the G calls the core all the same, that is over
 * from there on.
 * Returns  exitsyscall: true if the call lasted, so that the P was taken, or was rightly lent.
 * Blocks   exitsyscall: the G, until there is a P for it. */
void entersyscall(void);
bool exitsyscall(void);

/* core_lend: the running G is about to make a call that blocks nearly always: its P is others' now,
 * and not when sysmon sees that the call lasts. False: it is kept, for sysmon to see to.
 * Context  a G, before entersyscall. */
bool core_lend(void);

/* core_begets: the running G makes a child, or has made one: its kernel thread is not to end with
 * another. */
void core_begets(void);

/* core_vforking, core_vforked: about a vfork, whose child runs on the caller's stack and
 * memory: it is to find that it is no G. The first returns what the second wants. All signals are
 * blocked in between; core_vforkchild: in the child, as they were.
 * Context  a G. Blocks: core_vforked as exitsyscall. */
struct g *core_vforking(void);
void core_vforked(struct g *gp);
void core_vforkchild(const struct g *gp);

/* lockosthread: wires the running G to its M, until as many calls of unlockosthread. */
void lockosthread(void);
void unlockosthread(void);

/* core_monitor: the tid of sysmon's kernel thread, which nothing is wired to. */
int32_t core_monitor(void);

/* lockosthread_sig: lockosthread where sigdue was given what its G was interrupted in. */
void lockosthread_sig(void);

/* ghome: the running G, which is not wired, goes on on the process's first kernel thread, if that
 * is idle: what others see of the process is seen there. */
void ghome(void);

/* gspoil: the running G, which is wired, is about to change its kernel thread in what cannot be
 * taken back: that thread ends with it. The process's first had better not, for what others see of
 * the process is seen there: unless it stays, a G that is found on that is wired to a new one, a
 * copy. Where it must be the first, that serves nobody from the G's end on.
 * Context  a G. gspoil_sig: stays; where sigdue was given what its G was interrupted in. */
void gspoil(bool stays);
void gspoil_sig(void);

/* gbreed: a kernel thread made by the running G's, with all that the kernel hands on, for one G
 * that gstart is to start; context: a wired G. gwed: gp is that one, is wired to it and ends it; or
 * NULL: it ends. Returns  gbreed: 0 or -errno. gwed: its tid; 0: it has ended. */
struct m;
int gbreed(struct m **bred);
int32_t gwed(struct m *bred, struct g *gp);

/* core_procs: GOMAXPROCS. core_setprocs: changes it; stops the world for the while.
 * Returns  0, or -EINVAL, -ENOMEM with nothing changed. Context: a G. */
int core_procs(void);
int core_setprocs(int n);

/* core_keys: a protection key is about to be allocated: from here on each G has rights of its own
 * (PKRU), which a new one takes over from who starts it. Any context. */
void core_keys(void);

/* core_tiles: the kernel is about to be asked for tiles (AMX): from here on each G has its own. Any
 * context. */
void core_tiles(void);

/* ggather: the dead Gs that each P keeps become everyone's, for want of memory for another; stops
 * the world for the while. Context: a G. */
void ggather(void);

/* gsettled: waits until sysmon has no dead Gs in its hands, of which it gives memory back; the
 * number is another one once it has taken some again. Context: a G. Blocks: the G. */
uint32_t gsettled(void);

/* core_canspin: as Go's canSpin: is it worth PAUSEing for a lock, the i-th time? */
bool core_canspin(int i);
void core_dospin(void);

/* core_looked: the caller has looked for something and did not wait; again: and has done nothing
 * else since the last time. Where it does so again and again while others wait for its P, it gives
 * way. Context: a G. */
void core_looked(bool again);

/* core_othersrun: do Ms other than the caller's run Gs? As seen a moment ago. */
bool core_othersrun(void);

#endif
