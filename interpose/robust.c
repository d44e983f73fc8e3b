/* Robust mutexes of a thread that ends: its kernel thread goes on, so the kernel does not see to
 * them. One that inherits priority and has waiters is handed to one of them by the kernel as if
 * it had been unlocked; that its owner died is noted here, for whoever of this process gets it. */
#include <linux/futex.h>
#include <sys/syscall.h>

#include "mutex.h"
#include "syscall.h"
#include "thread.h"

enum { ORPHANS = 64 };

static ATOMIC(void *) orphans[ORPHANS];
static ATOMIC(uint32_t) norphans;

bool robust_orphan(pthread_mutex_t *m)
{
	if (ld_acq(&norphans) == 0)
		return false;
	for (int i = 0; i < ORPHANS; i++) {
		if (ld_rlx(&orphans[i]) == m && cas_acq(&orphans[i], m, NULL)) {
			add_rlx(&norphans, (uint32_t)-1);
			return true;
		}
	}
	return false;
}

/* False: there is no room; then nobody is told. */
static bool note(void *m)
{
	add_sc(&norphans, 1);
	for (int i = 0; i < ORPHANS; i++)
		if (!ld_rlx(&orphans[i]) && cas_rel(&orphans[i], NULL, m))
			return true;
	add_sc(&norphans, (uint32_t)-1);
	return false;
}

static void end_one(ATOMIC(uint32_t) *word, uint32_t tid, bool inherits)
{
	uint32_t value = ld_rlx(word), waiters;

	while ((value & FUTEX_TID_MASK) == tid) {
		waiters = value & FUTEX_WAITERS;
		if (inherits && waiters) {
			note((void *)word);
			arch_syscall3(SYS_futex, (long)word, FUTEX_UNLOCK_PI, 0);
			return;
		}
		if (cas_sc(word, value, waiters | FUTEX_OWNER_DIED)) {
			if (waiters)
				arch_syscall3(SYS_futex, (long)word, FUTEX_WAKE, 1);
			return;
		}
		value = ld_rlx(word);
	}
}

void robust_end(struct thread *t)
{
	enum { INHERITS = 1 }; /* beside the address of an entry */
	struct robust_list_head *head = t->harvest.robust;
	uintptr_t at;

	if (!head)
		return;
	at = (uintptr_t)head->list.next;
	while ((struct robust_list *)(at & ~(uintptr_t)INHERITS) != &head->list) {
		struct robust_list *entry = (struct robust_list *)(at & ~(uintptr_t)INHERITS);
		bool inherits = at & INHERITS;
		at = (uintptr_t)entry->next;
		end_one((ATOMIC(uint32_t) *)((char *)entry + head->futex_offset),
			(uint32_t)*t->harvest.tidaddr, inherits);
	}
	head->list.next = &head->list;
}
