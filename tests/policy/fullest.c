/* Each processor has a queue of its own; one whose queue is empty takes from the fullest: half of
 * it, or as many as are asked for, heddle run --policy ./fullest.so,COUNT. */
#include "policy.h"

static uint32_t count;

static int begin(const char *arguments, uint64_t seed)
{
	(void)seed;
	for (count = 0; *arguments >= '0' && *arguments <= '9'; arguments++)
		count = count * 10 + (uint32_t)(*arguments - '0');
	return *arguments ? -1 : 0;
}

static uint32_t steal(int thief, const uint32_t *queued, int processors, int *victim)
{
	(void)thief;
	*victim = 0;
	for (int i = 1; i < processors; i++)
		if (queued[i] > queued[*victim])
			*victim = i;
	return count ? count : (queued[*victim] + 1) / 2;
}

const struct heddle_policy heddle_policy = {
	.version = HEDDLE_POLICY_VERSION,
	.name = "fullest",
	.begin = begin,
	.steal = steal,
};
