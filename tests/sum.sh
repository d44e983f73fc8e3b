#!/usr/bin/env bash
# Runs the commands given as arguments, one after the other, and closes with the sum of what
# they counted: "N passed, N failed". A command that fails without counting a failure, or
# counts nothing, is a failure itself. With -j N so many at a time; what each says is shown
# when it has ended, whole.
set -u
export LC_ALL=C
passed=0
failed=0
if [ "${1:-}" = -j ]; then
	jobs=$2
	shift 2
	logs=$(mktemp -d)
	trap 'rm -rf "$logs"' EXIT
	# shellcheck disable=SC2016  # what stands there is the other shell's
	# xargs, for a job of the shell's would ignore an interrupt, and so would the tests.
	printf '%s\0' "$@" | xargs -0 -P "$jobs" -n 1 bash -c '
		log=$(mktemp "$1/XXXXXX")
		bash "$0" "$2" >"$log" 2>&1
		flock "$1" sed "\$d" "$log"' "$0" "$logs"
	for log in "$logs"/*; do
		# One that was killed counts nothing.
		read -r p _ f _ <<<"$(tail -n 1 "$log" | grep -xE '[0-9]+ passed, [0-9]+ failed' || echo 0 passed, 1 failed)"
		passed=$((passed + p))
		failed=$((failed + f))
		shift
	done
	failed=$((failed + $#))
	set --
fi
for command in "$@"; do
	log=$(mktemp)
	start=$SECONDS
	# shellcheck disable=SC2086  # a command with its arguments
	$command 2>&1 | tee "$log" | grep --line-buffered -v '^ok '
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
