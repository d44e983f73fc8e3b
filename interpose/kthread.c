/* What the kernel keeps of a thread: its tid, name, policy, priority, affinity. A G that
 * changes such a thing for itself is wired to its kernel thread; what one sets for another
 * that is not wired is recorded and no more. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "wire.h"

void thread_wire(struct thread *t)
{
	if (t->wired)
		return;
	lockosthread();
	t->wired = true;
	*t->harvest.tidaddr = os_gettid();
	arch_syscall3(SYS_set_robust_list, (long)t->harvest.robust, ROBUST_HEAD_BYTES, 0);
}

void thread_unwire(struct thread *t)
{
	static struct {
		void *next;
		long offset;
		void *pending;
	} none = { &none, 0, NULL };

	if (!t->wired)
		return;
	arch_syscall3(SYS_set_robust_list, (long)&none, ROBUST_HEAD_BYTES, 0);
	*t->harvest.tidaddr = t->tid;
	t->wired = false;
	unlockosthread();
}

EXPORT pid_t gettid(void)
{
	struct thread *t = served() ? thread_self() : NULL;

	return t ? t->tid : os_gettid();
}

/* ---- names ---- */

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t || t->main)
		return real_table.pthread_setname_np(thread, name);
	if (strlen(name) >= NAME_LEN)
		return ERANGE;
	strcpy(t->name, name);
	t->named = true;
	return 0;
}

EXPORT int pthread_getname_np(pthread_t thread, char *name, size_t len)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t || t->main)
		return real_table.pthread_getname_np(thread, name, len);
	if (len < NAME_LEN)
		return ERANGE;
	/* As the kernel has it, a thread begins with the name of the process. */
	if (!t->named)
		return real_table.pthread_getname_np(thread_first()->harvest.thread, name, len);
	strcpy(name, t->name);
	return 0;
}

EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t || t->main)
		return real_table.pthread_getcpuclockid(thread, clock);
	*clock = CLOCK_THREAD_CPUTIME_ID;
	return 0;
}

/* glibc's own would ask the kernel about the tid. */
EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	struct sched_param param = { 0 };
	cpu_set_t set;
	int r;

	if (!t || t->main)
		return real_table.pthread_getattr_np(thread, attr);
	r = pthread_attr_init(attr);
	if (r != 0)
		return r;
	param.sched_priority = t->priority;
	pthread_attr_setstack(attr, (void *)t->harvest.lo, t->harvest.size);
	pthread_attr_setguardsize(attr, t->ownstack ? 0 : t->guard);
	pthread_attr_setdetachstate(attr, ld_rlx(&t->life) & DETACHED ? PTHREAD_CREATE_DETACHED
								      : PTHREAD_CREATE_JOINABLE);
	pthread_attr_setschedpolicy(attr, t->policy);
	pthread_attr_setschedparam(attr, &param);
	if (pthread_getaffinity_np(thread, sizeof(set), &set) == 0)
		pthread_attr_setaffinity_np(attr, sizeof(set), &set);
	return 0;
}

/* ---- policy and affinity ---- */

/* The record that a tid means, NULL if it is none of ours; *self: it is the caller's. */
static struct thread *by_tid(pid_t tid, bool *self)
{
	struct thread *t = served() ? thread_self() : NULL;

	*self = t && (tid == 0 || tid == t->tid);
	return *self ? t : NULL;
}

static int set_policy(struct thread *t, int policy, const struct sched_param *param)
{
	bool wired = t->wired;
	long r;

	/* What it has already. */
	if (policy == t->policy && param->sched_priority == t->priority)
		return 0;
	thread_wire(t);
	r = arch_syscall3(SYS_sched_setscheduler, 0, policy, (long)param);
	if (r == 0) {
		t->policy = policy;
		t->priority = param->sched_priority;
	} else if (!wired) {
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

EXPORT int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_setschedparam(thread, policy, param);
	if (t == thread_self())
		return set_policy(t, policy, param);
	if (param->sched_priority < sched_get_priority_min(policy) ||
	    param->sched_priority > sched_get_priority_max(policy))
		return EINVAL;
	t->policy = policy;
	t->priority = param->sched_priority;
	return 0;
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
	*policy = t->policy;
	param->sched_priority = t->priority;
	return 0;
}

EXPORT int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param)
{
	bool self;
	struct thread *t = by_tid(tid, &self);

	return self ? errno_of(set_policy(t, policy, param))
		    : real_table.sched_setscheduler(tid, policy, param);
}

EXPORT int sched_getscheduler(pid_t tid)
{
	bool self;
	struct thread *t = by_tid(tid, &self);

	return self ? t->policy : real_table.sched_getscheduler(tid);
}

EXPORT int sched_setparam(pid_t tid, const struct sched_param *param)
{
	bool self;
	struct thread *t = by_tid(tid, &self);

	return self ? errno_of(set_policy(t, t->policy, param))
		    : real_table.sched_setparam(tid, param);
}

EXPORT int sched_getparam(pid_t tid, struct sched_param *param)
{
	bool self;
	struct thread *t = by_tid(tid, &self);

	if (!self)
		return real_table.sched_getparam(tid, param);
	param->sched_priority = t->priority;
	return 0;
}

static int set_affinity(struct thread *t, size_t n, const cpu_set_t *set)
{
	bool wired = t->wired;
	long r;

	thread_wire(t);
	r = arch_syscall3(SYS_sched_setaffinity, 0, (long)n, (long)set);
	if (r < 0 && !wired)
		thread_unwire(t);
	return (int)-r;
}

EXPORT int pthread_setaffinity_np(pthread_t thread, size_t n, const cpu_set_t *set)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_setaffinity_np(thread, n, set);
	return t == thread_self() ? set_affinity(t, n, set) : 0;
}

EXPORT int pthread_getaffinity_np(pthread_t thread, size_t n, cpu_set_t *set)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_getaffinity_np(thread, n, set);
	/* Of the process, as long as it is not wired. */
	return sched_getaffinity(t->wired && t != thread_self() ? *t->harvest.tidaddr : 0, n,
				 set) == 0
		       ? 0
		       : errno;
}

EXPORT int sched_setaffinity(pid_t tid, size_t n, const cpu_set_t *set)
{
	bool self;
	struct thread *t = by_tid(tid, &self);

	return self ? errno_of(set_affinity(t, n, set)) : real_table.sched_setaffinity(tid, n, set);
}

EXPORT int sched_getaffinity(pid_t tid, size_t n, cpu_set_t *set)
{
	bool self;

	by_tid(tid, &self);
	return real_table.sched_getaffinity(self ? 0 : tid, n, set);
}
