/* select, as poll.c has it. The kernel overwrites the sets, so what was asked is kept. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "io.h"
#include "poll.h"

typedef unsigned long word;
enum { WORD_BITS = 8 * sizeof(word), SETS = 3 };

/* The program's sets, which the kernel overwrites, and copies of what was asked. */
struct sets {
	int n;
	size_t words;
	word *theirs[SETS];
	word asked[SETS][FD_SETSIZE / WORD_BITS];
};

/* What is asked, of memory that the program says is there. 0 or -EFAULT. */
static long copy_in(struct sets *s)
{
	struct iovec here[SETS], there[SETS];
	size_t len = s->words * sizeof(word);
	long r, want = 0;
	int n = 0;

	for (int k = 0; k < SETS; k++) {
		if (!s->theirs[k])
			continue;
		here[n] = (struct iovec){ s->asked[k], len };
		there[n++] = (struct iovec){ s->theirs[k], len };
		want += (long)len;
	}
	if (want == 0)
		return 0;
	r = arch_syscall6(SYS_process_vm_readv, getpid(), (long)here, n, (long)there, n, 0);
	if (r == want)
		return 0;
	if (r != -EPERM && r != -ENOSYS)
		return -EFAULT;
	for (int k = 0; k < SETS; k++)
		if (s->theirs[k])
			memcpy(s->asked[k], s->theirs[k], len);
	return 0;
}

static void ask_again(const struct sets *s)
{
	for (int k = 0; k < SETS; k++)
		if (s->theirs[k])
			memcpy(s->theirs[k], s->asked[k], s->words * sizeof(word));
}

static long look_select(const struct sets *s, const struct patience *p)
{
	long r;

	do {
		struct timespec t = { 0, 0 };
		r = arch_syscall6(SYS_pselect6, s->n, (long)s->theirs[0], (long)s->theirs[1],
				  (long)s->theirs[2], (long)&t, 0);
	} while (r == -EINTR && !interrupted(p));
	return r;
}

static bool in_set(const struct sets *s, int k, int fd)
{
	return s->theirs[k] && (s->asked[k][(size_t)fd / WORD_BITS] >> (size_t)fd % WORD_BITS & 1);
}

static short events_of(const struct sets *s, int fd)
{
	return (short)((in_set(s, 0, fd) ? POLLIN | POLLRDNORM | POLLRDBAND : 0) |
		       (in_set(s, 1, fd) ? POLLOUT | POLLWRNORM | POLLWRBAND : 0) |
		       (in_set(s, 2, fd) ? POLLPRI : 0));
}

/* Fills in w what is to be waited for, if w is not NULL. Returns how many. */
static int waits_of(const struct sets *s, struct pollwait *w)
{
	int n = 0;

	for (int fd = 0; fd < s->n; fd++) {
		uint8_t dirs = 0;
		if (in_set(s, 0, fd) || in_set(s, 2, fd))
			dirs |= 1 << POLL_READ;
		if (in_set(s, 1, fd))
			dirs |= 1 << POLL_WRITE;
		if (!dirs)
			continue;
		if (w)
			w[n] = (struct pollwait){ .fd = fd,
						  .dirs = dirs,
						  .events = events_of(s, fd) };
		n++;
	}
	return n;
}

/* As look_select, when some were closed since the call began: these are ready, in all sets. */
static long look_beside_closed(const struct sets *s, const struct patience *p)
{
	struct sets open = *s, closed = *s;
	long r, n = 0;

	memset(closed.asked, 0, sizeof(closed.asked));
	for (int fd = 0; fd < s->n; fd++) {
		size_t at = (size_t)fd / WORD_BITS;
		word bit = (word)1 << (size_t)fd % WORD_BITS;
		if (arch_syscall3(SYS_fcntl, fd, F_GETFD, 0) != -EBADF)
			continue;
		for (int k = 0; k < SETS; k++) {
			if (!in_set(s, k, fd))
				continue;
			open.asked[k][at] &= ~bit;
			closed.asked[k][at] |= bit;
			n++;
		}
	}
	ask_again(&open);
	r = look_select(&open, p);
	for (int k = 0; k < SETS && r >= 0; k++)
		for (size_t i = 0; i < s->words && s->theirs[k]; i++)
			s->theirs[k][i] |= closed.asked[k][i];
	return r < 0 ? r : r + n;
}

static long look_again(const struct sets *s, const struct patience *p)
{
	long r;

	ask_again(s);
	r = look_select(s, p);
	while (r == -EBADF)
		r = look_beside_closed(s, p);
	return r;
}

static long sleep_select(const struct sets *s, const struct patience *p)
{
	struct waits waits __attribute__((cleanup(waits_done)));
	long r;

	if (!waits_room(&waits, (size_t)waits_of(s, NULL)))
		return -ENOMEM;
	waits_of(s, waits.w);
	do {
		netpoll_tickets(waits.w, waits.n);
		r = waits_closed(&waits) && !waits_due(&waits) ? 0 : look_again(s, p);
		if (r != 0)
			break;
		r = doze(waits.w, waits.n, p);
	} while (r == 0);
	/* As the kernel, once more. */
	return r == -ETIMEDOUT ? look_again(s, p) : r;
}

static long select_blocking(const struct sets *s, const struct patience *p)
{
	uint64_t left = p->forever ? 0 : left_of(p);
	struct timespec t = { .tv_sec = (time_t)(left / NSEC), .tv_nsec = (long)(left % NSEC) };
	long r;

	cancel_blocks(thread_self());
	r = arch_syscall6(SYS_pselect6, s->n, (long)s->theirs[0], (long)s->theirs[1],
			  (long)s->theirs[2], p->forever ? 0 : (long)&t, 0);
	cancel_unblocks(thread_self());
	return r;
}

static long select_for(struct sets *s, const struct patience *p)
{
	long r;

	if (p->never)
		return look_select(s, p);
	/* Sets larger than an fd_set the kernel reads only as far as it has descriptors. */
	if (s->n < 0 || s->n > FD_SETSIZE)
		return select_blocking(s, p);
	s->words = ((size_t)s->n + WORD_BITS - 1) / WORD_BITS;
	r = copy_in(s);
	if (r == 0)
		r = look_select(s, p);
	if (r != 0)
		return r;
	r = sleep_select(s, p);
	if (r < 0) {
		/* As they were: for the program, after a signal, or for the kernel. */
		ask_again(s);
		if (r != -EINTR)
			r = select_blocking(s, p);
	}
	return r;
}

/* A look that leaves what is asked as it was if there is nothing. */
static long select_ready(struct sets *s, const struct patience *p)
{
	long r;

	/* The kernel's alone: see select_for. */
	if (s->n < 0 || s->n > FD_SETSIZE)
		return 0;
	s->words = ((size_t)s->n + WORD_BITS - 1) / WORD_BITS;
	r = copy_in(s);
	if (r == 0)
		r = look_select(s, p);
	if (r == 0)
		ask_again(s);
	return r;
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		   const sigset_t *set)
{
	struct sets s = { .n = n, .theirs = { (word *)r, (word *)w, (word *)e } };
	struct thread *t = io_self();
	struct patience p;
	long result;

	if (!t)
		return real_table.pselect(n, r, w, e, timeout, set);
	cancel_point();
	if (!for_timespec(&p, timeout)) {
		errno = EINVAL;
		return -1;
	}
	result = mask_there(set);
	if (result == 0 && set)
		result = select_ready(&s, &p);
	if (result == 0) {
		masked(set, &p);
		result = unmasked(&p, let_in(&p) ? -EINTR : select_for(&s, &p));
	}
	looked(t);
	return (int)io_answer(result);
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct sets s = { .n = n, .theirs = { (word *)r, (word *)w, (word *)e } };
	struct thread *t = io_self();
	struct patience p;
	long result;

	if (!t)
		return real_table.select(n, r, w, e, timeout);
	cancel_point();
	p = for_ever();
	if (timeout) {
		struct timespec ts = { .tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000,
				       .tv_nsec = timeout->tv_usec % 1000000 * 1000 };
		if (timeout->tv_usec < 0 || !for_timespec(&p, &ts)) {
			errno = EINVAL;
			return -1;
		}
	}
	result = select_for(&s, &p);
	looked(t);
	/* As Linux does: what is left of it. */
	if (timeout && !p.forever) {
		uint64_t left = p.never ? 0 : left_of(&p);
		timeout->tv_sec = (time_t)(left / NSEC);
		timeout->tv_usec = (suseconds_t)(left % NSEC / 1000);
	}
	return (int)io_answer(result);
}

SAME(__select, select);
