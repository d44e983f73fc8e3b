/* Processes. fork and its kin tell us by pthread_atfork (shim/start.c); what does not is here. */
#include <errno.h>

#include "thread.h"

struct g *vfork_before(void);
pid_t vfork_after(struct g *gp, long r);

EXPORT pid_t _Fork(void)
{
	pid_t pid;

	served();
	pid = real_table._Fork();
	if (pid == 0)
		heddle_forked();
	return pid;
}

/* Of vfork.S. In the child, which borrows this thread's memory, nothing is ours to serve. */
struct g *vfork_before(void)
{
	return served() && thread_self() ? core_vforking() : NULL;
}

pid_t vfork_after(struct g *gp, long r)
{
	if (gp)
		core_vforked(gp);
	if (r >= 0)
		return (pid_t)r;
	errno = (int)-r;
	return -1;
}
