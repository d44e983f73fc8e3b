#!/usr/bin/env bash
# Runs the commands given as arguments, one after the other, and closes with the sum of what
# they counted: "N passed, N failed". A command that fails without counting a failure, or
# counts nothing, is a failure itself.
set -u
export LC_ALL=C
passed=0
failed=0
for command in "$@"; do
	log=$(mktemp)
	start=$SECONDS
	# shellcheck disable=SC2086  # a command with its arguments
	$command 2>&1 | tee "$log" | grep -v '^ok '
	status=${PIPESTATUS[0]}
	counts=$(grep -aoE '[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	rm -f "$log"
	p=0
	f=0
	[ -z "$counts" ] || read -r p _ f _ <<<"$counts"
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
		echo "not ok $command: exit status $status"
		f=1
	elif [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then
		echo "not ok $command: counted nothing"
		f=1
	fi
	passed=$((passed + p))
	failed=$((failed + f))
	[ $((SECONDS - start)) -lt 20 ] || echo "  ($command took $((SECONDS - start)) s)"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
