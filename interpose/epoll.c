/* epoll_wait: the program's epoll is itself a descriptor that ours can watch; but of one with files
 * whose polls take what they tell the kernel is the only one to ask. */
#include "io.h"
#include "poll.h"
#include "user.h"

struct epoll_call {
	int fd;
	struct epoll_event *events;
	int max;
};

static long epoll_look(const struct epoll_call *c, const struct patience *p)
{
	long r;

	do
		r = arch_syscall4(SYS_epoll_wait, c->fd, (long)c->events, c->max, 0);
	while (r == -EINTR && !interrupted(p));
	return r;
}

static long epoll_blocking(const struct epoll_call *c, const struct patience *p)
{
	uint64_t ms = p->forever ? 0 : (left_of(p) + 999999) / 1000000;
	int timeout = p->forever ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
	long r;

	cancel_blocks(thread_self());
	r = arch_syscall4(SYS_epoll_wait, c->fd, (long)c->events, c->max, timeout);
	cancel_unblocks(thread_self());
	return r;
}

static long epoll_for(struct epoll_call *c, const struct patience *p)
{
	struct waits s __attribute__((cleanup(waits_done)));
	long r;

	waits_room(&s, 1);
	*s.w = (struct pollwait){ .fd = c->fd, .dirs = 1 << POLL_READ, .alone = true };
	do {
		netpoll_tickets(s.w, 1);
		r = epoll_look(c, p);
		if (r != 0 || p->never)
			return r;
		if (unlikely(fd_mute(c->fd)))
			return epoll_blocking(c, p);
		r = doze(s.w, 1, p);
		c->fd = s.w->fd;
	} while (r == 0);
	if (r == -EINTR || r == -EBADF)
		return r;
	/* As the kernel, once more; or ours cannot watch it. */
	return r == -ETIMEDOUT ? epoll_look(c, p) : epoll_blocking(c, p);
}

static long epoll_masked(struct epoll_call *c, struct patience *p, const sigset_t *set)
{
	long r = mask_there(set);

	if (r == 0 && set) {
		r = epoll_look(c, p);
		/* Where it is not to wait the kernel does not look for signals. */
		if (p->never)
			return r;
	}
	if (r != 0)
		return r;
	masked(set, p);
	return unmasked(p, let_in(p) ? -EINTR : epoll_for(c, p));
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	struct thread *t = io_self();
	struct epoll_call c = { fd, events, max };
	struct patience p;
	long r;

	if (!t)
		return real_table.epoll_wait(fd, events, max, timeout);
	cancel_point();
	p = for_ms(timeout);
	r = epoll_for(&c, &p);
	looked(t);
	return (int)io_answer(r);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout,
		       const sigset_t *set)
{
	struct thread *t = io_self();
	struct epoll_call c = { fd, events, max };
	struct patience p;
	long r;

	if (!t)
		return real_table.epoll_pwait(fd, events, max, timeout, set);
	cancel_point();
	p = for_ms(timeout);
	r = epoll_masked(&c, &p, set);
	looked(t);
	return (int)io_answer(r);
}

/* epoll_pwait2 is of glibc 2.35. */
EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int max, const struct timespec *timeout,
			const sigset_t *set)
{
	struct thread *t = io_self();
	struct epoll_call c = { fd, events, max };
	struct patience p;
	long r;

	if (!t)
		return (int)io_answer(arch_syscall6(SYS_epoll_pwait2, fd, (long)events, max,
						    (long)timeout, (long)set, 8));
	cancel_point();
	if (timeout && user_readable(timeout, sizeof(*timeout)) != 0)
		return (int)io_answer(-EFAULT);
	if (!for_timespec(&p, timeout))
		return (int)io_answer(-EINVAL);
	r = epoll_masked(&c, &p, set);
	looked(t);
	return (int)io_answer(r);
}

static void left_to_the_kernel(int set)
{
	fd_learn(set, POLL_WRITE, ROAD_MUTE);
	netpoll_leave(set);
}

EXPORT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	bool takes, leaves;
	long r;

	if (!served())
		return real_table.epoll_ctl(set, op, fd, event);
	takes = op == EPOLL_CTL_ADD && (netpoll_takes(fd) || fd_mute(fd));
	leaves = takes && !fd_mute(set);
	/* Before it is there. */
	if (takes)
		netpoll_taken();
	if (leaves)
		left_to_the_kernel(set);
	r = arch_syscall4(SYS_epoll_ctl, set, op, fd, (long)event);
	/* With ours above it there may be one too many. */
	if (op == EPOLL_CTL_ADD && (r == -EINVAL || r == -ELOOP) && netpoll_known(set)) {
		leaves = true;
		left_to_the_kernel(set);
		r = arch_syscall4(SYS_epoll_ctl, set, op, fd, (long)event);
	}
	if (leaves && r != 0)
		fd_learn(set, POLL_WRITE, ROAD_UNKNOWN);
	return (int)io_answer(r);
}
