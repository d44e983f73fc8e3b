#!/usr/bin/env bash
# Hours of everything, in an order by lot: the core's tests, the preloaded conformance programs, storms above all, the
# real programs of `make apps` that are installed, and, where there is the memory, a million threads at once. Each time
# with a fresh seed, some GOMAXPROCS, some policy (every other time Go's), and every third time stress-ng beside it.
# soak.sh BUILD [WORD...]: only what has one of the words in its name; $HEDDLE_SOAK_SECONDS says how long (an hour). A
# failure prints the command that repeats it, and its output is kept in BUILD/soak/.
set -u
. "$(dirname "$0")/../bats/few.bash"
build=$(realpath "${1:-build}")
words=$(IFS="|"; echo "${*:2}")
seconds=${HEDDLE_SOAK_SECONDS:-3600}
mkdir -p "$build/soak" "$build/apps"
export HEDDLE_STRESS_SECONDS=${HEDDLE_STRESS_SECONDS:-20} HEDDLE_TEST_SLOW=10
export STORM_SECONDS=${STORM_SECONDS:-60} APPS_CACHE=$build/apps APPS_SLOW=5
# It takes 13 GiB.
million_needs=18
free=$(awk '$1 == "MemAvailable:" { print int($2 / 1024 / 1024) }' /proc/meminfo)
million="not begun"
[ "$free" -ge "$million_needs" ] || million="skipped: $free GiB free, where $million_needs are wanted"
passed=0
failed=0
end=$((SECONDS + seconds))
tries=0
policies=(fifo lifo random cfs pct:depth=3 chaos rr,slice=1ms go,steal=one,runnext=off go,grq=3,local=8
	go,yield=global,slice=1ms go,spin=off,steal=off)

# jobs: KIND VARIANT PROGRAM of all that there is.
jobs() {
	local variant program
	for variant in debug release; do
		printf "core $variant %s\n" "$build/$variant"/tests/core/*_test
		printf "preloaded $variant %s\n" "$build"/conformance/*_test
	done
	# Storms come more often.
	for _ in 1 2 3 4 5 6; do
		printf 'preloaded debug %s\npreloaded release %s\n' "$build"/conformance/storm_test{,}
	done
	[ "$free" -lt "$million_needs" ] || echo "million release $build/bench/parked"
	bash tests/apps/one.bash --list | while IFS=$'\t' read -r program _; do
		[ -n "$(bash tests/apps/one.bash --packages "$program")" ] || echo "app release $program"
	done
}

any() {
	shift $((RANDOM % $#))
	echo "$1"
}

# try NAME SETTING... COMMAND...: an env command, as it is printed if it fails.
try() {
	local name=$1 log=$build/soak/$tries-$1 noise=
	shift
	tries=$((tries + 1))
	if [ $((tries % 3)) -eq 0 ] && command -v stress-ng >/dev/null; then
		stress-ng --cpu 2 --quiet &
		noise=$!
	fi
	# The tests have limits of their own: of 20 s each the storms alone are 20 minutes.
	if timeout -k 10 3600 env "$@" >"$log" 2>&1; then
		passed=$((passed + 1))
		rm -f "$log"
	else
		failed=$((failed + 1))
		echo "not ok $name: env $*${noise:+ (beside stress-ng --cpu 2)}, see $log"
		grep -a -A1 -e '^not ok' -e '^failed:' "$log"
	fi
	[ -z "$noise" ] || { kill "$noise"; wait "$noise" 2>/dev/null; }
}

# few_enough SETTING FILE: of the million there, no more kernel threads than one for each P, three, and one for each call in
# which the kernel kept a thread, for memory, while others could run; of those a few at once.
few_enough() {
	local procs threads most gave room
	procs=$(figure procs "$2")
	threads=$(figure threads "$2")
	most=$(figure kernelthreads "$2")
	gave=$(($(figure retakecall "$2") + $(figure retakeblock "$2")))
	room=$((gave < 20 ? gave : 20))
	million="${threads:-0} at once on ${most:-?} kernel threads ($1)"
	if [ "${threads:-0}" -gt 1000000 ] && [ "$most" -le $((procs + 3 + room)) ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok million-of-threads: $million"
	fi
}

# one KIND VARIANT PROGRAM
one() {
	local library=$build/libheddle.so name settings where
	name=$(basename "$3")-$2
	settings=("HEDDLE_SEED=$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')" "HEDDLE_DEBUG=$(any 1 2)")
	[ "$2" = release ] || library=$build/$2/libheddle.so
	[ "$1" = core ] || [ $((RANDOM % 2)) -eq 0 ] || settings+=("HEDDLE_POLICY=$(any "${policies[@]}")")
	case $1 in
	core) try "$name" "${settings[@]}" "$3" ;;
	preloaded) try "$name" "${settings[@]}" "GOMAXPROCS=$(any 1 2 3 8)" "LD_PRELOAD=$library" "$3" ;;
	million)
		settings=("GOMAXPROCS=$(any 1 2 8)" "HEDDLE_STATS=$build/soak/million")
		rm -f "$build/soak/million"
		try "million-of-threads" "${settings[@]}" "LD_PRELOAD=$library" "$3" memory 1000000
		million="nothing was counted"
		[ ! -e "$build/soak/million" ] || few_enough "${settings[0]}" "$build/soak/million"
		;;
	app)
		where=$(mktemp -d)
		chmod 755 "$where"
		try "$name" "${settings[@]}" "APPS_PROCS=$(any 1 2 3 8)" bash tests/apps/one.bash "$3" heddle "$where"
		rm -rf "$where"
		;;
	esac
}

mapfile -t all < <(jobs | grep -E "$words")
[ ${#all[@]} -gt 0 ] || { echo "soak: nothing has $words in its name"; exit 1; }
while [ $SECONDS -lt $end ]; do
	while read -r kind variant program && [ $SECONDS -lt $end ]; do
		one "$kind" "$variant" "$program" </dev/null
	done < <(printf '%s\n' "${all[@]}" | shuf)
done
echo "soak: the million threads: $million"
echo "soak: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
