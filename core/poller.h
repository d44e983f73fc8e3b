/* The poller as the scheduler sees it, and its backends. For those who wait: netpoll.h. */
#ifndef HEDDLE_POLLER_H
#define HEDDLE_POLLER_H

#include "netpoll.h"

struct glist;

/* netpoll: the Gs that have become ready, GWAITING and claimed; waits for one or for
 * netpoll_break up to ns (0: not at all, negative: without end). */
struct glist netpoll(int64_t ns);

/* netpoll_break: the M that blocks in netpoll, or the next one to do so, returns. */
void netpoll_break(void);

/* netpoll_owes: has one been asked for by a thread that has a table of descriptors of its own,
 * where ours mean nothing? netpoll_pay: makes it. Sysmon's, which is woken for that. */
bool netpoll_owes(void);
void netpoll_pay(void);

/* netpoll_verify: makes sure of up to n registrations that waits rely on. Not for sysmon,
 * whose descriptors are not the program's. */
void netpoll_verify(int n);
bool netpoll_anywaiters(void);

/* netpoll_room: the program's table of descriptors becomes large enough for ours. For who is alone
 * with it: to let one grow that several threads have, the kernel waits until none of them looks at
 * the old one, 10 ms and more. */
void netpoll_room(void);

/* netpoll_anyunsure: waits rely on registrations that have not been made sure of since. */
bool netpoll_anyunsure(void);

/* netpoll_watchclock: from here on timers_clockset() is called when the real-time clock is
 * set. Without the means for it, waits by that clock end late after it was set forward. */
void netpoll_watchclock(void);

/* sysmon_polls: the caller goes on with something else than the poller, and perhaps nobody blocks
 * there while somebody waits: if sysmon was to sleep for long it looks soon. sysmon_watches: from
 * its next look on it looks so often for a while, and that one is as near: else false. */
enum { POLL_EARLY_NS = 1000 * 1000 }; /* from one such look to the next */
void sysmon_polls(void);
bool sysmon_watches(void);

/* ---- brief.c: who polls while one who came out of the poller runs what it found ---- */
struct m;
struct g;

/* poll_left: it is to run gp, and readied so many others; had it waited for that, or was it there?
 * True if nobody need poll meanwhile. poll_back: it looks for something to run again. Context: g0
 * with a P. */
bool poll_left(struct m *mp, const struct g *gp, int32_t others, bool waited);
void poll_back(struct m *mp);

/* poll_forgotten: has nobody polled for long, though somebody waits or a timer does? Sysmon's,
 * while a P is idle. */
bool poll_forgotten(uint64_t now);

/* poll_looks: is it worth a call to look at the poller before waiting there? poll_looked: it was
 * looked. poll_waited: it was waited, since that time in cycles; false if it was no wait. */
bool poll_looks(void);
void poll_looked(bool found);
bool poll_waited(uint64_t since);

/* ---- a backend: how the kernel is asked ---- */
struct pollevent {
	uint64_t data; /* as given to add */
	bool dir[2];
};

struct pollbackend {
	void (*room)(void); /* netpoll_room */
	int (*init)(void); /* 0 or -errno */
	/* add: report each new event on fd in these directions (1 << enum polldir), and one
	 * now if it is ready, with data. Already there: only make sure of that; `known`: it
	 * should be. 0 or -errno. */
	int (*add)(int fd, uint8_t dirs, bool known, uint64_t data);
	/* sure: that it is there, as by the last add. One that is there still reports nothing
	 * then: who waits for something else beside what is ready would be woken for ever. */
	int (*sure)(int fd, uint8_t dirs, uint64_t data);
	/* ready: is one of them, now, in a direction that is waited for, and nobody takes turns?
	 * False also where that cannot be asked. */
	bool (*ready)(const struct pollwait *w, int n);
	void (*forget)(int fd);
	/* wait: up to n events; fewer, or 0, also after wake. */
	int (*wait)(struct pollevent *ev, int n, int64_t ns);
	bool (*wake)(void); /* false: the caller has a table of descriptors of its own */
	void (*watchclock)(void);
	/* own, leaves: netpoll_own, netpoll_leaves. */
	int (*own)(int from);
	int (*leaves)(int fd);
	/* forked: the descriptors are the parent's; the child's copies are closed. */
	void (*forked)(void);
};

extern const struct pollbackend poll_epoll __attribute__((visibility("hidden")));

#endif
