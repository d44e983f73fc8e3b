/* Read-write locks, private to the process. Process-shared ones are glibc's own (rwshared.c).
 *
 * The state word: readers that hold it, WRITER, and QUEUED while anybody waits, which sends
 * whoever unlocks last to dispatch(). Everything about waiters happens under the guard.
 *
 * Whoever is woken has to try for the lock: were it his from then on, all others would come to wait
 * for one that does not run yet, and he for them, and no two would meet without a wait again. But
 * others may go before him; so once one has waited for long, the lock is handed over. */
#include <errno.h>
#include <sched.h>

#include "cpu.h"
#include "futex.h"
#include "guard.h"
#include "os.h"
#include "rwshared.h"
#include "thread.h"

#define WRITER (1u << 31)
#define QUEUED (1u << 30)
#define READERS (QUEUED - 1)

#define STATE(l) ((ATOMIC(uint32_t) *)&(l)->__data.__readers)
#define WRITERS(l) ((ATOMIC(uint32_t) *)&(l)->__data.__writers)
#define WAITING(l) ((ATOMIC(uint32_t) *)&(l)->__data.__wrphase_futex)
#define GUARD(l) ((ATOMIC(uint32_t) *)&(l)->__data.__writers_futex)
#define OWNER(l) ((ATOMIC(int32_t) *)&(l)->__data.__cur_writer)
/* A writer was woken and has not come yet; one has waited for long, by_writer() if it writes: both
 * are mark() or mean nothing, as what a fork's parent left there. */
#define CALLED(l) ((ATOMIC(uint32_t) *)&(l)->__data.__pad3)
#define STARVES(l) ((ATOMIC(uint32_t) *)&(l)->__data.__pad4)
/* So many readers hold it and do not know yet. */
#define GRANTS(l) ((ATOMIC(unsigned long) *)&(l)->__data.__pad2)

enum {
	GRANTED = -1, /* no tid: of a writer who holds it and does not know yet */
	STARVED_NS = 1000 * 1000,
};

static uint32_t mark(void)
{
	return ld_rlx(&once_forks) | 1;
}

static bool is_shared(const pthread_rwlock_t *l)
{
	return l->__data.__shared != 0;
}

static bool writers_first(const pthread_rwlock_t *l)
{
	return l->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

/* Was a writer called who goes before all readers? */
static bool writer_comes(pthread_rwlock_t *l)
{
	return writers_first(l) && ld_rlx(CALLED(l)) == mark();
}

/* Can a reader enter in that state? */
static bool open_to_readers(pthread_rwlock_t *l, uint32_t s)
{
	if (s & WRITER)
		return false;
	return !(s & QUEUED) || !writers_first(l) || (ld_rlx(WRITERS(l)) == 0 && !writer_comes(l));
}

static bool try_read(pthread_rwlock_t *l)
{
	for (;;) {
		uint32_t s = ld_rlx(STATE(l));
		if (!open_to_readers(l, s))
			return false;
		/* Acquire: pairs with the release in unlock. */
		if (cas_acq(STATE(l), s, s + 1))
			return true;
	}
}

static bool try_write(pthread_rwlock_t *l, uint32_t allowed)
{
	for (;;) {
		uint32_t s = ld_rlx(STATE(l));
		if (s & ~allowed)
			return false;
		if (cas_acq(STATE(l), s, s | WRITER)) {
			st_rlx(OWNER(l), id_self());
			return true;
		}
	}
}

/* The other bit below the number of forks. */
static uint32_t by_writer(void)
{
	return mark() | 2;
}

static bool hands_over(pthread_rwlock_t *l)
{
	return ld_rlx(STARVES(l)) == mark() || ld_rlx(STARVES(l)) == by_writer();
}

/* Locks: the guard. */
static void starves(pthread_rwlock_t *l, bool write)
{
	if (write)
		st_rlx(STARVES(l), by_writer());
	else if (!hands_over(l))
		st_rlx(STARVES(l), mark());
}

/* While it holds the guard no handler runs on a thread: that may last, or wait for one that wants
 * to lock, or unlock, here. */
static void enter(pthread_rwlock_t *l)
{
	ghold();
	guard_lock(GUARD(l));
}

static void leave(pthread_rwlock_t *l)
{
	guard_unlock(GUARD(l));
	gunhold();
}

/* Locks: the guard. Whoever is woken: is it his? He holds it, or has to try. */
static bool granted(pthread_rwlock_t *l, bool write)
{
	if (!write) {
		if (ld_rlx(GRANTS(l)) == 0)
			return false;
		st_rlx(GRANTS(l), ld_rlx(GRANTS(l)) - 1);
		return true;
	}
	st_rlx(CALLED(l), 0);
	/* Kept for him alone, QUEUED would send him to dispatch() when he unlocks, and there
	 * nothing would keep the object alive but the guard. */
	if (ld_rlx(WAITING(l)) == 0 && ld_rlx(WRITERS(l)) == 0)
		and_sc(STATE(l), ~QUEUED);
	if (ld_rlx(OWNER(l)) != GRANTED)
		return false;
	st_rlx(OWNER(l), id_self());
	return true;
}

/* Locks: the guard. A writer, or n readers, are to try. Returns how many were woken. */
static uint32_t call(pthread_rwlock_t *l, uint32_t n)
{
	if (n != 0)
		return (uint32_t)queue_wake(WAITING(l), (int)n);
	if (ld_rlx(CALLED(l)) == mark())
		return 0;
	st_rlx(CALLED(l), mark());
	if (queue_wake(WRITERS(l), 1) == 1)
		return 1;
	st_rlx(CALLED(l), 0);
	return 0;
}

/* The same where the lock is theirs: it is counted so already. */
static uint32_t hand_over(pthread_rwlock_t *l, uint32_t n)
{
	bool write = n == 0;
	uint32_t woken = (uint32_t)queue_wake(write ? WRITERS(l) : WAITING(l), write ? 1 : (int)n);

	/* Readers that a starving writer went before are next. */
	if (woken != 0)
		st_rlx(STARVES(l), write && ld_rlx(WAITING(l)) != 0 ? mark() : 0);
	if (!write) {
		st_rlx(GRANTS(l), ld_rlx(GRANTS(l)) + woken);
		add_sc(STATE(l), woken - n);
	} else if (woken == 1) {
		st_rlx(OWNER(l), GRANTED);
	} else {
		and_sc(STATE(l), ~WRITER);
	}
	return woken;
}

/* Locks: the guard. The lock is for those who wait, if it is free. Who counts as waiting and cannot
 * be woken is leaving, for his time was up, and comes by here; or did not come along in a fork, and
 * is not counted any more. */
static void dispatch(pthread_rwlock_t *l)
{
	for (;;) {
		uint32_t s = ld_rlx(STATE(l)), n = ld_rlx(WAITING(l)), w = ld_rlx(WRITERS(l));
		bool hands = hands_over(l), write;
		uint32_t woken;

		write = w != 0 && (n == 0 || writers_first(l) || ld_rlx(STARVES(l)) == by_writer());

		if (writer_comes(l))
			return;
		if (n == 0 && w == 0) {
			/* Who starved gave up. */
			st_rlx(STARVES(l), 0);
			if (cas_rlx(STATE(l), s, s & ~QUEUED))
				return;
			continue;
		}
		if ((s & WRITER) || ((s & READERS) && (write || n == 0)))
			return;
		if (hands && !cas_acq(STATE(l), s, write ? s | WRITER : s + n))
			continue;
		woken = hands ? hand_over(l, write ? 0 : n) : call(l, write ? 0 : n);
		if (woken == 0 && ld_rlx(WAITING(l)) == n && ld_rlx(WRITERS(l)) == w)
			return;
	}
}

/* Whoever holds it may be about to let go; of those that hold it for a moment, one after the other,
 * many looks find the moment between two. */
static bool spin(pthread_rwlock_t *l, bool write)
{
	enum { LOOKS = 30 };

	for (int i = 0; core_canspin(i); i++) {
		for (int j = 0; j < LOOKS; j++) {
			if (write ? !hands_over(l) && try_write(l, QUEUED) : try_read(l))
				return true;
			arch_relax();
		}
	}
	return false;
}

static int wait_turn(pthread_rwlock_t *l, bool write, const struct deadline *deadline)
{
	ATOMIC(uint32_t) *queue = write ? WRITERS(l) : WAITING(l);
	uint64_t since = nanotime();

	for (bool starving = false, woken = false;;) {
		uint32_t s;
		bool had;
		int r;

		enter(l);
		for (;;) {
			s = ld_rlx(STATE(l));
			if (write ? try_write(l, QUEUED) : try_read(l)) {
				leave(l);
				return 0;
			}
			if ((s & QUEUED) || cas_rlx(STATE(l), s, s | QUEUED))
				break;
		}
		/* It may have become free as QUEUED was set; whoever freed it saw none. Or those
		 * who are to be seen to did not come along in a fork. */
		if ((s & (WRITER | READERS)) == 0 && !writer_comes(l)) {
			dispatch(l);
			leave(l);
			/* To one that is leaving, and counts until he has. */
			sched_yield();
			continue;
		}
		if (starving)
			starves(l, write);
		r = queue_wait(queue, deadline, woken, guard_letgo, NULL, (void *)GUARD(l), NULL,
			       NULL);
		enter(l);
		had = r == 0 && granted(l, write);
		if (r != 0)
			dispatch(l);
		leave(l);
		if (had || (r == 0 && spin(l, write)))
			return 0;
		if (r == -ETIMEDOUT)
			return ETIMEDOUT;
		/* He keeps his place: behind others the next turn that is handed over would be one
		 * of theirs, and he be called again. */
		woken = woken || r == 0;
		/* Where the order is a seed's, time has no say in it. */
		starving = heddle_mode != POINTS && woken && nanotime() - since > STARVED_NS;
	}
}

static int lock_it(pthread_rwlock_t *l, bool write, const struct deadline *d)
{
	if (write ? try_write(l, 0) : try_read(l))
		return 0;
	if (ld_rlx(OWNER(l)) == id_self())
		return EDEADLK;
	return spin(l, write) ? 0 : wait_turn(l, write, d);
}

/* The short roads are for a private lock that nobody waits for, as those of a mutex (mutex.c). */
#define LAST_RESORT static __attribute__((noinline))

static inline bool is_own(const pthread_rwlock_t *l)
{
	return heddle_mode == SERVING && !is_shared(l);
}

LAST_RESORT int rdlock_other(pthread_rwlock_t *l)
{
	if (!served())
		return real_table.pthread_rwlock_rdlock(l);
	return is_shared(l) ? rwshared_lock(l, false, 0, NULL) : lock_it(l, false, NULL);
}

EXPORT GIVES int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	uint32_t s;

	if (unlikely(!is_own(l)))
		return rdlock_other(l);
	s = ld_rlx(STATE(l));
	/* As in try_read. */
	if (likely(!(s & (WRITER | QUEUED))) && likely(cas_acq(STATE(l), s, s + 1)))
		return 0;
	return rdlock_other(l);
}

LAST_RESORT int wrlock_other(pthread_rwlock_t *l)
{
	if (!served())
		return real_table.pthread_rwlock_wrlock(l);
	return is_shared(l) ? rwshared_lock(l, true, 0, NULL) : lock_it(l, true, NULL);
}

EXPORT GIVES int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	pid_t id;

	if (unlikely(!is_own(l)))
		return wrlock_other(l);
	id = id_self();
	/* As in try_write. */
	if (unlikely(!cas_acq(STATE(l), 0, WRITER)))
		return wrlock_other(l);
	st_rlx(OWNER(l), id);
	return 0;
}

EXPORT GIVES int pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
	if (!served() || is_shared(l))
		return real_table.pthread_rwlock_tryrdlock(l);
	return try_read(l) ? 0 : EBUSY;
}

EXPORT GIVES int pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
	if (!served())
		return real_table.pthread_rwlock_trywrlock(l);
	if (is_shared(l))
		return rwshared_trywrlock(l);
	return try_write(l, 0) ? 0 : EBUSY;
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock,
				      const struct timespec *until)
{
	struct deadline d;
	int r;

	if (!served())
		return real_table.pthread_rwlock_clockrdlock(l, clock, until);
	/* Before the look, as glibc has it: a time or clock that is none is an error always. */
	r = deadline_of(&d, clock, until);
	if (r != 0)
		return r;
	return is_shared(l) ? rwshared_lock(l, false, clock, until) : lock_it(l, false, &d);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock,
				      const struct timespec *until)
{
	struct deadline d;
	int r;

	if (!served())
		return real_table.pthread_rwlock_clockwrlock(l, clock, until);
	/* Before the look, as glibc has it: a time or clock that is none is an error always. */
	r = deadline_of(&d, clock, until);
	if (r != 0)
		return r;
	return is_shared(l) ? rwshared_lock(l, true, clock, until) : lock_it(l, true, &d);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *until)
{
	if (!served())
		return real_table.pthread_rwlock_timedrdlock(l, until);
	return pthread_rwlock_clockrdlock(l, CLOCK_REALTIME, until);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *until)
{
	if (!served())
		return real_table.pthread_rwlock_timedwrlock(l, until);
	return pthread_rwlock_clockwrlock(l, CLOCK_REALTIME, until);
}

/* Without a word to those who wait: there are none, or other readers stay and will see to them. */
static inline bool may_leave(uint32_t s)
{
	return likely(!(s & QUEUED)) || (s & READERS) > 1;
}

/* Release: pairs with the acquire of whoever locks next. */
static inline bool let_go(pthread_rwlock_t *l, uint32_t s)
{
	return likely(cas_rel(STATE(l), s, s & WRITER ? s & ~WRITER : s - 1));
}

LAST_RESORT int unlock_other(pthread_rwlock_t *l)
{
	uint32_t s;

	if (!served() || is_shared(l))
		return real_table.pthread_rwlock_unlock(l);
	if (ld_rlx(STATE(l)) & WRITER)
		st_rlx(OWNER(l), 0);
	for (;;) {
		s = ld_rlx(STATE(l));
		if (may_leave(s)) {
			if (let_go(l, s))
				break;
			continue;
		}
		/* Who waits needs the guard, too, and so it keeps the object alive until dispatch()
		 * is through with it. */
		enter(l);
		s = ld_rlx(STATE(l));
		if (s & QUEUED) {
			while (!let_go(l, s))
				s = ld_rlx(STATE(l));
			dispatch(l);
			leave(l);
			break;
		}
		/* They gave up; the next need not take the guard, and may be the last. */
		leave(l);
	}
	released();
	return 0;
}

EXPORT GIVES int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	uint32_t s;

	if (unlikely(!is_own(l)))
		return unlock_other(l);
	s = ld_rlx(STATE(l));
	if (unlikely(!may_leave(s)))
		return unlock_other(l);
	if (s & WRITER)
		st_rlx(OWNER(l), 0);
	return let_go(l, s) ? 0 : unlock_other(l);
}

EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr)
{
	served();
	return real_table.pthread_rwlock_init(l, attr);
}

EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *l)
{
	served();
	return real_table.pthread_rwlock_destroy(l);
}

EXPORT GIVES int __pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	return pthread_rwlock_rdlock(l);
}

EXPORT GIVES int __pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	return pthread_rwlock_wrlock(l);
}

EXPORT GIVES int __pthread_rwlock_tryrdlock(pthread_rwlock_t *l)
{
	return pthread_rwlock_tryrdlock(l);
}

EXPORT GIVES int __pthread_rwlock_trywrlock(pthread_rwlock_t *l)
{
	return pthread_rwlock_trywrlock(l);
}

EXPORT GIVES int __pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	return pthread_rwlock_unlock(l);
}
