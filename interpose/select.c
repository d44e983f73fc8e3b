/* select, as poll.c has it. The kernel overwrites the sets, so what was asked is kept. */
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
			w[n] = (struct pollwait){ .fd = fd, .dirs = dirs };
		n++;
	}
	return n;
}

static long sleep_select(const struct sets *s, const struct patience *p)
{
	struct pollwait few[FEW], *w;
	int n = waits_of(s, NULL);
	long r;

	w = room_for(few, (size_t)n);
	if (!w)
		return -ENOMEM;
	waits_of(s, w);
	do {
		netpoll_tickets(w, n);
		ask_again(s);
		r = look_select(s, p);
		if (r != 0)
			break;
		r = doze(w, n, p);
	} while (r == 0);
	room_done(w, few, (size_t)n);
	return r;
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
	if (r == -ETIMEDOUT)
		return 0;
	if (r < 0) {
		/* As they were: for the program, after a signal, or for the kernel. */
		ask_again(s);
		if (r != -EINTR && r != -EBADF)
			r = select_blocking(s, p);
	}
	return r;
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		   const sigset_t *set)
{
	struct sets s = { .n = n, .theirs = { (word *)r, (word *)w, (word *)e } };
	struct patience p;
	sigset_t before;
	long result;

	if (!io_self())
		return real_table.pselect(n, r, w, e, timeout, set);
	cancel_point();
	if (!for_timespec(&p, timeout)) {
		errno = EINVAL;
		return -1;
	}
	result = masked(set, &before);
	if (result == 0) {
		result = select_for(&s, &p);
		unmasked(set, &before);
	}
	return (int)io_answer(result);
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct sets s = { .n = n, .theirs = { (word *)r, (word *)w, (word *)e } };
	struct patience p;
	long result;

	if (!io_self())
		return real_table.select(n, r, w, e, timeout);
	cancel_point();
	p = for_ever();
	if (timeout) {
		struct timespec t = { .tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000,
				      .tv_nsec = timeout->tv_usec % 1000000 * 1000 };
		if (timeout->tv_usec < 0 || !for_timespec(&p, &t)) {
			errno = EINVAL;
			return -1;
		}
	}
	result = select_for(&s, &p);
	/* As Linux does: what is left of it. */
	if (timeout && !p.forever) {
		uint64_t left = p.never ? 0 : left_of(&p);
		timeout->tv_sec = (time_t)(left / NSEC);
		timeout->tv_usec = (suseconds_t)(left % NSEC / 1000);
	}
	return (int)io_answer(result);
}

SAME(__select, select);
