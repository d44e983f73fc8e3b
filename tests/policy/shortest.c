/* The shortest job first: how long one takes is the number at the end of its thread's name, as in
 * "encode 30". Who has none takes no time. */
#include "policy.h"

static uint64_t length(struct heddle_thread *t)
{
	uint64_t n = 0;

	for (const char *c = t->name; *c; c++)
		n = *c >= '0' && *c <= '9' ? n * 10 + (uint64_t)(*c - '0') : 0;
	return n;
}

const struct heddle_policy heddle_policy = {
	.version = HEDDLE_POLICY_VERSION,
	.name = "shortest",
	.rank = length,
};
