#!/usr/bin/env bash
# heddle ab on real processes: how often it sees a difference where there is none, and whether it finds one of 5 %.
# Asks much of the machine, which should be quiet. Usage: tests/ab.sh BUILD [REPEATS]
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1 repeats=${2:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# Computes for so many million steps; for one part in twenty more if its scheduler has the seed 2.
gcc -O1 -x c - -o "$work/compute" <<'C'
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	const char *seed = getenv("HEDDLE_SEED");
	long n = atol(argv[argc - 1]) * 1000000;
	if (seed && strcmp(seed, "2") == 0)
		n += n / 20;
	for (volatile long i = 0; i < n; i++)
		;
}
C

# verdicts REPEATS arguments...: of that many experiments, how many say that b is less, and that it is more; and the
# noise, half the median width of their intervals in percent.
verdicts() {
	local times=$1
	shift
	for _ in $(seq "$times"); do
		"$build/heddle" ab --json - "$@" 2>/dev/null
	done | python3 -c '
import json, sys
text, at, found, n, widths = sys.stdin.read(), 0, {"less": 0, "more": 0}, 0, []
while text[at:].strip():
    d, used = json.JSONDecoder().raw_decode(text[at:].lstrip())
    at += len(text[at:]) - len(text[at:].lstrip()) + used
    n += 1
    verdict = d["comparisons"][1]["verdict"]
    widths.append((d["comparisons"][1]["high"] - d["comparisons"][1]["low"]) * 50)
    found[verdict] = found.get(verdict, 0) + 1
print(n, found["less"], found["more"], "%.1f" % sorted(widths)[len(widths) // 2])'
}

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

for metric in wall cpu; do
	read -r n less more noise < <(verdicts "$repeats" -n 10 --warmup 0 --metric "$metric" --a native --b native "$work/compute" 2)
	expect "$metric: of $n experiments on the same, 10 rounds, $((less + more)) see a difference (noise ± $noise %)" \
		"n == repeats && (less + more) * 100 <= 7 * n"
	read -r n less more noise < <(verdicts 20 -n 30 --warmup 1 --metric "$metric" --a go,seed=1 --b go,seed=2 "$work/compute" 10)
	expect "$metric: of $n experiments on 5 %, 30 rounds, $more find it, $less the contrary (noise ± $noise %)" \
		"n == 20 && less == 0 && more >= 17"
done
echo "ab: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
