/* What a broken invariant prints. */
#include "check.h"

#include "report.h"
#include "sched.h"
#include "text.h"

static const char *const names[] = {
#define INVARIANT(id, text, enforced, test) #id,
#include "invariants.def"
#undef INVARIANT
};

static const char *const texts[] = {
#define INVARIANT(id, text, enforced, test) text,
#include "invariants.def"
#undef INVARIANT
};

void check_failed(enum invariant id, const char *what, const char *file, int line)
{
	char buf[1024];
	struct text t = TEXT(buf);
	struct g *gp = getg();
	struct m *mp = gp ? ld_rlx(&gp->m) : NULL;
	struct p *pp = mp ? ld_rlx(&mp->p) : NULL;

	text_put(&t, "heddle: ");
	text_put(&t, names[id]);
	text_put(&t, " is broken: ");
	text_put(&t, texts[id]);
	text_put(&t, "\n  ");
	text_put(&t, file);
	text_put(&t, ":");
	text_num(&t, line);
	text_put(&t, ": ");
	text_put(&t, what);
	text_put(&t, "\n  G");
	text_num(&t, gp ? (int64_t)gp->goid : -1);
	text_put(&t, gp && gp->isg0 ? " (g0) " : " ");
	text_put(&t, gp ? gstatus_name(ld_rlx(&gp->status)) : "none");
	text_put(&t, " M");
	text_num(&t, mp ? (int64_t)mp->id : -1);
	text_put(&t, " P");
	text_num(&t, pp ? pp->id : -1);
	text_put(&t, " seed ");
	text_unsigned(&t, sched.seed);
	text_put(&t, "\n");
	text_write2(&t);
	os_abort();
}
