/* No cpu times of Gs: the empty twin of tracing/cputime.c. */
#include "cputime.h"

#include "core.h"
#include "os.h"

void cputime_begin(struct g *gp)
{
	(void)gp;
}

void cputime_forked(void)
{
}

void cputime_looked(struct m *mp, struct g *gp, uint64_t now)
{
	(void)mp;
	(void)gp;
	(void)now;
}

uint64_t gcputime(struct g *gp)
{
	(void)gp;
	return os_threadclock(0);
}
