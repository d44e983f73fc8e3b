/* Processes. fork and its kin tell us by pthread_atfork (shim/start.c); what does not is here. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>

#include "fd.h"
#include "loader.h"
#include "lookup.h"
#include "thread.h"
#include "wire.h"

/* Who made which child, pid << 32 | tid, until the place is another child's. */
enum { MADE = 256 };
static ATOMIC(uint64_t) made[MADE];

struct g *vfork_before(void);
void vfork_child(const struct g *gp);
pid_t vfork_after(struct g *gp, long r);

EXPORT pid_t _Fork(void)
{
	struct thread *t = served() ? process_making(true) : NULL;
	pid_t pid;

	process_forking();
	loader_forks();
	pid = real_table._Fork();
	if (pid == 0)
		heddle_forked();
	else
		loader_forked();
	process_made(t, pid);
	process_forked();
	return pid;
}

static pid_t forks(void)
{
	struct thread *t = served() ? process_making(true) : NULL;
	pid_t pid = real_table.fork();

	process_made(t, pid);
	return pid;
}

EXPORT pid_t fork(void)
{
	return forks();
}

EXPORT pid_t __fork(void)
{
	return forks();
}

/* exit runs our destructor; this runs nobody's. */
EXPORT void _exit(int status)
{
	if (served())
		heddle_ending();
	real_table._exit(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	_exit(status);
}

/* ---- clone, as a program calls it for a process ---- */

struct start {
	int (*fn)(void *);
	void *arg;
	struct g *gp; /* who waits for a child in its memory */
};

/* In the child, in a copy of the memory. */
static int start_forked(void *arg)
{
	struct start start = *(struct start *)arg;

	heddle_forked();
	return start.fn(start.arg);
}

static int start_vforked(void *arg)
{
	struct start *start = arg;

	core_vforkchild(start->gp);
	return start->fn(start->arg);
}

EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct start start = { fn, arg, NULL };
	struct thread *t;
	pid_t *parent, *child;
	va_list args;
	void *tls;
	int r;

	va_start(args, arg);
	parent = va_arg(args, pid_t *);
	tls = va_arg(args, void *);
	child = va_arg(args, pid_t *);
	va_end(args);
	if (!served() || (flags & CLONE_THREAD))
		return real_table.clone(fn, stack, flags, arg, parent, tls, child);
	t = process_making(true);
	if (t && (flags & CLONE_VFORK))
		st_rlx(&t->making, MAKES_NONE);
	if (!(flags & CLONE_VM)) {
		process_forking();
		loader_forks();
		r = real_table.clone(start_forked, stack, flags, &start, parent, tls, child);
		process_made(t, r);
		loader_forked();
	} else {
		process_forking();
		/* It has this thread's memory, and while the thread waits for it, its place. */
		if ((flags & CLONE_VFORK) && !(flags & CLONE_SETTLS) && t) {
			st_sc(&t->making, VFORKS_ONE);
			start.gp = core_vforking();
		}
		if (start.gp)
			r = real_table.clone(start_vforked, stack, flags, &start, parent, tls,
					     child);
		else
			r = real_table.clone(fn, stack, flags, arg, parent, tls, child);
		process_made(t, r);
		if (start.gp)
			core_vforked(start.gp);
	}
	process_forked();
	return r;
}

/* ---- tracing: the tracer is a kernel thread, that which forked or attached ---- */

static bool may_trace;

void process_init(void)
{
	may_trace = lookup_wanted("ptrace");
}

/* Whom it traces the kernel lets go when the kernel thread ends. */
static void becomes_tracer(struct thread *t)
{
	if (t != thread_first())
		thread_spoil(t, WIRED_TRACER);
	thread_tie(t, WIRED_TRACER);
}

void process_forking(void)
{
	/* Or each child would look up what only children call. */
	real_complete();
	/* What it inherits is its own, too. */
	if (heddle_started())
		futex_forking();
	state_settle();
	fd_allshared();
}

void process_forked(void)
{
	fd_allshared();
}

struct thread *process_making(bool asks)
{
	struct thread *t = heddle_started() ? thread_self() : NULL;

	if (t && asks && may_trace)
		becomes_tracer(t);
	if (t) {
		t->parent = true;
		core_begets();
		/* Before the call that makes it, of which the signal comes: process_maker. */
		st_sc(&t->making, FORKS_ONE);
	}
	return t;
}

void process_made(struct thread *t, pid_t child)
{
	if (!t)
		return;
	if (child > 0) {
		core_begets();
		st_rlx(&made[child % MADE], (uint64_t)child << 32 | (uint32_t)t->tid);
	}
	/* Release: who does not find it there any more finds it here. */
	st_rel(&t->making, MAKES_NONE);
}

/* Of the threads that make a child just now the only one; where one that makes children runs, of
 * those by vfork: it would find the kernel thread of its maker, if that one had its signals open.
 */
static struct thread *only_maker(void)
{
	struct thread *self = thread_self(), *only = NULL;
	enum making least = self && self->parent ? VFORKS_ONE : FORKS_ONE;

	if (self && ld_acq(&self->making))
		return self;
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct thread *t = ghost_of(gp);
		if (!t || ld_acq(&t->making) < least)
			continue;
		if (only)
			return NULL;
		only = t;
	}
	return only;
}

struct thread *process_maker(pid_t child)
{
	ATOMIC(uint64_t) *by = &made[(uint32_t)child % MADE];
	struct thread *maker = NULL;
	uint64_t found = ld_rlx(by);

	/* It may end before its maker has heard of it. */
	if (found >> 32 != (uint64_t)child) {
		maker = only_maker();
		found = ld_rlx(by);
	}
	return found >> 32 == (uint64_t)child ? thread_numbered((pid_t)found) : maker;
}

EXPORT long ptrace(enum __ptrace_request request, ...)
{
	struct thread *t = served() ? thread_self() : NULL;
	va_list args;
	pid_t pid;
	uint64_t before = 0;
	void *at, *data;
	bool attaches;
	long r;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	at = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (t && request != PTRACE_TRACEME)
		becomes_tracer(t);
	attaches = t && pid > 0 && (request == PTRACE_ATTACH || request == PTRACE_SEIZE);
	/* It is told of that process from here on, in its maker's place. */
	if (attaches) {
		t->parent = true;
		before = ld_rlx(&made[pid % MADE]);
		process_made(t, pid);
	}
	r = real_table.ptrace(request, pid, at, data);
	if (attaches && r != 0)
		cas_rlx(&made[pid % MADE], (uint64_t)pid << 32 | (uint32_t)t->tid, before);
	return r;
}

/* Of vfork.S. In the child, which borrows this thread's memory, nothing is ours to serve. */
struct g *vfork_before(void)
{
	struct thread *t = served() ? thread_self() : NULL;

	if (!t)
		return NULL;
	process_making(true);
	st_sc(&t->making, VFORKS_ONE);
	process_forking();
	return core_vforking();
}

void vfork_child(const struct g *gp)
{
	if (gp)
		core_vforkchild(gp);
}

pid_t vfork_after(struct g *gp, long r)
{
	if (gp) {
		process_made(ghost_of(gp), (pid_t)r);
		core_vforked(gp);
	}
	process_forked();
	if (r >= 0)
		return (pid_t)r;
	errno = (int)-r;
	return -1;
}
