#!/usr/bin/env bats
# Who waits for another thread by calls that return at once: strongSwan's watcher polls a descriptor that is ready until a
# worker has seen to it, and had its P for 10 ms each time.
load common
load few

@test "who asks again and again by poll, select, epoll_wait, read or recv gives way before his slice is over" {
	build asks <<'C'
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>
enum { JOBS = 50, WAYS = 7 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int jobs, readable[2], empty[2], pair[2], set;
static atomic_int busy;
static void *worker(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&m);
		while (jobs == 0)
			pthread_cond_wait(&c, &m);
		jobs--;
		pthread_mutex_unlock(&m);
		busy = 0;
	}
	return arg;
}
static int ask(int way)
{
	struct pollfd p = { .fd = readable[0], .events = POLLIN };
	struct timeval none = { 0, 0 };
	struct epoll_event e;
	fd_set fds;
	char byte;
	switch (way) {
	case 0:
		return poll(&p, 1, -1) == 1;
	case 1:
		p.fd = empty[0];
		return poll(&p, 1, 0) == 0;
	case 2:
		return ppoll(&p, 1, NULL, NULL) == 1;
	case 3:
		FD_ZERO(&fds);
		FD_SET(empty[0], &fds);
		return select(empty[0] + 1, &fds, NULL, NULL, &none) == 0;
	case 4:
		return epoll_wait(set, &e, 1, -1) == 1;
	case 5:
		return read(empty[0], &byte, 1) == -1 && errno == EAGAIN;
	default:
		return recv(pair[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
	}
}
int main(void)
{
	struct epoll_event in = { .events = EPOLLIN };
	pthread_t t;
	pipe(readable);
	pipe2(empty, O_NONBLOCK);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	write(readable[1], "", 1);
	set = epoll_create1(0);
	epoll_ctl(set, EPOLL_CTL_ADD, readable[0], &in);
	pthread_create(&t, NULL, worker, NULL);
	for (int way = 0; way < WAYS; way++) {
		for (int i = 0; i < JOBS; i++) {
			busy = 1;
			pthread_mutex_lock(&m);
			jobs++;
			pthread_cond_signal(&c);
			pthread_mutex_unlock(&m);
			while (busy)
				if (!ask(way))
					return 1 + way;
		}
	}
	return 0;
}
C
	"$work/asks"
	GOMAXPROCS=1 LD_PRELOAD=$heddle HEDDLE_STATS=$work/stats "$work/asks"
	echo "$(figure yields "$work/stats") times it gave way, $(figure preempts "$work/stats") slices were over"
	# Of 350 jobs, where other processes have the cpu in some.
	[ "$(figure preempts "$work/stats")" -le 60 ]
}
