#!/usr/bin/env bash
# heddle explore on programs with a planted mistake: each is found within a thousand runs, in every series, and found again
# in each of twenty replays; of a thousand native runs one fails at the most. Usage: tests/explore.sh BUILD [SERIES]
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1 series=${2:-10}
passed=0
failed=0

# expect WHAT CONDITION
expect() {
	if (($2)); then
		passed=$((passed + 1))
		echo "ok $1"
	else
		failed=$((failed + 1))
		echo "not ok $1"
	fi
}

# explored PROGRAM SERIES: how many of them find something, at which run at the latest, how many replays did the same at
# the least.
explored() {
	for seed in $(seq "$2"); do
		"$build/heddle" explore --seed "$seed" --json - -- "$build/explore/$1" 2>/dev/null
	done | python3 -c '
import json, sys
text, at, runs, alike = sys.stdin.read(), 0, [], []
while text[at:].strip():
    at += len(text[at:]) - len(text[at:].lstrip())
    d, used = json.JSONDecoder().raw_decode(text[at:])
    at += used
    if d["found"]:
        runs.append(d["found"]["run"])
        alike.append(d["found"]["alike"])
print(len(runs), max(runs, default=0), min(alike, default=0))'
}

for source in tests/explore/*.c; do
	program=$(basename "$source" .c)
	native=$("$build/heddle" explore --native 1000 -n 1 --replays 1 --json - -- "$build/explore/$program" 2>/dev/null |
		python3 -c 'import json, sys; d = json.load(sys.stdin)["native"]; print(d["runs"], d["failed"])')
	expect "$program: native runs and failures: $native" "${native% *} == 1000 && ${native#* } <= 1"
	read -r found latest alike < <(explored "$program" "$series")
	expect "$program: $found of $series series find it, the slowest in run $latest; the same in $alike of 20 replays" \
		"found == series && latest <= 1000 && alike == 20"
done
echo "explore: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
