#!/usr/bin/env bash
# The conformance tests under other glibcs: in a root of its own for each suite of Debian's,
# the tree is built and check-threads run. The roots are cached below BUILD/glibc (about
# 400 MB each); remove one to have it made anew. Needs root, for chroot, and the network once.
# Usage: glibc.sh BUILD SUITE...; $ONLY is passed on to the tests, $HEDDLE_MIRROR is the archive,
# $HEDDLE_APTOPT an option of apt's (for a frozen archive: 'Acquire::Check-Valid-Until "false"').
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
cache=$PWD/$1/glibc
shift
mirror=${HEDDLE_MIRROR:-http://deb.debian.org/debian}
passed=0
failed=0
give_up() {
	echo "check-glibc: $1"
	echo "check-glibc: 0 passed, 1 failed"
	exit 1
}

[ "$(id -u)" = 0 ] || give_up "needs root, for chroot"
mkdir -p "$cache" || exit 1
if ! command -v mmdebstrap >/dev/null; then
	{ apt-get update && apt-get install -y --no-install-recommends mmdebstrap; } \
		>"$cache/apt.log" 2>&1 || give_up "cannot install mmdebstrap (no network?); see $cache/apt.log"
fi

# make_root SUITE: made beside its place and moved there when whole.
make_root() {
	local root=$cache/$1
	[ -d "$root" ] && return
	rm -rf "$root.new"
	mmdebstrap --variant=apt --include=gcc,libc6-dev,make \
		${HEDDLE_APTOPT:+"--aptopt=$HEDDLE_APTOPT"} \
		"$1" "$root.new" "$mirror" >"$root.log" 2>&1 && mv "$root.new" "$root"
}

# inside ROOT COMMAND: in mounts of its own, which go with it.
inside() {
	unshare --mount --propagation private bash -c '
		root=$1
		for dir in proc sys dev dev/pts; do
			[ -d "/$dir" ] && mount --bind "/$dir" "$root/$dir" || exit 1
		done
		mount -t tmpfs tmpfs "$root/dev/shm" && mount -t tmpfs tmpfs "$root/tmp" || exit 1
		exec chroot "$root" /bin/bash -c "$2"
	' inside "$1" "$2"
}

for suite in "$@"; do
	root=$cache/$suite
	log=$cache/$suite.log
	if ! make_root "$suite"; then
		rm -rf "$root.new"
		echo "not ok $suite: no root was made (no network?): $(grep -m 1 '^E: ' "$log")"
		failed=$((failed + 1))
		continue
	fi
	rm -rf "$root/heddle"
	mkdir "$root/heddle"
	tar --exclude=./build --exclude=./.git -cf - . | tar -C "$root/heddle" --no-same-owner -xf -
	grep -q localhost "$root/etc/hosts" 2>/dev/null || echo "127.0.0.1 localhost" >>"$root/etc/hosts"
	version=$(chroot "$root" dpkg-query -W -f '${Version}' libc6)
	compiler=$(chroot "$root" gcc -dumpfullversion)
	inside "$root" "cd /heddle && ONLY='${ONLY:-}' make -s check-threads" >"$log" 2>&1
	read -r p _ f _ <<<"$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)"
	if [ -z "${p:-}" ] || [ "$((p + f))" -eq 0 ]; then
		echo "not ok $suite (glibc $version, gcc $compiler): counted nothing; see $log"
		grep -m 3 -iE 'error|not ' "$log"
		p=0 f=1
	else
		echo "$suite (glibc $version, gcc $compiler): $p passed, $f failed"
		[ "$f" -eq 0 ] || grep '^not ok' "$log" | sort | uniq -c
	fi
	passed=$((passed + p))
	failed=$((failed + f))
done
echo "check-glibc: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
