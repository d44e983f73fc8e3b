#!/usr/bin/env bats
# Threads that wait for descriptors in calls of more than one step need no more kernel threads than those
# that wait in read.
load common

build_waits() {
	build waits <<'C'
#define _GNU_SOURCE
#include "kthreads.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { N = 200, BIG = 1 << 20 };
static int s[N][2], listener, from[2], to[2], full[2];
static struct sockaddr_in at;
static char big[BIG];
static _Atomic int entered, left;
static const char *what;

static long waits(int i)
{
	struct iovec much[2] = { { big, BIG }, { big, BIG } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = much, .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = much + 1, .msg_iovlen = 1 } } };
	if (!strcmp(what, "waitall"))
		return recv(s[i][0], big, 10, MSG_WAITALL);
	if (!strcmp(what, "master"))
		return read(s[i][0], big, 10);
	if (!strcmp(what, "splice"))
		return splice(s[i][0], NULL, to[1], NULL, 10, 0);
	if (!strcmp(what, "tee"))
		return tee(from[0], to[1], 10, 0);
	if (!strcmp(what, "vmsplice"))
		return vmsplice(full[1], much, 1, 0);
	if (!strcmp(what, "accept"))
		return accept(s[0][0], NULL, NULL);
	if (!strcmp(what, "connect"))
		return connect(s[i][0], (struct sockaddr *)&at, sizeof(at));
	if (!strcmp(what, "sendmmsg"))
		return sendmmsg(s[i][1], m, 2, 0);
	abort();
}

static void *thread(void *arg)
{
	entered++;
	if (waits((int)(long)arg) < 0)
		exit(1);
	left++;
	return NULL;
}

int main(int argc, char **argv)
{
	socklen_t len = sizeof(at);
	int size = 8192, most = 0;
	pthread_t t;
	what = argv[argc - 1];
	for (int i = 0; i < N; i++) {
		if (!strcmp(what, "accept") || !strcmp(what, "connect"))
			s[i][0] = socket(AF_INET, SOCK_STREAM, 0);
		else if (!strcmp(what, "master")) {
			if (openpty(&s[i][0], &s[i][1], NULL, NULL, NULL))
				return 1;
		} else if (socketpair(AF_UNIX, SOCK_STREAM, 0, s[i]))
			return 1;
		if (!strcmp(what, "waitall") && send(s[i][1], "part", 4, 0) != 4)
			return 1;
		setsockopt(s[i][1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	}
	if (pipe(from) || pipe(to) || pipe2(full, O_NONBLOCK) || write(full[1], big, BIG) < 1 ||
	    fcntl(full[1], F_SETFL, 0))
		return 1;
	if (!strcmp(what, "accept") && listen(s[0][0], N))
		return 1;
	if (!strcmp(what, "connect")) {
		/* Its queue is full: who asks gets no answer. */
		int full = socket(AF_INET, SOCK_STREAM, 0);
		listener = socket(AF_INET, SOCK_STREAM, 0);
		at.sin_family = AF_INET;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (bind(listener, (struct sockaddr *)&at, len) ||
		    getsockname(listener, (struct sockaddr *)&at, &len) || listen(listener, 0) ||
		    connect(full, (struct sockaddr *)&at, len) ||
		    /* Not before its answer has come here, too. */
		    poll(&(struct pollfd){ listener, POLLIN, 0 }, 1, -1) != 1)
			return 1;
	}
	for (long i = 0; i < N; i++) {
		if (pthread_create(&t, NULL, thread, (void *)i))
			return 1;
		most = kernel_threads() > most ? kernel_threads() : most;
	}
	while (entered < N)
		usleep(1000);
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		most = kernel_threads() > most ? kernel_threads() : most;
	}
	printf("%d left, %d kernel threads, at most %d\n", left, kernel_threads(), most);
	fflush(stdout);
	_exit(0);
}
C
}

@test "two hundred threads in each call that parks between its steps are held by few kernel threads" {
	build_waits
	for what in accept connect master sendmmsg waitall splice tee vmsplice; do
		run "$work/waits" $what
		[[ "$output" = "0 left, 201 kernel threads, at most 201" ]] || { echo "$what natively: $output"; false; }
		for procs in 1 2 8; do
			run preloaded $procs "$work/waits" $what
			echo "$what, GOMAXPROCS=$procs: $output"
			[ "$status" -eq 0 ]
			most=$(sed -nE 's/^0 left, [0-9]+ kernel threads, at most ([0-9]+)$/\1/p' <<<"$output")
			# On a machine with few cpus those of many Ps take turns.
			[ "$most" -le $((2 * procs + 20)) ]
		done
	done
}
