#!/usr/bin/env bash
# A stranger's first five minutes: in a fresh root of Debian's, with a copy of the tree and nothing else, each command line
# of README.md is run as it stands there. What stands for something of the reader's (PID, PROGRAM, ./program) is given
# it; of a line that would take long only a part is run, which is said, or all with $HEDDLE_STRANGER=whole. A
# line that this file does not know fails. See roots.sh. Usage: stranger.sh BUILD SUITE
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
name=check-stranger
# A stranger has none of ours in his environment.
whole=${HEDDLE_STRANGER:-}
unset HEDDLE_STRANGER
passed=0
failed=0

# README's indented lines: of a list each, of a session those behind "$ ", whose output follows them there.
lines() {
	awk '
		/^    / { line = substr($0, 5); if (!block) session = line ~ /^\$ /; block = 1
			if (!session || sub(/^\$ /, "", line)) print line
			next }
		/./ { block = 0 }' README.md
}

# expect STATUS LINE COMMAND: run by bash, as the reader's shell would.
expect() {
	local start=$SECONDS status
	bash -c "$3" >/tmp/said 2>&1 </dev/null
	status=$?
	if [ "$status" -eq "$1" ]; then
		passed=$((passed + 1))
		echo "ok $2 ($((SECONDS - start)) s)"
	else
		failed=$((failed + 1))
		echo "not ok $2: status $status, not $1"
		grep -A 4 '^not ok' /tmp/said | sed 's/^/  /'
		tail -n 30 /tmp/said | sed 's/^/  /'
	fi
}

# says LINE TEXT...: what the last one said has each of them.
says() {
	local line=$1 text
	shift
	for text; do
		if grep -qF -- "$text" /tmp/said; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "not ok $line: it does not say '$text'"
			tail -n 30 /tmp/said | sed 's/^/  /'
		fi
	done
}

# partly LINE COMMAND: all of a line that takes long, or that.
partly() {
	if [ "$whole" = whole ]; then
		expect 0 "$1" "$1"
	else
		expect 0 "$1 (only: $2)" "$2"
	fi
}

# What the README speaks of and does not give.
bank() {
	cat >bank.c <<-'C'
		#include <pthread.h>
		#include <unistd.h>
		static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
		static pthread_barrier_t both;
		static void *pay(void *arg)
		{
			pthread_setname_np(pthread_self(), "pay");
			pthread_mutex_lock(&a);
			pthread_barrier_wait(&both);
			pthread_mutex_lock(&b);
			return arg;
		}
		static void *audit(void *arg)
		{
			pthread_setname_np(pthread_self(), "audit");
			pthread_mutex_lock(&b);
			pthread_barrier_wait(&both);
			pthread_mutex_lock(&a);
			return arg;
		}
		static void *idle(void *arg)
		{
			sleep(1000);
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t[2], sleeper;
			pthread_barrier_init(&both, NULL, 2);
			pthread_create(&t[0], NULL, pay, argv);
			pthread_create(&t[1], NULL, audit, argv);
			for (int i = 0; argc > 1 && i < 20; i++)
				pthread_create(&sleeper, NULL, idle, argv);
			return pthread_join(t[0], NULL);
		}
	C
	gcc -O1 -pthread -D_GNU_SOURCE -o bank bank.c
}

# A process to be looked into: sets pid.
running() {
	LD_PRELOAD=$PWD/build/libheddle.so ./bank with sleepers &
	pid=$!
	until grep -q memfd:heddle "/proc/$pid/maps" && heddle dump "$pid" | grep -q ^Deadlock; do
		kill -0 "$pid" || return
		sleep 0.05
	done
}

try() {
	local line=$1 command
	# A comment, or what stands beside a command.
	command=$(sed -E 's/ +# .*//; s/(^heddle .*[^ ])  +.*/\1/' <<<"$line")
	case $command in
	"make demo")
		expect 0 "$command" "$command"
		says "$command" "python3 with 501 threads: 501 kernel threads"
		cp /tmp/said /tmp/demo
		expect 0 "$command: few under heddle" "grep -E '501 threads: [2-6] kernel threads' /tmp/demo"
		;;
	"apt-get update && apt-get install make") expect 0 "$command" "$command" ;;
	make) expect 0 "$command" "$command" ;;
	"make install") expect 0 "$command" "$command" ;;
	"make deb")
		expect 0 "what that needs" "apt-get install -y dpkg-dev"
		expect 0 "$command" "$command"
		;;
	"make check") expect 0 "$command" "$command" ;;
	"make check-core") partly "$command" "make check-core TESTS=runq_test" ;;
	"make check-threads") partly "$command" "make check-threads ONLY=mutex_test" ;;
	"make check-traced") partly "$command" 'make check-traced CONFORMANCE="build/conformance/mutex_test"' ;;
	"make check-command") expect 0 "$command" "$command" ;;
	"make check-shape") expect 0 "$command" "$command" ;;
	"make check-bats") partly "$command" "bash tests/bats.sh bats/command.bats bats/install.bats" ;;
	"make model") partly "$command" "MODEL=park bash tests/model/spin/run.sh" ;;
	"make lint") expect 0 "$command" "$command" ;;
	"make bench") partly "$command" 'make bench ROWS="mutex pipe" RUNS=1' ;;
	"make apps") partly "$command" 'make apps ROWS="pigz xz" RUNS=1' ;;
	"make bench-cost") partly "$command" "make bench-cost PAIRS=2 WORDS=yield-2" ;;
	"make soak") partly "$command" "HEDDLE_SOAK_SECONDS=20 HEDDLE_STRESS_SECONDS=2 STORM_SECONDS=5 make soak" ;;
	"make check-ab" | "make check-explore") echo "left out: $command, which wants a quiet machine" ;;
	"make check-deb" | "make check-stranger") echo "left out: $command, which makes roots itself" ;;
	*./program*)
		ln -sf "$(command -v python3)" program
		echo 'import threading; t = threading.Thread(target=print, args="x"); t.start(); t.join()' >arguments…
		expect 0 "$command" "$command"
		;;
	"heddle ps")
		expect 0 "$command" "$command"
		says "$command" "$pid"
		;;
	"heddle top [PID]" | "heddle stats PID" | "heddle dump PID" | "heddle ctl PID procs=4")
		expect 0 "$command" "$(sed -E "s/\[?PID\]?/$pid/" <<<"$command")"
		;;
	"heddle dump "[0-9]*)
		expect 0 "$command" "heddle dump $pid"
		says "$command" '"pay"' '"audit"' "held by G" "20 threads" "Deadlock: G"
		;;
	"heddle run --stats PROGRAM") expect 0 "$command" "heddle run --stats pigz -V" ;;
	"heddle run --deadlock=abort ./bank")
		expect 134 "$command" "$command"
		says "$command" "all threads are asleep - deadlock!" "Deadlock: G"
		;;
	"heddle run --trace t.json PROGRAM") expect 0 "$command" "heddle run --trace t.json pigz -c README.md" ;;
	"heddle trace summarize t.json")
		expect 0 "$command" "$command"
		says "$command" "Longest waits for a cpu"
		;;
	"heddle run --policy ./mine.so PROGRAM")
		expect 0 "one of the three" "gcc -shared -fPIC -O2 -Icore -o mine.so tests/policy/byname.c"
		expect 0 "$command" "heddle run --policy ./mine.so pigz -c README.md"
		;;
	"heddle run"*" PROGRAM") expect 0 "$command" "${command/PROGRAM/pigz -c README.md}" ;;
	"heddle explore -- ./bank")
		expect 0 "one that seldom fails" "mkdir seldom && sed 's/pthread_barrier_wait/(void)/' bank.c >seldom/bank.c && gcc -pthread -D_GNU_SOURCE -o seldom/bank seldom/bank.c"
		expect 1 "$command" "cd seldom && $command"
		says "$command" "deadlock: all its threads wait for each other" "20 of 20 runs of that do the same"
		;;
	"heddle run -p 2 --stats pigz "*)
		head -c 60000000 /dev/urandom >big
		expect 0 "$command" "$command"
		says "$command" "threads         " "kernel threads  " "wait for a cpu  "
		;;
	"heddle ab -n 12 "*)
		head -c 4000000 /dev/urandom >big
		expect 0 "$command" "$command"
		says "$command" "b  go: " "c  go,p=1: " "Control, a again" "wait for a P, median"
		;;
	"GOMAXPROCS=2 heddle ab "*PROGRAM)
		head -c 1000000 /dev/urandom >small
		expect 0 "$command" "${command/PROGRAM/pigz -c small}"
		;;
	"info gs"* | "g N bt, g all bt"* | "heddle-gcore FILE"*)
		command=$(sed -E 's/   +.*//; s/, g all/\ng all/; s/\bN\b/1/; s/FILE/cores/' <<<"$command")
		mapfile -t words < <(sed "s/.*/-ex\n&/" <<<"$command")
		expect 0 "in gdb: $line" "gdb -batch -x shim/gdb/heddle.py -p $pid ${words[*]@Q}"
		;;
	[a-z]*/*" "*) expect 0 "there is ${command%% *}" "ls -d ${command%% *}" ;;
	" "*) ;; # goes on from the line before
	*)
		failed=$((failed + 1))
		echo "not ok README.md has a line that nobody tries: $line"
		;;
	esac
}

# In the root. What a line needs that comes later in the README is got before; the rest in its order.
inside_root() {
	local first="apt-get update && apt-get install make" line
	try "$first"
	try "make demo"
	bank && make -s install && apt-get install -y --no-install-recommends gdb pigz >/dev/null && running || exit 1
	trap 'kill -KILL "$pid"' EXIT
	while IFS= read -r line; do
		[ "$line" = "$first" ] || [[ $line == "make demo "* ]] || try "$line"
	done < <(lines)
	[ "$passed" -ge 30 ] || failed=$((failed + 1))
	echo "stranger: $passed passed, $failed failed"
	[ "$failed" -eq 0 ]
}

if [ "${1:-}" = inside ]; then
	inside_root
	exit
fi
cache=$PWD/$1/roots
. tests/roots.sh
make_root "$2" "$2" "" || give_up "$(why_not "$2")"
fresh=$cache/$2.stranger
trap 'rm -rf "$fresh"' EXIT
rm -rf "$fresh"
cp -a "$cache/$2" "$fresh" || give_up "no room for a root"
copy_tree "$fresh"
inside "$fresh" "cd /heddle && HEDDLE_STRANGER=$whole env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS bash tests/stranger.sh inside"
