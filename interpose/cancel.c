/* Cancellation, told of Gs. glibc's own would send a signal to a tid that the kernel does
 * not know.
 *
 * A wait that a cancellation ends stands between cancel_begin and cancel_end. No request
 * is lost between the look at the request and the sleep:
 *
 *   waiter: interruptible = 1          canceller: cancel |= CANCELED
 *           looks at cancel                       a barrier in every thread (membarrier)
 *           sleeps                                looks at interruptible; while it is set,
 *                                                 interrupts, until a sleep was ended
 *
 * A thread that is blocked in the kernel, in a call that is a point of cancellation, is carried
 * away by a signal (gnotify_now); cancel_blocks .. cancel_unblocks stand about the call. It does
 * so only where it finds the call not yet made or interrupted, so nothing that a call has brought
 * is lost. One that came between the thread's look and its call does nothing: so the monitor
 * pursues the thread, and asks again when it sleeps.
 *
 * An asynchronous one acts anywhere else too: the thread looks when it leaves the core, and if it
 * runs or is blocked in the kernel the signal comes.
 *
 * The barrier is the canceller's, who is rare, so the waiter's store and look cost nothing;
 * where the kernel refuses it, each waiter has a fence of its own. */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>

#include "early.h"
#include "fd.h"
#include "lookup.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "sleep.h"
#include "syscalls_of.h"
#include "thread.h"
#include "wire.h"

/* Written before there is a second thread. */
static bool own_fence;

/* Where glibc's read and write make their calls, in which stdio blocks where we do not see it. What
 * must not be cancelled there goes by other functions of its own. */
enum { MOST_PLACES = 32 };
static uintptr_t stdio[MOST_PLACES];
static int nstdio;

/* Found once: they stay where they are, and the child of a fork must not ask the loader. */
void cancel_find(void)
{
	static bool asked;
	static const char *const names[] = { "read", "write" };
	const void *fns[2];
	int n = 0;

	if (asked)
		return;
	memcpy(&fns[0], &real_table.read, sizeof(fns[0]));
	memcpy(&fns[1], &real_table.write, sizeof(fns[1]));
	for (int i = 0; i < 2; i++)
		n += syscalls_of(fns[i], lookup_size(names[i], fns[i]), stdio + n, MOST_PLACES - n);
	nstdio = n;
	asked = true;
}

/* About to be made there, perhaps again; or made. */
static bool in_stdio(uintptr_t pc)
{
	for (int i = 0; i < nstdio; i++)
		if (pc == stdio[i] || pc == stdio[i] - SYSCALL_BYTES)
			return true;
	return false;
}

static inline void say(struct thread *t, enum interruptible what)
{
	st_rlx(&t->interruptible, what);
	if (own_fence)
		add_sc(&t->interruptible, 0);
	compiler_barrier();
}

void cancel_announce(struct thread *t)
{
	say(t, WAITS);
}

/* May a cancellation end it? */
static bool condemned(struct thread *t)
{
	return (ld_sc(&t->cancel) & (CANCELED | DISABLED | EXITING)) == CANCELED &&
	       !ld_rlx(&t->uncancelled);
}

/* error(), sem_open, posix_spawn and some more of glibc's switch cancellation off meanwhile, of
 * which only glibc knows. The caller's own. */
static bool off_in_glibc(void)
{
	int before;

	real_table.pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (before == PTHREAD_CANCEL_DISABLE)
		return true;
	real_table.pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	return false;
}

/* condemned(), of the caller. */
static bool ends_here(struct thread *t)
{
	return unlikely(condemned(t)) && !off_in_glibc();
}

/* It is in the midst of nothing any more. */
static void __attribute__((noreturn)) end(struct thread *t)
{
	st_rlx(&t->interruptible, NO_WAIT);
	st_rlx(&t->waitsat, 0);
	st_rlx(&t->alert, false);
	st_rlx(&t->masked, false);
	st_rlx(&t->awaits_any, false);
	st_rlx(&t->connects, false);
	accept_leaves(t);
	fd_leaves(t);
	pthread_exit(PTHREAD_CANCELED);
}

static void point(struct thread *t)
{
	if (ends_here(t))
		end(t);
}

void cancel_point(void)
{
	struct thread *t = thread_self();

	if (!t)
		return;
	t->points++;
	point(t);
}

bool cancel_pending(void)
{
	struct thread *t = thread_self();

	return t && ends_here(t);
}

void cancel_begin(void)
{
	struct thread *t = thread_self();

	if (!t)
		return;
	if (!(ld_rlx(&t->cancel) & DISABLED))
		cancel_announce(t);
	if (unlikely(ld_rlx(&t->cancel) & CANCELED))
		point(t);
}

void cancel_end(void)
{
	struct thread *t = thread_self();

	if (!t)
		return;
	st_rlx(&t->interruptible, NO_WAIT);
	if (unlikely(ld_rlx(&t->cancel) & CANCELED))
		point(t);
}

void cancel_resume(struct thread *t, enum interruptible what)
{
	say(t, what);
	/* Whoever cancelled it meanwhile saw no wait. */
	if (what == WAITS && unlikely(ld_rlx(&t->cancel) & CANCELED))
		gnotify_self();
}

void cancel_over(void)
{
	struct thread *t = thread_self();

	if (!t)
		return;
	st_rlx(&t->interruptible, NO_WAIT);
	if (unlikely((ld_rlx(&t->cancel) & (CANCELED | ASYNC)) == (CANCELED | ASYNC)))
		point(t);
}

void cancel_blocks(struct thread *t)
{
	if (!(ld_rlx(&t->cancel) & DISABLED))
		say(t, BLOCKS);
	if (unlikely(ld_rlx(&t->cancel) & CANCELED))
		point(t);
	entersyscall();
}

bool cancel_unblocks(struct thread *t)
{
	/* First: what the call has brought is the caller's. */
	st_rlx(&t->interruptible, NO_WAIT);
	compiler_barrier();
	return exitsyscall();
}

/* ---- waits of glibc's own ---- */

void cancel_enter(const void *at)
{
	struct thread *t = thread_self();

	st_rlx(&t->waitsat, (uintptr_t)at);
	if (own_fence)
		add_sc(&t->interruptible, 0);
	compiler_barrier();
	if (unlikely(ld_rlx(&t->cancel) & CANCELED))
		point(t);
	wait_enter();
}

void cancel_leave(void)
{
	st_rlx(&thread_self()->waitsat, 0);
	exitsyscall();
	cancel_over();
}

/* Is the thread asleep in the wait itself? There, and nowhere else in the call, glibc expects a
 * cancellation: it has taken nothing yet. If it sleeps for something else the wait is over,
 * and the canceller need not go on. */
static bool asleep_there(struct thread *t, const void *uc)
{
	uintptr_t addr, at = ld_rlx(&t->waitsat);
	int op;

	if (!uc || !core_sigfutex(uc, &addr, &op))
		return false;
	if (addr - at < SHARED_BYTES && (op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
		return true;
	if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT)
		st_rlx(&t->waitsat, 0);
	return false;
}

bool cancel_due(const void *uc)
{
	struct thread *t = thread_self();

	if (!ends_here(t))
		return false;
	if (ld_rlx(&t->waitsat) != 0)
		return asleep_there(t, uc);
	switch (ld_rlx(&t->interruptible)) {
	case BLOCKS:
		/* What the call has brought is not lost. */
		return uc && core_sigcall(uc);
	case WAITS:
		/* A wait of ours sees to it itself. */
		return false;
	default:
		return (ld_rlx(&t->cancel) & ASYNC) ||
		       (uc && core_sigcall(uc) && in_stdio(core_sigpc(uc)));
	}
}

bool cancel_pursues(const struct g *gp, uintptr_t pc)
{
	struct thread *t = ghost_of(gp);

	if (!t)
		return false;
	if (ld_sc(&t->connects))
		return true;
	if (!condemned(t))
		return false;
	return ld_sc(&t->waitsat) || ld_sc(&t->interruptible) == BLOCKS ||
	       (ld_sc(&t->cancel) & ASYNC) || in_stdio(pc);
}

/* In the place of whatever the thread was at. */
void cancel_act(void)
{
	if (ld_rlx(&thread_self()->awaits))
		sigwait_over(thread_self());
	if (ld_rlx(&thread_self()->becoming))
		exec_lets_go(thread_self());
	if (core_sigplace() == SIGPLACE_CALL)
		exitsyscall();
	end(thread_self());
}

void cancel_library(void)
{
	struct thread *t = thread_self();

	if (t && ends_here(t))
		cancel_act();
}

void cancel_fresh(void)
{
	real_table.pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/* glibc's own are as in a fresh thread from here on: see off_in_glibc. In this order: what is
 * pending there does not act. */
void cancel_init(struct thread *t)
{
	int type = PTHREAD_CANCEL_DEFERRED, state = PTHREAD_CANCEL_ENABLE;

	own_fence = !os_membarrier();
	real_table.pthread_setcanceltype(type, &type);
	real_table.pthread_setcancelstate(state, &state);
	and_sc(&t->cancel, ~(uint32_t)(DISABLED | ASYNC));
	or_sc(&t->cancel, (state == PTHREAD_CANCEL_DISABLE ? DISABLED : 0) |
				  (type == PTHREAD_CANCEL_ASYNCHRONOUS ? ASYNC : 0));
}

FORKS void cancel_forked(const struct thread *t)
{
	uint32_t mine = ld_rlx(&t->cancel);

	if (mine & DISABLED)
		real_table.pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (mine & ASYNC)
		real_table.pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

EXPORT int pthread_cancel(pthread_t thread)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_cancel(thread);
	if (thread_over(t))
		return 0;
	unwind_load();
	or_sc(&t->cancel, CANCELED);
	if (t == thread_self()) {
		if (ld_rlx(&t->cancel) & ASYNC)
			point(t);
		return 0;
	}
	if (!own_fence)
		os_membarrier();
	while (ld_sc(&t->interruptible) == WAITS && !gointerrupt(t->gp))
		sched_yield();
	gpursue(t->gp);
	/* Else it would interrupt a call for nothing. */
	if (condemned(t))
		gnotify_now(t->gp);
	return 0;
}

EXPORT GIVES int pthread_setcancelstate(int state, int *old)
{
	struct thread *t = served() ? thread_self() : NULL;
	uint32_t before;

	if (!t)
		return real_table.pthread_setcancelstate(state, old);
	if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE)
		return EINVAL;
	before = ld_rlx(&t->cancel);
	if (old)
		*old = before & DISABLED ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
	if (state == PTHREAD_CANCEL_DISABLE && !(before & DISABLED))
		or_sc(&t->cancel, DISABLED);
	else if (state == PTHREAD_CANCEL_ENABLE && (before & DISABLED))
		before = and_sc(&t->cancel, ~(uint32_t)DISABLED);
	if (state == PTHREAD_CANCEL_ENABLE && (before & ASYNC))
		point(t);
	return 0;
}

EXPORT GIVES int pthread_setcanceltype(int type, int *old)
{
	struct thread *t = served() ? thread_self() : NULL;
	uint32_t before;

	if (!t)
		return real_table.pthread_setcanceltype(type, old);
	if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
		return EINVAL;
	before = type == PTHREAD_CANCEL_ASYNCHRONOUS ? or_sc(&t->cancel, ASYNC)
						     : and_sc(&t->cancel, ~(uint32_t)ASYNC);
	if (old)
		*old = before & ASYNC ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		point(t);
	return 0;
}

EXPORT GIVES void pthread_testcancel(void)
{
	if (served() && thread_self())
		point(thread_self());
	else
		real_table.pthread_testcancel();
}
