/* The claim: a P is taken from under a G, or given to one, against that G's own M.
 *
 * Promise   A P is held by one M at most, and code that touches what belongs to a P holds
 *           it alone; no G runs on two Ms; no P and no G is lost; nobody waits for ever
 *           (GMP_G2, GMP_P1, GMP_M4, WS_S1, WS_S3).
 * Mirrors   pin.c (pin, unpin, entersyscall, exitsyscall, winp), sysmon.c (retake,
 *           check_offp), preempt.c (handler), plist.c (acquirep, releasep), schedule.c
 *           (switch_to, POST_NOP, POST_PREEMPT, POST_GOSCHED, POST_EXIT).
 * Left out  how an M is found for a P (dance.pml): an M without work wakes when a G is
 *           queued and a P is idle. Local queues, stop-the-world's own bookkeeping, and
 *           program counters: a signal comes between two instructions of the program's.
 *
 * Each G does FUEL things, each of them a stay in the core or an announced call, and ends. */

#ifndef NP
#define NP 1
#endif
#ifndef NM
#define NM 3
#endif
#ifndef NG
#define NG 2
#endif
#ifndef FUEL
#define FUEL 2
#endif
#ifndef SIGNALS
#define SIGNALS 1
#endif
#ifndef TAKERS
#define TAKERS 1	/* sysmon; and stop-the-world */
#endif
#define NONE 9

mtype = { RUNNABLE, PINNED, RUNNING, RUNNING_C, SYSCALL, SYSCALL_C,
	  OFFP, OFFP_C, SYSCALLNOP, PREEMPTED, DEAD };
mtype = { TO_USER, TO_CORE, TO_ENTRY };

mtype status[NG] = RUNNABLE;
byte gm[NG] = NONE;	/* gp->m */
bool queued[NG] = true;	/* on the global queue */
mtype at[NG] = TO_USER;	/* where its context goes on, pinned */
byte fuel[NG] = FUEL;
#ifdef MUT_mearly
byte mread[NG];		/* the G's own variable: gp->m as it was before the pin */
#endif
byte curg[NM] = NONE;
byte mp[NM] = NONE;	/* mp->p */
byte pm[NP] = NONE;	/* pp->m */
bool idle[NP] = true;
bool inuse[NP];		/* ghost: somebody is in what belongs to that P */
byte cpus[NG];		/* ghost: how many Ms it is on */
byte signals = SIGNALS;

#define OFFP_OF(m) (curg[m] != NONE && status[curg[m]] == OFFP)
#define OFFPS (OFFP_OF(0) || OFFP_OF(1) || OFFP_OF(NM - 1))
#if NG > 2
#define QUEUED (queued[0] || queued[1] || queued[2])
#else
#define QUEUED (queued[0] || queued[NG - 1])
#endif
#if NP > 1
#define IDLE (idle[0] || idle[1])
#define HELD (pm[0] != NONE || pm[1] != NONE)
#else
#define IDLE idle[0]
#define HELD (pm[0] != NONE)
#endif

/* Under sched.lock. */
inline pidleget(to) {
	if
	:: idle[0] -> to = 0; idle[0] = false
#if NP > 1
	:: idle[1] -> to = 1; idle[1] = false
#endif
	:: else -> to = NONE
	fi
}

/* p is in hand. */
inline acquirep(m, p) {
	atomic { assert(mp[m] == NONE && pm[p] == NONE && !idle[p]); mp[m] = p };
	pm[p] = m
}

/* Something only the holder of the P may do. */
inline touchp() {
	atomic {
		p = mp[m];
		assert(p != NONE);
		assert(pm[p] == m && !inuse[p] && !idle[p]);
		inuse[p] = true
	};
	atomic {
		assert(mp[m] == p && pm[p] == m && !idle[p]);
		inuse[p] = false;
		p = NONE
	}
}

/* To g0: the context is saved when this is over. */
inline leave(where) {
	atomic { assert(curg[m] == g); curg[m] = NONE };
	atomic { at[g] = where; cpus[g]-- }
}

proctype M(byte m) {
	byte g = NONE, p = NONE;

end_idle:
	atomic { IDLE && QUEUED -> pidleget(p) };
	acquirep(m, p);
	p = NONE;

g0:	atomic {
		assert(pm[mp[m]] == m && !inuse[mp[m]]);
		if
		:: queued[0] -> g = 0
#if NG > 1
		:: queued[1] -> g = 1
#endif
#if NG > 2
		:: queued[2] -> g = 2
#endif
		:: else -> goto putidle
		fi;
		queued[g] = false
	};
exec:	curg[m] = g;
	gm[g] = m;
	atomic { assert(status[g] == RUNNABLE); status[g] = PINNED };
	atomic {
		cpus[g]++;
		assert(cpus[g] == 1);
		if
		:: at[g] == TO_CORE -> goto core
#ifdef MUT_mearly
		:: at[g] == TO_ENTRY -> status[g] = RUNNING; goto again
#endif
		:: else
		fi
	};

unpin:	/* A plain store: nobody else writes the status of a pinned G. */
	atomic { assert(status[g] == PINNED); status[g] = RUNNING };

user:	if
	:: fuel[g] > 0 -> fuel[g]--; goto call
	:: atomic { fuel[g] > 0 -> fuel[g]-- }
	:: fuel[g] == 0
	:: atomic { signals > 0 -> signals-- };
		/* The handler. */
		if
		:: atomic { status[g] == RUNNING -> status[g] = PINNED };
			assert(gm[g] == m);
			if
			:: status[g] = PREEMPTED;
				leave(TO_USER);
				goto requeue
			:: status[g] = RUNNING	/* not now */
			fi
		:: atomic { status[g] == OFFP -> status[g] = PINNED };
			if
			:: status[g] = PREEMPTED;
				leave(TO_USER);
				goto nop
			:: status[g] = OFFP
			fi
#ifdef MUT_handlerclaimed
		:: atomic { status[g] == RUNNING_C -> status[g] = PINNED };
			status[g] = PREEMPTED;
			leave(TO_USER);
			goto requeue
#endif
		:: atomic { status[g] == RUNNING_C || status[g] == OFFP_C }
		fi;
		goto user
	fi;

	/* pin */
#ifdef MUT_mearly
	mread[g] = gm[g];
	if
	:: atomic { signals > 0 && status[g] == RUNNING -> signals--; status[g] = PREEMPTED };
		leave(TO_ENTRY);
		goto requeue
	:: skip
	fi;
#endif
again:
	if
#ifdef MUT_plainentry
	:: status[g] == RUNNING -> status[g] = PINNED
#else
	:: atomic { status[g] == RUNNING -> status[g] = PINNED }
#endif
	:: atomic { status[g] == OFFP -> status[g] = PINNED };
		goto win
	fi;
core:
#ifdef MUT_mearly
	assert(mread[g] == m);
#else
	assert(gm[g] == m);
#endif
	touchp();
	if
	:: fuel[g] > 0 -> goto unpin
	:: fuel[g] > 0 -> leave(TO_USER); goto requeue
	:: fuel[g] == 0 ->
		leave(TO_USER);
		gm[g] = NONE;
		status[g] = DEAD;
		g = NONE;
		goto g0
	fi;

requeue: /* POST_GOSCHED and POST_PREEMPT, on g0 */
	gm[g] = NONE;
	status[g] = RUNNABLE;
	queued[g] = true;
	g = NONE;
	goto g0;

call:	/* entersyscall */
	if
	:: atomic { status[g] == RUNNING -> status[g] = SYSCALL }
	:: atomic { status[g] == OFFP -> status[g] = SYSCALLNOP }
	fi;
	/* exitsyscall */
	if
	:: atomic { status[g] == SYSCALL -> status[g] = RUNNING };
		goto user
#ifdef MUT_exitnowait
	:: atomic { status[g] == SYSCALLNOP || status[g] == SYSCALL_C }
#else
	:: atomic { status[g] == SYSCALLNOP }
#endif
	fi;
	status[g] = PINNED;

win:	/* winp */
	assert(mp[m] == NONE);
	atomic { pidleget(p) };
	if
	:: p != NONE ->
		acquirep(m, p);
		p = NONE;
		goto core
	:: else
	fi;
	leave(TO_CORE);

nop:	/* POST_NOP, on g0 */
	gm[g] = NONE;
	status[g] = RUNNABLE;
	atomic {
		pidleget(p);
		if
		:: p == NONE -> queued[g] = true; g = NONE; goto end_idle
		:: else
		fi
	};
	acquirep(m, p);
	p = NONE;
	goto exec;

putidle: /* releasep, pidleput */
	atomic { p = mp[m]; mp[m] = NONE };
	pm[p] = NONE;
	atomic { idle[p] = true; p = NONE; goto end_idle }
}

proctype Taker(bool gives) {
	byte p = NONE, m = NONE, g = NONE;
	mtype from;

end_none:
	do
	:: HELD ->
		/* retake */
		if
		:: p = 0
#if NP > 1
		:: p = 1
#endif
		fi;
		atomic {
			m = pm[p];
			if
			:: m == NONE -> goto next
			:: else
			fi
		};
		atomic {
			g = curg[m];
			if
			:: g == NONE -> goto next
			:: else
			fi
		};
#ifdef MUT_takefirst
		atomic {
			if
			:: status[g] == RUNNING || status[g] == SYSCALL -> from = status[g]
			:: else -> goto next
			fi
		};
		atomic {
			if
			:: pm[p] == m -> pm[p] = NONE; mp[m] = NONE
			:: else -> goto next
			fi
		};
#endif
		atomic {
			if
			:: status[g] == RUNNING -> from = RUNNING; status[g] = RUNNING_C
			:: status[g] == SYSCALL -> from = SYSCALL; status[g] = SYSCALL_C
#ifdef MUT_takepinned
			:: status[g] == PINNED -> from = RUNNING; status[g] = RUNNING_C
#endif
#ifdef MUT_takefirst
			:: else -> mp[m] = p; pm[p] = m; goto next
#else
			:: else -> goto next
#endif
			fi
		};
#if !defined(MUT_noverify) && !defined(MUT_takefirst)
		atomic {
			if
			:: gm[g] != m -> goto restore
			:: else
			fi
		};
		atomic {
			if
			:: curg[m] != g -> goto restore
			:: else
			fi
		};
#ifndef MUT_noverify_p
		atomic {
			if
			:: mp[m] != p -> goto restore
			:: else
			fi
		};
#endif
#endif
		mp[m] = NONE;
		pm[p] = NONE;
		atomic {
			if
			:: from == RUNNING -> assert(status[g] == RUNNING_C); status[g] = OFFP
			:: else -> assert(status[g] == SYSCALL_C); status[g] = SYSCALLNOP
			fi
		};
		/* handoffp */
		atomic { assert(!idle[p] && pm[p] == NONE); idle[p] = true; goto next };
restore:	atomic { status[g] = from; goto next }

	:: atomic { gives && IDLE && OFFPS -> m = 0 };
		/* check_offp: an idle P for a G that runs without one */
		atomic {
			do
			:: m < NM - 1 -> m++
			:: break
			od;
			g = curg[m];
			if
			:: g == NONE -> goto next
			:: else
			fi
		};
		atomic {
			if
			:: status[g] == OFFP -> pidleget(p)
			:: else -> goto next
			fi;
			if
			:: p == NONE -> goto next
			:: else
			fi
		};
		atomic {
			if
#ifdef MUT_givenoclaim
			:: status[g] == OFFP
#else
			:: status[g] == OFFP -> status[g] = OFFP_C
#endif
			:: else -> goto handoff
			fi
		};
		atomic {
			if
			:: gm[g] != m || curg[m] != g -> goto unclaim
			:: else
			fi
		};
		atomic {
			if
			:: mp[m] != NONE -> goto unclaim
			:: else
			fi
		};
		acquirep(m, p);
		atomic { status[g] = RUNNING; goto next };
unclaim:	status[g] = OFFP;
handoff:	atomic { assert(!idle[p]); idle[p] = true; goto next };

next:		atomic { p = NONE; m = NONE; g = NONE; from = 0 }
	od
}

proctype Rest() {
	byte i;

	timeout;
	do
	:: i < NG -> assert(status[i] == DEAD && !queued[i]); i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NP -> assert(idle[i] && pm[i] == NONE); i++
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		do
		:: i < NM -> run M(i); i++
		:: else -> break
		od;
		run Taker(true);
		if
		:: TAKERS > 1 -> run Taker(false)
		:: else
		fi;
		run Rest()
	}
}
