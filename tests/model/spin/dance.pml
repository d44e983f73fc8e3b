/* The delicate dance with wakep: no wake-up of an M is lost (WS_I5, WS_L1).
 *
 * Promise   When everything has come to rest, no G is queued while a P is idle; every G
 *           that was submitted has run; nmspinning is 0 again. A G that never gives up
 *           its P (a hog) must not hold up the others while there is another P.
 * Mirrors   steal.c (findrunnable's steps 4, 5, 7 to 9 and 12, wakep, resetspinning),
 *           plist.c (pidleget, pidleput, needspinning), mstart.c (startm, stopm,
 *           handoffp), schedule.c (POST_YIELD), ready.c (injectglist without a P).
 * Left out  timers and netpoll (sleep.pml), who may take a P (claim.pml), stop-the-world,
 *           wired Gs, and sysmon's look for forgotten work: the promise holds without it.
 *           That with one P handoffp starts nobody to look: there is nobody to look at.
 *           A queue is a count of Gs; a thief takes one. A stay in sched.lock
 *           is one step: of the words that are read without it, each stay writes one, or
 *           the order of its writes cannot be told. Memory is sequentially consistent:
 *           MUT_look_first is what a store buffer makes of a put that is only a release,
 *           MUT_recheck_first what it makes of such a decrement.
 *
 * There are three Ms. Where the core would start a fourth, startm waits for one; with LIMIT
 * three are all there may be (HEDDLE_MAXTHREADS), and startm fails. */

#ifndef NP
#define NP 2
#endif
#define NM 3
#define NONE 9

/* What may happen, at most so often. */
#ifndef BUSY
#define BUSY NP		/* Ps in use at the start */
#endif
#ifndef SUBMITS
#define SUBMITS 0	/* Gs that running Gs make ready */
#endif
#ifndef INJECTS
#define INJECTS 0	/* Gs that come from one without a P */
#endif
#ifndef YIELDS
#define YIELDS 0
#endif
#ifndef KEEPS
#define KEEPS 0		/* hogs that keep their P for ever; fewer than Ps */
#endif
#ifndef TAKES
#define TAKES 0		/* hogs whose P sysmon takes; 1 at most */
#endif

byte globq;		/* sched.runqsize */
byte runq[NP];
bool idle[NP];		/* on sched.pidle */
byte npidle;
byte nmspinning;
bool needspinning;
bool midle[NM];
bool spinning[NM];
byte nextp[NM];
bool park[NM];		/* the note: woken */

byte submits = SUBMITS;
byte yields = YIELDS;
byte unrun = SUBMITS + INJECTS;	/* those still to be run, submitted or not */
byte keeps = KEEPS;
byte takes = TAKES;
byte hogp = NONE;	/* the P under the hog that sysmon is to visit */

/* All of these under sched.lock. Which of two idle ones is taken makes no difference. */
inline pidleget(to) {
	if
	:: idle[0] -> to = 0
	:: !idle[0] && idle[1] -> to = 1
#if NP > 2
	:: !idle[0] && !idle[1] && idle[2] -> to = 2
#endif
	:: else -> to = NONE
	fi;
	if
	:: to != NONE -> idle[to] = false; npidle--
	:: else
	fi
}

inline pidlegetspinning(to) {
	pidleget(to);
	if
	:: to == NONE -> needspinning = true
	:: else
	fi
}

inline pidleput(pp) {
	assert(runq[pp] == 0 && !idle[pp]);
	idle[pp] = true;
	npidle++
}

inline mget(to) {
	if
	:: midle[0] -> to = 0
	:: !midle[0] && midle[1] -> to = 1
	:: !midle[0] && !midle[1] && midle[2] -> to = 2
	:: else -> to = NONE
	fi;
	if
	:: to != NONE -> midle[to] = false
	:: else
	fi
}

/* startm_failed, when no M is to be had: under the same lock that found none, all is given
 * back, and needspinning tells an M that is on its way to sleep (step 12) to look. */
#define HAND_BACK(spin) globq = globq + runq[pp]; runq[pp] = 0; pidleput(pp); \
	needspinning = true; nmspinning = nmspinning - spin; pp = NONE

/* For pp, which it takes. What comes after the lock concerns an M that is nobody else's. */
inline startm(spin) {
	atomic {
#ifndef LIMIT
		midle[0] || midle[1] || midle[2];
#endif
		mget(mm);
		if
		:: mm != NONE ->
			assert((!spin || runq[pp] == 0) && !spinning[mm] && nextp[mm] == NONE);
			spinning[mm] = spin;
			nextp[mm] = pp;
			park[mm] = true;
			mm = NONE;
			pp = NONE
#ifdef LIMIT
#ifdef MUT_limitforgets
		:: else
#else
		:: else -> HAND_BACK(spin)
#endif
#endif
		fi
	}
#ifdef MUT_limitforgets
	;
	if
	:: pp != NONE ->
		nmspinning = nmspinning - spin;
		atomic { globq = globq + runq[pp]; runq[pp] = 0; pidleput(pp); pp = NONE }
	:: else
	fi
#endif
}

/* The three loads of the opening, in the core's order. */
inline wakep_look() {
	w = (nmspinning == 0);
	if
	:: w && needspinning -> w = (npidle != 0)
	:: else
	fi
}

inline wakep_go() {
	atomic {
		if
		:: w && nmspinning == 0 -> nmspinning = 1
		:: else -> w = false
		fi
	};
	if
	:: w ->
		/* The count goes down under the same lock that says needspinning: else an M
		 * that has cleared that flag, and found one G of two, still counts us as a
		 * spinner, wakes nobody for the other, and goes idle without a look. */
		atomic {
			w = false;
			pidlegetspinning(pp)
#ifndef MUT_late_decrement
			;
			if
			:: pp == NONE -> nmspinning--
			:: else
			fi
#endif
		};
		if
		:: pp != NONE -> startm(1)
#ifdef MUT_late_decrement
		:: else -> nmspinning--
#else
		:: else
#endif
		fi
	:: else
	fi
}

inline becomespinning() {
	atomic { spinning[id] = true; nmspinning++ };
	needspinning = false
}

inline mark() {
#ifdef MUT_recheck_first
	skip	/* it still has its mark */
#else
	becomespinning()
#endif
}

proctype M(byte id; byte p) {
	byte pp = NONE, mm = NONE, i;
	bool w;

	if
	:: p == NONE -> goto end_asleep
	:: else -> goto body
	fi;

top:	/* 4 */
	atomic {
		if
		:: runq[p] > 0 -> runq[p]--; goto found
		:: else
		fi
	};
	/* 5 */
	atomic {
		if
		:: globq > 0 -> globq--; goto found
		:: else
		fi
	};
	/* 7 */
	if
	:: spinning[id] || 2 * nmspinning < NP - npidle ->
		if
		:: !spinning[id] -> becomespinning()
		:: else
		fi;
		i = 1;
		do
		:: atomic { i < NP ->
				if
				:: runq[(p + i) % NP] > 0 && !idle[(p + i) % NP] ->
					runq[(p + i) % NP]--;
					i = 0;
					goto found
				:: else -> i++
				fi
			}
		:: atomic { i == NP -> i = 0; break }
		od
	:: else
	fi;
	/* 8 */
	atomic {
		if
		:: globq > 0 -> globq--; goto found
#ifndef MUT_noneedspinning
		:: globq == 0 && !spinning[id] && needspinning ->
			spinning[id] = true;
			nmspinning++;
			needspinning = false;
			goto top
#endif
		:: else -> pidleput(p); p = NONE
		fi
	};
	/* 9 */
	if
	:: spinning[id] ->
#ifndef MUT_recheck_first
		atomic { spinning[id] = false; nmspinning-- };
#endif
#ifndef MUT_norecheck
		atomic {
			if
			:: globq > 0 -> pidlegetspinning(p)
			:: else
			fi
		};
		if
		:: p != NONE ->
			/* The P was won under one lock, the G is taken under another. */
			atomic {
				if
				:: globq > 0 -> globq--; w = true
				:: else
				fi
			};
			mark();
			atomic {
				if
				:: w -> w = false; goto found
				:: else -> goto top
				fi
			}
		:: else
		fi;
		do
		:: atomic { i < NP && (idle[i] || runq[i] == 0) -> i++ }
		:: atomic { i < NP && !idle[i] && runq[i] > 0 -> i = 0 };
			atomic { pidlegetspinning(p) };
			if
			:: p != NONE -> mark(); goto top
			:: else -> break
			fi
		:: atomic { i == NP -> i = 0; break }
		od;
#endif
#ifdef MUT_recheck_first
		atomic { spinning[id] = false; nmspinning-- }
#else
		skip
#endif
	:: else
	fi;

	/* 12 */
	atomic {
		if
#if defined(LIMIT) && !defined(MUT_limitforgets)
		:: needspinning && npidle > 0 -> pidleget(p)
#endif
		:: else -> midle[id] = true; goto end_asleep
		fi
	};
#ifdef LIMIT
	becomespinning();
	goto top;
#endif

end_asleep:
	atomic {
		park[id] -> park[id] = false;
		p = nextp[id];
		nextp[id] = NONE;
		goto top
	};

found:	assert(unrun > 0);
	if
	:: atomic { spinning[id] -> unrun--; spinning[id] = false; assert(nmspinning > 0); nmspinning-- };
#ifndef MUT_noresetwake
		wakep_look();
		wakep_go()
#endif
	:: atomic { else -> unrun-- }
	fi;

body:	do
#ifdef MUT_look_first
	:: atomic { submits > 0 -> submits-- };
		wakep_look();
		runq[p]++;
		wakep_go()
#else
	:: atomic { submits > 0 -> submits--; runq[p]++ };
		wakep_look();
		wakep_go()
#endif
	:: atomic { yields > 0 && runq[p] > 0 -> yields--; runq[p]-- };
		/* The next G is off the queue before this one is on it. */
		runq[p]++;
#ifndef MUT_yieldsilent
		wakep_look();
		wakep_go()
#endif
	:: atomic { takes > 0 -> takes--; hogp = p; p = NONE; goto end_hog }
	:: atomic { keeps > 0 -> keeps--; p = NONE; goto end_hog }
	:: goto top
	od;

end_hog: /* In the hog's code, with a P or, once sysmon has been here, without. */
	false
}

/* Takes the P from under the hog and hands it off. */
proctype Sysmon() {
	byte pp = NONE, mm = NONE;
	bool w;

end_none:
	atomic { hogp != NONE -> pp = hogp; hogp = NONE };
	if
	:: runq[pp] > 0 || globq > 0 -> startm(0); goto done
	:: else
	fi;
	w = (nmspinning == 0);
	if
	:: w -> w = (npidle == 0)
	:: else
	fi;
	atomic {
		if
		:: w && nmspinning == 0 -> nmspinning = 1
		:: else -> w = false
		fi
	};
	if
	:: w -> w = false; needspinning = false; startm(1); goto done
	:: else
	fi;
	atomic {
		if
#ifndef MUT_handoffdeaf
		/* Where somebody is counted already, it has its look still before it. */
		:: needspinning && nmspinning == 0 ->
			nmspinning = 1;
			needspinning = false;
			w = true
		:: !(needspinning && nmspinning == 0) && globq > 0
#else
		:: globq > 0
#endif
		:: else -> pidleput(pp); pp = NONE
		fi
	};
	if
	:: pp != NONE && !w -> startm(0)
	:: pp != NONE && w -> w = false; startm(1)
	:: else
	fi;
done:	skip
}

/* Readies Gs without holding a P, as sysmon and threads that are no Ms do. */
proctype Inject() {
	byte n = INJECTS, pp = NONE, mm = NONE;

	do
	:: atomic { n > 0 -> n--; globq++ };
		if
		:: npidle != 0 ->
			atomic { pidleget(pp) };
			if
			:: pp != NONE -> startm(0)
			:: else
			fi
		:: else
		fi
	:: n == 0 -> break
	od
}

/* At rest. */
proctype Rest() {
	timeout;
	assert(nmspinning == 0);
	assert(npidle == 0 || (globq == 0 && runq[0] == 0 && runq[1] == 0 && runq[NP - 1] == 0));
	assert(unrun == submits);
	assert(npidle == NP - (KEEPS - keeps))
}

init {
	byte i;

	atomic {
		do
		:: i < NM ->
			nextp[i] = NONE;
			midle[i] = (i >= BUSY);
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
		run Inject();
		run Rest()
	}
}
