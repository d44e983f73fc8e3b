#!/usr/bin/env bash
# Every promise has one row in core/invariants.def, and every row holds: the place that
# enforces it is there, its id stands in the source, its test exists.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
ok() { passed=$((passed + 1)) && echo "ok $1"; }
not_ok() { failed=$((failed + 1)) && echo "not ok $1: $2"; }

rows=$(tr '\n\t' '  ' <core/invariants.def |
	grep -oE 'INVARIANT\([A-Za-z0-9_]+, +"[^"]*", +"[^"]*", +"[^"]*"\)')

field() { sed -E "s/^INVARIANT\(([A-Za-z0-9_]+), +\"([^\"]*)\", +\"([^\"]*)\", +\"([^\"]*)\"\)\$/\\$1/" <<<"$2"; }

# Why the place "file:function" does not enforce anything; nothing if it does.
place_wrong() {
	local file=${1%%:*} function=${1#*:}
	[ -f "$file" ] || { echo "no $file"; return; }
	grep -qE "\b$function\(" "$file" || echo "no $function in $file"
}

# Why "file:name" is no test.
test_wrong() {
	local file=${1%%:*} name=${1#*:}
	[ -f "$file" ] || { echo "no $file"; return; }
	case $file in
	*.pml)
		local run
		run=$(dirname "$file")/scenes.txt
		grep -qsE "\b$(basename "$file" .pml)\b" "$run" || echo "$run has no scene of $file"
		;;
	*)
		grep -qE "\b(TEST(_[A-Z]+)?|STORM)\(([0-9]+, *)?${name}[,)]" "$file" || echo "no test $name in $file"
		;;
	esac
}

while read -r row; do
	[ -n "$row" ] || continue
	id=$(field 1 "$row")
	why=$(place_wrong "$(field 3 "$row")")
	if [ -z "$why" ]; then ok "$id is enforced"; else not_ok "$id is enforced" "$why"; fi
	if grep -rqw --include='*.[chS]' "$id" core; then
		ok "$id stands in the source"
	else
		not_ok "$id stands in the source" "git grep -w $id finds its row only"
	fi
	why=$(test_wrong "$(field 4 "$row")")
	if [ -z "$why" ]; then ok "$id has its test"; else not_ok "$id has its test" "$why"; fi
done <<<"$rows"

ids=$(while read -r row; do field 1 "$row"; done <<<"$rows")
promised=$(
	printf '%s\n' WS_I{1..10} WS_L{1..4} WS_S{1..5} WS_F{1..5} \
		GMP_G{1..6} GMP_M{1..7} GMP_P{1..6} GMP_R{1..7}
)
for id in $promised; do
	n=$(grep -cx "$id" <<<"$ids")
	if [ "$n" -eq 1 ]; then ok "$id has one row"; else not_ok "$id has one row" "it has $n"; fi
done
# What does not parse here would go unchecked.
n=$(grep -c '^INVARIANT(' core/invariants.def)
if [ "$n" -eq "$(wc -l <<<"$rows")" ]; then
	ok "every row was read"
else
	not_ok "every row was read" "$n begin, $(wc -l <<<"$rows") were understood"
fi

echo "invariants: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
