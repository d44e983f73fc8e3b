/* read, write and their kin. A blocking write writes the whole, in as many attempts as it
 * takes. Next: socket.c, the same for calls that only sockets know. */
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io.h"

enum { HERE = -1 }; /* as an offset: the file's own */

/* ---- attempts; buf and n are the memory, or the vector and its length ---- */

static long read_socket(const struct io *io)
{
	/* Nothing to read is no reason to wait, nor to take a datagram. */
	if (io->n == 0)
		return arch_syscall3(SYS_read, io->fd, (long)io->buf, 0);
	return arch_syscall6(SYS_recvfrom, io->fd, (long)io->buf, (long)io->n, MSG_DONTWAIT, 0, 0);
}

static long read_nowait(const struct io *io)
{
	struct iovec v = { io->buf, io->n };

	return arch_owncall(SYS_preadv2, io->fd, (long)&v, 1, HERE, 0, RWF_NOWAIT);
}

static long read_call(const struct io *io)
{
	return arch_syscall3(SYS_read, io->fd, (long)io->buf, (long)io->n);
}

static long write_socket(const struct io *io)
{
	if (io->n == 0)
		return arch_syscall3(SYS_write, io->fd, (long)io->buf, 0);
	return arch_syscall6(SYS_sendto, io->fd, (long)io->buf, (long)io->n,
			     io->flags | MSG_DONTWAIT, 0, 0);
}

static long write_nowait(const struct io *io)
{
	struct iovec v = { io->buf, io->n };

	return arch_owncall(SYS_pwritev2, io->fd, (long)&v, 1, HERE, 0, RWF_NOWAIT);
}

static long write_call(const struct io *io)
{
	/* Of the rest of a write to a socket, which raises no signal. */
	if (unlikely(io->begun && io->road == ROAD_SOCKET))
		return arch_syscall6(SYS_sendto, io->fd, (long)io->buf, (long)io->n, io->flags, 0,
				     0);
	return arch_syscall3(SYS_write, io->fd, (long)io->buf, (long)io->n);
}

static long readv_nowait(const struct io *io)
{
	return arch_owncall(SYS_preadv2, io->fd, (long)io->buf, (long)io->n, HERE, 0,
			    io->flags | RWF_NOWAIT);
}

/* The program's own call, which a filter of its lets pass. */
static long readv_call(const struct io *io)
{
	if (io->flags == 0)
		return arch_syscall3(SYS_readv, io->fd, (long)io->buf, (long)io->n);
	return arch_syscall6(SYS_preadv2, io->fd, (long)io->buf, (long)io->n, HERE, 0, io->flags);
}

static long writev_nowait(const struct io *io)
{
	return arch_owncall(SYS_pwritev2, io->fd, (long)io->buf, (long)io->n, HERE, 0,
			    io->flags | RWF_NOWAIT);
}

static long writev_call(const struct io *io)
{
	if (io->flags == 0)
		return arch_syscall3(SYS_writev, io->fd, (long)io->buf, (long)io->n);
	return arch_syscall6(SYS_pwritev2, io->fd, (long)io->buf, (long)io->n, HERE, 0, io->flags);
}

/* ---- whole writes ---- */

/* The kernel writes no more by one call. */
enum { MOST = 0x7ffff000 };

/* After r of io->n bytes: the rest. What was written is the answer, whatever comes of it. */
static __attribute__((noinline)) long write_rest(struct io *io, long r)
{
	long done = r;

	while (r > 0 && (size_t)r < io->n && io->road != ROAD_CALL) {
		io->buf = (char *)io->buf + r;
		io->n -= (size_t)r;
		r = io_part(io);
		if (r == 0)
			r = io_do(io, write_socket, write_nowait, write_call);
		if (r > 0)
			done += r;
	}
	return done;
}

static inline long write_all(struct io *io)
{
	size_t n = io->n;
	long r = io_do(io, write_socket, write_nowait, write_call);

	if (unlikely(r > 0 && (size_t)r < n && io->road != ROAD_CALL)) {
		if (io->n > MOST)
			io->n = MOST;
		r = write_rest(io, r);
	}
	io_end(io);
	return r;
}

/* The rest of a vector of which r bytes are written: element by element. */
static __attribute__((noinline)) long writev_rest(struct io *io, long r)
{
	const struct iovec *v = io->buf;
	size_t n = io->n, i = 0, skip = (size_t)r;
	long done = r;

	for (; i < n && skip >= v[i].iov_len; i++)
		skip -= v[i].iov_len;
	io->flags = 0;
	io->vector = false;
	for (; i < n && io->road != ROAD_CALL; i++, skip = 0) {
		if (v[i].iov_len == skip)
			continue;
		io->buf = (char *)v[i].iov_base + skip;
		io->n = v[i].iov_len - skip;
		if (io->n > (size_t)(MOST - done))
			io->n = (size_t)(MOST - done);
		if (io->n == 0)
			break;
		r = io_part(io);
		if (r == 0)
			r = io_do(io, write_socket, write_nowait, write_call);
		if (r > 0 && (size_t)r < io->n)
			r = write_rest(io, r);
		if (r <= 0)
			break;
		done += r;
		if ((size_t)r < v[i].iov_len - skip)
			break;
	}
	return done;
}

/* The program's vector, which the kernel has accepted. */
static size_t length_of(const struct io *io)
{
	const struct iovec *v = io->buf;
	size_t sum = 0;

	for (size_t i = 0; i < io->n; i++)
		sum += v[i].iov_len;
	return sum;
}

static long writev_all(struct io *io)
{
	long r = io_do(io, writev_nowait, writev_nowait, writev_call);

	if (r > 0 && io->road != ROAD_CALL && (size_t)r < length_of(io))
		r = writev_rest(io, r);
	io_end(io);
	return r;
}

/* ---- the calls ---- */

/* To read or write nothing waits in the kernel, or nowhere. */
static __attribute__((noinline)) ssize_t nothing(int fd, enum polldir dir, const void *buf,
						 attempt *call)
{
	struct io io;

	io_init(&io, fd, dir, buf, 0, 0);
	return io_answer(io_announced(&io, call));
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	struct thread *t = io_self();
	struct io io;
	long r;

	if (!t)
		return real_table.read(fd, buf, n);
	cancel_look(t);
	if (unlikely(n == 0))
		return nothing(fd, POLL_READ, buf, read_call);
	io_init(&io, fd, POLL_READ, buf, n, 0);
	r = io_do(&io, read_socket, read_nowait, read_call);
	io_end(&io);
	return io_answer(r);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct thread *t = io_self();
	struct io io;

	if (!t)
		return real_table.write(fd, buf, n);
	cancel_look(t);
	if (unlikely(n == 0))
		return nothing(fd, POLL_WRITE, buf, write_call);
	io_init(&io, fd, POLL_WRITE, buf, n, 0);
	io_begins(&io, t);
	return io_answer(write_all(&io));
}

static ssize_t read_vector(int fd, const struct iovec *v, int n, int flags)
{
	struct io io;
	long r;

	cancel_point();
	io_init(&io, fd, POLL_READ, v, (size_t)n, flags);
	io.vector = true;
	r = flags & RWF_NOWAIT ? readv_call(&io)
			       : io_do(&io, readv_nowait, readv_nowait, readv_call);
	io_end(&io);
	return io_answer(r);
}

static ssize_t write_vector(struct thread *t, int fd, const struct iovec *v, int n, int flags)
{
	struct io io;

	cancel_point();
	io_init(&io, fd, POLL_WRITE, v, (size_t)n, flags);
	io.vector = true;
	io_begins(&io, t);
	return io_answer(flags & RWF_NOWAIT ? writev_call(&io) : writev_all(&io));
}

EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
	return io_self() ? read_vector(fd, v, n, 0) : real_table.readv(fd, v, n);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	struct thread *t = io_self();

	return t ? write_vector(t, fd, v, n, 0) : real_table.writev(fd, v, n);
}

/* At a place of their own only files read and write, announced (calls.def); at -1 these are
 * readv and writev with flags. */
EXPORT ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	ssize_t r;

	if (!io_self())
		return real_table.preadv2(fd, v, n, at, flags);
	if (at == HERE)
		return read_vector(fd, v, n, flags);
	cancel_blocks(thread_self());
	r = real_table.preadv2(fd, v, n, at, flags);
	cancel_unblocks(thread_self());
	return r;
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	struct thread *t = io_self();
	ssize_t r;

	if (!t)
		return real_table.pwritev2(fd, v, n, at, flags);
	if (at == HERE)
		return write_vector(t, fd, v, n, flags);
	cancel_blocks(t);
	r = real_table.pwritev2(fd, v, n, at, flags);
	cancel_unblocks(t);
	return r;
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	served();
	return n > room ? real_table.__read_chk(fd, buf, n, room) : read(fd, buf, n);
}

/* glibc's read and write behind our back. */
EXPORT int eventfd_read(int fd, eventfd_t *value)
{
	return read(fd, value, sizeof(*value)) == sizeof(*value) ? 0 : -1;
}

EXPORT int eventfd_write(int fd, eventfd_t value)
{
	return write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

SAME(__read, read);
SAME(__write, write);
SAME(preadv64v2, preadv2);
SAME(pwritev64v2, pwritev2);
