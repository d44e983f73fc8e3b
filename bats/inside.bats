#!/usr/bin/env bats
# Looking into a process that runs: ps and stats; and who may not.
load common
load inside
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_watched
}

@test "ps shows a process with its threads" {
	fifty
	run "$command" ps
	[ "$status" -eq 0 ]
	read -r _ procs threads kernel _ name < <(grep "^ *$pid " <<<"$output")
	[ "$procs" -eq 2 ]
	[ "$threads" -eq 51 ]
	# One for each P, the monitor, the starter; and one for each thread that the kernel lets wait, for memory, at one time.
	[ "$kernel" -le 12 ]
	[[ $name == *python3* ]]
}

@test "stats: for people, as JSON and for Prometheus, with the same numbers" {
	fifty
	run "$command" stats "$pid"
	[ "$status" -eq 0 ]
	[[ $output =~ "51  threads of the program" ]]
	"$command" stats "$pid" --json >"$work/json"
	"$command" stats --prometheus "$pid" >"$work/prometheus"
	python3 - "$work/json" "$work/prometheus" "$pid" <<-'END'
		import json, re, sys
		j = json.load(open(sys.argv[1]))
		assert j["pid"] == int(sys.argv[3]), j
		assert j["threads"] == 51 and j["procs"] == 2, j
		assert sum(j["states"].values()) == 51, j
		assert j["counters"]["created"] >= 51, j
		samples, types = {}, {}
		for line in open(sys.argv[2]):
		    if line.startswith("# TYPE "):
		        types[line.split()[2]] = line.split()[3]
		    elif not line.startswith("#"):
		        m = re.fullmatch(r'(heddle_[a-z0-9_]+)\{pid="\d+"(?:,state="[^"]*")?\} (\d+)\n', line)
		        assert m and m[1] in types, line
		        samples[m[1]] = int(m[2])
		for name, n in j["counters"].items():
		    assert types["heddle_" + name + "_total"] == "counter"
		assert samples["heddle_created_total"] == j["counters"]["created"]
		assert samples["heddle_threads"] == 51
	END
}

@test "a stopped process is seen like any other" {
	fifty
	kill -STOP "$pid"
	run "$command" stats "$pid" --json
	kill -CONT "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *'"threads": 51'* ]]
}

@test "another user's process is refused" {
	[ "$(id -u)" -eq 0 ] || skip "it takes root to be another"
	fifty
	run as_nobody stats "$pid"
	[ "$status" -eq 1 ]
	[[ $output == *"you may not look"* ]]
	run as_nobody ps
	[ "$status" -eq 1 ]
	[[ $output != *"$pid "* ]]
}

@test "what is not there, has ended or is not heddle's is said in a line" {
	run "$command" stats 999999999
	[ "$status" -eq 1 ]
	[[ $output == *"no such process"* ]]
	run "$command" stats $$
	[ "$status" -eq 1 ]
	[[ $output == *"does not serve"* ]]
	LD_PRELOAD=$heddle sleep 100 3>&- &
	pid=$!
	disown
	comes "$pid" has "/proc/$pid/maps" libheddle
	run "$command" stats "$pid"
	[ "$status" -eq 1 ]
	[[ $output == *"made no thread"* ]]
	run "$command" stats
	[ "$status" -eq 2 ]
	run "$command" stats many
	[ "$status" -eq 2 ]
}

@test "a process that is killed meanwhile ends the look, not the one who looks" {
	for i in 1 2 3 4 5; do
		fifty
		(sleep 0.0$i; kill -KILL "$pid") 3>&- &
		for j in $(seq 20); do
			run "$command" stats "$pid" --json
			[ "$status" -le 1 ]
		done
		ended "$pid"
	done
}

@test "a mistaken option or subcommand is answered with the nearest" {
	run "$command" stats --jsn 1
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean --json?"* ]]
	run "$command" --proc 2 true
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean --procs?"* ]]
	run -127 "$command" stast 12
	[[ $output == *"did you mean heddle stats?"* ]]
	for sub in run ps top stats dump ctl trace doctor; do
		run "$command" $sub --help
		[ "$status" -eq 0 ]
		[[ ${lines[0]} == "usage: heddle $sub"* ]]
		run "$command" $sub --version
		[ "$status" -eq 0 ]
		[[ $output == "heddle "* ]]
	done
}
