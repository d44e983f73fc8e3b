/* poll, and what it shares with select.c and epoll.c: look without waiting, park for an event
 * on any of the descriptors, look again. What the poller cannot watch is left to the kernel,
 * announced. */
#include "poll.h"

#include <string.h>

#include "io.h"
#include "os.h"
#include "signals.h"
#include "user.h"

/* ---- how long ---- */

struct patience for_ever(void)
{
	struct patience p = { .forever = true, .handled = ld_rlx(&thread_self()->handled) };

	return p;
}

static struct patience for_ns(uint64_t ns)
{
	struct patience p = { .never = ns == 0, .handled = ld_rlx(&thread_self()->handled) };

	p.until.clock = CLOCK_MONOTONIC;
	if (ns != 0) {
		uint64_t now = nanotime();
		p.until.at = ns > INT64_MAX - now ? INT64_MAX : now + ns;
	}
	return p;
}

struct patience for_ms(int ms)
{
	return ms < 0 ? for_ever() : for_ns((uint64_t)ms * 1000000);
}

bool for_timespec(struct patience *p, const struct timespec *t)
{
	if (!t) {
		*p = for_ever();
		return true;
	}
	if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= NSEC)
		return false;
	*p = (uint64_t)t->tv_sec >= INT64_MAX / NSEC
		     ? for_ever()
		     : for_ns((uint64_t)t->tv_sec * NSEC + (uint64_t)t->tv_nsec);
	return true;
}

uint64_t left_of(const struct patience *p)
{
	uint64_t now = nanotime();

	return p->until.at > now ? p->until.at - now : 0;
}

bool interrupted(const struct patience *p)
{
	return ld_rlx(&thread_self()->handled) != p->handled;
}

/* ---- the mask of pselect and kin ---- */

long mask_there(const sigset_t *set)
{
	return set && user_readable(set, SIGSET_BYTES) != 0 ? -EFAULT : 0;
}

void masked(const sigset_t *set, struct patience *p)
{
	struct thread *t = thread_self();
	uint64_t mask;

	if (!set)
		return;
	memcpy(&mask, set, sizeof(mask));
	p->masked = true;
	st_rlx(&t->awaits_any, true);
	t->unmasked = gmask();
	/* Before a handler runs: what has been pending is handled now. */
	st_rlx(&t->masked, true);
	signals_return(mask);
}

bool let_in(const struct patience *p)
{
	return p->masked && interrupted(p);
}

long unmasked(const struct patience *p, long r)
{
	struct thread *t = thread_self();

	if (!p->masked)
		return r;
	st_rlx(&t->masked, false);
	signals_return(t->unmasked);
	st_rlx(&t->awaits_any, false);
	return r == 0 && let_in(p) ? -EINTR : r;
}

/* ---- sleeping ---- */

/* It is one of its users now. */
static void takes_standin(struct pollwait *w)
{
	if (w->standin)
		standin_done(&w->fd);
	w->fd = w->moved;
	w->standin = true;
	standin_use(&w->fd);
}

long doze(struct pollwait *w, int n, const struct patience *p)
{
	struct thread *t = thread_self();
	long r;

	if (n > 0 && t->ownfiles)
		return -EPERM;
	/* It is no mere look: see looked. */
	t->points++;
	cancel_begin();
	alert(t);
	r = interrupted(p) ? -EINTR : netpoll_waitany(w, n, p->forever ? NULL : &p->until);
	st_rlx(&t->alert, false);
	st_rlx(&t->interruptible, 0);
	for (int i = 0; i < n; i++)
		if (unlikely(w[i].moved >= 0) && (r == -ESTALE || !w[i].alone))
			takes_standin(&w[i]);
	if (r == -ESTALE)
		r = w->alone && w->moved < 0 ? -EBADF : 0;
	if (r == 0)
		signals_pull();
	if (r == 0 && let_in(p))
		r = -EINTR;
	if (r != -EINTR)
		return r;
	cancel_point();
	return interrupted(p) ? -EINTR : 0;
}

void looked(struct thread *t)
{
	bool again = t->points == t->lookpoint + 1;

	t->lookpoint = t->points;
	core_looked(again);
}

/* Who is told that there is nothing, and asks again, waits so, too. */
long io_failed(long r)
{
	struct thread *t = r == -EAGAIN ? io_self() : NULL;

	if (t)
		looked(t);
	errno = (int)-r;
	return -1;
}

bool waits_room(struct waits *s, size_t n)
{
	s->n = 0;
	s->w = s->few;
	if (n > FEW) {
		s->w = os_reserve(n * sizeof(*s->w));
		if (os_failed(s->w))
			s->w = NULL;
	}
	if (s->w)
		s->n = (int)n;
	return s->w != NULL;
}

void waits_done(struct waits *s)
{
	for (int i = 0; i < s->n; i++)
		if (unlikely(s->w[i].standin))
			standin_done(&s->w[i].fd);
	if (s->n > FEW)
		os_release(s->w, (size_t)s->n * sizeof(*s->w));
}

bool waits_closed(const struct waits *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->w[i].standin)
			return true;
	return false;
}

bool waits_due(const struct waits *s)
{
	for (int i = 0; i < s->n; i++) {
		struct pollfd p = { .fd = s->w[i].fd, .events = s->w[i].events };
		if (arch_syscall3(SYS_poll, (long)&p, 1, 0) == 1)
			return true;
	}
	return false;
}

/* ---- poll ---- */

static long look_poll(struct pollfd *fds, nfds_t n, const struct patience *p)
{
	long r;

	do
		r = arch_syscall3(SYS_poll, (long)fds, (long)n, 0);
	while (r == -EINTR && !interrupted(p));
	return r;
}

static void wait_for_pollfd(struct pollwait *w, const struct pollfd *fd)
{
	enum { READS = POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND | POLLRDHUP };
	enum { WRITES = POLLOUT | POLLWRNORM | POLLWRBAND };
	uint8_t dirs = 0;

	if (fd->events & READS)
		dirs |= 1 << POLL_READ;
	if (fd->events & WRITES)
		dirs |= 1 << POLL_WRITE;
	*w = (struct pollwait){ .fd = fd->fd,
				.dirs = dirs ? dirs : 1 << POLL_READ,
				.events = fd->events };
}

/* The fds have passed the kernel's eyes once. */
static long sleep_poll(struct pollfd *fds, nfds_t n, const struct patience *p)
{
	struct waits s __attribute__((cleanup(waits_done)));
	long r;

	if (!waits_room(&s, n))
		return -ENOMEM;
	for (nfds_t i = 0; i < n; i++)
		wait_for_pollfd(&s.w[i], &fds[i]);
	do {
		netpoll_tickets(s.w, s.n);
		r = waits_closed(&s) && !waits_due(&s) ? 0 : look_poll(fds, n, p);
		if (r != 0)
			break;
		r = doze(s.w, s.n, p);
	} while (r == 0);
	return r;
}

static long poll_for(struct pollfd *fds, nfds_t n, const struct patience *p)
{
	long r = look_poll(fds, n, p);
	struct timespec t;

	if (r != 0 || p->never)
		return r;
	r = sleep_poll(fds, n, p);
	/* As the kernel, once more. */
	if (r == -ETIMEDOUT)
		return look_poll(fds, n, p);
	if (r >= 0 || r == -EINTR)
		return r;
	if (!p->forever) {
		uint64_t left = left_of(p);
		t.tv_sec = (time_t)(left / NSEC);
		t.tv_nsec = (long)(left % NSEC);
	}
	cancel_blocks(thread_self());
	r = arch_syscall6(SYS_ppoll, (long)fds, (long)n, p->forever ? 0 : (long)&t, 0, 8, 0);
	cancel_unblocks(thread_self());
	return r;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct thread *t = io_self();
	struct patience p;
	long r;

	if (!t)
		return real_table.poll(fds, n, timeout);
	cancel_point();
	p = for_ms(timeout);
	r = poll_for(fds, n, &p);
	looked(t);
	return (int)io_answer(r);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *set)
{
	struct thread *t = io_self();
	struct patience p;
	long r;

	if (!t)
		return real_table.ppoll(fds, n, timeout, set);
	cancel_point();
	if (!for_timespec(&p, timeout)) {
		errno = EINVAL;
		return -1;
	}
	r = mask_there(set);
	if (r == 0 && set)
		r = look_poll(fds, n, &p);
	if (r == 0) {
		masked(set, &p);
		r = unmasked(&p, let_in(&p) ? -EINTR : poll_for(fds, n, &p));
	}
	looked(t);
	return (int)io_answer(r);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	served();
	return n > room / sizeof(*fds) ? real_table.__poll_chk(fds, n, timeout, room)
				       : poll(fds, n, timeout);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		       const sigset_t *set, size_t room)
{
	served();
	return n > room / sizeof(*fds) ? real_table.__ppoll_chk(fds, n, timeout, set, room)
				       : ppoll(fds, n, timeout, set);
}

SAME(__poll, poll);
