/* Creating and ending threads; joining is in join.c. Owns the count of those alive; their
 * records are spare.c's, the first's first.c's. Refuses to know how a thread is harvested
 * (shim/harvest.c) or scheduled.
 */
#include "thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attr.h"
#include "base.h"
#include "cpu.h"
#include "cputimer.h"
#include "early.h"
#include "fd.h"
#include "futex.h"
#include "mutex.h"
#include "os.h"
#include "signals.h"
#include "sleep.h"
#include "stack.h"
#include "syscall.h"
#include "tls_image.h"
#include "tracer.h"
#include "wire.h"

enum {
	PAGE = 4096,
	/* Beside what the program asked for: the parked frame and what runs below it. */
	STACK_EXTRA = 4096,
	SIGNAL_STACK = 256 * 1024,
	YIELDS = 100,
	NAP = 50 * 1000,
};

FORKED _Alignas(64) static ATOMIC(uint32_t) nalive;

/* Detached threads on stacks of the program's: their last step is someone else's. */
FORKED static ATOMIC(struct thread *) toreap;

FORKS void thread_alone(void)
{
	st_rlx(&nalive, 1);
	st_rlx(&toreap, NULL);
}

/* ---- the life of one ---- */

void thread_free(struct thread *t)
{
	/* It may have been preempted on its last steps, and need our P for them; or our cpu, and
	 * then one of a higher priority gives way only by sleeping. */
	for (int i = 0; !gdead(t->gp); i++) {
		if (i < YIELDS || !thread_self())
			sched_yield();
		else
			gosleep(CLOCK_MONOTONIC, nanotime() + NAP);
	}
	if (t->ownstack) {
		harvest_reap(&t->harvest);
		spare_give(t);
	} else {
		grecycle(t->gp);
	}
}

static void reap_some(void)
{
	struct thread *t = ld_rlx(&toreap) ? xchg_acq(&toreap, NULL) : NULL;

	while (t) {
		struct thread *next = t->next;
		thread_free(t);
		t = next;
	}
}

/* Nothing of the program's runs on it after this, or the process ends, with the thread's own mask,
 * which is given. What pthread_exit needs is there until then, for handlers and what exit calls. */
static void thread_done(struct thread *t, uint64_t mask)
{
	robust_end(t);
	fd_leaves(t);
	queue_forget(NULL);
	/* In the child of a fork that created no thread it is the only one. */
	if (heddle_started()) {
		/* Counted once: a handler that came after might call pthread_exit, and be here
		 * again. */
		signals_deafen(t);
		if (add_sc(&nalive, (uint32_t)-1) != 1)
			return;
		add_sc(&nalive, 1);
	}
	signals_hear(t, mask);
	exit(0);
}

/* On the ending thread, after thread_done. */
static void __attribute__((noreturn)) thread_finish(struct thread *t)
{
	static const uint64_t none_let_in = ~(uint64_t)0;
	uint32_t before;

	if (t->main) {
		/* Its stack holds main's arguments; it stays for ever. */
		or_sc(&t->life, FINISHED);
		gsigprocmask(SIG_SETMASK, &none_let_in, NULL);
		signals_end(t);
		futex_wake(&t->life, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
		for (;;)
			gopark(NULL, NULL, 0);
	}
	/* What glibc counts of ceilings ends with its own thread. */
	t->stale = !thread_locals_renew(t) || t->ceilings;
	thread_unwire(t);
	gpursued(t->gp);
	gkeep(true);
	before = or_sc(&t->life, FINISHED);
	signals_end(t);
	if (before & DETACHED) {
		if (!t->ownstack) {
			gkeep(false);
		} else {
			/* Release: pairs with the acquire in reap_some. */
			do
				t->next = ld_rlx(&toreap);
			while (!cas_rel(&toreap, t->next, t));
		}
	} else if (before & JOINED) {
		futex_wake(&t->life, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	}
	goexit();
}

void thread_vanish(struct thread *t)
{
	thread_done(t, gmask());
	thread_finish(t);
}

/* pthread_exit unwinds to here and no further: beyond lies the parked frame of glibc's
 * start_thread, which would end the kernel thread. So the base is there as long as anything of the
 * program's may run. A handler may before fn does, and the thread be cancelled there; and when fn
 * is over a destructor may call pthread_exit: then the end begins anew. */
static void thread_main(void *arg)
{
	struct thread *t = arg;
	__pthread_unwind_buf_t buf;

	if (base_setjmp(&buf, 0) == 0) {
		__pthread_register_cancel(&buf);
		cancel_fresh();
		gbegun();
		wishes_first(t);
		/* As glibc has it, an int travels as a pointer. */
		t->result = t->c11fn ? (void *)(intptr_t)t->c11fn(t->arg) : t->fn(t->arg);
		released();
	}
	/* Its creator waits for that. */
	wishes_first(t);
	thread_locals_end(false);
	/* Not before, after a return: destructors may be cancelled. */
	or_sc(&t->cancel, EXITING);
	thread_done(t, signals_last(t));
	__pthread_unregister_cancel(&buf);
	thread_finish(t);
}

/* Called by the base of main (shim/main.c) when pthread_exit has unwound it. */
void thread_main_ended(void)
{
	thread_locals_end(true);
	thread_done(thread_first(), gmask());
	thread_finish(thread_first());
}

/* ---- creation ---- */

/* What the kernel thread has of the running thread's. */
static struct robust_list_head *keeps(void)
{
	struct thread *self = thread_self();

	return self->owns ? self->harvest.robust : NULL;
}

/* The maker is not always the one who made it first. */
static int thread_make(struct thread *t)
{
	t->harvest.keeps = thread_self() ? keeps : NULL;
	t->glibcs_robust = NULL;
	t->seen = tls_seen();
	return harvest_make(&t->harvest, t->tid);
}

static struct ghostspec spec_of(struct thread *t)
{
	return (struct ghostspec){
		.lo = t->harvest.lo,
		.hi = t->harvest.lo + t->harvest.size,
		.base = t->harvest.base,
		.fsbase = t->harvest.fsbase,
		.host = t,
	};
}

/* Another of glibc's threads on the stack of one that could not be renewed. Only here, for both
 * take a lock of the loader's, as glibc's pthread_create does, and no end or join of a thread. */
static int thread_anew(struct thread *t)
{
	struct ghostspec spec;
	int r;

	t->reaped = t->reaped || harvest_reap(&t->harvest);
	if (!t->reaped)
		return EAGAIN;
	r = thread_make(t);
	if (r != 0)
		return r;
	t->stale = t->reaped = false;
	spec = spec_of(t);
	grehost(t->gp, &spec);
	return 0;
}

static int thread_harvest(const struct request *req, struct thread **out)
{
	struct thread *t = spare_take();
	struct stack stack = { 0, 0 };
	struct ghostspec spec;
	int r;

	if (!t)
		return EAGAIN;
	thread_number(t);
	t->ownstack = req->stack != NULL;
	if (t->ownstack) {
		t->harvest.lo = (uintptr_t)req->stack;
		t->harvest.size = req->size;
	} else {
		/* It is to serve others, too. */
		size_t guard = req->guard > PAGE ? req->guard : PAGE;
		if (stackalloc(&stack, req->size + STACK_EXTRA, guard) < 0) {
			spare_give(t);
			return EAGAIN;
		}
		t->harvest.lo = stack.lo;
		t->harvest.size = stack.hi - stack.lo;
	}
	r = thread_make(t);
	if (r == 0) {
		spec = spec_of(t);
		if (t->gp)
			grehost(t->gp, &spec);
		else
			t->gp = ghost(&spec);
		if (!t->gp) {
			harvest_reap(&t->harvest);
			r = EAGAIN;
		}
	}
	if (r != 0) {
		if (!t->ownstack)
			stackfree(&stack);
		spare_give(t);
	}
	*out = t;
	return r;
}

static int thread_new(const struct request *req, struct thread **out)
{
	struct g *gp = NULL;
	struct thread *t;
	uint32_t settled;

	if (!req->stack)
		gp = gtake(req->size + STACK_EXTRA, req->guard);
	if (!gp) {
		int r = thread_harvest(req, out);
		if (r != EAGAIN || req->stack)
			return r;
		/* No memory: those that are about to end, and the dead of all Ps. */
		sched_yield();
		reap_some();
		if (thread_self())
			ggather();
		do {
			settled = thread_self() ? gsettled() : 0;
			gp = gtake(req->size + STACK_EXTRA, req->guard);
		} while (!gp && thread_self() && settled != gsettled());
		if (!gp)
			return r;
	}
	*out = t = ghost_of(gp);
	/* Another thread, for all that the program can tell. */
	thread_number(t);
	if (unlikely(t->stale)) {
		int r = thread_anew(t);
		if (r != 0)
			grecycle(gp);
		return r;
	}
	*t->harvest.tidaddr = t->tid;
	return 0;
}

static int create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *),
		  int (*c11fn)(void *), void *arg)
{
	struct request req = { .mask = gmask() };
	struct thread *t, *self = thread_self();
	struct m *bred = NULL;
	cpu_set_t cpus;
	bool wishes;
	int r;

	reap_some();
	attr_read(attr, &req, &cpus);
	if (self && unlikely(self->breeds) && fn != signals_thread) {
		/* First: what is made without it could not be unmade. */
		bred = thread_breeds();
		if (os_failed(bred))
			return (int)-(intptr_t)bred;
	}
	r = thread_new(&req, &t);
	if (r != 0) {
		if (bred)
			thread_unbred(bred);
		return r;
	}
	r = wishes_try(t, req.policy, req.priority, req.cpus);
	if (r != 0) {
		if (bred)
			thread_unbred(bred);
		thread_free(t);
		return r;
	}
	t->fn = fn;
	t->c11fn = c11fn;
	t->arg = arg;
	t->result = NULL;
	t->guard = req.guard;
	/* Of the usual size all is shown that there is, down to the guard. */
	t->size = !attr && attr_defaulted() ? req.size : 0;
	t->explicit = req.explicit;
	t->nonew = self && self->nonew;
	t->named = self && self->named;
	if (t->named)
		strcpy(t->name, self->name);
	st_rlx(&t->joins, NULL);
	st_rlx(&t->cancel, 0);
	st_rlx(&t->interruptible, NO_WAIT);
	st_rlx(&t->waitsat, 0);
	st_rlx(&t->uncancelled, false);
	st_rlx(&t->connects, false);
	st_rlx(&t->making, MAKES_NONE);
	t->parent = false;
	st_rlx(&t->alert, false);
	st_rlx(&t->deaf, false);
	st_rlx(&t->masked, false);
	st_rlx(&t->awaits_any, false);
	st_rlx(&t->awaits, 0);
	st_rlx(&t->fed, 0);
	t->ownfiles = false;
	if (unlikely(bred != NULL))
		thread_bred(t, self, bred);
	gpursued(t->gp);
	if (unlikely(ld_rlx(&t->signals.set) != 0))
		pending_drop(&t->signals);
	t->altstack.ss_sp = NULL;
	st_rlx(&t->life, req.detached ? DETACHED : 0);
	add_rlx(&nalive, 1);
	/* Before it runs: it may look. */
	*out = t->harvest.thread;
	wishes = ld_rlx(&t->wishes) != 0;
	gstart(t->gp, thread_main, t, req.mask);
	if (unlikely(wishes))
		wishes_await(t);
	return 0;
}

bool thread_due(const void *uc)
{
	wishes_do(thread_self(), uc);
	if (uc)
		connect_due((void *)(uintptr_t)uc);
	if (uc)
		signals_here();
	else
		signals_run();
	return cancel_due(uc);
}

/* It does not count among the program's threads. */
void thread_start_signals(void)
{
	pthread_attr_t attr;
	sigset_t all;
	pthread_t t;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &all);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, SIGNAL_STACK + tls_size());
	if (create(&t, &attr, signals_thread, NULL, NULL) == 0) {
		thread_of(t)->own = true;
		tracer_renamed(thread_of(t)->gp);
		add_rlx(&nalive, (uint32_t)-1);
	}
	pthread_attr_destroy(&attr);
}

EXPORT int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	int r;

	if (!served() || !heddle_start())
		return real_table.pthread_create(out, attr, fn, arg);
	r = create(out, attr, fn, NULL, arg);
	released();
	return r;
}

int thread_create_c11(pthread_t *out, int (*fn)(void *), void *arg)
{
	int r = create(out, NULL, NULL, fn, arg);

	released();
	return r;
}

EXPORT void pthread_exit(void *result)
{
	struct thread *t = served() ? thread_self() : NULL;

	if (t) {
		t->result = result;
		or_sc(&t->cancel, EXITING);
	}
	real_table.pthread_exit(result);
	__builtin_unreachable();
}
