#!/usr/bin/env bash
# Hours of the core's tests with fresh seeds, every GOMAXPROCS, and stress-ng beside them.
# soak.sh BUILD; $HEDDLE_SOAK_SECONDS says how long (an hour). A failure prints its seed and
# the command that repeats it, and is kept in BUILD/soak/.
set -u
build=${1:-build}
seconds=${HEDDLE_SOAK_SECONDS:-3600}
mkdir -p "$build/soak"
export HEDDLE_STRESS_SECONDS=${HEDDLE_STRESS_SECONDS:-20} HEDDLE_TEST_SLOW=10
passed=0
failed=0
end=$((SECONDS + seconds))
round=0
while [ $SECONDS -lt $end ]; do
	for variant in debug release; do
		for test in "$build/$variant"/tests/core/*_test; do
			[ $SECONDS -lt $end ] || break 2
			HEDDLE_SEED=$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')
			HEDDLE_DEBUG=$((1 + round % 2))
			export HEDDLE_SEED HEDDLE_DEBUG
			noise=
			if [ $((round % 3)) -eq 2 ] && command -v stress-ng >/dev/null; then
				stress-ng --cpu 2 --quiet &
				noise=$!
			fi
			log=$build/soak/$round-$(basename "$test")-$variant
			if "$test" >"$log" 2>&1; then
				passed=$((passed + 1))
				rm -f "$log"
			else
				failed=$((failed + 1))
				echo "not ok $test: HEDDLE_SEED=$HEDDLE_SEED HEDDLE_DEBUG=$HEDDLE_DEBUG, see $log"
				grep -a -A1 '^not ok' "$log"
			fi
			[ -z "$noise" ] || { kill "$noise"; wait "$noise" 2>/dev/null; }
		done
	done
	round=$((round + 1))
done
echo "soak: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
