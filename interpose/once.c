/* pthread_once. In the word: 0 not yet, 1 running, 3 running and somebody waits, 2 done: the
 * last as glibc's. A fork during the running is of no interest: the child finds 1 and would
 * wait for ever, so the number of forks stands above, as in glibc. */
#include "once.h"
#include "base.h"
#include "early.h"
#include "futex.h"
#include "mode.h"
#include "thread.h"

enum { RUNNING = 1, DONE = 2, WAITED = 3, STATE = ONCE_FORK - 1 };

/* Counted up in each child, before any thread of it runs. */
EARLY ATOMIC(uint32_t) once_forks;

FORKS void once_forked(void)
{
	add_rlx(&once_forks, ONCE_FORK);
}

struct running {
	ATOMIC(uint32_t) *word;
	__pthread_unwind_buf_t *buf;
	bool done, left;
};

/* Also when the function is left by cancellation or an exception: then it has not run. By a jump
 * as well, for the unwinder does not come through a function without tables. */
static void leave(struct running *r)
{
	uint32_t after = r->done ? DONE : 0;

	if (r->left)
		return;
	r->left = true;
	/* An exception of C++'s passes by without it. */
	__pthread_unregister_cancel(r->buf);

	/* Release: pairs with the acquire of whoever finds DONE. */
	if ((xchg_rel(r->word, after) & STATE) == WAITED)
		futex_wake(r->word, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void run(ATOMIC(uint32_t) *word, void (*fn)(void))
{
	__pthread_unwind_buf_t buf;
	__attribute__((cleanup(leave))) struct running r = { word, &buf, false, false };

	if (base_setjmp(&buf, 0) != 0) {
		leave(&r);
		__pthread_unwind_next(&buf);
	}
	__pthread_register_cancel(&buf);
	fn();
	r.done = true;
}

EXPORT GIVES int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	ATOMIC(uint32_t) *word = (ATOMIC(uint32_t) *)once;

	if (!served())
		return real_table.pthread_once(once, fn);
	for (;;) {
		uint32_t s = ld_acq(word), mine = ld_rlx(&once_forks) | RUNNING;
		if (s & DONE && (s & STATE) == DONE)
			return 0;
		if (s == 0 || (s & ~(uint32_t)STATE) != ld_rlx(&once_forks)) {
			if (!cas_acq(word, s, mine))
				continue;
			run(word, fn);
			return 0;
		}
		if (s == mine && !cas_rlx(word, s, s | WAITED))
			continue;
		futex_wait(word, mine | WAITED, (uint32_t)FUTEX_ANY, NULL, 0);
	}
}
