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
#include "user.h"

/* The kernel takes no address above as the program's. */
#define USER_END ((uintptr_t)0x7ffffffff000)

enum { FUTEX_LOCK_PI2_ = 13 }; /* of Linux 5.14 */

/* Relative for FUTEX_WAIT, absolute for the others. */
static int futex_deadline(struct deadline *d, int op, const struct timespec *t)
{
	clockid_t clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	int r;

	if (user_readable(t, sizeof(*t)) != 0)
		return -EFAULT;
	if (t->tv_sec < 0)
		return -EINVAL;
	r = deadline_of(d, clock, t);
	if (r == 0 && (op & FUTEX_CMD_MASK) == FUTEX_WAIT) {
		uint64_t now = os_clock(clock);
		d->at = d->at > INT64_MAX - now ? INT64_MAX : now + d->at;
	}
	return -r;
}

/* Of twelve bits, the highest is the sign. */
static uint32_t extended(uint32_t bits)
{
	return ((bits & 0xfff) ^ 0x800) - 0x800;
}

static uint32_t wake_op(ATOMIC(uint32_t) *word, uint32_t code, bool *wake)
{
	uint32_t arg = extended(code >> 12), cmparg = extended(code), old, new;

	if ((code >> 28 & 7) > FUTEX_OP_XOR)
		return ENOSYS;
	if (user_writable((void *)word, sizeof(*word)) != 0)
		return EFAULT;
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
		default: /* FUTEX_OP_XOR */
			new = old ^ arg;
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

static int count_of(int n)
{
	return n == INT_MAX ? FUTEX_ANY : n;
}

/* The kernel counts after it has woken: one at least. */
static int wakes_of(int n)
{
	return n < 1 ? 1 : count_of(n);
}

static long bad_word(uintptr_t word)
{
	if (word % sizeof(uint32_t))
		return -EINVAL;
	return word > USER_END - sizeof(uint32_t) ? -EFAULT : 0;
}

static bool requeues(int cmd)
{
	return cmd == FUTEX_REQUEUE || cmd == FUTEX_CMP_REQUEUE;
}

static bool inherits(int cmd)
{
	return cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2_ || cmd == FUTEX_TRYLOCK_PI ||
	       cmd == FUTEX_UNLOCK_PI || cmd == FUTEX_WAIT_REQUEUE_PI ||
	       cmd == FUTEX_CMP_REQUEUE_PI;
}

/* Of those that are ours: has it no point in time by a clock of choice? */
static bool clockless(int cmd)
{
	return cmd == FUTEX_WAIT || cmd == FUTEX_WAKE || cmd == FUTEX_WAKE_BITSET ||
	       cmd == FUTEX_WAKE_OP || requeues(cmd) ||
	       (inherits(cmd) && cmd != FUTEX_LOCK_PI2_ && cmd != FUTEX_WAIT_REQUEUE_PI);
}

/* A handler ends it, if it has a deadline or that is without SA_RESTART, and nothing else does. */
static long wait_at(ATOMIC(uint32_t) *word, uint32_t value, uint32_t bits, const struct deadline *d)
{
	struct thread *t = thread_self();
	ATOMIC(uint32_t) *ends = !t ? NULL : d ? &t->handled : &t->stopped;
	uint32_t ended = ends ? ld_rlx(ends) : 0;
	long r;

	do {
		if (t)
			waits_anew(t);
		r = futex_wait(word, value, bits, d, 0);
	} while (r == -EINTR && ends && ld_rlx(ends) == ended);
	return r;
}

/* Waiting at one word to lock another: who is moved there is woken, and locks it then. */
static long pi_requeue(const long *a, const struct deadline *d)
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)a[0], *lock = (ATOMIC(uint32_t) *)a[4];
	int wakes = (int)a[2], moves = (int)a[3];
	bool waits = ((int)a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI;
	long r = bad_word((uintptr_t)lock);

	if (r < 0)
		return r;
	if (word == lock || (!waits && (wakes != 1 || moves < 0)))
		return -EINVAL;
	if (user_readable((void *)word, sizeof(*word)) != 0 ||
	    user_writable((void *)lock, sizeof(*lock)) != 0)
		return -EFAULT;
	if (!waits)
		return futex_requeue(word, moves == INT_MAX ? FUTEX_ANY : 1 + moves, lock, 0, true,
				     (uint32_t)a[5]);
	/* Handlers run amid, and do not end it. */
	do
		r = futex_wait(word, (uint32_t)a[2], (uint32_t)FUTEX_ANY, d, 0);
	while (r == -EINTR);
	return r == 0 ? pi_futex(thread_self(), lock, FUTEX_LOCK_PI, d) : r;
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
	int cmd = op & FUTEX_CMD_MASK, n = (int)a[2], n2 = (int)a[3];
	long r, more;

	*ours = true;
	/* The kernel goes by the tids of kernel threads: with one thread it may. */
	if (inherits(cmd) && !thread_self()) {
		*ours = false;
		return 0;
	}
	if ((cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET || cmd == FUTEX_WAIT_REQUEUE_PI ||
	     cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2_) &&
	    t &&
	    (r = futex_deadline(&d, cmd == FUTEX_LOCK_PI ? op | FUTEX_CLOCK_REALTIME : op, t)) < 0)
		return r;
	if ((op & FUTEX_CLOCK_REALTIME) && clockless(cmd))
		return -ENOSYS;
	if (requeues(cmd) && (n < 0 || n2 < 0))
		return -EINVAL;
	if (cmd == FUTEX_WAIT_BITSET || cmd == FUTEX_WAKE_BITSET) {
		bits = (uint32_t)a[5];
		if (bits == 0)
			return -EINVAL;
	}
	if ((r = bad_word((uintptr_t)word)) < 0)
		return r;
	if ((requeues(cmd) || cmd == FUTEX_WAKE_OP) && (r = bad_word((uintptr_t)other)) < 0)
		return r;
	switch (cmd) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (user_readable((void *)word, sizeof(*word)) != 0)
			return -EFAULT;
		return wait_at(word, value, bits, t ? &d : NULL);
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		return wake(word, wakes_of(n), bits);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		if (cmd == FUTEX_CMP_REQUEUE && user_readable((void *)word, sizeof(*word)) != 0)
			return -EFAULT;
		return futex_requeue(word, count_of(n), other, count_of(n2),
				     cmd == FUTEX_CMP_REQUEUE, (uint32_t)a[5]);
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2_:
	case FUTEX_TRYLOCK_PI:
	case FUTEX_UNLOCK_PI:
		if (user_writable((void *)word, sizeof(*word)) != 0)
			return -EFAULT;
		return pi_futex(thread_self(), word, cmd,
				cmd != FUTEX_TRYLOCK_PI && cmd != FUTEX_UNLOCK_PI && t ? &d : NULL);
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_CMP_REQUEUE_PI:
		return pi_requeue(a, t ? &d : NULL);
	case FUTEX_WAKE_OP:
		r = wake_op(other, (uint32_t)a[5], &both);
		if (r != 0)
			return -r;
		r = wake(word, wakes_of(n), bits);
		more = both ? wake(other, wakes_of(n2), bits) : 0;
		return r + more;
	default:
		*ours = false;
		return 0;
	}
}
