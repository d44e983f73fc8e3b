/* Threads whose names begin so go before all others: heddle run --policy ./byname.so,PREFIX. Keeps
 * two queues of its own, linked by mine[0], and gives those of the second a shorter slice. */
#include "policy.h"

static struct queue {
	struct heddle_thread *first, *last;
} queues[2];
static const char *prefix;

static int begin(const char *arguments, uint64_t seed)
{
	(void)seed;
	prefix = arguments;
	queues[0].first = queues[1].first = 0;
	return *prefix ? 0 : -1;
}

static int is_other(const struct heddle_thread *t)
{
	const char *name = t->name, *p = prefix;
	while (*p && *p == *name)
		p++, name++;
	return *p != 0;
}

static void on_ready(struct heddle_thread *t, int processor)
{
	struct queue *q = &queues[is_other(t)];
	(void)processor;
	t->mine[0].p = 0;
	if (q->first)
		q->last->mine[0].p = t;
	else
		q->first = t;
	q->last = t;
}

static struct heddle_thread *pick_next(int processor)
{
	struct queue *q = &queues[queues[0].first == 0];
	struct heddle_thread *t = q->first;
	(void)processor;
	q->first = t->mine[0].p;
	return t;
}

static uint64_t slice(struct heddle_thread *t)
{
	return is_other(t) ? 1000 * 1000 : 0;
}

const struct heddle_policy heddle_policy = {
	.version = HEDDLE_POLICY_VERSION,
	.name = "byname",
	.begin = begin,
	.on_ready = on_ready,
	.pick_next = pick_next,
	.slice = slice,
};
