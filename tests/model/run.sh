#!/usr/bin/env bash
# Explores runq.c, futex.c, queue.c, placeholder.c and pollwait.c: all scenarios on the sources as they are, then each mistake of
# mutants.def, which its scenario must catch. Usage: run.sh OUTDIR. Closes with the sum.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
export out=${1:?usage: run.sh OUTDIR} CC=${CC:-gcc} ARCH=x86_64
jobs=$(nproc)
mkdir -p "$out/mutants"

warnings="-Wall -Wextra -Wundef -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
-Wvla -Werror"
base="-std=gnu11 -g -fvisibility=hidden -fno-stack-protector -fno-omit-frame-pointer -fno-pie \
-ffunction-sections -fdata-sections"
# The twins of atomic.h and sizes.h go first, so that their guards keep the core's out.
export twins="-include tests/model/atomic.h -include tests/model/sizes.h -iquote tests/model \
-iquote core -iquote core/arch/$ARCH -iquote core/debug -iquote core/tracing -iquote core/policed"
export watched="$base $twins -O1 -fsanitize=thread"
export engine="memory steps sc race threads explore trace main switch cpu"
export runq_model="runqempty_model runq_scene stage runq globq"
export futex_model="requeue_model futex_scene stage futex waitq sleep" litmus_model=""
export queue_model="futex_scene stage queue placeholder futex waitq sleep"
export poll_model="stage pollwait netpoll sleep"

# Objects: what is built, and how.
plan() {
	for f in memory steps sc race threads explore trace main stage; do
		echo "$out/$f.o tests/model/$f.c $base $warnings $twins -O3"
	done
	for f in litmus_model runq_model runqempty_model runq_scene futex_model requeue_model futex_scene \
		queue_model poll_model; do
		echo "$out/$f.o tests/model/$f.c $watched $warnings"
	done
	for f in runq globq futex queue placeholder pollwait netpoll waitq sleep; do
		echo "$out/$f.o core/$f.c $watched $warnings"
	done
	echo "$out/cpu.o core/arch/$ARCH/cpu.c $base $warnings -O2 -iquote core -iquote core/arch/$ARCH"
	echo "$out/switch.o core/arch/$ARCH/switch.S $base"
}

compile() { # object source flags...
	local object=$1 source=$2
	shift 2
	$CC "$@" -c "$source" -o "$object"
}

link() { # program output folder-that-goes-first
	local objects="$out/$1.o" o
	for o in ${!1} $engine; do
		if [ -f "$3/$o.o" ]; then objects="$objects $3/$o.o"; else objects="$objects $out/$o.o"; fi
	done
	# shellcheck disable=SC2086  # lists
	$CC -no-pie $objects -Wl,--gc-sections -o "$2"
}

mutant() { # name file program scenario
	local dir=$out/mutants/$1 start=$EPOCHREALTIME o log
	rm -rf "$dir"
	mkdir -p "$dir"
	if ! "$out/mutate" "$1" <"core/$2" >"$dir/$2"; then
		echo "not ok mutant $1: it cannot be made"
		return
	fi
	# shellcheck disable=SC2086
	case $2 in
	*.c) $CC $watched -w -c "$dir/$2" -o "$dir/${2%.c}.o" ;;
	*.h) for o in ${!3}; do
		[ ! -f "core/$o.c" ] || $CC $watched -w -include "$dir/$2" -c "core/$o.c" -o "$dir/$o.o"
	done ;;
	esac && link "$3" "$dir/$3" "$dir" || {
		echo "not ok mutant $1: it does not build"
		return
	}
	log=$("$dir/$3" -t 20 "$4" 2>&1)
	# Caught, within the limit, and again by the printed schedule.
	if [[ $log == "not ok $4 "* && $log == *"  again: "* && $log != *"does not fi"* &&
		$log != *"not only the schedule"* ]]; then
		printf 'ok mutant %-34s caught by %-58s %6d executions %5d ms\n' "$1" "$4" \
			"$(sed -n '1s/.* \([0-9]*\) executions.*/\1/p' <<<"$log")" \
			$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
	else
		echo "not ok mutant $1 is not caught by $4"
		sed 's/^/  /' <<<"$log" | tail -n 5
	fi
}
export -f compile link mutant

if ! plan | xargs -P "$jobs" -L 1 bash -c 'compile "$@"' _ ||
	! $CC -std=gnu11 $warnings -O1 -o "$out/mutate" tests/model/mutate.c; then
	echo "not ok the model does not build"
	echo "model: 0 passed, 1 failed"
	exit 1
fi
programs="litmus_model runq_model futex_model queue_model poll_model"
{
	for p in $programs; do
		link "$p" "$out/$p" "$out" || echo "not ok $p does not build"
	done
	printf '%s\n' $programs | xargs -P "$jobs" -I{} sh -c \
		'"$out/{}" -t 50 >"$out/{}.log" 2>&1 || [ $? = 1 ] || echo "not ok {} died" >>"$out/{}.log"'
	for p in $programs; do
		grep -vE '^[^ ]*: [0-9]+ passed, [0-9]+ failed$' "$out/$p.log"
	done
	"$out/mutate" list | xargs -P "$jobs" -L 1 bash -c 'mutant "$@"' _
} 2>&1 | tee "$out/log"
passed=$(grep -c '^ok ' "$out/log")
failed=$(grep -c '^not ok ' "$out/log")
echo "model: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
