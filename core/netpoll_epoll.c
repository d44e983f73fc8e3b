/* The poller's backend on epoll, edge-triggered: a descriptor is added once for each
 * direction that somebody waits for, and no call is needed for a wait after that. */
#include <asm/statfs.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <string.h>

#include "early.h"
#include "fault.h"
#include "filters.h"
#include "os.h"
#include "poller.h"
#include "sched.h"
#include "syscall.h"
#include "text.h"

enum {
	BREAK = -1, /* data of the eventfd */
	CLOCK_SET = -2, /* data of the timerfd */
	EAGAIN_ = 11,
	EPERM_ = 1,
	EEXIST_ = 17,
	EINVAL_ = 22,
	ENOENT_ = 2,
	ENOSYS_ = 38,
	MAX_EVENTS = 128,
	F_DUPFD_CLOEXEC_ = 1030,
	RLIMIT_NOFILE_ = 7,
	USUAL_FILES = 1024, /* that limit, where nobody changed it */
	OURS_FROM_TOP = 32,
	EFD_FLAGS = 02004000, /* CLOEXEC | NONBLOCK */
	EVENT_BITS = 0xffff, /* the events of epoll that poll has, too */
	POLLNVAL_ = 32,
	POLL_AT_ONCE = 64,
};

/* A descriptor of ours: its number in the program's table, and in sysmon's own, which
 * brings it there when it first needs it. */
struct ours {
	ATOMIC(int) fd;
	int sysmons;
};

static struct ours epoll = { -1, -1 }, event = { -1, -1 }, clock = { -1, -1 };
FORKED static ATOMIC(uint32_t) begun; /* to watch the clock */
static ATOMIC(bool) no_pwait2;
FORKED static ATOMIC(bool) broken; /* a break is under way; cleared when it is read */

/* A descriptor of ours stays out of the program's way: programs expect the lowest free
 * number from open, and some close all low ones. But no higher than that: each fork copies a table
 * as large as its highest number, and who closes a range walks through it. */
static int copy_high(int fd)
{
	uint64_t limit[2] = { 0, 0 };
	long high = -1;

	arch_syscall4(__NR_prlimit64, 0, RLIMIT_NOFILE_, 0, (long)limit);
	if (limit[0] > 2 * OURS_FROM_TOP) {
		long top = limit[0] > USUAL_FILES ? USUAL_FILES : (long)limit[0];
		long from = top - OURS_FROM_TOP;
		high = arch_syscall3(__NR_fcntl, fd, F_DUPFD_CLOEXEC_, from);
	}
	return (int)high;
}

static int move_high(int fd)
{
	int high = copy_high(fd);

	if (high < 0)
		return fd;
	arch_syscall3(__NR_close, fd, 0, 0);
	return high;
}

/* A table that grows stays as large. */
static void epoll_room(void)
{
	long fd = arch_syscall3(__NR_eventfd2, 0, EFD_FLAGS, 0);

	if (fd >= 0)
		arch_syscall3(__NR_close, move_high((int)fd), 0, 0);
}

static int here(struct ours *o)
{
	if (!on_sysmon())
		return ld_rlx(&o->fd);
	if (o->sysmons < 0)
		o->sysmons = os_fetchfd(ld_rlx(&o->fd));
	return o->sysmons;
}

static int ctl(int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data = data };
	return (int)arch_syscall4(__NR_epoll_ctl, ld_rlx(&epoll.fd), op, fd, (long)&ev);
}

static int epoll_init(void)
{
	long ep = fault(FAULT_EPOLL), ev;
	int r;

	if (ep == 0)
		ep = arch_syscall3(__NR_epoll_create1, EPOLL_CLOEXEC, 0, 0);
	if (ep < 0)
		return (int)ep;
	ev = fault(FAULT_EPOLL);
	if (ev == 0)
		ev = arch_syscall3(__NR_eventfd2, 0, EFD_FLAGS, 0);
	if (ev < 0) {
		arch_syscall3(__NR_close, ep, 0, 0);
		return (int)ev;
	}
	st_rlx(&epoll.fd, move_high((int)ep));
	st_rlx(&event.fd, move_high((int)ev));
	r = ctl(EPOLL_CTL_ADD, ld_rlx(&event.fd), EPOLLIN, (uint64_t)BREAK);
	if (r < 0) {
		arch_syscall3(__NR_close, ld_rlx(&epoll.fd), 0, 0);
		arch_syscall3(__NR_close, ld_rlx(&event.fd), 0, 0);
	}
	return r;
}

static uint32_t events_of(uint8_t dirs)
{
	static const uint32_t of_dir[2] = { EPOLLIN | EPOLLRDHUP | EPOLLPRI, EPOLLOUT };
	uint32_t events = EPOLLET;

	for (int dir = 0; dir < 2; dir++)
		if (dirs >> dir & 1)
			events |= of_dir[dir];
	return events;
}

/* The program has sets with such in them. Which are those, and which have one of those in them, by
 * whatever number, nobody keeps: all sets are taken for such from then on. */
static ATOMIC(bool) insets;

static bool is_taker(const char *name, size_t len)
{
	static const char perf[] = "anon_inode:[perf_event]", set[] = "anon_inode:[eventpoll]";

	return (len == sizeof(perf) - 1 && memcmp(name, perf, len) == 0) ||
	       (ld_sc(&insets) && len == sizeof(set) - 1 && memcmp(name, set, len) == 0);
}

/* Of regular files hardly any others have a poll: who tries to have one in a set is refused. */
static bool is_kernels(int fd)
{
	struct statfs fs;

	if (arch_syscall3(__NR_fstatfs, fd, (long)&fs, 0) != 0)
		return false;
	switch (fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/* As those of the kernel's own files do, and of perf's events. */
bool netpoll_takes(int fd)
{
	char path[32], name[32];
	struct text t = TEXT(path);
	struct statx st;
	bool takes = false;

	if (!filters_look())
		return false;
	if (arch_syscall6(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE, (long)&st, 0) == 0) {
		uint32_t type = st.stx_mode & S_IFMT;
		text_put(&t, "/proc/self/fd/");
		text_num(&t, fd);
		takes = type == S_IFREG && is_kernels(fd);
		if (type == 0) {
			long n = arch_syscall3(__NR_readlink, (long)path, (long)name, sizeof(name));
			takes = n > 0 && is_taker(name, (size_t)n);
		}
	}
	filters_looked();
	return takes;
}

/* Who registers one just now has its lock, and is seen, or looks after us. */
void netpoll_taken(void)
{
	static ATOMIC(bool) done;

	if (ld_acq(&done))
		return;
	/* Before the end is asked for. Two may be at it: neither goes on before all have been seen.
	 * done: release, for the acquire above: who finds it finds insets, too, and none watched.
	 */
	st_sc(&insets, true);
	for (int fd = 0, end = netpoll_end(); fd < end; fd++)
		if (netpoll_takes(fd))
			netpoll_leave(fd);
	st_rel(&done, true);
}

static int epoll_add(int fd, uint8_t dirs, bool known, uint64_t data)
{
	uint32_t events = events_of(dirs);
	int r;

	if (!known && netpoll_takes(fd))
		return -EPERM_;
	/* MOD tells whether (fd, open file) is there, and looks anew at its readiness. */
	r = ctl(known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, events, data);

	if (r == (known ? -ENOENT_ : -EEXIST_))
		r = ctl(known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, events, data);
	return r;
}

static void epoll_forget(int fd)
{
	ctl(EPOLL_CTL_DEL, fd, 0, 0);
}

/* So does ADD, which does not look. */
static int epoll_sure(int fd, uint8_t dirs, uint64_t data)
{
	int r = ctl(EPOLL_CTL_ADD, fd, events_of(dirs), data);

	if (r == 0 && netpoll_takes(fd)) {
		epoll_forget(fd);
		return -EPERM_;
	}
	return r == -EEXIST_ ? 0 : r;
}

static bool any_ready(const struct pollwait *w, int n)
{
	struct {
		int fd;
		short events, revents;
	} p[POLL_AT_ONCE];
	long r;

	for (int i = 0; i < n; i++) {
		p[i].fd = w[i].pd && !w[i].turns ? w[i].fd : -1;
		p[i].events = (short)(events_of(w[i].dirs) & EVENT_BITS);
	}
	r = arch_syscall3(__NR_poll, (long)p, n, 0);
	for (int i = 0; r > 0 && i < n; i++)
		if (p[i].revents & ~POLLNVAL_)
			return true;
	return false;
}

static bool epoll_ready(const struct pollwait *w, int n)
{
	bool is = false;

	if (!filters_look())
		return false;
	for (int i = 0; i < n && !is; i += POLL_AT_ONCE)
		is = any_ready(w + i, n - i < POLL_AT_ONCE ? n - i : POLL_AT_ONCE);
	filters_looked();
	return is;
}

static long wait_any(struct epoll_event *ev, int n, int64_t ns)
{
	int64_t ts[2] = { ns / 1000000000, ns % 1000000000 };
	int epfd = here(&epoll);

	if (!ld_rlx(&no_pwait2)) {
		long r = arch_syscall6(__NR_epoll_pwait2, epfd, (long)ev, n, ns < 0 ? 0 : (long)ts,
				       0, 8);
		if (r != -ENOSYS_)
			return r;
		st_rlx(&no_pwait2, true);
	}
	/* Milliseconds, rounded up: early would be a busy loop. */
	return arch_syscall6(__NR_epoll_pwait, epfd, (long)ev, n,
			     ns < 0 ? -1 : (long)((ns + 999999) / 1000000), 0, 8);
}

/* A timer that is never due, but is cancelled when the clock is set. */
static void arm_clock(int fd)
{
	enum { ABSTIME = 1, CANCEL_ON_SET = 2 };
	static const int64_t never[4] = { 0, 0, INT64_MAX / 2000000000, 0 };

	arch_syscall4(__NR_timerfd_settime, fd, ABSTIME | CANCEL_ON_SET, (long)never, 0);
}

static void epoll_watchclock(void)
{
	long fd;

	if (ld_rlx(&begun) || !cas_rlx(&begun, 0, 1))
		return;
	fd = arch_syscall3(__NR_timerfd_create, 0, EFD_FLAGS, 0);
	if (fd < 0)
		return;
	fd = move_high((int)fd);
	st_rlx(&clock.fd, (int)fd);
	arm_clock((int)fd);
	ctl(EPOLL_CTL_ADD, (int)fd, EPOLLIN | EPOLLET, (uint64_t)CLOCK_SET);
}

static void clock_was_set(void)
{
	uint64_t drop;
	int fd = here(&clock);

	arch_syscall3(__NR_read, fd, (long)&drop, sizeof(drop));
	arm_clock(fd);
	timers_clockset();
}

static int epoll_wait_events(struct pollevent *to, int n, int64_t ns)
{
	struct epoll_event ev[MAX_EVENTS];
	long got = wait_any(ev, n < MAX_EVENTS ? n : MAX_EVENTS, ns);
	int k = 0;

	for (long i = 0; i < got; i++) {
		uint32_t e = ev[i].events;
		if (ev[i].data == (uint64_t)BREAK) {
			uint64_t drop;
			/* Only a blocking poll is what the break is for: one that merely
			 * looked must leave it for the M that blocks. */
			if (ns != 0) {
				arch_syscall3(__NR_read, here(&event), (long)&drop, sizeof(drop));
				st_sc(&broken, false);
			}
			continue;
		}
		if (ev[i].data == (uint64_t)CLOCK_SET) {
			clock_was_set();
			continue;
		}
		to[k].data = ev[i].data;
		to[k].dir[POLL_READ] = (e & (EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLHUP |
					     EPOLLERR)) != 0;
		to[k].dir[POLL_WRITE] = (e & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
		k++;
	}
	return k;
}

static bool epoll_wake(void)
{
	uint64_t one = 1;

	/* One write is enough for any number of breaks before the poll returns. */
	if (xchg_sc(&broken, true) ||
	    arch_syscall3(__NR_write, here(&event), (long)&one, sizeof(one)) == sizeof(one))
		return true;
	st_sc(&broken, false);
	return false;
}

static struct ours *const all[] = { &epoll, &event, &clock };
enum { ALL = sizeof(all) / sizeof(*all) };

static int epoll_own(int from)
{
	int first = -1;

	for (int i = 0; i < ALL; i++) {
		int fd = ld_rlx(&all[i]->fd);
		if (fd >= from && fd >= 0 && (first < 0 || fd < first))
			first = fd;
	}
	return first;
}

/* Who is about to use the old number finds, if the program is faster, what that puts there: there
 * is no waiting for him that is worth its price. */
static int epoll_leaves(int fd)
{
	for (int i = 0; i < ALL; i++) {
		int to;
		if (fd < 0 || ld_rlx(&all[i]->fd) != fd)
			continue;
		to = copy_high(fd);
		if (to < 0)
			to = (int)arch_syscall3(__NR_fcntl, fd, F_DUPFD_CLOEXEC_, 0);
		if (to < 0)
			return to;
		if (!cas_sc(&all[i]->fd, fd, to))
			arch_syscall3(__NR_close, to, 0, 0);
	}
	return 0;
}

FORKS static void epoll_forked(void)
{
	for (int i = 0; i < ALL; i++) {
		if (ld_rlx(&all[i]->fd) >= 0)
			arch_syscall3(__NR_close, ld_rlx(&all[i]->fd), 0, 0);
		st_rlx(&all[i]->fd, -1);
		all[i]->sysmons = -1;
	}
	st_rlx(&begun, 0);
	st_rlx(&broken, false);
}

const struct pollbackend poll_epoll = {
	.room = epoll_room,
	.init = epoll_init,
	.add = epoll_add,
	.sure = epoll_sure,
	.ready = epoll_ready,
	.forget = epoll_forget,
	.wait = epoll_wait_events,
	.wake = epoll_wake,
	.watchclock = epoll_watchclock,
	.own = epoll_own,
	.leaves = epoll_leaves,
	.forked = epoll_forked,
};
