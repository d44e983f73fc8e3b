#!/usr/bin/env bash
# Explores each model in each of its scenes (scenes.txt), which must be found clean and whole,
# and each mutant (mutants.txt), which must be found broken.
#
#   run.sh [DIR]     works in DIR (build/model/spin); two explorations at a time
#   MODEL=park ...   that model only
#
# Clean is: no error; every state visited, within the bounds of depth and memory; and each
# assertion of the model reached in one scene at least, for one that is never reached says
# nothing. A mutant must break an assertion or deadlock; to be refused by spin or gcc, or to
# leave an array, is a mistake in the model.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC:-gcc}
bounds=(-DMEMLIM=950)
depth=100000
patience=1200

# explore NAME MODEL OPTIMISE DEFINES...: leaves $out/NAME/pan.out.
explore() {
	local name=$1 model=$2 optimise=$3 status=0
	shift 3
	rm -rf "${out:?}/$name"
	mkdir -p "$out/$name"
	cd "$out/$name"
	cp "$here/$model.pml" .
	if ! spin -a "$@" "$model.pml" >spin.out 2>&1 ||
		! "$cc" "$optimise" -w -DSAFETY "${bounds[@]}" -o pan pan.c >>spin.out 2>&1; then
		echo "pan: refused" >pan.out
		return
	fi
	timeout "$patience" ./pan -m$depth >pan.out 2>&1 || status=$?
	[ "$status" -ne 124 ] || echo "pan: out of time" >>pan.out
	./pan -d >states.out 2>&1 || true
	rm -f pan pan.?
}

states_of() { awk '/states, stored/ { print $1 }' "$1"; }
seconds_of() { awk '/elapsed time/ { print $4 }' "$1"; }

# verdict FILE clean|mutant: ok, or what is wrong.
verdict() {
	if grep -qE 'pan: refused|pan: out of time' "$1"; then
		grep -oE 'refused|out of time' "$1" | head -n 1
	elif grep -qE 'max search depth too small|reached -DMEMLIM|out of memory' "$1" ||
		! grep -q 'states, stored' "$1"; then
		echo "not whole"
	elif [ "$2" = clean ]; then
		if grep -q 'errors: 0$' "$1"; then
			echo ok
		else
			grep -oE 'pan:1: .*' "$1" | sed 's/^pan:1: //; s/ (at depth.*//' | cut -c 1-40
		fi
	elif grep -qE 'pan:1: (assertion violated|invalid end state)' "$1"; then
		echo ok
	else
		echo "not found out"
	fi
}

row() { printf '%-7s %-9s %-18s %-14s %9s %7s\n' "$@"; }

# one LINE: a job, as "clean MODEL SCENE - DEFINES" or "mutant MODEL SCENE MUTANT DEFINES".
one() {
	local kind=$1 model=$2 scene=$3 mutant=$4 name
	shift 4
	if [ "$kind" = clean ]; then
		name=$model-$scene
		explore "$name" "$model" -O1 "$@"
	else
		name=$model-$scene-$mutant
		explore "$name" "$model" -O0 "$@" "-DMUT_$mutant"
	fi
	local pan=$out/$name/pan.out found
	found=$(verdict "$pan" "$kind")
	row "$model" "$scene" "$mutant" "$found" "$(states_of "$pan")" "$(seconds_of "$pan")" \
		>"$out/$name/row"
	echo "$found" >"$out/$name/verdict"
}

# The lines of a model's assertions that no scene reached. (spin merges the second of two in a
# row into the first, and it would be missed here: write them as one.)
unreached_asserts() {
	local model=$1 scene
	while read -r scene; do
		awk -v model="$model" '
			FNR == NR {
				if (/=> assert\(/ && match($0, /\.pml:[0-9]+/))
					total[substr($0, RSTART + 5, RLENGTH - 5)]++
				next
			}
			/^\t.*"assert\(/ && match($0, /\.pml:[0-9]+/) {
				missed[substr($0, RSTART + 5, RLENGTH - 5)]++
			}
			END {
				for (l in total) print l, (missed[l] < total[l] ? "reached" : "missed")
				for (l in missed) if (!(l in total)) print l, "missed"
			}
		' "$out/$model-$scene/states.out" "$out/$model-$scene/pan.out"
	done < <(scenes | awk -v m="$model" '$1 == m { print $2 }') |
		awk '{ seen[$1] = 1 } $2 == "reached" { hit[$1] = 1 }
			END { for (l in seen) if (!hit[l]) print l }' | sort -n
}

rows_of() { grep -v '^#' "$here/$1" | awk -F '\t' -v m="${MODEL:-}" 'NF && (m == "" || $1 == m)'; }
scenes() { rows_of scenes.txt; }

list_jobs() {
	scenes | awk -F '\t' '{ print "clean", $1, $2, "-", $3 }'
	awk -F '\t' '
		FNR == NR { defines[$1 "/" $2] = $3; next }
		!(($1 "/" $2) in defines) { print "no such scene: " $0 >"/dev/stderr"; exit 1 }
		{ print "mutant", $1, $2, $3, defines[$1 "/" $2] }
	' <(scenes) <(rows_of mutants.txt)
}

if [ "${1:-}" = --one ]; then
	out=$2
	shift 2
	one "$@"
	exit 0
fi

out=$(realpath -m "${1:-$here/../../../build/model/spin}")
mkdir -p "$out"
command -v spin >/dev/null || { echo "spin: not installed"; echo "0 passed, 1 failed"; exit 1; }
passed=0
failed=0
list_jobs >"$out/jobs"
xargs -P 2 -L 1 bash "${BASH_SOURCE[0]}" --one "$out" <"$out/jobs"

row model scene mutant result states seconds
while read -r kind model scene mutant _; do
	name=$model-$scene
	[ "$kind" = clean ] || name=$name-$mutant
	[ -e "$out/$name/verdict" ] || { echo "cut short" | tee "$out/$name/verdict" >"$out/$name/row"; }
	cat "$out/$name/row"
	if [ "$(cat "$out/$name/verdict")" = ok ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "  see $out/$name; there: spin -t -p -g -l MACROS $model.pml (../jobs has the macros)"
	fi
done <"$out/jobs"
for model in $(scenes | awk '{ print $1 }' | uniq); do
	lines=$(unreached_asserts "$model" | paste -sd ' ')
	if [ -z "$lines" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok $model.pml: no scene reaches the assertions of lines $lines"
	fi
done
echo "spin: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
