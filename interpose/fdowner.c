/* Who gets the signals of a descriptor (F_SETOWN_EX), where that is one thread: the kernel knows
 * its kernel thread, which is its own from then on. */
#include "fdowner.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "os.h"
#include "preempt.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

long owner_set(struct thread *self, int fd, const void *arg)
{
	struct f_owner_ex owner;
	struct thread *t;

	if (user_fetch(&owner, arg, sizeof(owner)) != 0)
		return arch_syscall3(SYS_fcntl, fd, F_SETOWN_EX, (long)arg);
	t = owner.type == F_OWNER_TID ? thread_by_tid(owner.pid) : NULL;
	/* The first thread, before there is a second: its kernel thread is to stay its own. */
	if (!self && owner.type == F_OWNER_TID && owner.pid == os_gettid())
		wire_first();
	if (t && t == self) {
		thread_spoil(t, WIRED_OWNER);
		st_rlx(&t->owner, os_gettid());
	}
	if (t && ld_rlx(&t->owner) != 0)
		owner.pid = ld_rlx(&t->owner);
	return arch_syscall3(SYS_fcntl, fd, F_SETOWN_EX, (long)&owner);
}

long owner_get(int fd, void *arg)
{
	struct f_owner_ex owner;
	long r = arch_syscall3(SYS_fcntl, fd, F_GETOWN_EX, (long)&owner);

	if (r != 0)
		return r;
	for (struct g *gp = geach(NULL); gp && owner.type == F_OWNER_TID; gp = geach(gp)) {
		struct thread *t = ghost_of(gp);
		if (t && owner.pid != 0 && ld_rlx(&t->owner) == owner.pid)
			owner.pid = t->tid;
	}
	return user_store(arg, &owner, sizeof(owner));
}

bool owner_here(void)
{
	struct g *wired = core_sigwired();
	struct thread *t = wired ? ghost_of(wired) : NULL;

	return t && ld_rlx(&t->owner) != 0;
}
