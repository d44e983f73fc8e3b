/* What netpoll.c and pollwait.c share: the struct that stands for a descriptor. */
#ifndef HEDDLE_POLLWAIT_H
#define HEDDLE_POLLWAIT_H

#include "netpoll.h"
#include "poller.h"
#include "sched.h"

/* Two cache lines. */
struct polldesc {
	struct mutex lock;
	ATOMIC(uint32_t) events[2]; /* the tickets; written under lock */
	uint32_t generation; /* under lock; events of an older one are stale */
	ATOMIC(uint8_t)
	registered; /* written under lock; for which directions, or none, as far as we know */
	bool waited; /* somebody, since the last event for nobody that a sleeping M got; under lock
		      */
	uint8_t vain; /* how often one did though nobody had: netpoll.c; under lock */
	int32_t fd;
	bool unsure; /* on the list of those to be made sure of: under its lock, in netpoll.c */
	ATOMIC(struct pollwait *) first; /* written under lock */
	ATOMIC(const struct g *) last; /* who waited last, for fetch_waits; written under lock */
	struct polldesc *nextunsure;
	/* The low half: those that keep the file; the high: which of this number. Of the calls
	 * themselves, which would have to fetch what others have written of events. */
	_Alignas(CACHE_LINE) ATOMIC(uint64_t) calls;
} __attribute__((aligned(CACHE_LINE)));

enum { POLL_BOTH = 1 << POLL_READ | 1 << POLL_WRITE };
enum { POLL_QUIET = 1 << 2 }; /* of what is registered: for no direction */
enum { POLL_VAIN = 4 }; /* what vain rises to */

extern const struct pollbackend *const poll_backend __attribute__((visibility("hidden")));

/* descof: fd's, or NULL. With make, the caller is pinned. */
struct polldesc *descof(int fd, bool make);

/* poll_bring_up: the backend. 0 or -errno. poll_add, poll_sure: the
 * backend's. Locks: pd's. */
int poll_bring_up(void);
static inline int poll_add(const struct polldesc *pd, uint8_t dirs, bool known)
{
	return poll_backend->add(pd->fd, dirs, known,
				 (uint64_t)pd->generation << 32 | (uint32_t)pd->fd);
}

static inline int poll_sure(const struct polldesc *pd)
{
	return poll_backend->sure(pd->fd, ld_rlx(&pd->registered),
				  (uint64_t)pd->generation << 32 | (uint32_t)pd->fd);
}

/* put_unsure: a wait relies on pd's registration, which may have been made long ago. With that
 * wait linked, else it would be taken off again as one that nobody relies on. Locks: pd's. */
void put_unsure(struct polldesc *pd);

/* poll_collect: an event in these directions: the waits that it concerns, claimed, to *list; of
 * those that take turns all, or one. Locks: pd's. */
void poll_collect(struct polldesc *pd, uint8_t dirs, bool all, struct glist *list);

void pollwait_forked(void);

#endif
