/* Policies and cpus by syscall(). */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

/* What it has already, as far as the kernel tells: GLib gives each thread of a pool its maker's. */
static bool same_attr(const void *attr)
{
	enum { LEAST = 48 };
	char now[256], want[256];
	uint32_t size;

	return user_fetch(&size, attr, sizeof(size)) == 0 && size >= LEAST && size <= sizeof(now) &&
	       user_fetch(want, attr, size) == 0 &&
	       arch_syscall4(SYS_sched_getattr, 0, (long)now, size, 0) == 0 &&
	       memcmp(now, want, size) == 0;
}

static long set_attr(struct thread *t, const void *attr, long flags)
{
	struct sched_param param;
	long r;

	if (!t->wired && flags == 0 && same_attr(attr))
		return 0;
	/* It sets niceness, too. */
	thread_spoil(t, WIRED_POLICY);
	r = arch_syscall3(SYS_sched_setattr, 0, (long)attr, flags);
	if (r == 0 && arch_syscall3(SYS_sched_getparam, 0, (long)&param, 0) == 0) {
		t->policy = (int)arch_syscall3(SYS_sched_getscheduler, 0, 0, 0);
		t->priority = param.sched_priority;
		policy_noted(t);
		nice_noted(t);
	}
	return r;
}

/* As the kernel's: how many bytes it wrote. */
static long get_cpus(const struct thread *t, size_t n, cpu_set_t *set)
{
	long r = arch_syscall3(SYS_sched_getaffinity, policy_unpinned(), (long)n, (long)set);

	if (r > 0 && t->pinned)
		memcpy(set, &t->cpus, (size_t)r < sizeof(t->cpus) ? (size_t)r : sizeof(t->cpus));
	return r;
}

bool policy_call(long nr, long *a, long *r)
{
	struct thread *t = policy_by_tid((pid_t)a[0]);
	bool self = t == thread_self();

	if (!t)
		return false;
	switch (nr) {
	case SYS_sched_setattr:
		if (self)
			*r = set_attr(t, (const void *)a[1], a[2]);
		return self;
	case SYS_sched_setaffinity:
		*r = -policy_give_cpus(t, (size_t)a[1], (const cpu_set_t *)a[2]);
		return true;
	case SYS_sched_getaffinity:
		if (!self) {
			*r = get_cpus(t, (size_t)a[1], (cpu_set_t *)a[2]);
			return true;
		}
		/* fall through */
	case SYS_sched_getattr:
		/* Its kernel thread's, whichever it is. */
		if (self)
			a[0] = 0;
		return false;
	default:
		return false;
	}
}
