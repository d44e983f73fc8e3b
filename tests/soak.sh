#!/usr/bin/env bash
# Hours of the core's tests and of the preloaded conformance programs, storms above all, with fresh
# seeds, every GOMAXPROCS, and stress-ng beside them. soak.sh BUILD; $HEDDLE_SOAK_SECONDS says how
# long (an hour). A failure prints its seed and the command that repeats it, and is kept in
# BUILD/soak/.
set -u
build=${1:-build}
seconds=${HEDDLE_SOAK_SECONDS:-3600}
mkdir -p "$build/soak"
export HEDDLE_STRESS_SECONDS=${HEDDLE_STRESS_SECONDS:-20} HEDDLE_TEST_SLOW=10
export STORM_SECONDS=${STORM_SECONDS:-60}
passed=0
failed=0
end=$((SECONDS + seconds))
round=0

# try NAME COMMAND...: once, in every third round beside a load.
try() {
	local name=$1 log=$build/soak/$round-$1 noise=
	shift
	if [ $((round % 3)) -eq 2 ] && command -v stress-ng >/dev/null; then
		stress-ng --cpu 2 --quiet &
		noise=$!
	fi
	HEDDLE_SEED=$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')
	HEDDLE_DEBUG=$((1 + round % 2))
	export HEDDLE_SEED HEDDLE_DEBUG
	if "$@" >"$log" 2>&1; then
		passed=$((passed + 1))
		rm -f "$log"
	else
		failed=$((failed + 1))
		echo "not ok $name: HEDDLE_SEED=$HEDDLE_SEED HEDDLE_DEBUG=$HEDDLE_DEBUG $*, see $log"
		grep -a -A1 '^not ok' "$log"
	fi
	[ -z "$noise" ] || { kill "$noise"; wait "$noise" 2>/dev/null; }
}

# preloaded PROGRAM VARIANT
preloaded() {
	local library=$PWD/$build/libheddle.so procs=(1 2 3 8)
	[ "$2" = release ] || library=$PWD/$build/$2/libheddle.so
	try "$(basename "$1")-$2" env GOMAXPROCS="${procs[RANDOM % 4]}" LD_PRELOAD="$library" "$1"
}

while [ $SECONDS -lt $end ]; do
	for variant in debug release; do
		for test in "$build/$variant"/tests/core/*_test; do
			[ $SECONDS -lt $end ] || break 3
			try "$(basename "$test")-$variant" "$test"
		done
		for program in "$build"/conformance/*_test; do
			[ $SECONDS -lt $end ] || break 3
			preloaded "$program" $variant
		done
	done
	round=$((round + 1))
done
echo "soak: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
