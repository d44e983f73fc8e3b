/* What a reader from outside may know of a thread's record: core/view.h. */
#include "view.h"

#include "thread.h"
#include "wire.h"

static const struct view_row rows[] = {
	VIEW_FIELD(thread, name, "name"),
	VIEW_FIELD(thread, named, "named"),
	VIEW_FIELD(thread, main, "main"),
	VIEW_FIELD(thread, own, "own"),
	VIEW_FIELD(thread, tid, "tid"),
	VIEW_FIELD(thread, wired, "wired"),
	VIEW_FIELD(thread, joins, "joins"),
	VIEW_FIELD(thread, fn, "fn"),
#define X(cause, name) VIEW_NUMBER("wired", name, WIRED_##cause),
	WIRE_CAUSES(X)
#undef X
		VIEW_SIZE(thread),
	/* The owner's tid, beside the word that its waiters wait on. */
	{ "mutex", "owner", "",
	  __builtin_offsetof(pthread_mutex_t, __data.__owner) -
		  __builtin_offsetof(pthread_mutex_t, __data.__lock),
	  sizeof(int) },
};

const struct view_row *thread_rows(uint32_t *n)
{
	*n = sizeof(rows) / sizeof(*rows);
	return rows;
}
