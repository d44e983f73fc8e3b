/* Making, adopting and reaping of harvested threads. Owns the knowledge of what ties a
 * thread of glibc's to its kernel thread: the tid, the word that is cleared when it ends,
 * the robust list, rseq. Depends on no layout: all of it is asked of the kernel. */
#include "harvest.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include "cpu.h"
#include "os.h"
#include "real.h"
#include "syscall.h"
#include "tls.h"

enum {
	PARKED_FRAME = 2048, /* more than the parked frame and what it saved */
	SIGSET_BYTES = 8,
	RSEQ_LEN = 32, /* what kernels before 6.3 want, and glibc registers */
};

ptrdiff_t tid_offset;

/* glibc's rseq area; size 0: it has none. */
static ptrdiff_t rseq_offset;
static unsigned rseq_size;

/* rseq would have the kernel write into the thread's area from a kernel thread that now
 * runs another; with it gone sched_getcpu asks the kernel. */
static void drop_rseq(void)
{
	struct rseq *area;
	unsigned len = rseq_size > RSEQ_LEN ? rseq_size : RSEQ_LEN;

	if (rseq_size == 0)
		return;
	area = (struct rseq *)(arch_getfs() + (uintptr_t)rseq_offset);
	if (arch_syscall4(SYS_rseq, (long)area, len, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) < 0)
		arch_syscall4(SYS_rseq, (long)area, rseq_size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
	*(volatile uint32_t *)&area->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
	*(volatile uint32_t *)&area->cpu_id_start = 0;
}

static void detach(struct harvest *h)
{
	static struct robust_list_head none = { .list = { &none.list } };
	size_t len;

	h->fsbase = arch_getfs();
	h->tidaddr = (pid_t *)(h->fsbase + (uintptr_t)tid_offset);
	if (arch_syscall3(SYS_prctl, PR_GET_TID_ADDRESS, (long)&h->ended, 0) < 0 || !h->ended)
		h->ended = h->tidaddr;
	arch_syscall3(SYS_get_robust_list, 0, (long)&h->robust, (long)&len);
	arch_syscall3(SYS_set_robust_list, (long)&none, sizeof(none), 0);
	drop_rseq();
}

/* Two threads: the one that harvest_make waits for, and after harvest_reap the one that
 * ends in glibc's own way. */
static void *parked_thread(void *arg)
{
	struct harvest *h = arg;

	detach(h);
	h->base = ((uintptr_t)__builtin_frame_address(0) - PARKED_FRAME) & ~(uintptr_t)63;
	arch_syscall3(SYS_set_tid_address, (long)&h->ktid, 0, 0);
	arch_switch_exit(&h->parked);
	/* harvest_reap sent a kernel thread. It owns no robust mutex. */
	if (h->ended != h->tidaddr)
		arch_syscall3(SYS_set_tid_address, (long)h->ended, 0, 0);
	return NULL;
}

static void wait_gone(ATOMIC(uint32_t) *ktid)
{
	uint32_t tid;

	/* Acquire: pairs with the kernel's store at the end of the thread. The wake is a
	 * shared one. */
	while ((tid = ld_acq(ktid)) != 0)
		arch_syscall6(SYS_futex, (long)ktid, FUTEX_WAIT, tid, 0, 0, 0);
}

int harvest_make(struct harvest *h, pid_t tid)
{
	static const uint64_t all = ~((uint64_t)1 << (SIG_CREDENTIALS - 1));
	pthread_attr_t attr;
	uint64_t mask;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return r;
	r = pthread_attr_setstack(&attr, (void *)h->lo, h->size);
	if (r == 0) {
		st_rlx(&h->ktid, 1);
		/* No handler may run there: its thread is nobody's yet. */
		arch_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask,
			      SIGSET_BYTES);
		r = real_table.pthread_create(&h->thread, &attr, parked_thread, h);
		arch_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, SIGSET_BYTES);
	}
	pthread_attr_destroy(&attr);
	if (r != 0)
		return r;
	wait_gone(&h->ktid);
	*h->tidaddr = tid;
	return 0;
}

void harvest_adopt(struct harvest *h)
{
	detach(h);
	h->thread = pthread_self();
}

void harvest_reap(struct harvest *h)
{
	/* glibc waits for its own field, as if the thread had never been ours. */
	if (arch_clone_into(&h->parked, h->fsbase, h->tidaddr) > 0)
		real_table.pthread_join(h->thread, NULL);
}

static bool find_tid(void)
{
	uintptr_t fs = arch_getfs();
	int32_t *at = NULL, tid = os_gettid();

	if (arch_syscall3(SYS_prctl, PR_GET_TID_ADDRESS, (long)&at, 0) < 0 || !at || *at != tid) {
		/* A kernel without the call: the field is near the thread block's start. */
		enum { FIELDS = 1024 };
		at = NULL;
		for (int32_t *p = (int32_t *)fs; p < (int32_t *)fs + FIELDS && !at; p++)
			if (*p == tid)
				at = p;
	}
	tid_offset = at ? (char *)at - (char *)fs : 0;
	return tid_offset != 0;
}

bool harvest_init(void)
{
	return find_tid();
}

void harvest_start(void)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");

	if (offset && size) {
		rseq_offset = *offset;
		rseq_size = *size;
	}
}
