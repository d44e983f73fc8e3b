/* dlsym of a library by its handle: who asks the C library for a call by name (ctypes and other
 * foreign functions, Free Pascal's threads) would pass heddle by, and half the process would be
 * told of the kernel's threads. Its entry is in dlsym.S. */
#include <stddef.h>

#include "atomic.h"
#include "lookup.h"
#include "mode.h"
#include "thread.h"

typedef void *lookup(void *library, const char *name);

lookup symbol_of;
lookup *symbol_real(void);

static ATOMIC(lookup *) real_one;

lookup *symbol_real(void)
{
	/* Relaxed: whoever comes first finds the same, and nothing goes with it. */
	lookup *real = ld_rlx(&real_one);

	/* Not in the table, which may be filled by dlsym. */
	if (!real) {
		real = (lookup *)lookup_behind("dlsym");
		st_rlx(&real_one, real);
	}
	return real;
}

void *symbol_of(void *library, const char *name)
{
	void *at = symbol_real()(library, name), *ours;

	if (!at || !served())
		return at;
	/* Only in place of the very one that ours calls: a wrapper's, which is behind heddle, would
	 * be called by ours again. */
	ours = lookup_before(name, at);
	return ours ? ours : at;
}
