#!/usr/bin/env bats
# Programs that nobody here wrote: the same output as natively, on few kernel threads.
load common
load few

setup() {
	cat /usr/bin/* 2>/dev/null | head -c 2000000 >"$work/in" || true
}

# there_and_back TEAM ROOM COMPRESSOR DECOMPRESSOR: their words.
there_and_back() {
	# shellcheck disable=SC2086  # words
	the_same_on_few "$1" "$2" $3
	$4 <"$work/out" | cmp - "$work/in"
}

# Who reads the input and who writes the output may be kept by the kernel, at once. From 5.6 on xz shuts itself in, and
# its threads that wait for a cpu are taken for such.
@test "pigz" { there_and_back 9 2 "pigz -p 8 -c" "gzip -dc"; }
@test "xz -T4" { there_and_back 5 3 "xz -1 -T4 --block-size=256KiB -c" "xz -dc"; }
@test "zstd -T4" { there_and_back 5 2 "zstd -q -T4 -c" "zstd -q -dc"; }
@test "pbzip2" { there_and_back 6 2 "pbzip2 -p4 -1 -b1 -c" "bzip2 -dc"; }
@test "lbzip2" { there_and_back 6 2 "lbzip2 -n 4 -1 -c" "bzip2 -dc"; }

@test "x264, of 30 frames at once in 6 threads, then of each frame in slices" {
	python3 -c '
import sys
for f in range(30):
    sys.stdout.buffer.write(bytes((x * 3 + y * 2 + x * y // 7 + f * 5) & 255 for y in range(96) for x in range(160)))
    sys.stdout.buffer.write(bytes([128 + f]) * (160 * 96 // 2))' >"$work/in"
	for how in "--threads 6" "--threads 4 --sliced-threads"; do
		# shellcheck disable=SC2086  # words
		the_same_on_few 3 2 x264 --log-level none --no-progress $how --preset fast --demuxer raw --input-res 160x96 -o - -
		[ -s "$work/out" ]
	done
}

@test "python's threads, locks, queues and pools" {
	cat >"$work/threads.py" <<-'P'
		import concurrent.futures, queue, threading
		q, out, most = queue.Queue(10), [], threading.Semaphore(3)
		met, once, said = threading.Barrier(50), threading.Condition(), []
		def work():
		    while (x := q.get()) is not None:
		        with most: out.append(x * x)
		    met.wait()
		    with once:
		        said.append(1)
		        once.notify_all()
		        once.wait_for(lambda: len(said) == 50)
		t = [threading.Thread(target=work) for _ in range(50)]
		for x in t: x.start()
		for i in range(2000): q.put(i)
		for x in t: q.put(None)
		for x in t: x.join()
		with concurrent.futures.ThreadPoolExecutor(20) as pool: squares = list(pool.map(lambda n: n * n, range(500)))
		print(len(out), sum(out), len(said), sum(squares))
	P
	the_same_on_few 51 0 python3 "$work/threads.py"
	[ "$(cat "$work/out")" = "2000 2664667000 50 41541750" ]
}

@test "the demonstration runs" {
	run bash "$top/tests/demo.sh" build
	[ "$status" -eq 0 ]
	[[ ${lines[1]} == "python3 with 501 threads: 501 kernel threads" ]]
	n=$(grep -oE '[0-9]+ kernel threads$' <<<"${lines[3]}" | cut -d' ' -f1)
	# One for each P, the monitor, the starter; and one for each thread that the kernel lets wait, for memory, at one time.
	[ "$n" -le 20 ]
}
