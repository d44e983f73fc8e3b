#!/usr/bin/env bats
# heddle top, in a terminal and without one; heddle ctl.
load common
load terminal
load inside
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_terminal
	end_watched
}

@test "without a terminal one picture is printed, with all threads" {
	fifty
	run "$command" top --delay 200 "$pid"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "heddle top  $pid  "*python3* ]]
	[[ ${lines[1]} == "up "*"51 threads on "*" kernel threads   GOMAXPROCS=2" ]]
	[[ ${lines[3]} == "51 waiting   global queue 0" ]]
	[ "$(grep -cE '^ *[0-9]+ (main|) +waiting' <<<"$output")" -ge 40 ]
	[[ $output == *"main            waiting"*"sleep, for 16m"* ]]
	[[ $output != *$'\033'* ]]
	# The only process there is, perhaps, needs no name.
	run "$command" top --delay 100 --count 2
	[ "$status" -eq 0 ] || [[ $output == *"which PID?"* ]]
}

@test "in a terminal: it fills the screen, sorts, follows its size, and gives it back" {
	command -v tmux >/dev/null || skip "no tmux"
	fifty
	in_terminal 90 24 env PS1='$ ' bash --norc
	keys "echo was here; $command top --delay 300 $pid" Enter
	until_shown "now by cpu"
	[ "$(shown | wc -l)" -eq 24 ]
	shown | head -n 1 | grep -q "^heddle top  $pid"
	! shown | grep -q "was here"
	keys s
	until_shown "now by age"
	keys s
	until_shown "now by state"
	tmux -L "$screen" resize-window -x 50 -y 12
	# The last of 12 lines, none longer than 50.
	fits() { shown | awk 'length($0) > 50 { wide = 1 } { last = $0 } END { exit wide || NR > 12 || last !~ /now by state/ }'; }
	comes fits
	[ "$(shown | awk '{ if (length($0) > m) m = length($0) } END { print m }')" -le 50 ]
	shown | tail -n 1 | grep -q "now by state"
	keys q
	until_shown "was here"
	! shown | grep -q "now by"
	keys "stty -a | tr ';' '\n' | grep -wo '.*icanon'" Enter
	until_shown " icanon"
	! shown | grep -q -- "-icanon"
}

@test "an interrupt gives the terminal back, too; so does the end of the process" {
	command -v tmux >/dev/null || skip "no tmux"
	fifty
	in_terminal 90 24 env PS1='$ ' bash --norc
	keys "$command top --delay 200 $pid; echo status=\$?" Enter
	until_shown "now by cpu"
	keys C-c
	until_shown "status=0"
	keys "clear; $command top --delay 200 $pid; echo status=\$?" Enter
	until_shown "now by cpu"
	kill -KILL "$pid"
	until_shown "$pid has ended"
	until_shown "status=0"
}

@test "NO_COLOR is respected" {
	command -v script >/dev/null || skip "no script"
	fifty
	TERM=xterm script -qec "$command top --delay 100 --count 1 $pid" /dev/null </dev/null >"$work/colours" || true
	TERM=xterm NO_COLOR=1 script -qec "$command top --delay 100 --count 1 $pid" /dev/null </dev/null >"$work/plain" || true
	grep -q $'\033\[1m' "$work/colours"
	grep -q "heddle top" "$work/plain"
	! grep -q $'\033\[1m\|\033\[2m' "$work/plain"
}

@test "who burns the cpu is seen to" {
	build burners <<-'C'
		#define _GNU_SOURCE
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		static void *burns(void *arg)
		{
			pthread_setname_np(pthread_self(), arg);
			for (volatile long i = 0;; i++)
				;
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			pthread_create(&t, NULL, burns, "burner");
			puts("ready");
			fflush(stdout);
			pthread_join(t, NULL);
		}
	C
	watched 2 "$work/burners"
	until_states '"waiting": 1, "running": 1'
	run "$command" top --delay 500 "$pid"
	[ "$status" -eq 0 ]
	percent=$(awk '$2 == "burner" && $3 == "running" { print $NF }' <<<"$output")
	[ "$percent" -ge 80 ]
}

@test "ctl changes how many run at once, in a busy and in an idle process" {
	fifty
	until_asleep
	for n in 5 1 3; do
		run "$command" ctl "$pid" procs=$n
		[ "$status" -eq 0 ]
		[ -z "$output" ]
		"$command" stats "$pid" --json | grep -q "\"procs\": $n,"
	done
	end_watched
	watched 2 python3 -c '
import threading
def burn():
    while True: sum(range(1000))
for _ in range(4): threading.Thread(target=burn, daemon=True).start()
print("ready", flush=True)
burn()'
	run "$command" ctl "$pid" procs=4
	[ "$status" -eq 0 ]
	"$command" stats "$pid" --json | grep -q '"procs": 4,'
}

@test "ctl: mistakes, a stopped process, another user's" {
	fifty
	run "$command" ctl "$pid" porcs=4
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean procs=N?"* ]]
	for bad in procs=0 procs=1025 procs=x procs slice=0 max-threads=-1; do
		run "$command" ctl "$pid" $bad
		[ "$status" -eq 2 ]
	done
	if [ "$(id -u)" -eq 0 ]; then
		run as_nobody ctl "$pid" procs=4
		[ "$status" -eq 1 ]
	fi
	kill -STOP "$pid"
	# It is when the last of its kernel threads is.
	stopped() { ! grep -L '^State:.T' "/proc/$pid/task/"*/status | grep -q .; }
	comes "$pid" stopped
	run "$command" ctl "$pid" procs=4
	kill -CONT "$pid"
	[ "$status" -eq 1 ]
	[[ $output == *"is it stopped?"* ]]
	on_four() { "$command" stats "$pid" --json | grep -q '"procs": 4,'; }
	comes "$pid" on_four
}
