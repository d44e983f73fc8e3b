#!/usr/bin/env bats
# Libraries of threads: programs that check what they get say the same as natively, on few kernel threads.
load common
load few

setup() {
	: >"$work/in"
}

# What waits for a barrier, or for a lock of libomp's, yields at first: to the kernel if no other is to run.
@test "C++20: futures, latches, barriers, semaphores, shared locks, waits on atomics, 500 stop tokens" {
	the_same_on_few 501 16 "$top/build/runtimes/cxx"
	[ "$(cat "$work/out")" = "all good" ]
}

@test "oneTBB's tasks, Boost's threads" {
	the_same_on_few 41 0 "$top/build/runtimes/tbb"
	[ "$(cat "$work/out")" = "all good" ]
}

# On one cpu: with fewer Ps than there are cpus its futexes are left to the kernel, see heddle_start.
@test "OpenMP by libgomp" {
	cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	export OMP_NUM_THREADS=16 OMP_WAIT_POLICY=passive
	the_same_on_few 16 0 taskset -c "$cpu" "$top/build/runtimes/gomp"
	[ "$(cat "$work/out")" = "all good" ]
}

@test "OpenMP by libomp" {
	export OMP_NUM_THREADS=16 OMP_WAIT_POLICY=passive
	the_same_on_few 16 16 "$top/build/runtimes/iomp"
	[ "$(cat "$work/out")" = "all good" ]
}

# As Rust's standard library has them: nothing of libpthread's but the threads themselves.
@test "mutexes, conditions, barriers and parking of raw futexes, in the manner of Rust's" {
	build raw <<'C'
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
enum { TEAM = 40, TURNS = 50, PARKED = -1, EMPTY, NOTIFIED };
#define MUST(c) ((c) ? (void)0 : (printf("line %d: not so: %s\n", __LINE__, #c), exit(1)))

/* False when it became too late. The time is absolute. */
static bool wait_on(atomic_uint *word, unsigned seen, const struct timespec *until)
{
	for (;;) {
		if (*word != seen)
			return true;
		if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, until, NULL, ~0u) == 0)
			return true;
		if (errno == ETIMEDOUT)
			return false;
		MUST(errno == EAGAIN || errno == EINTR);
		if (errno == EAGAIN)
			return true;
	}
}
static void wake(atomic_uint *word, int n)
{
	MUST(syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n) >= 0);
}

/* 0: free, 1: held, 2: held, and somebody may wait. */
static void lock(atomic_uint *m)
{
	unsigned free = 0;
	if (atomic_compare_exchange_strong(m, &free, 1))
		return;
	for (int i = 0; i < 100 && *m == 1; i++)
		__builtin_ia32_pause();
	while (atomic_exchange(m, 2) != 0)
		wait_on(m, 2, NULL);
}
static void unlock(atomic_uint *m)
{
	if (atomic_exchange(m, 0) == 2)
		wake(m, 1);
}
/* A condition is how often it was notified. */
static bool wait_cond(atomic_uint *c, atomic_uint *m, const struct timespec *until)
{
	unsigned seen = *c;
	unlock(m);
	bool intime = wait_on(c, seen, until);
	lock(m);
	return intime;
}
static void notify(atomic_uint *c, int n)
{
	(*c)++;
	wake(c, n);
}
static void park(atomic_uint *state)
{
	if (atomic_fetch_sub(state, 1) == NOTIFIED)
		return;
	for (;;) {
		unsigned notified = NOTIFIED;
		wait_on(state, (unsigned)PARKED, NULL);
		if (atomic_compare_exchange_strong(state, &notified, EMPTY))
			return;
	}
}
static void unpark(atomic_uint *state)
{
	if (atomic_exchange(state, NOTIFIED) == (unsigned)PARKED)
		wake(state, 1);
}

static atomic_uint m, turned, met_m, met_c, parked[TEAM];
static int turn, count, generation, leaders, passed;

static void meet(void)
{
	lock(&met_m);
	int mine = generation;
	if (++count == TEAM) {
		count = 0;
		generation++;
		leaders++;
		notify(&met_c, INT_MAX);
	} else {
		while (generation == mine)
			wait_cond(&met_c, &met_m, NULL);
	}
	unlock(&met_m);
}
static void *work(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct timespec past;
	for (int i = 0; i < TURNS; i++) {
		lock(&m);
		while (turn % TEAM != me)
			wait_cond(&turned, &m, NULL);
		turn++;
		notify(&turned, INT_MAX);
		unlock(&m);
		meet();
	}
	clock_gettime(CLOCK_MONOTONIC, &past);
	past.tv_nsec = (past.tv_nsec + me * 1000) % 1000000000;
	lock(&met_m);
	while (wait_cond(&met_c, &met_m, &past))
		;
	unlock(&met_m);
	/* A token goes round. */
	for (int i = 0; i < TURNS; i++) {
		park(&parked[me]);
		passed++;
		unpark(&parked[(me + 1) % TEAM]);
	}
	return arg;
}
int main(void)
{
	pthread_t t[TEAM];
	for (intptr_t i = 0; i < TEAM; i++)
		MUST(pthread_create(&t[i], NULL, work, (void *)i) == 0);
	unpark(&parked[0]);
	for (int i = 0; i < TEAM; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	printf("%d %d %d\n", turn, leaders, passed);
}
C
	the_same_on_few 41 0 "$work/raw"
	[ "$(cat "$work/out")" = "2000 50 2000" ]
}

# As syslog-ng's: what its program set before is kept, whatever others set later; they are told what they set.
@test "a library behind heddle has a sigaction of its own" {
	gcc -shared -fPIC -x c - -o "$work/libkeeps.so" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
int keeps;
static struct sigaction kept;
int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
	if (sig != SIGCHLD || !keeps)
		return next(sig, act, old);
	if (old)
		*old = kept;
	if (act)
		kept = *act;
	return 0;
}
C
	cat >"$work/asks.c" <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern int keeps;
static int told[2], own, others, users;
static void counts(int sig) { (void)sig; own++; if (write(told[1], "x", 1) != 1) _exit(9); }
static void never(int sig) { (void)sig; others++; }
static void counts_too(int sig) { (void)sig; users++; }
static void *sleeps(void *arg) { pause(); return arg; }
static int children(int n)
{
	sigset_t child, before;
	char c;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (int i = 0; i < n; i++) {
		sigprocmask(SIG_BLOCK, &child, &before);
		if (fork() == 0)
			_exit(0);
		/* The handler runs as soon as it may. */
		usleep(20000);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (read(told[0], &c, 1) != 1)
			return -1;
		waitpid(-1, NULL, 0);
	}
	return 0;
}
int main(void)
{
	struct sigaction act = { .sa_handler = counts, .sa_flags = SA_RESTART }, was;
	pthread_t t;
	if (pipe(told) != 0 || sigaction(SIGCHLD, &act, NULL) != 0)
		return 1;
	keeps = 1;
	pthread_create(&t, NULL, sleeps, NULL);
	if (children(10) != 0)
		return 6;
	act.sa_handler = never;
	if (sigaction(SIGCHLD, &act, &was) != 0 || was.sa_handler != SIG_DFL)
		return 2;
	if (sigaction(SIGCHLD, NULL, &was) != 0 || was.sa_handler != never)
		return 3;
	act.sa_handler = counts_too;
	if (sigaction(SIGUSR1, &act, &was) != 0 || was.sa_handler != SIG_DFL)
		return 4;
	raise(SIGUSR1);
	act.sa_handler = SIG_IGN;
	if (sigaction(SIGUSR1, &act, &was) != 0 || was.sa_handler != counts_too)
		return 5;
	raise(SIGUSR1);
	if (children(10) != 0)
		return 6;
	printf("%d %d %d\n", own, others, users);
	return 0;
}
C
	gcc -pthread "$work/asks.c" -o "$work/asks" -L"$work" -lkeeps -Wl,-rpath,"$work"
	[ "$("$work/asks")" = "20 0 1" ]
	for p in 1 2 8; do
		run preloaded $p timeout 20 "$work/asks"
		echo "$p: $status $output"
		[ "$output" = "20 0 1" ]
	done
}

# malloc maps them right below the first thread's static ones, so they look like those.
@test "large thread-local variables of a library that is loaded later are each thread's own" {
	cat >"$work/late.c" <<'C'
enum { LARGE = 200000 };
static __thread volatile char large[LARGE];
char *touch(void) { large[LARGE - 1]++; return (char *)&large[LARGE - 1]; }
C
	cat >"$work/loads.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
static char *(*touch)(void);
static void *touches(void *arg) { return *touch() != 1 ? &touch : arg; }
static void *leaves_it(void *arg) { return arg; }
int main(int argc, char **argv)
{
	enum { N = 8, ROUNDS = 20 };
	pthread_t t[N];
	void *wrong;
	touch = (char *(*)(void))dlsym(dlopen(argv[argc - 1], RTLD_NOW), "touch");
	touch();
	for (int k = 0; k < ROUNDS; k++) {
		for (int i = 0; i < N; i++)
			pthread_create(&t[i], NULL, i % 2 ? touches : leaves_it, NULL);
		for (int i = 0; i < N; i++)
			if (pthread_join(t[i], &wrong) != 0 || wrong)
				return 1;
	}
	return *touch() != 2;
}
C
	gcc -shared -fPIC "$work/late.c" -o "$work/late.so"
	gcc -pthread "$work/loads.c" -o "$work/loads"
	"$work/loads" "$work/late.so"
	for p in 1 2 8; do
		run preloaded $p timeout 20 "$work/loads" "$work/late.so"
		[ "$status" -eq 0 ]
	done
}

# Static storage: the loader tells of it only in threads that it makes later.
@test "small thread-local variables of a library that is loaded later are each thread's own" {
	echo '__thread int small = 7; int take(void) { return small++; }' |
		gcc -shared -fPIC -ftls-model=initial-exec -x c - -o "$work/small.so"
	cat >"$work/takes.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
static int (*take)(void);
static void *takes(void *arg) { return take && take() != 7 ? &take : arg; }
int main(int argc, char **argv)
{
	pthread_t t[4];
	void *wrong;
	for (int k = 0; k < 6; k++) {
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, takes, NULL);
		for (int i = 0; i < 4; i++)
			if (pthread_join(t[i], &wrong) != 0 || wrong)
				return 1;
		if (k == 1)
			take = (int (*)(void))dlsym(dlopen(argv[argc - 1], RTLD_NOW), "take");
	}
	return !take;
}
C
	gcc -pthread "$work/takes.c" -o "$work/takes"
	"$work/takes" "$work/small.so"
	for p in 1 2 8; do
		run preloaded $p timeout 20 "$work/takes" "$work/small.so"
		[ "$status" -eq 0 ]
	done
}

# large LIBRARY TIMES: it takes the loader a microsecond for each, of long names.
large() {
	local name
	name=$(printf 'n%.0s' {1..2000})
	echo "int ${name}a, ${name}b; struct { void *a, *b; } all[$2] = { [0 ... $2 - 1] = { &${name}a, &${name}b } };
		__thread char large[131072] = { 1 };" | gcc -shared -fPIC -Wl,-z,nocombreloc -x c - -o "$1"
}

# One that is being loaded may have the number of one that is gone, not the last, which threads knew that were made meanwhile.
@test "threads end while a library with thread-local variables is loaded" {
	large "$work/large.so" 20000
	for small in small later; do
		echo "__thread int $small = 7; int *of(void) { return &$small; }" |
			gcc -shared -fPIC -ftls-model=initial-exec -x c - -o "$work/$small.so"
	done
	cat >"$work/loads.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
static _Atomic int loaded;
static __thread int fresh = 3;
static pthread_barrier_t all;
static void *ends(void *arg)
{
	int was = fresh++;
	pthread_barrier_wait(&all);
	return was == 3 ? arg : &fresh;
}
static void eight(void)
{
	pthread_t t[8];
	for (int i = 0; i < 8; i++)
		if (pthread_create(&t[i], NULL, ends, NULL) != 0)
			__builtin_abort();
	for (int i = 0; i < 8; i++) {
		void *stale;
		if (pthread_join(t[i], &stale) != 0 || stale)
			__builtin_abort();
	}
}
static void *loads(void *arg)
{
	void *large = dlopen(arg, RTLD_NOW);
	loaded = 1;
	return large;
}
int main(int argc, char **argv)
{
	pthread_t t;
	void *small, *later, *large;
	pthread_barrier_init(&all, NULL, 8);
	for (int i = 0; i < 3; i++) {
		small = dlopen(argv[argc - 2], RTLD_NOW);
		later = dlopen(argv[argc - 1], RTLD_NOW);
		eight();
		if (!small || !later || dlclose(small) != 0)
			return 1;
		loaded = 0;
		pthread_create(&t, NULL, loads, argv[argc - 3]);
		while (!loaded)
			eight();
		pthread_join(t, &large);
		if (!large || dlclose(large) != 0 || dlclose(later) != 0)
			return 1;
	}
	return 0;
}
C
	gcc -pthread "$work/loads.c" -o "$work/loads"
	"$work/loads" "$work/large.so" "$work/small.so" "$work/later.so"
	for p in 1 2 8; do
		run preloaded $p timeout 60 "$work/loads" "$work/large.so" "$work/small.so" "$work/later.so"
		[ "$status" -eq 0 ]
	done
}

@test "whoever loads a large library gives way while the loader is at it" {
	large "$work/large.so" 100000
	cat >"$work/yields.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
static _Atomic int loaded;
static void *loads(void *arg)
{
	void *library = dlopen(arg, RTLD_NOW);
	loaded = 1;
	return library;
}
int main(int argc, char **argv)
{
	pthread_t t;
	void *library;
	int yields = 0;
	pthread_create(&t, NULL, loads, argv[argc - 1]);
	for (; !loaded; yields++)
		sched_yield();
	pthread_join(t, &library);
	return !library || yields < 4;
}
C
	gcc -pthread "$work/yields.c" -o "$work/yields"
	"$work/yields" "$work/large.so"
	run preloaded 1 timeout 20 "$work/yields" "$work/large.so"
	[ "$status" -eq 0 ]
}
