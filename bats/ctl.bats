#!/usr/bin/env bats
# heddle ctl: what it sets is so from then on. That of procs is in top.bats.
load common
load inside
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_watched
}

# counter NAME: of the process that is looked into.
counter() {
	"$command" stats "$pid" --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["counters"][sys.argv[1]])' "$1"
}

burners() {
	build burners <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		/* Nothing that could be taken for waiting. */
		static void *burn(void *arg)
		{
			static volatile unsigned long sink;
			for (unsigned long a = (unsigned long)arg, b = 1;; b ^= a >> 7) {
				a = a * 6364136223846793005u + b;
				if (a == 0)
					sink = b;
			}
			return (void *)sink;
		}
		int main(void)
		{
			pthread_t t[2];
			for (long i = 0; i < 2; i++)
				pthread_create(&t[i], NULL, burn, (void *)(i + 1));
			puts("ready");
			fflush(stdout);
			pthread_join(t[0], NULL);
		}
	C
	watched 1 "$work/burners"
}

long_turns() {
	run "$command" ctl "$pid" slice=400
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	# No more turns than have room in the time there was.
	began=$(date +%s%N)
	from=$(counter preempts)
	sleep 2
	turns=$(($(counter preempts) - from))
	lasted=$(($(date +%s%N) - began))
	[ "$turns" -le $((lasted / 400000000 + 1)) ]
	# And back: turns are short again.
	run "$command" ctl "$pid" slice=10
	[ "$status" -eq 0 ]
	from=$(counter preempts)
	began=$(date +%s%N)
	until [ $(($(counter preempts) - from)) -ge 40 ]; do :; done
	[ $(($(date +%s%N) - began)) -lt 16000000000 ]
}

@test "ctl slice: two that compute take turns that long" {
	burners
	long_turns
}

# Chaos' own are of 10 ms at most.
@test "ctl slice: so do those under a policy that draws its slices" {
	export HEDDLE_POLICY=chaos
	burners
	long_turns
}

# Twenty threads that open a FIFO which nobody writes to, once there is a file "go".
openers() {
	mkfifo "$work/fifo"
	watched 2 python3 -c '
import os, sys, threading, time
def block(): os.open(sys.argv[1], os.O_RDONLY)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
for _ in range(20): threading.Thread(target=block, daemon=True).start()
while True: time.sleep(0.01)' "$work/fifo" "$work/go"
}

@test "ctl max-threads: calls that block wait their turn, until they may again" {
	openers
	run "$command" ctl "$pid" max-threads=5
	[ "$status" -eq 0 ]
	touch "$work/go"
	# Only where there is a limit can one give way.
	until_said "HEDDLE_MAXTHREADS gives way to" "$work/err"
	# It does so by one each tenth of a second.
	grep -m 1 "gives way to" "$work/err" | grep -qx ".* gives way to 6"
	run "$command" ctl "$pid" max-threads=0 procs=3
	[ "$status" -eq 0 ]
	has_twenty() { [ "$(threads_of "$pid")" -ge 20 ]; }
	comes "$pid" has_twenty
	"$command" stats "$pid" --json | grep -q '"procs": 3,'
}

@test "ctl: nothing is set if one setting is wrong" {
	burners
	run "$command" ctl "$pid" procs=3 slice=many
	[ "$status" -eq 2 ]
	"$command" stats "$pid" --json | grep -q '"procs": 1,'
}
