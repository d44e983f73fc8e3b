/* The structures of the scheduler: G, M, P and sched. Owns their layout and says
 * of each field who writes it and under what. Holds no code.
 *
 * Words as in Go's runtime2.go. A G is a program thread, an M a kernel thread, a
 * P the right to run Gs. Read HACKING.md for the protocols, core.h for the calls. */
#ifndef HEDDLE_GMP_H
#define HEDDLE_GMP_H

#include <stddef.h>

#include "atomic.h"
#include "context.h"
#include "core.h"
#include "lock.h"
#include "sigsave.h"
#include "sizes.h"
#include "stack.h"
#include "stats.h"
#include "timer.h"
#include "times.h"
#include "waitq.h"

enum {
	MAX_PROCS = 1024,
	CACHE_LINE = 64,
};

/* The status word of a G. Every change of it is made by whoever owns the G at that
 * moment; the only words that two parties may race for are GRUNNING, GSYSCALL and
 * GOFFP, and both sides of such a race use a CAS (HACKING.md, "The claim"). */
enum gstatus {
	GIDLE = 0, /* allocated, never run */
	GRUNNABLE = 1, /* on exactly one run queue, or in the hands of the M that took it off */
	GRUNNING = 2, /* in the program's code, on m, which holds a P that a taker may claim */
	GSYSCALL = 3, /* in an announced system call, on m, whose P a taker may claim */
	GWAITING = 4, /* parked; whoever claims its wait word makes it runnable */
	GDEAD = 6, /* finished; on a free list */
	GPREEMPTED = 9, /* stopped by signal 32, not yet on a queue */
	GOFFP = 10, /* as GRUNNING, but its P has been taken */
	GSYSCALLNOP = 11, /* as GSYSCALL, but its P has been taken */
	GPINNED = 12, /* running inside the core: its P cannot be claimed */

	GCLAIM = 0x1000, /* beside GRUNNING or GSYSCALL: a taker is moving the P away */
};

enum pstatus {
	PIDLE = 0, /* on sched.pidle, or in the hands of who took it off */
	PRUNNING = 1, /* held by an M, which may be in a system call */
	PGCSTOP = 3, /* stopped for procresize */
	PDEAD = 4, /* above GOMAXPROCS */
};

enum waitreason {
	WAIT_NONE,
	WAIT_FUTEX,
	WAIT_SLEEP,
	WAIT_READ,
	WAIT_WRITE,
	WAIT_PARK,
	WAIT_REASONS,
};

/* How a wait ended. The low bits of a G's wait word; the rest is a sequence number,
 * so that a late timer or signal can not end a later wait. */
enum waitresult {
	WAIT_OVER = 0,
	WAIT_PENDING = 1,
	WAIT_READY = 2,
	WAIT_TIMEOUT = 3,
	WAIT_INTR = 4,
	WAIT_NOMEM = 5,
	WAIT_STALE = 6, /* the descriptor was forgotten */
	WAIT_BITS = 3, /* shift of the sequence number */
};

/* Code in which a G was found spinning, and how often. */
enum { SPIN_PLACES = 4 };
struct spinplace {
	uintptr_t lo, hi;
	uint8_t turns;
};

struct g {
	struct ghead head;
	/* Touched at every switch, in two cache lines. */
	struct gobuf sched; /* the saved context; written by arch_switch */
	uintptr_t fsbase; /* 0: runs on its M's own; fixed before the first run */
	uintptr_t gsbase; /* while it does not run; written by the M that it ran on, or its maker */
	ATOMIC(uint32_t) status; /* enum gstatus */
	ATOMIC(struct m *) m; /* the M it runs on; written by that M */
	struct g *schedlink; /* link of whatever queue holds it; owned by that queue */
	ATOMIC(uint64_t) wait; /* the wait word: sequence << WAIT_BITS | enum waitresult */
	ATOMIC(bool) sigdue; /* core_config.sigdue is to be called on it */
	ATOMIC(bool) held; /* but not yet: ghold */
	ATOMIC(bool) pursued; /* gpursue */
	ATOMIC(bool) fresh; /* it has yet to begin: runq.c */
	uint8_t bin; /* gfree_bin of its stack, if it is hosted */
	struct m *lockedm; /* wired to this M; written by the G itself */
	ATOMIC(uint64_t) sigmask; /* the kernel's signal mask while it runs; written by gmask_set */
	struct sigsave *frame; /* the signal frame it was preempted in, else NULL */
	struct m *home; /* that of the call which has ended, which waits for it; NULL: none does */
	ATOMIC(uint64_t) waitsince; /* sched.now at the park */
	ATOMIC(const void *) waiton; /* the futex word or fd it waits for */
	uint8_t waitreason; /* enum waitreason */
	uint8_t prio; /* in queues; as the kernel counts real-time priorities */
	bool guest; /* it came before others after its last call: guest.h */
	ATOMIC(bool) raised; /* its kernel thread may hold one of SIGS_OF_CALLS for it; its own */

	uint64_t vforkmask; /* its kernel thread's before core_vforking */
	ATOMIC(bool) spinner; /* it is known to spin: spin.c */
	ATOMIC(uint64_t) spunat; /* nanotime when it last gave way for that */
	ATOMIC(uint32_t) spuntick; /* and the schedtick, of that P */
	ATOMIC(int32_t) spunon;
	uint8_t spincredit; /* how often it may be found elsewhere until that is forgotten */
	uint8_t spinnext; /* where the next place goes */
	uint8_t spinmisses; /* how often it was looked at for nothing */
	ATOMIC(uint8_t) spinskip; /* slices in which not to look */
	struct spinplace spins[SPIN_PLACES];
	uint32_t looks; /* so many in a row: core_looked; since when, and the last, in cycles */
	uint64_t looksbegan, lookedat;
	uint64_t lookturn; /* ns until it gives way */
	uint64_t lookedwait; /* the number of its last wait then */
	const void *absent; /* whose placeholder it is, queue_wait's arg, or NULL; the G's own */
	struct waiter placeholder; /* keeps its place in a queue while it runs handlers */

	void (*fn)(void *);
	void *arg;
	uint64_t goid;
	struct stack stack;
	uintptr_t base; /* of a hosted G: where its runs begin on the stack */
	struct timer timer; /* of sleeps and of waits with a deadline */

	uint32_t lockedcount; /* depth of lockosthread */
	ATOMIC(uint32_t) traceseq; /* events of it recorded or lost; by whoever owns the G */
	uint64_t lentat; /* nanotime when it lent its P (core_lend), until that is over */
	uint64_t lentcpu, lentused; /* its M's cpu time then; how much more when it came back */
	const struct m *lentm;
	const struct p *backp; /* on which it came back from a call; NULL: that is not known */
	uint64_t backswitches; /* how many switches that had made then, */
	uint64_t backcpu; /* its M's cpu clock, */
	uint64_t backstopped; /* and stoppedat */
	uint64_t endswitches; /* those of the P that it had, when the call ended */
	bool returns; /* a call has ended whose P was lent or taken */
	uint8_t doubt; /* whether it is to */
	bool isg0; /* the scheduler's context of an M, not a thread of the program */
	bool adopted; /* its stack and thread block are not ours */
	bool hosted; /* ghost() made it: stack, thread block and host stay with it */
	bool kept; /* hosted: stays off the free lists when it ends; written by the G itself */
	ATOMIC(uint64_t) seen; /* the look at which it was last seen to run: courtesy.h */
	ATOMIC(uint64_t) stoppedat; /* and when a slice was ended that was its own */
	ATOMIC(uint64_t) runnablesince; /* nanotime of the ready, when times are kept */
	ATOMIC(uint64_t) cputime; /* charged to it, by the M it runs on: cputime.h */
	ATOMIC(uint64_t) looked; /* and what sysmon took it to have used before */
	ATOMIC(uint64_t) told; /* the most that was said to be both */
	struct g *alllink; /* of sched.allg; fixed at birth */
	void *fiber; /* the sanitizer's handle of this context */
	ATOMIC(struct plan *)
	plan; /* what a policy knows of it: policies/plan.h; NULL: nothing yet */
};

/* What must be done about the G that has just been left, once its context is saved.
 * It runs on the same M, on whichever context came next. */
enum postkind {
	POST_NONE,
	POST_PARK, /* GWAITING, then fn(g, arg): false means do not park after all */
	POST_GOSCHED, /* to the tail of the global queue; sched.lock is already held */
	POST_YIELD, /* to the tail of the local queue */
	POST_COURTESY, /* before it */
	POST_EXIT, /* to a free list */
	POST_NOP, /* came back from a call or a block and has no P */
	POST_PREEMPT, /* as gosched, out of a signal frame */
};

struct post {
	enum postkind kind;
	struct g *g;
	bool (*fn)(struct g *, void *);
	void *arg;
};

/* What was seen of the G in one slice: spin.c. Written by the M. */
enum { SPIN_LOOKS = 5 };

struct spinlooks {
	ATOMIC(uint32_t) tick; /* of the slice, plus one; 0: of none */
	uint32_t n;
	struct g *gp;
	ATOMIC(uint64_t) cpu; /* the M's cpu clock at the end of the last one */
	struct sigregs seen[SPIN_LOOKS];
};

struct m {
	struct g g0;
	ATOMIC(struct g *) curg; /* written by this M */
	ATOMIC(struct p *) p; /* written by this M, or by who holds the GCLAIM of curg */
	uintptr_t fs; /* the FS base that is loaded */
	ATOMIC(uint64_t) sigmask; /* the mask that the kernel has; written by this M */
	ATOMIC(bool) shutting; /* it is in idle_shut */
	struct post post;

	struct p *nextp; /* given by startm before the wake-up */
	struct p *oldp; /* held before the last hand-off */
	struct g *pendingg; /* taken off a queue, to be run by the g0 loop */
	uint64_t polled; /* when it came out of the poller to run somebody, in cycles, or 0 */
	ATOMIC(struct g *) lockedg; /* written by this M, or by who holds its G */
	bool spoilt; /* its kernel thread ends with lockedg */
	bool expects; /* idle, and its G to come back to it: guest.h; under sched.lock */
	bool bred; /* for one G, of which it hears by wed */
	bool owes; /* a wake-up for what chain.c put where others may take it */
	const struct g *courteous; /* its G that is to give way to whom it has woken */
	bool published; /* in sched.allm */
	bool leader; /* the process's first kernel thread, or whatever called core_init */
	bool parent; /* it has made a child, which may ask for a signal when it ends */
	bool lockedwait; /* asleep until its lockedg is handed a P; under sched.lock */
	ATOMIC(bool) spinning;
	ATOMIC(bool) blocked; /* asleep on park; read by checks and reports */
	struct note park, wed;
	struct m *schedlink; /* of sched.midle, under sched.lock */
	struct m *alllink; /* of sched.allm; fixed at birth */
	ATOMIC(int32_t) tid; /* the kernel clears it when the thread has ended */
	uint32_t id;
	uint64_t rng;

	ATOMIC(uint32_t) syscalltick; /* announced calls begun; written by this M */
	/* Sysmon's, while its G runs without a P: its cpu clock at the last look, and at one that
	 * was then; 0: it has not been seen so. */
	uint64_t offpcpu, offpfrom, offpwhen;
	uint32_t putofftick; /* the request that preemption put off, by PC, and since when */
	uint64_t putoffsince;
	ATOMIC(uint32_t) preempttick; /* schedtick that sysmon wants over, plus one; 0: none */
	ATOMIC(uint32_t) looktick; /* schedtick that sysmon wants looked at, plus one; 0: none */
	ATOMIC(uint32_t) lookedtick; /* the one of which all is known, plus one */
	struct spinlooks looks;
	ATOMIC(uint32_t) sending; /* of signal 32 to it: nudge.c */
	ATOMIC(uint32_t) settled; /* what that was when all that was sent had been delivered */
	ATOMIC(bool) becoming; /* its G becomes another program: none is sent */
	ATOMIC(bool) called; /* one was sent to call its G out; cleared by gescaped */
	uint32_t calledtick; /* sysmon's: syscalltick of the call it was for, plus one */
	uint32_t pursuedtick; /* the same of the last look */
	ATOMIC(bool) preemptmissed; /* signal 32 found the M in the core; unpin sees to it */
	struct sigsave *spareframe; /* where the next preempted G will be kept */
	void *sigstack;

	uint32_t nheld; /* debug: ranks of the locks it holds */
	uint8_t held[8];

	ATOMIC(uint64_t) lookedcpu; /* its cpu clock when sysmon last looked for whose it is */
	ATOMIC(uint64_t) lookedat; /* nanotime then */
	ATOMIC(uint32_t) chargeseq; /* odd while charged changes, and cputime of its G */
	ATOMIC(uint64_t) charged; /* its cpu clock as far as that is charged; 0: not begun */
	uint64_t chargedat; /* nanotime then */
	struct ring *ring; /* trace events; NULL unless tracing */
	void *block; /* the mapping that holds this struct, its stacks and its TLS */
	void *host;
};

/* What sysmon remembers of a P between its rounds. Only sysmon touches it. */
struct sysmontick {
	struct m *m;
	uint32_t schedtick;
	uint32_t syscalltick;
	uint64_t schedwhen;
	uint64_t syscallwhen;
	uint64_t callwhen, callcpu; /* of the last look at that call: when, and its M's cpu time */
	uint64_t cpuwhen; /* when cputime was read */
	uint64_t cputime; /* the M's cpu clock then */
	uint64_t slicecpu; /* and when the slice was first seen to last */
	uint64_t askdue; /* how old the slice is to be before it is asked again to end */
	uint32_t looktick; /* the slice that is looked at for spinning */
	uint64_t lookdue; /* how old it is to be before one that is known is looked at again */
	uint64_t lookwhen; /* when last, and the M's cpu clock then */
	uint64_t lookcpu;
};

struct p {
	int32_t id;
	ATOMIC(uint32_t) status; /* enum pstatus */
	ATOMIC(struct m *) m; /* with m.p: both set, or neither */
	struct p *link; /* of sched.pidle, under sched.lock */
	ATOMIC(uint32_t) schedtick; /* slices begun; written by the owner */
	ATOMIC(uint32_t) urgent; /* Gs at the head of the global queue that this P owes a slice */
	ATOMIC(uint32_t) courtesies; /* how often a waker may still give way: courtesy.h, */
	ATOMIC(uint64_t) rarely; /* to whom: who was last seen to run before that look */
	struct g *favoured; /* to whom one did; the owner's */
	uint64_t timerseen; /* arch_cycles() at the last look at the timers */
	uint64_t pollseen; /* arch_cycles() when it last looked at the poller for one that yields */
	uint64_t rowseen; /* and when a row of slices began (choose_yield), */
	uint32_t rowtick; /* with which; */
	bool shortrow; /* the row before was short */
	bool pollowed; /* it is to do so at its next choice */
	uint32_t chain; /* Gs that took over a slice by way of runnext, one from the other: chain.h;
			 */
	uint64_t chainbegan; /* arch_cycles() when that was a chain, */
	uint64_t chainmay; /* how long it may last while others wait, */
	uint64_t chainended; /* and when the chain before ended, 0: not since the P was idle, */
	uint32_t chaintick; /* with which slice */

	/* The local queue: HACKING.md, "The local queue". */
	ATOMIC(uint32_t) runqhead __attribute__((aligned(CACHE_LINE)));
	ATOMIC(uint32_t) runqtail;
	ATOMIC(struct g *) runnext;
	ATOMIC(struct g *) runq[RUNQ_SIZE];
	ATOMIC(bool) kept; /* the last runnext that a thief waited for was taken by the owner:
			      thieves' */

	ATOMIC(struct g *) gfree; /* dead Gs; the owner, and sysmon, take the whole list */
	int32_t ngfree; /* in it, as long as nobody took it: owner only */
	uint64_t goidnext; /* ids this P may still give out, owner only */
	uint64_t goidend;

	struct timers timers __attribute__((aligned(CACHE_LINE)));
	struct stats stats __attribute__((aligned(CACHE_LINE))); /* written by the owner */
	struct sysmontick mon __attribute__((aligned(CACHE_LINE)));
	struct times times; /* written by the owner, when times are kept */
};

struct gqueue {
	struct g *head;
	struct g *tail;
};

/* A list of Gs in one function's hands. */
struct glist {
	struct g *head;
	int32_t n;
	struct g *last;
};

/* Dead Gs, by how large their stacks are: gfree.c. */
struct gshelf {
	struct g *bin[GFREE_BINS];
	ATOMIC(int32_t) n; /* read without the lock, too */
};

/* Where a policy's text has the scheduler choose as Go does not: choose.h. */
struct knobs {
	uint32_t grq; /* each so many slices the global queue goes first */
	uint32_t local; /* room in a local queue */
	uint8_t steal; /* enum stealing */
	bool runnext;
	bool spin;
	bool yieldown;
};

struct sched {
	/* Read at every switch, written seldom. */
	ATOMIC(uint32_t) gcwaiting; /* procresize wants the world stopped */
	ATOMIC(int32_t) gomaxprocs;
	ATOMIC(struct p **) allp; /* MAX_PROCS pointers; filled in order, never freed */
	bool up; /* schedinit is through */
	bool odd; /* knobs count, and policy may be set; fixed at the start */
	ATOMIC(bool) policy; /* what is runnable is in policies/plan.c; cleared under lock, once */
	bool turned; /* turns are recorded or replayed: policies/turns.h; fixed at the start */
	bool patient; /* slices are of cpu time, calls give way only asleep; fixed at the start */
	struct knobs knobs; /* fixed at the start */
	ATOMIC(bool) nobarrier; /* the kernel refuses membarrier; fixed at the start */

	ATOMIC(int32_t) npidle __attribute__((aligned(CACHE_LINE)));
	/* nanotime, some 10 ms ago at most while any P is not idle: sysmon's rounds, and what wakes
	 * from idleness, see to it. Advisory. */
	ATOMIC(uint64_t) now;
	ATOMIC(uint64_t) slice; /* ns; written by core_init and sysmon */
	ATOMIC(int32_t) nmspinning;
	ATOMIC(uint32_t) needspinning;
	ATOMIC(int32_t) runqsize; /* written under lock */
	ATOMIC(int32_t) early; /* Gs at its head that slices should end for: written under lock */
	ATOMIC(uint64_t) lastpoll; /* nanotime of the last netpoll; 0 while one blocks */
	ATOMIC(uint64_t) polluntil; /* when the blocked netpoll will wake; 0: none blocks */
	ATOMIC(uint32_t) sysmonwait; /* sysmon sleeps deeply */
	ATOMIC(bool) sysmonrests; /* it found all idle, and does not look again soon */
	ATOMIC(bool) guestwaits; /* for sysmon to ask a P */
	ATOMIC(uint64_t) guestsat; /* nanotime when a guest last came */
	ATOMIC(uint32_t) verifydue; /* sysmon wants registrations made sure of */
	ATOMIC(uint64_t) sysmonwake; /* when sysmon will look next */
	ATOMIC(bool) orphans; /* an idle P may have timers that no M waits for */
	ATOMIC(bool) sysmonhurry; /* it is to look often again */
	ATOMIC(bool) unpolled; /* it is to look at the poller, for nobody else does */
	ATOMIC(int32_t) npursued; /* Gs that sysmon looks after: gpursue */
	ATOMIC(uint64_t) looks; /* at who runs: courtesy.h */
	ATOMIC(uint32_t) pursuits; /* how often one became one */

	struct mutex lock __attribute__((aligned(CACHE_LINE)));
	/* Under lock: */
	struct gqueue runq;
	struct g *runqearly; /* the last of those `early`, or NULL */
	struct m *midle;
	int32_t nmidle;
	int32_t nmidlelocked; /* locked Ms that wait for their G */
	int32_t nmsys; /* Ms that checkdead does not count */
	int32_t mcount;
	int32_t mpeak; /* the most it has been */
	int32_t maxmcount;
	ATOMIC(int32_t) softmcount; /* as many for choice; 0: no such limit */
	ATOMIC(bool) full; /* one was wanted, and softmcount forbade it: read without */
	struct p *pidle;
	int32_t stopwait; /* Ps that still have to stop */
	bool deadreported;

	struct note stopnote;
	struct note sysmonnote;
	struct mutex stoplock; /* one stop-the-world at a time */

	struct mutex glock; /* making Gs, and what is below, but for a look */
	struct gshelf gfresh, gaged, gcold; /* dead Gs of the pool (gfree.c) */
	ATOMIC(int32_t) ngfree; /* on all three */
	ATOMIC(uint32_t) gfreehands; /* odd: sysmon has some in its hands; a futex word */

	ATOMIC(struct g *) allg; /* pushed by CAS, never shrinks */
	ATOMIC(struct m *) allm; /* pushed by CAS, never shrinks */
	ATOMIC(uint64_t) goidgen;
	ATOMIC(uint32_t) midgen;
	ATOMIC(uint64_t) idlepmask[MAX_PROCS / 64]; /* bit set: that P is idle (P6) */
	ATOMIC(uint64_t) timerpmask[MAX_PROCS / 64]; /* bit set: that P may have timers */
	ATOMIC(uint32_t) alive; /* Gs, and the most that ever were, when times are kept */
	ATOMIC(uint32_t) peakgs;
	ATOMIC(uint64_t) stoppedat; /* nanotime of when a slice of a G's own was last ended */
	uint64_t born; /* nanotime of the start */
	uint64_t seed;
	tracer_name *name; /* of a G; or NULL */
	struct g *firstg; /* what core_init made of its caller */
	ATOMIC(uint64_t) firstmask; /* its mask */
	ATOMIC(uint64_t) everopen; /* signals that some G lets in; or did */
	ATOMIC(uint64_t) deepopen; /* those that sysmon lets in while it sleeps deeply */
	ATOMIC(uint32_t) deeplooks; /* two for each look at what Gs let in; odd: it is at it */
	uint64_t foreignmask; /* of Gs started by kernel threads that are no Ms */
	int32_t ncpu;
	struct stats nopstats; /* of those who hold no P */
	struct m *sysmonm;
};

extern struct sched sched __attribute__((visibility("hidden")));

#endif
