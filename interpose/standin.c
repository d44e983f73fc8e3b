/* Descriptors that are closed while others are in a call on them. The kernel keeps the file for a
 * call in progress; ours lets go of it each time it sleeps in the poller, or is called out of the
 * kernel to do so. So whoever closes such a descriptor duplicates it before, to a high number: who
 * slept finds that in its pollwait, who holds it (fd_hold) in its place among those, and who keeps
 * the file (struct pollkeep), as all do that read or write and have waited, by the file's name.
 *
 * Owns the stand-ins, and the places of those who hold. What closes a descriptor without our seeing
 * it makes none. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

#include "early.h"
#include "guard.h"
#include "io.h"

enum { STANDINS = 1024, HOLDERS = 4096 };

FORKED static ATOMIC(uint32_t) guard;
FORKED static struct {
	int fd;
	int users; /* 0: the place is free */
	uint64_t of; /* whose: of_file */
} standins[STANDINS]; /* under guard */
FORKED static ATOMIC(int) nstandins;

static uint64_t of_file(int fd, uint32_t file)
{
	return (uint64_t)file << 32 | (uint32_t)fd;
}

/* ---- who uses a stand-in ---- */

/* In ghold: a handler may close, too, or not come back. */
static void put_held(int fd)
{
	bool last = false;

	guard_lock(&guard);
	for (int i = 0; i < STANDINS; i++)
		if (standins[i].users && standins[i].fd == fd)
			last = --standins[i].users == 0;
	if (last)
		add_rlx(&nstandins, -1);
	guard_unlock(&guard);
	if (last) {
		netpoll_forget(fd, -1);
		arch_syscall3(SYS_close, fd, 0, 0);
	}
}

static void put(int fd)
{
	ghold();
	put_held(fd);
	gunhold();
}

int standin_from(int from)
{
	int first = -1;

	/* Relaxed: of one that is made or ends just now either answer is right. */
	if (likely(ld_rlx(&nstandins) == 0))
		return -1;
	ghold();
	guard_lock(&guard);
	for (int i = 0; i < STANDINS; i++) {
		int fd = standins[i].fd;
		if (standins[i].users && fd >= from && (first < 0 || fd < first))
			first = fd;
	}
	guard_unlock(&guard);
	gunhold();
	return first;
}

void standin_use(const int *fd)
{
	struct thread *t = thread_self();

	for (int i = 0; i < STANDINS_USED; i++)
		if (!ld_rlx(&t->standins[i].at)) {
			t->standins[i].fd = *fd;
			/* Release: for fd_leaves, in a handler of this thread's. */
			st_rel(&t->standins[i].at, fd);
			break;
		}
}

void standin_done(const int *fd)
{
	struct thread *t = thread_self(); /* none in a child that runs natively */

	ghold();
	for (int i = 0; t && i < STANDINS_USED; i++)
		if (ld_rlx(&t->standins[i].at) == fd)
			st_rlx(&t->standins[i].at, NULL);
	put_held(*fd);
	gunhold();
}

/* ---- who holds what ---- */

/* The low half is the descriptor, plus one; 0: the place is free. Above it: its stand-in, plus one,
 * or 0; and whether it was disconnected. */
static ATOMIC(uint64_t) holders[HOLDERS];
FORKED static ATOMIC(bool) anyheld; /* since the last fork */
#define DISCONNECTED ((uint64_t)1 << 63)

/* In the count of fd.h. */
enum { FAILING = 1 << 15 };

static uint64_t word_of(int fd)
{
	return (uint32_t)fd + 1;
}

static int standin_of(uint64_t word)
{
	return (int)(uint32_t)((word & ~DISCONNECTED) >> 32) - 1;
}

bool fd_holds(const struct thread *t)
{
	return ld_rlx(&t->holds[0]) != 0;
}

bool fd_hold(struct thread *t, int fd)
{
	ATOMIC(uint32_t) *mine = &t->holds[fd_holds(t)];
	uint32_t at = (uint32_t)t->tid;
	struct fd *p;

	if (ld_rlx(mine) || t->ownfiles)
		return false;
	p = fd_place(fd);
	if (!p)
		return false;
	if (unlikely(!ld_rlx(&anyheld)))
		st_rlx(&anyheld, true);
	for (uint32_t i = 0; i < HOLDERS; i++, at++) {
		ATOMIC(uint64_t) *place = &holders[at % HOLDERS];
		if (ld_rlx(place) || !cas_sc(place, 0, word_of(fd)))
			continue;
		st_rlx(mine, at % HOLDERS + 1);
		/* In this order: fd_closing does the reverse. Who closes it just now is before us,
		 * or after. */
		add_sc(&p->held, 1);
		return true;
	}
	return false;
}

int fd_held(const struct thread *t, int fd)
{
	for (int i = 0; i < 2; i++) {
		uint32_t at = ld_rlx(&t->holds[i]);
		uint64_t word = at ? ld_acq(&holders[at - 1]) : 0;
		if ((uint32_t)word == word_of(fd) && standin_of(word) >= 0)
			return standin_of(word);
	}
	return fd;
}

/* ---- who keeps a file ---- */

/* In ghold. Who closed it has the guard until the stand-in is there. */
static int standin_for(int number, uint32_t file)
{
	uint64_t of = of_file(number, file);
	int fd = -1;

	guard_lock(&guard);
	for (int i = 0; i < STANDINS; i++)
		if (standins[i].users && standins[i].of == of)
			fd = standins[i].fd;
	guard_unlock(&guard);
	return fd;
}

bool standin_kept(struct thread *t, int *fd)
{
	pollcalls *calls = ld_rlx(&t->keep.calls);

	if (!calls || netpoll_kept(calls, t->keep.file))
		return false;
	st_rlx(&t->keep.calls, NULL);
	*fd = standin_for(t->keep.fd, t->keep.file);
	return true;
}

void standin_over(struct thread *t)
{
	pollcalls *calls;
	int fd;

	if (!ld_rlx(&t->keep.calls))
		return;
	/* A handler lets go of it, too. */
	ghold();
	calls = ld_rlx(&t->keep.calls);
	st_rlx(&t->keep.calls, NULL);
	if (calls && unlikely(!netpoll_over(calls, t->keep.file))) {
		fd = standin_for(t->keep.fd, t->keep.file);
		if (fd >= 0)
			put_held(fd);
	}
	gunhold();
}

static void letgo(ATOMIC(uint32_t) *mine)
{
	uint32_t at = ld_rlx(mine);
	uint64_t word;

	if (likely(at == 0))
		return;
	st_rlx(mine, 0);
	word = xchg_sc(&holders[at - 1], 0);
	add_sc(&fd_known((int)((uint32_t)word - 1))->held, (uint16_t)-1);
	if (standin_of(word) >= 0)
		put(standin_of(word));
}

/* The second first: there is none without a first. */
void fd_letgo(struct thread *t)
{
	letgo(&t->holds[1]);
	letgo(&t->holds[0]);
	standin_over(t);
}

void fd_leaves(struct thread *t)
{
	uintptr_t any = ld_rlx(&t->holds[0]) | (uintptr_t)ld_rlx(&t->keep.calls);

	for (int i = 0; i < STANDINS_USED; i++)
		any |= (uintptr_t)ld_rlx(&t->standins[i].at);
	/* Hardly any has. */
	if (likely(any == 0))
		return;
	fd_letgo(t);
	for (int i = 0; i < STANDINS_USED; i++) {
		if (!ld_rlx(&t->standins[i].at))
			continue;
		st_rlx(&t->standins[i].at, NULL);
		put(t->standins[i].fd);
	}
}

static bool is_held(int fd)
{
	struct fd *p = fd_known(fd);

	return p && (ld_sc(&p->held) & ~FAILING) != 0;
}

/* Returns how many. */
static int holders_move(int fd, int to)
{
	int n = 0;

	for (int i = 0; is_held(fd) && i < HOLDERS; i++) {
		uint64_t word = ld_sc(&holders[i]);
		if ((word & ~DISCONNECTED) == word_of(fd) &&
		    cas_sc(&holders[i], word, word | (uint64_t)((uint32_t)to + 1) << 32))
			n++;
	}
	return n;
}

void fd_disconnected(const struct thread *but, int fd)
{
	for (uint32_t i = 0; i < HOLDERS; i++) {
		uint64_t word = ld_sc(&holders[i]);
		while (i + 1 != ld_rlx(&but->holds[0]) && !(word & DISCONNECTED) &&
		       ((uint32_t)word == word_of(fd) || (word && standin_of(word) == fd)) &&
		       !cas_sc(&holders[i], word, word | DISCONNECTED))
			word = ld_sc(&holders[i]);
	}
}

bool fd_others(int fd)
{
	struct fd *p = fd_known(fd);

	return p && (ld_sc(&p->held) & ~FAILING) > 1;
}

bool fd_fails(int fd)
{
	return !(or_sc(&fd_known(fd)->held, FAILING) & FAILING);
}

void fd_failed(int fd)
{
	and_sc(&fd_known(fd)->held, (uint16_t)~FAILING);
}

bool fd_failing(int fd)
{
	return ld_sc(&fd_known(fd)->held) & FAILING;
}

bool held_disconnected(const struct thread *t)
{
	uint32_t at = ld_rlx(&t->holds[0]);

	return at && (ld_acq(&holders[at - 1]) & DISCONNECTED);
}

/* ---- closing ---- */

/* In ghold, too, as put_held. */
static void move_users(int fd)
{
	/* Above what programs expect to see used. */
	enum { HIGH = 900 };
	long to;
	int n, i;

	ghold();
	to = arch_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH);
	if (to < 0)
		to = arch_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
	guard_lock(&guard);
	for (i = 0; i < STANDINS && standins[i].users; i++)
		continue;
	if (to >= 0 && i < STANDINS) {
		fd_renewed((int)to);
		standins[i].fd = (int)to;
		standins[i].of = of_file(fd, netpoll_file(fd));
		/* Who is told of it may be done with it at once, and waits for the guard. In this
		 * order: who has a ticket that is still good looks at its place after. */
		n = holders_move(fd, (int)to);
		n += netpoll_forget(fd, (int)to);
		standins[i].users = n;
		if (n > 0) {
			add_rlx(&nstandins, 1);
			to = -1;
		}
	} else {
		/* By a number that there is not. */
		holders_move(fd, INT_MAX - 1);
		netpoll_forget(fd, -1);
	}
	guard_unlock(&guard);
	if (to >= 0)
		arch_syscall3(SYS_close, to, 0, 0);
	gunhold();
}

void fd_closing(int fd)
{
	struct fd *p = fd_known(fd);
	bool held, used;

	fd_renewed(fd);
	if (!thread_self() || thread_self()->ownfiles)
		return;
	/* Of one whose handler jumped away. */
	if (p && unlikely(ld_rlx(&p->held) & FAILING))
		and_sc(&p->held, (uint16_t)~FAILING);
	held = is_held(fd);
	used = held || netpoll_busy(fd) || netpoll_called(fd);
	if (!used && !netpoll_known(fd))
		return;
	if (used)
		move_users(fd);
	else
		netpoll_forget(fd, -1);
}

/*   we: fd_closing           it: finds nothing to read, registers fd, sleeps
 *       close                    its registration is gone */
void fd_closed(int fd)
{
	if (thread_self() && !thread_self()->ownfiles)
		netpoll_closed(fd);
}

FORKS void fd_forked(void)
{
	for (int i = 0; ld_rlx(&anyheld) && i < HOLDERS; i++) {
		uint64_t word = ld_rlx(&holders[i]);
		if (word == 0)
			continue;
		st_rlx(&fd_known((int)((uint32_t)word - 1))->held, 0);
		st_rlx(&holders[i], 0);
	}
	st_rlx(&anyheld, false);
	/* What they kept open is not the child's to keep. */
	for (int i = 0; i < STANDINS; i++)
		if (standins[i].users) {
			standins[i].users = 0;
			arch_syscall3(SYS_close, standins[i].fd, 0, 0);
		}
	st_rlx(&nstandins, 0);
	st_rlx(&guard, 0);
}
