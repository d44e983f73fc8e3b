origin "$work/f"
for i in {1..60}; do seq $i $((i + 5000)) >"$work/$i"; done
# An address that only getaddrinfo understands: each transfer has a thread look it up.
for i in {1..1500}; do
	printf 'url = "http://h%d.test:%d/%d"\nconnect-to = "::127.0x%0*d:%d"\noutput = "%s"\n' \
		$i $origin $((i % 60 + 1)) $((i % 60 + 1)) 1 $origin "out/$i"
done >"$work/transfers"
start() { mkdir "$run/out"; }
work() {
	cd "$run"
	local began=$EPOCHREALTIME
	# Who looks up a name is gone before anybody has seen him: heddle counts how many there were at once.
	serve env HEDDLE_STATS="$run/stats" curl --no-progress-meter --parallel --parallel-max 50 -K "$work/transfers"
	watching $pid
	status=0
	wait $pid || status=$?
	pid=
	rate=$(awk "BEGIN { printf \"%.0f\", 1500 / ($EPOCHREALTIME - $began) }")
	[ "$status" -eq 0 ]
	python3 -c '
import sys
for i in range(1, 1501):
    with open(f"{sys.argv[1]}/{i % 60 + 1}", "rb") as want, open(f"out/{i}", "rb") as got:
        assert got.read() == want.read(), i' "$work"
	rm out/*
}
