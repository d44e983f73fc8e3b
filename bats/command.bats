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
