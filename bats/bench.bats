#!/usr/bin/env bats
# The benchmark tells failures: a figure is only as good as the run that gave it.
load common

setup() { mkdir -p "$work/bench"; }

# pretend BODY: the program `pipes`, and a run of one of its rows.
pretend() {
	printf '#!/bin/sh\n%s\n' "$1" >"$work/bench/pipes"
	chmod +x "$work/bench/pipes"
	cp "$heddle" "$work/" 2>/dev/null || true
	run env RUNS="${2:-1}" python3 "$top/tests/bench/run.py" "$work" read-zero
}

@test "a row gives medians, ratios and the range of the runs" {
	pretend "n=\$(cat $work/n 2>/dev/null || echo 0); echo \$((n + 1)) >$work/n
		case \${GOMAXPROCS:-0} in 0) echo 100 ns;; 1) echo 50 ns;; 2) echo \$((n * 100)) ns;; esac" 3
	[ "$status" -eq 0 ]
	[[ $output =~ read-zero\ +ns\ +100\ +50\.0\ +2\.00\ +500\ +0\.20\ +0/0/120 ]]
	[[ $output == *"slower than native:"*"read-zero"*"P=2 0.20"* ]]
	python3 -c '
import sys
null = None
b = eval(open(sys.argv[1]).read())
assert b["rows"][0]["P=2"]["runs"] == [200.0, 500.0, 800.0]' "$work/bench.json"
}

@test "a program that fails, fails its row" {
	pretend 'echo 100 ns; [ "$GOMAXPROCS" != 2 ] || { echo wrong >&2; exit 3; }'
	[ "$status" -eq 1 ]
	[[ $output == *"FAILED P=2: exit status 3: wrong"*"repeat: LD_PRELOAD="* ]]
}

@test "one that is killed, too" {
	pretend '[ "$GOMAXPROCS" != 1 ] || kill -SEGV $$; echo 100 ns'
	[ "$status" -eq 1 ]
	[[ $output == *"FAILED P=1: killed by signal 11"* ]]
}

@test "one that does not end, too" {
	cp "$top"/tests/bench/*.py "$work"
	sed -i 's/seconds=20/seconds=3/' "$work/rows.py"
	printf '#!/bin/sh\necho 100 ns\n[ "$GOMAXPROCS" != 1 ] || sleep 100\n' >"$work/bench/pipes"
	chmod +x "$work/bench/pipes"
	cp "$heddle" "$work/"
	run env RUNS=2 python3 "$work/run.py" "$work" read-zero
	[ "$status" -eq 1 ]
	[[ $output == *"FAILED P=1: not at its end after 3 s"* ]]
}

@test "a peer stands beside: its ratio is heddle's with as many Ps; that it fails is told, and fails nothing" {
	printf '#!/bin/sh\n[ "$GOMAXPROCS" != 2 ] || exit 4\necho 300 ns\n' >"$work/bench/peer"
	chmod +x "$work/bench/peer"
	pretend 'echo $((100 * (1 + ${GOMAXPROCS:-0}))) ns'
	[ "$status" -eq 0 ]
	[[ $output =~ read-zero\ +ns\ +100\ +200\ +0\.50\ +300\ +0\.33\ +300\ +1\.50\ +FAILED ]]
	[[ $output == *"fails Go P=2: exit status 4"* ]]
	[[ $output == *"P=1: not slower than Go in 1 of 1 figures"* ]]
	python3 -c '
import sys, xml.dom.minidom
bars = xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("rect")
assert len(bars) >= 5, len(bars)' "$work/bench.svg"
}

@test "growth: each subject among more and more threads, and on more and more Ps" {
	printf '#!/bin/sh\necho $(($2 + ${GOMAXPROCS:-0})) ns\n' >"$work/bench/growth"
	chmod +x "$work/bench/growth"
	cp "$heddle" "$work/"
	run env RUNS=1 python3 "$top/tests/bench/run.py" "$work" growth
	[ "$status" -eq 0 ]
	[[ $output =~ ring\ +native\ +1\.00\ +10\.0\ +100\ +1,000\ +10,000\ +- ]]
	[[ $output =~ ring\ +heddle\ +1,001\ +1,002\ +1,004\ +1,008 ]]
}

@test "heddle that is not there makes no row" {
	heddle=/nowhere pretend 'echo 100 ns'
	[ "$status" -eq 1 ]
	[[ $output == *"FAILED P=1: says: "*"cannot be preloaded"* ]]
}

@test "a row that does not exist is an error" {
	run python3 "$top/tests/bench/run.py" "$work" no-such-row
	[ "$status" -eq 1 ]
	[[ $output == *"no row or program is called no-such-row"* ]]
}

@test "what it costs to be looked at: a line for each P, and the program goes on" {
	make -s -C "$top" bench-programs "$top/build/notrace/libheddle.so" BUILD="$top/build"
	run env PAIRS=1 python3 "$top/tests/bench/cost.py" "$top/build" trace yield-2
	[ "$status" -eq 0 ]
	[ "$(grep -cE '^a trace being written +yield-2 +[12] +-?[0-9.]+ \(.*\) +-?[0-9.]+ \(.*\)$' <<<"$output")" -eq 2 ]
	run python3 "$top/tests/bench/cost.py" "$top/build" tracks
	[ "$status" -eq 1 ]
	[[ $output == *"nothing is called tracks"* ]]
}

# shape TABLE: what the hot paths take, against these budgets.
shape() {
	make -s -C "$top" bench-programs "$top/build/libheddle.so" "$top/build/release/tests/bench/core_bench" BUILD="$top/build"
	printf '%s\n' "$@" >"$work/table"
	run "$top/build/bench/shape" "$top/build" "$work/table"
}

@test "a broken budget fails: its row, what was counted, the budget; of instructions or of system calls" {
	shape '# a comment' 'locks mutex-threaded 20 0' 'pipes read-zero 1000 0' 'core_bench free 100 0'
	[[ $output != *skipped* ]] || skip "no ptrace here"
	[ "$status" -eq 1 ]
	[[ $output =~ "not ok locks mutex-threaded: "[0-9.]+" instructions and 0.00 system calls an operation; the budget of ".*" is 20 and 0.00" ]]
	[[ $output =~ "not ok pipes read-zero: "[0-9.]+" instructions and 1.00 system calls".*"1.00 of call 0" ]]
	[[ $output == *"shape: 2 passed, 2 failed"* ]] # the other is what it knows of itself
}

@test "what has no marks, ends badly or is no row fails" {
	shape 'locks no-such-row 20 0' 'core_bench no-such-row 20 0' 'nobody pipe 20 0' 'pipes pipe many 0'
	[[ $output != *skipped* ]] || skip "no ptrace here"
	[ "$status" -eq 1 ]
	[[ $output == *"not ok locks no-such-row: it did not end well"* ]]
	[[ $output == *"not ok nobody pipe: it did not end well"* ]]
	[[ $output == *"not ok $work/table: no row: pipes pipe many 0"* ]]
	[[ $output == *"shape: 1 passed, 4 failed"* ]]
}
