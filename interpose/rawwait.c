/* syscall(), of calls that wait for descriptors or for time: they go the roads of their functions.
 */
#include "rawwait.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "os.h"
#include "poll.h"
#include "signals.h"
#include "user.h"

/* ---- with a mask: a signal of the thread's own comes by it, too ---- */

/* Unlike the functions the call says how much of the time is left. */
struct span {
	struct timespec *at, whole;
	uint64_t since;
};

static long begin(struct span *s, long at)
{
	struct patience p;

	s->at = (struct timespec *)at;
	s->since = nanotime();
	if (!at)
		return 0;
	if (user_fetch(&s->whole, s->at, sizeof(s->whole)) != 0)
		return -EFAULT;
	return for_timespec(&p, &s->whole) ? 0 : -EINVAL;
}

static void end(const struct span *s)
{
	uint64_t gone = nanotime() - s->since;
	struct timespec left = s->whole;

	if (!s->at)
		return;
	left.tv_sec -= (time_t)(gone / NSEC);
	left.tv_nsec -= (long)(gone % NSEC);
	if (left.tv_nsec < 0) {
		left.tv_sec--;
		left.tv_nsec += NSEC;
	}
	if (left.tv_sec < 0)
		left = (struct timespec){ 0, 0 };
	/* Where it cannot be written the call is none the worse. */
	user_store(s->at, &left, sizeof(left));
}

/* What the kernel takes a mask of. 0, -EINVAL or -EFAULT. */
static long mask_of(const void **mask, long at, long size)
{
	*mask = (const void *)at;
	if (at && size != SIGSET_BYTES)
		return -EINVAL;
	return mask_there(*mask);
}

static long pair_of(const void **mask, long at)
{
	long pair[2] = { 0, 0 };

	if (at && user_fetch(pair, (const void *)at, sizeof(pair)) != 0)
		return -EFAULT;
	return mask_of(mask, pair[0], pair[1]);
}

static long timed_wait(long nr, const long *a)
{
	const void *mask;
	struct span s;
	long r = begin(&s, a[nr == SYS_ppoll ? 2 : 4]);

	if (r == 0)
		r = nr == SYS_ppoll ? mask_of(&mask, a[3], a[4]) : pair_of(&mask, a[5]);
	if (r != 0)
		return io_answer(r);
	if (nr == SYS_ppoll)
		r = ppoll((struct pollfd *)a[0], (nfds_t)a[1], s.at ? &s.whole : NULL, mask);
	else
		r = pselect((int)a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3],
			    s.at ? &s.whole : NULL, mask);
	end(&s);
	return r;
}

static long epoll_masked_wait(long nr, const long *a)
{
	const void *mask;
	struct span s;
	long r = nr == SYS_epoll_pwait2 ? begin(&s, a[3]) : 0;

	if (r == 0)
		r = mask_of(&mask, a[4], a[5]);
	if (r != 0)
		return io_answer(r);
	return nr == SYS_epoll_pwait ? epoll_pwait((int)a[0], (struct epoll_event *)a[1], (int)a[2],
						   (int)a[3], mask)
				     : epoll_pwait2((int)a[0], (struct epoll_event *)a[1],
						    (int)a[2], (const struct timespec *)a[3], mask);
}

/* ---- all of them ---- */

bool raw_wait(long nr, const long *a, long *r)
{
	switch (nr) {
	case SYS_read:
		*r = read((int)a[0], (void *)a[1], (size_t)a[2]);
		return true;
	case SYS_write:
		*r = write((int)a[0], (const void *)a[1], (size_t)a[2]);
		return true;
	case SYS_readv:
		*r = readv((int)a[0], (const struct iovec *)a[1], (int)a[2]);
		return true;
	case SYS_writev:
		*r = writev((int)a[0], (const struct iovec *)a[1], (int)a[2]);
		return true;
	case SYS_recvfrom:
		*r = recvfrom((int)a[0], (void *)a[1], (size_t)a[2], (int)a[3],
			      (struct sockaddr *)a[4], (socklen_t *)a[5]);
		return true;
	case SYS_sendto:
		*r = sendto((int)a[0], (const void *)a[1], (size_t)a[2], (int)a[3],
			    (const struct sockaddr *)a[4], (socklen_t)a[5]);
		return true;
	case SYS_recvmsg:
		*r = recvmsg((int)a[0], (struct msghdr *)a[1], (int)a[2]);
		return true;
	case SYS_sendmsg:
		*r = sendmsg((int)a[0], (const struct msghdr *)a[1], (int)a[2]);
		return true;
	case SYS_connect:
		*r = connect((int)a[0], (const struct sockaddr *)a[1], (socklen_t)a[2]);
		return true;
	case SYS_accept:
		*r = accept((int)a[0], (struct sockaddr *)a[1], (socklen_t *)a[2]);
		return true;
	case SYS_accept4:
		*r = accept4((int)a[0], (struct sockaddr *)a[1], (socklen_t *)a[2], (int)a[3]);
		return true;
	case SYS_poll:
		*r = poll((struct pollfd *)a[0], (nfds_t)a[1], (int)a[2]);
		return true;
	case SYS_epoll_wait:
		*r = epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2], (int)a[3]);
		return true;
	case SYS_ppoll:
	case SYS_pselect6:
		*r = timed_wait(nr, a);
		return true;
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		*r = epoll_masked_wait(nr, a);
		return true;
	case SYS_epoll_ctl:
		*r = epoll_ctl((int)a[0], (int)a[1], (int)a[2], (struct epoll_event *)a[3]);
		return true;
	case SYS_clock_nanosleep:
		*r = io_answer(-clock_nanosleep((clockid_t)a[0], (int)a[1],
						(const struct timespec *)a[2],
						(struct timespec *)a[3]));
		return true;
	case SYS_nanosleep:
		*r = nanosleep((const struct timespec *)a[0], (struct timespec *)a[1]);
		return true;
	default:
		return false;
	}
}
