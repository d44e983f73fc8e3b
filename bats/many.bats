#!/usr/bin/env bats
# Threads by the thousand: how many kernel threads the kernel counts, what wakes whom, what comes and goes beside them.
load common
load few

@test "a thousand threads at a barrier, in conditions, at read-write locks and mutexes: GOMAXPROCS + 3 in /proc/PID/status" {
	build held <<'C'
#include "kthreads.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { N = 1000 };
static pthread_barrier_t barrier;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t all;
static atomic_int in;
static int go;
static void here(void)
{
	if (++in % N == 0)
		sem_post(&all);
}
static void *work(void *arg)
{
	here();
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(&m);
	here();
	while (!go)
		pthread_cond_wait(&c, &m);
	pthread_mutex_unlock(&m);
	here();
	if (arg)
		pthread_rwlock_rdlock(&lock);
	else
		pthread_rwlock_wrlock(&lock);
	pthread_rwlock_unlock(&lock);
	here();
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	return arg;
}
/* When all are there; at most so many are not asleep yet. */
static void say(const char *where)
{
	while (sem_wait(&all) != 0)
		;
	printf("%s %d\n", where, kernel_threads());
}
int main(void)
{
	static pthread_t t[N];
	pthread_barrier_init(&barrier, NULL, N + 1);
	sem_init(&all, 0, 0);
	pthread_rwlock_wrlock(&lock);
	pthread_mutex_lock(&held);
	for (long i = 0; i < N; i++)
		if (pthread_create(&t[i], NULL, work, (void *)(i % 3)) != 0)
			return 1;
	say("barrier");
	pthread_barrier_wait(&barrier);
	say("condition");
	pthread_mutex_lock(&m);
	go = 1;
	pthread_cond_broadcast(&c);
	pthread_mutex_unlock(&m);
	say("rwlock");
	pthread_rwlock_unlock(&lock);
	say("mutex");
	pthread_mutex_unlock(&held);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	return 0;
}
C
	run "$work/held"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 4 ]
	for line in "${lines[@]}"; do [ "${line#* }" -gt 900 ]; done
	for procs in 1 2 8; do
		run preloaded $procs "$work/held"
		echo "GOMAXPROCS=$procs: $output"
		[ "$status" -eq 0 ]
		[ "${#lines[@]}" -eq 4 ]
		for line in "${lines[@]}"; do [ "${line#* }" -le $((procs + 3)) ]; done
	done
}

@test "a broadcast wakes one, though the mutex is held: the others wait for that, and are woken once" {
	build herd <<'C'
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>
enum { N = 1000 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, end = PTHREAD_COND_INITIALIZER;
static sem_t all;
static int in, go, out;
static void *waits(void *arg)
{
	pthread_mutex_lock(&m);
	if (++in == N)
		sem_post(&all);
	while (!go)
		pthread_cond_wait(&c, &m);
	if (++out == N)
		sem_post(&all);
	/* What a thread's end waits for is not counted. */
	for (;;)
		pthread_cond_wait(&end, &m);
	return arg;
}
int main(void)
{
	pthread_t t;
	sem_init(&all, 0, 0);
	for (int i = 0; i < N; i++)
		if (pthread_create(&t, NULL, waits, NULL) != 0)
			return 1;
	sem_wait(&all);
	pthread_mutex_lock(&m);
	go = 1;
	pthread_cond_broadcast(&c);
	/* Whoever is awake comes for the mutex. */
	for (int i = 0; i < 100; i++)
		sched_yield();
	pthread_mutex_unlock(&m);
	sem_wait(&all);
	printf("%d\n", out);
	fflush(stdout);
	_exit(0);
}
C
	for procs in 1 2 8; do
		rm -f "$work/stats"
		HEDDLE_STATS=$work/stats run preloaded $procs "$work/herd"
		[ "$status" -eq 0 ]
		[ "$output" = 1000 ]
		# Two waits of each. A herd's third would be for the mutex, as that of some is who come for it at first.
		echo "GOMAXPROCS=$procs: $(figure parks "$work/stats") parks"
		[ "$(figure parks "$work/stats")" -ge 2000 ]
		[ "$(figure parks "$work/stats")" -le 2700 ]
	done
}

@test "who spins gives way to the lock's holder: one P, and nobody is stopped" {
	build spins <<'C'
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
enum { THREADS = 8, TIMES = 50 };
static pthread_spinlock_t lock;
static long n;
static void *work(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		pthread_spin_lock(&lock);
		/* The others find it taken. */
		for (int k = 0; k < 3; k++)
			sched_yield();
		n++;
		pthread_spin_unlock(&lock);
	}
	return arg;
}
int main(void)
{
	pthread_t t[THREADS];
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, work, NULL) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%ld\n", n);
}
C
	[ "$("$work/spins")" = 400 ]
	HEDDLE_PREEMPT=off run preloaded 1 timeout 100 "$work/spins"
	[ "$status" -eq 0 ]
	[ "$output" = 400 ]
}

@test "a library with thread-local variables comes and goes while 3000 threads live" {
	echo '__thread int here = 7; int *where(void) { return &here; }' | gcc -shared -fPIC -x c - -o "$work/lib.so"
	build load <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { N = 3000, ROUNDS = 3 };
static pthread_barrier_t b;
static int *(*where)(void);
static void *work(void *arg)
{
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&b);
		pthread_barrier_wait(&b);
		if (*where() != 7)
			abort();
		*where() = (int)(long)arg;
		pthread_barrier_wait(&b);
		if (*where() != (int)(long)arg)
			abort();
		pthread_barrier_wait(&b);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	static pthread_t t[N];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&b, NULL, N + 1);
	for (long i = 0; i < N; i++)
		if (pthread_create(&t[i], &small, work, (void *)(i + 100)) != 0)
			return 1;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&b);
		void *lib = dlopen(argv[argc - 1], RTLD_NOW);
		*(void **)&where = dlsym(lib, "where");
		pthread_barrier_wait(&b);
		pthread_barrier_wait(&b);
		pthread_barrier_wait(&b);
		/* It is gone, not only forgotten. */
		if (dlclose(lib) != 0 || dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD))
			return 2;
	}
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	puts("good");
}
C
	for how in "" "preloaded 1" "preloaded 2" "preloaded 8"; do
		# shellcheck disable=SC2086  # words
		run $how "$work/load" "$work/lib.so"
		[ "$status" -eq 0 ]
		[ "$output" = good ]
	done
}
