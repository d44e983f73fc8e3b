/* Registers: from the saved context of a G that waits, from the signal frame of one that was
 * preempted, from the kernel of one that runs. */
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

/* "nr arguments... sp pc", of a thread that sleeps in a call. Announced: by heddle, which makes
 * this one again if no handler of the program's ended it. */
static bool in_delicate_call(pid_t pid, pid_t tid, bool announced, struct regs *r)
{
	char path[64], text[256];
	unsigned long long sp, pc;
	ssize_t n;
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
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

static const char *running(const struct view *v, const struct scene *s, const struct g_seen *g,
			   struct regs *r, struct held *held)
{
	const struct m_seen *m = scene_m(s, g->m);
	const struct view_row *curg = view_row(v, "m", "curg");
	const char *status = view_name(v, "gstatus", scene_status(v, g)), *why;
	uint64_t now = 0;
	pid_t tid = m ? view_tid(v, m->tid) : 0;

	if (tid == 0)
		return "it has no kernel thread that can be found from here";
	if (in_delicate_call(v->pid, tid, strncmp(status, "syscall", 7) == 0, r))
		return NULL;
	why = stop(held, tid, r);
	if (why)
		return why;
	/* What was read of memory is older than these registers. */
	mem_fresh(v->mem);
	if (!curg || !mem_read(v->mem, m->at + curg->at, &now, sizeof(now)) || now != g->at)
		return ran_on;
	return NULL;
}

static const char *regs_once(const struct view *v, const struct scene *s, const struct g_seen *g,
			     struct regs *r, struct held *held)
{
	memset(r, 0, sizeof(*r));
	*held = (struct held){ 0, 0 };
	if (g->m != 0)
		return running(v, s, g, r, held);
	if (g->frame != 0)
		return preempted(v, g, r) ? NULL : "its signal frame cannot be read";
	return parked(v, g, r) ? NULL : "its context cannot be read";
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
