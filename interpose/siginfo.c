/* What came with the signals that are pending: a slot each, of a thread's or of those held for the
 * process. Owns the slots. Written and read in handlers, so nothing here waits for anybody.
 *
 * A slot is published before the bit or count that says that there is one, so who takes one of
 * these finds a slot; if not, there was no room. */
#include <string.h>
#include <unistd.h>

#include "atomic.h"
#include "signals.h"

enum { SLOTS = 8192 };

static const char busy; /* an owner: it is being written or read */

static ATOMIC(const void *) owners[SLOTS]; /* NULL: free */
static struct {
	ATOMIC(uint64_t) order;
	ATOMIC(int32_t) sig;
	siginfo_t info;
} slots[SLOTS];
static ATOMIC(uint64_t) orders;
static ATOMIC(uint32_t) used, high; /* high: beyond it none was ever used */

static void rise(uint32_t n)
{
	uint32_t was;

	do {
		was = ld_sc(&high);
	} while (was < n && !cas_acqrel(&high, was, n));
}

static void release(uint32_t i)
{
	st_rel(&owners[i], NULL);
	add_sc(&used, (uint32_t)-1);
}

uint64_t siginfo_put(const void *owner, int sig, const siginfo_t *info)
{
	uint64_t order;
	uint32_t i = 0;

	while (i < SLOTS && (ld_rlx(&owners[i]) || !cas_acq(&owners[i], NULL, &busy)))
		i++;
	if (i == SLOTS)
		return 0;
	add_sc(&used, 1);
	rise(i + 1);
	order = add_sc(&orders, 1) + 1;
	st_rlx(&slots[i].order, order);
	st_rlx(&slots[i].sig, sig);
	slots[i].info = *info;
	st_rel(&owners[i], owner);
	return order;
}

/* The oldest of that owner's and number from that order on, or -1. */
static int32_t find(const void *owner, int sig, uint64_t from)
{
	uint64_t least = UINT64_MAX;
	int32_t found = -1;

	if (ld_sc(&used) == 0)
		return -1;
	for (uint32_t i = 0, n = ld_sc(&high); i < n; i++) {
		uint64_t order;
		if (ld_acq(&owners[i]) != owner || ld_rlx(&slots[i].sig) != sig)
			continue;
		order = ld_rlx(&slots[i].order);
		if (order >= from && order < least) {
			least = order;
			found = (int32_t)i;
		}
	}
	return found;
}

/* The slot for the caller alone, if it is that owner's and number's still. */
static bool seize(int32_t i, const void *owner, int sig)
{
	if (!cas_acq(&owners[i], owner, &busy))
		return false;
	if (ld_rlx(&slots[i].sig) == sig)
		return true;
	st_rel(&owners[i], owner);
	return false;
}

bool siginfo_take(const void *owner, int sig, siginfo_t *info)
{
	int32_t i;

	do {
		i = find(owner, sig, 0);
		if (i < 0)
			return false;
	} while (!seize(i, owner, sig));
	*info = slots[i].info;
	release((uint32_t)i);
	return true;
}

uint64_t siginfo_look(const void *owner, int sig, uint64_t from, siginfo_t *info)
{
	int32_t i;
	uint64_t order;

	do {
		i = find(owner, sig, from);
		if (i < 0)
			return 0;
	} while (!seize(i, owner, sig));
	*info = slots[i].info;
	order = ld_rlx(&slots[i].order);
	st_rel(&owners[i], owner);
	return order;
}

void siginfo_undo(const void *owner, int sig, uint64_t order)
{
	int32_t i = order ? find(owner, sig, order) : -1;

	if (i < 0 || ld_rlx(&slots[i].order) != order || !seize(i, owner, sig))
		return;
	if (ld_rlx(&slots[i].order) == order)
		release((uint32_t)i);
	else
		st_rel(&owners[i], owner);
}

void siginfo_drop(const void *owner, int sig)
{
	if (ld_sc(&used) == 0)
		return;
	for (uint32_t i = 0, n = ld_sc(&high); i < n; i++) {
		const void *its = ld_acq(&owners[i]);
		int number = ld_rlx(&slots[i].sig);
		if (its && its != &busy && (!owner || its == owner) && (!sig || number == sig) &&
		    seize((int32_t)i, its, number))
			release(i);
	}
}

void siginfo_forked(void)
{
	for (uint32_t i = 0, n = ld_rlx(&high); i < n; i++)
		st_rlx(&owners[i], NULL);
	st_rlx(&used, 0);
}

void siginfo_make(siginfo_t *info, int sig, int code)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	info->si_pid = getpid();
	info->si_uid = getuid();
}
