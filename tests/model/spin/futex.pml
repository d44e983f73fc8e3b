/* The futex: waiters, wakers, requeues and deadlines over buckets of waiters.
 *
 * Promise   Whoever changes the value and then wakes finds each waiter that read the old
 *           one; a wake of one wakes one, if there is one; a waiter is in no queue, and
 *           under nobody's hand, once its wait has returned; no deadlock; nwait is exact
 *           when all is over (WS_S2, GMP_G4).
 * Mirrors   futex.c: futex_wait, wait_g, unlink_late, lock_bucket_of, futex_wake,
 *           wake_locked, futex_requeue.
 * Left out  the park itself (park.pml): enqueueing, saving the context and GWAITING are one
 *           step, the lock is released after it. The order within a queue: a wake takes
 *           any waiter. Bitsets, kernel threads that are no Ms, signals (they end a wait
 *           as a deadline does).
 *
 * The waker's store to the futex word goes through a store buffer of one place: it reaches
 * memory at any later moment, but before the next locked instruction of the waker. So a
 * missing fence can be seen to matter. All other words are sequentially consistent. */

#ifndef NW
#define NW 2		/* waiters; the last has a deadline if TIMED */
#endif
#ifndef NB
#define NB 2		/* buckets; with one, both addresses share it */
#endif
#ifndef TIMED
#define TIMED 1
#endif
#ifndef REQUEUES
#define REQUEUES 0	/* 1: from A to B; 2: also back */
#endif
#define A 0
#define B 1
#define NONE 9
#define ALL 99

#define BUCKET(addr) ((addr) % NB)

mtype = { PENDING, READY, TIMEOUT };

byte mem[2];		/* A and B */
bool buffered;		/* the waker's store of 1 to A has not reached memory */
byte nwait[NB];
bool lock[NB];

/* The waiters. */
mtype word[NW];
byte link[NW] = NONE;	/* the bucket in whose queue it is */
byte addr[NW];
byte bucket[NW];
bool parked[NW];
bool gone[NW];		/* returned: its struct is no more */
bool isready[NW];
byte over;		/* wakers and requeuers that are through */

#define LOCK(b) atomic { !lock[b] -> lock[b] = true }
#define UNLOCK(b) lock[b] = false

/* Lock held. None of this may touch a waiter that has returned. */
inline wake_locked(b, w) {
	atomic { assert(!gone[w] && link[w] == b); link[w] = NONE };
	nwait[b]--;
	atomic {
		assert(!gone[w]);
		if
		:: word[w] == PENDING -> word[w] = READY; n++; woken[w] = true
		:: else
#ifdef MUT_countdead
			-> n++
#endif
		fi
	}
}

/* To n of those on address a. Lock held. */
inline wake_some_locked(b, a, most) {
	n = 0;
	do
	:: n < most && link[0] == b && addr[0] == a -> wake_locked(b, 0)
	:: n < most && link[1] == b && addr[1] == a -> wake_locked(b, 1)
	:: n >= most || ((link[0] != b || addr[0] != a) && (link[1] != b || addr[1] != a)) -> break
	od;
	assert(woken[0] + woken[1] >= most ||
	       ((link[0] != b || addr[0] != a) && (link[1] != b || addr[1] != a)));
	n = 0
}

/* ready(), once the locks are released. */
inline ready_all() {
	atomic {
		if
		:: woken[0] -> isready[0] = true; woken[0] = false
		:: else
		fi;
		if
		:: woken[1] -> isready[1] = true; woken[1] = false
		:: else
		fi
	}
}

inline wake(a, most) {
	/* A read-modify-write: so the store is out. */
#ifdef MUT_nofence
	n = nwait[BUCKET(a)];
#else
	atomic { !buffered -> n = nwait[BUCKET(a)] };
#endif
	if
	:: n != 0 ->
		atomic { !lock[BUCKET(a)] && !buffered -> lock[BUCKET(a)] = true };
		wake_some_locked(BUCKET(a), a, most);
		UNLOCK(BUCKET(a));
		ready_all()
	:: else
	fi
}

/* Changes A and wakes one, then the rest. */
proctype Waker() {
	byte n;
	bool woken[2];

	buffered = true;
	wake(A, 1);
	wake(A, ALL);
	over++
}

proctype StoreBuffer() {
end_none:
	atomic { buffered -> mem[A] = 1; buffered = false }
}

/* All on `from` go to `to`. */
proctype Requeuer(byte from; byte to; byte low; byte high) {
	byte w;

#ifdef MUT_unordered
	atomic { low = BUCKET(from); high = BUCKET(to) };
#endif
	LOCK(low);
	if
	:: high != low -> LOCK(high)
	:: else
	fi;
	do
	:: w < NW && link[w] == BUCKET(from) && addr[w] == from ->
		link[w] = NONE;
#ifndef MUT_uncounted
		nwait[BUCKET(to)]++;
#endif
		addr[w] = to;
		bucket[w] = BUCKET(to);
		link[w] = BUCKET(to);
#ifndef MUT_uncounted
		nwait[BUCKET(from)]--;
#endif
		w++
	:: w < NW && (link[w] != BUCKET(from) || addr[w] != from) -> w++
	:: w == NW -> break
	od;
	if
	:: high != low -> UNLOCK(high)
	:: else
	fi;
	UNLOCK(low);
	over++
}

/* When the others are through, and all they wrote is out: for those that were requeued. */
proctype LastWaker() {
	byte n;
	bool woken[2];

	over == 1 + REQUEUES && !buffered;
	if
	:: REQUEUES > 1 -> wake(A, ALL)
	:: else
	fi;
	wake(B, ALL)
}

proctype Waiter(byte w) {
	byte b;

#ifdef MUT_look_before_count
	if
	:: mem[A] != 0 -> goto out
	:: else
	fi;
#endif
	nwait[BUCKET(A)]++;
#ifdef MUT_look_before_lock
	if
	:: mem[A] != 0 -> nwait[BUCKET(A)]--; goto out
	:: else
	fi;
#endif
	LOCK(BUCKET(A));
#if !defined(MUT_look_before_count) && !defined(MUT_look_before_lock)
	if
	:: mem[A] != 0 ->
		UNLOCK(BUCKET(A));
		nwait[BUCKET(A)]--;
		goto out
	:: else
	fi;
#endif
	atomic {
		word[w] = PENDING;
		addr[w] = A;
		bucket[w] = BUCKET(A);
		link[w] = BUCKET(A);
		parked[w] = true
	};
	UNLOCK(BUCKET(A));

	isready[w];
	if
	:: word[w] == TIMEOUT ->
#ifdef MUT_peek
		if
		:: link[w] == NONE -> goto out
		:: else
		fi;
#endif
#ifndef MUT_nounlink
		do
		:: b = bucket[w];
			LOCK(b);
#ifdef MUT_norecheck
			break
#else
			if
			:: bucket[w] == b -> break
			:: else -> UNLOCK(b)
			fi
#endif
		od;
		if
		:: link[w] != NONE ->
			assert(link[w] == b);
			link[w] = NONE;
			nwait[b]--
		:: else
		fi;
		UNLOCK(b)
#else
		skip
#endif
	:: else
	fi;
out:	atomic { gone[w] = true; assert(link[w] == NONE) }
}

proctype Deadline(byte w) {
end_none:
	atomic { parked[w] && word[w] == PENDING -> word[w] = TIMEOUT };
	isready[w] = true
}

proctype Rest() {
	timeout;
	assert(gone[0] && gone[1]);
	assert(nwait[0] == 0 && nwait[NB - 1] == 0 && !lock[0] && !lock[NB - 1])
}

init {
	atomic {
		run Waiter(0);
		run Waiter(1);
		run Waker();
		run StoreBuffer();
		if
		:: REQUEUES > 0 -> run Requeuer(A, B, BUCKET(A), BUCKET(B))
		:: else
		fi;
		if
		:: REQUEUES > 1 -> run Requeuer(B, A, BUCKET(A), BUCKET(B))
		:: else
		fi;
		run LastWaker();
		if
		:: TIMED -> run Deadline(1)
		:: else
		fi;
		run Rest()
	}
}
