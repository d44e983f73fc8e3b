#!/usr/bin/env bats
# The heddle command.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

@test "it runs a program on few kernel threads and passes its status on" {
	run "$command" -p 2 python3 -c '
import threading, sys
gate = threading.Event()
t = [threading.Thread(target=gate.wait) for _ in range(100)]
for x in t: x.start()
print([int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("Threads:")][0])
gate.set()
for x in t: x.join()
sys.exit(3)'
	[ "$status" -eq 3 ]
	[ "$output" -le 8 ]
}

@test "a command that is not there gives 127, one that cannot run 126" {
	run -127 "$command" run -- /nonexistent/program
	[ "$status" -eq 127 ]
	run "$command" /etc/passwd
	[ "$status" -eq 126 ]
}

@test "options: help, version, mistakes" {
	run "$command" --help
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == usage:* ]]
	run "$command" --version
	[[ $output == "heddle "* ]]
	run "$command" --prox 2 true
	[ "$status" -eq 2 ]
}

@test "--off runs natively" {
	run "$command" --off python3 -c '
import threading
gate = threading.Event()
t = [threading.Thread(target=gate.wait) for _ in range(100)]
for x in t: x.start()
print([int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("Threads:")][0])
gate.set()
for x in t: x.join()'
	[ "$output" -eq 101 ]
}

@test "the status of a program that a signal ends is the shell's" {
	for signal in HUP INT SEGV ABRT TERM KILL; do
		# Whoever started the tests may ignore one, natively too.
		run bash -c 'sh -c "kill -$1 \$\$"' _ $signal
		natively=$status
		run bash -c '"$1" -p 2 sh -c "kill -$2 \$\$"' _ "$command" $signal
		[ "$status" -eq "$natively" ]
	done
	[ "$status" -eq $((128 + 9)) ]
	run "$command" sh -c 'exit 200'
	[ "$status" -eq 200 ]
}

@test "each option, setting and subcommand is named to who misspells it" {
	n=0
	for sub in $("$command" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		for option in $("$command" "$sub" --help | grep -oE -- '^  .{4}--[a-z-]+' | grep -oE -- '--.*'); do
			# What is one letter long is near to nothing.
			[ ${#option} -gt 3 ] || continue
			for wrong in "${option}x" "${option%?}" "--x${option#--}"; do
				run "$command" "$sub" "$wrong"
				[ "$status" -eq 2 ]
				[[ $output == "heddle $sub: $wrong: no such option; did you mean $option?" ]]
				n=$((n + 1))
			done
		done
		[ ${#sub} -gt 2 ] || continue
		run -127 "$command" "${sub}x"
		[[ $output == *"did you mean heddle $sub?" ]]
	done
	[ "$n" -ge 60 ]
	run "$command" run --max 5 true
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean --max-threads?" ]]
	run -127 "$command" help
	[[ $output == *"did you mean heddle --help?" ]]
	run "$command" ctl 1 pro=4
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean procs=N?" ]]
	run "$command" ctl 1 soup=4
	[[ $output == *"see heddle ctl --help" ]]
}

@test "colours: on a terminal only, and not where NO_COLOR or a dumb terminal forbids them" {
	command -v script >/dev/null || skip "no script"
	load inside
	fifty
	for sub in ps "stats $pid" "dump $pid" "doctor true" "top --delay 50 --count 1 $pid"; do
		TERM=xterm "$command" $sub >"$work/plain"
		run ! grep -q $'\033' "$work/plain"
		TERM=xterm script -qec "$command $sub" /dev/null </dev/null >"$work/colours"
		grep -q $'\033\[1m' "$work/colours"
		TERM=xterm NO_COLOR=1 script -qec "$command $sub" /dev/null </dev/null >"$work/plain"
		run ! grep -q $'\033\[[0-9]*m' "$work/plain"
		TERM=dumb script -qec "$command $sub" /dev/null </dev/null >"$work/plain"
		run ! grep -q $'\033\[[0-9]*m' "$work/plain"
	done
	end_watched
}

@test "what could not be written is no success" {
	for what in --help "run --help" --version "doctor true"; do
		run bash -c "'$command' $what >/dev/full"
		[ "$status" -eq 1 ]
		[[ $output == "heddle: standard output: No space left on device" ]]
	done
}

@test "--only: the programs that are named so, by their files or as they were started; others natively" {
	build one.py <<-'C'
		#include <pthread.h>
		static void *nothing(void *arg) { return arg; }
		int main(void)
		{
			pthread_t t;
			return pthread_create(&t, 0, nothing, 0) || pthread_join(t, 0);
		}
	C
	cp "$work/one.py" "$work/two.py"
	# served PATTERN N: so many of two programs are.
	served() {
		run "$command" run --stats --only "$1" sh -c "'$work/one.py'; '$work/two.py'"
		[ "$status" -eq 0 ]
		[ "$(grep -c '^heddle: process' <<<"$output")" -eq "$2" ]
	}
	served 'one.py' 1
	served '*.py' 2
	served '???.py' 2
	served 'x,y,two*' 1
	served "$work/t*" 1
	served 'py' 0
	served 'sh' 0
	served "$(printf '*e%.0s' $(seq 120))" 0
	# A script has two names.
	if [ -x /usr/bin/python3 ]; then
		printf '%s\n' '#!/usr/bin/python3' 'import threading' \
			't = threading.Thread(target=int); t.start(); t.join()' >"$work/one.py"
		served 'one.py' 1
		served 'python3*' 1
	fi
	# What cannot be served may be the way to what can.
	run -127 "$command" run --only one.py --stats "$BATS_TEST_DIRNAME/nothing"
	run "$command" run --only "" true
	[ "$status" -eq 2 ]
	HEDDLE_ONLY=$(printf 'e%.0s' $(seq 300)) run preloaded 2 /bin/true
	[ "$status" -eq 0 ]
	[[ $output == "heddle: HEDDLE_ONLY=eee"* ]]
}
