/* Policy, priority and affinity. A G that sets them for itself is wired to its kernel thread; what
 * is set for another, or by attributes, is tried out on the caller's kernel thread, for the
 * kernel's answer, and is a wish that the other fulfils as soon as it runs. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "futex.h"
#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

/* Of the kernel threads: what the program began with. */
static int usual_policy, usual_priority;
static cpu_set_t usual_cpus;

struct thread *policy_by_tid(pid_t tid)
{
	struct thread *t = served() ? thread_self() : NULL;

	return t && tid != 0 && tid != t->tid ? thread_by_tid(tid) : t;
}

static long kernel_policy(int32_t tid, int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return arch_syscall3(SYS_sched_setscheduler, tid, policy, (long)&param);
}

static long kernel_cpus(int32_t tid, const cpu_set_t *cpus)
{
	return arch_syscall3(SYS_sched_setaffinity, tid, sizeof(*cpus), (long)cpus);
}

/* Between the two the caller, if it is a G, stays on its kernel thread; and no handler runs there,
 * which might carry it to another. */
static uint64_t stay(void)
{
	if (thread_self())
		entersyscall();
	return os_sigmask(~(uint64_t)0);
}

static void go_on(uint64_t mask)
{
	os_sigmask(mask);
	if (thread_self())
		exitsyscall();
}

static bool is_realtime(int policy)
{
	policy &= ~SCHED_RESET_ON_FORK;
	return policy == SCHED_FIFO || policy == SCHED_RR;
}

/* May a kernel thread leave that policy for the usual one? Only the privileged may leave
 * SCHED_IDLE, or for a higher one; others' kernel threads go with the threads that they were set
 * for. */
static bool may_leave(int policy)
{
	struct __user_cap_header_struct me = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct has[2] = { { 0 } };
	struct rlimit limit = { 0 };

	if (policy == usual_policy)
		return true;
	arch_syscall3(SYS_capget, (long)&me, (long)has, 0);
	if (has[0].effective & 1u << CAP_SYS_NICE)
		return true;
	if (is_realtime(usual_policy) &&
	    (getrlimit(RLIMIT_RTPRIO, &limit) != 0 || limit.rlim_cur < (rlim_t)usual_priority))
		return false;
	if (policy == SCHED_IDLE)
		return getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= nice_limit();
	return !(policy & SCHED_RESET_ON_FORK);
}

static long try_policy(int policy, int priority)
{
	struct sched_param param = { 0 };
	uint64_t mask;
	long before, r;

	if (!may_leave(policy)) {
		policy &= ~SCHED_RESET_ON_FORK;
		if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE)
			return priority == 0 ? 0 : -EINVAL;
	}
	mask = stay();
	before = arch_syscall3(SYS_sched_getscheduler, 0, 0, 0);
	arch_syscall3(SYS_sched_getparam, 0, (long)&param, 0);
	r = kernel_policy(0, policy, priority);
	if (r == 0)
		kernel_policy(0, (int)before, param.sched_priority);
	go_on(mask);
	return r;
}

/* *cpus becomes what the kernel makes of it. */
static long try_cpus(cpu_set_t *cpus)
{
	cpu_set_t before = { 0 };
	uint64_t mask;
	long r;

	mask = stay();
	arch_syscall3(SYS_sched_getaffinity, 0, sizeof(before), (long)&before);
	r = kernel_cpus(0, cpus);
	if (r == 0) {
		CPU_ZERO(cpus);
		arch_syscall3(SYS_sched_getaffinity, 0, sizeof(*cpus), (long)cpus);
		kernel_cpus(0, &before);
	}
	go_on(mask);
	return r;
}

void policy_noted(struct thread *t)
{
	if (t->gp)
		gsetprio(t->gp, t->policy == SCHED_FIFO || t->policy == SCHED_RR ? t->priority : 0);
}

static int wish_policy(struct thread *t, int policy, int priority)
{
	long r = try_policy(policy, priority);

	if (r == 0) {
		t->policy = policy;
		t->priority = priority;
		policy_noted(t);
		or_sc(&t->wishes, WISH_POLICY);
	}
	return (int)-r;
}

static int wish_cpus(struct thread *t, const cpu_set_t *cpus)
{
	cpu_set_t set = *cpus;
	long r = try_cpus(&set);

	/* Those that all have are no wish. */
	if (r == 0 && (t->pinned || !CPU_EQUAL(&set, &usual_cpus))) {
		t->cpus = set;
		t->pinned = true;
		or_sc(&t->wishes, WISH_CPUS);
	}
	return (int)-r;
}

void policy_reset(const struct thread *t, pid_t tid)
{
	if (t->pinned)
		kernel_cpus(tid, &usual_cpus);
	/* One that ends while it holds a mutex has its ceiling still. */
	if (t->ceilings || t->policy != usual_policy || t->priority != usual_priority)
		kernel_policy(tid, usual_policy, usual_priority);
	nice_reset(t, tid);
}

void policy_bred(struct thread *t, const struct thread *maker, pid_t tid)
{
	if (t->pinned != maker->pinned || (t->pinned && !CPU_EQUAL(&t->cpus, &maker->cpus)))
		kernel_cpus(tid, t->pinned ? &t->cpus : &usual_cpus);
	if (maker->ceilings || t->policy != maker->policy || t->priority != maker->priority)
		kernel_policy(tid, t->policy, t->priority);
	st_rlx(&t->wishes, 0);
	st_rlx(&t->settled, true);
}

void policy_init(struct thread *t)
{
	struct sched_param param;

	t->policy = usual_policy = real_table.sched_getscheduler(0);
	arch_syscall3(SYS_sched_getaffinity, 0, sizeof(usual_cpus), (long)&usual_cpus);
	if (real_table.sched_getparam(0, &param) == 0)
		t->priority = usual_priority = param.sched_priority;
	nice_init();
	/* Of one that forked and has set them, the child's kernel thread has them already. */
	t->pinned = t->niced = false;
}

int wishes_try(struct thread *t, int policy, int priority, const cpu_set_t *cpus)
{
	struct thread *creator = thread_self();
	int r = 0;

	t->policy = usual_policy;
	t->priority = usual_priority;
	t->pinned = false;
	policy_noted(t);
	st_rlx(&t->wishes, 0);
	if (policy != usual_policy || priority != usual_priority)
		r = wish_policy(t, policy, priority);
	if (r == 0 && cpus)
		r = wish_cpus(t, cpus);
	t->niced = creator && creator->niced;
	if (t->niced) {
		t->nice = creator->nice;
		if ((t->nice < 0 || is_realtime(creator->policy)) &&
		    (creator->policy & SCHED_RESET_ON_FORK))
			t->nice = 0;
		or_sc(&t->wishes, WISH_NICE);
	}
	st_rlx(&t->settled, ld_rlx(&t->wishes) == 0);
	return r;
}

void wishes_await(struct thread *t)
{
	while (ld_acq(&t->settled) == 0)
		futex_wait(&t->settled, 0, (uint32_t)FUTEX_ANY, NULL, 0);
}

void wishes_first(struct thread *t)
{
	if (ld_rlx(&t->settled))
		return;
	wishes_do(t, NULL);
	st_rel(&t->settled, 1);
	futex_wake(&t->settled, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void spoil(struct thread *t, const void *uc)
{
	if (uc)
		thread_spoil_sig(t);
	else
		thread_spoil(t, WIRED_POLICY);
}

void wishes_do(struct thread *t, const void *uc)
{
	uint32_t wishes = ld_rlx(&t->wishes) ? xchg_acq(&t->wishes, 0) : 0;

	if (wishes == 0)
		return;
	if (uc)
		thread_wire_sig(t, WIRED_POLICY);
	else
		thread_wire(t, WIRED_POLICY);
	if (wishes & WISH_NICE) {
		spoil(t, uc);
		nice_do(t);
	}
	if (wishes & WISH_CPUS)
		kernel_cpus(0, &t->cpus);
	if (wishes & WISH_POLICY) {
		if (!may_leave(t->policy))
			spoil(t, uc);
		kernel_policy(0, t->policy, t->priority);
	}
}

/* Does it need that kernel thread still? */
static void loosen(struct thread *t)
{
	if (!t->pinned && !t->niced && !t->spoilt && !t->owns && !t->tied &&
	    t->policy == usual_policy && t->priority == usual_priority)
		thread_unwire(t);
}

static int set_policy(struct thread *t, int policy, const struct sched_param *param)
{
	bool wired = t->wired;
	long r;

	if (may_leave(policy)) {
		thread_wire(t, WIRED_POLICY);
	} else {
		r = try_policy(policy, param->sched_priority);
		if (r != 0)
			return (int)-r;
		thread_spoil(t, WIRED_POLICY);
	}
	r = kernel_policy(0, policy, param->sched_priority);
	if (r == 0) {
		t->policy = policy;
		t->priority = param->sched_priority;
		policy_noted(t);
		loosen(t);
	} else if (!wired && !t->spoilt) {
		thread_unwire(t);
	}
	return (int)-r;
}

static int errno_of(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

static int give_policy(struct thread *t, int policy, const struct sched_param *theirs)
{
	struct sched_param param;
	int r;

	if (user_fetch(&param, theirs, sizeof(param)) != 0)
		return EFAULT;
	/* What it has already, or is to have: who is told so needs no kernel thread for it. */
	if (policy == t->policy && param.sched_priority == t->priority)
		return 0;
	if (t == thread_self())
		return set_policy(t, policy, &param);
	r = wish_policy(t, policy, param.sched_priority);
	if (r == 0)
		gnotify_now(t->gp);
	return r;
}

EXPORT int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (t && thread_over(t))
		return ESRCH;
	if (t && t->ceilings)
		return ceiling_policy(t, policy, param);
	return t ? give_policy(t, policy, param)
		 : real_table.pthread_setschedparam(thread, policy, param);
}

EXPORT int pthread_setschedprio(pthread_t thread, int prio)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	struct sched_param param = { .sched_priority = prio };

	if (!t)
		return real_table.pthread_setschedprio(thread, prio);
	return pthread_setschedparam(thread, t->policy, &param);
}

EXPORT int pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *param)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_getschedparam(thread, policy, param);
	if (thread_over(t))
		return ESRCH;
	*policy = t->policy;
	param->sched_priority = t->priority;
	return 0;
}

EXPORT int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	struct thread *t = param ? policy_by_tid(tid) : NULL;

	return t ? errno_of(give_policy(t, policy, param))
		 : real_table.sched_setscheduler(tid, policy, param);
}

EXPORT int sched_getscheduler(pid_t tid)
{
	struct thread *t = policy_by_tid(tid);

	return t ? t->policy : real_table.sched_getscheduler(tid);
}

EXPORT int sched_setparam(pid_t tid, const struct sched_param *param)
{
	struct thread *t = param ? policy_by_tid(tid) : NULL;

	return t ? errno_of(give_policy(t, t->policy, param))
		 : real_table.sched_setparam(tid, param);
}

EXPORT int sched_getparam(pid_t tid, struct sched_param *param)
{
	struct thread *t = param ? policy_by_tid(tid) : NULL;
	struct sched_param mine = { 0 };

	if (!t)
		return real_table.sched_getparam(tid, param);
	if (t->ceilings)
		return ceiling_param(t, param);
	mine.sched_priority = t->priority;
	return errno_of(user_store(param, &mine, sizeof(mine)) != 0 ? EFAULT : 0);
}

/* Of those that all have it needs no kernel thread of its own. */
static int set_affinity(struct thread *t, cpu_set_t *cpus)
{
	long r = try_cpus(cpus);

	if (r < 0)
		return (int)-r;
	if (!CPU_EQUAL(cpus, &usual_cpus)) {
		thread_wire(t, WIRED_POLICY);
		t->pinned = true;
		t->cpus = *cpus;
		return (int)-kernel_cpus(0, cpus);
	}
	if (t->pinned) {
		kernel_cpus(0, cpus);
		t->pinned = false;
		loosen(t);
	}
	return 0;
}

int policy_give_cpus(struct thread *t, size_t n, const cpu_set_t *set)
{
	cpu_set_t cpus = { 0 };
	int r;

	if (user_fetch(&cpus, set, n < sizeof(cpus) ? n : sizeof(cpus)) != 0)
		return EFAULT;
	if (t == thread_self())
		return set_affinity(t, &cpus);
	r = wish_cpus(t, &cpus);
	if (r == 0)
		gnotify_now(t->gp);
	return r;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t n, const cpu_set_t *set)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	return t ? policy_give_cpus(t, n, set) : real_table.pthread_setaffinity_np(thread, n, set);
}

pid_t policy_unpinned(void)
{
	const struct thread *t = thread_self();

	return t && t->pinned ? core_monitor() : 0;
}

static int copy_cpus(const struct thread *t, size_t n, cpu_set_t *set)
{
	for (size_t i = sizeof(t->cpus); i-- > n;)
		if (((const char *)&t->cpus)[i])
			return EINVAL;
	if (user_store(set, &t->cpus, n < sizeof(t->cpus) ? n : sizeof(t->cpus)) != 0)
		return EFAULT;
	/* As glibc has it, what the kernel does not know of. */
	if (n > sizeof(t->cpus))
		memset((char *)set + sizeof(t->cpus), 0, n - sizeof(t->cpus));
	return 0;
}

/* Those of who is not pinned. The process's first kernel thread may be one's who is. */
static int ask_cpus(size_t n, cpu_set_t *set)
{
	return real_table.sched_getaffinity(policy_unpinned(), n, set);
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t n, cpu_set_t *set)
{
	const struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_getaffinity_np(thread, n, set);
	return t->pinned ? copy_cpus(t, n, set) : ask_cpus(n, set) < 0 ? errno : 0;
}

EXPORT int sched_setaffinity(pid_t tid, size_t n, const cpu_set_t *set)
{
	struct thread *t = policy_by_tid(tid);

	return t ? errno_of(policy_give_cpus(t, n, set))
		 : real_table.sched_setaffinity(tid, n, set);
}

EXPORT int sched_getaffinity(pid_t tid, size_t n, cpu_set_t *set)
{
	const struct thread *t = policy_by_tid(tid);

	if (t && t != thread_self())
		return t->pinned ? errno_of(copy_cpus(t, n, set)) : ask_cpus(n, set);
	return real_table.sched_getaffinity(t ? 0 : tid, n, set);
}
