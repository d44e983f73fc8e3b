/* What the kernel keeps of a kernel thread, and cannot be made to forget: a thread that changes it
 * for itself takes its kernel thread along when it ends. Calls for the whole process pass. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io.h"
#include "os.h"
#include "preempt.h"
#include "segments.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"
#include "wire.h"

static bool filtered;

void state_filters(void)
{
	filtered = true;
}

bool state_filtered(void)
{
	return filtered;
}

static void spoil(void)
{
	struct thread *t = thread_self();

	if (t)
		thread_state(t);
}

EXPORT int unshare(int flags)
{
	struct thread *t = served() ? thread_self() : NULL;
	int r;

	if (t)
		spoil();
	r = real_table.unshare(flags);
	if (t && r == 0 && (flags & CLONE_FILES))
		fd_unshared(t);
	return r;
}

EXPORT int setns(int fd, int type)
{
	if (served())
		spoil();
	return real_table.setns(fd, type);
}

EXPORT int setfsuid(uid_t u)
{
	/* It answers with what it was. */
	if (served() && real_table.setfsuid((uid_t)-1) != (int)u)
		spoil();
	return real_table.setfsuid(u);
}

EXPORT int setfsgid(gid_t g)
{
	if (served() && real_table.setfsgid((gid_t)-1) != (int)g)
		spoil();
	return real_table.setfsgid(g);
}

/* Who names himself does so by his tid, which is heddle's. Of a version that it does not know the
 * kernel says which it does. */
static int capability(void *header, void *data, bool sets)
{
	const struct thread *t = io_self();
	struct __user_cap_header_struct own;
	void *head = header;
	int r;

	if (t && sets)
		spoil();
	if (t && user_fetch(&own, header, sizeof(own)) == 0 && own.pid == t->tid) {
		own.pid = 0;
		head = &own;
	}
	r = sets ? real_table.capset(head, data) : real_table.capget(head, data);
	if (head != header)
		user_store(header, &own.version, sizeof(own.version));
	return r;
}

EXPORT int capget(void *header, void *data)
{
	return served() ? capability(header, data, false) : real_table.capget(header, data);
}

EXPORT int capset(void *header, const void *data)
{
	return served() ? capability(header, (void *)(uintptr_t)data, true)
			: real_table.capset(header, data);
}

EXPORT int personality(unsigned long persona)
{
	enum { ASKS = 0xffffffff };

	if (served() && persona != ASKS)
		spoil();
	return real_table.personality(persona);
}

/* Rights are a register's of the cpu, which the kernel keeps for its thread. Nobody need switch it
 * before there is a key. */
EXPORT int pkey_alloc(unsigned flags, unsigned rights)
{
	if (served())
		core_keys();
	return real_table.pkey_alloc(flags, rights);
}

/* ---- prctl ---- */

/* Many set it in each of their threads, and few make a process then, or filter calls: until one
 * does that it need not be wired for it. */
static bool gives_up(struct thread *t, int option, const unsigned long *a, int *r)
{
	if (a[1] || a[2] || a[3])
		return false;
	if (option == PR_SET_NO_NEW_PRIVS && a[0] == 1) {
		t->nonew = true;
		*r = 0;
		return true;
	}
	*r = 1;
	return option == PR_GET_NO_NEW_PRIVS && a[0] == 0 && t->nonew;
}

void state_settle(void)
{
	struct thread *t = heddle_started() ? thread_self() : NULL;

	if (!t || !t->nonew || arch_syscall6(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0) == 1)
		return;
	thread_spoil(t, WIRED_STATE);
	arch_syscall6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
}

/* Of one kernel thread, and for it alone. */
static bool spoils(int option)
{
	switch (option) {
	case PR_SET_KEEPCAPS:
	case PR_SET_SECUREBITS:
	case PR_CAPBSET_DROP:
	case PR_CAP_AMBIENT:
	case PR_SET_TIMERSLACK:
	case PR_SET_TSC:
	case PR_MCE_KILL:
	case PR_SET_SPECULATION_CTRL:
	case PR_SET_SYSCALL_USER_DISPATCH:
	case PR_SCHED_CORE:
		return true;
	default:
		return false;
	}
}

/* The kernel's answer to that option on a kernel thread of that name (NULL: whatever it has);
 * after: its name then. */
static long ask_as(const char *as, int option, unsigned long name, char after[NAME_LEN])
{
	char before[NAME_LEN];
	uint64_t mask;
	long r;

	/* No handler may carry it to another in between. */
	entersyscall();
	mask = os_sigmask(~(uint64_t)0);
	arch_syscall3(SYS_prctl, PR_GET_NAME, (long)before, 0);
	if (as)
		arch_syscall3(SYS_prctl, PR_SET_NAME, (long)as, 0);
	r = arch_syscall3(SYS_prctl, option, (long)name, 0);
	arch_syscall3(SYS_prctl, PR_GET_NAME, (long)after, 0);
	arch_syscall3(SYS_prctl, PR_SET_NAME, (long)before, 0);
	os_sigmask(mask);
	exitsyscall();
	return r;
}

static long name_call(int option, unsigned long name)
{
	char own[NAME_LEN], after[NAME_LEN];
	long r;

	if (option == PR_GET_NAME) {
		r = -pthread_getname_np(pthread_self(), own, sizeof(own));
		return r < 0 ? r : ask_as(own, option, name, after);
	}
	r = ask_as(NULL, option, name, after);
	return r < 0 ? r : -pthread_setname_np(pthread_self(), after);
}

EXPORT int prctl(int option, ...)
{
	struct thread *t = served() ? thread_self() : NULL;
	unsigned long a[4];
	va_list args;
	bool filters;
	int r;

	va_start(args, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	if (!t) {
		r = real_table.prctl(option, a[0], a[1], a[2], a[3]);
		if (r == 0 && option == PR_SET_SECCOMP)
			state_filters();
		return r;
	}
	if (option == PR_SET_NAME || option == PR_GET_NAME)
		return (int)io_answer(name_call(option, a[0]));
	if (gives_up(t, option, a, &r))
		return r;
	filters = state_sets_filter(SYS_prctl, (const long[]){ option, (long)a[0], (long)a[1] });
	if (filters) {
		core_filters();
		state_settle();
	}
	if (filters || spoils(option))
		thread_state(t);
	/* Which it does not hand on. */
	if (option == PR_SET_PDEATHSIG && a[0] != 0)
		thread_spoil(t, WIRED_STATE);
	return (int)io_answer(arch_syscall6(SYS_prctl, option, (long)a[0], (long)a[1], (long)a[2],
					    (long)a[3], 0));
}

/* ---- by syscall() ---- */

/* Who gives none asks whether there are filters, as Mozilla's sandbox does at its start. */
bool state_sets_filter(long nr, const long *a)
{
	/* The kernel looks at no more of it. */
	uint32_t op = (uint32_t)a[0];

	if (nr == SYS_prctl)
		return op == PR_SET_SECCOMP && (a[1] != SECCOMP_MODE_FILTER || a[2] != 0);
	return nr == SYS_seccomp &&
	       ((op == SECCOMP_SET_MODE_FILTER && a[2] != 0) || op == SECCOMP_SET_MODE_STRICT);
}

/* Does the kernel hand it on to what this kernel thread makes, and to no others? */
static bool hands_on(long nr, const long *a)
{
	switch (nr) {
	case SYS_seccomp:
		return !(a[0] == SECCOMP_SET_MODE_FILTER &&
			 ((unsigned long)a[1] & SECCOMP_FILTER_FLAG_TSYNC));
	case SYS_keyctl:
		return a[0] == KEYCTL_JOIN_SESSION_KEYRING;
	case SYS_add_key:
	case SYS_request_key:
		return false;
	default:
		return true;
	}
}

static bool policy_is_default(void)
{
	int now = MPOL_DEFAULT;

	arch_syscall6(SYS_get_mempolicy, (long)&now, 0, 0, 0, 0, 0);
	return now == MPOL_DEFAULT;
}

/* libnuma sets one to see whether it can, and puts the default back, before main. That is no state,
 * unless another was the default. */
static void memory_policy(struct thread *t, long mode)
{
	bool was = policy_is_default();

	if (mode != MPOL_DEFAULT && (was || (t->breeds & BREEDS_POLICY))) {
		thread_spoil(t, WIRED_STATE);
		t->breeds |= BREEDS_POLICY;
	} else if (mode != MPOL_DEFAULT || (!was && !(t->breeds & BREEDS_POLICY))) {
		thread_state(t);
	} else {
		t->breeds &= (uint8_t)~BREEDS_POLICY;
	}
}

/* Is it to go to a keyring of this kernel thread's own, or of its credentials'? */
static bool own_keyring(long ring)
{
	return (int)ring == KEY_SPEC_THREAD_KEYRING || (int)ring == KEY_SPEC_PROCESS_KEYRING;
}

void state_changes(struct thread *t, long nr, const long *a)
{
	if ((nr == SYS_add_key && !own_keyring(a[4])) ||
	    (nr == SYS_request_key && !own_keyring(a[3])))
		return;
	if (state_sets_filter(nr, a))
		core_filters();
	else if (nr == SYS_seccomp)
		return;
	state_settle();
	if (nr == SYS_set_mempolicy)
		memory_policy(t, a[0]);
	else if (hands_on(nr, a))
		thread_state(t);
	else
		thread_spoil(t, WIRED_STATE);
}

void state_kept(long nr, const long *a)
{
	struct thread *t;

	if (likely(!segments_change(nr, a)))
		return;
	t = served() ? thread_self() : NULL;
	if (t)
		thread_state(t);
	else
		wire_first();
}

bool state_call(long nr, const long *a, long *r)
{
	/* The kernel tells no negative numbers. */
	enum { NICE_ZERO = 20 };

	switch (nr) {
	case SYS_prctl:
		*r = prctl((int)a[0], a[1], a[2], a[3], a[4]);
		return true;
	case SYS_capget:
	case SYS_capset:
		*r = capability((void *)a[0], (void *)a[1], nr == SYS_capset);
		return true;
	case SYS_unshare:
		state_settle();
		*r = unshare((int)a[0]);
		return true;
	case SYS_personality:
		*r = personality((unsigned long)a[0]);
		return true;
	case SYS_setpriority:
		*r = setpriority((__priority_which_t)a[0], (id_t)a[1], (int)a[2]);
		return true;
	case SYS_getpriority:
		errno = 0;
		*r = getpriority((__priority_which_t)a[0], (id_t)a[1]);
		if (*r != -1 || errno == 0)
			*r = NICE_ZERO - *r;
		return true;
	default:
		return false;
	}
}
