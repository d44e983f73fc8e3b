/* Calls that move bytes between two descriptors: splice, tee, vmsplice, sendfile. Told not to wait
 * for a pipe (SPLICE_F_NONBLOCK) they are tried; of a socket they would wait all the same, so it is
 * looked whether it is ready. The end that is not is waited for in the poller, with both held:
 * nothing has gone through when one sleeps.
 *
 * Refuses to part a call in several: splice into a socket, and sendfile, wait here for room, and
 * then, for more of it, in the kernel, announced (core/HACKING.md). */
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "io.h"
#include "os.h"
#include "user.h"

enum end { IN, OUT };
enum { KNOWN = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT };

struct move {
	struct io end[2];
	int given[2];
	loff_t *at[2];
	size_t n;
	unsigned flags;
	bool copies; /* tee */
};

static long call(const struct move *m, unsigned flags)
{
	if (m->copies)
		return arch_syscall4(SYS_tee, m->end[IN].fd, m->end[OUT].fd, (long)m->n, flags);
	return arch_syscall6(SYS_splice, m->end[IN].fd, (long)m->at[IN], m->end[OUT].fd,
			     (long)m->at[OUT], (long)m->n, flags);
}

static const struct move *move_of(const struct io *in)
{
	return (const struct move *)(const void *)in;
}

static long as_asked(const struct io *in)
{
	return call(move_of(in), move_of(in)->flags);
}

static long if_ready(const struct io *in)
{
	return call(move_of(in), move_of(in)->flags | SPLICE_F_NONBLOCK);
}

/* Of fd, or -errno. */
static long flags_of(int fd)
{
	return arch_syscall3(SYS_fcntl, fd, F_GETFL, 0);
}

static bool is_open_for(long flags, enum end as)
{
	return flags >= 0 && (flags & O_ACCMODE) != (as == IN ? O_WRONLY : O_RDONLY);
}

static bool is_kind(int fd, mode_t kind)
{
	struct stat st;

	return arch_syscall3(SYS_fstat, fd, (long)&st, 0) == 0 && (st.st_mode & S_IFMT) == kind;
}

static short events_of(const struct io *io)
{
	struct pollfd p = { .fd = io->fd, .events = io->dir == POLL_READ ? POLLIN : POLLOUT };

	arch_syscall3(SYS_poll, (long)&p, 1, 0);
	return p.revents;
}

/* A call that has slept has both ends, as natively; until a handler has run, after which the
 * kernel would begin anew. False: one stands for another now, of which no ticket was taken. */
static bool kept(const struct thread *t, struct move *m)
{
	bool same = true;

	for (int i = 0; i < 2; i++) {
		struct io *end = &m->end[i];
		int fd = end->ends & IO_STANDIN ? end->fd : fd_held(t, m->given[i]);
		same = same && fd == end->fd;
		end->fd = fd;
	}
	return same;
}

/* Sleeps until that end may be ready. As io_block; 1, too, if they cannot be held. */
static long await(struct thread *t, struct move *m, struct io *end)
{
	if (!fd_holds(t) && (!fd_hold(t, m->given[IN]) || !fd_hold(t, m->given[OUT])))
		return 1;
	return io_block(end);
}

/* Would nothing but the socket at this end keep the call from going on? What the kernel would
 * refuse, or do without it, is not waited for. */
static bool needs_socket(const struct move *m, enum end which)
{
	const struct io *end = &m->end[which], *pipe = &m->end[!which];
	long flags;

	if (end->road != ROAD_SOCKET || m->copies || m->at[IN] || m->at[OUT] || (long)m->n <= 0 ||
	    (m->flags & ~(unsigned)KNOWN))
		return false;
	if (events_of(pipe) != (which == IN ? POLLOUT : POLLIN) || io_ready(end) != 0 ||
	    io_listens(end->fd))
		return false;
	/* That time would pass again in the kernel. */
	if (which == OUT && (fd_timed(end->fd, POLL_WRITE) != 0 || flags_of(end->fd) & O_APPEND))
		return false;
	flags = flags_of(pipe->fd);
	return is_open_for(flags, !which) && !(flags & O_NONBLOCK) && is_kind(pipe->fd, S_IFIFO);
}

/* After an attempt that was refused for now: which end is to be waited for? The kernel waits for
 * that of a pipe first. NULL: neither. */
static struct io *unready(struct move *m)
{
	enum end first = m->end[IN].road == ROAD_SOCKET ? OUT : IN;

	for (int i = 0; i < 2; i++) {
		long flags = fd_sole(m->end[i].fd) ? 0 : flags_of(m->end[i].fd);
		if (flags < 0 || (flags & O_NONBLOCK))
			return NULL;
	}
	for (int i = 0; i < 2; i++) {
		struct io *end = &m->end[i ? !first : first];
		if (io_ready(end) == 0)
			return end->road != ROAD_CALL ? end : NULL;
	}
	return NULL;
}

/* Who waits at their other ends need not wait for the kernel's word. */
static void moved(const struct move *m)
{
	if (!m->copies)
		fd_moved(m->end[IN].fd, POLL_READ);
	fd_moved(m->end[OUT].fd, POLL_WRITE);
}

static long transfer(struct thread *t, struct move *m)
{
	struct io *in = &m->end[IN], *out = &m->end[OUT], *end;
	long r = 0;

	while (r == 0) {
		/* Before the attempt. */
		io_road(in);
		io_road(out);
		if (!kept(t, m))
			continue;
		end = needs_socket(m, IN) ? in : needs_socket(m, OUT) ? out : NULL;
		if (!end) {
			r = io_announced(in, if_ready);
			if (r > 0)
				moved(m);
			if (r != -EAGAIN)
				return r;
			end = unready(m);
		}
		r = end ? await(t, m, end) : 1;
	}
	kept(t, m);
	return r < 0 ? r : io_announced(in, as_asked);
}

static void begin(struct move *m, int in, int out)
{
	m->given[IN] = m->end[IN].fd = in;
	m->given[OUT] = m->end[OUT].fd = out;
	m->end[IN].dir = POLL_READ;
	m->end[OUT].dir = POLL_WRITE;
}

static long ended(struct thread *t, struct move *m, long r)
{
	fd_letgo(t);
	io_end(&m->end[IN]);
	io_end(&m->end[OUT]);
	return io_answer(r);
}

static ssize_t moves(struct thread *t, struct move *m, int in, int out)
{
	begin(m, in, out);
	cancel_look(t);
	if (m->flags & SPLICE_F_NONBLOCK)
		return ended(t, m, io_announced(&m->end[IN], as_asked));
	return ended(t, m, transfer(t, m));
}

EXPORT ssize_t splice(int in, loff_t *from, int out, loff_t *to, size_t n, unsigned flags)
{
	struct move m = { .at = { from, to }, .n = n, .flags = flags };
	struct thread *t = io_self();

	return t ? moves(t, &m, in, out) : real_table.splice(in, from, out, to, n, flags);
}

EXPORT ssize_t tee(int in, int out, size_t n, unsigned flags)
{
	struct move m = { .n = n, .flags = flags, .copies = true };
	struct thread *t = io_self();

	return t ? moves(t, &m, in, out) : real_table.tee(in, out, n, flags);
}

/* ---- memory and a pipe: its O_NONBLOCK does not count ---- */

static long vmsplice_as_asked(const struct io *io)
{
	return arch_syscall4(SYS_vmsplice, io->fd, (long)io->buf, (long)io->n, io->flags);
}

static long vmsplice_if_ready(const struct io *io)
{
	return arch_syscall4(SYS_vmsplice, io->fd, (long)io->buf, (long)io->n,
			     io->flags | (int)SPLICE_F_NONBLOCK);
}

static long vmsplice_waiting(struct io *io)
{
	long r, flags;

	do {
		/* Before the attempt; which way it goes is known only later. */
		uint32_t ticket = netpoll_ticket(io->fd, POLL_WRITE);
		io->ticket = netpoll_ticket(io->fd, POLL_READ);
		r = io_announced(io, vmsplice_if_ready);
		if (r != -EAGAIN)
			return r;
		flags = flags_of(io->fd);
		if (flags < 0 || (flags & O_NONBLOCK))
			break;
		io->dir = is_open_for(flags, OUT) ? POLL_WRITE : POLL_READ;
		if (io->dir == POLL_WRITE)
			io->ticket = ticket;
		io->road = fd_road(io->fd, io->dir);
		if (io->road == ROAD_CALL || io_ready(io) != 0)
			break;
		r = io_block(io);
	} while (r == 0);
	return r < 0 && r != -EAGAIN ? r : io_announced(io, vmsplice_as_asked);
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *v, size_t n, unsigned flags)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t)
		return real_table.vmsplice(fd, v, n, flags);
	cancel_look(t);
	io_init(&io, fd, POLL_WRITE, v, n, (int)flags);
	if (flags & SPLICE_F_NONBLOCK)
		r = io_announced(&io, vmsplice_as_asked);
	else
		r = vmsplice_waiting(&io);
	io_end(&io);
	return io_answer(r);
}

/* ---- sendfile ---- */

/* Does the call come so far that it waits for room? Into a pipe it does before it reads. */
static bool reads_before_room(int in, const off_t *at, size_t n, int out)
{
	struct stat st;
	off_t from;

	if (arch_syscall3(SYS_fstat, in, (long)&st, 0) != 0 || (st.st_mode & S_IFMT) != S_IFREG ||
	    !is_open_for(flags_of(in), IN) || !is_open_for(flags_of(out), OUT) || io_listens(out))
		return true;
	if (!at)
		from = arch_syscall3(SYS_lseek, in, 0, SEEK_CUR);
	else if (user_fetch(&from, at, sizeof(from)) != 0)
		return true;
	if (from < 0)
		return true;
	return !is_kind(out, S_IFIFO) &&
	       (n == 0 || from >= st.st_size || (flags_of(out) & O_APPEND));
}

static long await_room(struct thread *t, struct move *m, const off_t *at)
{
	struct io *out = &m->end[OUT];
	long r = 0;

	while (r == 0 && io_road(out) != ROAD_CALL) {
		if (!kept(t, m))
			continue;
		if (io_ready(out) != 0 || reads_before_room(m->end[IN].fd, at, m->n, out->fd))
			break;
		r = await(t, m, out);
		/* It may be broken, and not ready. */
		if (out->local == SOCK_SEQPACKET)
			break;
	}
	kept(t, m);
	return r;
}

/* No point of cancellation. The file's end of it may block, too, and the socket's again once it has
 * begun. */
EXPORT ssize_t sendfile(int out, int in, off_t *at, size_t n)
{
	struct thread *t = io_self();
	struct move m = { .n = n };
	bool before;
	long r;

	if (!t)
		return real_table.sendfile(out, in, at, n);
	begin(&m, in, out);
	before = ld_rlx(&t->uncancelled);
	if (!(ld_rlx(&t->cancel) & ASYNC))
		st_rlx(&t->uncancelled, true);
	r = await_room(t, &m, at);
	st_rlx(&t->uncancelled, before);
	if (r >= 0) {
		entersyscall();
		r = arch_syscall4(SYS_sendfile, m.end[OUT].fd, m.end[IN].fd, (long)at, (long)n);
		exitsyscall();
		io_raised(r);
	}
	return ended(t, &m, r);
}

SAME(sendfile64, sendfile);
