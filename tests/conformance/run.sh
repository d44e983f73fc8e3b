#!/usr/bin/env bash
# Conformance tests: the same assertions natively and under the preload.
# Usage: run.sh BUILD PROGRAM...
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
	elif [ "$f" -ne 0 ] || grep -q '^heddle:' <<<"$log"; then
		echo "$how: $p passed, $f failed"
		grep -v '^ok ' <<<"$log"
		[ "$f" -ne 0 ] || f=1
	fi
	passed=$((passed + p))
	failed=$((failed + f))
}
for program; do
	name=$(basename "$program")
	run "$name natively" "$program"
	for procs in 1 2 8; do
		run "$name at GOMAXPROCS=$procs" env GOMAXPROCS=$procs \
			LD_PRELOAD="$PWD/$build/libheddle.so" "$program"
	done
done
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
