/* The page of view.h: its rows, its making, and hearing the orders that come by it; orders.c
 * carries them out. Trusts nothing in the page: another process may write there. */
#include "view.h"

#include <linux/memfd.h>
#include <sys/mman.h>

#include "early.h"
#include "orders.h"
#include "report.h"
#include "sched.h"
#include "sigsave.h"
#include "syscall.h"

enum {
	EINVAL_ = 22,
	F_ADD_SEALS_ = 1033,
	F_SEAL_SHRINK_ = 2,
	F_SEAL_GROW_ = 4,
	MFD_NOEXEC_ = 8,
	OWNER_ONLY = 0600,
};

#define STATUS(name, text) VIEW_NUMBER("gstatus", text, name)

static const struct view_row rows[] = {
	VIEW_FIELD(sched, gomaxprocs, "gomaxprocs"),
	VIEW_FIELD(sched, allp, "allp"),
	VIEW_FIELD(sched, allg, "allg"),
	VIEW_FIELD(sched, allm, "allm"),
	VIEW_FIELD(sched, npidle, "npidle"),
	VIEW_FIELD(sched, nmspinning, "nmspinning"),
	VIEW_FIELD(sched, runqsize, "runqsize"),
	VIEW_FIELD(sched, mcount, "mcount"),
	VIEW_FIELD(sched, nmidle, "nmidle"),
	VIEW_FIELD(sched, maxmcount, "maxmcount"),
	VIEW_FIELD(sched, softmcount, "softmcount"),
	VIEW_FIELD(sched, slice, "slice"),
	VIEW_FIELD(sched, nopstats, "nopstats"),
	VIEW_FIELD(sched, sysmonm, "sysmonm"),
	VIEW_SIZE(sched),

	VIEW_FIELD(g, goid, "goid"),
	VIEW_FIELD(g, status, "status"),
	VIEW_FIELD(g, m, "m"),
	VIEW_FIELD(g, lockedm, "lockedm"),
	VIEW_FIELD(g, waitreason, "waitreason"),
	VIEW_FIELD(g, waitsince, "waitsince"),
	VIEW_FIELD(g, waiton, "waiton"),
	VIEW_FIELD(g, timer.heap, "timerheap"),
	VIEW_FIELD(g, timer.when, "timerwhen"),
	VIEW_FIELD(g, sched.sp, "sp"),
	VIEW_FIELD(g, frame, "frame"),
	VIEW_FIELD(g, stack.lo, "stacklo"),
	VIEW_FIELD(g, stack.hi, "stackhi"),
	VIEW_FIELD(g, fsbase, "fsbase"),
	VIEW_FIELD(g, head.host, "host"),
	VIEW_FIELD(g, alllink, "alllink"),
	VIEW_SIZE(g),

	VIEW_FIELD(m, id, "id"),
	VIEW_FIELD(m, tid, "tid"),
	VIEW_FIELD(m, p, "p"),
	VIEW_FIELD(m, curg, "curg"),
	VIEW_FIELD(m, spinning, "spinning"),
	VIEW_FIELD(m, blocked, "blocked"),
	VIEW_FIELD(m, lockedg, "lockedg"),
	VIEW_FIELD(m, g0.stack.lo, "g0lo"),
	VIEW_FIELD(m, g0.stack.hi, "g0hi"),
	VIEW_FIELD(m, alllink, "alllink"),
	VIEW_SIZE(m),

	VIEW_FIELD(p, id, "id"),
	VIEW_FIELD(p, status, "status"),
	VIEW_FIELD(p, m, "m"),
	VIEW_FIELD(p, schedtick, "schedtick"),
	VIEW_FIELD(p, runqhead, "runqhead"),
	VIEW_FIELD(p, runqtail, "runqtail"),
	VIEW_FIELD(p, runnext, "runnext"),
	VIEW_FIELD(p, timers.n, "timers"),
	VIEW_FIELD(p, stats, "stats"),
	VIEW_FIELD(p, mon.schedwhen, "schedwhen"),
	VIEW_SIZE(p),

#define X(counter, what)                                                                           \
	{ "stats", #counter, what, (uint32_t) __builtin_offsetof(struct stats, counter),           \
	  (uint32_t)sizeof(uint64_t) },
	STATS(X)
#undef X
		VIEW_SIZE(stats),

	VIEW_FIELD(sigsave, uc, "uc"),
	VIEW_SIZE(sigsave),

#define X(name, at) { "context", #name, "", at, sizeof(uintptr_t) },
	ARCH_CONTEXT(X)
#undef X
		{ "context", "", "", 0, ARCH_CONTEXT_SIZE },

	STATUS(GIDLE, "idle"),
	STATUS(GRUNNABLE, "runnable"),
	STATUS(GRUNNING, "running"),
	STATUS(GPINNED, "running"),
	STATUS(GOFFP, "running, no P"),
	STATUS(GSYSCALL, "syscall"),
	STATUS(GSYSCALLNOP, "syscall, no P"),
	STATUS(GWAITING, "waiting"),
	STATUS(GDEAD, "dead"),
	STATUS(GPREEMPTED, "preempted"),
	VIEW_NUMBER("gclaim", "", GCLAIM),

	VIEW_NUMBER("pstatus", "idle", PIDLE),
	VIEW_NUMBER("pstatus", "running", PRUNNING),
	VIEW_NUMBER("pstatus", "stopped", PGCSTOP),
	VIEW_NUMBER("pstatus", "dead", PDEAD),

	VIEW_NUMBER("waitreason", "", WAIT_NONE),
	VIEW_NUMBER("waitreason", "futex", WAIT_FUTEX),
	VIEW_NUMBER("waitreason", "sleep", WAIT_SLEEP),
	VIEW_NUMBER("waitreason", "read", WAIT_READ),
	VIEW_NUMBER("waitreason", "write", WAIT_WRITE),
	VIEW_NUMBER("waitreason", "park", WAIT_PARK),

	VIEW_NUMBER("procs", "max", MAX_PROCS),
	VIEW_NUMBER("runq", "slots", RUNQ_SIZE),
};

FORKED static struct view_page *page;
FORKED static uint64_t heard; /* the order that was carried out, or is being */
FORKED static bool begun; /* it is being */

const struct view_page *view_page(void)
{
	return page;
}

/* A page of a size that nobody can change, so that who maps it is safe. */
static int make_file(void)
{
	long fd = arch_syscall3(__NR_memfd_create, (long)VIEW_NAME, MFD_CLOEXEC | MFD_NOEXEC_, 0);

	/* Kernels before 6.3. */
	if (fd == -EINVAL_)
		fd = arch_syscall3(__NR_memfd_create, (long)VIEW_NAME,
				   MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
	if (fd < 0)
		return (int)fd;
	if (arch_syscall3(__NR_fchmod, fd, OWNER_ONLY, 0) < 0 ||
	    os_enlarge(__NR_ftruncate, fd, VIEW_BYTES, 0, 0) < 0 ||
	    arch_syscall3(__NR_fcntl, fd, F_ADD_SEALS_, F_SEAL_SHRINK_ | F_SEAL_GROW_) < 0) {
		arch_syscall3(__NR_close, fd, 0, 0);
		return -EINVAL_;
	}
	return (int)fd;
}

void view_open(const struct view_row *host, uint32_t n)
{
	struct view_page *at;
	int fd = make_file();

	_Static_assert(sizeof(*at) <= VIEW_PATH, "one page");
	if (fd < 0)
		return;
	at = (void *)arch_syscall6(__NR_mmap, 0, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				   0);
	if (os_failed(at)) {
		arch_syscall3(__NR_close, fd, 0, 0);
		return;
	}
	at->version = VIEW_VERSION;
	at->size = sizeof(*at);
	at->pid = (int32_t)arch_syscall3(__NR_getpid, 0, 0, 0);
	at->systid = os_gettid();
	at->fd = fd;
	at->born = nanotime();
	at->sched = (uintptr_t)&sched;
	at->core.rows = (uintptr_t)rows;
	at->core.n = sizeof(rows) / sizeof(*rows);
	at->core.rowsize = at->host.rowsize = sizeof(*rows);
	at->host.rows = (uintptr_t)host;
	at->host.n = n;
	/* Before sysmon's first sleep: nobody relies on waking it yet. */
	st_rlx(&sched.sysmonnote.shared, &at->wake);
	/* Release: who finds the mark finds the rest. */
	st_rel(&at->magic, VIEW_MAGIC);
	page = at;
}

static void answer(int32_t error)
{
	st_rel(&page->answer, (uint64_t)(uint32_t)error << 32 | (uint32_t)heard);
}

void view_path(char *to, uint32_t size)
{
	const char *from = (const char *)page + VIEW_PATH;
	uint32_t i = 0;

	/* Each letter once: it may change meanwhile. */
	while (i < size - 1 && i < VIEW_BYTES - VIEW_PATH && (to[i] = ld_rlx(&from[i])) != 0)
		i++;
	to[i] = 0;
}

void view_round(uint64_t now)
{
	uint64_t what;
	int32_t error;

	st_rlx(&sched.now, now);
	if (!page)
		return;
	if (begun && order_over(&error)) {
		begun = false;
		answer(error);
	}
	/* Acquire: pairs with the release of who gave it. */
	what = ld_acq(&page->order);
	if (begun || likely(what == heard))
		return;
	heard = what;
	error = order_begin((enum view_ordered)(what & 255), (uint32_t)(what >> 32));
	begun = error == ORDER_BEGUN;
	if (!begun)
		answer(error);
}

/* After the note was cleared, before the deep sleep:
 *   sysmon: looks, no order                 who orders: stores it
 *           clears the note                             raises the note, wakes nobody
 *           looks once more                 or the note is raised after it was cleared.
 * And an order that was begun may be done, with every P idle again, before sysmon gets here. */
bool view_ordered(void)
{
	return page && (begun || ld_sc(&page->order) != heard);
}

/* Not MADV_DONTFORK: a fork that nobody tells us of leaves a child with the parent's scheduler,
 * whose note would be in no memory. With the page there it wakes the parent's monitor for nothing.
 */
FORKS void view_forked(void)
{
	if (page)
		os_release(page, VIEW_BYTES);
	page = NULL;
	heard = 0;
	begun = false;
	orders_forked();
}
