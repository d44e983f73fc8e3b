/* Processes. fork and its kin tell us by pthread_atfork (shim/start.c); what does not is here. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>

#include "fd.h"
#include "loader.h"
#include "lookup.h"
#include "thread.h"
#include "wire.h"

struct g *vfork_before(void);
pid_t vfork_after(struct g *gp, long r);

EXPORT pid_t _Fork(void)
{
	pid_t pid;

	served();
	process_forking();
	loader_forks();
	pid = real_table._Fork();
	if (pid == 0)
		heddle_forked();
	else
		loader_forked();
	process_forked();
	return pid;
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
};

/* In the child, in a copy of the memory. */
static int start_forked(void *arg)
{
	struct start start = *(struct start *)arg;

	heddle_forked();
	return start.fn(start.arg);
}

EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct start start = { fn, arg };
	struct g *gp = NULL;
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
	if (!(flags & CLONE_VM)) {
		process_forking();
		loader_forks();
		r = real_table.clone(start_forked, stack, flags, &start, parent, tls, child);
		loader_forked();
	} else {
		process_forking();
		/* It has this thread's memory, and while the thread waits for it, its place. */
		if ((flags & CLONE_VFORK) && !(flags & CLONE_SETTLS) && thread_self())
			gp = core_vforking();
		r = real_table.clone(fn, stack, flags, arg, parent, tls, child);
		if (gp)
			core_vforked(gp);
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

/* The child may ask to be traced; and what it inherits is its own, too. */
void process_forking(void)
{
	struct thread *t = may_trace && heddle_started() ? thread_self() : NULL;

	if (t)
		thread_tie(t, WIRED_TRACER);
	state_settle();
	fd_allshared();
}

void process_forked(void)
{
	fd_allshared();
}

EXPORT long ptrace(enum __ptrace_request request, ...)
{
	struct thread *t = served() ? thread_self() : NULL;
	va_list args;
	pid_t pid;
	void *at, *data;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	at = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (t)
		thread_tie(t, WIRED_TRACER);
	return real_table.ptrace(request, pid, at, data);
}

/* Of vfork.S. In the child, which borrows this thread's memory, nothing is ours to serve. */
struct g *vfork_before(void)
{
	if (!served() || !thread_self())
		return NULL;
	process_forking();
	return core_vforking();
}

pid_t vfork_after(struct g *gp, long r)
{
	if (gp)
		core_vforked(gp);
	process_forked();
	if (r >= 0)
		return (pid_t)r;
	errno = (int)-r;
	return -1;
}
