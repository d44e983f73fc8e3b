#!/usr/bin/env bash
# The packages of `make deb`: built in a root of Debian's without the network, twice, to the same bytes; judged by lintian
# and man; their files and dependencies; installed into a fresh root, where heddle serves a program; removed without
# a trace. See roots.sh. Usage: deb.sh BUILD SUITE
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
name=check-deb
cache=$PWD/$1/roots
suite=$2
passed=0
failed=0
. tests/roots.sh

# expect SENTENCE COMMAND...: it succeeds, and what it says is shown where it does not.
expect() {
	local what=$1 said
	shift
	if said=$("$@" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok $what"
		sed 's/^/  /' <<<"$said" | tail -n 30
	fi
}

for root in "$suite-build:gcc,libc6-dev,make,libunwind-dev,dpkg-dev,lintian,man-db,gdb" "$suite:"; do
	make_root "${root%%:*}" "$suite" "${root#*:}" || give_up "$(why_not "${root%%:*}")"
done
builder=$cache/$suite-build
fresh=$cache/$suite.fresh
trap 'rm -rf "$fresh"' EXIT
rm -rf "$fresh"
cp -a "$cache/$suite" "$fresh" || give_up "no room for a root"
copy_tree "$builder"
build() { inside "$builder" "cd /heddle && $1"; }
debs=$builder/heddle/build

expect "the packages are built without the network" build "unshare --net make deb"
main=$(cd "$debs" && ls heddle_*_amd64.deb)
symbols=$(cd "$debs" && ls heddle-dbgsym_*_amd64.deb)
[ -n "$main" ] && [ -n "$symbols" ] || give_up "no packages were built"
expect "the same tree gives the same bytes" build "mkdir -p first && mv build/*.deb first && make deb &&
	cmp first/$main build/$main && cmp first/$symbols build/$symbols"
expect "lintian has neither errors nor warnings" build "lintian --allow-root --fail-on error,warning build/$main build/$symbols"
files() { dpkg-deb -c "$debs/$1" | awk '{ print $1, $2, $6 }' | grep -v '/$'; }
expect "the files are those that are installed, root's" diff - <(files "$main") <<'END'
-rwxr-xr-x root/root ./usr/bin/heddle
-rw-r--r-- root/root ./usr/include/heddle/policy.h
-rw-r--r-- root/root ./usr/lib/heddle/libheddle.so
-rw-r--r-- root/root ./usr/share/bash-completion/completions/heddle
-rw-r--r-- root/root ./usr/share/doc/heddle/changelog.gz
-rw-r--r-- root/root ./usr/share/doc/heddle/copyright
-rw-r--r-- root/root ./usr/share/heddle/heddle.py
-rw-r--r-- root/root ./usr/share/man/man1/heddle.1.gz
-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_heddle
END
depends=" $(dpkg-deb -f "$debs/$main" Depends),"
for library in "libc6 \(>= [0-9.]+\)" libunwind8; do
	expect "it depends on $library" grep -qE " $library," <<<"$depends"
done
expect "it depends on nothing else" test "$(tr -cd , <<<"$depends")" = ,,
expect "man has nothing to complain about" build \
	"w=\$(MANWIDTH=80 man -l --warnings build/packaging/heddle.1 2>&1 >/dev/null); echo \"\$w\"; [ -z \"\$w\" ]"

# A program of many threads, for a root that has no compiler.
cat >"$builder/heddle/many.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum { THREADS = 100 };
static pthread_barrier_t all;
static void *meets(void *stays)
{
	pthread_barrier_wait(&all);
	if (stays)
		pause();
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	char line[256];
	FILE *f;
	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, meets, argc > 1 ? argv : NULL);
	f = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "Threads:", 8) == 0)
			fputs(line, stdout);
	fflush(stdout);
	pthread_barrier_wait(&all);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 7;
}
END
expect "a program is compiled" build "gcc -O1 -pthread -o many many.c"
cp "$builder/heddle/many" "$debs/$main" "$fresh/"
listing() { (cd "$fresh" && find . -path ./var -prune -o -path ./proc -prune -o -path ./sys -prune -o -print | sort); }
# What heddle needs stays; so it comes first.
expect "what it depends on can be had" inside "$fresh" "apt-get update -qq && apt-get install -y -qq --no-install-recommends libunwind8"
listing >"$cache/before"
expect "it is installed" inside "$fresh" "apt-get install -y -qq --no-install-recommends ./$main"
expect "its files are whole" inside "$fresh" "dpkg --verify heddle"
expect "heddle says its version, the package's" test \
	"$(inside "$fresh" "heddle --version")" = "heddle $(dpkg-deb -f "$debs/$main" Version)"
expect "it runs a program on few kernel threads, and passes its status on" inside "$fresh" \
	"said=\$(heddle run -p 2 /many); [ \$? -eq 7 ] && set -- \$said && [ \$2 -ge 2 ] && [ \$2 -le 8 ]"
expect "natively these are as many as its threads" inside "$fresh" \
	"said=\$(heddle run --off /many); [ \$? -eq 7 ] && set -- \$said && [ \$2 -eq 101 ]"
expect "doctor finds nothing wrong" inside "$fresh" "heddle doctor /many"
expect "it is removed" inside "$fresh" "dpkg --purge heddle"
listing >"$cache/after"
expect "nothing is left of it" diff "$cache/before" "$cache/after"

expect "gdb sees all threads by the script and the debug symbols" build "dpkg -i build/$main build/$symbols >/dev/null && rm -f said && mkfifo said || exit 1
	heddle run -p 2 ./many stay >said & pid=\$!; read -r _ <said
	until grep -q memfd:heddle /proc/\$pid/maps; do kill -0 \$pid || exit 1; sleep 0.05; done
	n=\$(gdb -batch -x /usr/share/heddle/heddle.py -p \$pid -ex 'info gs' 2>&1 | tee gs | grep -cE '^[ *]*[0-9]+ ')
	kill -KILL \$pid; cat gs; [ \"\$n\" -ge 101 ]"
echo "check-deb: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
