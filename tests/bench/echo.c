/* A thread for each connection: a server that sends back what it got. `echo serve` starts
 * `echo load PORT FD` of its own, natively: one thread that keeps 64 bytes under way on each of
 * 1000 connections. Figures: messages a second, and the server's cpu time for a message.
 *
 * The two agree over a socket (FD) when to measure: the load says that it is about to begin,
 * the server notes its cpu time and answers; the load says how many came back in how long. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 1000, SIZE = 64, WARM_NS = 100000000, MEASURE_NS = 300000000 };

struct outcome {
	uint64_t messages, ns;
};

static void raise_files(void)
{
	struct rlimit r;

	MUST(getrlimit(RLIMIT_NOFILE, &r) == 0);
	MUST(r.rlim_max >= CONNECTIONS + 50);
	if (r.rlim_cur < CONNECTIONS + 50) {
		r.rlim_cur = CONNECTIONS + 50;
		MUST(setrlimit(RLIMIT_NOFILE, &r) == 0);
	}
}

/* All of it or, where the peer has closed before its first byte, nothing. */
static bool read_whole(int fd, void *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t n = read(fd, (char *)to + got, size - got);
		if (n == 0 && got == 0)
			return false;
		MUST(n > 0);
		got += (size_t)n;
	}
	return true;
}

static void write_whole(int fd, const void *from, size_t size)
{
	MUST(write(fd, from, size) == (ssize_t)size);
}

/* ---- the server ---- */

static void *serves(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[SIZE];

	while (read_whole(fd, buf, SIZE))
		write_whole(fd, buf, SIZE);
	close(fd);
	return arg;
}

static double cpu_us(void)
{
	struct rusage r;

	MUST(getrusage(RUSAGE_SELF, &r) == 0);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static int listen_on(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*a = (struct sockaddr_in){ .sin_family = AF_INET };
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(fd >= 0 && bind(fd, (struct sockaddr *)a, sizeof(*a)) == 0);
	MUST(listen(fd, CONNECTIONS) == 0);
	MUST(getsockname(fd, (struct sockaddr *)a, &len) == 0);
	return fd;
}

/* With an empty environment: whatever is preloaded here is not there. */
static pid_t start_load(const struct sockaddr_in *a, int control)
{
	char port[16], fd[16];
	char *argv[] = { "echo", "load", port, fd, NULL }, *env[] = { NULL };
	pid_t pid;

	snprintf(port, sizeof(port), "%d", ntohs(a->sin_port));
	snprintf(fd, sizeof(fd), "%d", control);
	MUST(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, env) == 0);
	return pid;
}

static void serve(int argc, char **argv)
{
	static pthread_t t[CONNECTIONS];
	struct sockaddr_in a;
	struct outcome o;
	double before, after;
	int control[2], status, listener = listen_on(&a);
	pid_t pid;

	(void)argc;
	(void)argv;
	raise_files();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, control) == 0);
	pid = start_load(&a, control[1]);
	close(control[1]);
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = accept(listener, NULL, NULL);
		MUST(fd >= 0);
		bench_spawn(&t[i], serves, (void *)(intptr_t)fd);
	}
	close(listener);
	MUST(read_whole(control[0], &status, sizeof(status)));
	before = cpu_us();
	write_whole(control[0], &status, sizeof(status));
	MUST(read_whole(control[0], &o, sizeof(o)));
	after = cpu_us();
	write_whole(control[0], &status, sizeof(status));
	for (int i = 0; i < CONNECTIONS; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	MUST(o.messages > 0);
	bench_figure((double)o.messages * 1e9 / (double)o.ns, "msg/s");
	bench_figure((after - before) / (double)o.messages, "µs");
}

/* ---- the load ---- */

static struct connection {
	int fd;
	uint32_t sent, got; /* messages; bytes of the one under way */
} connections[CONNECTIONS];

/* No two messages are the same. */
static void message(const struct connection *c, uint32_t to[SIZE / 4])
{
	for (uint32_t i = 0; i < SIZE / 4; i++)
		to[i] = (uint32_t)(c - connections) * 1000003 + c->sent * 17 + i;
}

static void send_next(struct connection *c)
{
	uint32_t m[SIZE / 4];

	c->sent++;
	c->got = 0;
	message(c, m);
	write_whole(c->fd, m, SIZE);
}

/* Whether the message under way is back. */
static bool receive(struct connection *c)
{
	uint32_t m[SIZE / 4];
	char buf[SIZE];
	ssize_t n = read(c->fd, buf, SIZE - c->got);

	MUST(n > 0);
	message(c, m);
	MUST(memcmp(buf, (char *)m + c->got, (size_t)n) == 0);
	c->got += (uint32_t)n;
	return c->got == SIZE;
}

/* Keeps every connection busy for so long, then waits for what is under way. */
static struct outcome drive(int ep, uint64_t ns)
{
	struct epoll_event ev[256];
	struct outcome o = { 0, 0 };
	uint64_t t0 = bench_now();
	int under_way = CONNECTIONS;

	for (int i = 0; i < CONNECTIONS; i++)
		send_next(&connections[i]);
	while (under_way > 0) {
		int n = epoll_wait(ep, ev, 256, -1);
		bool more = bench_now() - t0 < ns;
		MUST(n > 0);
		for (int i = 0; i < n; i++) {
			struct connection *c = ev[i].data.ptr;
			if (!receive(c))
				continue;
			o.messages++;
			if (more)
				send_next(c);
			else
				under_way--;
		}
	}
	o.ns = bench_now() - t0;
	return o;
}

static void load(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int ep = epoll_create1(0), control, word = 0;
	struct outcome o;

	MUST(argc == 2 && ep >= 0);
	raise_files();
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)atoi(argv[0]));
	control = atoi(argv[1]);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &connections[i] };
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		MUST(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
		connections[i].fd = fd;
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0);
	}
	drive(ep, WARM_NS);
	write_whole(control, &word, sizeof(word));
	MUST(read_whole(control, &word, sizeof(word)));
	o = drive(ep, MEASURE_NS);
	write_whole(control, &o, sizeof(o));
	MUST(read_whole(control, &word, sizeof(word)));
	for (int i = 0; i < CONNECTIONS; i++)
		close(connections[i].fd);
}

const struct row bench_rows[] = {
	{ .name = "serve", .once = serve },
	{ .name = "load", .once = load },
	{ 0 },
};
