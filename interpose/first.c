/* The first thread: the program's, which was there before heddle had any; in the child of a fork,
 * the one that forked. Of all others that one had, the child has the records, and nothing else. */
#include <linux/prctl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cputimer.h"
#include "early.h"
#include "fd.h"
#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "text.h"
#include "thread.h"
#include "wire.h"

static struct thread mainthread;
static struct thread *first = &mainthread;

struct thread *thread_first(void)
{
	return first;
}

void *thread_main_init(void)
{
	harvest_adopt(&first->harvest);
	first->main = true;
	first->forks = ld_rlx(&once_forks);
	first->tid = *first->harvest.tidaddr;
	st_rlx(&first->life, 0);
	/* Before the core sets the kernel thread's. */
	if (real_table.sigaltstack(NULL, &first->altstack) == 0 &&
	    (first->altstack.ss_flags & SS_DISABLE))
		first->altstack.ss_sp = NULL;
	first->altstack.ss_flags &= ~SS_ONSTACK;
	policy_init(first);
	return first;
}

void thread_main_started(void)
{
	signals_adopt(first);
	signals_open(gmask());
	cancel_init(first);
	thread_alone();
	wire_first_do(first);
}

/* The parent's, which others may have named. */
static bool parents_name(char name[NAME_LEN + 1])
{
	char path[32];
	struct text t = TEXT(path);
	long n;

	text_put(&t, "/proc/");
	text_num(&t, getppid());
	text_put(&t, "/comm");
	n = os_readfile(path, name, NAME_LEN + 1);
	if (n > 0)
		name[n - 1] = 0;
	return n > 0;
}

/* A name that nobody has changed all kernel threads have, else that one which forked has any. What
 * the thread was called is its process's name now. */
static void name_forked(struct thread *t, const struct thread *before)
{
	char name[NAME_LEN + 1];

	if (!t->named && !before->name[0])
		return;
	if (t->named || !parents_name(name))
		strcpy(name, t->named ? t->name : before->name);
	arch_syscall3(SYS_prctl, PR_SET_NAME, (long)name, 0);
	strcpy(t->name, name);
	t->named = false;
}

FORKS void thread_forked(void)
{
	stack_t alternate = thread_self()->altstack;
	const struct thread *before = first;

	first = thread_self();
	name_forked(first, before);
	first->forks = ld_rlx(&once_forks);
	first->wired = first->owns = first->ceilings = first->ownfiles = false;
	st_rlx(&first->owner, 0);
	first->spoilt = first->tied = first->parent = false;
	first->breeds = 0;
	st_rlx(&first->making, MAKES_NONE);
	/* The kernel's is that of the M that forked. */
	if (!alternate.ss_sp)
		alternate.ss_flags = SS_DISABLE;
	real_table.sigaltstack(&alternate, NULL);
	/* What was pending was the parent's. */
	pending_forked(&first->signals);
	pending_forked(&first->lent);
	st_rlx(&first->fed, 0);
	st_rlx(&first->feeders, 0);
	thread_alone();
	spare_forked();
	signals_forked();
	cputimers_forked();
	fd_forked();
	credentials_forked();
	cancel_forked(first);
}

struct thread *thread_gone(struct thread *t)
{
	*t->harvest.tidaddr = 0;
	return NULL;
}
