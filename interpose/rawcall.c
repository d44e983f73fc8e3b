/* syscall(): the road of Rust, C++'s atomic waits, Abseil and others to the futex. Private
 * operations are served by our queues, shared ones by the kernel. Other numbers go to the
 * kernel but for a few whose answer is a thread's. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "futex.h"
#include "mutex.h"
#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "wire.h"

/* Younger than some headers. */
enum { IORING_SETUP_SINGLE_ISSUER_ = 1 << 12, IORING_REGISTER_RING_FDS_ = 20 };

static long answer(long r)
{
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* Relative for FUTEX_WAIT, absolute for the others. */
static int futex_deadline(struct deadline *d, int op, const struct timespec *t)
{
	clockid_t clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	int r;

	if (t->tv_sec < 0)
		return -EINVAL;
	r = deadline_of(d, clock, t);
	if (r == 0 && (op & FUTEX_CMD_MASK) == FUTEX_WAIT) {
		uint64_t now = os_clock(clock);
		d->at = d->at > INT64_MAX - now ? INT64_MAX : now + d->at;
	}
	return -r;
}

static uint32_t wake_op(ATOMIC(uint32_t) *word, uint32_t code, bool *wake)
{
	uint32_t arg = code >> 12 & 0xfff, cmparg = code & 0xfff, old, new;

	if (code >> 28 & FUTEX_OP_OPARG_SHIFT)
		arg = 1u << (arg & 31);
	do {
		old = ld_rlx(word);
		switch (code >> 28 & 7) {
		case FUTEX_OP_SET:
			new = arg;
			break;
		case FUTEX_OP_ADD:
			new = old + arg;
			break;
		case FUTEX_OP_OR:
			new = old | arg;
			break;
		case FUTEX_OP_ANDN:
			new = old & ~arg;
			break;
		case FUTEX_OP_XOR:
			new = old ^ arg;
			break;
		default:
			return ENOSYS;
		}
	} while (!cas_sc(word, old, new));
	switch (code >> 24 & 15) {
	case FUTEX_OP_CMP_EQ:
		*wake = old == cmparg;
		break;
	case FUTEX_OP_CMP_NE:
		*wake = old != cmparg;
		break;
	case FUTEX_OP_CMP_LT:
		*wake = (int32_t)old < (int32_t)cmparg;
		break;
	case FUTEX_OP_CMP_LE:
		*wake = (int32_t)old <= (int32_t)cmparg;
		break;
	case FUTEX_OP_CMP_GT:
		*wake = (int32_t)old > (int32_t)cmparg;
		break;
	case FUTEX_OP_CMP_GE:
		*wake = (int32_t)old >= (int32_t)cmparg;
		break;
	default:
		return ENOSYS;
	}
	return 0;
}

static int count_of(long n)
{
	return n < 0 || n >= INT_MAX ? FUTEX_ANY : (int)n;
}

/* *served: an operation of ours. */
static long private_futex(long *a, bool *ours)
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)a[0], *other = (ATOMIC(uint32_t) *)a[4];
	int op = (int)a[1];
	uint32_t value = (uint32_t)a[2];
	const struct timespec *t = (const struct timespec *)a[3];
	uint32_t bits = (uint32_t)FUTEX_ANY;
	struct deadline d;
	bool wake;
	long r, more;

	*ours = true;
	if ((uintptr_t)word % sizeof(*word))
		return -EINVAL;
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAKE_BITSET:
		bits = (uint32_t)a[5];
		if (bits == 0)
			return -EINVAL;
	}
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (t && (r = futex_deadline(&d, op, t)) < 0)
			return r;
		return futex_wait(word, value, bits, t ? &d : NULL, 0);
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		return futex_wake(word, count_of((int)value), bits, 0);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(word, count_of((int)value), other, count_of(a[3]),
				     (op & FUTEX_CMD_MASK) == FUTEX_CMP_REQUEUE, (uint32_t)a[5]);
	case FUTEX_WAKE_OP:
		r = wake_op(other, (uint32_t)a[5], &wake);
		if (r != 0)
			return -r;
		r = futex_wake(word, count_of((int)value), bits, 0);
		more = wake ? futex_wake(other, count_of(a[3]), bits, 0) : 0;
		return r + more;
	default:
		*ours = false;
		return 0;
	}
}

/* A ring may be its maker's alone, and then knows it by its kernel thread. */
static long ring_setup(struct thread *t, const long *a)
{
	bool wired = t->wired;
	long r;

	thread_wire(t);
	r = arch_syscall3(SYS_io_uring_setup, a[0], a[1], 0);
	if (!wired && (r < 0 || !(((const struct io_uring_params *)a[1])->flags &
				  IORING_SETUP_SINGLE_ISSUER_)))
		thread_unwire(t);
	return r;
}

/* Calls whose answer is the thread's, and would be another's from its kernel thread. False:
 * it is none of them. */
static bool thread_call(struct thread *t, long nr, long *a, long *r)
{
	*r = 0;
	switch (nr) {
	case SYS_gettid:
		*r = t->tid;
		return true;
	case SYS_sched_yield:
		gosched();
		return true;
	case SYS_get_robust_list:
		if (a[0] != 0 && a[0] != t->tid)
			return false;
		*(struct robust_list_head **)a[1] = t->harvest.robust;
		*(size_t *)a[2] = ROBUST_HEAD_BYTES;
		return true;
	case SYS_set_robust_list:
		if (a[1] != ROBUST_HEAD_BYTES)
			return false;
		robust_set(t, (struct robust_list_head *)a[0]);
		return !t->wired;
	case SYS_set_tid_address:
		*r = t->tid;
		return true;
	case SYS_rseq:
		/* The area would follow the kernel thread. */
		*r = -ENOSYS;
		return true;
	case SYS_tkill:
	case SYS_tgkill:
		if (a[nr == SYS_tgkill] != t->tid)
			return false;
		a[nr == SYS_tgkill] = os_gettid();
		return false;
	case SYS_io_uring_setup:
		*r = ring_setup(t, a);
		return true;
	case SYS_io_uring_register:
		/* Numbers of rings that are a kernel thread's own. */
		if (a[1] == IORING_REGISTER_RING_FDS_)
			thread_wire(t);
		return false;
	case SYS_exit:
		thread_vanish(t);
	default:
		return false;
	}
}

EXPORT long syscall(long nr, ...)
{
	long a[6], r;
	bool ours = false;
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (served() && thread_self()) {
		switch (nr) {
		case SYS_futex:
			if (!(a[1] & FUTEX_PRIVATE_FLAG))
				break;
			r = private_futex(a, &ours);
			if (ours)
				return answer(r);
			break;
		default:
			if (thread_call(thread_self(), nr, a, &r))
				return answer(r);
		}
	} else if (nr == SYS_futex && served() && (a[1] & FUTEX_PRIVATE_FLAG)) {
		r = private_futex(a, &ours);
		if (ours)
			return answer(r);
	}
	return answer(arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
}
