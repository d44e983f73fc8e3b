/* The reports of report.h, and checkdead, which decides when one is due. */
#include "report.h"

#include "san.h"
#include "sched.h"
#include "text.h"

enum { REPORT_BYTES = 64 * 1024, MAX_G_LINES = 200 };

static uint64_t every, last, born;
static bool detailed;
static void (*on_alldead)(void);
static char report_buf[REPORT_BYTES];

void report_init(uint32_t schedtrace_ms, bool detail, void (*alldead)(void))
{
	every = (uint64_t)schedtrace_ms * 1000000u;
	detailed = detail;
	on_alldead = alldead;
	born = last = nanotime();
}

bool report_ticks(void)
{
	return every != 0;
}

void report_tick(uint64_t now)
{
	if (every == 0 || now - last < every)
		return;
	last = now;
	os_write2(report_buf, schedtrace(report_buf, sizeof(report_buf), detailed));
}

static void field(struct text *t, const char *name, int64_t n)
{
	text_put(t, name);
	text_num(t, n);
}

void report_limit(int32_t allowed)
{
	char buf[128];
	struct text t = TEXT(buf);

	/* And the starter. */
	field(&t, "heddle: all are blocked or wired: HEDDLE_MAXTHREADS gives way to ", allowed + 1);
	text_put(&t, "\n");
	text_write2(&t);
}

const char *waitreason_name(unsigned reason)
{
	static const char *const names[WAIT_REASONS] = {
		[WAIT_NONE] = "",	 [WAIT_FUTEX] = "futex",    [WAIT_SLEEP] = "sleep",
		[WAIT_READ] = "IO read", [WAIT_WRITE] = "IO write", [WAIT_PARK] = "park",
	};
	return reason < WAIT_REASONS ? names[reason] : "?";
}

const char *gstatus_name(uint32_t status)
{
	switch (status & ~(uint32_t)GCLAIM) {
	case GIDLE:
		return "idle";
	case GRUNNABLE:
		return "runnable";
	case GRUNNING:
	case GPINNED:
		return "running";
	case GSYSCALL:
		return "syscall";
	case GSYSCALLNOP:
		return "syscall, no P";
	case GWAITING:
		return "waiting";
	case GDEAD:
		return "dead";
	case GPREEMPTED:
		return "preempted";
	case GOFFP:
		return "running, no P";
	default:
		return "?";
	}
}

static int64_t idof(const struct m *mp)
{
	return mp ? (int64_t)mp->id : -1;
}

SAN_RACY static void detail_p(struct text *t, struct p *pp)
{
	struct m *mp = ld_rlx(&pp->m);

	field(t, "  P", pp->id);
	field(t, ": status=", ld_rlx(&pp->status));
	field(t, " schedtick=", ld_rlx(&pp->schedtick));
	field(t, " syscalltick=", mp ? ld_rlx(&mp->syscalltick) : 0);
	field(t, " m=", idof(mp));
	field(t, " runqsize=", ld_rlx(&pp->runqtail) - ld_rlx(&pp->runqhead));
	field(t, " gfreecnt=", ld_rlx(&pp->gfree) ? pp->ngfree : 0);
	field(t, " timerslen=", ld_rlx(&pp->timers.n));
	text_put(t, "\n");
}

SAN_RACY static void detail_m(struct text *t, struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);
	struct g *gp = ld_rlx(&mp->curg);

	field(t, "  M", mp->id);
	field(t, ": p=", pp ? pp->id : -1);
	field(t, " curg=", gp ? (int64_t)gp->goid : -1);
	text_put(t, ld_rlx(&mp->spinning) ? " spinning=true" : " spinning=false");
	text_put(t, ld_rlx(&mp->blocked) ? " blocked=true" : " blocked=false");
	field(t, " lockedg=", mp->lockedg ? (int64_t)mp->lockedg->goid : -1);
	text_put(t, "\n");
}

SAN_RACY static void detail_g(struct text *t, struct g *gp)
{
	struct m *mp = ld_rlx(&gp->m);
	uint32_t status = ld_rlx(&gp->status);

	field(t, "  G", (int64_t)gp->goid);
	field(t, ": status=", status & ~(uint32_t)GCLAIM);
	text_put(t, "(");
	text_put(t, status == GWAITING ? waitreason_name(gp->waitreason) : "");
	text_put(t, ")");
	field(t, " m=", idof(mp));
	field(t, " lockedm=", idof(gp->lockedm));
	text_put(t, "\n");
}

SAN_RACY size_t schedtrace(char *buf, size_t len, bool detail)
{
	struct text t = { buf, len, 0 };
	int32_t n = ld_acq(&sched.gomaxprocs), lines = 0;

	field(&t, "SCHED ", (int64_t)((nanotime() - born) / 1000000));
	field(&t, "ms: gomaxprocs=", n);
	field(&t, " idleprocs=", ld_rlx(&sched.npidle));
	field(&t, " threads=", ld_rlx(&sched.mcount));
	field(&t, " spinningthreads=", ld_rlx(&sched.nmspinning));
	field(&t, " needspinning=", ld_rlx(&sched.needspinning));
	field(&t, " idlethreads=", ld_rlx(&sched.nmidle));
	field(&t, " runqueue=", ld_rlx(&sched.runqsize));
	if (!detail) {
		text_put(&t, " [ ");
		for (int32_t i = 0; i < n; i++) {
			struct p *pp = sched.allp[i];
			text_num(&t, ld_rlx(&pp->runqtail) - ld_rlx(&pp->runqhead));
			text_put(&t, " ");
		}
		text_put(&t, "] schedticks=[ ");
		for (int32_t i = 0; i < n; i++) {
			text_num(&t, ld_rlx(&sched.allp[i]->schedtick));
			text_put(&t, " ");
		}
		text_put(&t, "]\n");
		return t.len;
	}
	field(&t, " gcwaiting=", ld_rlx(&sched.gcwaiting));
	field(&t, " nmidlelocked=", ld_rlx(&sched.nmidlelocked));
	field(&t, " stopwait=", ld_rlx(&sched.stopwait));
	field(&t, " sysmonwait=", ld_rlx(&sched.sysmonwait));
	text_put(&t, "\n");
	for (int32_t i = 0; i < n; i++)
		detail_p(&t, sched.allp[i]);
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink)
		detail_m(&t, mp);
	for (struct g *gp = ld_acq(&sched.allg); gp && lines < MAX_G_LINES; gp = gp->alllink) {
		if (ld_rlx(&gp->status) == GDEAD || ld_rlx(&gp->status) == GIDLE)
			continue;
		detail_g(&t, gp);
		lines++;
	}
	return t.len;
}

/* Counted in Ms, as in Go: an M that runs, blocks in a call or polls may wake others; only
 * when all are idle can nobody. Timers suppress it, and so does whoever waits for a
 * descriptor, since an M polls then. A thread that is no M may still wake them: so this is
 * a report, not an end. */
void checkdead_locked(void)
{
	int32_t running = sched.mcount - sched.nmidle - sched.nmidlelocked - sched.nmsys;

	CHECK(GMP_M1, running >= 0);
	if (running > 0 || sched.deadreported || ld_rlx(&sched.runqsize) > 0)
		return;
	if (timers_next() != 0)
		return;
	sched.deadreported = true;
	if (on_alldead) {
		on_alldead();
		return;
	}
	static const char line[] = "heddle: all Gs are asleep - deadlock!\n";
	os_write2(line, sizeof(line) - 1);
}
