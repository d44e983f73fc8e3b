/* Making, adopting and reaping of harvested threads. Owns the knowledge of what ties a
 * thread of glibc's to its kernel thread: the tid, the word that is cleared when it ends,
 * the robust list, rseq. Depends on no layout: all of it is asked of the kernel. */
#include "harvest.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include "clones.h"
#include "cpu.h"
#include "early.h"
#include "lookup.h"
#include "mode.h"
#include "os.h"
#include "real.h"
#include "syscall.h"
#include "tls.h"

enum {
	SIGSET_BYTES = 8,
	RSEQ_LEN = 32, /* what kernels before 6.3 want, and glibc registers */
};

EARLY ptrdiff_t tid_offset;

/* From the FS base to what glibc's pthread_self() says. */
static ptrdiff_t handle_offset;

/* glibc's rseq area; size 0: it has none. */
static ptrdiff_t rseq_offset;
static unsigned rseq_size;

/* Of each thread that glibc makes: how far from the FS base the word is that the kernel clears, and
 * the list of robust mutexes. The first tells: when later ones are made the program may have
 * forbidden the calls that do. */
static struct {
	ATOMIC(uint32_t) known;
	ptrdiff_t ended, robust;
	bool has_robust;
	uint32_t alive; /* what is in that word while the thread lives, if it is not the tid */
} made;

/* Has the calling thread an rseq area after all? A new one's would be registered, too. */
static bool rseq_there(void)
{
	const struct rseq *area = (const struct rseq *)(arch_getfs() + (uintptr_t)rseq_offset);

	return rseq_size != 0 && (int32_t) * (const volatile uint32_t *)&area->cpu_id >= 0;
}

static void rseq_gone(uintptr_t fsbase)
{
	struct rseq *area = (struct rseq *)(fsbase + (uintptr_t)rseq_offset);

	if (rseq_size == 0)
		return;
	*(volatile uint32_t *)&area->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
	*(volatile uint32_t *)&area->cpu_id_start = 0;
}

/* rseq would have the kernel write into the thread's area from a kernel thread that now
 * runs another; with it gone sched_getcpu asks the kernel. */
static void drop_rseq(uintptr_t fsbase)
{
	uintptr_t area = fsbase + (uintptr_t)rseq_offset;
	unsigned len = rseq_size > RSEQ_LEN ? rseq_size : RSEQ_LEN;

	if (rseq_size == 0)
		return;
	if (arch_syscall4(SYS_rseq, (long)area, len, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) < 0)
		arch_syscall4(SYS_rseq, (long)area, rseq_size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
	rseq_gone(fsbase);
}

/* Asks the kernel about the calling thread. */
static void ask(struct harvest *h)
{
	size_t len;

	h->tidaddr = (pid_t *)(h->fsbase + (uintptr_t)tid_offset);
	if (arch_syscall3(SYS_prctl, PR_GET_TID_ADDRESS, (long)&h->ended, 0) < 0 || !h->ended)
		h->ended = h->tidaddr;
	arch_syscall3(SYS_get_robust_list, 0, (long)&h->robust, (long)&len);
}

/* Of a new thread. One that has begun on its maker's kernel thread was told where its end is
 * expected. */
static void learn(const struct harvest *begun)
{
	struct harvest h = { .fsbase = arch_getfs() };

	ask(&h);
	if (begun->maker)
		h.ended = begun->ended;
	made.ended = (char *)h.ended - (char *)h.fsbase;
	made.alive = (uint32_t)*h.ended;
	made.has_robust = h.robust != NULL;
	if (h.robust)
		made.robust = (char *)h.robust - (char *)h.fsbase;
	/* Release: pairs with the acquire in find_parts. */
	st_rel(&made.known, 1);
	arch_syscall4(SYS_futex, (long)&made.known, FUTEX_WAKE_PRIVATE, 1, 0);
}

/* Two threads: the one that harvest_make waits for, and after harvest_reap the one that
 * ends in glibc's own way. The first makes no call but that by which it ends: the kernel keeps
 * nothing of it then, and its list of robust mutexes is empty. Or it is no thread, and has begun on
 * the maker's kernel thread (take). */
static void *parked_thread(void *arg)
{
	struct harvest *h = arg;

	if (!ld_acq(&made.known))
		learn(h);
	if (h->maker)
		arch_switch(&h->parked, h->maker);
	else
		arch_switch_exit(&h->parked);
	/* harvest_reap sent a kernel thread. It owns no robust mutex. */
	if (h->ended != h->tidaddr)
		arch_syscall3(SYS_set_tid_address, (long)h->ended, 0, 0);
	return NULL;
}

/* Of h->thread, which may run still, or have ended. */
static void find_parts(struct harvest *h)
{
	/* Acquire: pairs with the release in learn. */
	while (!ld_acq(&made.known))
		arch_syscall6(SYS_futex, (long)&made.known, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	h->fsbase = (uintptr_t)h->thread - (uintptr_t)handle_offset;
	h->tidaddr = (pid_t *)(h->fsbase + (uintptr_t)tid_offset);
	h->ended = (int32_t *)(h->fsbase + (uintptr_t)made.ended);
	h->robust = made.has_robust
			    ? (struct robust_list_head *)(h->fsbase + (uintptr_t)made.robust)
			    : NULL;
}

/* The word is glibc's, and is as it was once the kernel has told by it. */
static void wait_gone(struct harvest *h)
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)h->ended;
	uint32_t was = made.alive, is;

	/* Acquire: pairs with the kernel's store at the end of the thread. The wake is a
	 * shared one. */
	while ((is = ld_acq(word)) != 0)
		arch_syscall6(SYS_futex, (long)word, FUTEX_WAIT, is, 0, 0, 0);
	st_rlx(word, was);
}

/* While it is nobody's no handler may run there; but who sets credentials waits for all. */
static const uint64_t nobodys = ~((uint64_t)1 << (SIG_CREDENTIALS - 1));

/* One that is being made. */
struct making {
	struct clone_taker taker;
	struct gobuf maker;
	struct harvest *h;
	pid_t tid;
};

static bool catches;

/* glibc is about to have the kernel begin the thread. Its beginning, up to the parked frame, is
 * glibc's own business with the thread's memory, but for the signal mask and the list of robust
 * mutexes, which it sets of this kernel thread. Signal 32 may come amid, and finds no G. */
static long take(struct clone_taker *taker, const struct clone_args *args, void (*start)(void *),
		 void *arg)
{
	struct making *m = (struct making *)taker;
	uintptr_t fs = arch_getfs();
	struct gobuf child;
	uint64_t mask;

	arch_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&nobodys, (long)&mask, SIGSET_BYTES);
	*(pid_t *)args->parent_tid = m->tid;
	m->h->ended = (int32_t *)(uintptr_t)(args->flags & CLONE_CHILD_CLEARTID ? args->child_tid
										: args->parent_tid);
	m->h->maker = &m->maker;
	arch_context_init(&child, (uintptr_t)(args->stack + args->stack_size) & ~(uintptr_t)15,
			  start, arg);
	arch_setfs((uintptr_t)args->tls);
	arch_switch(&m->maker, &child);
	arch_setfs(fs);
	arch_syscall3(SYS_set_robust_list, (long)m->h->keeps(), sizeof(struct robust_list_head), 0);
	arch_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, SIGSET_BYTES);
	return m->tid;
}

int harvest_make(struct harvest *h, pid_t tid)
{
	struct making m = { .taker = { take }, .h = h, .tid = tid };
	pthread_attr_t attr;
	sigset_t mask;
	int r = pthread_attr_init(&attr);

	h->maker = NULL;
	if (r != 0)
		return r;
	sigfillset(&mask);
	r = pthread_attr_setstack(&attr, (void *)h->lo, h->size);
	if (r == 0)
		r = pthread_attr_setsigmask_np(&attr, &mask);
	if (r == 0) {
		if (catches && h->keeps && !rseq_there()) {
			clone_taker = &m.taker;
			clone_stack = h->lo;
		}
		r = real_table.pthread_create(&h->thread, &attr, parked_thread, h);
		clone_stack = 0;
	}
	pthread_attr_destroy(&attr);
	if (r != 0)
		return r;
	find_parts(h);
	if (!h->maker)
		wait_gone(h);
	/* Below all that it left there. */
	h->base = h->parked.sp & ~(uintptr_t)63;
	rseq_gone(h->fsbase);
	/* Last, for it may be the same word. */
	*h->tidaddr = tid;
	return 0;
}

void harvest_adopt(struct harvest *h)
{
	static struct robust_list_head none = { .list = { &none.list } };

	h->fsbase = arch_getfs();
	h->thread = (pthread_t)(h->fsbase + (uintptr_t)handle_offset);
	ask(h);
	arch_syscall3(SYS_set_robust_list, (long)&none, sizeof(none), 0);
	drop_rseq(h->fsbase);
}

bool harvest_reap(struct harvest *h)
{
	if (arch_clone_into(&h->parked, h->fsbase, h->tidaddr) <= 0)
		return false;
	/* glibc waits for its own field, as if the thread had never been ours. */
	real_table.pthread_join(h->thread, NULL);
	return true;
}

/* fs: the FS base. */
static bool find_tid(char *fs)
{
	int32_t *at = NULL, tid = (int32_t)arch_syscall3(SYS_gettid, 0, 0, 0);

	if (arch_syscall3(SYS_prctl, PR_GET_TID_ADDRESS, (long)&at, 0) < 0 || !at || *at != tid) {
		/* A kernel without the call: the field is near the thread block's start. */
		enum { FIELDS = 1024 };
		at = NULL;
		for (char *p = fs; p < fs + FIELDS * sizeof(tid) && !at; p += sizeof(tid))
			if (*(int32_t *)p == tid)
				at = (int32_t *)p;
	}
	tid_offset = at ? (char *)at - fs : 0;
	return tid_offset != 0;
}

bool harvest_init(void)
{
	/* The FS base as the thread itself finds it, without a call of the kernel. */
	return find_tid(__builtin_thread_pointer());
}

/* A library of the program's may have one of its own, with a life of its own: GNU Pth's begins by
 * its first call. */
static pthread_t glibcs_self(void)
{
	pthread_t (*self)(void) = pthread_self;
	void *at = lookup_libc("pthread_self");

	if (at)
		memcpy(&self, &at, sizeof(self));
	return self();
}

void harvest_ask(void)
{
	static bool asked; /* once: in the child of a fork the loader may be locked */
	const ptrdiff_t *offset;
	const unsigned *size;

	if (asked)
		return;
	handle_offset = (ptrdiff_t)((uintptr_t)glibcs_self() -
				    (uintptr_t)__builtin_thread_pointer());
	offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	size = dlsym(RTLD_DEFAULT, "__rseq_size");
	if (offset && size) {
		rseq_offset = *offset;
		rseq_size = *size;
	}
	asked = true;
}

void harvest_start(bool patches)
{
	const void *create;

	memcpy(&create, &real_table.pthread_create, sizeof(create));
	catches = clones_catch(create, patches);
}
