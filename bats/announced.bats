#!/usr/bin/env bats
# Calls that block their kernel thread: when their P goes to others.
load common
load few

# At first a thread works on the other P, and sysmon takes that of the call that lasts; then that one is idle, too, and
# sysmon sees no need.
@test "what blocked the last time lends its P at once, and what came back at once keeps it" {
	build semaphore <<'C'
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int works, worked;

static void add(int set, int n)
{
	struct sembuf op = { 0, (short)n, 0 };

	if (semop(set, &op, 1) < 0)
		exit(1);
}

/* Lets go of each that sleeps, of the first so late that sysmon has been there. */
static void releases(int set, int found, int lasting)
{
	for (int i = 0; i < found + lasting; i++) {
		while (semctl(set, 0, GETNCNT) == 0)
			usleep(100);
		usleep(i < found ? 50000 : 1000);
		add(set, 1);
	}
	_exit(0);
}

static void *work(void *arg)
{
	while (works)
		worked++;
	return arg;
}

static void *park(void *end)
{
	sem_wait(end);
	return NULL;
}

int main(int argc, char **argv)
{
	int found = atoi(argv[1]), lasting = atoi(argv[2]), brief = atoi(argv[3]);
	int set = semget(IPC_PRIVATE, 1, 0600), child = fork();
	pthread_t parked, worker;
	sem_t end;

	if (child == 0)
		releases(set, found, lasting);
	sem_init(&end, 0, 0);
	pthread_create(&parked, NULL, park, &end);
	for (int i = 0; i < found; i++) {
		int before = worked;
		works = 1;
		pthread_create(&worker, NULL, work, NULL);
		add(set, -1);
		if (worked == before)
			return 2;
		works = 0;
		pthread_join(worker, NULL);
	}
	for (int i = 0; i < lasting; i++)
		add(set, -1);
	waitpid(child, NULL, 0);
	for (int i = 0; i < brief; i++) {
		add(set, 1);
		add(set, -1);
	}
	semctl(set, 0, IPC_RMID);
	sem_post(&end);
	pthread_join(parked, NULL);
	return 0;
}
C
	taken() {
		HEDDLE_STATS=$work/stats preloaded 2 timeout 60 "$work/semaphore" "$@"
		sed -n 's/.*retakecall=\([0-9]*\).*/\1/p' "$work/stats"
		rm "$work/stats"
	}
	run taken 1 100 2000
	echo "with 100 that last: $output"
	[ "$output" -ge 100 ]
	[ "$output" -le 150 ]
	run taken 0 0 2000
	echo "with none: $output"
	[ "$output" -le 50 ]
}

# Natively the same calls.
@test "what the program itself has made non-blocking is not asked whether it is" {
	build nonblocking <<'C'
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void *reads(void *arg)
{
	for (int i = 0; i < 50; i++) {
		int s = socket(AF_INET, SOCK_DGRAM, 0), t = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
		char c;
		fcntl(s, F_SETFL, O_NONBLOCK);
		ioctl(t, FIONBIO, &on);
		if (read(s, &c, 1) != -1 || errno != EAGAIN || recv(t, &c, 1, 0) != -1 || errno != EAGAIN)
			exit(1);
		close(s);
		close(t);
	}
	return arg;
}

int main(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, reads, NULL) || pthread_join(t, NULL);
}
C
	strace -f -qq -e trace=fcntl -o "$work/native" "$work/nonblocking"
	[ "$(grep -c F_SETFL "$work/native")" -eq 50 ]
	strace -f -qq -e trace=fcntl,fstat,newfstatat -E GOMAXPROCS=1 -E LD_PRELOAD="$heddle" -o "$work/calls" "$work/nonblocking"
	[ "$(grep -c F_SETFL "$work/calls")" -eq 50 ]
	[ "$(grep -c F_GETFL "$work/calls")" -eq 0 ]
	[ "$(grep -c fstat "$work/calls")" -lt 50 ]
}

# Of a copy out of the page cache nobody would have a cpu meanwhile; to hand its P on and to wait for one takes as long.
@test "a call that computes in the kernel keeps its P, however long it has lasted the last time" {
	build copies <<-'C'
		#include <fcntl.h>
		#include <pthread.h>
		#include <stdlib.h>
		#include <unistd.h>
		enum { THREADS = 6, TIMES = 200, SIZE = 1 << 20 };
		static void *copies(void *arg)
		{
			char *to = malloc(SIZE);
			int fd = open("/dev/zero", O_RDONLY);
			for (int i = 0; i < TIMES; i++) {
				if (pread(fd, to, SIZE, 0) != SIZE)
					_exit(1);
				for (volatile int k = 0; k < 10000; k++)
					;
			}
			close(fd);
			free(to);
			return arg;
		}
		int main(void)
		{
			pthread_t t[THREADS];
			for (int i = 0; i < THREADS; i++)
				pthread_create(&t[i], NULL, copies, NULL);
			for (int i = 0; i < THREADS; i++)
				pthread_join(t[i], NULL);
			return 0;
		}
	C
	"$work/copies"
	GOMAXPROCS=2 LD_PRELOAD=$heddle HEDDLE_STATS=$work/stats "$work/copies"
	echo "of $(figure announced "$work/stats") calls $(figure retakecall "$work/stats") gave way"
	[ "$(figure retakecall "$work/stats")" -le 400 ]
}
