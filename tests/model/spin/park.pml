/* gopark against those who end the wait: a waker, a timer, a signal.
 *
 * Promise   A G is made runnable exactly once for each wait, never before its context is
 *           saved, never runs on two Ms, never sleeps for ever; a timer or signal that is
 *           late never ends a later wait; a waiter and its timer are linked nowhere once
 *           the wait has returned (WS_S1, WS_S2, GMP_G4).
 * Mirrors   schedule.c (leave, finish_switch's POST_PARK), ready.c (await_parked, ready), sched.h
 *           (wait_begin, wait_claim), futex.c (wait_g, unlink_late), sleep.c (gosleep,
 *           gointerrupt), timers.c (timer_arm, timer_disarm, expire).
 * Left out  which queue a ready G is on, Ps, the value that a futex wait compares
 *           (futex.pml), time: an armed timer may fire at any moment, and at last does.
 *
 * One G waits WAITS times, each time in one of two ways. In a locked wait (futex, netpoll)
 * it is linked in a queue, and the post action arms the timer and then gives back the
 * queue's lock: a G that a signal woke between GWAITING and then has to take that lock
 * before it can leave. In a sleep there is no lock: so the timer is armed before the park,
 * and GWAITING is the last that happens to the G; whoever has claimed its wait by then
 * waits for that. */

#ifndef WAITS
#define WAITS 3
#endif
#define BITS 8		/* 1 << WAIT_BITS */
#define NOBODY 9

mtype = { UNTIMED, TIMED, ALONE, SLEEP };	/* ALONE: timed, and no waker comes */
mtype = { RUNNABLE, PINNED, WAITING };
mtype = { BEGIN, CAMEBACK, DEAD };
#define PENDING 1
#define READY 2
#define TIMEOUT 3
#define INTR 4

mtype status = RUNNABLE;
byte word;		/* the wait word: seq * BITS + how it ended */
bool saved = true;	/* its context is in memory, on no cpu */
byte runq = 1;		/* how many queues it is on */
byte running;		/* how many Ms it is on */
mtype at = BEGIN;	/* where its context goes on */
byte waits;		/* begun */
mtype kind;
byte frame;		/* the wait whose stack frame is alive */

bool qlock, linked;
byte wseq;		/* the waiter's */
bool hlock, armed;	/* the heap of timers; the G has one timer */
byte tseq;
byte ends[WAITS + 1];	/* ghost: how often each wait was ended */
byte fired, struck;	/* ghost: for which wait a timer, a signal won */

#define LOCK(l) atomic { !l -> l = true }

/* True in won for the one who ends the wait s. */
#ifdef MUT_plainclaim
#define CLAIM(s, how) won = (word == (s) * BITS + PENDING); \
	if :: won -> word = (s) * BITS + how :: else fi
#else
#ifdef MUT_noseq
#define CLAIM(s, how) atomic { won = (word % BITS == PENDING); \
	if :: won -> word = (word / BITS) * BITS + how :: else fi }
#else
#define CLAIM(s, how) atomic { won = (word == (s) * BITS + PENDING); \
	if :: won -> word = (s) * BITS + how :: else fi }
#endif
#endif

/* ready, after await_parked: the wait was perhaps claimed on the G's way into the park. */
inline ready() {
#ifndef MUT_noawait
	status != PINNED;
#endif
	atomic { assert(status == WAITING); status = RUNNABLE };
	atomic {
		ends[word / BITS]++;
		assert(ends[word / BITS] == 1);
		runq++;
		assert(runq == 1)
	}
}

inline arm() {
	assert(frame == s);	/* what it reads lies on the G's stack */
	atomic { !hlock -> assert(!armed); tseq = s; armed = true }
}

inline disarm() {
	if
	:: armed -> atomic { !hlock -> armed = false }
	:: else
	fi
}

proctype M() {
	byte s;		/* the wait that the G left by this M is in */

end_idle:
	atomic {
		runq > 0 -> runq--;
		running++;
		assert(running == 1 && saved && status == RUNNABLE);
		saved = false;
		status = PINNED
	};
	if
	:: at == BEGIN -> goto begin
	:: at == CAMEBACK -> goto cameback
	fi;

begin:	if
	:: waits < WAITS ->
		atomic {
			waits++;
			s = waits;
			if
			:: kind = UNTIMED
			:: kind = TIMED
			:: kind = ALONE
			:: kind = SLEEP
			fi
		}
	:: else -> at = DEAD; running--; saved = true; goto end_idle
	fi;
	if
	:: kind != SLEEP -> LOCK(qlock)
	:: else
	fi;
	atomic { frame = s; word = s * BITS + PENDING };
	if
	:: kind != SLEEP -> atomic { wseq = s; linked = true }
	:: else
	fi;
#ifndef MUT_sleeparmlate
	if
	:: kind == SLEEP -> arm()
	:: else
	fi;
#endif
#ifdef MUT_unlockearly
	if
	:: kind != SLEEP -> qlock = false
	:: else
	fi;
#endif
	/* The switch. From here on this M runs another context. */
	atomic { at = CAMEBACK; running--; saved = true };
	/* The post action. */
	if
	:: kind != SLEEP ->
#ifdef MUT_waitinglate
		qlock = false;
#endif
		status = WAITING;
		if
		:: kind == TIMED || kind == ALONE -> arm()
		:: else
		fi;
#if !defined(MUT_unlockearly) && !defined(MUT_waitinglate)
		qlock = false
#else
		skip
#endif
	:: else ->
		status = WAITING;
#ifdef MUT_sleeparmlate
		arm()
#endif
	fi;
	goto end_idle;

cameback:
	assert(word / BITS == waits && word % BITS != PENDING);
	if
	:: kind != SLEEP && word % BITS != READY ->
		LOCK(qlock);
#ifndef MUT_nounlink
		linked = false;
#endif
		qlock = false
	:: else
	fi;
	if
	:: word % BITS != TIMEOUT -> disarm()
	:: else
	fi;
	assert(word % BITS != TIMEOUT || fired == waits);
	assert(word % BITS != INTR || struck == waits);
	assert(!linked && !armed);
	atomic { frame = 0; at = BEGIN };
	goto begin
}

proctype Waker() {
	bool won, found;

end_none:
	do
	:: linked && kind != ALONE ->
		LOCK(qlock);
		found = linked;
		if
		:: found -> linked = false; CLAIM(wseq, READY)
		:: else
		fi;
		qlock = false;
		if
		:: found && won -> ready()
		:: else
		fi;
		won = false; found = false
	od
}

/* Whoever looks at the heap: the P's owner, a thief, sysmon. */
proctype Expirer() {
	bool won;
	byte s;

end_none:
	do
	:: armed ->
		LOCK(hlock);
		if
		:: armed ->
			atomic { s = tseq; armed = false };
			/* Off the heap it is the G's again, which may arm it for a later wait. */
			CLAIM(s, TIMEOUT);
			atomic {
				if
				:: won -> fired = word / BITS; assert(fired == s)
				:: else
				fi
			};
			hlock = false;
			if
			:: won -> ready()
			:: else
			fi;
			won = false; s = 0
		:: else -> hlock = false
		fi
	od
}

/* gointerrupt, once. */
proctype Signal() {
	bool won;
	byte s;

end_none:
	atomic { word % BITS == PENDING -> s = word / BITS };
	CLAIM(s, INTR);
	atomic {
		if
		:: won -> struck = word / BITS; assert(struck == s)
		:: else
		fi
	};
	if
	:: won -> ready()
	:: else
	fi
}

proctype Rest() {
	timeout;
	assert(at == DEAD && waits == WAITS && !linked && !armed && !qlock && !hlock);
	assert(runq == 0 && running == 0)
}

init {
	atomic {
		run M();
		run M();
		run Waker();
		run Expirer();
		run Signal();
		run Rest()
	}
}
