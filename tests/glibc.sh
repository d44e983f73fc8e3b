#!/usr/bin/env bash
# The conformance tests under other glibcs: in a root of its own for each suite of Debian's,
# the tree is built and check-threads run. The roots are cached below BUILD/glibc; see roots.sh.
# Usage: glibc.sh BUILD SUITE[=VERSION]...; that is glibc's, as its number begins. A suite without one has the newest, in a
# root that is made anew each month. $ONLY is passed on to the tests.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
name=check-glibc
cache=$PWD/$1/glibc
shift
passed=0
failed=0
. tests/roots.sh

for suite in "$@"; do
	wanted=${suite#"${suite%%=*}"}
	wanted=${wanted#=}
	suite=${suite%%=*}
	root=$cache/$suite
	log=$cache/$suite.log
	[ -n "$wanted" ] || [ -z "$(find "$root/var/lib/dpkg/status" -mtime +30 2>/dev/null)" ] || rm -rf "$root"
	if ! make_root "$suite" "$suite" gcc,libc6-dev,make; then
		echo "not ok $suite: $(why_not "$suite")"
		failed=$((failed + 1))
		continue
	fi
	copy_tree "$root"
	version=$(chroot "$root" dpkg-query -W -f '${Version}' libc6)
	compiler=$(chroot "$root" gcc -dumpfullversion)
	if [[ $version != "$wanted"* ]]; then
		echo "not ok $suite: glibc $version, where $wanted was wanted"
		failed=$((failed + 1))
		continue
	fi
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
