#!/usr/bin/env bats
# HEDDLE_DEADLOCK: when all threads wait for each other it is said once; and never when somebody may come yet.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

# Longer than the monitor takes for its two looks.
patience=4

# reports NAME: the program deadlocks, and its report is in $output. It is written in pieces; so it ends when it is whole.
reports() {
	HEDDLE_DEADLOCK=abort run preloaded 2 timeout 100 "$work/$1"
	echo "$output"
	[ "$status" -eq 134 ]
	[ "$(grep -c 'heddle: all threads are asleep - deadlock!' <<<"$output")" -eq 1 ]
}

# is_silent NAME: the program ends by itself, with 0, without a word of ours.
is_silent() {
	HEDDLE_DEADLOCK=abort preloaded 2 timeout 100 "$work/$1" >"$work/out" 2>"$work/err"
	[ ! -s "$work/err" ]
}

prelude='
	#include <errno.h>
	#include <pthread.h>
	#include <semaphore.h>
	#include <signal.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/socket.h>
	#include <sys/wait.h>
	#include <time.h>
	#include <unistd.h>
	static __attribute__((unused)) void *ends(void *arg) { return arg; }
	/* Brings heddle up. */
	static __attribute__((unused)) void begin(void)
	{
		pthread_t t;
		pthread_create(&t, NULL, ends, NULL);
		pthread_join(t, NULL);
	}
'

# program NAME < source: behind the prelude; frames stay frames, and names are in the dynamic symbols.
program() {
	{ echo "$prelude"; cat; } | gcc -O1 -fno-optimize-sibling-calls -rdynamic -pthread -x c - -o "$work/$1" -D_GNU_SOURCE
}

two_mutexes() {
	program two <<-'C'
		static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
		static pthread_barrier_t both;
		void *left(void *arg)
		{
			pthread_setname_np(pthread_self(), "left");
			pthread_mutex_lock(&one);
			pthread_barrier_wait(&both);
			pthread_mutex_lock(&two);
			return arg;
		}
		void *right(void *arg)
		{
			pthread_setname_np(pthread_self(), "right");
			pthread_mutex_lock(&two);
			pthread_barrier_wait(&both);
			pthread_mutex_lock(&one);
			return arg;
		}
		int main(void)
		{
			pthread_t t[2];
			/* It does not matter here: no handler unlocks a mutex. */
			signal(SIGUSR1, (void (*)(int))ends);
			pthread_barrier_init(&both, NULL, 2);
			pthread_create(&t[0], NULL, left, NULL);
			pthread_create(&t[1], NULL, right, NULL);
			pthread_join(t[0], NULL);
		}
	C
}

@test "two mutexes in two orders: who waits for which, who holds it, and the circle" {
	two_mutexes
	reports two
	left=$(sed -n 's/^G \([0-9]*\) "left".*/\1/p' <<<"$output")
	right=$(sed -n 's/^G \([0-9]*\) "right".*/\1/p' <<<"$output")
	[[ $output =~ "G 1 main tid "[0-9]*": waiting for "[0-9.]*"s: joins G $left" ]]
	[[ $output =~ "G $left \"left\" tid "[0-9]*": waiting for "[0-9.]*"s: mutex 0x"[0-9a-f]*", held by G $right" ]]
	[[ $output =~ "G $right \"right\" tid "[0-9]*": waiting for "[0-9.]*"s: mutex 0x"[0-9a-f]*", held by G $left" ]]
	[ "$(grep -c '^Deadlock: ' <<<"$output")" -eq 1 ]
	grep -qE "^Deadlock: G ($left|$right) waits for the mutex 0x[0-9a-f]*, held by G ($left|$right), which waits for the mutex 0x[0-9a-f]*, held by G ($left|$right)\.$" <<<"$output"
	grep -A1 '"left"' <<<"$output" | grep -q ' libheddle.so'
	grep -A2 '"left"' <<<"$output" | grep -q ' left+0x.* two$'
	grep -A2 '"right"' <<<"$output" | grep -q ' right+0x.* two$'
	grep -A3 '^G 1 main' <<<"$output" | grep -q ' main+0x.* two$'
}

@test "report says it once, and ends nobody" {
	two_mutexes
	HEDDLE_DEADLOCK=report preloaded 2 "$work/two" >"$work/out" 2>"$work/err" 3>&- &
	pid=$!
	disown
	until_said '^Deadlock: ' "$work/err"
	sleep "$patience"
	kill -KILL "$pid"
	cat "$work/err"
	[ "$(grep -c 'heddle: all threads are asleep - deadlock!' "$work/err")" -eq 1 ]
}

@test "abort ends it with SIGABRT, by the variable and by the command" {
	two_mutexes
	reports two
	[[ $output == *"all threads are asleep - deadlock!"*"Deadlock: G "* ]]
	run timeout 100 "$command" run -p 2 --deadlock=abort "$work/two"
	[ "$status" -eq 134 ]
	[[ $output == *"all threads are asleep - deadlock!"* ]]
}

@test "who did not ask is told nothing" {
	two_mutexes
	run preloaded 2 timeout "$patience" "$work/two"
	[ "$status" -eq 124 ]
	[ -z "$output" ]
}

@test "a mutex that its holder locks again" {
	program again <<-'C'
		static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
		int main(void)
		{
			begin();
			pthread_mutex_lock(&one);
			pthread_mutex_lock(&one);
		}
	C
	reports again
	[[ $output =~ "G 1 main tid "[0-9]*": waiting for "[0-9.]*"s: mutex 0x"[0-9a-f]*", which it holds itself" ]]
}

@test "three who join each other in a circle" {
	program circle <<-'C'
		static pthread_t t[3];
		static pthread_barrier_t all;
		static void *joins(void *arg)
		{
			pthread_barrier_wait(&all);
			pthread_join(t[((long)arg + 1) % 3], NULL);
			return arg;
		}
		int main(void)
		{
			pthread_barrier_init(&all, NULL, 4);
			for (long i = 0; i < 3; i++)
				pthread_create(&t[i], NULL, joins, (void *)i);
			pthread_barrier_wait(&all);
			pthread_exit(NULL);
		}
	C
	reports circle
	grep -qE '^Deadlock: G ([0-9]+) joins G [0-9]+, which joins G [0-9]+, which joins G \1\.$' <<<"$output"
}

@test "a condition variable that nobody signals" {
	program never <<-'C'
		static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		void *awaits(void *arg)
		{
			pthread_mutex_lock(&m);
			for (;;)
				pthread_cond_wait(&c, &m);
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			pthread_create(&t, NULL, awaits, NULL);
			pthread_join(t, NULL);
		}
	C
	reports never
	[[ $output =~ "G 1 main tid "[0-9]*": waiting for "[0-9.]*"s: joins G "[0-9]* ]]
	[[ $output =~ ": waiting for "[0-9.]*"s: futex 0x" ]]
	[[ $output == *" awaits+0x"* ]]
	[[ $output != *Deadlock:* ]]
}

# Each lets its main thread, or another, wait longer than the report takes for what comes from outside.
silent_while() {
	{ cat; cat <<-'C'; } | program waits
		static void *waits(void *arg)
		{
			await();
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			set_up();
			pthread_create(&t, NULL, waits, NULL);
			pthread_join(t, NULL);
			return 0;
		}
	C
	is_silent waits
}

@test "no alarm: a thread waits for a signal, in each way there is" {
	for how in 'sigsuspend(&none)' 'pthread_sigmask(SIG_UNBLOCK, &one, NULL), pause()' 'sigwait(&one, &(int){ 0 })' 'sigwaitinfo(&one, NULL)'; do
		silent_while <<-C
			static void handle(int sig) { (void)sig; }
			static sigset_t one, none;
			static void set_up(void)
			{
				pid_t parent = getpid();
				sigemptyset(&none);
				sigemptyset(&one);
				sigaddset(&one, SIGUSR1);
				/* So that no other thread takes it. */
				pthread_sigmask(SIG_BLOCK, &one, NULL);
				if (!strstr("$how", "sigwait"))
					signal(SIGUSR1, handle);
				if (fork() == 0) {
					sleep($patience);
					kill(parent, SIGUSR1);
					_exit(0);
				}
			}
			static void await(void) { $how; }
		C
	done
}

@test "no alarm: a signal's handler posts the semaphore, or a timer's thread does" {
	for how in SIGEV_SIGNAL SIGEV_THREAD; do
		silent_while <<-C
			static sem_t s;
			static void handle(int sig) { (void)sig; sem_post(&s); }
			static void handle_too(union sigval v) { (void)v; sem_post(&s); }
			static void set_up(void)
			{
				struct sigevent e = { .sigev_notify = $how, .sigev_signo = SIGUSR1 };
				struct itimerspec in = { .it_value = { $patience, 0 } };
				timer_t t;
				sem_init(&s, 0, 0);
				if ($how == SIGEV_SIGNAL)
					signal(SIGUSR1, handle);
				else
					e.sigev_notify_function = handle_too;
				timer_create(CLOCK_MONOTONIC, &e, &t);
				timer_settime(t, 0, &in, NULL);
			}
			static void await(void) { while (sem_wait(&s) != 0) continue; }
		C
	done
}

@test "no alarm: a thread waits for a child, a socket, a pipe read by stdio, a time" {
	silent_while <<-C
		static void set_up(void) { if (fork() == 0) { sleep($patience); _exit(0); } }
		static void await(void) { wait(NULL); }
	C
	silent_while <<-C
		static int s[2];
		static void set_up(void)
		{
			socketpair(AF_UNIX, SOCK_STREAM, 0, s);
			if (fork() == 0) { sleep($patience); _exit(write(s[1], "x", 1) != 1); }
		}
		static void await(void) { char c; if (read(s[0], &c, 1) != 1) abort(); }
	C
	silent_while <<-C
		static FILE *f;
		static void set_up(void) { f = popen("sleep $patience; echo x", "r"); }
		static void await(void) { if (fgetc(f) != 'x') abort(); }
	C
	silent_while <<-C
		static void set_up(void) { }
		static void await(void) { sleep($patience); }
	C
	silent_while <<-C
		static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		static void set_up(void) { }
		static void await(void)
		{
			struct timespec t;
			clock_gettime(CLOCK_REALTIME, &t);
			t.tv_sec += $patience;
			pthread_mutex_lock(&m);
			if (pthread_cond_timedwait(&c, &m, &t) != ETIMEDOUT)
				abort();
			pthread_mutex_unlock(&m);
		}
	C
}

@test "no alarm: another process posts the semaphore" {
	silent_while <<-C
		static sem_t *s;
		static void set_up(void)
		{
			s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			sem_init(s, 1, 0);
			if (fork() == 0) {
				sleep($patience);
				sem_post(s);
				_exit(0);
			}
		}
		static void await(void) { sem_wait(s); }
	C
}

@test "no alarm: a semaphore that is not said to be shared lies in shared memory" {
	program shared <<-C
		int main(void)
		{
			sem_t *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			begin();
			sem_init(s, 0, 0);
			sem_wait(s);
		}
	C
	HEDDLE_DEADLOCK=abort run preloaded 2 timeout "$patience" "$work/shared"
	[ "$status" -eq 124 ]
	[ -z "$output" ]
}

# It shares its creator's thread-local variables: so it makes raw calls only.
@test "no alarm: a kernel thread that heddle does not know ends it" {
	silent_while <<-C
		#include <sched.h>
		#include <sys/syscall.h>
		static sem_t s;
		static char stack[65536] __attribute__((aligned(16)));
		static int stays(void *arg)
		{
			struct timespec t = { $patience, 0 };
			long r;
			__asm__ volatile("syscall" : "=a"(r) : "0"(SYS_nanosleep), "D"(&t), "S"(0)
				: "rcx", "r11", "memory");
			__asm__ volatile("syscall" : "=a"(r) : "0"(SYS_exit_group), "D"(0) : "rcx", "r11", "memory");
			return arg != NULL;
		}
		static void set_up(void)
		{
			sem_init(&s, 0, 0);
			begin();
			clone(stays, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
				CLONE_THREAD | CLONE_SYSVSEM, NULL);
		}
		static void await(void) { sem_wait(&s); }
	C
}
