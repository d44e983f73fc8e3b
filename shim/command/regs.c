/* Registers: from the saved context of a G that waits, from the signal frame of one that was
 * preempted, from the kernel of one that runs; but while its M is on the way to it or has just left
 * it, and stands on another stack, from where they were saved. */
#include "regs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static bool parked(const struct view *v, const struct g_seen *g, struct regs *r)
{
	uint64_t *const to[] = { &r->rip, &r->rbp, &r->rbx, &r->r12, &r->r13, &r->r14, &r->r15 };
	static const char *const names[] = { "rip", "rbp", "rbx", "r12", "r13", "r14", "r15" };
	const struct view_row *whole = view_row(v, "context", "");

	for (unsigned i = 0; i < sizeof(to) / sizeof(*to); i++) {
		const struct view_row *row = view_row(v, "context", names[i]);
		if (!row || !mem_read(v->mem, g->sp + row->at, to[i], sizeof(*to[i])))
			return false;
	}
	r->rsp = g->sp + (whole ? whole->size : 0);
	return whole != NULL;
}

static bool preempted(const struct view *v, const struct g_seen *g, struct regs *r)
{
	const struct view_row *row = view_row(v, "sigsave", "uc");
	greg_t regs[NGREG];
	uint64_t uc;

	if (!row || !mem_read(v->mem, g->frame + row->at, &uc, sizeof(uc)) ||
	    !mem_read(v->mem, uc + offsetof(ucontext_t, uc_mcontext.gregs), regs, sizeof(regs)))
		return false;
	*r = (struct regs){
		.rip = (uint64_t)regs[REG_RIP],
		.rsp = (uint64_t)regs[REG_RSP],
		.rbp = (uint64_t)regs[REG_RBP],
		.rbx = (uint64_t)regs[REG_RBX],
		.r12 = (uint64_t)regs[REG_R12],
		.r13 = (uint64_t)regs[REG_R13],
		.r14 = (uint64_t)regs[REG_R14],
		.r15 = (uint64_t)regs[REG_R15],
		.exact = true,
	};
	return true;
}

/* ---- those that run ---- */

static const char ran_on[] = "it ran on meanwhile";

/* Calls that end with EINTR, and are not begun again by the kernel, when their thread is stopped,
 * if only for an instant. Programs that know no signals do not expect it. */
static bool is_delicate(long nr)
{
	static const long calls[] = {
		SYS_epoll_wait, SYS_epoll_pwait,     SYS_epoll_pwait2, SYS_semop,
		SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents, SYS_io_uring_enter,
		SYS_recvfrom,	SYS_recvmsg,	     SYS_recvmmsg,     SYS_accept,
		SYS_accept4,	SYS_connect,	     SYS_sendto,       SYS_sendmsg,
	};

	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i] == nr)
			return true;
	return false;
}

/* "nr arguments... sp pc", of a thread that sleeps in a call. */
enum { CALL_TEXT = 256 };
static void call_text(pid_t pid, pid_t tid, char text[CALL_TEXT])
{
	char path[64];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, CALL_TEXT - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
}

/* Announced: by heddle, which makes this one again if no handler of the program's ended it. */
static bool in_delicate_call(const char *text, bool announced, struct regs *r)
{
	unsigned long long sp, pc;
	long nr;

	if (sscanf(text, "%ld %*s %*s %*s %*s %*s %*s %llx %llx", &nr, &sp, &pc) != 3 ||
	    !is_delicate(nr) || (announced && nr == SYS_rt_sigtimedwait))
		return false;
	*r = (struct regs){ .rip = pc, .rsp = sp, .exact = true };
	return true;
}

/* Waits until it has stopped, which one deep in the kernel may never do, and one that others keep
 * from the cpu does late: two seconds and a half. */
static bool await_stop(struct held *held)
{
	static const struct timespec nap = { 0, 200 * 1000 };
	enum { NAPS = 10000 };
	int status;

	for (int i = 0; i < NAPS; i++) {
		pid_t r = waitpid(held->tid, &status, __WALL | WNOHANG);
		if (r == held->tid) {
			if (!WIFSTOPPED(status))
				return false;
			held->sig = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
			return true;
		}
		if (r < 0)
			return false;
		nanosleep(&nap, NULL);
	}
	return false;
}

static const char *stop(struct held *held, pid_t tid, struct regs *r)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return errno == ESRCH ? "its kernel thread has ended"
				      : "its kernel thread may not be traced, or is already";
	held->tid = tid;
	held->sig = 0;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || !await_stop(held))
		return "its kernel thread does not stop";
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return "its registers cannot be read";
	*r = (struct regs){
		.rip = regs.rip,
		.rsp = regs.rsp,
		.rbp = regs.rbp,
		.rbx = regs.rbx,
		.r12 = regs.r12,
		.r13 = regs.r13,
		.r14 = regs.r14,
		.r15 = regs.r15,
		.exact = true,
	};
	return NULL;
}

void regs_done(const struct held *held)
{
	if (held->tid != 0)
		ptrace(PTRACE_DETACH, held->tid, NULL, (void *)(intptr_t)held->sig);
}

/* The G that m runs, or is on its way to. */
static uint64_t curg_of(const struct view *v, const struct m_seen *m)
{
	const struct view_row *row = view_row(v, "m", "curg");
	uint64_t g = 0;

	mem_fresh(v->mem);
	if (!row || !mem_read(v->mem, m->at + row->at, &g, sizeof(g)))
		return 0;
	return g;
}

static bool within(uint64_t at, uint64_t lo, uint64_t hi)
{
	return at >= lo && at < hi;
}

/* On a stack that is the scheduler's, or another G's. On one of the program's own making it is not:
 * of those nothing is known. */
static bool on_anothers_stack(const struct scene *s, const struct g_seen *g, const struct m_seen *m,
			      uint64_t sp)
{
	if (within(sp, g->stacklo, g->stackhi))
		return false;
	if (within(sp, m->g0lo, m->g0hi))
		return true;
	for (int i = 0; i < s->ngs; i++)
		if (within(sp, s->gs[i].stacklo, s->gs[i].stackhi))
			return true;
	return false;
}

static const char *saved(const struct view *v, const struct g_seen *g, struct regs *r)
{
	if (g->frame != 0)
		return preempted(v, g, r) ? NULL : "its signal frame cannot be read";
	return parked(v, g, r) ? NULL : "its context cannot be read";
}

static const char *running(const struct view *v, const struct scene *s, struct g_seen *g,
			   struct regs *r, struct held *held)
{
	const struct m_seen *m = scene_m(s, g->m);
	const char *status = view_name(v, "gstatus", scene_status(v, g)), *why;
	char text[CALL_TEXT], again[CALL_TEXT];
	uint64_t curg;
	pid_t tid = m ? view_tid(v, m->tid) : 0;

	if (tid == 0)
		return "it has no kernel thread that can be found from here";
	call_text(v->pid, tid, text);
	if (in_delicate_call(text, strncmp(status, "syscall", 7) == 0, r)) {
		/* It is not held: only if it sleeps in the same call still it was that G's. */
		curg = curg_of(v, m);
		call_text(v->pid, tid, again);
		return curg == g->at && strcmp(text, again) == 0 ? NULL : ran_on;
	}
	why = stop(held, tid, r);
	if (why)
		return why;
	/* What was read of memory is older than these registers. */
	curg = curg_of(v, m);
	if (!scene_again(v, g) || g->m != m->at)
		return ran_on;
	if (on_anothers_stack(s, g, m, r->rsp))
		return saved(v, g, memset(r, 0, sizeof(*r)));
	return curg == g->at || within(r->rsp, g->stacklo, g->stackhi) ? NULL : ran_on;
}

static const char *regs_once(const struct view *v, const struct scene *s, struct g_seen *g,
			     struct regs *r, struct held *held)
{
	memset(r, 0, sizeof(*r));
	*held = (struct held){ 0, 0 };
	return g->m != 0 ? running(v, s, g, r, held) : saved(v, g, r);
}

const char *regs_of(const struct view *v, const struct scene *s, struct g_seen *g, struct regs *r,
		    struct held *held)
{
	enum { TRIES = 10 };
	const char *why = regs_once(v, s, g, r, held);

	for (int i = 0; i < TRIES && why == ran_on; i++) {
		regs_done(held);
		if (!scene_again(v, g))
			break;
		why = regs_once(v, s, g, r, held);
	}
	return why;
}
