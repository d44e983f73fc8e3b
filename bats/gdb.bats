#!/usr/bin/env bats
# gdb's own backtraces.
load common
load inside

teardown() {
	end_watched
}

# kinds: a program with a thread of each kind, ready when it says so; with a second argument it aborts then.
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
		static void *burns(void *arg)
		{
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
			usleep(300000);
			puts("ready");
			fflush(stdout);
			if (argc > 2)
				abort();
			pthread_join(t, NULL);
			return argc;
		}
	C
}

@test "gdb's own backtrace of each kernel thread ends at its start, without an error" {
	kinds
	watched 2 "$work/kinds" "$work/locked"
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

@test "a thread that is being preempted has a backtrace to its start" {
	kinds
	watched 2 "$work/kinds" "$work/locked"
	timeout 100 gdb -nx -batch -p "$pid" -ex 'break preempt.c:handler' -ex continue -ex bt >"$work/bt" 2>&1
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
		-ex 'handle SIGUSR1 nostop noprint' -ex 'break counts' -ex run -ex bt -ex continue "$work/handler" \
		>"$work/out" 2>&1
	python3 - "$work/out" <<-'END'
		import re, sys
		text = open(sys.argv[1]).read()
		names = [m[1] for m in re.finditer(r"^#.* (\S+) \(", text, re.M)]
		assert "<signal handler called>" in text and "Backtrace stopped" not in text, text
		order = [names.index(n) for n in ("counts", "raises", "begins", "arch_start")]
		assert order == sorted(order) and order[0] == 0 and order[-1] == len(names) - 1, text
		assert "exited normally" in text, text
	END
}
