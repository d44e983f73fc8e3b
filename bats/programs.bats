#!/usr/bin/env bats
# Programs that nobody here wrote: the same output as natively, on few kernel threads.
load common

setup() {
	for i in 1 2 3 4 5 6; do cat /usr/bin/* 2>/dev/null | head -c 2000000; done >"$work/in"
}

same_there_and_back() { # compressor, its options, decompressor
	run bash -c "GOMAXPROCS=2 LD_PRELOAD=$heddle $1 <$work/in >$work/out"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	$2 <"$work/out" | cmp - "$work/in"
	bash -c "$1 <$work/in" | cmp - "$work/out"
}

@test "pigz" { same_there_and_back "pigz -p 8 -c" "gzip -dc"; }
@test "xz -T4" { same_there_and_back "xz -1 -T4 --block-size=1MiB -c" "xz -dc"; }
@test "zstd -T4" { same_there_and_back "zstd -q -T4 -c" "zstd -q -dc"; }

@test "python's threads, locks and queues" {
	run preloaded 2 python3 -c '
import threading, queue
q, out = queue.Queue(10), []
def work():
    while (x := q.get()) is not None: out.append(x * x)
t = [threading.Thread(target=work) for _ in range(50)]
for x in t: x.start()
for i in range(2000): q.put(i)
for x in t: q.put(None)
for x in t: x.join()
print(len(out), sum(out))'
	[ "$status" -eq 0 ]
	[ "$output" = "2000 2664667000" ]
}

@test "the demonstration runs" {
	run bash "$top/tests/demo.sh" build
	[ "$status" -eq 0 ]
	[[ ${lines[1]} == "python3 with 501 threads: 501 kernel threads" ]]
	n=$(grep -oE '[0-9]+ kernel threads$' <<<"${lines[3]}" | cut -d' ' -f1)
	# One for each P, the monitor, the starter; and one for each thread that the kernel lets wait, for memory, at one time.
	[ "$n" -le 20 ]
}
