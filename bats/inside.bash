# Processes to be looked into, with $command. Read common.bash first.

# watched PROCS command...: starts it under heddle in the background, sets pid, and waits until it has written "ready"
# and its monitor has made the page, which it does in its own time.
watched() {
	local procs=$1
	shift
	# What one before has written is not its word.
	: >"$work/out"
	GOMAXPROCS=$procs LD_PRELOAD=$heddle "$@" >"$work/out" 2>"$work/err" 3>&- &
	pid=$!
	disown
	until_said ready "$work/out"
	comes "$pid" has "/proc/$pid/maps" memfd:heddle
}

# until_states TEXT: until its threads are in these states, in any order, as in `"waiting": 3, "runnable": 1`. One after
# the other is looked at: so if all are to wait, nobody may have gone to or from a cpu between two looks.
# until_asleep: natively, until none runs.
until_states() {
	local wanted before=
	wanted=$(sort_states <<<"$1")
	comes "$pid" in_states
}
in_states() {
	local look switches=
	look=$("$command" stats "$pid" --json) || true
	if [ "$(sed -n 's/.*"states": {\([^}]*\)}.*/\1/p' <<<"$look" | sort_states)" = "$wanted" ]; then
		switches=$(sed -n 's/.*"switches": \([0-9]*\).*/\1/p' <<<"$look")
		if [[ $wanted == *runn* || $switches = "$before" ]]; then return 0; fi
	fi
	before=$switches
	return 1
}
sort_states() { sed 's/, "/\n"/g' | sort; }
until_asleep() {
	local quiet=0
	comes "$pid" asleep
}
# Three looks in a row: one is not taken at one moment.
asleep() {
	grep -q '^State:.[RD]' "/proc/$pid/task/"*/status && quiet=0 || quiet=$((quiet + 1))
	((quiet == 3))
}

end_watched() {
	[ -z "${pid:-}" ] || kill -KILL "$pid" 2>/dev/null || true
}

# Fifty threads of three kinds: ten wait for an event, twenty for a lock, twenty sleep.
fifty_threads='
import threading, time
gate, lock = threading.Event(), threading.Lock()
lock.acquire()
def take(): lock.acquire(); lock.release()
kinds = [gate.wait] * 10 + [take] * 20 + [lambda: time.sleep(1000)] * 20
threads = [threading.Thread(target=k, daemon=True) for k in kinds]
for t in threads: t.start()
print("ready", flush=True)
time.sleep(1000)'
fifty() {
	watched 2 python3 -c "$fifty_threads"
	until_states '"waiting": 51'
}

# as_nobody arguments...: the heddle command as another user. For root.
as_nobody() {
	local dir
	cp "$command" "$work/heddle"
	for dir in "$BATS_RUN_TMPDIR" "$BATS_SUITE_TMPDIR" "$BATS_FILE_TMPDIR" "$work"; do
		chmod a+x "$dir" "$(dirname "$dir")"
	done
	setpriv --reuid 65534 --regid 65534 --clear-groups "$work/heddle" "$@"
}
