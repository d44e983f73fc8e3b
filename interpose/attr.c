/* What is asked for a new thread: read off its attributes, and those that are the process's
 * default. */
#include "attr.h"

#include <string.h>

#include "base.h"
#include "signals.h"
#include "thread.h"

enum { GUARD = 4096 };

static ATOMIC(size_t) default_size;
static ATOMIC(bool) defaults_set;

EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr)
{
	bool ours = served();
	int r = real_table.pthread_setattr_default_np(attr);

	if (ours && r == 0) {
		st_rlx(&default_size, 0);
		st_rlx(&defaults_set, true);
	}
	return r;
}

bool attr_defaulted(void)
{
	return ld_rlx(&defaults_set);
}

static size_t default_stack(void)
{
	pthread_attr_t attr;
	size_t n = ld_rlx(&default_size);

	if (n != 0)
		return n;
	if (pthread_getattr_default_np(&attr) != 0)
		return 8u << 20;
	pthread_attr_getstacksize(&attr, &n);
	pthread_attr_destroy(&attr);
	st_rlx(&default_size, n);
	return n;
}

/* Its maker keeps what it has for itself. */
static void reset_policy(struct request *req)
{
	req->policy &= ~SCHED_RESET_ON_FORK;
	if (req->policy != SCHED_BATCH && req->policy != SCHED_IDLE)
		req->policy = SCHED_OTHER;
	req->priority = 0;
}

void attr_read(const pthread_attr_t *attr, struct request *req, cpu_set_t *cpus)
{
	struct thread *self = thread_self();
	int detach = PTHREAD_CREATE_JOINABLE, inherit = PTHREAD_INHERIT_SCHED;
	struct sched_param param = { 0 };
	struct {
		cpu_set_t cpus;
		unsigned long beyond;
	} more;
	pthread_attr_t defaults;
	sigset_t set;
	void *addr;

	req->policy = self ? self->policy : 0;
	req->priority = self ? self->priority : 0;
	if (unlikely(req->policy & SCHED_RESET_ON_FORK))
		reset_policy(req);
	req->cpus = self && self->pinned ? &self->cpus : NULL;
	if (!attr) {
		if (unlikely(ld_rlx(&defaults_set)) && pthread_getattr_default_np(&defaults) == 0) {
			attr_read(&defaults, req, cpus);
			pthread_attr_destroy(&defaults);
			return;
		}
		req->size = default_stack();
		req->guard = GUARD;
		return;
	}
	pthread_attr_getstack(attr, &addr, &req->size);
	/* Without an address glibc gives "minus the size". */
	req->stack = (uintptr_t)addr + req->size == 0 ? NULL : addr;
	if (req->size == 0) {
		req->size = default_stack();
		req->stack = NULL;
	}
	pthread_attr_getguardsize(attr, &req->guard);
	pthread_attr_getdetachstate(attr, &detach);
	req->detached = detach == PTHREAD_CREATE_DETACHED;
	if (pthread_attr_getsigmask_np(attr, &set) == 0) {
		memcpy(&req->mask, &set, sizeof(req->mask));
		req->mask &= ~UNBLOCKABLE;
		signals_open(req->mask);
	}
	pthread_attr_getinheritsched(attr, &inherit);
	if (inherit == PTHREAD_EXPLICIT_SCHED) {
		req->explicit = true;
		pthread_attr_getschedpolicy(attr, &req->policy);
		pthread_attr_getschedparam(attr, &param);
		req->priority = param.sched_priority;
	}
	/* Where none was set glibc fills all with ones, and what is beyond a set with zeros. */
	if (pthread_attr_getaffinity_np(attr, sizeof(more), (cpu_set_t *)&more) == 0 &&
	    more.beyond == 0) {
		*cpus = more.cpus;
		req->cpus = cpus;
	}
}
