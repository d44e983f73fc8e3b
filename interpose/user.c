/* Memory of the program's. Owns the pages that were found to be there. Asked is the kernel, by
 * calls that change nothing. */
#include "user.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "atomic.h"
#include "signals.h"
#include "syscall.h"

enum { PAGE = 4096, PAGES = 1024 };

/* The addresses of pages, each in the place that is its number's. */
static ATOMIC(uintptr_t) readable[PAGES], writable[PAGES];

static long copied(long nr, void *mine, void *its, size_t n)
{
	struct iovec here = { mine, n }, there = { its, n };

	return arch_owncall(nr, getpid(), (long)&here, 1, (long)&there, 1, 0);
}

/* Forbidden here, as in some containers. */
static bool refused(long r)
{
	return r == -EPERM || r == -ENOSYS;
}

long user_fetch(void *to, const void *from, size_t n)
{
	long r = copied(SYS_process_vm_readv, to, (void *)(uintptr_t)from, n);

	if (refused(r)) {
		memcpy(to, from, n);
		return 0;
	}
	return r == (long)n ? 0 : -EFAULT;
}

long user_store(void *to, const void *from, size_t n)
{
	long r = copied(SYS_process_vm_writev, (void *)(uintptr_t)from, to, n);

	if (refused(r)) {
		memcpy(to, from, n);
		return 0;
	}
	return r == (long)n ? 0 : -EFAULT;
}

/* As a mask, with which nothing is to be done. */
static bool can_be_read(uintptr_t at)
{
	enum { NO_SUCH_WAY = -1 };

	return arch_owncall(SYS_rt_sigprocmask, NO_SUCH_WAY, (long)at, 0, SIGSET_BYTES, 0, 0) !=
	       -EFAULT;
}

/* As a word to which nothing is added. */
static bool can_be_written(uintptr_t at)
{
	static uint32_t nobody;

	return arch_owncall(SYS_futex, (long)&nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
			    (long)at, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) != -EFAULT;
}

static long all_pages(const void *at, size_t n, ATOMIC(uintptr_t) *believed,
		      bool (*can_be)(uintptr_t at))
{
	uintptr_t rest = (uintptr_t)at % PAGE, first = (uintptr_t)at - rest;

	for (uintptr_t page = first; page - first < rest + n; page += PAGE) {
		ATOMIC(uintptr_t) *place = &believed[page / PAGE % PAGES];
		if (page != 0 && ld_rlx(place) == page)
			continue;
		/* Any place in it but 0, which to the kernel is none. */
		if (!can_be(page + SIGSET_BYTES))
			return -EFAULT;
		st_rlx(place, page);
	}
	return 0;
}

long user_readable(const void *at, size_t n)
{
	return all_pages(at, n, readable, can_be_read);
}

long user_writable(const void *at, size_t n)
{
	return all_pages(at, n, writable, can_be_written);
}
