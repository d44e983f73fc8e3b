/* The first thread: the program's, which was there before heddle had any; in the child of a fork,
 * the one that forked. Of all others that one had, the child has the records, and nothing else. */
#include <stddef.h>

#include "cputimer.h"
#include "early.h"
#include "fd.h"
#include "signals.h"
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

FORKS void thread_forked(void)
{
	stack_t alternate = thread_self()->altstack;

	first = thread_self();
	first->forks = ld_rlx(&once_forks);
	first->wired = first->owns = first->ceilings = first->ownfiles = false;
	st_rlx(&first->owner, 0);
	first->spoilt = first->tied = first->parent = false;
	first->breeds = 0;
	st_rlx(&first->making, false);
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
