/* Who waits for which descriptor: the part of the poller that no backend changes. Owns
 * the table of descriptors, which never shrinks, and the list of registrations to be made
 * sure of. Next: netpoll_epoll.c. */
#include "netpoll.h"

#include "sched.h"

enum {
	CHUNK = 1024, /* descriptors; their structs are made together */
	CHUNKS = 1024,
	EVENTS = 128,
	EBADF_ = 9,
	EINTR_ = 4,
	ENOMEM_ = 12,
	ETIMEDOUT_ = 110,
};

struct pollwait {
	struct g *gp;
	uint64_t seq;
	struct pollwait *next, *prev;
	bool linked; /* under pd->lock */
};

struct polldesc {
	struct mutex lock;
	ATOMIC(uint32_t) events[2]; /* the tickets; written under lock */
	uint32_t generation; /* under lock; events of an older one are stale */
	bool registered; /* under lock; as far as we know */
	struct pollwait *first[2]; /* under lock */
	int32_t fd;
	/* On the list of those to be made sure of: under unsure_lock. */
	struct polldesc *nextunsure;
	bool unsure;
} __attribute__((aligned(CACHE_LINE)));

static ATOMIC(struct polldesc *) chunks[CHUNKS];
static ATOMIC(int32_t) nwaiters;
static const struct pollbackend *const backend = &poll_epoll;
static ATOMIC(uint32_t) up; /* 0 not yet, 1 the backend is there */
static struct mutex init_lock = MUTEX_INIT(RANK_POLLFD);

static struct mutex unsure_lock = MUTEX_INIT(RANK_LEAF);
static ATOMIC(struct polldesc *) unsure_list;

/* Until some G waits for a descriptor there is no backend, and no descriptor of ours in
 * the program's table: the M that waits for timers sleeps on this word. */
static ATOMIC(uint32_t) breakword;

static struct polldesc *make_chunk(ATOMIC(struct polldesc *) *at, int fd)
{
	struct polldesc *chunk;

	lock(&init_lock);
	chunk = ld_rlx(at);
	if (!chunk) {
		chunk = os_reserve(CHUNK * sizeof(*chunk));
		for (int i = 0; i < CHUNK && !os_failed(chunk); i++) {
			chunk[i].lock.rank = RANK_POLLFD;
			chunk[i].fd = fd / CHUNK * CHUNK + i;
		}
		/* Release: pairs with the acquire in descof. */
		if (os_failed(chunk))
			chunk = NULL;
		else
			st_rel(at, chunk);
	}
	unlock(&init_lock);
	return chunk;
}

/* With make, the caller is pinned. */
static struct polldesc *descof(int fd, bool make)
{
	if (fd < 0 || fd >= CHUNK * CHUNKS)
		return NULL;
	ATOMIC(struct polldesc *) *at = &chunks[fd / CHUNK];
	struct polldesc *chunk = ld_acq(at);
	if (!chunk && make)
		chunk = make_chunk(at, fd);
	return chunk ? &chunk[fd % CHUNK] : NULL;
}

static int bring_up(void)
{
	int r = 0;

	if (ld_acq(&up))
		return 0;
	lock(&init_lock);
	if (!ld_rlx(&up)) {
		r = backend->init();
		if (r == 0) {
			st_sc(&up, 1);
			/* Whoever sleeps on the word must come to the backend. */
			st_sc(&breakword, 1);
			futexwakeup(&breakword, 1);
		}
	}
	unlock(&init_lock);
	return r;
}

bool netpoll_anywaiters(void)
{
	return ld_rlx(&nwaiters) > 0;
}

bool netpoll_anyunsure(void)
{
	return ld_rlx(&unsure_list) != NULL;
}

void netpoll_forked(void)
{
	if (ld_rlx(&up))
		backend->forked();
	st_rlx(&up, 0);
	for (int i = 0; i < CHUNKS; i++)
		if (ld_rlx(&chunks[i]))
			st_rlx(&chunks[i], NULL);
	st_rlx(&nwaiters, 0);
	st_rlx(&breakword, 0);
	st_rlx(&unsure_list, NULL);
	st_rlx(&init_lock.key, 0);
	st_rlx(&init_lock.sleepers, 0);
	st_rlx(&unsure_lock.key, 0);
	st_rlx(&unsure_lock.sleepers, 0);
}

uint32_t netpoll_ticket(int fd, enum polldir dir)
{
	struct polldesc *pd = descof(fd, false);
	/* Acquire: pairs with the store in collect(). */
	return pd ? ld_acq(&pd->events[dir]) : 0;
}

static void link_wait(struct polldesc *pd, enum polldir dir, struct pollwait *w)
{
	w->linked = true;
	w->prev = NULL;
	w->next = pd->first[dir];
	if (w->next)
		w->next->prev = w;
	pd->first[dir] = w;
	add_rlx(&nwaiters, 1);
}

static void unlink_wait(struct polldesc *pd, enum polldir dir, struct pollwait *w)
{
	w->linked = false;
	if (w->prev)
		w->prev->next = w->next;
	else
		pd->first[dir] = w->next;
	if (w->next)
		w->next->prev = w->prev;
	add_rlx(&nwaiters, -1);
}

static uint64_t data_of(const struct polldesc *pd)
{
	return (uint64_t)pd->generation << 32 | (uint32_t)pd->fd;
}

/* Locks: pd's. */
static int rely_on(struct polldesc *pd)
{
	if (!pd->registered) {
		int r = backend->add(pd->fd, data_of(pd));
		if (r == 0)
			pd->registered = true;
		return r;
	}
	lock(&unsure_lock);
	if (!pd->unsure) {
		pd->unsure = true;
		pd->nextunsure = unsure_list;
		st_rlx(&unsure_list, pd);
	}
	unlock(&unsure_lock);
	return 0;
}

static struct polldesc *take_unsure(void)
{
	struct polldesc *pd;

	lock(&unsure_lock);
	pd = unsure_list;
	if (pd) {
		st_rlx(&unsure_list, pd->nextunsure);
		pd->unsure = false;
	}
	unlock(&unsure_lock);
	return pd;
}

/* Ends the waits of one direction. Locks: pd's. */
static void collect(struct polldesc *pd, enum polldir dir, struct glist *list)
{
	struct pollwait *w;

	/* Release: a caller with an older ticket, whose call came too early to see this
	 * event, does not sleep. */
	st_rel(&pd->events[dir], pd->events[dir] + 1);
	while ((w = pd->first[dir]) != NULL) {
		struct g *gp = w->gp;
		uint64_t seq = w->seq;
		unlink_wait(pd, dir, w);
		if (!wait_claim(gp, seq, WAIT_READY))
			continue;
		gp->schedlink = list->head;
		list->head = gp;
		list->n++;
	}
}

void netpoll_watchclock(void)
{
	if (bring_up() == 0)
		backend->watchclock();
}

void netpoll_verify(int n)
{
	struct glist list = { NULL, 0, NULL };
	struct polldesc *pd;

	while (n-- > 0 && ld_rlx(&unsure_list) && (pd = take_unsure()) != NULL) {
		lock(&pd->lock);
		if (pd->registered && (pd->first[POLL_READ] || pd->first[POLL_WRITE]) &&
		    backend->add(pd->fd, data_of(pd)) < 0) {
			/* It was closed, or is now of a kind that cannot be polled: the
			 * call itself will say so. */
			pd->registered = false;
			collect(pd, POLL_READ, &list);
			collect(pd, POLL_WRITE, &list);
		}
		unlock(&pd->lock);
	}
	injectglist(NULL, &list);
}

struct pollpark {
	struct polldesc *pd;
	bool deadline;
	uint64_t when;
	uint64_t seq;
};

static bool parkf(struct g *gp, void *arg)
{
	struct pollpark p = *(struct pollpark *)arg;
	bool ok = true;

	/* As in futex.c: the waiter cannot leave before it had pd->lock. */
	if (p.deadline)
		ok = timer_arm(ld_rlx(&getg()->m), &gp->timer, p.when, p.seq, gp) == 0 ||
		     !wait_claim(gp, p.seq, WAIT_NOMEM);
	unlock(&p.pd->lock);
	return ok;
}

int netpoll_wait(int fd, enum polldir dir, uint32_t ticket, const struct deadline *deadline)
{
	struct g *gp = getg();
	struct pollwait w = { .gp = gp };
	struct pollpark arg = { NULL, deadline != NULL, 0, 0 };
	struct polldesc *pd;
	enum waitresult how;
	struct m *mp;
	int r;

	mp = pin(gp);
	pd = descof(fd, true);
	r = pd ? bring_up() : fd < 0 ? -EBADF_ : -ENOMEM_;
	if (r < 0)
		goto out;
	arg.pd = pd;
	if (deadline)
		arg.when = timer_when(&gp->timer, deadline->clock, deadline->at);
	lock(&pd->lock);
	if (ld_rlx(&pd->events[dir]) == ticket)
		r = rely_on(pd);
	if (r < 0 || ld_rlx(&pd->events[dir]) != ticket) {
		unlock(&pd->lock);
		goto out;
	}
	arg.seq = w.seq = wait_begin(gp);
	link_wait(pd, dir, &w);
	st_rlx(&gp->waiton, (const void *)(uintptr_t)fd);
	park(mp, gp, parkf, &arg, dir == POLL_READ ? WAIT_READ : WAIT_WRITE);
	how = wait_result(gp);
	if (how != WAIT_READY) {
		lock(&pd->lock);
		if (w.linked)
			unlink_wait(pd, dir, &w);
		unlock(&pd->lock);
	}
	if (deadline && how != WAIT_TIMEOUT)
		timer_disarm(&gp->timer);
	r = how == WAIT_READY	  ? 0
	    : how == WAIT_TIMEOUT ? -ETIMEDOUT_
	    : how == WAIT_INTR	  ? -EINTR_
				  : -ENOMEM_;
out:
	unpin(gp);
	return r;
}

void netpoll_forget(int fd)
{
	struct polldesc *pd = descof(fd, false);
	struct glist list = { NULL, 0, NULL };
	struct g *self;
	struct m *mp;

	if (!pd)
		return;
	self = getg();
	mp = enter(self);
	lock(&pd->lock);
	if (pd->registered) {
		/* The registration would outlive the descriptor if the file has another. */
		backend->forget(fd);
		pd->registered = false;
	}
	pd->generation++;
	collect(pd, POLL_READ, &list);
	collect(pd, POLL_WRITE, &list);
	unlock(&pd->lock);
	injectglist(mp, &list);
	outof(self);
}

/* Sleeps on the word while there is no backend. */
static void wait_for_break(int64_t ns)
{
	if (ns == 0)
		return;
	if (ld_acq(&breakword) == 0)
		futexsleep(&breakword, 0, ns);
	/* A break that comes just before this needs no more: we are on our way to look. */
	st_sc(&breakword, 0);
}

struct glist netpoll(int64_t ns)
{
	struct glist list = { NULL, 0, NULL };
	struct pollevent ev[EVENTS];
	int n;

	if (!ld_acq(&up)) {
		wait_for_break(ns);
		return list;
	}
	if (ns != 0)
		netpoll_verify(INT32_MAX);
	n = backend->wait(ev, EVENTS, ns);
	for (int i = 0; i < n; i++) {
		struct polldesc *pd = descof((int)(uint32_t)ev[i].data, false);
		if (!pd)
			continue;
		lock(&pd->lock);
		if (pd->generation == (uint32_t)(ev[i].data >> 32)) {
			for (int dir = 0; dir < 2; dir++)
				if (ev[i].dir[dir])
					collect(pd, (enum polldir)dir, &list);
		}
		unlock(&pd->lock);
	}
	return list;
}

void netpoll_break(void)
{
	if (ld_acq(&up)) {
		backend->wake();
		return;
	}
	st_sc(&breakword, 1);
	futexwakeup(&breakword, 1);
	/* The backend may have come up since, with someone blocking in it. */
	if (ld_sc(&up))
		backend->wake();
}
