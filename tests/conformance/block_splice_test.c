/* splice, tee, vmsplice and sendfile: which end they wait for, what they refuse at once, and whose
 * bytes go when a descriptor is closed meanwhile. The same holds natively. */
#include "call.h"
#include "pair.h"

#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* ---- each call, by the ends it waits for; what it reads is fd[0] or what it fills fd[1] ---- */

static int file_of(const char *text)
{
	FILE *file = tmpfile();
	size_t n = strlen(text);

	EXPECT(file != NULL);
	EXPECT_EQ(write(fileno(file), text, n), n);
	EXPECT_EQ(lseek(fileno(file), 0, SEEK_SET), 0);
	return fileno(file);
}

static void opens_local(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
}

static void opens_other(struct wait *w)
{
	int other[2];

	EXPECT_EQ(pipe(other), 0);
	EXPECT_EQ(write(other[1], "xyz", 3), 3);
	w->more = other[0];
}

static void opens_tcp_and_pipe(struct wait *w)
{
	int other[2];

	tcp_pair(w->fd);
	EXPECT_EQ(pipe(other), 0);
	w->more = other[1];
}

static void opens_local_and_pipe(struct wait *w)
{
	int other[2];

	opens_local(w);
	EXPECT_EQ(pipe(other), 0);
	w->more = other[1];
}

static void opens_pipe_and_file(struct wait *w)
{
	opens_pipe(w);
	w->more = file_of("");
}

static void opens_pipe_and_socket(struct wait *w)
{
	int other[2];

	opens_pipe(w);
	tcp_pair(other);
	w->more = other[1];
}

static void opens_full_pipe_and_file(struct wait *w)
{
	opens_full_pipe(w);
	w->more = file_of("xyz");
}

static void opens_full_local_and_pipe(struct wait *w)
{
	opens_local(w);
	fill(w->fd[1]);
	opens_other(w);
}

static void opens_full_local_and_file(struct wait *w)
{
	opens_local(w);
	fill(w->fd[1]);
	w->more = file_of("xyz");
}

static void feeds(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "x", 1), 1);
}

static void drains(struct wait *w)
{
	drain_until_returned(w, w->fd[0]);
}

static long splices_from(struct wait *w)
{
	return splice(w->fd[0], NULL, w->more, NULL, 100, 0);
}

static long splices_to(struct wait *w)
{
	return splice(w->more, NULL, w->fd[1], NULL, 3, SPLICE_F_MOVE | SPLICE_F_MORE);
}

static long splices_at(struct wait *w)
{
	loff_t at = 1;
	long r = splice(w->more, &at, w->fd[1], NULL, 3, 0);

	EXPECT_EQ(at, r > 0 ? 1 + r : 1);
	return r;
}

static long unpipes(struct wait *w)
{
	char c[2] = "";
	struct iovec v = { c, sizeof(c) };
	long r = vmsplice(w->fd[0], &v, 1, 0);

	EXPECT(r != 1 || c[0] == 'x');
	return r;
}

static long sends_file(struct wait *w)
{
	off_t at = 1;
	long r = sendfile(w->fd[1], w->more, &at, 100);

	EXPECT_EQ(at, r > 0 ? 1 + r : 1);
	EXPECT_EQ(lseek(w->more, 0, SEEK_CUR), 0);
	return r;
}

BLOCKS(splice_from_tcp_to_a_pipe, .open = opens_tcp_and_pipe, .block = splices_from,
       .release = feeds, .wants = 1, .how = RESTARTS)
BLOCKS(splice_from_a_local_socket_to_a_pipe, .open = opens_local_and_pipe, .block = splices_from,
       .release = feeds, .wants = 1, .how = RESTARTS)
BLOCKS(splice_from_a_pipe_to_a_file, .open = opens_pipe_and_file, .block = splices_from,
       .release = feeds, .wants = 1, .how = RESTARTS)
BLOCKS(splice_from_a_pipe_to_tcp, .open = opens_pipe_and_socket, .block = splices_from,
       .release = feeds, .wants = 1, .how = RESTARTS)
BLOCKS(splice_from_a_file_to_a_pipe, .open = opens_full_pipe_and_file, .block = splices_at,
       .release = drains, .wants = 2, .how = RESTARTS)
BLOCKS(splice_to_a_full_socket, .open = opens_full_local_and_pipe, .block = splices_to,
       .release = drains, .wants = 3, .how = RESTARTS)
BLOCKS(vmsplice_out_of_a_pipe, .open = opens_pipe, .block = unpipes, .release = feeds, .wants = 1,
       .how = RESTARTS)
BLOCKS_UNCANCELLED(sendfile_to_a_full_socket, .open = opens_full_local_and_file,
		   .block = sends_file, .release = drains, .wants = 2, .how = RESTARTS)

/* ---- one call in a thread of its own ---- */

static int ends[2], other[2], file;

static void expect_end(pthread_t t, const struct call *c, long result)
{
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(c->result, result);
}

static void opens_pipes(void)
{
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pipe(other), 0);
}

/* Another file by the same number. */
static void replace(int fd, int by)
{
	EXPECT_EQ(dup2(by, fd), fd);
	EXPECT_EQ(close(by), 0);
}

static long splices(void)
{
	return splice(ends[0], NULL, other[1], NULL, 10, 0);
}

static long tees(void)
{
	return tee(ends[0], other[1], 10, 0);
}

static long sends(void)
{
	return sendfile(ends[1], file, NULL, 10);
}

/* What a call has begun with it goes on with. */
TEST(the_other_end_may_be_closed_and_its_number_used_meanwhile)
{
	for (int i = 0; i < 2; i++) {
		struct call c = { .fn = i ? tees : splices };
		int decoy[2], twin;
		char got[4] = "";
		pthread_t t;
		opens_pipes();
		EXPECT_EQ(pipe(decoy), 0);
		twin = dup(other[1]);
		t = begins(&c);
		replace(other[1], dup(decoy[1]));
		EXPECT_EQ(close(twin), 0);
		EXPECT_EQ(write(ends[1], "abc", 3), 3);
		expect_end(t, &c, 3);
		EXPECT_EQ(read(other[0], got, 4), 3);
		EXPECT(memcmp(got, "abc", 3) == 0);
		/* Nothing of ours keeps it open. */
		EXPECT_EQ(read(other[0], got, 4), 0);
		nonblocking(decoy[0], true);
		FAILS(read(decoy[0], got, 4), EAGAIN);
	}
}

TEST(the_end_it_waits_for_may_be_closed_too)
{
	for (int i = 0; i < 2; i++) {
		struct call c = { .fn = i ? tees : splices };
		int decoy[2];
		char got[4] = "";
		pthread_t t;
		opens_pipes();
		EXPECT_EQ(pipe(decoy), 0);
		EXPECT_EQ(write(decoy[1], "zzz", 3), 3);
		t = begins(&c);
		replace(ends[0], decoy[0]);
		replace(other[1], dup(STDOUT_FILENO));
		EXPECT_EQ(write(ends[1], "abc", 3), 3);
		expect_end(t, &c, 3);
		EXPECT_EQ(read(other[0], got, 4), 3);
		EXPECT(memcmp(got, "abc", 3) == 0);
		EXPECT_EQ(read(ends[0], got, 4), 3);
	}
}

TEST(sendfile_sends_the_file_that_it_was_given)
{
	static char junk[1 << 20];
	struct call c = { .fn = sends };
	char got[8] = "";
	pthread_t t;
	long filled;

	EXPECT_EQ(pipe(ends), 0);
	file = file_of("first");
	filled = fill(ends[1]);
	t = begins(&c);
	replace(file, file_of("other"));
	read_all(ends[0], junk, (size_t)filled);
	expect_end(t, &c, 5);
	EXPECT_EQ(lseek(file, 0, SEEK_CUR), 0);
	read_all(ends[0], got, 5);
	EXPECT(memcmp(got, "first", 5) == 0);
}

/* Not even by sleeping. */
TEST(sendfile_is_no_point_of_cancellation)
{
	struct call c = { .fn = sends };
	void *result;
	pthread_t t;

	opens_pipes();
	file = file_of("text");
	fill(ends[1]);
	t = begins(&c);
	EXPECT_EQ(pthread_cancel(t), 0);
	settle();
	EXPECT_EQ(returned.n, 0);
	drain(ends[0]);
	EXPECT_EQ(pthread_join(t, &result), 0);
	EXPECT_EQ(returned.n, 1);
	EXPECT_EQ(c.result, 4);
}

/* ---- at once ---- */

static int listens(int family)
{
	struct sockaddr_in at;
	int fd = socket(family, SOCK_STREAM, 0);

	if (family == AF_INET)
		own_address(fd, &at);
	else
		EXPECT_EQ(bind(fd, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)),
			  0);
	EXPECT_EQ(listen(fd, 1), 0);
	return fd;
}

static void *is_refused(void *arg)
{
	int in[2], out[2], full[2], s[2], tcp[2], text, none = -1;
	loff_t at = 0, before = -1;
	off_t end = 4;
	char c[4096];
	struct iovec v = { c, 1 };

	EXPECT(pipe(in) == 0 && pipe(out) == 0 && pipe(full) == 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	tcp_pair(tcp);
	fill(full[1]);
	fill(s[1]);
	text = file_of("text");

	/* Nothing is asked for. */
	EXPECT_EQ(splice(in[0], NULL, out[1], NULL, 0, 0), 0);
	EXPECT_EQ(tee(in[0], out[1], 0, 0), 0);
	EXPECT_EQ(vmsplice(full[1], &v, 0, 0), 0);
	EXPECT_EQ(splice(tcp[0], NULL, out[1], NULL, 0, 0), 0);
	EXPECT_EQ(sendfile(s[1], text, NULL, 0), 0);
	/* Nothing is there, nor will be. */
	EXPECT_EQ(sendfile(s[1], text, &end, 10), 0);
	/* No such thing. */
	FAILS(splice(in[0], NULL, out[1], NULL, 1, 64), EINVAL);
	FAILS(splice(tcp[0], NULL, out[1], NULL, 1, 64), EINVAL);
	FAILS(tee(in[0], out[1], 1, 64), EINVAL);
	FAILS(vmsplice(full[1], &v, 1, 64), EINVAL);
	FAILS(splice(in[0], &at, out[1], NULL, 1, 0), ESPIPE);
	FAILS(splice(tcp[0], NULL, out[1], &at, 1, 0), ESPIPE);
	FAILS(splice(tcp[0], &at, out[1], NULL, 1, 0), EINVAL);
	FAILS(splice(text, &before, full[1], NULL, 1, 0), EINVAL);
	FAILS(splice(tcp[0], NULL, tcp[1], NULL, 1, 0), EINVAL);
	FAILS(splice(tcp[0], NULL, text, NULL, 1, 0), EINVAL);
	FAILS(splice(tcp[0], NULL, out[1], NULL, (size_t)-1, 0), EINVAL);
	FAILS(splice(in[0], NULL, in[1], NULL, 1, 0), EINVAL);
	FAILS(tee(in[0], in[1], 1, 0), EINVAL);
	FAILS(tee(in[0], tcp[1], 1, 0), EINVAL);
	FAILS(sendfile(s[1], tcp[0], NULL, 1), EINVAL);
	/* Not open, or not for that. */
	FAILS(splice(in[1], NULL, out[1], NULL, 1, 0), EBADF);
	FAILS(splice(in[0], NULL, out[0], NULL, 1, 0), EBADF);
	FAILS(splice(tcp[0], NULL, out[0], NULL, 1, 0), EBADF);
	FAILS(splice(in[1], NULL, s[1], NULL, 1, 0), EBADF);
	FAILS(splice(none, NULL, out[1], NULL, 1, 0), EBADF);
	FAILS(splice(tcp[0], NULL, none, NULL, 1, 0), EBADF);
	FAILS(tee(none, out[1], 1, 0), EBADF);
	FAILS(vmsplice(none, &v, 1, 0), EBADF);
	FAILS(vmsplice(tcp[1], &v, 1, 0), EBADF);
	FAILS(sendfile(full[1], none, NULL, 1), EBADF);
	FAILS(sendfile(full[1], full[1], NULL, 1), EBADF);
	FAILS(sendfile(s[1], none, NULL, 1), EBADF);
	FAILS(sendfile(none, text, NULL, 1), EBADF);
	/* Not there. */
	FAILS(splice(text, nowhere, full[1], NULL, 1, 0), EFAULT);
	FAILS(vmsplice(full[1], nowhere, 1, 0), EFAULT);
	FAILS(sendfile(s[1], text, nowhere, 1), EFAULT);
	FAILS(vmsplice(full[1], &v, 2000, 0), EINVAL);
	/* Nobody sends, or hears. */
	for (int i = 0; i < 2; i++) {
		int family = i ? AF_UNIX : AF_INET, l = listens(family);
		EXPECT_EQ(write(in[1], "x", 1), 1);
		EXPECT_EQ(splice(in[0], NULL, l, NULL, 1, 0), -1);
		EXPECT(errno == EPIPE || errno == ENOTCONN);
		EXPECT_EQ(sendfile(l, text, NULL, 1), -1);
		EXPECT(errno == EPIPE || errno == ENOTCONN);
		if (i)
			FAILS(splice(l, NULL, out[1], NULL, 1, 0), EINVAL);
		EXPECT_EQ(close(l), 0);
		l = socket(family, SOCK_STREAM, 0);
		FAILS(splice(l, NULL, out[1], NULL, 1, 0), i ? EINVAL : ENOTCONN);
		EXPECT_EQ(close(l), 0);
		EXPECT_EQ(drain(in[0]), 1);
	}
	EXPECT_EQ(close(out[0]), 0);
	FAILS(splice(tcp[0], NULL, out[1], NULL, 1, 0), EPIPE);
	EXPECT_EQ(write(in[1], "x", 1), 1);
	FAILS(splice(in[0], NULL, out[1], NULL, 1, 0), EPIPE);
	FAILS(tee(in[0], out[1], 1, 0), EPIPE);
	FAILS(vmsplice(out[1], &v, 1, 0), EPIPE);
	FAILS(sendfile(out[1], text, NULL, 1), EPIPE);
	EXPECT_EQ(read(in[0], c, 1), 1);
	EXPECT_EQ(close(in[1]), 0);
	EXPECT_EQ(splice(in[0], NULL, s[1], NULL, 1, 0), 0);
	EXPECT_EQ(vmsplice(in[0], &v, 1, 0), 0);
	return arg;
}

TEST(what_is_refused_at_once_is_not_waited_for)
{
	handle(SIGPIPE, SA_RESTART);
	in_threads(2, is_refused);
	EXPECT(handled.n >= 2 * 5);
}

/* SPLICE_F_NONBLOCK is about pipes, and so is O_NONBLOCK of a pipe; a socket has its own. */
static void *does_not_wait(void *arg)
{
	int in[2], out[2], s[2];
	char c = 'x';
	struct iovec v = { &c, 1 };

	EXPECT(pipe(in) == 0 && pipe(out) == 0);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	FAILS(splice(in[0], NULL, out[1], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
	FAILS(splice(in[0], NULL, s[1], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
	FAILS(splice(s[0], NULL, out[1], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
	FAILS(tee(in[0], out[1], 1, SPLICE_F_NONBLOCK), EAGAIN);
	FAILS(vmsplice(in[0], &v, 1, SPLICE_F_NONBLOCK), EAGAIN);
	for (int i = 0; i < 2; i++) {
		nonblocking(i ? out[1] : in[0], true);
		FAILS(splice(in[0], NULL, out[1], NULL, 1, 0), EAGAIN);
		FAILS(tee(in[0], out[1], 1, 0), EAGAIN);
		nonblocking(i ? out[1] : in[0], false);
	}
	nonblocking(s[0], true);
	FAILS(splice(s[0], NULL, out[1], NULL, 1, 0), EAGAIN);
	nonblocking(s[0], false);
	fill(s[1]);
	nonblocking(s[1], true);
	EXPECT_EQ(write(in[1], "x", 1), 1);
	FAILS(splice(in[0], NULL, s[1], NULL, 1, 0), EAGAIN);
	nonblocking(s[1], false);
	fill(out[1]);
	nonblocking(out[1], true);
	FAILS(splice(in[0], NULL, out[1], NULL, 1, 0), EAGAIN);
	FAILS(vmsplice(out[1], &v, 1, SPLICE_F_NONBLOCK), EAGAIN);
	EXPECT_EQ(drain(in[0]), 1);
	return arg;
}

TEST(flags_of_the_call_and_of_the_ends_refuse_at_once)
{
	in_threads(2, does_not_wait);
}

static long pipes_memory(void)
{
	struct iovec v = { &file, 1 };

	return vmsplice(ends[1], &v, 1, 0);
}

TEST(to_vmsplice_the_pipe_s_own_flag_is_nothing)
{
	struct call c = { .fn = pipes_memory };
	pthread_t t;

	EXPECT_EQ(pipe(ends), 0);
	fill(ends[1]);
	nonblocking(ends[1], true);
	t = begins(&c);
	drain(ends[0]);
	expect_end(t, &c, 1);
}

/* ---- what comes of waiting ---- */

TEST(the_end_of_what_it_waits_for_is_no_error)
{
	for (int i = 0; i < 3; i++) {
		struct call c = { .fn = i == 1 ? tees : splices };
		pthread_t t;
		opens_pipes();
		if (i == 2)
			tcp_pair(ends);
		t = begins(&c);
		EXPECT_EQ(close(ends[1]), 0);
		expect_end(t, &c, 0);
	}
}

static long sends_local(void)
{
	return sendfile(ends[1], file, NULL, 3);
}

TEST(an_end_that_breaks_meanwhile_is_EPIPE)
{
	handle(SIGPIPE, SA_RESTART);
	for (int i = 0; i < 3; i++) {
		struct call c = { .fn = i == 0 ? splices : i == 1 ? tees : sends_local };
		pthread_t t;
		opens_pipes();
		handled.n = 0;
		if (i < 2) {
			fill(other[1]);
			EXPECT_EQ(write(ends[1], "x", 1), 1);
		} else {
			file = file_of("abc");
			fill(ends[1]);
		}
		t = begins(&c);
		EXPECT_EQ(close(i < 2 ? other[0] : ends[0]), 0);
		expect_end(t, &c, -1);
		EXPECT_EQ(c.error, EPIPE);
		EXPECT_EQ(handled.n, 1);
	}
}

TEST(a_splice_from_a_socket_is_over_after_SO_RCVTIMEO)
{
	for (int i = 0; i < 2; i++) {
		struct timeval limit = { .tv_usec = 30000 };
		int s[2], p[2];
		if (i)
			tcp_pair(s);
		else
			EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
		EXPECT_EQ(pipe(p), 0);
		EXPECT_EQ(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
		TAKES_ABOUT(30, 12, FAILS(splice(s[0], NULL, p[1], NULL, 1, 0), EAGAIN));
		EXPECT_EQ(send(s[1], "abc", 3, 0), 3);
		EXPECT_EQ(splice(s[0], NULL, p[1], NULL, 10, 0), 3);
	}
}

/* First one end, then the other. */
TEST(both_ends_are_waited_for)
{
	struct call c = { .fn = splices };
	pthread_t t;
	char got[PAGE];

	for (int i = 0; i < 2; i++) {
		opens_pipes();
		if (i)
			tcp_pair(ends);
		EXPECT_EQ(fcntl(other[1], F_SETPIPE_SZ, PAGE), PAGE);
		EXPECT_EQ(fill(other[1]), PAGE);
		t = begins(&c);
		if (i)
			read_all(other[0], got, PAGE);
		else
			EXPECT_EQ(write(ends[1], "abc", 3), 3);
		settle();
		EXPECT_EQ(returned.n, 0);
		if (i)
			EXPECT_EQ(write(ends[1], "abc", 3), 3);
		else
			read_all(other[0], got, PAGE);
		expect_end(t, &c, 3);
		EXPECT_EQ(read(other[0], got, sizeof(got)), 3);
		EXPECT(memcmp(got, "abc", 3) == 0);
	}
}

/* ---- many of them ---- */

enum { BYTES = 1 << 18 };

static void *relays(void *arg)
{
	long sum = 0, r;

	while ((r = splice(ends[0], NULL, other[1], NULL, 3000, 0)) > 0)
		sum += r;
	EXPECT_EQ(r, 0);
	(void)arg;
	return (void *)sum;
}

static void *pours(void *arg)
{
	static char junk[1000];

	for (int left = BYTES; left > 0; left -= (int)sizeof(junk)) {
		size_t n = left < (int)sizeof(junk) ? (size_t)left : sizeof(junk);
		write_all(ends[1], junk, n);
	}
	EXPECT_EQ(close(ends[1]), 0);
	return arg;
}

TEST(several_relays_between_two_pipes_move_each_byte_once)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t[WAITERS], p;
		static char buf[5000];
		long sum = 0, r;
		opens_pipes();
		if (i)
			tcp_pair(ends);
		start(t, WAITERS, relays, NULL);
		start(&p, 1, pours, NULL);
		while (sum < BYTES && (r = read(other[0], buf, sizeof(buf))) > 0)
			sum += r;
		EXPECT_EQ(sum, BYTES);
		EXPECT_EQ(pthread_join(p, NULL), 0);
		for (int k = 0; k < WAITERS; k++)
			sum -= (long)result_of(t[k]);
		EXPECT_EQ(sum, 0);
	}
}
