/* Blocking calls: a byte to and fro between two threads, and between two processes; a byte that is
 * always there. */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ends[me]: where I read, where I write. An operation is a round trip. */
static struct {
	int in, out;
} ends[2];

static void player(unsigned me, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)i;
		if (me == 0)
			MUST(write(ends[me].out, &c, 1) == 1);
		MUST(read(ends[me].in, &c, 1) == 1);
		MUST(c == (unsigned char)i);
		if (me == 1)
			MUST(write(ends[me].out, &c, 1) == 1);
	}
}

static uint64_t pipe_pair(uint64_t n)
{
	int there[2], back[2];
	uint64_t ns;

	MUST(pipe(there) == 0 && pipe(back) == 0);
	ends[0].in = back[0];
	ends[0].out = there[1];
	ends[1].in = there[0];
	ends[1].out = back[1];
	ns = bench_team(2, player, n);
	for (int i = 0; i < 2; i++)
		MUST(close(there[i]) == 0 && close(back[i]) == 0);
	return ns;
}

static uint64_t socket_pair(uint64_t n)
{
	int s[2];
	uint64_t ns;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
	for (int i = 0; i < 2; i++)
		ends[i].in = ends[i].out = s[i];
	ns = bench_team(2, player, n);
	MUST(close(s[0]) == 0 && close(s[1]) == 0);
	return ns;
}

static uint64_t zero(uint64_t n)
{
	static int fd = -1;
	uint64_t t0;

	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	MUST(fd >= 0);
	t0 = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		char c = 1;
		MUST(read(fd, &c, 1) == 1 && c == 0);
	}
	return bench_now() - t0;
}

static void *sleeps(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* As in a program that has threads: the kernel counts who uses the descriptors of two. */
static uint64_t zero_beside(uint64_t n)
{
	static bool beside;
	pthread_t t;

	if (!beside)
		bench_spawn(&t, sleeps, NULL);
	beside = true;
	return zero(n);
}

/* A client in a process of its own, a plain one however the server is run: it asks, and waits for
 * each answer. */
static void client(int argc, char **argv)
{
	int fd;

	MUST(argc == 2);
	fd = atoi(argv[0]);
	for (long i = 0, n = atol(argv[1]); i < n; i++) {
		unsigned char c = (unsigned char)i;
		MUST(write(fd, &c, 1) == 1);
		MUST(read(fd, &c, 1) == 1);
		MUST(c == (unsigned char)i);
	}
}

static pid_t start_client(int fd, uint64_t n)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		char of[32], many[32], *none[] = { NULL };
		snprintf(of, sizeof(of), "%d", fd);
		snprintf(many, sizeof(many), "%llu", (unsigned long long)n);
		execle("/proc/self/exe", "pipes", "client", of, many, NULL, none);
		_exit(127);
	}
	return pid;
}

static void server(unsigned me, uint64_t n)
{
	unsigned char c;

	(void)me;
	for (uint64_t i = 0; i < n; i++) {
		MUST(read(ends[0].in, &c, 1) == 1);
		MUST(write(ends[0].out, &c, 1) == 1);
	}
}

static uint64_t answer(uint64_t n)
{
	int s[2], status;
	uint64_t ns;
	pid_t pid;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
	MUST(fcntl(s[0], F_SETFD, FD_CLOEXEC) == 0);
	ends[0].in = ends[0].out = s[0];
	pid = start_client(s[1], n);
	MUST(close(s[1]) == 0);
	/* Until the first time it has asked: what it takes to start it is no part of the figure. */
	MUST(recv(s[0], &status, 1, MSG_PEEK) == 1);
	ns = bench_team(1, server, n);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	MUST(close(s[0]) == 0);
	return ns;
}

const struct row bench_rows[] = {
	{ .name = "pipe", .timed = pipe_pair },
	{ .name = "socketpair", .timed = socket_pair },
	{ .name = "answer", .timed = answer },
	{ .name = "client", .once = client },
	{ .name = "read-zero", .timed = zero_beside },
	{ .name = "zero-left", .timed = zero, .threaded = true },
	{ 0 },
};
