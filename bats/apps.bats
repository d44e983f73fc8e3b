#!/usr/bin/env bats
# The matrix of programs tells failures, and counts what it says it counts.
load common

setup() {
	mkdir -p "$work/build" "$work/tests"
	cp "$heddle" "$work/build"
	cp -r "$top/bats" "$work"
	cp -r "$top/tests/apps" "$work/tests"
	rm "$work/tests/apps/programs/"*
}

# matrix < programs: one run of each.
matrix() {
	cat >"$work/tests/apps/programs/own.bash"
	run env RUNS=1 python3 "$work/tests/apps/run.py" "$work/build" "$@"
}

@test "a program that works: its time, its kernel threads in both, what heddle counted" {
	matrix <<-'E'
		app sleepers "40 threads asleep, until it was seen how many" python3
		app_sleepers() {
			good python3 -c '
		import os, threading, time
		gate = threading.Event()
		t = [threading.Thread(target=gate.wait) for _ in range(40)]
		for x in t: x.start()
		least = 1 if "LD_PRELOAD" in os.environ else 41
		while not os.path.exists(".most") or int(open(".most").read() or 0) < least: time.sleep(0.01)
		gate.set()
		for x in t: x.join()
		print("all good")'
		}
	E
	[ "$status" -eq 0 ]
	[[ $output =~ "| sleepers | 40 threads asleep, until it was seen how many | passes | "[0-9.]+" | "[0-9.]+" | "[0-9.]+" to "[0-9.]+" | 41 to "([0-9]+)" | 0 | "[0-9]+" |" ]]
	[ "${BASH_REMATCH[1]}" -lt 20 ]
	[[ $output == *"apps: 1 passed, 0 failed"* ]]
	grep -q '^| sleepers ' "$work/build/apps.md"
}

@test "who fails under heddle only, who natively, who prints the wrong verdict: each is named, with what failed" {
	matrix <<-'E'
		app there "fails where heddle is"
		app_there() { under bash -c '[ -z "$LD_PRELOAD" ]'; }
		app everywhere "fails"
		app_everywhere() { under true; under bash -c 'exit 3'; }
		app silent "says nothing"
		app_silent() { good true; }
		app unmeasured "runs nothing under test"
		app_unmeasured() { true; }
	E
	[ "$status" -eq 1 ]
	[[ $output == *"| there | fails where heddle is | FAILS |"* ]]
	[[ $output == *"heddle: failed: "* ]]
	[[ $output == *"| everywhere | fails | fails natively, too |"* ]]
	[[ $output == *"fail under heddle only: there"*"fail natively: everywhere silent unmeasured"* ]]
	[[ $output == *"apps: 0 passed, 4 failed"* ]]
}

@test "a name that no program has is an error" {
	matrix nobody </dev/null
	[ "$status" -eq 1 ]
	[[ $output == *"no program is called nobody"* ]]
}
