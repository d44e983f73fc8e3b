#!/usr/bin/env bash
# Conformance tests: the same assertions natively and under the preload.
# Usage: run.sh BUILD PROGRAM... With $TRACED, a folder that is made, under the preload only, with a trace of each process
# there, which must be one.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1
shift
passed=0
failed=0
run() { # how command...
	local how=$1 log p f
	shift
	log=$("$@" 2>&1)
	read -r p _ f _ <<<"$(grep -oE '[0-9]+ passed, [0-9]+ failed$' <<<"$log" | tail -n 1)"
	if [ -z "${p:-}" ] || [ "$((p + f))" -eq 0 ]; then
		echo "not ok $how: counted nothing"
		echo "$log" | tail -n 5
		p=0 f=1
	elif [ "$f" -ne 0 ] || grep '^heddle:' <<<"$log" | grep -Eqv "has reached its limit|loader's list is locked"; then
		echo "$how: $p passed, $f failed"
		grep -v '^ok ' <<<"$log"
		[ "$f" -ne 0 ] || f=1
	fi
	passed=$((passed + p))
	failed=$((failed + f))
}
# traced FOLDER: tests end processes by signals, so that a trace may lack its end.
traced() {
	local f wrong=0
	for f in "$1"/*; do
		if ! python3 bats/trace.py --killed "$f" >/dev/null 2>"$1.said"; then
			echo "not ok $f: $(tail -n 1 "$1.said")"
			wrong=1
		fi
	done
	if [ "$wrong" -eq 0 ] && [ -e "$f" ]; then
		passed=$((passed + 1))
		rm -r "$1"
	else
		failed=$((failed + 1))
	fi
}
for program; do
	name=$(basename "$program")
	if [ -n "${TRACED:-}" ]; then
		for procs in 1 2 8; do
			folder=$TRACED/$name.$procs
			mkdir -p "$folder" && chmod 1777 "$folder"
			run "$name at GOMAXPROCS=$procs, traced" env GOMAXPROCS=$procs HEDDLE_TRACE="$folder/t" \
				HEDDLE_TRACE_LIMIT=2M LD_PRELOAD="$PWD/$build/libheddle.so" "$program"
			traced "$folder"
		done
		continue
	fi
	run "$name natively" "$program"
	for procs in 1 2 8; do
		run "$name at GOMAXPROCS=$procs" env GOMAXPROCS=$procs \
			LD_PRELOAD="$PWD/$build/libheddle.so" "$program"
	done
done
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
