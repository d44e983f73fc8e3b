# Roots of Debian's suites, to be read by scripts that set: cache, the folder where they are kept (some 400 MB each; remove
# one to have it made anew), and name, of the script's target. Needs root, for chroot, and the network once.
# $HEDDLE_MIRROR is the archive, $HEDDLE_APTOPT an option of apt's (for a frozen archive:
# 'Acquire::Check-Valid-Until "false"').
mirror=${HEDDLE_MIRROR:-http://deb.debian.org/debian}
give_up() {
	echo "$name: $1"
	echo "$name: 0 passed, 1 failed"
	exit 1
}

[ "$(id -u)" = 0 ] || give_up "needs root, for chroot"
mkdir -p "$cache" || exit 1
if ! command -v mmdebstrap >/dev/null; then
	{ apt-get update && apt-get install -y --no-install-recommends mmdebstrap; } \
		>"$cache/apt.log" 2>&1 || give_up "cannot install mmdebstrap (no network?); see $cache/apt.log"
fi

# make_root ROOT SUITE PACKAGES: made beside its place and moved there when whole.
make_root() {
	local root=$cache/$1
	[ -d "$root" ] && return
	rm -rf "$root.new"
	mmdebstrap --variant=apt ${3:+"--include=$3"} ${HEDDLE_APTOPT:+"--aptopt=$HEDDLE_APTOPT"} \
		"$2" "$root.new" "$mirror" >"$root.log" 2>&1 && mv "$root.new" "$root" && return
	rm -rf "$root.new"
	return 1
}

# why_not ROOT: of a root that was not made.
why_not() {
	echo "no root was made (no network?): $(grep -m 1 '^E: ' "$cache/$1.log")"
}

# copy_tree ROOT: what is to be tested, to its /heddle.
copy_tree() {
	rm -rf "$1/heddle"
	mkdir "$1/heddle"
	tar --exclude=./build --exclude=./.git -cf - . | tar -C "$1/heddle" --no-same-owner -xf -
	grep -q localhost "$1/etc/hosts" 2>/dev/null || echo "127.0.0.1 localhost" >>"$1/etc/hosts"
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
