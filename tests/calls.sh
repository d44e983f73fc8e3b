#!/usr/bin/env bash
# What interpose/calls.def says of each call, told to others.
# Usage: calls.sh table   the README's table of roads
#        calls.sh write   puts it there
#        calls.sh check   is it there, and has every point of cancellation a row that may end?
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
def=interpose/calls.def

# "name road" of each call. A second name is left out: it goes the way of the first. That it may be
# made again is its own business.
rows() {
	sed -nE 's/^(CALL|PLAIN)\(.*[,*] *([A-Za-z_0-9]+), \(.*, ([A-Z| ]+)\)$/\2 \3/p' $def | sed 's/ | AGAIN//'
}

table() {
	echo "| road | calls |"
	echo "|---|---|"
	while IFS=';' read -r road means; do
		echo "| $means | $(rows | awk -v road="$road" '
			{ name = $1; $1 = ""; sub(/^ /, "") }
			$0 == road && name !~ /^_/ { printf "%s%s", sep, name; sep = ", " }') |"
	done <<-END
		PARKS;parks: the thread sleeps, its kernel thread goes on
		HANDS;announced: its kernel thread may block, and hands its P to others
		ENDS;announced, and a point of cancellation
		LASTS;announced, and taken to block from the first: its P goes to others at once
		ENDS | LASTS;the same, and a point of cancellation
		ENDS | REAPS;announced, a point of cancellation; signals of a child come before its end
		SPAWNS;announced, and makes a process
		ENDS | SPAWNS;announced, makes a process, a point of cancellation
		WAKES;may make others runnable
		LOCAL;answered at once
		NEVER;does not come back
	END
}

# POSIX.1-2017, 2.9.5.2, those that shall be; and what 2024 added.
points="accept aio_suspend clock_nanosleep close connect creat fcntl fdatasync fsync lockf
	mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open openat
	pause poll pread pselect pthread_cond_timedwait pthread_cond_wait pthread_join
	pthread_testcancel pwrite read readv recv recvfrom recvmsg select sem_timedwait sem_wait
	send sendmsg sendto __xpg_sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep system
	tcdrain wait waitid waitpid write writev accept4 cnd_timedwait cnd_wait ppoll
	pthread_cond_clockwait sem_clockwait thrd_join thrd_sleep usleep"

check() {
	local all name
	all=$(rows)
	for name in $points; do
		# One that only looks is named in full.
		grep -qE "^$name (PARKS|ENDS|.*ENDS.*)$|^pthread_testcancel LOCAL$" \
			<(grep "^$name " <<<"$all") || echo "$name: no row of calls.def that may end"
	done
	diff <(table) <(sed -n '/^<!-- roads -->$/,/^<!-- end -->$/p' README.md | sed '1d;$d') >/dev/null ||
		echo "README.md: its table of roads is not that of calls.def: tests/calls.sh write"
}

case "${1:-}" in
table) table ;;
check) check ;;
write)
	table >build/roads.md
	sed -i -e '/^<!-- roads -->$/,/^<!-- end -->$/{/^<!--/!d}' -e '/^<!-- roads -->$/r build/roads.md' README.md
	;;
*) sed -n '2,/^set/p' "$0" ;;
esac
