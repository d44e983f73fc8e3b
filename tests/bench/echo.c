/* A thread for each connection: a server that sends back what it got. `echo against N [VAR=VALUE…]
 * [--by PROGRAM]` starts `echo serve`, or another program that serves as it does, with these
 * settings, and is its load, natively: one thread that keeps 64 bytes under way on each of N
 * connections. Figures: messages a second; the server's cpu time for a message; how long 99 of 100
 * messages took at most; the server's kernel threads.
 *
 * A server says its port on standard output and serves until it is killed. */
#include "bench.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 20000, SIZE = 64, WARM_NS = 200000000, MEASURE_NS = 500000000, SETTINGS = 8 };

static void raise_files(void)
{
	struct rlimit r;

	MUST(getrlimit(RLIMIT_NOFILE, &r) == 0);
	r.rlim_cur = r.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &r) == 0);
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

static void serve(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)argc;
	(void)argv;
	raise_files();
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0);
	MUST(listen(listener, MOST) == 0);
	MUST(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
	printf("%d\n", ntohs(a.sin_port));
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t t;
		MUST(fd >= 0);
		bench_spawn(&t, serves, (void *)(intptr_t)fd);
		MUST(pthread_detach(t) == 0);
	}
}

/* Starts `program`, or this one, as a server; *port is what it says. */
static pid_t start_server(char *program, char **settings, int *port)
{
	char *own[] = { "echo", "serve", NULL }, *other[] = { program, NULL };
	posix_spawn_file_actions_t actions;
	char said[16] = "";
	int out[2];
	pid_t pid;

	MUST(pipe(out) == 0);
	MUST(posix_spawn_file_actions_init(&actions) == 0);
	MUST(posix_spawn_file_actions_adddup2(&actions, out[1], 1) == 0);
	MUST(posix_spawn_file_actions_addclose(&actions, out[0]) == 0);
	errno = posix_spawn(&pid, program ? program : "/proc/self/exe", &actions, NULL,
			    program ? other : own, settings);
	MUST(errno == 0);
	close(out[1]);
	MUST(read(out[0], said, sizeof(said) - 1) > 0);
	close(out[0]);
	*port = atoi(said);
	MUST(*port > 0);
	return pid;
}

/* Of all its threads, so far. */
static double cpu_us(pid_t pid)
{
	char path[64];
	struct dirent *d;
	double sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	MUST(dir != NULL);
	while ((d = readdir(dir)) != NULL) {
		double ns;
		FILE *f;
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", pid, d->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%lf", &ns) == 1)
			sum += ns;
		fclose(f);
	}
	closedir(dir);
	return sum / 1000;
}

static int kernel_threads(pid_t pid)
{
	char path[64], line[128];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	MUST(f != NULL);
	while (n == 0 && fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

/* ---- the load ---- */

static struct connection {
	int fd;
	uint32_t sent, got; /* messages; bytes of the one under way */
	uint64_t since; /* of the one under way */
} connections[MOST];

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
	c->since = bench_now();
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

/* How many messages took so many µs; the last place is for those that took longer. */
enum { LONGEST = 1 << 20 };
static uint32_t took[LONGEST];

static uint64_t percentile(uint64_t messages, uint64_t percent)
{
	uint64_t left = messages * percent / 100, us = 0;

	while (us < LONGEST - 1 && left >= took[us])
		left -= took[us++];
	return us;
}

struct outcome {
	uint64_t messages, ns;
};

/* Keeps each of the n connections busy for so long, then waits for what is under way. */
static struct outcome drive(int ep, int n, uint64_t ns)
{
	struct epoll_event ev[256];
	struct outcome o = { 0, 0 };
	uint64_t t0 = bench_now();
	int under_way = n;

	memset(took, 0, sizeof(took));
	for (int i = 0; i < n; i++)
		send_next(&connections[i]);
	while (under_way > 0) {
		int ready = epoll_wait(ep, ev, 256, -1);
		MUST(ready > 0);
		for (int i = 0; i < ready; i++) {
			struct connection *c = ev[i].data.ptr;
			uint64_t now, us;
			if (!receive(c))
				continue;
			now = bench_now();
			us = (now - c->since) / 1000;
			took[us < LONGEST ? us : LONGEST - 1]++;
			o.messages++;
			if (now - t0 < ns)
				send_next(c);
			else
				under_way--;
		}
	}
	o.ns = bench_now() - t0;
	return o;
}

static void connect_all(int ep, int n, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)port);
	for (int i = 0; i < n; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &connections[i] };
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		MUST(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
		connections[i].fd = fd;
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0);
	}
}

static void against(int argc, char **argv)
{
	char *settings[SETTINGS + 1] = { NULL }, *program = NULL;
	int ep = epoll_create1(EPOLL_CLOEXEC), n, port, status, nsettings = 0;
	double before, after;
	struct outcome o;
	pid_t pid;

	MUST(argc >= 1 && ep >= 0);
	n = atoi(argv[0]);
	MUST(n > 0 && n <= MOST);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--by") == 0 && i + 1 < argc) {
			program = argv[++i];
		} else {
			MUST(nsettings < SETTINGS && strchr(argv[i], '='));
			settings[nsettings++] = argv[i];
		}
	}
	raise_files();
	pid = start_server(program, settings, &port);
	connect_all(ep, n, port);
	drive(ep, n, WARM_NS);
	before = cpu_us(pid);
	o = drive(ep, n, MEASURE_NS);
	after = cpu_us(pid);
	bench_figure((double)o.messages * 1e9 / (double)o.ns, "msg/s");
	bench_figure((after - before) / (double)o.messages, "µs");
	bench_figure((double)percentile(o.messages, 99), "µs");
	bench_figure(kernel_threads(pid), "threads");
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

const struct row bench_rows[] = {
	{ .name = "serve", .once = serve },
	{ .name = "against", .once = against },
	{ 0 },
};
