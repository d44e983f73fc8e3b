/* Timers against sleep: of Ms in the poller, of Ms without work, of sysmon.
 *
 * Promise   When nothing more can happen before the clock moves, every timer that is due
 *           has been run (WS_L2): those of an idle P without sysmon's help, those of a P
 *           in use with it. And sysmon never sleeps deeply while a P is in use.
 * Mirrors   steal.c (findrunnable's steps 2 and 7 to 12, poll_blocking, wakenetpoller,
 *           wakep), timers.c (timer_arm, checktimers, expire), netpoll_epoll.c (the
 *           break), mstart.c (handoffp), sysmon.c (sleep_until_due, run_late), plist.c
 *           (unidled).
 * Left out  run queues and their looks (dance.pml); a G that a timer wakes runs at once.
 *           Descriptors, but for ANYWAITERS: that some G waits for one; EVENTS: it comes.
 *           A heap is the set of its deadlines; slacks are 0. An M more can always be had.
 *
 * The clock moves when all else rests, and TICKS times at any moment before that. */

#define NP 2
#ifndef NM
#define NM 3		/* 4 if sysmon takes a P: then one M is left without */
#endif
#define NONE 9
#define INF 9		/* UINT64_MAX */
#ifndef LAST
#define LAST 3		/* the last moment; deadlines are 1 to LAST */
#endif
#ifndef BUSY
#define BUSY 2		/* Ps in use at the start */
#endif
#ifndef ARMS
#define ARMS 1		/* timers, at most */
#endif
#ifndef KEEPS
#define KEEPS 0		/* Gs that keep their P for ever */
#endif
#ifndef TAKES
#define TAKES 0		/* Gs whose P sysmon takes; 1 at most */
#endif
#ifndef EVENTS
#define EVENTS 0	/* 1: once, a descriptor gets ready; with ANYWAITERS only */
#endif
#ifndef BACKS
#define BACKS 0		/* Ms that come back from a block, without a P */
#endif
#ifndef TICKS
#define TICKS 0
#endif
#ifndef ROUND
#define ROUND 2		/* sysmon's longest round */
#endif
#ifndef SYSMON
#define SYSMON true	/* false: it only takes Ps */
#endif
#ifndef DEEP
#define DEEP true	/* sysmon may sleep deeply */
#endif
#ifndef ANYWAITERS
#define ANYWAITERS false
#endif

byte now;
byte ticks = TICKS;
byte arms = ARMS;
byte keeps = KEEPS;
byte takes = TAKES;
byte hogp = NONE;	/* the P that sysmon is to take */

/* Bit w: a timer that is due at w. */
byte heap[NP];
byte first[NP];		/* timers.first; 0: none */

bool idle[NP];
byte npidle;
byte nmspinning;
bool needspinning;
bool midle[NM];
bool spinning[NM];
byte nextp[NM];
bool park[NM];

bool polling;		/* lastpoll == 0 */
byte polluntil;
bool eventfd;		/* readable */
bool broken;
bool fdevent = EVENTS;	/* a descriptor is ready */

bool sysmonnote;
bool sysmonwait;
byte sysmonwake;

#define MIN(a, b) ((b) != 0 && ((a) == 0 || (b) < (a)) -> (b) : (a))
#define EARLIEST(h) ((h) & 2 -> 1 : ((h) & 4 -> 2 : ((h) & 8 -> 3 : 0)))
/* The bits of what is due. */
#define DUE(h) ((h) & ((2 << now) - 2))

/* A stay in a heap's lock is one step where nothing can be seen of its parts. */
inline expire(px) {
	atomic {
		heap[px] = heap[px] & ~DUE(heap[px]);
		first[px] = EARLIEST(heap[px])
	}
}

/* Under sched.lock, as all of these. */
inline unidled(px) {
	idle[px] = false;
	npidle--;
#ifndef MUT_nowakesysmon
	if
	:: sysmonwait -> sysmonwait = false; sysmonnote = true
	:: else
	fi
#endif
}

inline pidleget(to) {
	if
	:: idle[0] -> to = 0
	:: !idle[0] && idle[1] -> to = 1
	:: else -> to = NONE
	fi;
	if
	:: to != NONE -> unidled(to)
	:: else
	fi
}

inline pidleput(px) {
	idle[px] = true;
	npidle++
}

/* For pp, which it takes. */
inline startm(spin) {
	if
	:: midle[0] -> mm = 0
	:: !midle[0] && midle[1] -> mm = 1
	:: !midle[0] && !midle[1] && midle[2] -> mm = 2
	:: !midle[0] && !midle[1] && !midle[2] && midle[NM - 1] -> mm = NM - 1
	fi;
	midle[mm] = false;
	spinning[mm] = spin;
	nextp[mm] = pp;
	park[mm] = true;
	mm = NONE;
	pp = NONE
}

/* Its steps are dance.pml's business: here it is two, the count and the rest. */
inline wakep() {
	atomic {
		if
		:: nmspinning == 0 && !(needspinning && npidle == 0) -> nmspinning = 1; w = true
		:: else
		fi
	};
	atomic {
		if
		:: w ->
			w = false;
			pidleget(pp);
			if
			:: pp == NONE -> needspinning = true; nmspinning--
			:: else -> startm(true)
			fi
		:: else
		fi
	}
}

inline becomespinning() {
	atomic { spinning[id] = true; nmspinning++; needspinning = false }
}

inline netpollbreak() {
#ifdef MUT_edgebreak
	/* Only one that sleeps hears it. */
	atomic { if :: blocked -> eventfd = true :: else fi }
#else
	atomic { w = broken; broken = true };
	if
	:: !w -> eventfd = true
	:: else -> w = false
	fi
#endif
}

inline wakenetpoller(when) {
	if
	:: polling ->
		i = polluntil;
		if
#ifndef MUT_nobreak
		:: i == 0 || i > when -> i = 0; netpollbreak()
#endif
		:: else -> i = 0
		fi
	:: else -> wakep()
	fi
}

#ifdef MUT_edgebreak
bool blocked;
#endif

proctype M(byte id; byte p) {
	byte pp = NONE, mm = NONE, i, until, seen, when;
	bool w, wasspinning;

	if
	:: p == NONE && id < NM - BACKS -> goto end_asleep
	:: p == NONE && id >= NM - BACKS ->
		/* POST_NOP. Such a G keeps its P, if one still may. */
		atomic {
			pidleget(p);
			if
			:: p == NONE -> goto stop
			:: p != NONE && keeps > 0 -> keeps--; p = NONE; goto end_hog
			:: else -> goto body
			fi
		}
	:: else -> goto body
	fi;

top:	/* 2 */
	atomic {
		if
		:: first[p] != 0 && first[p] <= now -> until = 0; expire(p); goto fired
		:: else -> until = first[p]
		fi
	};
	/* 7 */
	if
	:: spinning[id] || 2 * nmspinning < NP - npidle ->
		if
		:: !spinning[id] -> becomespinning()
		:: else
		fi;
		atomic {
			if
			:: first[1 - p] != 0 && first[1 - p] <= now -> until = 0; expire(1 - p); goto fired
			:: else -> until = MIN(until, first[1 - p])
			fi
		}
	:: else
	fi;
	/* 8 */
	atomic {
		if
		:: !spinning[id] && needspinning ->
			spinning[id] = true;
			nmspinning++;
			needspinning = false;
			until = 0;
			goto top
		:: else -> pidleput(p); p = NONE; wasspinning = spinning[id]
		fi
	};
	/* 9 */
	if
	:: wasspinning ->
		atomic { spinning[id] = false; nmspinning-- };
#ifndef MUT_norecheck
		until = MIN(until, first[0]);
		until = MIN(until, first[1])
#endif
	:: else
	fi;
	/* 10 */
	if
	:: ANYWAITERS || until != 0 ->
#ifdef MUT_untilbeforerole
		polluntil = (until == 0 -> INF : until);
#endif
		atomic { w = !polling; polling = true };
		if
		:: w -> w = false; goto poll
		:: else
		fi;
		if
		:: until != 0 ->
			/* 11 */
			seen = polluntil;
			if
#ifndef MUT_nostep11
			:: seen == 0 || seen > until -> seen = 0; netpollbreak()
#endif
			:: else -> seen = 0
			fi
		:: else
		fi
	:: else
	fi;

stop:	/* 12 */
	atomic { until = 0; wasspinning = false; midle[id] = true };

end_asleep:
	atomic {
		park[id] -> park[id] = false;
		p = nextp[id];
		nextp[id] = NONE;
		goto top
	};

poll:
#ifndef MUT_untilbeforerole
	polluntil = (until == 0 -> INF : until);
#endif
	if
	:: until != 0 ->
		until = MIN(until, first[0]);
		until = MIN(until, first[1])
	:: else
	fi;
#ifdef MUT_edgebreak
	blocked = true;
#endif
end_polling:
	if
	:: fdevent -> fdevent = false; w = true
	:: eventfd ->
#ifdef MUT_clearbeforeread
		broken = false;
		eventfd = false
#else
		eventfd = false;
		broken = false
#endif
	:: !eventfd && until != 0 && now >= until
	fi;
#ifdef MUT_edgebreak
	blocked = false;
#endif
	until = 0;
#ifndef MUT_staleuntil
	polluntil = 0;
#endif
	polling = false;
	atomic { pidleget(p) };
	if
	:: p == NONE ->
		/* What is ready goes to the global queue. What is due on a P that was idle
		 * when sysmon last looked, and is not now, is nobody's yet. */
#ifndef MUT_pollgivesup
		sysmonnote = true;
#endif
		w = false;
		goto stop
	:: p != NONE && w ->
		/* It runs that G itself. Nobody polls any more: somebody must look again. */
		w = false;
		wasspinning = false;
#ifndef MUT_pollsilent
		wakep();
#endif
		goto body
	:: else
	fi;
	if
	:: wasspinning -> wasspinning = false; becomespinning()
	:: else
	fi;
	goto top;

fired:	/* injectglist: an M for what is ready; we may be the one that gets it. */
#ifndef MUT_firesilent
	if
	:: atomic { npidle != 0 -> pidleget(pp); startm(false) }
	:: else -> wakep()
	fi;
#endif

found:	if
	:: atomic { spinning[id] -> spinning[id] = false; nmspinning-- };
		wakep()
	:: else
	fi;

body:	do
	:: atomic { arms > 0 && now < LAST -> arms--;
			if
			:: now < 1 -> when = 1
			:: now < 2 -> when = 2
			:: when = 3
			fi
		};
#ifdef MUT_publishlate
		w = (when < sysmonwake);
#endif
		atomic {
			heap[p] = heap[p] | (1 << when);
#ifndef MUT_publishlate
			w = (first[p] == 0 || when < first[p]);
#endif
			first[p] = EARLIEST(heap[p])
		};
		atomic {
#ifdef MUT_noarmwake
			w = false;
#endif
#ifndef MUT_publishlate
			w = (w && when < sysmonwake);
#endif
			when = 0
		};
		if
		:: w -> atomic { w = false; sysmonnote = true }
		:: else
		fi
	:: atomic { takes > 0 -> takes--; hogp = p; p = NONE; goto end_hog }
	:: atomic { keeps > 0 -> keeps--; p = NONE; goto end_hog }
	:: goto top
	od;

end_hog: /* In its code, with a P or without. */
	false
}

proctype Sysmon() {
	byte pp = NONE, mm = NONE, i, until, next;
	bool w;

	do
	:: /* retake, handoffp */
		if
		:: atomic { hogp != NONE -> pp = hogp; hogp = NONE };
			atomic {
				if
				:: nmspinning + npidle == 0 ->
					nmspinning = 1;
					needspinning = false;
					startm(true)
				:: else
				fi
			};
			atomic {
				w = (needspinning && nmspinning == 0);
				if
				:: pp == NONE
				:: pp != NONE && w ->
					nmspinning = 1;
					needspinning = false;
					startm(true)
				:: pp != NONE && !w && npidle == NP - 1 && !polling -> startm(false)
				:: else ->
					next = first[pp];
					pidleput(pp);
					pp = NONE
				fi;
				w = false
			};
			if
#ifndef MUT_handoffsilent
			:: next != 0 -> wakenetpoller(next); next = 0
#endif
			:: else -> next = 0
			fi
		:: else
		fi;
		if
		:: SYSMON
		:: else -> goto end_round
		fi;
		/* run_late */
		expire(0);
		expire(1);
		/* sleep_until_due */
		if
		:: DEEP && npidle == NP ->
#ifdef MUT_deepnolock
			sysmonnote = false;
			sysmonwait = true;
			w = true
#else
			atomic {
				if
				:: npidle == NP -> sysmonnote = false; sysmonwait = true; w = true
				:: else
				fi
			}
#endif
		:: true
		fi;
		if
		:: w ->
			sysmonwake = 0;
			if
			:: !polling -> next = first[0]; next = MIN(next, first[1])
			:: else
			fi;
end_deep:		sysmonnote || (next != 0 && now >= next);
			sysmonwait = false;
			atomic { sysmonnote = false; next = 0; w = false }
		:: else ->
			atomic {
				until = now + ROUND;
#ifndef MUT_looksbeforepublish
				sysmonwake = until
#endif
			};
			if
			:: npidle != NP ->
				next = first[0];
				atomic {
					next = MIN(next, first[1]);
					if
					:: next != 0 && next < until -> until = next
					:: else
					fi;
					next = 0
				};
				sysmonwake = until
			:: else
			fi;
#ifdef MUT_looksbeforepublish
			sysmonwake = until;
#endif
end_round:		atomic {
				(SYSMON && (sysmonnote || now >= until)) || hogp != NONE ->
				sysmonnote = false;
				until = 0
			}
		fi
	od
}

#ifdef MUT_nonblockeats
/* Sysmon's look at the descriptors, when it saw that no M polls. */
proctype Glance() {
	!polling;
	if
	:: eventfd -> eventfd = false; broken = false
	:: else
	fi
}
#endif

proctype Clock() {
	do
	:: atomic { ticks > 0 && now < LAST -> ticks--; now++ }
	:: timeout ->
		atomic {
			assert(!sysmonwait || npidle == NP);
			assert(!idle[0] || DUE(heap[0]) == 0);
			assert(!idle[1] || DUE(heap[1]) == 0);
			assert(!SYSMON || (DUE(heap[0]) == 0 && DUE(heap[1]) == 0));
			if
			:: now < LAST -> now++
			:: else -> break
			fi
		}
	od
}

init {
	byte i;

	atomic {
		do
		:: i < NM ->
			nextp[i] = NONE;
			midle[i] = (i >= BUSY && i < NM - BACKS);
			run M(i, (i < BUSY -> i : NONE));
			i++
		:: else -> break
		od;
		i = BUSY;
		do
		:: i < NP -> idle[i] = true; npidle++; i++
		:: else -> break
		od;
		run Sysmon();
#ifdef MUT_nonblockeats
		run Glance();
#endif
		run Clock()
	}
}
