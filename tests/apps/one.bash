#!/usr/bin/env bash
# One run of one program of the matrix: one.bash NAME native|heddle DIRECTORY. Its last line is "took SECONDS"; a
# failure is an exit status. one.bash --list: every NAME, a tab, what is looked at. one.bash --packages NAME...: what
# they need and is not there. The directory is new; run.py watches the processes that .pids there names, and reads
# the counters in .stats.
set -Eeuo pipefail
here=$(cd "$(dirname "$0")" && pwd)
BATS_TEST_TMPDIR=${3:-/nowhere} BATS_FILE_TMPDIR=${APPS_CACHE:-}
source "$here/../../bats/common.bash"
source "$here/../../bats/servers.bash"
source "$here/lib.bash"
for f in "$here"/programs/*.bash; do source "$f"; done
case $1 in
--list)
	for n in "${names[@]}"; do printf '%s\t%s\n' "$n" "${what_of[$n]}"; done
	exit
	;;
--packages)
	# Those of which there is no command of that name already, from wherever.
	for n in "${@:2}"; do
		for p in ${packages_of[$n]-}; do command -v "$p" >/dev/null || echo "$p"; done
	done | sort -u
	exit
	;;
esac
name=$1
run=$3
cache=$APPS_CACHE
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
preload=()
[ "$2" = native ] || preload=("GOMAXPROCS=${APPS_PROCS:-2}" "LD_PRELOAD=$heddle" "HEDDLE_STATS=$run/.stats")
begun=
trap 'for p in $begun; do kill -KILL -- "-$p" 2>/dev/null || true; done' EXIT
trap 'echo "failed: $BASH_COMMAND"' ERR
cd "$run"
"app_${name//-/_}"
awk '{ t += $2 - $1 } END { printf "took %.4f\n", t }' "$run/.took"
