/* Mutexes with a priority ceiling are glibc's own: whoever locks one is given its priority in the
 * kernel by glibc, which then counts the ceilings of what the thread holds and must know what it
 * had before. The thread is wired and owns its tid (kthread.c); its policy is changed by glibc from
 * then on, and what glibc counted ends with the thread (thread_finish). */
#include <errno.h>

#include "thread.h"
#include "user.h"
#include "wire.h"

void ceiling_begins(struct thread *t)
{
	struct sched_param param = { .sched_priority = t->priority };

	if (t->ceilings)
		return;
	t->ceilings = true;
	real_table.pthread_setschedparam(t->harvest.thread, t->policy, &param);
}

int ceiling_policy(struct thread *t, int policy, const struct sched_param *theirs)
{
	struct sched_param param;
	int r;

	if (user_fetch(&param, theirs, sizeof(param)) != 0)
		return EFAULT;
	r = real_table.pthread_setschedparam(t->harvest.thread, policy, &param);
	if (r == 0) {
		t->policy = policy;
		t->priority = param.sched_priority;
		policy_noted(t);
	}
	return r;
}

int ceiling_param(const struct thread *t, struct sched_param *param)
{
	return real_table.sched_getparam(*t->harvest.tidaddr, param);
}
