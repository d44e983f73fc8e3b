/* A policy in the place of Go's queues. While there is one the local queues stay empty: whatever is
 * runnable is here, and the global queue's calls (globq.c) lead here. Wired Gs stay in the global
 * queue's list, for each has an M of its own that waits there.
 *
 * All under sched.lock, but what is said otherwise. */
#ifndef HEDDLE_PLAN_H
#define HEDDLE_PLAN_H

#include "policies/spec.h"
#include "policy.h"
#include "sched.h"

/* What a policy knows of a G: made when it is first queued, and kept for the next G in its place.
 * Written under sched.lock, or by whoever owns the G. */
struct plan {
	struct heddle_thread t; /* first: a policy of the user's is handed this */
	struct g *gp;
	uint64_t key; /* the least goes first, */
	uint64_t order; /* among equals the oldest */
	uint32_t at; /* in its heap, plus one; 0: not queued */
	int32_t heap;
	uint64_t since; /* when it last got a P */
	ATOMIC(uint64_t) slice; /* ns; 0: the policy's; sysmon reads it */
	bool pointed; /* it gives way at a point of its own, not for a slice */
};

struct turnlog;

/* One that is built in: how it ranks. */
struct ranking {
	/* rank: sets key; t.reason says why it is runnable. */
	void (*rank)(struct plan *plan);
	/* point: is the running G to give way where it stands? least: the first of those queued, or
	 * NULL. NULL: never. */
	bool (*point)(struct plan *plan, const struct plan *least);
	void (*picked)(struct plan *plan);
	bool own; /* each P has its own heap, and thieves take the oldest of another's */
	bool lots; /* whoever is queued is as likely to be picked as any other, whatever the keys */
	uint64_t slice; /* ns */
};

/* rankings_begin: nothing has been ranked yet. */
void rankings_begin(void);

extern const struct ranking rankings[POLICY_KINDS] __attribute__((visibility("hidden")));

/* plan_begin: before the first G; log: its turns are recorded or replayed, or NULL. True if it has
 * points. */
bool plan_begin(const struct policyspec *wanted, const struct heddle_policy *own,
		struct turnlog *log);
const struct policyspec *plan_spec(void);
/* An order from outside: slices are that long, whatever those that are built in would draw. */
void plan_slice_is(uint64_t ns);

/* plan_lot: the next random number of the seed's. plan_rank_queued: all that are queued get the
 * keys that key gives them now. */
uint64_t plan_lot(void);
void plan_rank_queued(void (*key)(struct plan *plan));

/* own_begin: takes the user's policy; false: it will not serve. */
bool own_begin(const struct heddle_policy *policy, const struct policyspec *spec, uint64_t seed);

/* own_*: the user's functions. own_picks, own_steals: it has one that picks, or steals; own_pick:
 * NULL, and own_steal: 0: it broke a rule. own_fault: what rule it broke, or NULL. */
void own_started(struct plan *plan);
void own_readied(struct plan *plan, int32_t pid);
void own_ended(struct plan *plan);
void own_slice(struct plan *plan);
bool own_picks(void);
const struct heddle_thread *own_pick(int32_t pid);
bool own_steals(void);
uint32_t own_steal(int32_t pid, const uint32_t *queued, int32_t n, int32_t *victim);
const char *own_fault(void);
const char *own_name(void);

#endif
