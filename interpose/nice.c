/* Niceness: the kernel has it of each kernel thread, and lets only the privileged take it back. So
 * who sets it for itself takes its kernel thread along (thread_spoil); what is set for another is a
 * wish, as in policy.c; and a thread has its creator's. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "io.h"
#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "wire.h"

/* As the kernel tells it: 40 to 1. */
enum { NICE_ZERO = 20, NICE_MOST = 19, NICE_LEAST = -20 };

/* Of the kernel threads: what the program began with. */
static int usual_nice;

/* The process's first kernel thread has a thread's own: it was there when it was wished to be. */
static ATOMIC(bool) leads;

static long kernel_nice(int nice)
{
	if (os_gettid() == getpid())
		st_rlx(&leads, true);
	return arch_syscall3(SYS_setpriority, PRIO_PROCESS, 0, nice);
}

static int kernels_nice(void)
{
	return NICE_ZERO - (int)arch_syscall3(SYS_getpriority, PRIO_PROCESS, 0, 0);
}

void nice_init(void)
{
	usual_nice = kernels_nice();
	st_rlx(&leads, false);
}

unsigned long nice_limit(void)
{
	return (unsigned long)(NICE_ZERO - usual_nice);
}

void nice_noted(struct thread *t)
{
	int nice = kernels_nice();

	t->niced = t->niced || nice != usual_nice;
	t->nice = nice;
}

void nice_reset(const struct thread *t, pid_t tid)
{
	if (t->niced)
		arch_syscall3(SYS_setpriority, PRIO_PROCESS, tid, usual_nice);
}

void nice_do(const struct thread *t)
{
	kernel_nice(t->nice);
}

/* May it be set to that by this process? */
static bool may_be(const struct thread *t, int nice)
{
	struct rlimit limit;

	return nice >= (t->niced ? t->nice : usual_nice) || geteuid() == 0 ||
	       (getrlimit(RLIMIT_NICE, &limit) == 0 &&
		(rlim_t)(NICE_ZERO - nice) <= limit.rlim_cur);
}

static int set_nice(struct thread *t, int nice)
{
	long r;

	if (nice == (t->niced ? t->nice : usual_nice))
		return 0;
	if (!may_be(t, nice))
		return EACCES;
	if (t != thread_self()) {
		t->nice = nice;
		t->niced = true;
		or_sc(&t->wishes, WISH_NICE);
		gnotify_now(t->gp);
		return 0;
	}
	thread_spoil(t, WIRED_POLICY);
	r = kernel_nice(nice);
	if (r == 0) {
		t->nice = nice;
		t->niced = true;
	}
	return (int)-r;
}

static struct thread *meant_by(__priority_which_t which, id_t who)
{
	struct thread *t = thread_self();

	if (which != PRIO_PROCESS || !t)
		return NULL;
	return who == 0 || (pid_t)who == t->tid ? t : thread_by_tid((pid_t)who);
}

EXPORT int setpriority(__priority_which_t which, id_t who, int nice)
{
	struct thread *t = served() ? meant_by(which, who) : NULL;

	if (!t)
		return real_table.setpriority(which, who, nice);
	nice = nice > NICE_MOST ? NICE_MOST : nice < NICE_LEAST ? NICE_LEAST : nice;
	return (int)io_answer(-set_nice(t, nice));
}

EXPORT int getpriority(__priority_which_t which, id_t who)
{
	struct thread *t = served() ? meant_by(which, who) : NULL;

	if (!t)
		return real_table.getpriority(which, who);
	if (t->niced)
		return t->nice;
	/* Somebody may have changed it from without. */
	return ld_rlx(&leads) ? usual_nice : real_table.getpriority(PRIO_PROCESS, (id_t)getpid());
}

EXPORT int nice(int more)
{
	int now, error = errno;

	if (!served() || !thread_self())
		return real_table.nice(more);
	now = getpriority(PRIO_PROCESS, 0) + more;
	if (setpriority(PRIO_PROCESS, 0, now) != 0) {
		if (errno == EACCES)
			errno = EPERM;
		return -1;
	}
	errno = error;
	return getpriority(PRIO_PROCESS, 0);
}
