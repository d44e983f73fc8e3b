/* Signals that are pending, for a thread or held for the process, and what came with each: a slot.
 * Owns the slots. Added and claimed in handlers, too, so nothing here waits for anybody.
 *
 * Of the numbers below FIRST_QUEUED the bit is the signal, of the others the count. A slot is
 * published before the bit or count that says that there is one, and each who claims one of these
 * takes one slot away: so he finds one; if not, there was no room. */
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "early.h"
#include "os.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"

/* As many as the kernel lets a process have, on most machines; the lowest are used first. */
enum { SLOTS = 1 << 17 };

/* Whose a slot is, with the number: the address is one of the program's, so of 48 bits. */
enum { FREE = 0, BUSY = 1 /* it is being written or read */ };

static ATOMIC(uint64_t) owners[SLOTS];
struct slot {
	ATOMIC(uint64_t) order;
	ATOMIC(uint64_t)
	missed; /* of a timer's: order and how many more; TAKEN: it says so no more */
	siginfo_t info;
};
static ATOMIC(struct slot *) slots; /* SLOTS of them, once there was one */
#define TAKEN UINT64_MAX
static ATOMIC(uint64_t) orders, published;
FORKED static ATOMIC(uint32_t) used, high; /* high: beyond it none was ever used */
FORKED static ATOMIC(uint32_t) low; /* below it none is free, or nearly so: where to look first */

/* One that somebody has, or had. */
static inline struct slot *slot(int64_t i)
{
	return &ld_acq(&slots)[i];
}

static bool have_slots(void)
{
	enum { BYTES = SLOTS * sizeof(struct slot) };
	struct slot *made;

	if (likely(ld_acq(&slots) != NULL))
		return true;
	made = os_reserve(BYTES);
	if (os_failed(made))
		return false;
	if (!cas_acqrel(&slots, NULL, made))
		os_release(made, BYTES);
	return true;
}

static uint64_t owner_of(const struct pending *p, int sig)
{
	return (uint64_t)(uintptr_t)p << 8 | (uint64_t)sig;
}

static void rise(uint32_t n)
{
	uint32_t was;

	do {
		was = ld_sc(&high);
	} while (was < n && !cas_acqrel(&high, was, n));
}

static void release(int32_t i)
{
	/* Release: pairs with the acquire in put: what was read is read before it is written anew.
	 */
	st_rel(&owners[i], FREE);
	add_sc(&used, (uint32_t)-1);
	for (uint32_t was = ld_rlx(&low); was > (uint32_t)i; was = ld_rlx(&low))
		if (cas_acqrel(&low, was, (uint32_t)i))
			break;
}

/* A free one from there on, now BUSY; SLOTS: there is none. */
static uint32_t occupy(uint32_t from)
{
	while (from < SLOTS &&
	       (ld_rlx(&owners[from]) != FREE || !cas_acq(&owners[from], FREE, BUSY)))
		from++;
	return from;
}

/* Its place in the order; 0: no room. */
static uint64_t put(uint64_t owner, const siginfo_t *info)
{
	uint32_t from = ld_rlx(&low), i;
	uint64_t order;

	if (!have_slots())
		return 0;
	i = occupy(from);
	if (i == SLOTS && from > 0)
		i = occupy(0);
	if (i == SLOTS)
		return 0;
	cas_acqrel(&low, from, i + 1);
	add_sc(&used, 1);
	rise(i + 1);
	order = add_sc(&orders, 1) + 1;
	st_rlx(&slot(i)->order, order);
	st_rlx(&slot(i)->missed, order << 32);
	slot(i)->info = *info;
	/* Before, for who sees it and counts it; and after, for who has not seen it. */
	add_sc(&published, 1);
	/* Release: pairs with the acquires of oldest, take and undo. */
	st_rel(&owners[i], owner);
	add_sc(&published, 1);
	return order;
}

/* The oldest of that owner's from that order on, or -1, among the first n that are whose. */
static int32_t oldest(uint64_t owner, uint64_t from, uint32_t n)
{
	uint64_t least = UINT64_MAX;
	int32_t found = -1;

	for (uint32_t i = 0, end = ld_sc(&high); i < end && n > 0; i++) {
		uint64_t order, whose = ld_acq(&owners[i]);
		n -= whose != FREE && whose != BUSY;
		if (whose != owner)
			continue;
		order = ld_rlx(&slot(i)->order);
		if (order >= from && order < least) {
			least = order;
			found = (int32_t)i;
		}
	}
	return found;
}

/* While one looks at as many as there were, others may be put before them; and the one that is left
 * for him may be put where he has been, and another taken where he comes to. */
static int32_t find(uint64_t owner, uint64_t from)
{
	uint64_t before = ld_sc(&published);
	uint32_t n = ld_sc(&used);
	int32_t i;

	if (n == 0)
		return -1;
	i = oldest(owner, from, n);
	while (ld_sc(&published) != before) {
		before = ld_sc(&published);
		i = oldest(owner, from, SLOTS);
		if (i >= 0)
			break;
	}
	return i;
}

/* As the kernel counts. */
static uint64_t at_most(uint64_t overruns)
{
	return overruns < INT_MAX ? overruns : INT_MAX;
}

static bool take(uint64_t owner, siginfo_t *info)
{
	int32_t i;

	do {
		i = find(owner, 0);
		if (i < 0)
			return false;
	} while (!cas_acq(&owners[i], owner, BUSY));
	*info = slot(i)->info;
	if (info->si_code == SI_TIMER)
		info->si_overrun = (int)at_most(
			(uint32_t)info->si_overrun +
			(uint64_t)(uint32_t)xchg_sc(&slot(i)->missed, TAKEN));
	release(i);
	return true;
}

/* A timer has one signal pending at most, and the others are counted with it. False: it has none.
 *   we: see the timer's number there     it: takes that one, puts another in its place
 *       count by a CAS, which fails, for the order there is another */
static bool count_missed(uint64_t owner, const siginfo_t *info)
{
	for (uint32_t i = 0, n = ld_sc(&high); i < n; i++) {
		uint64_t missed = ld_acq(&slot(i)->missed);
		while (missed != TAKEN && ld_acq(&owners[i]) == owner &&
		       (uint32_t)ld_rlx(&slot(i)->order) == missed >> 32 &&
		       slot(i)->info.si_code == SI_TIMER &&
		       slot(i)->info.si_timerid == info->si_timerid) {
			uint64_t sum = at_most((uint32_t)missed +
					       (uint64_t)(uint32_t)info->si_overrun + 1);
			if (cas_sc(&slot(i)->missed, missed, missed >> 32 << 32 | sum))
				return true;
			missed = ld_acq(&slot(i)->missed);
		}
	}
	return false;
}

/* One was put too many: that one, or, if who claimed the other has taken it, the other. */
static void undo(uint64_t owner, uint64_t order)
{
	int32_t i;

	do {
		i = find(owner, order);
		if (i < 0 || ld_rlx(&slot(i)->order) != order)
			i = find(owner, 0);
		if (i < 0)
			return;
	} while (!cas_acq(&owners[i], owner, BUSY));
	release(i);
}

bool pending_room(void)
{
	struct rlimit most = { .rlim_cur = RLIM_INFINITY };
	uint32_t n = ld_sc(&used);

	arch_syscall3(SYS_getrlimit, RLIMIT_SIGPENDING, (long)&most, 0);
	return n < SLOTS && n < most.rlim_cur;
}

void pending_add(struct pending *p, int sig, const siginfo_t *info)
{
	uint64_t bit = signal_bit(sig), order;

	if (info->si_code == SI_TIMER && count_missed(owner_of(p, sig), info))
		return;
	order = put(owner_of(p, sig), info);
	if (sig >= FIRST_QUEUED)
		add_sc(&p->queued[sig - FIRST_QUEUED], 1);
	if ((or_sc(&p->set, bit) & bit) && sig < FIRST_QUEUED && order != 0 &&
	    info->si_code != SI_TIMER)
		undo(owner_of(p, sig), order);
}

static bool claim_queued(struct pending *p, int sig)
{
	ATOMIC(uint32_t) *queued = &p->queued[sig - FIRST_QUEUED];
	uint64_t bit = signal_bit(sig);
	uint32_t n;

	do {
		n = ld_sc(queued);
	} while (n != 0 && !cas_acqrel(queued, n, n - 1));
	if (n > 1)
		return true;
	and_sc(&p->set, ~bit);
	if (ld_sc(queued) != 0)
		or_sc(&p->set, bit);
	return n == 1;
}

bool pending_claim(struct pending *p, int sig, siginfo_t *info)
{
	uint64_t bit = signal_bit(sig);

	if (!(ld_sc(&p->set) & bit) ||
	    (sig >= FIRST_QUEUED ? !claim_queued(p, sig) : !(and_sc(&p->set, ~bit) & bit)))
		return false;
	if (!take(owner_of(p, sig), info))
		siginfo_make(info, sig, SI_USER);
	/* A timer's comes beside another. */
	if (sig < FIRST_QUEUED && find(owner_of(p, sig), 0) >= 0)
		or_sc(&p->set, bit);
	return true;
}

uint32_t pending_count(const struct pending *p, int sig)
{
	if (sig >= FIRST_QUEUED)
		return ld_sc(&p->queued[sig - FIRST_QUEUED]);
	return (ld_sc(&p->set) & signal_bit(sig)) != 0;
}

uint64_t pending_look(const struct pending *p, int sig, uint64_t from, siginfo_t *info)
{
	uint64_t owner = owner_of(p, sig), order;
	int32_t i;

	do {
		i = find(owner, from);
		if (i < 0)
			return 0;
		order = ld_acq(&slot(i)->order);
		*info = slot(i)->info;
		/* Nobody is kept from taking it meanwhile. */
	} while (!cas_sc(&owners[i], owner, owner) || ld_rlx(&slot(i)->order) != order);
	return order;
}

void pending_drop(struct pending *p)
{
	siginfo_t info;

	for (int sig = 1; sig < SIGNALS && ld_sc(&p->set) != 0; sig++)
		while (pending_claim(p, sig, &info))
			continue;
}

FORKS void pending_forked(struct pending *p)
{
	memset((void *)p, 0, sizeof(*p));
}

FORKS void siginfo_forked(void)
{
	for (uint32_t i = 0, n = ld_rlx(&high); i < n; i++)
		st_rlx(&owners[i], FREE);
	st_rlx(&used, 0);
	st_rlx(&low, 0);
}

void siginfo_make(siginfo_t *info, int sig, int code)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	info->si_pid = getpid();
	info->si_uid = getuid();
}
