/* A policy of the user's. Its functions run on a stack of their own, so that one that does not come
 * back can be left there: whoever waits for sched.lock looks after that (own_watch), and signal 32
 * ends the call. Owns that stack. */
#include "policies/plan.h"

#include "preempt.h"
#include "san.h"

enum {
	STACK = 64 * 1024,
	/* Of cpu, or asleep. */
	LATE_NS = 200 * 1000 * 1000,
};

enum hook { STARTED, READIED, ENDED, RANK, PICK, SLICE, STEAL };

static const struct heddle_policy *policy;
static const char *fault;

/* The call. Only the caller writes, but for `late`, which is the watcher's. */
static struct {
	struct gobuf back, in;
	enum hook hook;
	struct heddle_thread *t;
	int32_t pid;
	uint64_t result;
	const struct heddle_thread *picked;
	const uint32_t *queued;
	int32_t nqueued, victim;
	ATOMIC(int32_t) tid;
	ATOMIC(uint64_t) number; /* odd: it is inside */
	ATOMIC(uint64_t) late; /* the number of one that must end */
	bool ended; /* it was, from outside */
} call;

static void make_call(void)
{
	switch (call.hook) {
	case STARTED:
		policy->on_start(call.t);
		break;
	case READIED:
		policy->on_ready(call.t, call.pid);
		break;
	case ENDED:
		policy->on_exit(call.t);
		break;
	case RANK:
		call.result = policy->rank(call.t);
		break;
	case PICK:
		call.picked = policy->pick_next(call.pid);
		break;
	case SLICE:
		call.result = policy->slice(call.t);
		break;
	case STEAL:
		call.victim = -1;
		call.result = policy->steal(call.pid, call.queued, call.nqueued, &call.victim);
		break;
	}
}

/* Between the two counts, and only there, own_abort may lead back to the caller. */
static void inside(void *arg)
{
	(void)arg;
	for (;;) {
		add_sc(&call.number, 1);
		make_call();
		add_sc(&call.number, 1);
		arch_switch(&call.in, &call.back);
	}
}

/* Meanwhile the kernel thread is nobody's: whatever of libc it calls is the kernel's, and not what
 * a G does, which has sched.lock. */
static bool does(enum hook hook, struct plan *plan, int32_t pid)
{
	struct g *self = getg();
	struct m *mp = self ? ld_rlx(&self->m) : NULL;
	uint64_t mask;

	if (fault)
		return false;
	call.hook = hook;
	call.t = plan ? &plan->t : NULL;
	call.pid = pid;
	/* An M that has run no G yet has it blocked. */
	mask = os_sigmask(~((uint64_t)1 << (SIG_PREEMPT - 1)));
	st_rlx(&call.tid, os_gettid());
	setg(NULL);
	if (SAN_ASYNC_PREEMPT)
		arch_switch(&call.back, &call.in);
	else
		make_call();
	setg(self);
	os_sigmask(mask);
	/* Signal 32 may have come, for a G that it could not find. */
	if (mp)
		st_rlx(&mp->preemptmissed, true);
	if (call.ended)
		fault = "does not come back";
	return !call.ended;
}

/* Without sched.lock: of one that holds it for too long inside the policy. What several watchers
 * remember may be mixed: then the call is ended later. `late` is written before the signal is sent,
 * and read by its handler on the kernel thread that `number` is of. */
void own_watch(void)
{
	static ATOMIC(uint64_t) seen, since, cpu;
	uint64_t number = ld_sc(&call.number), now = nanotime();
	int32_t tid = ld_rlx(&call.tid);

	if (number % 2 == 0)
		return;
	if (ld_rlx(&seen) != number) {
		st_rlx(&seen, number);
		st_rlx(&since, now);
		st_rlx(&cpu, os_threadclock(tid));
		return;
	}
	if (os_threadclock(tid) - ld_rlx(&cpu) < LATE_NS &&
	    !(now - ld_rlx(&since) > 5 * (uint64_t)LATE_NS && os_threadasleep(tid)))
		return;
	st_sc(&call.late, number);
	os_tgkill(tid, SIG_PREEMPT);
}

bool own_abort(void *uc)
{
	uint64_t number = ld_sc(&call.number);

	if (likely(number % 2 == 0) || ld_sc(&call.late) != number ||
	    ld_rlx(&call.tid) != os_gettid())
		return false;
	/* It is over: whoever asks once more is too late. */
	add_sc(&call.number, 1);
	call.ended = true;
	arch_sigredirect(uc, &call.back);
	return true;
}

bool own_begin(const struct heddle_policy *own, const struct policyspec *spec, uint64_t seed)
{
	char *stack;

	policy = own;
	fault = NULL;
	st_rlx(&call.number, 0);
	call.ended = false;
	if (!own || own->version != HEDDLE_POLICY_VERSION)
		return false;
	stack = os_reserve(STACK);
	if (os_failed(stack))
		return false;
	arch_context_init(&call.in, (uintptr_t)stack + STACK, inside, NULL);
	return !own->begin || own->begin(spec->arguments, seed) == 0;
}

const char *own_fault(void)
{
	return fault;
}

const char *own_name(void)
{
	return policy && policy->name ? policy->name : "your own";
}

void own_started(struct plan *plan)
{
	if (policy->on_start)
		does(STARTED, plan, -1);
}

void own_readied(struct plan *plan, int32_t pid)
{
	plan->key = 0;
	if (policy->rank && does(RANK, plan, pid))
		plan->key = call.result;
	if (policy->on_ready)
		does(READIED, plan, pid);
}

void own_ended(struct plan *plan)
{
	if (policy->on_exit)
		does(ENDED, plan, -1);
}

void own_slice(struct plan *plan)
{
	enum { LEAST_NS = 50 * 1000 };
	uint64_t slice;

	if (!policy->slice || !does(SLICE, plan, plan->t.last))
		return;
	slice = call.result && call.result < LEAST_NS ? LEAST_NS : call.result;
	st_rlx(&plan->slice, slice);
	/* Sysmon is to look as often. */
	if (slice && slice < ld_rlx(&sched.slice))
		st_rlx(&sched.slice, slice);
}

bool own_picks(void)
{
	return policy->pick_next != NULL;
}

const struct heddle_thread *own_pick(int32_t pid)
{
	return does(PICK, NULL, pid) ? call.picked : NULL;
}

bool own_steals(void)
{
	return policy->steal && !policy->pick_next;
}

uint32_t own_steal(int32_t pid, const uint32_t *queued, int32_t n, int32_t *victim)
{
	call.queued = queued;
	call.nqueued = n;
	if (!does(STEAL, NULL, pid))
		return 0;
	*victim = call.victim;
	return (uint32_t)call.result;
}
