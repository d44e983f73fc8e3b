/* The futex by syscall(): the road of Rust, C++'s atomic waits, Abseil and others. Private
 * operations are served by our queues, shared ones by the kernel. */
#include "rawfutex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "futex.h"
#include "mutex.h"
#include "os.h"
#include "syscall.h"
#include "thread.h"

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

/* Somebody has waited on many at once, which is left to the kernel. */
static ATOMIC(bool) many;

void futex_waits_on_many(void)
{
	/* Before the kernel looks at the words; who wakes does the reverse. */
	if (!ld_rlx(&many))
		st_sc(&many, true);
}

/* Ours, and if there are fewer the kernel's. Before its second look stands the read-modify-write of
 * futex_wake's, so one of the two sees the other. */
static long wake(ATOMIC(uint32_t) *word, int n, uint32_t bits)
{
	long r = futex_wake(word, n, bits, 0), more;

	if (likely(!ld_sc(&many)) || r == n)
		return r;
	more = arch_syscall6(SYS_futex, (long)word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG,
			     n == FUTEX_ANY ? INT_MAX : n - r, 0, 0, (long)bits);
	return more > 0 ? r + more : r;
}

static int count_of(long n)
{
	return n < 0 || n >= INT_MAX ? FUTEX_ANY : (int)n;
}

long private_futex(long *a, bool *ours)
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)a[0], *other = (ATOMIC(uint32_t) *)a[4];
	int op = (int)a[1];
	uint32_t value = (uint32_t)a[2];
	const struct timespec *t = (const struct timespec *)a[3];
	uint32_t bits = (uint32_t)FUTEX_ANY;
	struct deadline d;
	bool both;
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
		return wake(word, count_of((int)value), bits);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(word, count_of((int)value), other, count_of(a[3]),
				     (op & FUTEX_CMD_MASK) == FUTEX_CMP_REQUEUE, (uint32_t)a[5]);
	case FUTEX_WAKE_OP:
		r = wake_op(other, (uint32_t)a[5], &both);
		if (r != 0)
			return -r;
		r = wake(word, count_of((int)value), bits);
		more = both ? wake(other, count_of(a[3]), bits) : 0;
		return r + more;
	default:
		*ours = false;
		return 0;
	}
}
