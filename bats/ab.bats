#!/usr/bin/env bats
# heddle ab: two variants of one command, run in turns. That it is right about differences is tested in
# tests/command/ab_test.c; here time is asked only where it differs by far.
load common
load terminal
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_terminal
}

# script NAME < text: of sh. In it `under` is true under heddle.
script() {
	{
		echo '#!/bin/sh'
		echo 'under() { case ${LD_PRELOAD:-} in *libheddle*) true ;; *) false ;; esac; }'
		cat
	} >"$work/$1"
	chmod +x "$work/$1"
}

ab() {
	run --separate-stderr "$command" ab "$@"
}

# What a program of the tests does with threads.
threads='
import threading
gate = threading.Event()
ts = [threading.Thread(target=gate.wait) for _ in range(20)]
for t in ts: t.start()
gate.set()
for t in ts: t.join()
print("all", len(ts))'

@test "a large difference is found, and said with its direction" {
	script uneven <<<'if under; then sleep 0.05; else sleep 0.6; fi'
	ab -n 6 --warmup 1 -- "$work/uneven"
	[ "$status" -eq 0 ]
	[ -z "$stderr" ]
	[[ ${lines[0]} == "heddle ab  $work/uneven" ]]
	[[ $output == *"6 rounds, the order of each by seed "* ]]
	[[ $output == *"a  native, again"* ]]
	grep -qE '^b  go: [0-9.]+(–[0-9.]+)?× faster$' <<<"$output"
	grep -qE 'Mann-Whitney p (<|=) 0\.0' <<<"$output"
	# One run of six may have been kept from the cpu for longer than that.
	grep -qE 'Cliff'"'"'s delta -(1\.00|0\.[6-9][0-9]): the better in ([89][0-9]|100) % of pairs' <<<"$output"
	[ "$(tail -n +2 <<<"$output" | wc -L)" -le 80 ]
	grep -qE '^Control, a again: ' <<<"$output"
	ab -n 6 --warmup 1 --a go --b native --threshold 50 "$work/uneven"
	[ "$status" -eq 3 ]
	grep -qE '^b  native: .*× slower$' <<<"$output"
}

@test "where the control differs that is said, on lines that fit" {
	local control
	script drifts <<-'C'
		echo x >>"$0.count"
		n=$(wc -l <"$0.count")
		case " $CONTROL " in *" $n "*) n=1000 ;; *) [ -z "$CONTROL" ] || n=100 ;; esac
		echo "rate: $n"
	C
	# The order is the seed's: the first time each run prints its place in it.
	ab -n 6 --warmup 0 --seed 7 --metric 'rate: ([0-9]+)' --json - "$work/drifts"
	control=$(sed -n '/^{/,/^}/p' <<<"$output" | python3 -c '
import json, sys
print(*(int(r["matched"]) for a in json.load(sys.stdin)["arms"] if a["control"] for r in a["runs"]))')
	[ "$(wc -w <<<"$control")" -eq 6 ]
	rm "$work/drifts.count"
	CONTROL=$control ab -n 6 --warmup 0 --seed 7 --metric 'rate: ([0-9]+)' "$work/drifts"
	grep -qE '^Control, a again: 10\.0.*× higher' <<<"$output"
	[[ $output == *"It seems to differ from itself"* ]]
	[ "$(tail -n +2 <<<"$output" | wc -L)" -le 80 ]
}

@test "of fewer than six rounds nothing is concluded" {
	script uneven <<<'if under; then sleep 0.01; else sleep 0.3; fi'
	ab -n 5 --warmup 0 "$work/uneven"
	[ "$status" -eq 0 ]
	[[ $output == *"b  go: 5 rounds are too few to say: at least 6"* ]]
}

@test "a number of the output is compared, and its direction is said by who asks" {
	script prints <<<'if under; then echo "rate: 20$(date +%N | cut -c1) /s"; else echo "rate: 100 /s"; fi'
	ab -n 6 --warmup 0 --metric 'rate: ([0-9.]+)' --higher "$work/prints"
	[ "$status" -eq 0 ]
	grep -qE '^b  go: 2\.0.*× higher \(better\)$' <<<"$output"
	ab -n 6 --warmup 0 --metric 'rate: ([0-9.]+)' --threshold 5 "$work/prints"
	[ "$status" -eq 3 ]
	grep -qE '^b  go: 2\.0.*× higher \(worse\)$' <<<"$output"
	ab -n 6 --warmup 0 --metric 'price: ([0-9.]+)' "$work/prints"
	[ "$status" -eq 1 ]
	[[ $stderr == *"no run of a has a number that 'price: ([0-9.]+)' finds"* ]]
}

@test "who answers otherwise under heddle, by its output, its status, a signal or a hang, is named" {
	script output <<<'echo same; echo "it took $$"; if under; then echo wrong; else echo right; fi'
	ab -n 3 --warmup 1 "$work/output"
	[ "$status" -eq 1 ]
	[[ $output == *'b  go: standard output is not a'"'"'s in 3 runs, numbers aside; in round 1, line 3: "right" became "wrong"'* ]]
	script status <<<'if under && [ -e '"$work"'/measured ]; then echo "no more" >&2; exit 5; fi'
	ab -n 2 --warmup 0 "$work/status"
	[ "$status" -eq 0 ]
	touch "$work/measured"
	ab -n 2 --warmup 0 "$work/status"
	[ "$status" -eq 1 ]
	[[ $output == *"b  go: 2 of 2 runs failed: status 5"*"its last words: no more"* ]]
	script dies <<<'if under; then kill -SEGV $$; fi'
	ab -n 2 --warmup 0 "$work/dies"
	[ "$status" -eq 1 ]
	[[ $output == *"b  go: 2 of 2 runs failed: killed by signal 11 (Segmentation fault)"* ]]
	script hangs <<<'if under; then sleep 1000; fi'
	ab -n 3 --warmup 1 --timeout 5 "$work/hangs"
	[ "$status" -eq 1 ]
	[[ $output == *"b  go: its warm-up failed, and it was given up: hung, ended after 5 s"* ]]
	run ! pgrep -f "$work/hangs"
}

@test "output that differs by itself is not compared, and lines in another order are" {
	script random <<<'head -c 40 /dev/urandom | od -An -c | tr -d "\n"; date +%N%A'
	ab -n 4 --warmup 1 "$work/random"
	[ "$status" -eq 0 ]
	[[ $output == *"a  native: standard output differs from run to run: it is not compared"* ]]
	script order <<<'printf "%s\n" one two three four five six seven eight | shuf; if under; then echo more; fi'
	ab -n 6 --warmup 2 "$work/order"
	[ "$status" -eq 1 ]
	[[ $output == *'numbers and order aside; in round 1, there only: "more"'* ]]
}

@test "where a fails there is nothing to compare with" {
	ab -n 50 ls /nonexistent
	[ "$status" -eq 1 ]
	[ -z "$output" ]
	[[ $stderr == "heddle ab: a, native: its warm-up failed, and it was given up: status 2: "*"/nonexistent"* ]]
	ab -n 6 --expect 2 --warmup 0 ls /nonexistent
	[ "$status" -eq 0 ]
}

@test "mistakes: status 2, and nothing was run" {
	script marks <<<"touch $work/ran"
	for bad in "--a soup" "--b soup" "--b go,steal=three" "--b native,p=2" "--b go,cpus=7000" "-n 0" "--metric (" \
		"--timeout never" "--stdin /nonexistent" "--higher" "--threshold x" "--seed -1"; do
		ab $bad -- "$work/marks"
		[ "$status" -eq 2 ]
		[ -n "$stderr" ]
		[ -z "$output" ]
	done
	ab --b lfo "$work/marks"
	[[ $stderr == *"the policies are go, "* ]]
	ab
	[ "$status" -eq 2 ]
	ab /nonexistent/program
	[ "$status" -eq 2 ]
	[ ! -e "$work/ran" ]
}

@test "native variants need no heddle: a static program, one cpu" {
	gcc -static -O1 -x c - -o "$work/static" <<<'int main(void) { return 0; }'
	ab -n 2 --warmup 1 "$work/static"
	[ "$status" -eq 2 ]
	[[ $stderr == *"static"*"heddle cannot serve it"* ]]
	cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	ab -n 2 --warmup 1 --b "native,cpus=$cpu" "$work/static"
	[ "$status" -eq 0 ]
	script mask <<<'echo "${LD_PRELOAD:-none} $(grep Cpus_allowed_list /proc/self/status | tr -d " \t")"'
	ab -n 1 --warmup 0 --a "native,cpus=$cpu" --b "go,cpus=$cpu" --keep "$work/kept" "$work/mask"
	[ "$(cat "$work/kept/round-1-a.out")" = "none Cpus_allowed_list:$cpu" ]
	[[ $(cat "$work/kept/round-1-b.out") == *"libheddle.so Cpus_allowed_list:$cpu" ]]
}

@test "a quota of cpus, where a cgroup may be made" {
	script mine <<<'cat /proc/self/cgroup'
	ab -n 1 --warmup 0 --b native,quota=0.5 --keep "$work/kept" "$work/mine"
	[ "$status" -ne 2 ] || skip "$stderr"
	run ! grep -q heddle-ab "$work/kept/round-1-a.out"
	group=$(grep -o "heddle-ab-[^/]*" "$work/kept/round-1-b.out")
	# And it is gone.
	[ -z "$(find /sys/fs/cgroup -maxdepth 4 -name "$group" 2>/dev/null)" ]
}

@test "a variant's settings reach the program; what was in the environment does not disturb it" {
	export HEDDLE=off HEDDLE_STATS=1 HEDDLE_TRACE=$work/trace HEDDLE_SCHEDTRACE=1
	ab -n 1 --warmup 0 --b go,p=3,seed=9 --b max-threads=7 --keep "$work/kept" env
	grep -qx GOMAXPROCS=3 "$work/kept/round-1-b.out"
	grep -qx HEDDLE_SEED=9 "$work/kept/round-1-b.out"
	grep -qx HEDDLE_MAXTHREADS=7 "$work/kept/round-1-c.out"
	run ! grep -q ^HEDDLE "$work/kept/round-1-a.out"
	run ! grep -qE "^HEDDLE(_STATS|_TRACE|_SCHEDTRACE|)=" "$work/kept/round-1-b.out"
}

@test "standard input is empty or a file; what each run wrote is kept where that was asked" {
	echo "a word" >"$work/words"
	ab -n 2 --warmup 1 --stdin "$work/words" --keep "$work/kept" sh -c 'cat; echo oops >&2'
	[ "$status" -eq 0 ]
	[ "$(find "$work/kept" -type f | wc -l)" -eq 16 ]
	for f in "$work"/kept/*.out; do [ "$(cat "$f")" = "a word" ]; done
	for f in "$work"/kept/*.err; do [ "$(cat "$f")" = "oops" ]; done
	ab -n 1 --warmup 0 --keep "$work/empty" cat <"$work/words"
	[ ! -s "$work/empty/round-1-b.out" ]
}

@test "counters side by side, of warm-ups, and not a word of them in the program's output" {
	ab -n 6 --warmup 2 --b go,p=2 --keep "$work/kept" --json "$work/json" --html "$work/page.html" -- python3 -c "$threads"
	[ "$status" -eq 0 ]
	grep -qE '^wall time .* (s|ms) +[0-9.]+ (s|ms)$' <<<"$output"
	grep -qE '^created +– +[0-9]+$' <<<"$output"
	grep -qE '^wait for a P, median +– ' <<<"$output"
	[ -z "$(cat "$work"/kept/*.err)" ]
	[ "$(cat "$work"/kept/*.out | sort -u)" = "all 20" ]
	python3 - "$work/json" <<-'END'
		import json, sys
		d = json.load(open(sys.argv[1]))
		assert [a["variant"] for a in d["arms"]] == ["native", "native", "go,p=2"], d
		assert [len(a["runs"]) for a in d["arms"]] == [6, 6, 6]
		assert sorted(r["order"] for a in d["arms"] for r in a["runs"]) == list(range(1, 19))
		assert all(r["good"] and r["wall"] > 0 and r["cpu"] > 0 and r["rss"] > 1e6 for a in d["arms"] for r in a["runs"])
		counted = d["arms"][2]["counted"]
		assert len(counted) == 1 and counted[0]["created"] >= 20 and counted[0]["procs"] == 2, counted
		assert sum(w["times"] for w in counted[0]["waits"]) > 0
		assert [c["control"] for c in d["comparisons"]] == [True, False]
	END
	[ "$(grep -c '<svg' "$work/page.html")" -eq 4 ]
	run ! grep -qiE '<script|http|url\(' "$work/page.html"
	tail -n 1 "$work/page.html" | grep -q '</html>$'
	# Well-formed, as XML is, but for what HTML leaves open.
	sed -e 1d -e 's/<meta[^>]*>//g; s/<br>//g; s/<html lang="en">/<html>/' "$work/page.html" |
		python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parseString(sys.stdin.buffer.read())'
}

@test "--json - leaves standard output to it; the same seed, the same order" {
	for nth in first second; do
		ab -n 4 --warmup 0 --seed 7 --b native --json - true
		[ "$status" -eq 0 ]
		[[ $stderr == *"by seed 7;"* ]]
		python3 -c 'import json, sys
d = json.load(sys.stdin)
print([[r["order"] for r in a["runs"]] for a in d["arms"]])' <<<"$output" >"$work/$nth"
	done
	cmp "$work/first" "$work/second"
}

@test "a program that serves itself says so: the comparison is not with heddle" {
	export LD_PRELOAD=
	script says <<<'if under; then echo "heddle: runs natively: for a reason" >&2; fi'
	ab -n 2 --warmup 1 "$work/says"
	[[ $output == *"b  go: not under heddle: heddle: runs natively: for a reason"* ]]
}

@test "in a terminal: a bar with the time left; an interrupt ends the run and tells what there is" {
	command -v tmux >/dev/null || skip "no tmux"
	script waits <<<"echo \$\$ >>$work/pids; if [ \$(wc -l <$work/pids) -lt 12 ]; then sleep 0.1; else sleep 1000; fi"
	in_terminal 100 40 env PS1='$ ' bash --norc
	keys "$command ab -n 20 --warmup 1 --b native $work/waits; echo status=\$?" Enter
	until_shown "run 12 of 62, .*s left"
	twelve_ran() { [ "$(wc -l <"$work/pids")" -eq 12 ]; }
	comes twelve_ran
	keys C-c
	until_shown "status=130"
	shown | grep -q "Cut short: 20 rounds were asked for"
	shown | grep -qE "^b  native: 3 rounds are too few"
	[ -z "$(shown | grep " left")" ]
	run ! kill -0 "$(tail -n 1 "$work/pids")"
}

@test "colours and the bar: on a terminal only" {
	command -v script >/dev/null || skip "no script"
	ab -n 1 --warmup 0 --b native true
	[[ $output$stderr != *$'\033'* && $stderr != *left* ]]
	TERM=xterm command script -qec "$command ab -n 2 --warmup 0 --b native true" /dev/null </dev/null >"$work/colours"
	grep -q $'\033\[1m' "$work/colours"
	TERM=xterm NO_COLOR=1 command script -qec "$command ab -n 2 --warmup 0 --b native true" /dev/null </dev/null >"$work/plain"
	run ! grep -q $'\033\[1m' "$work/plain"
}
