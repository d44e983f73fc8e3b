/* A private read-write lock: who is woken tries, and is handed it only where one starves.
 *
 * Promise   A writer is alone; nobody waits while the lock is free for him and nobody is on his
 *           way who sees to him; once all have left it is as it was made; and the last of its
 *           users may unmap it as soon as his unlock returns.
 * Mirrors   interpose/rwlock.c: the short roads, spin, wait_turn, granted, dispatch, unlock_other.
 *           One step is an access to a word; what only the guard's holder touches is one with its
 *           neighbour.
 * Left out  the queue (queue_model.c of the explorer): who waits is woken, or leaves and counts a
 *           little longer. Forks, signals, and how long a millisecond is: any waiter who was woken
 *           in vain may starve.
 *
 * Each of NT threads locks FUEL times, as a reader or a writer, with a deadline or without. */

#ifndef NT
#define NT 3
#endif
#ifndef FUEL
#define FUEL 1
#endif
#ifndef FIRST
#define FIRST 0	/* writers are preferred */
#endif
#define WRITER 64
#define QUEUED 32
#define READERS 31
#define NONE 9
#define READER_S 1
#define WRITER_S 2

mtype = { AWAY, WAITS, WOKEN, LEAVING };

byte st;
byte guard = NONE;
bool called, granted;
byte starves;		/* READER_S or WRITER_S: one of those does */
byte grants;
mtype r[NT] = AWAY, w[NT] = AWAY;	/* as a reader, as a writer */
byte nr, nw;		/* how many count as waiting */
byte reads, writes;	/* ghost: who holds it */
byte left = NT * FUEL;	/* ghost: turns to come */
bool unmapped;		/* ghost */

#define COMES (FIRST && called)
#define OPEN(s) (!((s) & WRITER) && (!((s) & QUEUED) || !FIRST || (nw == 0 && !COMES)))
#define CAN(s) ((wr && !((s) & (WRITER | READERS))) || (!wr && OPEN(s)))
#define FOR_WRITER (w0 != 0 && (n == 0 || FIRST || starves == WRITER_S))

inline hold() {
	if
	:: wr -> assert(reads == 0 && writes == 0); writes++; st = st | WRITER
	:: else -> assert(writes == 0); reads++; st++
	fi
}

/* Handed over, it is counted already. */
inline held_already() {
	if
	:: wr -> assert(reads == 0 && writes == 0); writes++
	:: else -> assert(writes == 0); reads++
	fi
}

inline let_go() {
	if
	:: wr -> writes--; st = st - WRITER
	:: else -> reads--; st--
	fi
}

inline wake_readers() {
	k = 0;
	i = 0;
	do
	:: i < NT ->
		if
		:: r[i] == WAITS -> r[i] = WOKEN; nr--; k++
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline wake_writer() {
	if
	:: w[0] == WAITS -> w[0] = WOKEN; nw--; k = 1
	:: w[1] == WAITS -> w[1] = WOKEN; nw--; k = 1
	:: w[NT - 1] == WAITS -> w[NT - 1] = WOKEN; nw--; k = 1
	:: else -> k = 0
	fi
}

/* The guard is held. */
inline dispatch() {
	do
	:: atomic { assert(!unmapped); s = st; n = nr; w0 = nw };
		if
		:: COMES -> break
		:: !COMES && n == 0 && w0 == 0 ->
			starves = 0;
			if
			:: atomic { st == s -> st = s & ~QUEUED }; break
			:: st != s
			fi
		:: !COMES && (n != 0 || w0 != 0) &&
		   ((s & WRITER) || ((s & READERS) && (FOR_WRITER || n == 0))) -> break
		:: else ->
			k = 0;
			if
			:: starves != 0 && FOR_WRITER ->
				if
				:: atomic { st == s -> st = s | WRITER };
					atomic {
						wake_writer();
						if
#ifdef MUT_silent
						:: k == 1 -> starves = (nr != 0 -> READER_S : 0)
#else
						:: k == 1 -> starves = (nr != 0 -> READER_S : 0); granted = true
#endif
						:: else -> st = st & ~WRITER
						fi
					}
				:: st != s -> k = 9
				fi
			:: starves != 0 && !FOR_WRITER ->
				if
				:: atomic { st == s -> st = s + n };
					atomic {
						wake_readers();
						starves = (k == 0 -> starves : 0);
						grants = grants + k
					};
#ifdef MUT_overcounts
					skip
#else
					atomic { st = st + k; st = st - n }
#endif
				:: st != s -> k = 9
				fi
			:: starves == 0 && FOR_WRITER ->
				atomic {
					if
					:: called
					:: !called -> wake_writer(); called = k == 1
					fi
				}
			:: starves == 0 && !FOR_WRITER -> atomic { wake_readers() }
			fi;
			if
			:: k == 0 && n == nr && w0 == nw -> break
			:: else
			fi
		fi
	od;
	atomic { s = 0; n = 0; w0 = 0; k = 0 }
}

inline unguard() {
	atomic { assert(!unmapped && guard == _pid - 1); guard = NONE }
}

proctype T() {
	byte fuel = FUEL, s, n, w0, k, i;
	bool wr, timed, last, starving;

again:	atomic {
		last = false;
		starving = false;
		if
		:: fuel == 0 -> goto done
		:: fuel > 0 -> fuel--; wr = true
		:: fuel > 0 -> fuel--; wr = false
		fi;
		if
		:: timed = true
		:: timed = false
		fi
	};
	atomic {
		if
		:: wr && st == 0 -> hold(); goto have
		:: !wr && !(st & (WRITER | QUEUED)) -> hold(); goto have
		:: else
		fi
	};

try:	/* As long as it can hope; not at all with one P. */
	if
	:: atomic { CAN(st) && !(wr && starves != 0) -> hold(); goto have }
	:: true
	fi;

turn:	atomic { guard == NONE -> assert(!unmapped); guard = _pid - 1 };
look:	s = st;
	atomic {
		if
		:: CAN(st) -> hold(); goto had
		:: !CAN(st) && (s & QUEUED) -> goto queue
		:: else
		fi
	};
#ifndef MUT_unmarked
	atomic {
		if
		:: st == s -> st = s | QUEUED
		:: else -> goto look
		fi
	};
#endif
queue:	if
	:: !(s & (WRITER | READERS)) && !COMES -> dispatch(); unguard(); goto turn
	:: else
	fi;
	atomic {
		if
		:: starving && wr -> starves = WRITER_S
		:: starving && !wr -> starves = (starves == 0 -> READER_S : starves)
		:: else
		fi;
		if
		:: wr -> w[_pid - 1] = WAITS; nw++
		:: else -> r[_pid - 1] = WAITS; nr++
		fi;
		s = 0;
		guard = NONE
	};
	if
	:: atomic { wr && w[_pid - 1] == WOKEN -> w[_pid - 1] = AWAY }
	:: atomic { !wr && r[_pid - 1] == WOKEN -> r[_pid - 1] = AWAY }
	:: atomic { timed && wr && w[_pid - 1] == WAITS -> w[_pid - 1] = LEAVING }; goto leaves
	:: atomic { timed && !wr && r[_pid - 1] == WAITS -> r[_pid - 1] = LEAVING }; goto leaves
	fi;

	atomic { guard == NONE -> assert(!unmapped); guard = _pid - 1 };
	atomic {
#ifdef MUT_expected
		if
		:: wr -> skip
#else
		if
		:: wr -> called = false
#endif
		:: else
		fi;
		if
#ifndef MUT_keepsmark
		:: wr && nr == 0 && nw == 0 -> st = st & ~QUEUED
#endif
		:: else
		fi;
		if
		:: wr && granted -> granted = false; held_already(); goto had
		:: !wr && grants > 0 -> grants--; held_already(); goto had
		:: else
		fi
	};
	unguard();
	if
	:: starving = true
	:: starving = false
	fi;
	goto try;

leaves:	atomic {
		if
		:: wr -> w[_pid - 1] = AWAY; nw--
		:: else -> r[_pid - 1] = AWAY; nr--
		fi
	};
	atomic { guard == NONE -> assert(!unmapped); guard = _pid - 1 };
#ifndef MUT_silentleave
	dispatch();
#endif
	unguard();
	left--;
	goto again;

had:	unguard();
	/* A writer knows that those before him have let go. */
have:	atomic { left--; last = wr && left == 0 };
	s = st;
	atomic {
		if
		:: st == s && (!(s & QUEUED) || (s & READERS) > 1) -> let_go(); s = 0; goto over
		:: st != s -> goto refuse
		:: else
		fi
	};
refuse:	if
	:: atomic { !(st & QUEUED) || (st & READERS) > 1 -> let_go(); s = 0; goto over }
	:: else
	fi;
#ifdef MUT_unguarded
	atomic { let_go() };
	atomic { guard == NONE -> assert(!unmapped); guard = _pid - 1 };
#else
	atomic { guard == NONE -> assert(!unmapped); guard = _pid - 1 };
#ifndef MUT_leavesall
	if
	:: !(st & QUEUED) -> unguard(); goto refuse
	:: else
	fi;
#endif
	atomic { let_go() };
#endif
	dispatch();
	unguard();
over:	atomic {
		if
		:: last -> unmapped = true
		:: else
		fi
	};
	goto again;

done:	skip
}

init {
	atomic {
		byte j = 0;
		do
		:: j < NT -> run T(); j++
		:: else -> break
		od
	};
	_nr_pr == 1;
	assert(st == 0 && guard == NONE && grants == 0 && !granted && nr == 0 && nw == 0)
}
