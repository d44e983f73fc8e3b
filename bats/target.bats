#!/usr/bin/env bats
# What heddle can serve and what it cannot: said before it starts, and by heddle doctor.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

# made NAME gcc's options...: a program that prints "ran".
made() {
	local name=$1
	shift
	gcc -x c - -o "$work/$name" "$@" <<-'C'
		#include <stdio.h>
		int main(void)
		{
			return puts("ran") < 0;
		}
	C
}

# Refused with that reason; natively it runs, if it can.
expect_refused() {
	run --separate-stderr "$command" run "$1"
	[ "$status" -eq 126 ]
	[ -z "$output" ]
	[[ $stderr == "heddle: "*"$2"* ]]
	run "$command" doctor "$1"
	[ "$status" -eq 1 ]
	[[ $output == *"NO"*"$2"* ]]
}

@test "static programs are refused, with how to run them all the same" {
	made static -static
	expect_refused "$work/static" "statically linked"
	run "$command" run --off "$work/static"
	[ "$status" -eq 0 ]
	[ "$output" = ran ]
	made pie -static-pie
	expect_refused "$work/pie" "statically linked"
}

@test "32 bits, another cpu, musl, Go" {
	made plain
	cp "$work/plain" "$work/narrow"
	printf '\x01' | dd of="$work/narrow" bs=1 seek=4 conv=notrunc status=none
	expect_refused "$work/narrow" "32 bits"
	cp "$work/plain" "$work/arm"
	printf '\xb7' | dd of="$work/arm" bs=1 seek=18 conv=notrunc status=none
	expect_refused "$work/arm" "another kind of cpu"
	made musl -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1
	expect_refused "$work/musl" "musl"
	gcc -x c - -o "$work/go" <<-'C'
		__asm__(".pushsection .note.go.buildid, \"a\", @note\n.long 4, 4, 4\n.asciz \"Go\\0\"\n.long 1\n.popsection");
		int main(void)
		{
			return 0;
		}
	C
	expect_refused "$work/go" "Go program"
}

@test "set-user-id and set-group-id programs, where they would change who one is" {
	[ "$(id -u)" -eq 0 ] || skip "it takes root to make one"
	made setid
	chown 65534:65534 "$work/setid"
	chmod 4755 "$work/setid"
	expect_refused "$work/setid" "set-user-id"
	chmod 2755 "$work/setid"
	expect_refused "$work/setid" "set-user-id"
	chown 0:0 "$work/setid"
	chmod 6755 "$work/setid"
	run "$command" run "$work/setid"
	[ "$output" = ran ]
	run "$command" doctor "$work/setid"
	[ "$status" -eq 0 ]
	[[ $output == *"rights "*"whom it does, it is refused"* ]]
	made plain
	run "$command" doctor "$work/plain"
	[[ $output != *"rights "* ]]
}

@test "a sanitizer's runtime: natively, in its own order, with a word" {
	for kind in thread address; do
		made "$kind" -fsanitize=$kind
		run --separate-stderr "$command" run "$work/$kind"
		[ "$status" -eq 0 ]
		[ "$output" = ran ]
		[[ $stderr == *"Sanitizer's runtime: it runs natively" ]]
	done
}

@test "scripts are what their interpreters are" {
	made static -static
	printf '#!%s\n' "$work/static" >"$work/script"
	printf '#!%s -x\n' "$work/script" >"$work/script2"
	printf '#!/usr/bin/env -S sh -c\n' >"$work/script3"
	chmod +x "$work"/script*
	expect_refused "$work/script2" "statically linked"
	printf '#!/bin/sh\necho ran $GOMAXPROCS\n' >"$work/script4"
	chmod +x "$work/script4"
	run "$command" -p 3 "$work/script4"
	[ "$output" = "ran 3" ]
}

# no_program STATUS NAME WORDS: neither runs it nor takes it for a program, and says why.
no_program() {
	run "$command" doctor "$2"
	[ "$status" -eq 1 ]
	[[ $output == *"NO "*"$3"* ]]
	run "-$1" "$command" run "$2"
	[[ $output == "heddle: "*"$3"* ]]
	# As the shell's own status.
	run "-$1" bash -c '"$1"' _ "$2"
}

@test "what is no program: why, and the status that a shell gives" {
	cd "$work"
	made plain
	no_program 127 ./none "there is no such file"
	no_program 127 no-such-tool "there is no such program in PATH"
	no_program 127 plain "not in PATH, but here: ./"
	mkdir folder
	no_program 126 ./folder "it is a folder"
	cp plain unfit
	chmod -x unfit
	no_program 126 ./unfit "it is not executable (chmod +x"
	mkfifo pipe
	no_program 126 ./pipe "it is no file"
	made foreign -Wl,--dynamic-linker=/nonexistent/loader
	run -127 "$command" run ./foreign
	[ "$output" = "heddle: /nonexistent/loader: there is no such file" ]
	printf '#!/nonexistent/interpreter\n' >script
	chmod +x script
	run -127 "$command" run ./script
	[ "$output" = "heddle: /nonexistent/interpreter: there is no such file" ]
	printf '\177ELF and then nothing\0' >garbage
	chmod +x garbage
	run "$command" doctor ./garbage
	[ "$status" -eq 1 ]
	[[ $output == *"neither an ELF program nor a script"* ]]
	run "$command" doctor $'evil\033]0;name'
	[[ $output != *$'\033'* ]]
}

@test "a script that names no interpreter is the shell's" {
	echo 'echo ran $GOMAXPROCS' >"$work/script"
	chmod +x "$work/script"
	run "$command" -p 3 "$work/script"
	[ "$output" = "ran 3" ]
	run "$command" doctor "$work/script"
	[ "$status" -eq 0 ]
	[[ $output == *"/bin/sh"*"runs on heddle"* ]]
}

@test "libraries beside the program that a link points to are found" {
	mkdir "$work/bin" "$work/lib"
	echo 'int beside;' | gcc -shared -fPIC -x c - -o "$work/lib/libbeside.so"
	made bin/tool -Wl,--no-as-needed -L"$work/lib" -lbeside '-Wl,-rpath,$ORIGIN/../lib'
	ln -s bin/tool "$work/tool"
	run "$command" doctor "$work/tool"
	[ "$status" -eq 0 ]
	[[ $output == *"ok  libbeside.so "*"/lib/libbeside.so"* ]]
	[[ $output != *"not found"* ]]
}

@test "programs are found in PATH, as the shell finds them" {
	mkdir "$work/first" "$work/second"
	made second/tool
	made first/tool -static
	PATH=$work/second:$work/first:$PATH run "$command" run tool
	[ "$output" = ran ]
	PATH=$work/first:$work/second:$PATH run "$command" run tool
	[ "$status" -eq 126 ]
	chmod -x "$work/first/tool"
	PATH=$work/first:$work/second:$PATH run "$command" run tool
	[ "$output" = ran ]
	run -127 "$command" run no-such-tool
}

@test "doctor: the machine, and a program with its libraries" {
	run "$command" doctor python3
	[ "$status" -eq 0 ]
	for word in cpu kernel glibc membarrier max_map_count io_uring "runs on heddle" libc.so.6; do
		[[ $output == *"$word"* ]]
	done
	[[ $output != *"NO "* ]]
	run "$command" doctor /nonexistent
	[ "$status" -eq 1 ]
	# Files of any content: an answer, not a crash.
	made plain
	for i in $(seq 60); do
		cp "$work/plain" "$work/broken"
		printf "\\x$(printf %02x $((RANDOM % 256)))" |
			dd of="$work/broken" bs=1 seek=$((4 + RANDOM % 700)) conv=notrunc status=none
		run "$command" doctor "$work/broken"
		[ "$status" -le 1 ]
	done
}

@test "options go to the environment; values that cannot be are refused" {
	run "$command" run -p2 --max-threads 7 --stats --schedtrace=1000 --seed 5 -- env
	[ "$status" -eq 0 ]
	for setting in GOMAXPROCS=2 HEDDLE_MAXTHREADS=7 HEDDLE_STATS=1 HEDDLE_SCHEDTRACE=1000 HEDDLE_SEED=5; do
		grep -qx "$setting" <<<"$output"
	done
	for bad in "-p 0" "-p many" "--max-threads -1" "--seed" "--off=1" "-x"; do
		run "$command" run $bad env
		[ "$status" -eq 2 ]
	done
}
