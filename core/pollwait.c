/* Who waits for which descriptors, and how a wait ends: by an event, in time, interrupted, or
 * because the descriptor is forgotten. tests/model explores this very file. Next: netpoll.c. */
#include "pollwait.h"

#include "early.h"
#include "poller.h"
#include "sched.h"

enum {
	EBADF_ = 9,
	EINTR_ = 4,
	ENOMEM_ = 12,
	ESTALE_ = 116,
	ETIMEDOUT_ = 110,
};

/* What a ticket counts; above it: there was nothing yet that counts events. */
#define TICKETS ((uint32_t)1 << 31)

FORKED _Alignas(64) static ATOMIC(int32_t) nwaiters;

bool netpoll_anywaiters(void)
{
	return ld_sc(&nwaiters) > 0;
}

FORKS void pollwait_forked(void)
{
	st_rlx(&nwaiters, 0);
}

/* How many were closed of which there was nothing. */
static ATOMIC(uint32_t) unborn;

static uint32_t unborn_ticket(void)
{
	return TICKETS | ld_sc(&unborn) % TICKETS;
}

uint32_t netpoll_ticket(int fd, enum polldir dir)
{
	struct polldesc *pd = descof(fd, false);
	/* Acquire: pairs with the store in count_event(). */
	return pd ? ld_acq(&pd->events[dir]) : unborn_ticket();
}

/* Release: a caller with an older ticket, whose call came too early to see this event, does not
 * sleep. Locks: pd's. */
static void count_event(struct polldesc *pd, int dir)
{
	st_rel(&pd->events[dir], (pd->events[dir] + 1) % TICKETS);
}

/* There is something now: has it been closed meanwhile? Else its events count from 0. */
static bool born(struct pollwait *w)
{
	for (int dir = 0; dir < 2; dir++)
		if (w->ticket[dir] & TICKETS) {
			if (w->ticket[dir] != unborn_ticket())
				return false;
			w->ticket[dir] = 0;
		}
	return true;
}

/* Those that take turns stand behind the others, the oldest first. Locks, of both: pd's. */
static void link_wait(struct polldesc *pd, struct pollwait *w)
{
	struct pollwait *first = ld_rlx(&pd->first);

	w->linked = true;
	st_rlx(&pd->last, w->gp);
	w->prev = first ? first->prev : w;
	w->next = w->turns ? NULL : first;
	if (first)
		first->prev = w;
	if (first && w->turns)
		w->prev->next = w;
	else
		st_rlx(&pd->first, w);
}

static void unlink_wait(struct polldesc *pd, struct pollwait *w)
{
	struct pollwait *first = ld_rlx(&pd->first);

	w->linked = false;
	if (w->next)
		w->next->prev = w->prev;
	else
		first->prev = w->prev;
	if (w != first)
		w->prev->next = w->next;
	else
		st_rlx(&pd->first, w->next);
}

/* Locks: pd's. *added: the registration was made by this. */
static int rely_on(struct polldesc *pd, uint8_t dirs, bool *added)
{
	int r;

	pd->waited = true;
	*added = (dirs & ~ld_rlx(&pd->registered)) != 0;
	if (!*added)
		return 0;
	dirs |= ld_rlx(&pd->registered) & POLL_BOTH;
	r = poll_add(pd, dirs, ld_rlx(&pd->registered) != 0);
	if (r == 0)
		st_rlx(&pd->registered, dirs);
	return r;
}

/* Ends the waits that these directions concern. Locks: pd's. */
void poll_collect(struct polldesc *pd, uint8_t dirs, bool all, struct glist *list)
{
	struct pollwait *next;

	for (int dir = 0; dir < 2; dir++)
		if (dirs >> dir & 1)
			count_event(pd, dir);
	for (struct pollwait *w = ld_rlx(&pd->first); w; w = next) {
		struct g *gp = w->gp;
		next = w->next;
		if (!(w->dirs & dirs))
			continue;
		uint64_t seq = w->seq;
		/* Of one that is claimed *w may be gone. */
		bool last = w->turns && !all;
		unlink_wait(pd, w);
		if (!wait_claim(gp, seq, WAIT_READY))
			continue;
		if (last)
			next = NULL;
		gp->schedlink = list->head;
		list->head = gp;
		list->n++;
	}
}

void netpoll_tickets(struct pollwait *w, int n)
{
	for (int i = 0; i < n; i++)
		for (int dir = 0; dir < 2; dir++)
			w[i].ticket[dir] = netpoll_ticket(w[i].fd, (enum polldir)dir);
}

static bool seen(const struct pollwait *w)
{
	for (int dir = 0; dir < 2; dir++)
		if ((w->dirs >> dir & 1) && ld_rlx(&w->pd->events[dir]) != w->ticket[dir])
			return true;
	return false;
}

/* Sees to it that events on all of them are reported. 1: there was one already. */
static int rely_on_all(struct pollwait *w, int n)
{
	for (int i = 0; i < n; i++) {
		int r = 0;
		w[i].linked = false;
		w[i].pd = NULL;
		if (w[i].fd < 0 && !w[i].alone)
			continue;
		w[i].pd = descof(w[i].fd, true);
		if (!w[i].pd)
			return w[i].fd < 0 ? -EBADF_ : -ENOMEM_;
		if (!born(&w[i]))
			return 1;
		lock(&w[i].pd->lock);
		if (!seen(&w[i]))
			r = rely_on(w[i].pd, w[i].dirs, &w[i].added);
		if (r == 0)
			r = seen(&w[i]);
		unlock(&w[i].pd->lock);
		if (r != 0)
			return r;
	}
	return 0;
}

/* From the first link on the wait may be claimed: whoever does it waits until the G is
 * parked (await_parked), which it will be without blocking before. */
static void link_all(struct g *gp, struct pollwait *w, int n, uint64_t seq)
{
	for (int i = 0; i < n; i++) {
		struct polldesc *pd = w[i].pd;
		if (!pd)
			continue;
		w[i].gp = gp;
		w[i].seq = seq;
		lock(&pd->lock);
		if (seen(&w[i])) {
			/* Too late to sleep. Lost: somebody else ended it before. */
			unlock(&pd->lock);
			wait_claim(gp, seq, WAIT_OVER);
			return;
		}
		link_wait(pd, &w[i]);
		if (!w[i].added)
			put_unsure(pd);
		unlock(&pd->lock);
	}
}

static void unlink_all(struct pollwait *w, int n)
{
	for (int i = 0; i < n; i++) {
		if (!w[i].pd)
			continue;
		lock(&w[i].pd->lock);
		if (w[i].linked)
			unlink_wait(w[i].pd, &w[i]);
		unlock(&w[i].pd->lock);
	}
}

static int park_for(struct m *mp, struct g *gp, struct pollwait *w, int n,
		    const struct deadline *deadline)
{
	uint64_t seq = wait_begin(gp);
	enum waitresult how;
	bool armed = false;

	/* Sequentially consistent: see sysmon_polls. */
	add_sc(&nwaiters, 1);
	link_all(gp, w, n, seq);
	if (ld_rlx(&sched.runqsize) > 0 || !runqempty(ld_rlx(&mp->p)))
		sysmon_polls();
	if (wait_result(gp) != WAIT_OVER && deadline) {
		armed = timer_arm(mp, &gp->timer,
				  timer_when(&gp->timer, deadline->clock, deadline->at), seq,
				  gp) == 0;
		if (!armed)
			wait_claim(gp, seq, WAIT_NOMEM);
	}
	how = wait_result(gp);
	if (how != WAIT_OVER && how != WAIT_NOMEM) {
		bool write = n > 0 && !(w->dirs & 1 << POLL_READ);
		st_rlx(&gp->waiton, (const void *)(uintptr_t)(n > 0 ? w->fd : -1));
		park(mp, gp, NULL, NULL, write ? WAIT_WRITE : WAIT_READ);
		how = wait_result(gp);
	}
	add_rlx(&nwaiters, -1);
	/* What ended a wait for one has unlinked it. */
	if (n > 1 || (how != WAIT_READY && how != WAIT_STALE))
		unlink_all(w, n);
	if (armed && how != WAIT_TIMEOUT)
		timer_disarm(&gp->timer);
	switch (how) {
	case WAIT_TIMEOUT:
		return -ETIMEDOUT_;
	case WAIT_INTR:
		/* What is waited for may have come before what interrupts the wait, and be told of
		 * only later: a child's end by its pipe before its SIGCHLD. As the kernel, which
		 * looks for it before it looks for signals; and before a handler runs, which may
		 * bring it about. Who takes turns leaves it to the one who was woken for it. */
		return poll_backend->ready(w, n) ? 0 : -EINTR_;
	case WAIT_NOMEM:
		return -ENOMEM_;
	case WAIT_STALE:
		return -ESTALE_;
	default:
		return 0;
	}
}

/* Unless it is kept already. Counted, then used by its number; who closes it looks whether anybody
 * is counted (netpoll_called), renumbers, and closes then. Locks: none. Context: pinned. */
static bool keep_file(struct pollkeep *k, int fd)
{
	struct polldesc *pd = ld_rlx(&k->calls) ? NULL : descof(fd, true);

	if (!pd)
		return ld_rlx(&k->calls) != NULL;
	k->fd = fd;
	k->file = (uint32_t)(add_sc(&pd->calls, 1) >> 32);
	st_rlx(&k->calls, &pd->calls);
	return true;
}

int netpoll_waitany(struct pollwait *w, int n, const struct deadline *deadline)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);
	int r = poll_bring_up();

	for (int i = 0; i < n; i++)
		w[i].moved = -1;
	if (r == 0 && n == 1 && w->keep)
		w->kept = keep_file(w->keep, w->fd);
	if (r == 0)
		r = rely_on_all(w, n);
	if (r == 0)
		r = park_for(mp, gp, w, n, deadline);
	unpin(gp);
	return r > 0 ? 0 : r;
}

int netpoll_wait(int fd, enum polldir dir, uint32_t ticket, const struct deadline *deadline)
{
	struct pollwait w = { .fd = fd, .dirs = (uint8_t)(1 << dir), .alone = true };

	w.ticket[dir] = ticket;
	return netpoll_waitany(&w, 1, deadline);
}

bool netpoll_known(int fd)
{
	struct polldesc *pd = descof(fd, false);

	return pd && (ld_rlx(&pd->registered) != 0 || ld_rlx(&pd->first) != NULL);
}

bool netpoll_busy(int fd)
{
	struct polldesc *pd = descof(fd, false);

	return pd && ld_rlx(&pd->first) != NULL;
}

bool netpoll_called(int fd)
{
	struct polldesc *pd = descof(fd, false);

	return pd && (uint32_t)ld_sc(&pd->calls) != 0;
}

uint32_t netpoll_file(int fd)
{
	struct polldesc *pd = descof(fd, false);

	return pd ? (uint32_t)(ld_sc(&pd->calls) >> 32) : 0;
}

/* From here on the number is another file's: pairs with netpoll_kept, which is asked before each
 * use. Returns how many kept this one. */
static int renumber(struct polldesc *pd)
{
	uint64_t word;

	do
		word = ld_sc(&pd->calls);
	while (!cas_sc(&pd->calls, word, ((word >> 32) + 1) << 32));
	return (int)(uint32_t)word;
}

static void happened(int fd, uint8_t dirs, bool all, bool leaves)
{
	struct polldesc *pd = descof(fd, false);
	struct glist list = { NULL, 0, NULL };
	struct g *self = getg();
	struct m *mp = enter(self);

	if (pd) {
		lock(&pd->lock);
		if (leaves && ld_rlx(&pd->registered)) {
			poll_backend->forget(fd);
			st_rlx(&pd->registered, 0);
		}
		poll_collect(pd, dirs, all, &list);
		unlock(&pd->lock);
	}
	if (list.n == 1 && mp)
		ready(mp, list.head);
	else
		injectglist(mp, &list);
	outof(self);
}

void netpoll_poke(int fd, enum polldir dir)
{
	happened(fd, (uint8_t)(1 << dir), true, false);
}

void netpoll_pass(int fd, enum polldir dir)
{
	happened(fd, (uint8_t)(1 << dir), false, false);
}

void netpoll_leave(int fd)
{
	if (descof(fd, false))
		happened(fd, POLL_BOTH, true, true);
}

int netpoll_forget(int fd, int moved)
{
	struct polldesc *pd = descof(fd, false);
	struct glist list = { NULL, 0, NULL };
	struct pollwait *next;
	struct g *self;
	struct m *mp;
	int n = 0;

	if (!pd)
		return 0;
	self = getg();
	mp = enter(self);
	lock(&pd->lock);
	if (ld_rlx(&pd->registered)) {
		/* The registration would outlive the descriptor if the file has another. */
		poll_backend->forget(fd);
		st_rlx(&pd->registered, 0);
	}
	pd->generation++;
	n = renumber(pd);
	/* Who has a ticket and does not sleep yet tries again. */
	for (int dir = 0; dir < 2; dir++)
		count_event(pd, dir);
	for (struct pollwait *w = ld_rlx(&pd->first); w; w = next) {
		struct g *gp = w->gp;
		bool alone = w->alone, kept = w->kept;
		next = w->next;
		uint64_t seq = w->seq;
		w->moved = moved;
		unlink_wait(pd, w);
		/* Who waits for others, too, hears of each, whatever ends the wait. */
		n += !alone;
		if (!wait_claim(gp, seq, WAIT_STALE))
			continue;
		n += alone && !kept;
		gp->schedlink = list.head;
		list.head = gp;
		list.n++;
	}
	unlock(&pd->lock);
	injectglist(mp, &list);
	outof(self);
	return n;
}

/* Who registers it holds pd's lock, and finds it closed or has linked a wait, or will look at its
 * ticket. */
void netpoll_closed(int fd)
{
	/* Sequentially consistent: whoever makes it now is seen, or sees this. */
	if (!descof(fd, false))
		add_sc(&unborn, 1);
	if (descof(fd, false))
		happened(fd, POLL_BOTH, true, false);
}
