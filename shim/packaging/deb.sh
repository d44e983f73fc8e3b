#!/usr/bin/env bash
# BUILD/heddle_VERSION_amd64.deb of what `make install` installs, and heddle-dbgsym_VERSION_amd64.deb, the debug
# information of it. Needs dpkg-dev, and neither root nor the network. The same tree gives the same bytes.
# Usage: deb.sh BUILD VERSION
set -eu
cd "$(dirname "$0")/../.."
export LC_ALL=C
build=$(realpath "$1") version=$2
work=$build/deb
umask 022

if ! command -v dpkg-shlibdeps >/dev/null; then
	echo "make deb needs dpkg-dev; as root: apt-get install dpkg-dev" >&2
	exit 1
fi
rm -rf "$work"
mkdir -p "$work/debian/heddle/DEBIAN" "$work/debian/heddle-dbgsym/DEBIAN"
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l shim/packaging/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
cp shim/packaging/control shim/packaging/changelog "$work/debian"
make -s install BUILD="$1" DESTDIR="$work/debian/heddle" PREFIX=/usr ZSH_COMPLETIONS=share/zsh/vendor-completions
cd "$work"
doc=debian/heddle/usr/share/doc/heddle
mkdir -p "$doc" debian/heddle-dbgsym/usr/share/doc
cp "$OLDPWD/shim/packaging/copyright" "$doc"
gzip -9nc debian/changelog >"$doc/changelog.gz"
gzip -9n debian/heddle/usr/share/man/man1/heddle.1
ln -s heddle debian/heddle-dbgsym/usr/share/doc/heddle-dbgsym

# apart FILE: its debug information goes to where debuggers look for its build id.
ids=
apart() {
	local id to
	id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
	to=debian/heddle-dbgsym/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
	mkdir -p "$(dirname "$to")"
	objcopy --only-keep-debug --compress-debug-sections "$1" "$to"
	chmod 644 "$to"
	strip --remove-section=.comment --remove-section=.note "${@:2}" "$1"
	ids="$ids${ids:+ }$id"
}
apart debian/heddle/usr/bin/heddle
apart debian/heddle/usr/lib/heddle/libheddle.so --strip-unneeded

dpkg-shlibdeps -Tsubstvars debian/heddle/usr/bin/heddle debian/heddle/usr/lib/heddle/libheddle.so
# package NAME options of dpkg-gencontrol...
package() {
	local name=$1 tree=debian/$1
	shift
	(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	dpkg-gencontrol -p"$name" -P"$tree" -ffiles "$@"
	dpkg-deb --root-owner-group -Zxz --build "$tree" "$build/${name}_${version}_amd64.deb"
}
package heddle -Tsubstvars
package heddle-dbgsym -T/dev/null -DAuto-Built-Package=debug-symbols -DBuild-Ids="$ids"
