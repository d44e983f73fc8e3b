/* Mutexes: normal, recursive, error-checking and adaptive ones, private to the process.
 * The lock word, the owner and the count hold what glibc's would, so that debuggers and
 * static initialisers keep their meaning. Robust, priority-inheriting, priority-protecting
 * and shared ones are glibc's own (design section 7): see special_lock.
 *
 * The lock word: 0 free, 1 locked, 2 locked and somebody may wait, 3 the same, and the
 * oldest waiter has waited so long that the next unlock is to hand it the lock: the word
 * stays, and `granted` in the owner field is the token that whoever wakes takes. */
#include "mutex.h"

#include <errno.h>

#include "futex.h"
#include "os.h"
#include "thread.h"
#include "wire.h"

enum {
	FREE = 0,
	LOCKED = 1,
	CONTENDED = 2,
	STARVING = 3,
	GRANTED = 0x3fffffff, /* no tid */
	STARVED_NS = 1000 * 1000,
	KIND = 255, /* all but what glibc notes of lock elision */
	TID_MASK = 0x3fffffff,
	OWNER_MATTERS = 3, /* recursive, error-checking */
};

#define WORD(m) ((ATOMIC(uint32_t) *)&(m)->__data.__lock)
#define OWNER(m) ((ATOMIC(int32_t) *)&(m)->__data.__owner)

static inline bool take(pthread_mutex_t *m)
{
	/* Before the first thread exists nobody can be in the way. */
	if (__libc_single_threaded) {
		if (ld_rlx(WORD(m)) != FREE)
			return false;
		st_rlx(WORD(m), LOCKED);
		return true;
	}
	/* Acquire: pairs with the release in release(). */
	return cas_acq(WORD(m), FREE, LOCKED);
}

static bool take_granted(pthread_mutex_t *m)
{
	return ld_rlx(OWNER(m)) == GRANTED && cas_acq(OWNER(m), GRANTED, 0);
}

/* Go's two modes in one loop. */
static int lock_slow(pthread_mutex_t *m, const struct deadline *deadline, bool waited)
{
	uint64_t since = 0;
	bool starving = false;

	/* One that waited at the word already was woken there, perhaps with the token; and must
	 * not take the lock as if nobody else waited. */
	if (waited && take_granted(m)) {
		st_rlx(WORD(m), CONTENDED);
		return 0;
	}
	for (int i = 0; !waited && core_canspin(i); i++) {
		if (ld_rlx(WORD(m)) == FREE && cas_acq(WORD(m), FREE, LOCKED))
			return 0;
		core_dospin();
	}
	for (;;) {
		uint32_t word = ld_rlx(WORD(m));
		int r;

		if (word == FREE) {
			if (cas_acq(WORD(m), FREE, starving ? STARVING : CONTENDED))
				return 0;
			continue;
		}
		if (word == LOCKED || (starving && word == CONTENDED)) {
			uint32_t want = starving ? STARVING : CONTENDED;
			if (!cas_rlx(WORD(m), word, want))
				continue;
			word = want;
		}
		if (since == 0)
			since = nanotime();
		r = futex_wait(WORD(m), word, (uint32_t)FUTEX_ANY, deadline,
			       starving ? FUTEX_LIFO : 0);
		if (take_granted(m)) {
			/* Handed over in the locked state. Not starving any more, if the
			 * next has not waited as long; it will say so itself. */
			st_rlx(WORD(m), CONTENDED);
			return 0;
		}
		if (r == -ETIMEDOUT)
			return ETIMEDOUT;
		/* Where the order is a seed's, time has no say in it. */
		starving = heddle_mode != POINTS && nanotime() - since > STARVED_NS;
	}
}

static __attribute__((noinline)) int wake_one(pthread_mutex_t *m)
{
	futex_wake(WORD(m), 1, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
	return 0;
}

static __attribute__((noinline)) int hand_over(pthread_mutex_t *m)
{
	if (futex_hand(WORD(m), OWNER(m), GRANTED))
		return 0;
	/* Nobody waited; it is ours still. */
	return xchg_sc(WORD(m), FREE) > LOCKED ? wake_one(m) : 0;
}

static __attribute__((noinline)) int release_slow(pthread_mutex_t *m)
{
	if (unlikely(ld_rlx(WORD(m)) == STARVING))
		return hand_over(m);
	if (unlikely(xchg_sc(WORD(m), FREE) > LOCKED))
		return wake_one(m);
	return 0;
}

/* Returns 0, as unlock is to: its last act. */
static inline int release(pthread_mutex_t *m)
{
	if (__libc_single_threaded) {
		st_rlx(WORD(m), FREE);
		return 0;
	}
	if (likely(cas_sc(WORD(m), LOCKED, FREE)))
		return 0;
	return release_slow(m);
}

static inline void own(pthread_mutex_t *m, pid_t tid)
{
	st_rlx(OWNER(m), tid);
	m->__data.__nusers++;
}

static inline void disown(pthread_mutex_t *m)
{
	st_rlx(OWNER(m), 0);
	m->__data.__nusers--;
}

/* ---- glibc's own kinds ---- */

static bool is_special(const pthread_mutex_t *m)
{
	return (m->__data.__kind & KIND) > PTHREAD_MUTEX_ADAPTIVE_NP;
}

/* glibc's bits of __kind. */
enum { ROBUST = 16, INHERIT = 32, PROTECT = 64, SHARED = 128 };

static bool needs_true_tid(const pthread_mutex_t *m)
{
	int kind = m->__data.__kind;

	return (kind & (INHERIT | PROTECT)) ||
	       ((kind & SHARED) && (kind & (ROBUST | OWNER_MATTERS)));
}

/* As glibc leaves one whose owner died: until it is made consistent, and with the dead owner still
 * counted in its user's place. */
static int inherited(pthread_mutex_t *m)
{
	enum { INCONSISTENT = 0x7fffffff };
	int both = ROBUST | INHERIT;

	if ((m->__data.__kind & both) != both || likely(!robust_orphan(m)))
		return 0;
	st_rlx(OWNER(m), INCONSISTENT);
	m->__data.__nusers--;
	return EOWNERDEAD;
}

enum how { LOCK, TRY, TIMED, UNLOCK };

static int special(pthread_mutex_t *m, enum how how, clockid_t clock, const struct timespec *until)
{
	struct thread *t = thread_self();
	bool wait = t && (how == LOCK || how == TIMED);
	int r;

	/* The kernel, or another process, goes by the tid of the kernel thread. */
	if (needs_true_tid(m)) {
		if (!t)
			wire_first();
		else
			thread_own_tid(t);
		if (t && (m->__data.__kind & PROTECT))
			ceiling_begins(t);
	}

	/* glibc's trylock keeps a robust one that is beyond recovery. */
	if (wait && !(m->__data.__kind & ROBUST)) {
		r = real_table.pthread_mutex_trylock(m);
		if (r != EBUSY)
			return r == 0 ? inherited(m) : r;
	}
	if (wait && ld_rlx(WORD(m)) != FREE)
		wait_enter();
	else if (wait)
		entersyscall();
	r = how == LOCK	   ? real_table.pthread_mutex_lock(m)
	    : how == TRY   ? real_table.pthread_mutex_trylock(m)
	    : how == TIMED ? real_table.pthread_mutex_clocklock(m, clock, until)
			   : real_table.pthread_mutex_unlock(m);
	if (wait)
		exitsyscall();
	return r == 0 && how != UNLOCK ? inherited(m) : r;
}

/* ---- the calls ---- */

/* One that owns its kernel thread's tid had another, perhaps while it locked this one. */
static bool is_mine(const pthread_mutex_t *m, pid_t tid)
{
	struct thread *t;

	if (likely(ld_rlx(OWNER(m)) == tid))
		return true;
	t = thread_self();
	return t && t->owns && ld_rlx(OWNER(m)) == t->tid;
}

/* What a kind does when its owner locks it again: -1: lock, as others. */
static int relock(pthread_mutex_t *m, pid_t tid, bool try)
{
	int kind = m->__data.__kind & OWNER_MATTERS;

	if (!is_mine(m, tid))
		return -1;
	if (kind == PTHREAD_MUTEX_RECURSIVE_NP) {
		if (m->__data.__count + 1 == 0)
			return EAGAIN;
		m->__data.__count++;
		return 0;
	}
	if (kind == PTHREAD_MUTEX_ERRORCHECK_NP)
		return try ? EBUSY : EDEADLK;
	return -1;
}

static int lock_kind(pthread_mutex_t *m, const struct deadline *deadline)
{
	pid_t tid = id_self();
	int r;

	if ((r = relock(m, tid, false)) >= 0)
		return r;
	if (!take(m) && (r = lock_slow(m, deadline, false)) > 0)
		return r;
	if ((m->__data.__kind & KIND) == PTHREAD_MUTEX_RECURSIVE_NP)
		m->__data.__count = 1;
	own(m, tid);
	return 0;
}

/* The short roads of lock and unlock are for a normal mutex that nobody waits for. All others are
 * calls in the last place, so that the short ones keep no register for them. */
#define LAST_RESORT static __attribute__((noinline))

LAST_RESORT int lock_other(pthread_mutex_t *m)
{
	if (unlikely(!served()))
		return real_table.pthread_mutex_lock(m);
	return is_special(m) ? special(m, LOCK, 0, NULL) : lock_kind(m, NULL);
}

LAST_RESORT int lock_waits(pthread_mutex_t *m)
{
	lock_slow(m, NULL, false);
	own(m, id_self());
	return 0;
}

static inline bool is_normal(const pthread_mutex_t *m)
{
	return heddle_mode == SERVING && (m->__data.__kind & KIND) == PTHREAD_MUTEX_TIMED_NP;
}

EXPORT GIVES int pthread_mutex_lock(pthread_mutex_t *m)
{
	pid_t tid;

	/* served() is asked there, too. */
	if (unlikely(!is_normal(m)))
		return lock_other(m);
	/* Before it is taken: a locked instruction lets none begin before its end. */
	tid = id_self();
	if (unlikely(!take(m)))
		return lock_waits(m);
	own(m, tid);
	return 0;
}

EXPORT GIVES int pthread_mutex_trylock(pthread_mutex_t *m)
{
	pid_t tid;
	int r;

	if (unlikely(!served()))
		return real_table.pthread_mutex_trylock(m);
	if (is_special(m))
		return special(m, TRY, 0, NULL);
	tid = id_self();
	if ((r = relock(m, tid, true)) >= 0)
		return r;
	if (!take(m))
		return EBUSY;
	if ((m->__data.__kind & KIND) == PTHREAD_MUTEX_RECURSIVE_NP)
		m->__data.__count = 1;
	own(m, tid);
	return 0;
}

EXPORT GIVES int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
					 const struct timespec *until)
{
	struct deadline d;
	int r;

	if (unlikely(!served()))
		return real_table.pthread_mutex_clocklock(m, clock, until);
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	if (is_special(m))
		return special(m, TIMED, clock, until);
	if ((r = relock(m, id_self(), false)) >= 0)
		return r;
	if ((r = deadline_of(&d, clock, until)) == 0)
		return lock_kind(m, &d);
	/* A free lock is taken whatever the time says. */
	return pthread_mutex_trylock(m) == 0 ? 0 : r;
}

EXPORT GIVES int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until)
{
	if (unlikely(!served()))
		return real_table.pthread_mutex_timedlock(m, until);
	return pthread_mutex_clocklock(m, CLOCK_REALTIME, until);
}

LAST_RESORT int unlock_other(pthread_mutex_t *m)
{
	int kind = m->__data.__kind & KIND;

	if (unlikely(!served()))
		return real_table.pthread_mutex_unlock(m);
	if (is_special(m))
		return special(m, UNLOCK, 0, NULL);
	if (kind & OWNER_MATTERS && kind != PTHREAD_MUTEX_ADAPTIVE_NP && !is_mine(m, id_self()))
		return EPERM;
	if (kind == PTHREAD_MUTEX_RECURSIVE_NP && --m->__data.__count != 0)
		return 0;
	disown(m);
	release(m);
	released();
	return 0;
}

EXPORT GIVES int pthread_mutex_unlock(pthread_mutex_t *m)
{
	/* served() is asked there, too. */
	if (unlikely(!is_normal(m)))
		return unlock_other(m);
	disown(m);
	return release(m);
}

EXPORT GIVES int __pthread_mutex_lock(pthread_mutex_t *m)
{
	return pthread_mutex_lock(m);
}

EXPORT GIVES int __pthread_mutex_trylock(pthread_mutex_t *m)
{
	return pthread_mutex_trylock(m);
}

EXPORT GIVES int __pthread_mutex_unlock(pthread_mutex_t *m)
{
	return pthread_mutex_unlock(m);
}

/* ---- for condition variables ---- */

ATOMIC(uint32_t) *mutex_word(pthread_mutex_t *m)
{
	return is_special(m) ? NULL : WORD(m);
}

int mutex_may_wait(pthread_mutex_t *m)
{
	int kind = m->__data.__kind & KIND;

	if (!(kind & OWNER_MATTERS) || (kind & OWNER_MATTERS) == PTHREAD_MUTEX_ADAPTIVE_NP)
		return 0;
	/* There the word holds the tid. */
	if (kind & (ROBUST | INHERIT))
		return (pid_t)(ld_rlx(WORD(m)) & TID_MASK) == tid_self() ? 0 : EPERM;
	return is_mine(m, is_special(m) ? tid_self() : id_self()) ? 0 : EPERM;
}

/* Relaxed: nobody but the caller lets go of it, and others only say that they wait. */
static void say_contended(ATOMIC(uint32_t) *word)
{
	if (ld_rlx(word) == LOCKED)
		cas_rlx(word, LOCKED, CONTENDED);
}

bool mutex_keeps(ATOMIC(uint32_t) *word)
{
	pthread_mutex_t *m = (pthread_mutex_t *)((char *)word -
						 offsetof(pthread_mutex_t, __data.__lock));

	if (ld_rlx(OWNER(m)) != id_self())
		return false;
	say_contended(word);
	return true;
}

bool mutex_nested(const pthread_mutex_t *m)
{
	return (m->__data.__kind & KIND) == PTHREAD_MUTEX_RECURSIVE_NP && m->__data.__count > 1;
}

ATOMIC(uint32_t) *mutex_letgo(pthread_mutex_t *m, uint32_t *depth)
{
	/* Who waits is still a user of it, for pthread_mutex_destroy. */
	if (is_special(m)) {
		m->__data.__nusers++;
		real_table.pthread_mutex_unlock(m);
		return NULL;
	}
	*depth = m->__data.__count;
	if (unlikely(mutex_nested(m))) {
		m->__data.__count--;
		return NULL;
	}
	m->__data.__count = 0;
	st_rlx(OWNER(m), 0);
	if (ld_rlx(WORD(m)) == STARVING) {
		/* As hand_over; the caller wakes. With a token and nobody to take it the
		 * next to come does. */
		st_rlx(WORD(m), CONTENDED);
	}
	return xchg_rel(WORD(m), FREE) > LOCKED ? WORD(m) : NULL;
}

int mutex_getback(pthread_mutex_t *m, uint32_t depth, bool chained)
{
	if (is_special(m)) {
		int r = special(m, LOCK, 0, NULL);
		if (r == 0 || r == EOWNERDEAD)
			m->__data.__nusers--;
		return r;
	}
	if (unlikely(depth > 1)) {
		m->__data.__count = depth;
		if (chained)
			say_contended(WORD(m));
		return 0;
	}
	if (!cas_acq(WORD(m), FREE, chained ? CONTENDED : LOCKED))
		lock_slow(m, NULL, chained);
	m->__data.__count = depth;
	st_rlx(OWNER(m), id_self());
	return 0;
}
