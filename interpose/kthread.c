/* What the kernel keeps of a thread: its tid, its name; and the wiring of a G to its kernel
 * thread, for what only the kernel can do. Next: policy.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

static ATOMIC(uint64_t) nwired[WIRE_CAUSES_END];

uint64_t wire_count(enum wirecause cause)
{
	return ld_rlx(&nwired[cause]);
}

static void count_wired(enum wirecause cause)
{
	add_rlx(&nwired[cause], 1);
	add_rlx(&nwired[UNWIRED], 1);
}

static void wire(struct thread *t, enum wirecause cause, void (*lock)(void))
{
	if (t->wired)
		return;
	/* First: a notice may wire it, too. */
	t->wired = (uint8_t)cause;
	lock();
	count_wired(cause);
}

void thread_wire(struct thread *t, enum wirecause cause)
{
	wire(t, cause, lockosthread);
}

void thread_wire_sig(struct thread *t, enum wirecause cause)
{
	wire(t, cause, lockosthread_sig);
}

void thread_own_tid(struct thread *t)
{
	thread_wire(t, WIRED_LOCK);
	if (t->owns)
		return;
	t->owns = true;
	*t->harvest.tidaddr = os_gettid();
	arch_syscall3(SYS_set_robust_list, (long)t->harvest.robust, ROBUST_HEAD_BYTES, 0);
}

void thread_tie(struct thread *t, enum wirecause cause)
{
	thread_wire(t, cause);
	t->tied = true;
}

void thread_spoil(struct thread *t, enum wirecause cause)
{
	bool is_first = t == thread_first();
	pid_t tid;

	if (is_first && !t->wired)
		ghome();
	thread_wire(t, cause);
	/* The first's does not end with it, but serves it alone from here on. */
	t->tied = t->tied || t->main;
	if (t->main || t->spoilt)
		return;
	t->spoilt = true;
	tid = os_gettid();
	/* One that owns its tid may have locked something by it. */
	gspoil(t->owns || t->tied || is_first);
	/* It took along a copy of what it had set there. */
	if (os_gettid() != tid)
		policy_reset(t, tid);
}

void thread_spoil_sig(struct thread *t)
{
	if (t->main || t->spoilt)
		return;
	t->spoilt = true;
	gspoil_sig();
}

void thread_state(struct thread *t)
{
	thread_spoil(t, WIRED_STATE);
	t->breeds |= BREEDS;
}

struct m *thread_breeds(void)
{
	struct m *bred;
	int r = gbreed(&bred);

	if (r == 0)
		return bred;
	return (struct m *)(intptr_t)(r == -ENOMEM ? -EAGAIN : r);
}

void thread_bred(struct thread *t, const struct thread *maker, struct m *bred)
{
	int32_t tid = gwed(bred, t->gp);

	t->ownfiles = maker->ownfiles;
	t->wired = WIRED_STATE;
	t->spoilt = true;
	t->breeds = BREEDS;
	count_wired(WIRED_STATE);
	if (tid != 0)
		policy_bred(t, maker, tid);
}

void thread_unbred(struct m *bred)
{
	gwed(bred, NULL);
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
	if (t->owns)
		arch_syscall3(SYS_set_robust_list, (long)&none, ROBUST_HEAD_BYTES, 0);
	*t->harvest.tidaddr = t->tid;
	t->owns = t->tied = false;
	st_rlx(&t->owner, 0);
	t->breeds = 0;
	t->wired = UNWIRED;
	if (t->spoilt) {
		t->spoilt = t->ceilings = false;
		return;
	}
	policy_reset(t, 0);
	t->ceilings = false;
	unlockosthread();
}

static bool first_owns;

void wire_first(void)
{
	if (!heddle_started())
		first_owns = true;
}

void wire_first_do(struct thread *t)
{
	if (first_owns)
		thread_own_tid(t);
}

EXPORT GIVES pid_t gettid(void)
{
	struct thread *t = served() ? thread_self() : NULL;

	return t ? t->tid : os_gettid();
}

/* ---- names ---- */

/* The name of the process: its first kernel thread's, on which the first thread need not be. */
static const char leader_comm[] = "/proc/self/comm";

static int name_process(const char *name)
{
	long fd, r;

	entersyscall();
	fd = r = arch_syscall4(SYS_openat, AT_FDCWD, (long)leader_comm, O_WRONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		r = arch_syscall3(SYS_write, fd, (long)name, (long)strlen(name));
		arch_syscall3(SYS_close, fd, 0, 0);
	}
	exitsyscall();
	return r < 0 ? (int)-r : 0;
}

static void process_name(char name[NAME_LEN])
{
	char line[NAME_LEN + 1]; /* with a newline in its end's place, and an end */
	long n;

	entersyscall();
	n = os_readfile(leader_comm, line, sizeof(line));
	exitsyscall();
	if (n > 0) {
		line[n - 1] = 0;
		strcpy(name, line);
	} else {
		/* No /proc, behind a chroot. What was not changed each kernel thread has. */
		arch_syscall3(SYS_prctl, PR_GET_NAME, (long)name, 0);
		if (thread_first()->name[0])
			strcpy(name, thread_first()->name);
	}
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	int r = 0;

	if (!t)
		return real_table.pthread_setname_np(thread, name);
	if (strlen(name) >= NAME_LEN)
		return ERANGE;
	if (thread_over(t))
		return ENOENT;
	if (t == thread_first())
		r = name_process(name);
	/* Where there is no /proc it is known here alone. */
	if (r != 0 && t != thread_self())
		return r;
	strcpy(t->name, name);
	t->named = t != thread_first() || r != 0;
	tracer_renamed(t->gp);
	return 0;
}

/* Of one that may end meanwhile, and be unmapped. */
bool thread_called(const struct g *gp, char to[TRACE_NAME_LEN])
{
	const struct thread *t = ghost_of(gp);
	struct {
		bool named, main, own;
	} is;
	const struct iovec here[] = { { to, NAME_LEN }, { &is, sizeof(is) } };
	const struct iovec there[] = {
		{ (void *)(uintptr_t)t->name, NAME_LEN },
		{ (void *)(uintptr_t)&t->named, 1 },
		{ (void *)(uintptr_t)&t->main, 1 },
		{ (void *)(uintptr_t)&t->own, 1 },
	};
	const char *name;

	_Static_assert((int)NAME_LEN == (int)TRACE_NAME_LEN, "one name");
	if (arch_owncall(SYS_process_vm_readv, getpid(), (long)here, 2, (long)there, 4, 0) !=
	    NAME_LEN + sizeof(is))
		return false;
	name = is.main ? "main" : is.own ? "heddle's own" : is.named ? NULL : "";
	if (name)
		strncpy(to, name, NAME_LEN);
	to[NAME_LEN - 1] = 0;
	return to[0] != 0;
}

EXPORT int pthread_getname_np(pthread_t thread, char *name, size_t len)
{
	struct thread *t = served() ? thread_of(thread) : NULL;
	char own[NAME_LEN];

	if (!t)
		return real_table.pthread_getname_np(thread, name, len);
	if (len < NAME_LEN)
		return ERANGE;
	if (thread_over(t))
		return ENOENT;
	strcpy(own, t->name);
	/* As the kernel has it, a thread begins with the name of its creator. */
	if (!t->named)
		process_name(own);
	/* glibc reads it from a file. */
	return user_store(name, own, strlen(own) + 1) != 0 ? EFAULT : 0;
}

/* glibc's own would ask the kernel about the tid. */
EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	enum { PAGE = 4096 };
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
	/* There may be more of it than was asked for. */
	if (t->ownstack || t->size == 0)
		pthread_attr_setstack(attr, (void *)t->harvest.lo, t->harvest.size);
	else
		pthread_attr_setstack(attr, (void *)(t->harvest.lo + t->harvest.size - t->size),
				      t->size);
	if (t->explicit)
		pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setguardsize(attr,
				  t->ownstack ? 0 : (t->guard + PAGE - 1) & ~(size_t)(PAGE - 1));
	pthread_attr_setdetachstate(attr, ld_rlx(&t->life) & DETACHED ? PTHREAD_CREATE_DETACHED
								      : PTHREAD_CREATE_JOINABLE);
	pthread_attr_setschedpolicy(attr, t->policy);
	/* It has 0 already, and more would be a call to ask whether it may have that. */
	if (t->priority != 0)
		pthread_attr_setschedparam(attr, &param);
	if (pthread_getaffinity_np(thread, sizeof(set), &set) == 0)
		pthread_attr_setaffinity_np(attr, sizeof(set), &set);
	return 0;
}

/* It goes by the policy, which the kernel threads of all that are not wired share. */
EXPORT int sched_rr_get_interval(pid_t tid, struct timespec *turn)
{
	struct thread *t = served() && tid > 0 ? thread_by_tid(tid) : NULL;

	if (t)
		tid = t->wired ? gtid(t->gp) : 0;
	return real_table.sched_rr_get_interval(tid, turn);
}
