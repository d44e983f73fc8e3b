/* Robust mutexes of a thread that ends: its kernel thread goes on, so the kernel does not see to
 * them. One that inherits priority and has waiters is handed to one of them by the kernel as if
 * it had been unlocked; that its owner died is noted here, for whoever of this process gets it.
 * And of the first thread as it becomes another program, whatever kernel thread it is on: that has
 * the process's number by the time that the kernel looks for those which it owns. */
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>

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

static void end_one(ATOMIC(uint32_t) *word, bool inherits, uint32_t tid, uint32_t none)
{
	uint32_t value = ld_rlx(word), waiters;

	(void)none;
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

/* The owner of one that inherits priority is the kernel's business. */
static void renumber_one(ATOMIC(uint32_t) *word, bool inherits, uint32_t from, uint32_t to)
{
	uint32_t value = ld_rlx(word);

	while (!inherits && (value & FUTEX_TID_MASK) == from &&
	       !cas_sc(word, value, (value & ~(uint32_t)FUTEX_TID_MASK) | to))
		value = ld_rlx(word);
}

/* What the program itself told the kernel may be no list at all: the kernel looks before it
 * reads, and gives up after so many. */
static bool peek(const struct thread *t, uintptr_t at, uintptr_t *value)
{
	struct iovec here = { value, sizeof(*value) }, there = { (void *)at, sizeof(*value) };

	if (!t->rawrobust) {
		*value = *(const uintptr_t *)at;
		return true;
	}
	return arch_syscall6(SYS_process_vm_readv, getpid(), (long)&here, 1, (long)&there, 1, 0) ==
	       sizeof(*value);
}

void robust_set(struct thread *t, struct robust_list_head *head)
{
	if (!t->glibcs_robust)
		t->glibcs_robust = t->harvest.robust;
	t->harvest.robust = head;
	t->rawrobust = head != t->glibcs_robust;
}

typedef void held_fn(ATOMIC(uint32_t) *word, bool inherits, uint32_t owner, uint32_t next);

static void each_held(struct thread *t, held_fn *fn, uint32_t owner, uint32_t next)
{
	enum { INHERITS = 1 }; /* beside the address of an entry */
	uintptr_t head = (uintptr_t)t->harvest.robust, at, offset, before = 0;

	if (!head || !peek(t, head + offsetof(struct robust_list_head, list), &at) ||
	    !peek(t, head + offsetof(struct robust_list_head, futex_offset), &offset))
		return;
	for (int i = 0; i < ROBUST_LIST_LIMIT && (at & ~(uintptr_t)INHERITS) != head; i++) {
		uintptr_t entry = at & ~(uintptr_t)INHERITS, word;
		bool inherits = at & INHERITS;
		/* Round and round: all of these have been seen to. The entry to be met again is
		 * that of the last power of two. */
		if (entry == before)
			return;
		if ((i & (i - 1)) == 0)
			before = entry;
		if (!peek(t, entry, &at) || !peek(t, (entry + offset) & ~(uintptr_t)7, &word))
			return;
		fn((ATOMIC(uint32_t) *)(entry + offset), inherits, owner, next);
	}
}

void robust_end(struct thread *t)
{
	each_held(t, end_one, (uint32_t)*t->harvest.tidaddr, 0);
	if (t->rawrobust)
		robust_set(t, t->glibcs_robust);
	if (t->harvest.robust)
		t->harvest.robust->list.next = &t->harvest.robust->list;
}

void robust_becomes(struct thread *t, bool becomes)
{
	uint32_t tid = (uint32_t)*t->harvest.tidaddr, pid = (uint32_t)getpid();

	if (t->owns && thread_first() == t && tid != pid)
		each_held(t, renumber_one, becomes ? tid : pid, becomes ? pid : tid);
}
