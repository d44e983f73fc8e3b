/* Carrying out the orders of orders.h. Owns the G that stops the world for one. */
#include "orders.h"

#include "core.h"
#include "early.h"
#include "policies/plan.h"
#include "sched.h"
#include "tracer.h"

enum {
	EINVAL_ = 22,
	ENOMEM_ = 12,
	ORDER_STACK = 32 * 1024,
	MOST_THREADS = 10000,
	MOST_SLICE_MS = 10 * 1000,
	NS_PER_MS = 1000 * 1000,
};

static enum view_ordered pending;

FORKED static struct {
	struct g *gp;
	int32_t procs;
	ATOMIC(int32_t) error;
} resize;

static void carry_out(void *arg)
{
	(void)arg;
	st_rel(&resize.error, -core_setprocs(resize.procs));
	gkeep(true);
}

/* A G does it, for it stops the world. */
static int32_t set_procs(uint32_t n)
{
	if (!resize.gp)
		resize.gp = gown(ORDER_STACK);
	if (!resize.gp)
		return ENOMEM_;
	resize.procs = (int32_t)n;
	gstart(resize.gp, carry_out, NULL, ~(uint64_t)0);
	return ORDER_BEGUN;
}

/* Who waits for room finds it, or sysmon does on its next round. Ms that are there stay. */
static int32_t set_threads(uint32_t n)
{
	if (n > MOST_THREADS)
		return EINVAL_;
	lock(&sched.lock);
	st_rlx(&sched.softmcount, mcount_limit((int32_t)n));
	st_rlx(&sched.full, false);
	unlock(&sched.lock);
	return 0;
}

static int32_t set_slice(uint32_t ms)
{
	if (ms == 0 || ms > MOST_SLICE_MS)
		return EINVAL_;
	st_rlx(&sched.slice, (uint64_t)ms * NS_PER_MS);
	plan_slice_is((uint64_t)ms * NS_PER_MS);
	return 0;
}

/* The writer of traces does it: to open a file may take long. */
static int32_t set_trace(uint32_t on)
{
	char path[TRACER_PATH];
	int32_t error;

	if (on > 1)
		return EINVAL_;
	if (!on) {
		error = tracer_end();
	} else {
		view_path(path, sizeof(path));
		if (path[0] != '/')
			return EINVAL_;
		error = tracer_begin(path);
	}
	return error ? error : ORDER_BEGUN;
}

int32_t order_begin(enum view_ordered what, uint32_t arg)
{
	pending = what;
	switch (what) {
	case VIEW_PROCS:
		return set_procs(arg);
	case VIEW_THREADS:
		return set_threads(arg);
	case VIEW_SLICE:
		return set_slice(arg);
	case VIEW_TRACE:
		return set_trace(arg);
	default:
		return EINVAL_;
	}
}

bool order_over(int32_t *error)
{
	if (pending == VIEW_TRACE)
		return tracer_over(error);
	/* Acquire: pairs with the release in carry_out. */
	if (!gdead(resize.gp))
		return false;
	*error = ld_acq(&resize.error);
	return true;
}

FORKS void orders_forked(void)
{
	resize.gp = NULL;
}
