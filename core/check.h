/* Assertions. CHECK stays in every build: it guards the user's memory. DCHECK and
 * dcheck_all are for debug builds (debug/dcheck.h, release/dcheck.h).
 *
 * Each names the row of invariants.def that it enforces; `git grep -w WS_I5` finds them
 * all. Reports go to standard error and the process aborts. */
#ifndef HEDDLE_CHECK_H
#define HEDDLE_CHECK_H

#include <stdbool.h>

enum invariant {
#define INVARIANT(id, text, enforced, test) id,
#include "invariants.def"
#undef INVARIANT
	INVARIANTS,
};

void check_failed(enum invariant id, const char *what, const char *file, int line)
	__attribute__((noreturn, cold));

#define CHECK(id, cond)                                                                            \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed((id), #cond, __FILE__, __LINE__);                             \
	} while (0)

#include "dcheck.h"

#endif
