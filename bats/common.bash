# What every file of promises needs. The object under test: build/libheddle.so.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
heddle=$top/build/libheddle.so
work=$BATS_TEST_TMPDIR

# preloaded PROCS command...: its output and status, under heddle.
preloaded() {
	local procs=$1
	shift
	GOMAXPROCS=$procs LD_PRELOAD=$heddle "$@"
}

# build NAME < source: a C program, $work/NAME, which may have the headers that are here.
build() {
	gcc -O1 -pthread -x c - -o "$work/$1" -D_GNU_SOURCE -I"$top/bats"
}

# comes [PID] COMMAND...: until it succeeds, of what no event tells a shell. False if that process ends before, or after
# minutes. NOT: that it fails.
comes() {
	local lives=$$ tries=6000
	if [[ $1 =~ ^[0-9]+$ ]]; then
		lives=$1
		shift
	fi
	until "$@"; do
		kill -0 "$lives" && ((tries-- > 0)) || return 1
		sleep 0.02
	done
}
NOT() { ! "$@"; }

# has FILE TEXT: a line of it.
has() { grep -q -- "$2" "$1" 2>/dev/null; }

# gone TEXT: until no process has it in its command line. Who was killed is there until it has had the cpu once more.
gone() { comes NOT pgrep -f -- "$1" >/dev/null || { pgrep -af -- "$1"; false; }; }

# ended PID: until that process, whosever child it is, has ended.
ended() {
	python3 -c 'import os, select, sys
try:
    select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
except ProcessLookupError:
    pass' "$1"
}

# until_said TEXT FILE: until the process pid has written a line with that there; false if it ends before. Its shell may
# not have made the file yet.
until_said() { : >>"$2" && grep -q -- "$1" < <(exec tail -c +1 -s 0.05 --pid="$pid" -f -- "$2" 2>/dev/null 3>&-); }

# threads_of PID: how many kernel threads it has.
threads_of() {
	awk '/^Threads:/ { print $2 }' "/proc/$1/status"
}

# listens PATH: true if somebody does, at that socket. It is there before, from when it is given its name.
listens() {
	awk -v path="$1" '$4 == "00010000" && $8 == path { found = 1 } END { exit !found }' /proc/net/unix
}
