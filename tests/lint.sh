#!/usr/bin/env bash
# The rules of the tree: layout, both compilers, who may include whom, how long a file may be.
set -u
cd "$(dirname "$0")/.." || exit 1
# Each make here has its own jobs.
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=$(nproc)
passed=0
failed=0
ok() { passed=$((passed + 1)); }
not_ok() {
	failed=$((failed + 1))
	echo "not ok $1"
	[ -z "${2:-}" ] || echo "$2" | head -n 20 | sed 's/^/  /'
}
expect_empty() { if [ -z "$2" ]; then ok; else not_ok "$1" "$2"; fi; }

sources() { find core interpose shim tests -name '*.[ch]' 2>/dev/null | sort; }

expect_empty "the top has nothing that does not belong there" "$(
	git ls-files 2>/dev/null | cut -d/ -f1 | sort -u |
		grep -vxE '\.ci|\.clang-format|\.gitignore|LICENSE|Makefile|README\.md|bats|core|interpose|shim|tests'
)"
# Debian 12's: each of them breaks some lines as no other does.
if clang-format --version | grep -q 'version 14\.'; then
	expect_empty "clang-format agrees with every C file" "$(
		sources | xargs -P "$jobs" -n 8 clang-format --style=file --dry-run 2>&1 | grep -o '^[^ :]*:' | sort -u
	)"
else
	echo "clang-format is not 14, by which the sources are formatted: they were not compared"
fi

expect_empty "core includes nothing of the other folders" "$(
	grep -nE '#include "(\.\./)*(interpose|shim|tests)/' -r core
)"
expect_empty "core has one thread-local word" "$(
	grep -rnE '__thread|_Thread_local|thread_local' core --include='*.[ch]' | grep -v heddle_g | grep -v '^\S*:[0-9]*: \*'
)"
expect_empty "no file is longer than 500 lines, no test longer than 800" "$(
	sources | xargs wc -l | awk '$2 != "total" && $1 > ($2 ~ /^tests/ ? 800 : 500) { print }'
)"
expect_empty "no #if but the guards of headers" "$(
	grep -nE '^\s*#\s*if' -r core interpose shim --include='*.[ch]' | grep -v '#ifndef HEDDLE_'
)"
expect_empty "nothing is left to do in a comment" "$(grep -rnE 'TODO|FIXME' core interpose shim tests/core 2>/dev/null)"
expect_empty "the core asks nothing of libc" "$(
	make -s build/release/libcore.a >/dev/null || echo "it does not build"
	nm -u build/release/libcore.a | awk '/ U / { print $2 }' | sort -u >build/undefined
	nm --defined-only build/release/libcore.a | awk 'NF == 3 { print $3 }' | sort -u |
		comm -23 build/undefined - | grep -vE '^(_GLOBAL_OFFSET_TABLE_)$'
)"
expect_empty "interpose reaches into the core by its public headers only" "$(
	grep -nE '#include "(gmp|sched|waitq|futexq|stats|lock|choose|poller)\.h"' -r interpose
)"
expect_empty "what is exported is what calls.def names" "$(
	make -s build/libheddle.so >/dev/null || echo "it does not build"
	nm -D --defined-only build/libheddle.so | awk '{ print $3 }' | sort >build/exported
	bash interpose/exports.sh names interpose/calls.def | sort | diff build/exported -
)"
# The first call of all may come from a library's constructor, before ours.
expect_empty "no entry point uses the table of real symbols before it is filled" "$(
	python3 - interpose/*.c <<-'END'
		import re, sys
		ask = r"served\(|io_self\(|announce\(|by_tid\(|jump_mask\(|&real_table"
		for name in sys.argv[1:]:
		    text = open(name).read()
		    for m in re.finditer(r"^EXPORT [^;{]*?(\w+)\([^{;]*\)\n\{\n(.*?)^\}", text, re.S | re.M):
		        use = m[2].find("real_table.")
		        if use >= 0 and not re.search(ask, m[2][:use + 10]):
		            print(name, m[1])
	END
)"
expect_empty "the README's table of variables is that of variables.def: build/packaging/rows readme" "$(
	make -s build/packaging/rows >/dev/null || echo "it does not build"
	build/packaging/rows readme | diff - <(sed -n '/^<!-- variables -->$/,/^<!-- end -->$/p' README.md | sed '1d;$d')
)"
expect_empty "the README and POSIX agree with calls.def" "$(bash tests/calls.sh check)"
for cc in gcc clang; do
	expect_empty "$cc compiles every variant of the core without a word" "$(
		make -s -j "$jobs" CC=$cc BUILD=build/lint-$cc build/lint-$cc/release/libcore.a \
			build/lint-$cc/debug/libcore.a build/lint-$cc/notrace/libcore.a \
			build/lint-$cc/unpoliced/libcore.a \
			build/lint-$cc/libheddle.so build/lint-$cc/heddle build/lint-$cc/packaging/rows 2>&1
	)"
	expect_empty "$cc compiles the programs of make bench without a word" "$(
		make -s -j "$jobs" CC=$cc BUILD=build/lint-$cc bench-programs 2>&1
	)"
done
for script in $(find tests bats shim .ci -name '*.sh' -o -path .ci/run -o -name completion.bash 2>/dev/null); do
	if bash -n "$script"; then ok; else not_ok "$script parses"; fi
done
echo "lint: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
