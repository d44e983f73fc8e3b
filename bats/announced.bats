#!/usr/bin/env bats
# Calls that block their kernel thread: when their P goes to others.
load common

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
