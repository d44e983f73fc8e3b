#!/usr/bin/env bats
# heddle dump: every thread, what it waits for, and its stack down to where it began.
load common
load inside
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_watched
}

@test "every thread of a python is there, with a stack down to its start" {
	fifty
	run "$command" dump "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"51 threads"* ]]
	[[ $output != *"no stack"* ]]
	# Each entry ends where a thread does: in heddle's frame, or in _start.
	python3 - <<-END
		import re
		text = """$output"""
		entries = [e for e in text.split("\n\n") if "thread_main+" in e or "_start+" in e]
		n = 0
		for e in entries:
		    head = e.splitlines()[0] if not e.splitlines()[0].endswith("GOMAXPROCS=2") else e.splitlines()[-1]
		    m = re.match(r"(\d+) threads: ", head)
		    n += int(m[1]) if m else 1
		    last = [l for l in e.splitlines() if l.startswith("    ")][-1]
		    assert "thread_main+" in last or "_start+" in last, e
		assert n == 51, n
		assert any(name in text for name in ("lock_PyThread_acquire_lock", "PyThread_acquire_lock_timed", "_PySemaphore_Wait"))
	END
}

@test "a stopped process can be dumped, and stays stopped" {
	fifty
	kill -STOP "$pid"
	run "$command" dump "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"51 threads"* ]]
	[[ $output != *"no stack"* ]]
	grep -q '^State:.T' "/proc/$pid/status"
}

@test "a deadlock of two mutexes: who waits for which, who holds it, and the circle" {
	build deadlock <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
		static pthread_barrier_t both;
		static void *left(void *arg)
		{
			pthread_setname_np(pthread_self(), "left");
			pthread_mutex_lock(&one);
			pthread_barrier_wait(&both);
			pthread_mutex_lock(&two);
			return arg;
		}
		static void *right(void *arg)
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
			pthread_barrier_init(&both, NULL, 2);
			pthread_create(&t[0], NULL, left, NULL);
			pthread_create(&t[1], NULL, right, NULL);
			puts("ready");
			fflush(stdout);
			pthread_join(t[0], NULL);
		}
	C
	watched 2 "$work/deadlock"
	until_states '"waiting": 3'
	run "$command" dump "$pid"
	[ "$status" -eq 0 ]
	left=$(sed -n 's/^G \([0-9]*\) "left".*/\1/p' <<<"$output")
	right=$(sed -n 's/^G \([0-9]*\) "right".*/\1/p' <<<"$output")
	[[ $output =~ "G $left \"left\" tid "[0-9]*": waiting".*"mutex 0x"[0-9a-f]*", held by G $right" ]]
	[[ $output =~ "G $right \"right\" tid "[0-9]*": waiting".*"mutex 0x"[0-9a-f]*", held by G $left" ]]
	[[ $output =~ "main tid "[0-9]*": waiting".*"joins G $left" ]]
	[[ $output =~ "Deadlock: G "($left|$right)" waits for the mutex" ]]
	grep -A2 '"left"' <<<"$output" | grep -q ' left+0x'
	grep -A2 '"right"' <<<"$output" | grep -q ' right+0x'
}

@test "threads that run, are preempted, blocked in an announced call or in stdio: each has its stack" {
	build kinds <<-'C'
		#include <fcntl.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <sys/eventfd.h>
		#include <sys/file.h>
		#include <unistd.h>
		static void *burns(void *arg)
		{
			for (volatile long i = 0;; i++)
				;
			return arg;
		}
		static void *locks(void *arg)
		{
			flock(open(arg, O_RDWR), LOCK_EX);
			return arg;
		}
		static void *reads(void *arg)
		{
			unsigned long n;
			return (void *)read(eventfd(0, 0), &n, sizeof(n)) ? arg : NULL;
		}
		static void *gets_(void *arg)
		{
			int p[2];
			return pipe(p) == 0 && fgetc(fdopen(p[0], "r")) ? arg : NULL;
		}
		int main(int argc, char **argv)
		{
			pthread_t t;
			flock(open(argv[1], O_RDWR | O_CREAT, 0600), LOCK_EX);
			for (int i = 0; i < 3; i++)
				pthread_create(&t, NULL, burns, NULL);
			pthread_create(&t, NULL, locks, argv[1]);
			pthread_create(&t, NULL, reads, NULL);
			pthread_create(&t, NULL, gets_, NULL);
			puts("ready");
			fflush(stdout);
			pthread_join(t, NULL);
			return argc;
		}
	C
	watched 2 "$work/kinds" "$work/locked"
	until_states '"waiting": 2, "runnable": 1, "running": 2, "syscall, no P": 1, "running, no P": 1'
	for i in $(seq 20); do
		run "$command" dump "$pid"
		[ "$status" -eq 0 ]
		[[ $output != *"no stack"* ]]
		grep -q ' burns+0x' <<<"$output"
		grep -B3 ' locks+0x' <<<"$output" | grep -q ': syscall'
		grep -B3 ' reads+0x' <<<"$output" | grep -q 'waiting .*read fd .*eventfd'
		grep -q ' gets_+0x' <<<"$output"
	done
}

@test "no call ends early because its thread was looked at" {
	build calls <<-'C'
		#include <errno.h>
		#include <fcntl.h>
		#include <pthread.h>
		#include <signal.h>
		#include <stdio.h>
		#include <string.h>
		#include <sys/epoll.h>
		#include <sys/eventfd.h>
		#include <sys/ipc.h>
		#include <sys/sem.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		static const struct timespec long_ = { 1000, 0 };
		static int event, id;
		/* Behind everybody's back. */
		static void *polls(void *arg)
		{
			struct epoll_event e = { EPOLLIN, { 0 } };
			long fd = epoll_create1(0), r;
			register long timeout __asm__("r10") = 1000000;
			epoll_ctl((int)fd, EPOLL_CTL_ADD, event, &e);
			__asm__ volatile("syscall" : "=a"(r) : "a"(SYS_epoll_wait), "D"(fd), "S"(&e), "d"(1),
				"r"(timeout) : "rcx", "r11", "memory");
			printf("epoll_wait %ld\n", r);
			return arg;
		}
		static void *awaits(void *arg)
		{
			sigset_t set;
			int r;
			sigemptyset(&set);
			sigaddset(&set, SIGUSR1);
			r = sigtimedwait(&set, NULL, &long_);
			printf("sigtimedwait %d %s\n", r == SIGUSR1, r < 0 ? strerror(errno) : "");
			return arg;
		}
		static void *semaphores(void *arg)
		{
			struct sembuf op = { .sem_num = 0, .sem_op = -1 };
			int r = semtimedop(id, &op, 1, &long_);
			printf("semtimedop %d %s\n", r, r < 0 ? strerror(errno) : "");
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t[3];
			sigset_t set;
			event = eventfd(0, 0);
			id = semget(IPC_PRIVATE, 1, 0600);
			sigemptyset(&set);
			sigaddset(&set, SIGUSR1);
			pthread_sigmask(SIG_BLOCK, &set, NULL);
			pthread_create(&t[0], NULL, polls, NULL);
			pthread_create(&t[1], NULL, awaits, NULL);
			pthread_create(&t[2], NULL, semaphores, NULL);
			puts("ready");
			fflush(stdout);
			/* Until each has been looked at. */
			if (argc < 2 || open(argv[1], O_RDONLY) < 0)
				return 1;
			eventfd_write(event, 1);
			pthread_kill(t[1], SIGUSR1);
			semop(id, &(struct sembuf){ .sem_num = 0, .sem_op = 1 }, 1);
			for (int i = 0; i < 3; i++)
				pthread_join(t[i], NULL);
			semctl(id, 0, IPC_RMID);
			puts("over");
			fflush(stdout);
			pause();
		}
	C
	mkfifo "$work/go"
	watched 2 "$work/calls" "$work/go"
	until_states '"syscall, no P": 3, "running, no P": 1'
	for i in $(seq 30); do
		"$command" dump "$pid" >>"$work/dump"
	done
	[ "$(grep -c ' polls+0x' "$work/dump")" -eq 30 ]
	grep -q ' awaits+0x' "$work/dump"
	grep -q ' semtimedop+0x' "$work/dump"
	: >"$work/go"
	until_said over "$work/out"
	grep -qx "epoll_wait 1" "$work/out"
	grep -qx "sigtimedwait 1 " "$work/out"
	grep -qx "semtimedop 0 " "$work/out"
}

# What gdb says of a native run: how deep each thread is, and that it holds what the dump has.
@test "stacks are those that gdb finds natively" {
	build deep <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <unistd.h>
		static sem_t never;
		static __attribute__((noinline)) int down(int n)
		{
			volatile int left = n;
			if (left == 0)
				return sem_wait(&never);
			return down(left - 1) + left;
		}
		static void *begins(void *arg)
		{
			return down((int)(long)arg) ? arg : NULL;
		}
		int main(void)
		{
			pthread_t t;
			sem_init(&never, 0, 0);
			for (long i = 0; i < 12; i++)
				pthread_create(&t, NULL, begins, (void *)i);
			puts("ready");
			fflush(stdout);
			pthread_join(t, NULL);
		}
	C
	watched 2 "$work/deep"
	until_states '"waiting": 13'
	"$command" dump "$pid" >"$work/dump"
	end_watched
	"$work/deep" >"$work/out" 3>&- &
	pid=$!
	disown
	until_said ready "$work/out"
	until_asleep
	gdb -p "$pid" -batch -ex 'thread apply all bt' >"$work/gdb" 2>/dev/null
	python3 - "$work/dump" "$work/gdb" <<-'END'
		import re, sys
		ours, theirs = open(sys.argv[1]).read(), open(sys.argv[2]).read()
		def depths(entries, frame):
		    return sorted(len(re.findall(frame, e)) for e in entries if re.search(r"\bbegins\b", e))
		a = depths(ours.split("\n\n"), r"\bdown\+0x")
		b = depths(theirs.split("\n\n"), r"\bdown \(")
		assert a == b and len(a) == 12 and a[-1] == 12, (a, b)
	END
}

# same_chains MODULE DUMP [NAME]: gdb finds in $pid, which is native, the stacks that DUMP has. Its threads may be on the
# way to where they wait.
same_chains() {
	export MODULE=$1
	for _ in $(seq 20); do
		until_asleep
		gdb -p "$pid" -batch -x "$top/bats/chains.py" >"$work/gdb" 2>/dev/null
		python3 "$top/bats/chains.py" "$2" "$work/gdb" ${3+"$3"} && break
		kill -0 "$pid"
	done
}

@test "a python with fifty threads: each stack is that which gdb finds natively" {
	fifty
	"$command" dump "$pid" >"$work/dump"
	end_watched
	python3 -c "$fifty_threads" >"$work/out" 3>&- &
	pid=$!
	disown
	until_said ready "$work/out"
	run same_chains python "$work/dump"
	[ "$status" -eq 0 ]
	read -r threads depth <<<"${lines[-1]}"
	[ "$threads" -eq 51 ]
	[ "$depth" -ge 8 ]
}

@test "of a server with many threads every one is seen while it works" {
	command -v redis-server >/dev/null || skip "no redis-server"
	LD_PRELOAD=$heddle redis-server --port 0 --unixsocket "$work/socket" --save "" \
		>"$work/out" 2>&1 3>&- &
	pid=$!
	disown
	works() { "$command" dump "$pid" 2>/dev/null | grep -q 'bioProcessBackgroundJobs+'; }
	comes "$pid" test -S "$work/socket"
	comes "$pid" works
	redis-benchmark -s "$work/socket" -n 100000 -c 20 -t set,get -q >/dev/null 2>&1 3>&- &
	load=$!
	for i in $(seq 20); do
		run "$command" dump "$pid"
		[ "$status" -eq 0 ]
		[[ $output == *" main tid $pid"* ]]
		[[ $output == *"bioProcessBackgroundJobs+"* ]]
		[[ $output != *"no stack"* ]]
	done
	wait "$load"
	run redis-cli -s "$work/socket" ping
	[ "$output" = PONG ]
}

# A mariadbd of an empty database; its socket is $work/s.
database() {
	local root=
	[ "$(id -u)" -ne 0 ] || root=--user=root
	mkdir "$work/db"
	mariadbd --no-defaults $root --datadir="$work/db" --socket="$work/s" --skip-networking --skip-grant-tables \
		--innodb-log-file-size=8M --max-connections=300 --connect-timeout=500 >"$work/out" 2>&1 3>&- &
	pid=$!
	disown
	comes "$pid" listens "$work/s"
}

@test "a mariadbd with 200 connections: each has a thread there, with a stack down to its start" {
	command -v mariadbd >/dev/null || skip "no mariadbd"
	LD_PRELOAD=$heddle GOMAXPROCS=2 database
	python3 - "$work/s" "$command" "$pid" "$work/dump" <<-'END'
		import re, socket, subprocess, sys, time
		clients = [socket.socket(socket.AF_UNIX) for _ in range(200)]
		for c in clients:
		    c.connect(sys.argv[1])
		    assert len(c.recv(4)) == 4
		def asked(*what):
		    return subprocess.run([sys.argv[2], *what], capture_output=True, text=True, check=True).stdout
		# Who was greeted may be on its way to where it waits.
		while True:
		    dump = asked("dump", sys.argv[3])
		    if max(map(int, re.findall(r"^(\d+) threads: waiting", dump, re.M)), default=0) >= 200:
		        break
		    time.sleep(0.05)
		open(sys.argv[4], "w").write(dump)
		assert "no stack" not in dump, dump
		head, *entries = dump.split("\n\n")
		total = int(re.search(r"(\d+) threads, ", head)[1])
		assert total >= 205, head
		n = 0
		for e in entries:
		    if not e.strip():
		        continue
		    m = re.match(r"(\d+) threads: ", e)
		    n += int(m[1]) if m else 1
		    last = [l for l in e.splitlines() if l.startswith("    ")][-1]
		    assert "thread_main+" in last or "_start+" in last, e
		assert n == total, (n, total)
	END
	# And these 200 stacks are those that gdb finds natively.
	end_watched
	# Its socket has the same name, and listens until it has ended.
	ended "$pid"
	rm -rf "$work/db" "$work/s"
	database
	python3 -c 'import socket, sys
clients = [socket.socket(socket.AF_UNIX) for _ in range(200)]
for c in clients:
    c.connect(sys.argv[1])
    assert len(c.recv(4)) == 4
print("connected", flush=True)
sys.stdin.read()' "$work/s" >"$work/clients" < <(tail -f /dev/null --pid="$pid" 3>&-) 3>&- &
	clients=$!
	comes "$clients" has "$work/clients" connected
	run same_chains mariadbd "$work/dump" handle_one_connection
	[ "$status" -eq 0 ]
	read -r threads depth <<<"${lines[-1]}"
	[ "$threads" -eq 200 ]
	[ "$depth" -ge 10 ]
}

@test "a stripped program's names are read from where packages of debug information put them" {
	unshare --map-root-user -m mount -t tmpfs none /usr/lib/debug 2>/dev/null || skip "no namespace of mounts"
	build hidden <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		static __attribute__((noinline)) int rests_here(void)
		{
			puts("ready");
			fflush(stdout);
			return pause() + 1;
		}
		static void *begins_here(void *arg)
		{
			return rests_here() ? arg : NULL;
		}
		int main(void)
		{
			pthread_t t;
			pthread_create(&t, NULL, begins_here, NULL);
			pthread_join(t, NULL);
		}
	C
	local id
	id=$(readelf -n "$work/hidden" | sed -n 's/.*Build ID: *//p')
	[ -n "$id" ]
	objcopy --only-keep-debug "$work/hidden" "$work/hidden.debug"
	strip "$work/hidden"
	watched 2 "$work/hidden"
	run "$command" dump "$pid"
	[ "$status" -eq 0 ]
	[[ $output != *begins_here* ]]
	end_watched
	# On a /usr/lib/debug of the process's own; nothing else on the machine sees it.
	watched 2 unshare --map-root-user -m sh -c "
		mount -t tmpfs none /usr/lib/debug && mkdir -p /usr/lib/debug/.build-id/${id:0:2} &&
		cp '$work/hidden.debug' /usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug && exec '$work/hidden'"
	run "$command" dump "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *" rests_here+0x"*" begins_here+0x"* ]]
}

@test "a thread's name cannot speak to the terminal" {
	build named <<-'C'
		#define _GNU_SOURCE
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		int main(void)
		{
			pthread_t t;
			pthread_create(&t, NULL, (void *(*)(void *))pause, NULL);
			pthread_setname_np(t, "\033[2J\302\2331mx");
			puts("ready");
			fflush(stdout);
			pthread_join(t, NULL);
		}
	C
	watched 2 "$work/named"
	for sub in "dump" "top --delay 100"; do
		run "$command" $sub "$pid"
		[ "$status" -eq 0 ]
		[[ $output == *"?[2J??1mx"* ]]
		[[ $output != *$'\033'* ]]
	done
}

@test "another user's process is refused; one that is killed meanwhile ends the dump" {
	fifty
	if [ "$(id -u)" -eq 0 ]; then
		run as_nobody dump "$pid"
		[ "$status" -eq 1 ]
		[[ $output == *"you may not look"* ]]
	fi
	(sleep 0.1; kill -KILL "$pid") 3>&- &
	for i in $(seq 40); do
		run "$command" dump "$pid"
		[ "$status" -le 1 ]
	done
}

@test "where files may have no size there is no page to look at, and the program runs as natively" {
	build limited <<-'C'
		#include <glob.h>
		#include <pthread.h>
		#include <signal.h>
		#include <stdio.h>
		#include <sys/resource.h>
		static void *f(void *arg) { return arg; }
		int main(void)
		{
			unsigned long long pending = 0;
			pthread_t t;
			char line[256];
			glob_t all;
			if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 }) || pthread_create(&t, 0, f, 0) || pthread_join(t, 0))
				return 1;
			/* Of each kernel thread: one that has it blocked would let it in later. */
			if (glob("/proc/self/task/*/status", 0, 0, &all))
				return 2;
			for (size_t i = 0; i < all.gl_pathc; i++) {
				FILE *status = fopen(all.gl_pathv[i], "r");
				while (status && fgets(line, sizeof(line), status))
					if (sscanf(line, "SigPnd: %llx", &pending) == 1 && (pending >> (SIGXFSZ - 1) & 1))
						return 3;
				if (status)
					fclose(status);
			}
			return 0;
		}
	C
	for asks in HEDDLE_STATS=off "HEDDLE_STATS=$work/stats" "HEDDLE_TRACE=$work/trace"; do
		for procs in 1 2; do
			run env "$asks" GOMAXPROCS=$procs LD_PRELOAD="$heddle" "$work/limited"
			echo "$asks: $output"
			[ "$status" -eq 0 ]
		done
	done
}
