/* The core's own calls among its files. Public calls are in core.h.
 *
 * "pinned": the caller's G has status GPINNED, so that its M's P is surely held and can
 * not be claimed; every function that takes mp and touches mp->p needs that, or runs on
 * mp's g0. Read HACKING.md, "The claim", first. */
#ifndef HEDDLE_SCHED_H
#define HEDDLE_SCHED_H

#include "check.h"
#include "choose.h"
#include "counting.h"
#include "cpu.h"
#include "gmp.h"
#include "os.h"
#include "tls.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- pin.c: entering and leaving the core ---- */

/* pin: enters the core on the running G.
 * Returns  its M, whose P is held until unpin or a switch away.
 * Context  on a G in GRUNNING or GOFFP. Not nested.
 * Blocks   the G, if its P was taken and no other is idle. */
struct m *pin(struct g *gp);
void unpin(struct g *gp);

/* claim_pause: the i-th time in a row that *word still has a value which another kernel thread
 * is to change within a few instructions. */
void claim_pause(int i, ATOMIC(uint32_t) *word, uint32_t value);

/* enter: for calls that come from anywhere: pins if the caller is a G.
 * Returns  the M, if it has a P; NULL on a thread or g0 without. outof undoes it. */
struct m *enter(struct g *self);
void outof(struct g *self);

/* sigdue, divert, pursues: core_config's. */
bool sigdue(const void *uc);

/* takes_notice: is sigdue to be called now? The flag is taken down. */
static inline bool takes_notice(struct g *gp)
{
	return !ld_rlx(&gp->held) && xchg_acq(&gp->sigdue, false);
}
void divert(void);
bool pursues(const struct g *gp, uintptr_t pc);

/* pin_slow: pin, after the CAS failed. */
struct m *pin_slow(struct g *gp);

/* ---- runq.c; by a policy all goes to the global queue ---- */

/* runqput: makes gp, which is GRUNNABLE, runnable on pp. With next it goes to the
 * runnext slot and kicks out who was there.
 * Context  pp's owner. */
void runqput(struct p *pp, struct g *gp, bool next);

/* runqputbatch: puts the n Gs of the list at the tail, what does not fit to the global
 * queue in one batch. Owner only. */
void runqputbatch(struct p *pp, struct g *list, int32_t n);

/* runqget: the next G of pp, or NULL; *inherit: it shares the running slice. Owner only. */
struct g *runqget(struct p *pp, bool *inherit);

/* runqsteal: moves half of victim's queue to pp and returns one of them, or NULL.
 * Context  pp's owner, pp's queue empty. */
struct g *runqsteal(struct p *pp, struct p *victim, bool stealnext);

/* runqempty: true if there was a moment at which pp had nothing. Anyone. */
bool runqempty(struct p *pp);

/* runqgrab: takes n = ceil(half) of victim's queue into to[to_at...]; anyone who owns to.
 * Returns  how many. */
uint32_t runqgrab(struct p *victim, struct p *to, uint32_t to_at, bool stealnext);

/* runqdrain: moves all of pp, whose owner is stopped, to the global queue.
 * Locks    sched.lock is held. */
void runqdrain_locked(struct p *pp);

/* steal_backoff: true if the thief has waited a little and should look anew, rather than
 * take what stands in victim's runnext. In steal.c. */
bool steal_backoff(struct p *victim, struct g *next);

/* ---- policies/: a policy in the queues' place; see policies/plan.h ----
 *
 * plan_put_locked: false: gp is not for it, and goes to the global queue's list. plan_get_locked:
 * for that P; NULL: there is none. plan_turn_locked: is it the policy's turn, if both have one?
 * plan_take_locked: that one, and no other; NULL: it is not there. plan_left: gp was left so; by
 * whoever stands there next (enum postkind). */
bool plan_put_locked(struct g *gp);
struct g *plan_get_locked(int32_t pid);
struct g *plan_take_locked(uint64_t goid, int32_t pid);
bool plan_turn_locked(void);
int32_t plan_queued_locked(void);
void plan_left(struct g *gp, int kind);

/* own_watch: by whoever waits for long for sched.lock. own_abort: by signal 32's handler: true: it
 * ended a call of the policy's. */
void own_watch(void);
bool own_abort(void *uc);

/* ---- globq.c: the global queue; all _locked need sched.lock ---- */
void globrunqput_locked(struct g *gp);
void globrunqputbatch_locked(struct gqueue *q, int32_t n);
/* Before all but those that were put so before. */
void globrunqputearly_locked(struct gqueue *q, int32_t n);

/* globrunqremove_locked: takes gp out, which stands behind `before` (NULL: at the head). */
void globrunqremove_locked(struct g *gp, struct g *before);

/* globrunqget_locked: the head, or NULL; by a policy what is best for that P. */
struct g *globrunqget_locked(const struct p *pp);

/* globrunqgetbatch_locked: as many as are pp's share, at most max: the first is returned,
 * the others are linked in *rest, *n of them. */
struct g *globrunqgetbatch_locked(const struct p *pp, int32_t max, struct g **rest, int32_t *n);

static inline void gqueue_push(struct gqueue *q, struct g *gp)
{
	gp->schedlink = NULL;
	if (q->tail)
		q->tail->schedlink = gp;
	else
		q->head = gp;
	q->tail = gp;
}

/* ---- schedule.c: who runs next ---- */

/* schedule: the loop of an M's g0. Does not return. */
void schedule(struct m *mp) __attribute__((noreturn));

/* leave: switches away from the running G, which must not look back until it is run
 * again; mp->post says what becomes of it. Returns when it is, pinned, on some M. */
void leave(struct m *mp, struct g *gp, enum postkind kind, bool (*fn)(struct g *, void *),
	   void *arg);

/* slice_ended: gp is made to give way, on pp, which it had. */
static inline void slice_ended(struct p *pp, struct g *gp)
{
	count(pp, preempts);
	/* Of a chain's slice it may have had no more than the end. */
	if (pp->chain == 0) {
		st_rlx(&gp->stoppedat, ld_rlx(&sched.now));
		st_rlx(&sched.stoppedat, nanotime());
	}
}

/* park: gopark for a caller that is pinned, and stays so. */
void park(struct m *mp, struct g *gp, bool (*unlockf)(struct g *, void *), void *arg,
	  enum waitreason reason);

/* finish_switch: does what the context before left to do. First thing after a switch. */
void finish_switch(struct m *mp);

/* await_parked: the wait of gp is ours to end, but gp may still be on its way into the park;
 * its M needs a few instructions for that. */
void await_parked(struct g *gp);

/* ready: makes a waiting G runnable; it runs next on mp's P, in this slice.
 * Context  pinned or g0, with a P. Order: see goready in core.h. */
void ready(struct m *mp, struct g *gp);

/* interrupt: gointerrupt for a caller that is pinned or on g0; mp has a P or is NULL. */
bool interrupt(struct m *mp, struct g *gp);

/* injectready: ready for those who hold no P: sysmon, foreign threads, a g0 without one. */
void injectready(struct g *gp);

/* injectglist: makes a list of n GWAITING Gs runnable: as many as there are idle Ps by
 * the global queue, the rest on mp's own P (all globally if mp has none). */
void injectglist(struct m *mp, struct glist *list);

/* ---- steal.c: findrunnable ---- */

/* findrunnable: a G to run, GRUNNABLE and on no queue. Puts the M to sleep until there is
 * one. *inherit as runqget; *wake: the G came by netpoll or timer, wake a further P. */
struct g *findrunnable(struct m *mp, bool *inherit, bool *wake);

/* wakep: one more M to look for work, if there is an idle P and nobody looks yet. */
void wakep(struct m *mp);

/* wakep_global: wakep for one that queued by a plain store: globally, and let go of
 * sched.lock, or at the tail of the local queue. */
void wakep_global(struct m *mp);
void resetspinning(struct m *mp);
void becomespinning(struct m *mp);

/* ---- mstart.c: kernel threads ---- */

/* startm: runs pp (NULL: any idle P) on an idle M or a new one, as a spinner if asked;
 * the caller counted it in nmspinning. If there is neither an M to be had nor a P, the
 * count and the P are given back.
 * Context  no lock held; g0, pinned, sysmon, or a foreign thread. */
void startm(struct p *pp, bool spinning);
void stopm(struct m *mp);
void handoffp(struct p *pp);

/* mcount_limit: HEDDLE_MAXTHREADS, in mcount: the starter is none of those counted. */
static inline int32_t mcount_limit(int32_t n)
{
	return n > 1 ? n - 1 : n;
}
void startlockedm(struct m *mp, struct g *gp);
void await_own(struct m *mp);

/* mstart_failed: there is no thread for an M that was counted already: pp, and the mark of a
 * spinner, go back. */
void mstart_failed(struct p *pp, bool spinning);

/* mbegin: the first that an M does which is to run Gs: it goes to work with the P that it was
 * given, or waits for that of the G that it is wired to. Context: on its g0. */
void mbegin(struct m *mp) __attribute__((noreturn));

/* mend: the end of an M that a G spoilt: what it holds goes to others. Context: on its g0. */
void mend(struct m *mp) __attribute__((noreturn));

/* ---- mlist.c ---- mput_locked: mp is idle; mget_locked: any that is, mtake_locked: mp, if it is,
 * is no longer. mpark: mp sleeps; mwait: an idle one, until it is given a P. */
void mput_locked(struct m *mp);
struct m *mget_locked(void);
bool mtake_locked(struct m *mp);
void mpark(struct m *mp);
void mwait(struct m *mp);

/* ---- plist.c: Ps and who holds them ---- */
void acquirep(struct m *mp, struct p *pp);
struct p *releasep(struct m *mp);
void pidleput_locked(struct p *pp);
struct p *pidleget_locked(void);

/* pidlegetspinning_locked: as pidleget; if there is none, the next M that goes idle with
 * a P becomes a spinner instead. */
struct p *pidlegetspinning_locked(void);

/* pidletake_locked: that P, if it is idle. */
bool pidletake_locked(struct p *pp);

/* wakesysmon: out of its deep sleep. hurrysysmon: a G waits for a P: if one is with
 * an M in a call, sysmon looks soon, and often. rousesysmon: if work waits, in mp's queue or
 * everyone's, and sysmon rests, it looks soon: for no P was idle. */
void wakesysmon(void);
void rousesysmon(struct m *mp);
void hurrysysmon(void);

/* ---- stw.c ---- */

/* gcstopm: gives mp's P up to procresize and sleeps until there is one for it again. */
void gcstopm(struct m *mp);

/* pstopped_locked: pp, which nobody holds, is one of those that had to stop. */
void pstopped_locked(struct p *pp);

/* procs_init: the first n Ps, mp on one of them. Returns 0 or -ENOMEM. */
int procs_init(struct m *mp, int n);
void procs_undo(struct m *mp);

/* ---- sigopen.c: signals without a handler, and who lets them in ----
 *
 * gmask_set: the mask of gp, which the caller runs as or has made; when it returns no kernel thread
 * lets in for gp's sake what gp blocks. Waits for others, who need no P.
 * sigopen_lost: those of set have no handler any more: nor does one let in for want of a G what the
 * first G blocks of them. For handlers too.
 * idle_begins: mp is on its g0, and runs no G. idle_shuts: of signal 32's handler there.
 * sigopen_look: in each round of sysmon's. sigopen_deep, sigopen_awake: about its deep sleep. */
void gmask_set(struct g *gp, uint64_t mask);
void sigopen_lost(uint64_t set);
void idle_shut(struct m *mp);
void idle_shuts(struct m *mp, void *uc);
void sigopen_look(uint64_t now);
void sigopen_deep(void);
void sigopen_awake(void);

/* 32 and 33. */
#define SIGS_OF_OURS ((uint64_t)3 << 31)

/* Is there perhaps something that mp lets in and no M without a G may, or blocks that none may? */
static inline bool idle_wrong(struct m *mp)
{
	uint64_t mask = ld_rlx(&mp->sigmask);

	return ((ld_sc(&sched.firstmask) & ~mask) | (mask & SIGS_OF_OURS)) != 0;
}

static inline void idle_begins(struct m *mp)
{
	if (unlikely(ld_rlx(&sched.nobarrier)))
		or_sc(&mp->sigmask, 0); /* a fence: see shut_idle */
	if (unlikely(idle_wrong(mp)))
		idle_shut(mp);
}

/* ---- glist.c: G structs ---- */
void glist_init(size_t tls);
struct g *gnew(void);
struct g *gagain(struct g *gp); /* new, of one of the process that forked */
void gfput(struct m *mp, struct g *gp);

/* gown: one of the core's own, dead, for gstart, that is on no free list and must end kept; NULL
 * without memory. */
struct g *gown(size_t stacksize);

/* m_of: the M that runs gp now; NULL: none does. */
struct m *m_of(const struct g *gp);

/* ---- gfree.c: dead Gs that serve again ----
 *
 * gfree_put: a G is free; on pp's list, whose owner the caller is, or (NULL) in the pool.
 * gfree_get: one with a stack of about that size and no less of a guard, or NULL.
 * gfree_bin: where the pool has hosted ones with such a stack. gfree_purge: all of pp's to the
 * pool. gfree_age: sysmon's, at each of its rounds; gfree_next: in what time it is to come by for
 * that; 0: it need not. */
void gfree_put(struct p *pp, struct g *gp);
struct g *gfree_get(struct p *pp, size_t size, size_t guard);
uint8_t gfree_bin(size_t stacksize, size_t guard);
void gfree_purge(struct p *pp);
void gfree_age(uint64_t now);
uint64_t gfree_next(void);

/* ---- timers.c ---- */
int timers_init(struct timers *ts, int32_t pid);

void timers_free(struct timers *ts);

/* timer_when: when, on the monotonic clock, that clock will show `at`; t keeps both, so that
 * it is found again if the clock is set meanwhile. timers_clockset: it was set. */
uint64_t timer_when(struct timer *t, int clock, uint64_t at);
void timers_clockset(void);

/* timer_arm: t ends the wait seq of gp at when.
 * Returns  0 or -ENOMEM.
 * Context  pinned, or g0 with a P. It may fire at once; who then readies gp waits for its
 *          park (await_parked). */
int timer_arm(struct m *mp, struct timer *t, uint64_t when, uint64_t seq, struct g *gp);

/* timer_disarm: t does not fire any more; its wait word may have been claimed before. */
void timer_disarm(struct timer *t);

/* checktimers: runs what is due on pp, readying on mp's own P. *now: 0 or the time, filled
 * in on demand; *until: lowered to the next deadline. True if any ran. */
bool checktimers(struct m *mp, struct p *pp, uint64_t *now, uint64_t *until);

/* timers_due: a look at the clock for the owner of pp: is there anything for checktimers? */
bool timers_due(struct p *pp);

/* runtimers_nop: the same for one without a P (sysmon); readied Gs go to *list. */
int runtimers_nop(struct p *pp, uint64_t now, struct glist *list);

/* timers_reserve: room for that many more; 0 or -ENOMEM. timers_move: all of from to to,
 * which has the room. */
uint32_t timers_count(struct timers *ts);
int timers_reserve(struct timers *ts, uint32_t more);
void timers_move(struct timers *from, struct timers *to);

/* timers_next: the earliest deadline of all Ps, 0 if none; timers_nextbusy: of those not idle,
 * whose Ms may not look in time. timers_tell: sysmon of such a one. timers_running: pp, which was
 * idle or left the choice to g0, runs a G now. */
uint64_t timers_next(void);
uint64_t timers_nextbusy(void);
void timers_tell(uint64_t first);

/* timers_orphaned: of an idle P's, for which there is no M. */
void timers_orphaned(uint64_t first);

static inline void timers_running(struct p *pp)
{
	uint64_t first = ld_rlx(&pp->timers.first);

	if (unlikely(first != 0))
		timers_tell(first);
}

/* wakenetpoller: somebody must look at the timers at when. */
void wakenetpoller(uint64_t when);

/* ---- the wait word ---- */

/* wait_begin: opens a wait of gp; returns its sequence number. */
static inline uint64_t wait_begin(struct g *gp)
{
	uint64_t seq = (ld_rlx(&gp->wait) >> WAIT_BITS) + 1;
	/* Release: pairs with the acquire in gointerrupt, which takes no lock. Who sees this wait
	 * must not see the GWAITING of the one before. */
	st_rel(&gp->wait, seq << WAIT_BITS | WAIT_PENDING);
	return seq;
}

/* wait_claim: true for the one who ends the wait, and so must ready the G. */
static inline bool wait_claim(struct g *gp, uint64_t seq, enum waitresult how)
{
	/* Acquire and release: the loser sees what the winner did before, and the G
	 * sees it too. */
	return cas_acqrel(&gp->wait, seq << WAIT_BITS | WAIT_PENDING, seq << WAIT_BITS | how);
}

static inline enum waitresult wait_result(const struct g *gp)
{
	return (enum waitresult)(ld_acq(&gp->wait) & ((1u << WAIT_BITS) - 1));
}

/* ---- sysmon.c, preempt.c ---- */
static inline bool on_sysmon(void)
{
	return getg() == &sched.sysmonm->g0;
}

void sysmon(void) __attribute__((noreturn));

/* ready_early: Gs that timer or poller made ready: to the head of the global queue, and as many of
 * the oldest slices end, by sysmon; false: a P is idle. Context: g0 without a P. */
bool ready_early(struct glist *list);

int preempt_init(bool enabled);

/* preemptone: asks that the G on pp, whose M burns cpu or makes calls, give way. False if there is
 * none. */
bool preemptone(struct p *pp);

/* preemptslice: the same of the slice with that schedtick; of a later one nothing is asked. */
bool preemptslice(struct p *pp, uint32_t tick);

/* preempt_on: a G can be stopped by signal 32. Constant once preempt_init has set it. */
extern bool preempt_on;

/* preempt_settle: on mp, whose G has announced a call: what was sent to it has been delivered; from
 * entersyscall. */
void preempt_settle(struct m *mp);

/* preemptlook: asks spin_seen about the G on pp. False if this cannot be. */
bool preemptlook(struct p *pp);
void preemptoffp(struct m *mp);

/* preempt_idle: signal 32 to an M that runs no G, for idle_shuts; false: it is not sent. */
bool preempt_idle(struct m *mp);

/* preempt_callout: gnotify_now of a G that is pursued and was seen on mp. */
void preempt_callout(struct m *mp, struct g *gp);
struct sigsave *sigsave_new(void);
void sigsave_free(struct sigsave *save);

/* preempt_minit: the signal stack of mp's kernel thread, which calls this. */
void preempt_minit(struct m *mp);

/* preempt_rebind: the frame at uc, of a handler, is to end on mp. */
void preempt_rebind(struct m *mp, void *uc);

/* preempt_undo: takes preempt_init and the caller's preempt_minit back. */
void preempt_undo(void);

/* ---- spin.c ---- */

/* spin_check: gp, in a slice on pp that is that old while others wait, may be spinning. Returns
 * after how many ns sysmon, which calls, is to come by; 0: it need not. spin_ended: forgets all.
 * spin_seen: signal 32 found gp at uc: true if it does, and is to give way; denied: it cannot. */
uint64_t spin_check(struct p *pp, struct m *mp, struct g *gp, uint64_t age, uint64_t now);
bool spin_seen(struct m *mp, struct g *gp, const void *uc, bool denied);
void spin_ended(struct g *gp);

/* ---- retake.c ---- */

/* retakeblocked: takes pp from its M if that M sleeps in the kernel without having said
 * so, and hands it off. Sysmon and stop-the-world only. */
bool retakeblocked(struct p *pp);

/* retakesyscall: the same for an M in an announced call. */
bool retakesyscall(struct p *pp);

/* retakeall: looks at every P: takes those whose M blocks, stops slices that are over. Returns
 * how many it took; *waits: some G waits for a P; *next: after how many ns it is to look again at
 * the latest. spare_blocked: pp's M sleeps, and keeps it for the limit's sake. check_offp: those
 * that run without a P since they came back from a block: an idle P, if there is one; else, if they
 * burn cpu, they must queue; true if there are any. Context  sysmon. */
int retakeall(uint64_t now, bool *waits, uint64_t *next);
bool spare_blocked(struct p *pp);
bool check_offp(void);

/* ---- core_forked ----
 * Each file's own: its state as in a process that has not begun. */
void futex_forked(void);
void netpoll_forked(void);
void preempt_forked(void);
void stack_forked(void);

/* ---- checkdead ---- */
void checkdead_locked(void);
void debug_init(int level);

/* ---- small things ---- */
static inline uint64_t fs_of(const struct g *gp, const struct m *mp)
{
	return gp->fsbase ? gp->fsbase : mp->g0.fsbase;
}

static inline bool on_g0(const struct g *gp)
{
	return gp->isg0;
}

#endif
