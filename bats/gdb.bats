#!/usr/bin/env bats
# gdb: its own backtraces, and shim/gdb/heddle.py, on a process and on a core file; strace and perf.
load common
load inside
script=$top/shim/gdb/heddle.py
command=$top/build/heddle

teardown() {
	end_watched
}

# kinds: a program with a thread of each kind; with a second argument it aborts when somebody writes there.
kinds() {
	build kinds <<-'C'
		#include <fcntl.h>
		#include <pthread.h>
		#include <sched.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/eventfd.h>
		#include <sys/file.h>
		#include <unistd.h>
		static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
		static sem_t never;
		static _Atomic int burning;
		static void *burns(void *arg)
		{
			burning++;
			for (volatile long i = 0;; i++)
				;
			return arg;
		}
		static __attribute__((noinline)) int down(int n)
		{
			volatile int left = n;
			return left == 0 ? sem_wait(&never) : down(left - 1) + left;
		}
		static void *waits(void *arg)
		{
			return down(5) ? arg : NULL;
		}
		static void *takes(void *arg)
		{
			pthread_mutex_lock(&held);
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
			return read(eventfd(0, 0), &n, sizeof(n)) ? arg : NULL;
		}
		static void *sleeps(void *arg)
		{
			unshare(CLONE_FS);
			sleep(1000);
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t;
			flock(open(argv[1], O_RDWR | O_CREAT, 0600), LOCK_EX);
			pthread_mutex_lock(&held);
			for (int i = 0; i < 3; i++)
				pthread_create(&t, NULL, burns, NULL);
			pthread_create(&t, NULL, waits, NULL);
			pthread_create(&t, NULL, takes, NULL);
			pthread_create(&t, NULL, locks, argv[1]);
			pthread_create(&t, NULL, reads, NULL);
			pthread_create(&t, NULL, sleeps, NULL);
			pthread_setname_np(t, "sleeper");
			/* There is no stack of one that has not begun. */
			while (burning < 3)
				usleep(1000);
			puts("ready");
			fflush(stdout);
			if (argc > 2 && open(argv[2], O_RDONLY) >= 0)
				abort();
			pthread_join(t, NULL);
			return argc;
		}
	C
}

# begin_kinds: it runs, and each thread does what it is there for. abort_kinds: likewise, and it has aborted.
begin_kinds() {
	kinds
	watched 2 "$work/kinds" "$work/locked"
	until_states '"waiting": 5, "runnable": 1, "running": 2, "syscall, no P": 1'
}
abort_kinds() {
	kinds
	mkfifo "$work/go"
	watched 2 "$work/kinds" "$work/locked" "$work/go"
	until_states '"waiting": 4, "runnable": 1, "running": 2, "syscall, no P": 2'
	: >"$work/go"
	ended "$pid"
}

# asked COMMAND...: of gdb with the script, on the process pid; on_core FILE COMMAND...: on a core file.
asked() {
	timeout 100 gdb -nx -batch -p "$pid" -x "$script" "${@/#/-ex=}" 2>"$work/warnings"
}
on_core() {
	local core=$1
	shift
	timeout 100 gdb -nx -batch "$work/kinds" "$core" -x "$script" "${@/#/-ex=}" 2>"$work/warnings"
}

# seen FILE: of kinds, what info gs and g all bt wrote there, is whole and true.
seen() {
	python3 - "$1" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		rows = dict(re.findall(r"^[* ] (\d+) +(.*)$", text, re.M))
		stacks = dict(re.findall(r"^G (\d+) .*\n((?:#.*\n)*)", text, re.M))
		assert rows.keys() == stacks.keys() and len(rows) == 9, (text, rows, stacks)
		def state(function, n=1):
		    found = [rows[g] for g, s in stacks.items() if re.search(r"\b%s \(" % function, s)]
		    assert len(found) == n, (function, found, text)
		    return found[0]
		assert re.match(r"main +\d+ +(waiting: joins G \d+|running, on M \d+, thread \d+)$", state("main")), text
		state("burns", 3)
		assert re.search(r"waiting: futex 0x", state("waits")), text
		assert re.search(r"waiting: mutex 0x\w+, held by G 1$", state("takes")), text
		assert re.search(r"syscall.*, on M \d+, thread \d+$", state("locks")), text
		assert re.search(r"waiting: read fd \d+$", state("reads")), text
		assert re.match(r'"sleeper" .*waiting: sleep, wired to M \d+$', state("sleeps")), text
		assert re.search("preempted", text), text
		for g, s in stacks.items():
		    last = s.splitlines()[-1]
		    assert " arch_start (" in last or " main (" in last, (g, s)
		    assert "orrupt" not in s, s
		    down = len(re.findall(r" down \(", s))
		    assert down == (6 if " waits (" in s else 0), s
	END
}

@test "gdb's own backtrace of each kernel thread ends at its start, without an error" {
	begin_kinds
	timeout 100 gdb -nx -batch -p "$pid" -ex 'thread apply all bt' >"$work/bt" 2>&1
	python3 - "$work/bt" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		stacks = re.findall(r"^Thread \d+ .*\n((?:#.*\n)*)", text, re.M)
		assert len(stacks) >= 5, text
		for s in stacks:
		    last = s.splitlines()[-1]
		    assert re.search(r" (arch_start|arch_clone|main|__?clone3?) \(", last), s
		assert "Backtrace stopped" not in text and "orrupt" not in text, text
		for function in "burns", "locks":
		    assert any(" %s (" % function in s for s in stacks), (function, text)
	END
}

@test "info gs and g all bt: each thread with its state and its stack, of a process that runs and one that is stopped" {
	begin_kinds
	asked 'info gs' 'g all bt' >"$work/gs"
	seen "$work/gs"
	kill -STOP "$pid"
	asked 'info gs' 'g all bt' >"$work/gs"
	seen "$work/gs"
}

@test "g N: any command, in the frames of that thread; then gdb is where it was" {
	begin_kinds
	asked 'info gs' 'g all bt' >"$work/gs"
	g=$(awk '/^G / { g = $2 } / waits \(/ { print g }' "$work/gs")
	asked 'bt' 'echo \n--\n' "g $g frame function waits" 'echo \n--\n' "g $g bt 2" 'echo \n--\n' "g $g bt -2" \
		'echo \n--\n' 'bt' >"$work/out2"
	python3 - "$work/out2" <<-'END'
		import re, sys
		before, frame, first, last, after = open(sys.argv[1]).read().split("\n--\n")
		frames = lambda text: re.findall(r"^#.*", text, re.M)
		assert frames(before)[1:] == frames(after)[1:] and len(frames(after)) > 1, (before, after)
		assert len(frames(frame)) == 1 and " waits (" in frame, frame
		assert len(frames(first)) == 2, first
		assert len(frames(last)) == 2 and " arch_start (" in last, last
	END
	run asked 'g 999 bt'
	grep -q '^There is no G 999' "$work/warnings"
}

@test "a core file of a program that aborted: the same" {
	local pattern
	pattern=$(cat /proc/sys/kernel/core_pattern)
	[[ $pattern != *[\|/]* ]] || skip "core files go elsewhere: $pattern"
	ulimit -c unlimited || skip "no core files here"
	cd "$work"
	abort_kinds
	on_core "$work"/core* bt 'info gs' 'g all bt' >"$work/gs"
	seen "$work/gs"
	grep -q '^Program terminated with signal SIGABRT' "$work/gs"
	grep -A9 '^#0 ' "$work/gs" | grep -q ' main ('
}

@test "a core file that gdb wrote of a process that goes on: the same" {
	begin_kinds
	asked "heddle-gcore $work/core" >"$work/log"
	end_watched
	on_core "$work/core" 'info gs' 'g all bt' >"$work/gs"
	seen "$work/gs"
}

@test "a thread that is just being switched to or from has its stack, not the one on which that is done" {
	build turns <<-'C'
		#include <pthread.h>
		#include <sched.h>
		#include <stdio.h>
		static volatile int goes_on = 1;
		static __attribute__((noinline)) void turn(void)
		{
			while (goes_on)
				sched_yield();
		}
		static void *turns(void *arg)
		{
			turn();
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			for (int i = 0; i < 3; i++)
				pthread_create(&t, NULL, turns, NULL);
			puts("ready");
			fflush(stdout);
			pthread_join(t, NULL);
		}
	C
	watched 2 "$work/turns"
	# So many instructions on the stack is the one it comes from, and so many the one it goes to, whose registers
	# are not all back yet.
	for steps in 7 22; do
		timeout 100 gdb -nx -batch -p "$pid" -x "$script" -ex 'break arch_switch' -ex continue \
			-ex "stepi $steps" -ex 'g all bt' -ex "shell kill -STOP $pid" -ex detach >"$work/gs" 2>"$work/warnings"
		run "$command" dump "$pid"
		[ "$status" -eq 0 ]
		kill -CONT "$pid"
		python3 - "$work/gs" <<-END
			import re, sys
			gs = re.findall(r"^G \d+ .*\n((?:#.*\n)*)", open(sys.argv[1]).read(), re.M)
			assert sum(" turns (" in s and " arch_start (" in s for s in gs) == 3, gs
			dumped = [e for e in """$output""".split("\n\n") if " turns+" in e and " turn+" in e]
			counts = [re.search(r"^(\d+) threads: ", e, re.M) for e in dumped]
			assert sum(int(c[1]) if c else 1 for c in counts) == 3, """$output"""
		END
	done
}

@test "a thread that is being preempted has a backtrace to its start" {
	begin_kinds
	timeout 100 gdb -nx -batch -p "$pid" -ex 'break preempt.c:handler if $_any_caller_is("burns", 8)' -ex continue -ex bt >"$work/bt" 2>&1
	python3 - "$work/bt" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		stack = text[text.index(" hit Breakpoint 1"):]
		order = [stack.index(n) for n in (" handler (", "<signal handler called>", " burns (", " arch_start (")]
		assert order == sorted(order) and "Backtrace stopped" not in stack, text
	END
}

@test "in a handler the backtrace goes on to where its thread was, and to its start" {
	build handler <<-'C'
		#include <pthread.h>
		#include <signal.h>
		static volatile int n;
		static __attribute__((noinline)) void counts(int sig)
		{
			n += sig;
		}
		static __attribute__((noinline)) void raises(void)
		{
			raise(SIGUSR1);
			n++;
		}
		static void *begins(void *arg)
		{
			raises();
			n++;
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			signal(SIGUSR1, counts);
			pthread_create(&t, NULL, begins, NULL);
			return pthread_join(t, NULL);
		}
	C
	timeout 100 gdb -nx -batch -ex 'set startup-with-shell off' -ex "set env LD_PRELOAD $heddle" \
		-ex 'handle SIGUSR1 nostop noprint' -ex 'break counts' -ex run -ex bt "$work/handler" \
		>"$work/out" 2>&1
	python3 - "$work/out" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		names = [m[1] for m in re.finditer(r"^#.* (\S+) \(", text, re.M)]
		assert "<signal handler called>" in text and "Backtrace stopped" not in text, text
		order = [names.index(n) for n in ("counts", "raises", "begins", "arch_start")]
		assert order == sorted(order) and order[0] == 0 and order[-1] == len(names) - 1, text
	END
}

# Functions of the program itself, of each thread; libraries wait in their own ways.
@test "of a python each thread has the stack that gdb finds natively" {
	cat >"$work/names.py" <<-'END'
		import gdb
		class Names(gdb.Command):
		    def invoke(self, argument, from_tty):
		        frame, names = gdb.selected_frame(), []
		        while frame:
		            if gdb.solib_name(frame.pc()) is None and frame.name():
		                names.append(frame.name())
		            frame = frame.older()
		        print("stack:", *names)
		Names("names", gdb.COMMAND_STACK)
	END
	fifty
	asked "source $work/names.py" 'g all names' >"$work/log"
	end_watched
	grep '^stack:' "$work/log" | sort >"$work/ours"
	python3 -c "$fifty_threads" >"$work/out" 3>&- &
	pid=$!
	disown
	until_said ready "$work/out"
	until_asleep
	asked "source $work/names.py" 'thread apply all names' >"$work/log"
	grep '^stack:' "$work/log" | sort >"$work/theirs"
	[ "$(wc -l <"$work/theirs")" -eq 51 ]
	diff "$work/ours" "$work/theirs"
}

# Threads that hand a byte round by pipes and by semaphores, and one that computes meanwhile.
round_program() {
	build round <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		enum { N = 4 };
		static int rounds, pipes[N][2];
		static sem_t sems[N];
		static volatile int over;
		static volatile long steps;
		static __attribute__((noinline)) void computes(void)
		{
			for (int i = 0; i < 1000000; i++)
				steps++;
		}
		static void *burns(void *arg)
		{
			while (!over)
				computes();
			return arg;
		}
		static void *hands(void *arg)
		{
			long me = (long)arg, sum = 0;
			for (int i = 0; i < rounds; i++) {
				char c;
				sum += read(pipes[me][0], &c, 1);
				sem_wait(&sems[me]);
				sem_post(&sems[(me + 1) % N]);
				sum += write(pipes[(me + 1) % N][1], &c, 1);
			}
			return (void *)sum;
		}
		int main(int argc, char **argv)
		{
			pthread_t t[N], b;
			long sum = 0;
			rounds = argc > 1 ? atoi(argv[1]) : 0;
			for (int i = 0; i < N; i++) {
				sem_init(&sems[i], 0, i == 0);
				if (pipe(pipes[i]) != 0)
					return 1;
			}
			pthread_create(&b, NULL, burns, NULL);
			for (long i = 0; i < N; i++)
				pthread_create(&t[i], NULL, hands, (void *)i);
			puts("ready");
			fflush(stdout);
			sum += write(pipes[0][1], "x", 1);
			for (int i = 0; i < N; i++) {
				void *result;
				pthread_join(t[i], &result);
				sum += (long)result;
			}
			over = 1;
			pthread_join(b, NULL);
			printf("sum %ld\n", sum);
			return 0;
		}
	C
}

@test "under strace a program does what it does, whether it is begun there or attached to" {
	round_program
	GOMAXPROCS=2 timeout 100 strace -f -o "$work/calls" -E LD_PRELOAD="$heddle" "$work/round" 300 >"$work/out"
	grep -qx "sum 2401" "$work/out"
	grep -q 'write.*"x".* = 1$' "$work/calls"
	watched 2 "$work/round" 20000000
	for i in 1 2 3; do
		: >"$work/calls"
		strace -f -p "$pid" -o "$work/calls" 2>"$work/said" 3>&- &
		tracer=$!
		until grep -q 'write.*"x"' "$work/calls"; do kill -0 "$tracer"; done
		kill -TERM "$tracer"
		wait "$tracer" || true
		grep -q "Process $pid detached" "$work/said"
		kill -0 "$pid"
	done
	# It goes on: untraced threads read and write.
	reads() { awk '/^syscr/ { print $2 }' "/proc/$pid/io"; }
	goes_on() { [ "$(reads)" -gt "$((before + 1000))" ]; }
	before=$(reads)
	comes "$pid" goes_on
}

@test "a tracer of the first thread alone, which makes each of its calls slow, does not keep it where it is" {
	build two <<-'C'
		#include <pthread.h>
		static void *f(void *arg) { return arg; }
		int main(void)
		{
			pthread_t t[2];
			for (int i = 0; i < 2; i++)
				if (pthread_create(&t[i], 0, f, 0))
					return 1;
			return pthread_join(t[0], 0) + pthread_join(t[1], 0);
		}
	C
	# No shorter than it takes sysmon to ask once more.
	GOMAXPROCS=2 timeout 60 strace -e inject=all:delay_exit=3000 -o "$work/calls" -E LD_PRELOAD="$heddle" "$work/two"
}

@test "perf tells whose the samples are, and by whom it was called" {
	command -v perf >/dev/null || skip "no perf"
	round_program
	watched 2 "$work/round" 20000000
	perf record -q -e cpu-clock -F 500 --call-graph fp -o "$work/perf" -p "$pid" -- sleep 3 2>"$work/said" ||
		skip "perf may not sample here: $(head -n 1 "$work/said")"
	perf script -i "$work/perf" -F ip,sym,dso 2>/dev/null >"$work/samples"
	python3 - "$work/samples" <<-'END'
		import sys
		samples = [s for s in open(sys.argv[1]).read().split("\n\n") if s.strip()]
		own = [s for s in samples if s.split()[1] == "computes"]
		# What a call costs, and so its share, is the machine's.
		assert len(own) >= 10, (len(own), len(samples))
		# By frame pointers, which the program itself was built without.
		whole = [s for s in own if "gmain" in s and s.split()[-2] == "arch_start"]
		assert len(whole) > len(own) * 0.9, (len(whole), own[:3])
		assert any("hands" in s or "write" in s for s in samples), samples[:20]
	END
}
