#!/usr/bin/env bats
# HEDDLE_STATS, heddle run --stats: a table on standard error when the process ends, however it does.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

# Fifty threads that sleep, and an end of the given kind.
sleepers='
import os, sys, threading, time
gate = threading.Event()
threads = [threading.Thread(target=gate.wait) for _ in range(50)]
for t in threads: t.start()
time.sleep(0.05)
gate.set()
for t in threads: t.join()
'

# The table, checked as a whole; its numbers by name.
expect_table() {
	python3 - "$1" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		pattern = (r"heddle: process \d+ on 2 Ps, [\d.,]+ (s|ms)\n"
		    r"  threads +50 made beside the first, at most 51 at once\n"
		    r"  kernel threads +(\d+) at most, natively 51\n"
		    r"  switches +[\d,]+; of slices that were over [\d,]+, by yields [\d,]+\n"
		    r"  steals +[\d,]+, of [\d,]+ threads\n"
		    r"  wait for a cpu +p50 [\d.,]+ (ns|µs|ms|s), p99 [\d.,]+ (ns|µs|ms|s), longest [\d.,]+ (ns|µs|ms|s)\n"
		    r"  parks +[\d,]+: lock [\d,]+, sleep [\d,]+(, (read|write|park) [\d,]+)*\n"
		    r"  announced calls [\d,]+, of which [\d,]+ gave way to others\n"
		    r"  unannounced +[\d,]+ blocks that gave way to others\n"
		    r"  wired +0 times a thread was tied to its kernel thread\n")
		m = re.fullmatch(pattern, text)
		assert m, text
		assert int(m[2]) <= 12, text
	END
}

@test "it comes when main returns, on exit and on _exit, once, with the status" {
	"$command" run -p 2 --stats python3 -c "$sleepers" 2>"$work/err"
	expect_table "$work/err"
	for end in 'sys.exit(3)' 'os._exit(3)'; do
		"$command" run -p 2 --stats python3 -c "$sleepers$end" 2>"$work/err" || [ $? -eq 3 ]
		expect_table "$work/err"
	done
}

@test "it comes with the last thread when main has gone before" {
	build last <<-'C'
		#include <pthread.h>
		#include <unistd.h>
		static void *sleeps(void *arg)
		{
			usleep(50000);
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			for (int i = 0; i < 50; i++)
				pthread_create(&t, NULL, sleeps, NULL);
			pthread_exit(NULL);
		}
	C
	run "$command" run --stats "$work/last"
	[ "$status" -eq 0 ]
	[[ $output =~ "threads"\ +"50 made" ]]
	[ "$(grep -c '^heddle: process' <<<"$output")" -eq 1 ]
}

@test "it is not for children that only exec or end, nor for who made no thread" {
	run "$command" run --stats python3 -c '
import os, subprocess, threading, time
t = threading.Thread(target=time.sleep, args=(0.01,)); t.start(); t.join()
if os.fork() == 0: os._exit(0)
os.wait()
subprocess.run(["true"])
os.system("exit 0")'
	[ "$(grep -c '^heddle: process' <<<"$output")" -eq 1 ]
	run "$command" run --stats true
	[ -z "$output" ]
}

@test "a child that makes threads has one of its own" {
	run "$command" run --stats python3 -c '
import os, sys, threading, time
def some(n):
    t = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(n)]
    for x in t: x.start()
    for x in t: x.join()
some(3)
if os.fork() == 0:
    some(7)
    os._exit(0)
os.wait()'
	[ "$(grep -c '^heddle: process' <<<"$output")" -eq 2 ]
	[[ $output =~ "7 made".*"3 made" ]]
}

@test "standard error closed before the end, or made something else: the table is where it was" {
	"$command" run -p 2 --stats python3 -c "${sleepers}os.close(2)" 2>"$work/err"
	expect_table "$work/err"
	"$command" run -p 2 --stats python3 -c "${sleepers}
f = os.open('$work/other', os.O_CREAT | os.O_WRONLY); os.dup2(f, 2); os.close(f)" 2>"$work/err"
	expect_table "$work/err"
	[ ! -s "$work/other" ]
	# Everything closed: nowhere rather than somewhere else.
	"$command" run -p 2 --stats python3 -c "${sleepers}
os.closerange(2, 4096)
f = os.open('$work/other', os.O_CREAT | os.O_WRONLY); [os.dup2(f, i) for i in range(899, 910)]" 2>"$work/err"
	[ ! -s "$work/err" ]
	[ ! -s "$work/other" ]
}

@test "without it there is none" {
	run "$command" run -p 2 python3 -c "$sleepers"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "for programs: HEDDLE_STATS names a file, each process adds a line to it, and nobody's output has a word more" {
	HEDDLE_STATS=$work/lines "$command" run -p 2 python3 -c "$sleepers
import subprocess
if len(sys.argv) == 1: subprocess.run([sys.executable, '-c', sys.orig_argv[2], 'child'])" >"$work/out" 2>&1
	[ ! -s "$work/out" ]
	[ "$(wc -l <"$work/lines")" -eq 2 ]
	[ "$(grep -cE '^pid=[0-9]+ procs=2 lived=[0-9]+ ([a-z]+=[0-9]+ )+longest=[0-9]+ waits=[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*$' "$work/lines")" -eq 2 ]
	# As many waits as are counted, by buckets.
	while read -r line; do
		[ "$(tr ' ,' '\n\n' <<<"$line" | grep -c :)" -ge 2 ]
		switches=$(tr ' ' '\n' <<<"$line" | sed -n 's/^switches=//p')
		waits=$(tr ' ,' '\n\n' <<<"${line/waits=/}" | awk -F: 'NF == 2 { n += $2 } END { print n }')
		[ "$waits" -le "$switches" ]
		[ "$waits" -ge 50 ]
	done <"$work/lines"
	for place in "$work/nowhere/lines:No such file or directory" "$work:Is a directory"; do
		HEDDLE_STATS=${place%:*} run --separate-stderr "$command" run -p 2 python3 -c "$sleepers"
		[ "$status" -eq 0 ]
		[ "$stderr" = "heddle: HEDDLE_STATS: ${place%:*}: ${place#*:}" ]
	done
	HEDDLE_STATS=relative run --separate-stderr "$command" run true
	[[ $stderr == *"HEDDLE_STATS=relative is neither on nor off nor a path from the root on, ignored"* ]]
}

# One thread for each cause, by C library or system call; a seventh that none of it is true of.
@test "it says why threads were tied to their kernel threads, and a dump of each" {
	build wired <<-'C'
		#include <linux/io_uring.h>
		#include <pthread.h>
		#include <sched.h>
		#include <semaphore.h>
		#include <signal.h>
		#include <stdio.h>
		#include <sys/ptrace.h>
		#include <sys/resource.h>
		#include <sys/syscall.h>
		#include <sys/wait.h>
		#include <time.h>
		#include <unistd.h>
		static sem_t done, end;
		static void policy(void)
		{
			setpriority(PRIO_PROCESS, 0, 5);
		}
		static void state(void)
		{
			unshare(CLONE_FS);
		}
		static void lock(void)
		{
			static pthread_mutex_t m;
			pthread_mutexattr_t a;
			pthread_mutexattr_init(&a);
			pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
			pthread_mutex_init(&m, &a);
			pthread_mutex_lock(&m);
		}
		static void tracer(void)
		{
			ptrace(PTRACE_CONT, 0, 0, 0);
		}
		static void timer(void)
		{
			struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
			timer_t t;
			e._sigev_un._tid = gettid();
			timer_create(CLOCK_MONOTONIC, &e, &t);
		}
		static void none(void)
		{
			struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
			timer_t t;
			e._sigev_un._tid = gettid();
			timer_create(CLOCK_THREAD_CPUTIME_ID, &e, &t);
			sched_yield();
		}
		static void *does(void *what)
		{
			((void (*)(void))what)();
			sem_post(&done);
			sem_wait(&end);
			return NULL;
		}
		int main(void)
		{
			void (*all[])(void) = { policy, policy, state, lock, tracer, timer, none };
			pthread_t t[7];
			for (int i = 0; i < 7; i++)
				pthread_create(&t[i], NULL, does, all[i]);
			for (int i = 0; i < 7; i++)
				sem_wait(&done);
			puts("ready");
			fflush(stdout);
			getchar();
			for (int i = 0; i < 7; i++)
				sem_post(&end);
			for (int i = 0; i < 7; i++)
				pthread_join(t[i], NULL);
			return 0;
		}
	C
	mkfifo "$work/in"
	"$command" run -p 2 --stats "$work/wired" <"$work/in" >"$work/said" 2>"$work/err" 3>&- &
	pid=$!
	exec 4>"$work/in"
	until_said ready "$work/said"
	"$command" dump "$pid" >"$work/dump"
	exec 4>&-
	wait "$pid"
	cat "$work/dump" "$work/err"
	for cause in state lock tracer timer; do
		[ "$(grep -c "^G .*, wired for its $cause: waiting" "$work/dump")" -eq 1 ]
	done
	[ "$(grep -c "^2 threads, wired for its policy: waiting" "$work/dump")" -eq 1 ]
	[ "$(grep -c "wired for" "$work/dump")" -eq 5 ]
	grep -q "^  wired  *6 times a thread was tied to its kernel thread: policy 2, state 1, lock 1, tracer 1, timer 1$" "$work/err"
}

# A kernel thread whose state is not to be any other thread's ends with it.
@test "it counts kernel threads that ended before the end, too" {
	build tied <<-'C'
		#include <pthread.h>
		#include <sched.h>
		static pthread_barrier_t all;
		static void *alone(void *arg)
		{
			unshare(CLONE_FS);
			pthread_barrier_wait(&all);
			return arg;
		}
		int main(void)
		{
			pthread_t t[20];
			pthread_barrier_init(&all, NULL, 20);
			for (int i = 0; i < 20; i++)
				pthread_create(&t[i], NULL, alone, NULL);
			for (int i = 0; i < 20; i++)
				pthread_join(t[i], NULL);
			return 0;
		}
	C
	"$command" run -p 2 --stats "$work/tied" 2>"$work/err"
	cat "$work/err"
	[ "$(sed -n 's/^  kernel threads  *\([0-9]*\) at most.*/\1/p' "$work/err")" -ge 20 ]
}

# As Mozilla's sandbox does before main: Firefox had a kernel thread for each of its 60 threads.
@test "who asks whether filters of system calls can be set, and sets none, is not tied" {
	build asks <<-'C'
		#include <errno.h>
		#include <linux/seccomp.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <sys/prctl.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		static void *ask(void *arg)
		{
			unsigned action = SECCOMP_RET_ERRNO;

			if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno != EFAULT)
				return "prctl";
			if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1 || errno != EFAULT)
				return "seccomp";
			if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
				return "action";
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			void *of;
			pthread_create(&t, NULL, ask, "nothing");
			pthread_join(t, &of);
			printf("%s %s\n", (char *)of, (char *)ask("nothing"));
		}
	C
	run "$command" run -p 2 --stats "$work/asks"
	[ "$status" -eq 0 ]
	[[ $output == *"nothing nothing"* ]]
	[[ $output =~ wired\ +0\ times ]]
}

# The same thread: tied, free again, tied for good; then others after it has ended.
@test "a thread that has given back what it was tied for is tied no more, nor is one that comes after" {
	build gives_back <<-'C'
		#include <pthread.h>
		#include <sched.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <unistd.h>
		static sem_t done, go;
		static void policy(int policy)
		{
			pthread_setschedparam(pthread_self(), policy, &(struct sched_param){ 0 });
			sem_post(&done);
			sem_wait(&go);
		}
		static void *changes(void *arg)
		{
			policy(SCHED_BATCH);
			policy(SCHED_OTHER);
			unshare(CLONE_FS);
			policy(SCHED_BATCH);
			policy(SCHED_OTHER);
			return arg;
		}
		static void *waits(void *arg)
		{
			sem_post(&done);
			sem_wait(&go);
			return arg;
		}
		static void says(const char *what)
		{
			sem_wait(&done);
			puts(what);
			fflush(stdout);
			getchar();
			sem_post(&go);
		}
		int main(void)
		{
			pthread_t t;
			pthread_create(&t, NULL, changes, NULL);
			says("tied");
			says("free");
			says("state");
			says("stays");
			pthread_join(t, NULL);
			pthread_create(&t, NULL, waits, NULL);
			says("later");
			return pthread_join(t, NULL);
		}
	C
	mkfifo "$work/in"
	"$command" run -p 2 "$work/gives_back" <"$work/in" >"$work/said" 3>&- &
	pid=$!
	exec 4>"$work/in"
	for step in tied:1 free:0 state:1 stays:1 later:0; do
		until_said "${step%:*}" "$work/said"
		"$command" dump "$pid" >"$work/dump"
		echo "$step"
		cat "$work/dump"
		[ "$(grep -c "wired for" "$work/dump")" -eq "${step#*:}" ]
		echo >&4
	done
	exec 4>&-
	wait "$pid"
}
