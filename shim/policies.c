/* Loading of policies: see policies.h. */
#include "policies.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core.h"
#include "loader.h"
#include "os.h"
#include "policies/spec.h"
#include "policy.h"
#include "record.h"
#include "text.h"

static struct policyspec spec;
static uint64_t seed;

static void say(const char *what, const char *more)
{
	char buf[512];
	struct text t = TEXT(buf);

	text_put(&t, "heddle: policy ");
	text_put(&t, config.policy);
	text_put(&t, ": ");
	text_put(&t, what);
	text_put(&t, more);
	text_put(&t, "\n");
	text_write2(&t);
}

static const struct heddle_policy *load(void)
{
	/* Once: in the child of a fork the loader may be locked. */
	static const struct heddle_policy *found;
	static bool asked;
	char path[CONFIG_POLICY];
	void *object;

	if (asked)
		return found;
	if (loader_lost()) {
		say("ignored: ", "the loader's list is locked");
		return NULL;
	}
	memcpy(path, spec.text, spec.filelen);
	path[spec.filelen] = 0;
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (object)
		found = dlsym(object, "heddle_policy");
	if (!found) {
		say("ignored: ", dlerror());
	} else if (found->version != HEDDLE_POLICY_VERSION) {
		say("ignored: ", "it is of another version of policy.h");
		found = NULL;
	}
	asked = true;
	return found;
}

void policies_wanted(struct core_config *to)
{
	const char *wrong;

	to->seed = seed = config.seed ? config.seed : os_clock(CLOCK_REALTIME);
	/* In a replay the policy has nothing to say, but must be one that keeps a queue. */
	if (config.replay)
		config.policy = "fifo";
	else if (config.record && !config.policy)
		config.policy = "random";
	if (!config.policy)
		return;
	if (!policy_parse(config.policy, &spec, &wrong)) {
		say("ignored: ", wrong);
		return;
	}
	if (spec.kind == POLICY_OWN && !(to->ownpolicy = load()))
		return;
	to->policy = &spec;
	if (spec.kind == POLICY_GO && config.record)
		say("is not recorded", "");
	else
		to->turns = record_begin(config.policy, seed);
	/* Who wants to see it again must know. */
	if (policy_seeded(&spec) && !config.seed && !to->turns) {
		char buf[32];
		struct text t = TEXT(buf);
		text_unsigned(&t, seed);
		say("HEDDLE_SEED=", buf);
	}
}

void policies_row(struct text *t)
{
	if (!spec.text)
		return;
	text_put(t, ", ");
	text_put(t, spec.text);
	if (policy_seeded(&spec)) {
		text_put(t, ", seed ");
		text_unsigned(t, seed);
	}
}
