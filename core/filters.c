/* Whether calls may be made that nobody else makes: filters.h. */
#include "filters.h"

#include "atomic.h"
#include "early.h"
#include "os.h"

static ATOMIC(bool) filtered;
FORKED static ATOMIC(int32_t) looking; /* how many may not have seen that */

/* Who looks counts himself first, who filters waits until nobody counts. */
bool filters_look(void)
{
	add_sc(&looking, 1);
	if (!ld_sc(&filtered))
		return true;
	filters_looked();
	return false;
}

void filters_looked(void)
{
	sub_sc(&looking, 1);
}

bool filters_there(void)
{
	return ld_rlx(&filtered);
}

void filters_set(void)
{
	st_sc(&filtered, true);
	while (ld_sc(&looking) != 0)
		os_yield();
}

FORKS void filters_forked(void)
{
	st_rlx(&looking, 0);
}
