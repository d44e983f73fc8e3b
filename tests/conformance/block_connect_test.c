/* connect to a listener that takes nobody, and all that may end it. The same holds natively. */
#include "common.h"

#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <sys/time.h>

static struct sockaddr_in at;
static int listener, stuffing, fd, held;

static const struct sockaddr *address(void)
{
	return (const struct sockaddr *)&at;
}

/* One that is bound there, or to a port of its own, and says which. All that are bound so share
 * the port, and nobody else gets it while one of them is there. */
static int binds(in_port_t port, struct sockaddr_in *where)
{
	socklen_t len = sizeof(*where);
	int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	*where = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_port = port,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	EXPECT_EQ(setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	EXPECT_EQ(bind(s, (struct sockaddr *)where, len), 0);
	EXPECT_EQ(getsockname(s, (struct sockaddr *)where, &len), 0);
	return s;
}

static int listens(int backlog, struct sockaddr_in *where)
{
	int l = binds(0, where);

	EXPECT_EQ(listen(l, backlog), 0);
	return l;
}

/* What asks for a connection now is not answered. Returns who has filled it. */
static int fills(int l, const struct sockaddr_in *where)
{
	struct pollfd p = { .fd = l, .events = POLLIN };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT_EQ(connect(s, (const struct sockaddr *)where, sizeof(*where)), 0);
	EXPECT_EQ(poll(&p, 1, -1), 1);
	return s;
}

/* Not before it asks again, which may take a second. Nobody else listens there meanwhile. */
static void refuses(void)
{
	held = binds(at.sin_port, &at);
	EXPECT_EQ(close(listener), 0);
	listener = -1;
}

/* s, which waits for a connection to *where, is asked for one from there: to both that is an
 * answer. Returns the other end. Not before that is the listener closed: who asks again finds one
 * or the other. */
static int answers(int l, struct sockaddr_in *where, int s)
{
	int end = binds(where->sin_port, where);
	struct sockaddr_in own;
	socklen_t len = sizeof(own);

	EXPECT_EQ(getsockname(s, (struct sockaddr *)&own, &len), 0);
	EXPECT_EQ(connect(end, (struct sockaddr *)&own, len), 0);
	EXPECT_EQ(close(l), 0);
	return end;
}

static int answer(int s)
{
	int end = answers(listener, &at, s);

	listener = -1;
	return end;
}

static void opens(void)
{
	listener = listens(0, &at);
	stuffing = fills(listener, &at);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT(fd >= 0);
	held = -1;
}

static void ends(void)
{
	if (listener >= 0)
		EXPECT_EQ(close(listener), 0);
	EXPECT_EQ(close(stuffing), 0);
	if (fd >= 0)
		EXPECT_EQ(close(fd), 0);
	if (held >= 0)
		EXPECT_EQ(close(held), 0);
}

/* ---- as any blocking call ---- */

static void opens_full(struct wait *w)
{
	struct sockaddr_in *where = w->own = malloc(sizeof(*where));

	w->fd[0] = listens(0, where);
	w->more = fills(w->fd[0], where);
	w->fd[1] = socket(AF_INET, SOCK_STREAM, 0);
}

static long connects_row(struct wait *w)
{
	return connect(w->fd[1], w->own, sizeof(struct sockaddr_in));
}

static long by_number(struct wait *w)
{
	return syscall(SYS_connect, w->fd[1], w->own, sizeof(struct sockaddr_in));
}

static void answers_row(struct wait *w)
{
	w->fd[0] = answers(w->fd[0], w->own, w->fd[1]);
}

BLOCKS(connect_, .open = opens_full, .block = connects_row, .release = answers_row, .wants = 0,
       .how = RESTARTS)
HOLDS_UP_NOBODY(SYS_connect_, .open = opens_full, .block = by_number, .release = answers_row,
		.wants = 0)

/* ---- what ends it ---- */

static void *connects(void *arg)
{
	long r;

	tick(&entered);
	errno = KEPT;
	r = connect(*(int *)arg, address(), sizeof(at));
	EXPECT(r < 0 || errno == KEPT);
	r = r < 0 ? -(long)errno : r;
	tick(&returned);
	return (void *)r;
}

/* One that has not slept for long may wait some other way than one that has. */
static pthread_t waits(bool long_ago)
{
	int before = entered.n;
	pthread_t t;

	start(&t, 1, connects, &fd);
	await(&entered, before + 1);
	settle();
	if (long_ago)
		usleep(30000);
	EXPECT_EQ(returned.n, 0);
	return t;
}

static void begins(void)
{
	entered.n = returned.n = handled.n = 0;
	opens();
}

static int error_of(int s)
{
	int error = 0;
	socklen_t len = sizeof(error);

	EXPECT_EQ(getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	return error;
}

static void expect_connected(int s)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);

	EXPECT_EQ(getpeername(s, (struct sockaddr *)&peer, &len), 0);
	EXPECT_EQ(peer.sin_port, at.sin_port);
	EXPECT_EQ(send(s, "x", 1, 0), 1);
	FAILS(connect(s, address(), sizeof(at)), EISCONN);
}

/* It may be used again. */
static void expect_unconnected(int s)
{
	struct sockaddr_in there;
	int l = listens(4, &there);

	EXPECT_EQ(error_of(s), 0);
	FAILS(send(s, "x", 1, MSG_NOSIGNAL), EPIPE);
	EXPECT_EQ(connect(s, (struct sockaddr *)&there, sizeof(there)), 0);
	EXPECT_EQ(send(s, "x", 1, 0), 1);
	EXPECT_EQ(close(l), 0);
}

TEST(connected_is_connected)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		int end;
		begins();
		t = waits(i);
		end = answer(fd);
		EXPECT_EQ(result_of(t), 0);
		expect_connected(fd);
		EXPECT_EQ(close(end), 0);
		ends();
	}
}

TEST(who_is_refused_hears_of_it_once)
{
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		begins();
		t = waits(i);
		refuses();
		EXPECT_EQ(result_of(t), -ECONNREFUSED);
		expect_unconnected(fd);
		ends();
	}
}

TEST(a_shutdown_ends_it)
{
	static const int how[] = { SHUT_RD, SHUT_WR, SHUT_RDWR };

	for (int i = 0; i < 6; i++) {
		pthread_t t;
		begins();
		t = waits(i % 2);
		EXPECT_EQ(shutdown(fd, how[i / 2]), 0);
		EXPECT_EQ(result_of(t), -ECONNRESET);
		expect_unconnected(fd);
		ends();
	}
}

TEST(who_disconnects_the_socket_ends_it)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	for (int i = 0; i < 2; i++) {
		pthread_t t;
		begins();
		t = waits(i);
		EXPECT_EQ(connect(fd, &none, sizeof(none)), 0);
		EXPECT_EQ(result_of(t), -EPIPE);
		EXPECT_EQ(error_of(fd), ECONNRESET);
		expect_unconnected(fd);
		ends();
	}
}

static void limit(int s, long ms)
{
	struct timeval v = { ms / 1000, ms % 1000 * 1000 };

	EXPECT_EQ(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &v, sizeof(v)), 0);
}

/* The connection goes on. */
TEST(its_time_is_that_of_sending)
{
	pthread_t t;
	long since;
	int end;

	begins();
	limit(fd, 60);
	since = now_ms();
	FAILS(connect(fd, address(), sizeof(at)), EINPROGRESS);
	EXPECT(took(since, 48));
	since = now_ms();
	FAILS(connect(fd, address(), sizeof(at)), EALREADY);
	EXPECT(took(since, 48));
	/* As it was when the call began. */
	start(&t, 1, connects, &fd);
	await(&entered, 1);
	settle();
	limit(fd, 0);
	EXPECT_EQ(result_of(t), -EALREADY);
	returned.n = 0;
	t = waits(true);
	end = answer(fd);
	EXPECT_EQ(result_of(t), 0);
	expect_connected(fd);
	EXPECT_EQ(close(end), 0);
	ends();
}

TEST(a_handler_ends_it_and_the_connection_goes_on)
{
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		int end;
		begins();
		handle(SIGUSR1, i < 2 ? 0 : SA_RESTART);
		if (i == 2)
			limit(fd, 100000);
		t = waits(i > 0);
		interrupt(t, SIGUSR1, &returned, 1);
		EXPECT_EQ(result_of(t), -EINTR);
		limit(fd, 0);
		nonblocking(fd, true);
		FAILS(connect(fd, address(), sizeof(at)), EALREADY);
		end = answer(fd);
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		EXPECT_EQ(poll(&p, 1, -1), 1);
		EXPECT_EQ(p.revents, POLLOUT);
		EXPECT_EQ(connect(fd, address(), sizeof(at)), 0);
		expect_connected(fd);
		EXPECT_EQ(close(end), 0);
		ends();
	}
}

static sigjmp_buf back;

static void jumps(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void *jumps_out(void *arg)
{
	if (sigsetjmp(back, 1) == 0) {
		tick(&entered);
		connect(fd, address(), sizeof(at));
	}
	tick(&returned);
	return arg;
}

static void *reads_one(void *arg)
{
	char c;

	tick(&entered);
	EXPECT_EQ(read(*(int *)arg, &c, 1), 1);
	return NULL;
}

/* What is made once for all who wait for a descriptor is there then. */
static void wait_for_a_descriptor(void)
{
	pthread_t t;
	int p[2];

	EXPECT_EQ(pipe(p), 0);
	entered.n = 0;
	start(&t, 1, reads_one, &p[0]);
	await(&entered, 1);
	settle();
	EXPECT_EQ(write(p[1], "x", 1), 1);
	join(&t, 1);
	EXPECT_EQ(close(p[0]), 0);
	EXPECT_EQ(close(p[1]), 0);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	EXPECT(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Nobody holds the socket then but its number. */
TEST(a_handler_may_jump_out_of_it)
{
	handle_with(SIGUSR1, jumps, SA_RESTART);
	wait_for_a_descriptor();
	for (int i = 0, before = 0; i < 8; i++) {
		pthread_t t;
		begins();
		start(&t, 1, jumps_out, NULL);
		await(&entered, 1);
		settle();
		if (i % 2)
			usleep(30000);
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		ends();
		if (i == 1)
			before = descriptors();
		if (i > 1)
			EXPECT_EQ(descriptors(), before);
	}
}

/* Its number is gone, or another's, and the call has its socket still. */
TEST(it_keeps_a_socket_that_is_closed)
{
	for (int i = 0; i < 4; i++) {
		int p[2], s, kept;
		pthread_t t;
		char c;
		begins();
		kept = dup(fd);
		t = waits(i % 2);
		EXPECT_EQ(pipe(p), 0);
		if (i < 2)
			EXPECT_EQ(close(fd), 0);
		else
			EXPECT_EQ(dup2(p[0], fd), fd);
		s = answer(kept);
		EXPECT_EQ(result_of(t), 0);
		expect_connected(kept);
		/* The last to hold it but for the call. */
		EXPECT_EQ(close(kept), 0);
		EXPECT_EQ(recv(s, &c, 1, 0), 1);
		EXPECT_EQ(recv(s, &c, 1, 0), 0);
		EXPECT_EQ(close(s), 0);
		EXPECT_EQ(close(p[0]), 0);
		EXPECT_EQ(close(p[1]), 0);
		if (i < 2)
			fd = -1;
		ends();
	}
}

static struct event goes_on;

static void stays(int sig)
{
	(void)sig;
	tick(&handled);
	await(&goes_on, 1);
}

/* And not with that of another, who has come to wait in the meantime. */
TEST(a_handler_that_returns_has_it_ask_by_the_number)
{
	for (int i = 0; i < 4; i++) {
		pthread_t t, other;
		begins();
		goes_on.n = 0;
		handle_with(SIGUSR1, stays, SA_RESTART);
		t = waits(i % 2);
		EXPECT_EQ(close(fd), 0);
		settle();
		EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
		await(&handled, 1);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		other = waits(i % 2);
		EXPECT_EQ(close(fd), 0);
		settle();
		tick(&goes_on);
		EXPECT_EQ(result_of(t), -EBADF);
		EXPECT_EQ(pthread_cancel(other), 0);
		expect_cancelled(other);
		fd = -1;
		ends();
	}
}

/* Not even if it was made while the call alone had the socket. */
TEST(a_child_does_not_keep_it)
{
	int p[2], kept, s;
	pthread_t t;
	pid_t pid;
	char c;

	begins();
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
	kept = dup(fd);
	t = waits(true);
	EXPECT_EQ(close(fd), 0);
	s = fd;
	fd = kept;
	pid = fork();
	if (pid == 0) {
		close(kept);
		close(listener);
		close(stuffing);
		close(p[1]);
		_exit(write(p[0], "x", 1) != 1 || read(p[0], &c, 1) != 0 ||
		      fcntl(s, F_GETFD) != -1);
	}
	EXPECT_EQ(close(p[0]), 0);
	EXPECT_EQ(read(p[1], &c, 1), 1);
	s = answer(fd);
	EXPECT_EQ(result_of(t), 0);
	EXPECT_EQ(close(fd), 0);
	fd = -1;
	EXPECT_EQ(recv(s, &c, 1, 0), 0);
	EXPECT_EQ(close(s), 0);
	EXPECT_EQ(close(p[1]), 0);
	EXPECT_EQ(status_of(pid), 0);
	ends();
}

/* ---- others at the same socket ---- */

TEST(two_wait_for_one_connection)
{
	for (int i = 0; i < 6; i++) {
		long a, b;
		pthread_t t[2];
		int end = -1;
		begins();
		t[0] = waits(i % 2);
		t[1] = waits(i % 2);
		if (i / 2 == 0)
			end = answer(fd);
		else if (i / 2 == 1)
			refuses();
		else
			EXPECT_EQ(shutdown(fd, SHUT_RDWR), 0);
		a = result_of(t[0]);
		b = result_of(t[1]);
		if (i / 2 == 0) {
			EXPECT(a == 0 && b == 0);
			expect_connected(fd);
			EXPECT_EQ(close(end), 0);
		} else {
			/* Of an error one hears what it is. */
			long error = i / 2 == 1 ? -ECONNREFUSED : -ECONNRESET;
			EXPECT_EQ(a == error ? b : a, -EPIPE);
			EXPECT_EQ(a == error ? a : b, error);
			expect_unconnected(fd);
		}
		ends();
	}
}

TEST(others_see_a_connection_under_way)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	struct pollfd p;
	pthread_t t;
	int end;

	begins();
	t = waits(true);
	p = (struct pollfd){ .fd = fd, .events = POLLIN | POLLOUT };
	EXPECT_EQ(poll(&p, 1, 0), 0);
	EXPECT_EQ(error_of(fd), 0);
	FAILS(getpeername(fd, (struct sockaddr *)&peer, &len), ENOTCONN);
	FAILS(send(fd, "x", 1, MSG_DONTWAIT), EAGAIN);
	EXPECT_EQ(fcntl(fd, F_GETFL), O_RDWR);
	/* Who is told not to wait does not, and whoever waits goes on. */
	nonblocking(fd, true);
	FAILS(connect(fd, address(), sizeof(at)), EALREADY);
	EXPECT_EQ(returned.n, 0);
	end = answer(fd);
	EXPECT_EQ(result_of(t), 0);
	FAILS(connect(fd, address(), sizeof(at)), EISCONN);
	EXPECT_EQ(close(end), 0);
	ends();
}

/* ---- what does not wait ---- */

static void *does_not_wait(void *arg)
{
	struct sockaddr_in there, nobody;
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	int l = listens(4, &there), s = socket(AF_INET, SOCK_STREAM, 0), p[2];
	int deaf = binds(0, &nobody);
	const struct sockaddr *to = (struct sockaddr *)&there;

	EXPECT_EQ(pipe(p), 0);
	FAILS(connect(-1, to, sizeof(there)), EBADF);
	FAILS(connect(p[0], to, sizeof(there)), ENOTSOCK);
	FAILS(connect(s, nowhere, sizeof(there)), EFAULT);
	FAILS(connect(s, to, 1), EINVAL);
	FAILS(connect(s, to, 8), EINVAL);
	FAILS(connect(s, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT);
	FAILS(connect(s, (struct sockaddr *)&nobody, sizeof(nobody)), ECONNREFUSED);
	EXPECT_EQ(connect(s, to, sizeof(there)), 0);
	FAILS(connect(s, to, sizeof(there)), EISCONN);
	EXPECT_EQ(close(s), 0);
	FAILS(connect(l, to, sizeof(there)), EISCONN);
	s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connect(s, to, sizeof(there)), EINPROGRESS);
	EXPECT_EQ(close(s), 0);
	s = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT_EQ(connect(s, to, sizeof(there)), 0);
	EXPECT_EQ(connect(s, (struct sockaddr *)&nobody, sizeof(nobody)), 0);
	EXPECT_EQ(close(s), 0);
	EXPECT_EQ(close(l), 0);
	EXPECT_EQ(close(deaf), 0);
	EXPECT_EQ(close(p[0]), 0);
	EXPECT_EQ(close(p[1]), 0);
	return arg;
}

TEST(what_is_refused_or_done_at_once_is_not_waited_for)
{
	in_threads(4, does_not_wait);
}

/* ---- many ---- */
enum { CLIENTS = 64, ROUNDS = 50 };
static struct sockaddr_in home;

static void *comes_and_goes(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);
		char c = 0;
		EXPECT_EQ(connect(s, (struct sockaddr *)&home, sizeof(home)), 0);
		EXPECT_EQ(recv(s, &c, 1, 0), 1);
		EXPECT_EQ(c, 'x');
		EXPECT_EQ(close(s), 0);
	}
	return arg;
}

TEST(many_connect_and_each_is_let_in)
{
	pthread_t t[CLIENTS];
	int l = listens(CLIENTS, &home);

	start(t, CLIENTS, comes_and_goes, NULL);
	for (int i = 0; i < CLIENTS * ROUNDS; i++) {
		int s = accept(l, NULL, NULL);
		EXPECT_EQ(send(s, "x", 1, 0), 1);
		EXPECT_EQ(close(s), 0);
	}
	join(t, CLIENTS);
	EXPECT_EQ(close(l), 0);
}
