/* The descriptors that somebody has waited for: the part of the poller that no backend
 * changes. Owns their table, which never shrinks, and the list of registrations to be made
 * sure of. Next: pollwait.c, who waits; netpoll_epoll.c, how the kernel is asked. */
#include "early.h"
#include "fetch.h"
#include "keep.h"
#include "poller.h"
#include "pollwait.h"

enum {
	CHUNK = 1024, /* descriptors; their structs are made together */
	CHUNKS = 1024,
	EVENTS = 128,
};

static ATOMIC(struct polldesc *) chunks[CHUNKS];
FORKED _Alignas(64) static ATOMIC(int32_t) chunksend; /* beyond the last chunk */
const struct pollbackend *const poll_backend = &poll_epoll;
FORKED static ATOMIC(uint32_t) up; /* 0 not yet, 1 the backend is there */
static struct mutex init_lock = MUTEX_INIT(RANK_POLLFD);

static struct mutex unsure_lock = MUTEX_INIT(RANK_LEAF);
FORKED static ATOMIC(struct polldesc *) unsure_list;

/* Until some G waits for a descriptor there is no backend, and no descriptor of ours in
 * the program's table: the M that waits for timers sleeps on this word. */
FORKED static ATOMIC(uint32_t) breakword;
FORKED static ATOMIC(bool) owed; /* a break, by sysmon */

static struct polldesc *make_chunk(ATOMIC(struct polldesc *) *at, int fd)
{
	struct polldesc *chunk;

	lock(&init_lock);
	chunk = ld_rlx(at);
	if (!chunk) {
		chunk = keep(CHUNK * sizeof(*chunk));
		for (int i = 0; i < CHUNK && !os_failed(chunk); i++) {
			chunk[i].lock.rank = RANK_POLLFD;
			chunk[i].fd = fd / CHUNK * CHUNK + i;
		}
		/* Sequentially consistent: as netpoll_closed has it. And release: pairs with the
		 * acquire in descof. */
		if (os_failed(chunk)) {
			chunk = NULL;
		} else {
			if (ld_rlx(&chunksend) <= fd / CHUNK)
				st_sc(&chunksend, fd / CHUNK + 1);
			st_sc(at, chunk);
		}
	}
	unlock(&init_lock);
	return chunk;
}

int netpoll_end(void)
{
	return ld_sc(&chunksend) * CHUNK;
}

struct polldesc *descof(int fd, bool make)
{
	if (fd < 0 || fd >= CHUNK * CHUNKS)
		return NULL;
	ATOMIC(struct polldesc *) *at = &chunks[fd / CHUNK];
	struct polldesc *chunk = ld_acq(at);
	if (!chunk && make)
		chunk = make_chunk(at, fd);
	return chunk ? &chunk[fd % CHUNK] : NULL;
}

int poll_bring_up(void)
{
	int r = 0;

	if (ld_acq(&up))
		return 0;
	lock(&init_lock);
	if (!ld_rlx(&up)) {
		r = poll_backend->init();
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

int netpoll_own(int from)
{
	return poll_backend->own(from);
}

int netpoll_leaves(int fd)
{
	return poll_backend->leaves(fd);
}

void netpoll_room(void)
{
	poll_backend->room();
}

bool netpoll_anyunsure(void)
{
	return ld_rlx(&unsure_list) != NULL;
}

FORKS void netpoll_forked(void)
{
	if (ld_rlx(&up))
		poll_backend->forked();
	st_rlx(&up, 0);
	st_rlx(&chunksend, 0);
	for (int i = 0; i < CHUNKS; i++)
		if (ld_rlx(&chunks[i]))
			st_rlx(&chunks[i], NULL);
	pollwait_forked();
	st_rlx(&breakword, 0);
	st_rlx(&owed, false);
	st_rlx(&unsure_list, NULL);
	st_rlx(&init_lock.key, 0);
	st_rlx(&init_lock.sleepers, 0);
	st_rlx(&unsure_lock.key, 0);
	st_rlx(&unsure_lock.sleepers, 0);
}

void put_unsure(struct polldesc *pd)
{
	lock(&unsure_lock);
	if (!pd->unsure) {
		pd->unsure = true;
		pd->nextunsure = unsure_list;
		st_rlx(&unsure_list, pd);
	}
	unlock(&unsure_lock);
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

void netpoll_watchclock(void)
{
	if (poll_bring_up() == 0)
		poll_backend->watchclock();
}

void netpoll_verify(int n)
{
	struct glist list = { NULL, 0, NULL };
	struct polldesc *pd;

	while (n-- > 0 && ld_rlx(&unsure_list) && (pd = take_unsure()) != NULL) {
		lock(&pd->lock);
		if (ld_rlx(&pd->registered) && ld_rlx(&pd->first) && poll_sure(pd) < 0) {
			/* It was closed, or is now of a kind that cannot be polled: the
			 * call itself will say so. */
			st_rlx(&pd->registered, 0);
			poll_collect(pd, POLL_BOTH, true, &list);
		}
		unlock(&pd->lock);
	}
	injectglist(NULL, &list);
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

/* An event of pd woke an M and was for nobody: who reads there finds enough without waiting, as a
 * busy server does. After some of these it tells of none, until somebody waits for it again: that
 * takes two calls, and each event an M out of its sleep. It is not taken out: to add an epoll, the
 * kernel walks through all that is in it. */
static void woke_in_vain(struct polldesc *pd)
{
	struct glist none = { NULL, 0, NULL };

	lock(&pd->lock);
	if (pd->vain < POLL_VAIN) {
		pd->vain++;
	} else if ((ld_rlx(&pd->registered) & POLL_BOTH) && !ld_rlx(&pd->first)) {
		st_rlx(&pd->registered, poll_add(pd, 0, true) == 0 ? POLL_QUIET : 0);
		/* Who relies on that and does not sleep yet tries again. */
		poll_collect(pd, POLL_BOTH, true, &none);
	}
	unlock(&pd->lock);
}

/* Was an event of pd for nobody? One who has waited since the last such was perhaps served before
 * its M came. Locks: pd's. */
static bool in_vain(struct polldesc *pd)
{
	bool vain = !pd->waited && !ld_rlx(&pd->first);

	pd->waited = false;
	return vain;
}

/* ---- what many need ----
 *
 * Of each of thousands who wait the registration, the wait, the G and the stack have left the
 * caches by the time it is woken, and each would be waited for as it is needed, one after the
 * other: no load begins before the lock that comes before it is there. So those of all are asked
 * for first. */

enum { MANY = 16 };

static void fetch_waits(const struct pollevent *ev, int n)
{
	const struct polldesc *pd;

	for (int i = 0; i < n; i++)
		fetch(descof((int)(uint32_t)ev[i].data, false), 1);
	for (int i = 0; i < n; i++) {
		pd = descof((int)(uint32_t)ev[i].data, false);
		if (!pd)
			continue;
		fetch(ld_rlx(&pd->first), 1);
		fetch(ld_rlx(&pd->last), G_LINES);
	}
}

static void fetch_contexts(const struct glist *list)
{
	enum { STACK_LINES = 16 }; /* up to the program's own frames */

	for (const struct g *gp = list->head; gp; gp = gp->schedlink)
		fetch_context(gp, STACK_LINES);
}

struct glist netpoll(int64_t ns)
{
	struct glist list = { NULL, 0, NULL };
	struct pollevent ev[EVENTS];
	struct polldesc *vain = NULL;
	int n;

	if (!ld_acq(&up)) {
		wait_for_break(ns);
		return list;
	}
	if (ns != 0)
		netpoll_verify(INT32_MAX);
	n = poll_backend->wait(ev, EVENTS, ns);
	if (n >= MANY)
		fetch_waits(ev, n);
	for (int i = 0; i < n; i++) {
		struct polldesc *pd = descof((int)(uint32_t)ev[i].data, false);
		if (!pd)
			continue;
		lock(&pd->lock);
		if (pd->generation == (uint32_t)(ev[i].data >> 32)) {
			int32_t before = list.n;
			poll_collect(pd,
				     (uint8_t)(ev[i].dir[POLL_READ] << POLL_READ |
					       ev[i].dir[POLL_WRITE] << POLL_WRITE),
				     false, &list);
			if (ns != 0 && list.n == before && in_vain(pd))
				vain = pd;
		}
		unlock(&pd->lock);
	}
	if (vain && list.n == 0)
		woke_in_vain(vain);
	if (list.n >= MANY)
		fetch_contexts(&list);
	return list;
}

bool netpoll_owes(void)
{
	return ld_sc(&owed);
}

void netpoll_pay(void)
{
	if (unlikely(ld_rlx(&owed)) && xchg_sc(&owed, false))
		poll_backend->wake();
}

void netpoll_break(void)
{
	if (ld_acq(&up)) {
		if (unlikely(!poll_backend->wake()) && !on_sysmon()) {
			/* Before the wake; sysmon looks (netpoll_owes) once it has cleared its
			 * note. */
			st_sc(&owed, true);
			notewakeup(&sched.sysmonnote);
		}
		return;
	}
	st_sc(&breakword, 1);
	futexwakeup(&breakword, 1);
	/* The backend may have come up since, with someone blocking in it. */
	if (ld_sc(&up))
		poll_backend->wake();
}
