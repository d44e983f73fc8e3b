#!/usr/bin/env bash
# Runs the promises of bats/ and closes with their sum.
set -u
cd "$(dirname "$0")/.." || exit 1
# One that waits for what never comes fails, as any other.
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-900}
log=$(bats --tap "$@" 2>&1)
passed=$(grep -cE '^ok [0-9]' <<<"$log")
failed=$(grep -cE '^not ok [0-9]' <<<"$log")
planned=$(sed -n 's/^1\.\.//p' <<<"$log")
grep -v '^ok ' <<<"$log" | grep -v '^1\.\.'
if [ "$((passed + failed))" -ne "${planned:--1}" ]; then
	echo "not ok bats: planned ${planned:-nothing}, ran $((passed + failed))"
	failed=$((failed + 1))
fi
echo "$*: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
