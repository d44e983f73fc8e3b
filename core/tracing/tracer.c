/* When a trace begins and ends, and the thread that writes it, for tracer.h. What it writes is
 * drain.c's business. Owns that thread.
 *
 * It takes a sixteenth of one cpu at most: after a round it rests fifteen times as long. What comes
 * meanwhile and finds its ring full is lost, and counted. Where nearly all is lost, it takes half
 * of that: twice as little would be no picture either. */
#include "tracer.h"

#include "core.h"
#include "drain.h"
#include "early.h"
#include "mthread.h"
#include "san.h"
#include "sched.h"
#include "syscall.h"
#include "text.h"
#include "trace.h"
#include "tracefile.h"
#include "tracks.h"

enum {
	EBUSY_ = 16,
	EEXIST_ = 17,
	ENOMEM_ = 12,
	ESRCH_ = 3,
	PERIOD_NS = 20 * 1000 * 1000, /* between two rounds while something happens */
	IDLE_NS = 1000 * 1000 * 1000, /* while nothing does: what goes on grows longer */
	RESTS = 15,
	RESTS_HOPELESS = 31,
	PATIENCE_NS = 2 * 1000 * 1000 * 1000ll,
};

enum order { ORDER_NONE, ORDER_FIRST, ORDER_BEGIN, ORDER_END };

static struct {
	ATOMIC(uint32_t) on; /* something is recorded, or is to be */
	ATOMIC(uint32_t) thread; /* there is one */
	ATOMIC(uint32_t) idle; /* it sleeps for long */
	struct note note;
	ATOMIC(uint32_t) asked, done; /* flushes; done is a futex word */

	ATOMIC(uint32_t) order; /* enum order; by sysmon while it is none, then by the writer */
	int32_t error; /* of the last one */
	ATOMIC(int32_t) pid; /* whose trace it is: not that of the child of a vfork */
	char path[TRACER_PATH];
	size_t pathlen;
	int fd; /* the program's, of the first one, if that was opened before; else -1 */
	uint64_t zero; /* when it was wanted, at the start */
	uint64_t limit;
	tracer_name *name;
} tracer;

static int32_t own_pid(void)
{
	return (int32_t)arch_syscall3(__NR_getpid, 0, 0, 0);
}

static void say(const char *what, int error)
{
	char buf[TRACER_PATH + 128];
	struct text t = TEXT(buf);

	text_put(&t, "heddle: trace: ");
	text_put(&t, tracer.path);
	text_put(&t, what);
	if (error)
		text_error(&t, error);
	text_put(&t, "\n");
	text_write2(&t);
}

static void copy_path(const char *path)
{
	size_t i = 0;

	for (; path[i] && i < TRACER_PATH - 1; i++)
		tracer.path[i] = path[i];
	tracer.path[i] = 0;
	tracer.pathlen = i;
}

/* ---- beginning and ending ---- */

static int make_first(void)
{
	int fd = tracefile_make(tracer.path);
	struct text t = { tracer.path, TRACER_PATH, tracer.pathlen };

	if (fd != -EEXIST_)
		return fd;
	/* Of a process of the same family. */
	text_put(&t, ".");
	text_num(&t, own_pid());
	return tracefile_make(tracer.path);
}

static int begin_first(void)
{
	int fd = tracer.fd >= 0 ? os_fetchfd(tracer.fd) : make_first();

	return fd < 0 ? fd : drain_begin(fd, tracer.limit, tracer.zero, true);
}

static void seed(void)
{
	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink) {
		char name[TRACE_NAME_LEN] = "";
		if (tracer.name && gp->head.host)
			tracer.name(gp, name);
		tracks_seed(gp, name);
	}
}

static int begin(void)
{
	uint64_t now = nanotime();
	int fd = tracefile_make(tracer.path);
	int r = fd < 0 ? fd : drain_begin(fd, tracer.limit, now, false);

	if (r < 0)
		return r;
	st_rlx(&tracer.pid, own_pid());
	st_rlx(&tracer.on, 1);
	trace_on(true);
	seed();
	return 0;
}

static void stop(void)
{
	trace_on(false);
	st_rlx(&tracer.on, 0);
}

/* True if something had happened. */
static bool write_round(bool all)
{
	long n = drain_round(all);

	if (n >= 0 && !drain_cut())
		return n > 0;
	stop();
	if (n < 0)
		say(": the trace ends here", (int)-n);
	else
		say(": the trace ends here, for the file has reached its limit (HEDDLE_TRACE_LIMIT)",
		    0);
	drain_end();
	return false;
}

static void finish(void)
{
	trace_on(false);
	if (!drain_begun())
		return;
	write_round(true);
	st_rlx(&tracer.on, 0);
	if (drain_begun())
		drain_end();
}

static void carry_out(enum order order)
{
	int r = 0;

	switch (order) {
	case ORDER_FIRST:
		r = begin_first();
		if (r < 0) {
			stop();
			say(": cannot be made", -r);
		}
		break;
	case ORDER_BEGIN:
		r = begin();
		break;
	case ORDER_END:
		finish();
		break;
	default:
		return;
	}
	tracer.error = -r;
	/* Release: pairs with the acquire in tracer_over. */
	st_rel(&tracer.order, ORDER_NONE);
}

/* ---- the thread ---- */

static bool urgent(void)
{
	return ld_acq(&tracer.order) != ORDER_NONE || ld_acq(&tracer.asked) != ld_rlx(&tracer.done);
}

static void rest(uint64_t begun, bool fresh)
{
	uint64_t now = nanotime(), rests = drain_hopeless() ? RESTS_HOPELESS : RESTS,
		 least = now + rests * (now - begun), most = now + (fresh ? PERIOD_NS : IDLE_NS);
	bool noted = false;

	/* An M that does not see it in time has its event written a second later. */
	st_sc(&tracer.idle, !fresh);
	while (!urgent() && now < most && !(noted && now >= least)) {
		if (notetsleep(&tracer.note, (int64_t)((noted ? least : most) - now))) {
			noteclear(&tracer.note);
			noted = true;
		}
		now = nanotime();
	}
	st_rlx(&tracer.idle, 0);
}

static void tracer_main(void *arg)
{
	uint64_t accepts = 0;

	setg(arg);
	os_jointable();
	for (;;) {
		uint64_t begun = nanotime();
		uint32_t asked = ld_acq(&tracer.asked);
		bool fresh = false;

		mthread_lets(&accepts);
		carry_out((enum order)ld_acq(&tracer.order));
		if (drain_begun())
			fresh = write_round(asked != ld_rlx(&tracer.done));
		if (asked != ld_rlx(&tracer.done)) {
			/* Release: who waits for it finds the file written. */
			st_rel(&tracer.done, asked);
			futexwakeup(&tracer.done, INT32_MAX);
		}
		rest(begun, fresh);
	}
}

void trace_wake(bool first)
{
	if (!first || ld_rlx(&tracer.idle))
		notewakeup(&tracer.note);
}

void tracer_init(const char *path, int fd, uint64_t limit, tracer_name *name)
{
	tracer.fd = fd;
	tracer.limit = limit;
	tracer.name = name;
	if (!path)
		return;
	copy_path(path);
	tracer.zero = nanotime();
	st_rlx(&tracer.pid, own_pid());
	st_rlx(&tracer.on, 1);
	trace_on(true);
}

static bool start_thread(void)
{
	if (ld_rlx(&tracer.thread))
		return true;
	if (!mhelper(tracer_main))
		return false;
	st_rlx(&tracer.thread, 1);
	return true;
}

static bool own_table;

void tracer_start(bool own)
{
	own_table = own;
	if (!ld_rlx(&tracer.on))
		return;
	st_rel(&tracer.order, ORDER_FIRST);
	if (own && start_thread())
		return;
	st_rel(&tracer.order, ORDER_NONE);
	stop();
	say(own ? ": there is no thread for it" : ": no descriptors of its own, no trace", 0);
}

static int32_t give(enum order order)
{
	/* Release: pairs with the acquire in tracer_main: the path. */
	st_rel(&tracer.order, order);
	if (!own_table || !start_thread()) {
		st_rel(&tracer.order, ORDER_NONE);
		return ENOMEM_;
	}
	notewakeup(&tracer.note);
	return 0;
}

int32_t tracer_begin(const char *path)
{
	if (ld_rlx(&tracer.on) || ld_acq(&tracer.order) != ORDER_NONE)
		return EBUSY_;
	copy_path(path);
	return give(ORDER_BEGIN);
}

int32_t tracer_end(void)
{
	if (!ld_rlx(&tracer.on))
		return ESRCH_;
	if (ld_acq(&tracer.order) != ORDER_NONE)
		return EBUSY_;
	return give(ORDER_END);
}

bool tracer_over(int32_t *error)
{
	if (ld_acq(&tracer.order) != ORDER_NONE)
		return false;
	*error = tracer.error;
	return true;
}

void tracer_flush(void)
{
	uint64_t until = nanotime() + PATIENCE_NS, now;
	uint32_t mine, done;

	if (likely(!ld_rlx(&tracer.on)) || ld_rlx(&tracer.pid) != own_pid())
		return;
	mine = add_sc(&tracer.asked, 1) + 1;
	notewakeup(&tracer.note);
	while (ld_rlx(&tracer.on) && (int32_t)((done = ld_acq(&tracer.done)) - mine) < 0 &&
	       (now = nanotime()) < until)
		futexsleep(&tracer.done, done, (int64_t)(until - now));
}

void tracer_names(struct m *mp, struct g *gp)
{
	char name[TRACE_NAME_LEN] = "";

	if (tracer.name && gp->head.host && tracer.name(gp, name))
		trace_named(mp, gp, name);
}

void tracer_renamed(struct g *gp)
{
	struct g *self;
	struct m *mp;

	if (likely(!(ld_rlx(&tracing) & TRACING_RINGS)))
		return;
	self = getg();
	mp = enter(self);
	tracer_names(mp, gp);
	outof(self);
}

int32_t tracer_threads(void)
{
	return (int32_t)ld_rlx(&tracer.thread);
}

FORKS void tracer_forked(void)
{
	trace_forked();
	st_rlx(&tracer.on, 0);
	st_rlx(&tracer.thread, 0);
	st_rlx(&tracer.order, ORDER_NONE);
	st_rlx(&tracer.done, ld_rlx(&tracer.asked));
	noteclear(&tracer.note);
	drain_forked();
}
