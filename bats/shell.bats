#!/usr/bin/env bats
# Shells, make and what they start: with the preload in every process of a tree the same output, status and
# files as natively.
load common

bats_require_minimum_version 1.5.0

setup() {
	export LC_ALL=C
	unset MAKEFLAGS MAKELEVEL
}

# alike SETUP COMMAND...: in a directory of its own, which SETUP fills, natively and under heddle: what COMMAND
# writes, its status and all files are the same. One path for all, since files may tell it.
alike() {
	local way
	for way in native 1 2; do
		rm -rf "$work/here" && mkdir "$work/here" && cd "$work/here"
		"$1"
		local pre=()
		[ $way = native ] || pre=(HEDDLE=1 GOMAXPROCS=$way LD_PRELOAD="$heddle")
		status=0
		env "${pre[@]}" PRELOADED="$work/maps.$way" "${@:2}" >"$work/out.$way" 2>"$work/err.$way" </dev/null || status=$?
		echo "$status" >"$work/status.$way"
		# The shell tells the number of who was killed.
		sed -i 's/\(line [0-9]*:\) *[0-9]* /\1 NUMBER /' "$work/err.$way"
		find . -type f -exec cksum {} + | sort -k 3 >"$work/files.$way"
		cd "$work"
		[ $way = native ] && continue
		for f in out err status files; do diff "$work/$f.native" "$work/$f.$way"; done
	done
}

# was_preloaded: what each way wrote to $PRELOADED, its own mappings: heddle is there in all but the native one.
was_preloaded() {
	run ! grep -q libheddle "$work/maps.native"
	grep -q libheddle "$work/maps.1"
	grep -q libheddle "$work/maps.2"
}

script() {
	cat >script <<'S'
set -u
cat /proc/self/maps >"$PRELOADED"
trap 'echo left with $?' EXIT
trap 'echo told' USR1
seq 1 5000 | sort -rn | awk '{ s += $1; print $1 * 2 }' | tee doubled | sed -n 1,3p
echo "pipe: ${PIPESTATUS[*]}"
false | true | (exit 7) | cat
echo "pipe: ${PIPESTATUS[*]}"
yes | head -n 1000 | wc -l
echo "yes: ${PIPESTATUS[0]}"
for i in {1..40}; do
	(echo "part $i" | sed 's/part/PART/' | tr ' ' _ >"part.$i"; exit $((i % 5))) || echo "$i: $?"
done
cat part.* | sort -t_ -k2n | cksum
for i in {1..20}; do { cat "part.$i" | rev >"rev.$i"; exit $i; } & jobs[i]=$!; done
for i in {20..1}; do wait "${jobs[i]}"; echo -n " $?"; done
echo
while read -r a b; do echo "$b $a"; done < <(paste <(seq 1 5) <(seq 6 10)) | tac
kill -USR1 $$
mkfifo begun
{ echo begun; exec sleep 60; } >begun &
read -r it <begun
kill -TERM $!
wait $!
echo "killed: $?"
coproc up { tr a-z A-Z; }
echo one line >&"${up[1]}"
exec {up[1]}>&-
cat <&"${up[0]}"
wait
cat <<-H | { read -r x; echo "here: $x"; cat >rest; }
	$(echo first | tr f F)
	$(printf '%s\n' {a..e} | xargs -n 2 echo)
	$(find . -name 'part.*' | wc -l)
H
(ulimit -n 20; exec 9<script; wc -l <&9)
test -t 0 || echo no terminal
/bin/sh -c 'kill -SEGV $$'
echo "faulted: $?"
no-such-command
echo "unknown: $?"
timeout 0.2 sleep 60
echo "in time: $?"
tar cf - part.* | tar tf - | wc -l
exec 3>&1
exit 43
S
}

@test "a script of commands, pipes, subshells, jobs, traps and signals" {
	alike script bash script
	was_preloaded
	[ "$(cat "$work/status.native")" -eq 43 ]
	grep -q '^left with 43$' "$work/out.native"
	grep -q 'no-such-command: command not found' "$work/err.native"
	grep -q 'faulted: 139' "$work/out.native"
}

project() {
	mkdir lib
	for i in {1..12}; do
		printf '#include "numbers.h"\nint f%d(int x) { return x + N%d; }\n' "$i" "$i" >"lib/f$i.c"
	done
	printf '#include <stdio.h>\n#include "numbers.h"\nint main(void) { printf("%%d\\n", f1(0) + f12(0)); return 0; }\n' >main.c
	cat >Makefile <<'M'
.DELETE_ON_ERROR:
objects := $(patsubst %,lib/f%.o,1 2 3 4 5 6 7 8 9 10 11 12)
all: program report
numbers.h:
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "#define N$$i ($$i * 3)"; echo "int f$$i(int);"; done | sort -r >$@
lib/%.o main.o: CFLAGS := -O1 -I.
$(objects) main.o: numbers.h
lib/libf.a: $(objects)
	rm -f $@; ar rcD $@ $^ && ranlib -D $@
program: main.o lib/libf.a
	$(CC) -Wl,--build-id=none -o $@ $^
report: program
	+$(MAKE) -C lib -f ../Makefile inner
	./program | tee $@
inner: $(patsubst %,%.words,1 2 3 4 5 6)
%.words:
	wc -w f$*.c | cut -d' ' -f1 >$@
	cat /proc/self/maps >"$$PRELOADED"
broken: all
	-exit 5
	@echo 'int main(void) { return 1 + ; }' | $(CC) -x c -c -o broken.o -
	@echo not reached
M
}

# Which of four was first is not told: each one's output is whole, and they are sorted.
made() {
	alike project bash -c 'make -j4 -Oline "$@" >said 2>&1; r=$?; sort -o said said; cat said; exit $r' make "$@"
}

@test "make -j4 of a project: its libraries, program, and a make within" {
	made
	was_preloaded
	[ "$(cat "$work/status.native")" -eq 0 ]
	[ "$(cat "$work/here/report")" = 39 ]
}

@test "make -j4 of one that is broken" {
	made broken
	[ "$(cat "$work/status.native")" -eq 2 ]
	grep -q '\[Makefile:.*: broken\] Error 5 (ignored)' "$work/out.native"
	grep -q 'expected expression' "$work/out.native"
	run ! grep -q '^not reached' "$work/out.native"
}

# As autoconf's are: a log, descriptors of their own, programs that are tried, what is found put into a header and
# a makefile by a script that is made.
package() {
	cat >program.c <<'C'
#include "config.h"
#include <stdio.h>
int main(void)
{
#if HAVE_PTHREAD_H && HAVE_STRLEN && !HAVE_NO_SUCH_FUNCTION
	printf("%d %s\n", SIZEOF_LONG, VERSION);
#endif
	return 0;
}
C
	printf '#define VERSION "@VERSION@"\n@DEFS@\n' >config.h.in
	printf 'CFLAGS = @CFLAGS@\nprogram: program.o\n\t@CC@ -Wl,--build-id=none -o $@ program.o\nprogram.o: config.h\ncheck: program\n\t./program >$@.out\n\tcat $@.out\n' >Makefile.in
	cat >configure <<'S'
#!/bin/sh
# configure: finds out what there is.
trap 'rm -rf conftest*' 0
trap 'exit 1' 1 2 13 15
exec 5>config.log 6>&1 7</dev/null
echo "begun by $0" >&5
cat /proc/self/maps >"$PRELOADED"
defs= CFLAGS=
for CC in no-such-compiler-cc cc gcc; do
	echo "checking for $CC... " >&6
	set dummy $CC
	word=$2 found=no saved=$IFS
	IFS=:
	for dir in $PATH; do IFS=$saved; test -x "$dir/$word" && { found=yes; break; }; done
	IFS=$saved
	echo "$found" >&6
	test $found = yes && break
done
try() {
	cat >conftest.c
	"$CC" $CFLAGS "$@" -o conftest conftest.c >conftest.err 2>&1
	status=$?
	sed 's/^/| /; s/cc[A-Za-z0-9]*\.o/OBJECT/' conftest.err >&5
	test $status = 0 || sed 's/^/| /' conftest.c >&5
	echo "\$? = $status" >&5
	return $status
}
for flag in -O1 -Wno-such-thing-at-all-=3; do
	echo "checking whether $CC takes $flag" >&6
	if echo 'int main(void) { return 0; }' | try $flag -Werror; then CFLAGS="$CFLAGS $flag"; fi
done
for header in stdio.h pthread.h no-such-header.h; do
	name=HAVE_`echo $header | tr 'a-z.-' 'A-Z__'`
	if { echo "#include <$header>"; echo 'int main(void) { return 0; }'; } | try; then r=1; else r=0; fi
	echo "checking for $header... $r" >&6
	defs="$defs#define $name $r
"
done
for function in strlen sem_timedwait no_such_function; do
	name=HAVE_`echo $function | tr a-z A-Z`
	if try -fno-builtin 2>&5 <<-C
		char $function();
		int main(void) { return $function(); }
	C
	then r=1; else r=0; fi
	echo "checking for $function... $r" >&6
	defs="$defs#define $name $r
"
done
for size in 1 2 4 8 16; do
	echo "int a[sizeof(long) == $size ? 1 : -1]; int main(void) { return 0; }" | try && break
done
echo "checking size of long... $size" >&6
defs="$defs#define SIZEOF_LONG $size"
if echo 'int main(void) { return 42; }' | try; then (./conftest; exit $?) || echo "a program runs: $?" >&6; fi
cat >config.status <<S2
#!/bin/sh
for f in config.h Makefile; do
	echo "config.status: creating \$f"
	awk -v defs="`echo "$defs" | sed 's/$/\\\\\\\\n/' | tr -d '\n'`" '{ gsub(/@DEFS@/, defs); print }' \$f.in |
		sed -e 's,@CC@,$CC,g' -e 's,@CFLAGS@,$CFLAGS,g' -e 's,@VERSION@,1.2,g' >\$f.tmp && mv \$f.tmp \$f || exit 1
done
S2
chmod +x config.status
./config.status >&6 || exit 1
S
	chmod +x configure
}

@test "configure, make and make check of a package" {
	alike package bash -c './configure && make && make check'
	was_preloaded
	[ "$(cat "$work/status.native")" -eq 0 ]
	[ "$(cat "$work/here/check.out")" = "8 1.2" ]
	grep -q '^a program runs: 42$' "$work/out.native"
	grep -q '| .*no-such-header' "$work/here/config.log"
}
