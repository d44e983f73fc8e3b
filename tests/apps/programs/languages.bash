# Languages whose threads are pthreads.

# The system's own, whose tests are a package of its version's.
python=$(basename "$(readlink -f /usr/bin/python3)")

# regression TEST...: CPython's own tests of that name, all of which must pass, at least so many as $least; each
# test's outcome is that of the native run. With $resources of regrtest's.
regression() {
	local seconds=${limit:-300}
	limit=$seconds under "/usr/bin/$python" -B -m test -v --timeout $((seconds - 20)) --tempdir "$run" -u "${resources:-none}" \
		--junit-xml "$run/tests.xml" "$@" >said 2>&1 ||
		{ grep -E '^(FAIL|ERROR): ' said | sort -u | head -n 5 || tail -n 3 said; return 1; }
	grep -qE '^(Tests r|R)esult: SUCCESS' said
	"/usr/bin/$python" - <<-'P' >outcomes
		import xml.etree.ElementTree as tree
		for test in sorted(tree.parse("tests.xml").iter("testcase"), key=lambda t: t.get("name")):
		    print(test.get("name"), *(c.tag for c in test if c.tag in ("skipped", "failure", "error")))
	P
	[ "$(grep -cvE ' (skipped|failure|error)$' outcomes)" -ge "$least" ]
	same_as_natively outcomes
}

app python-threads "CPython's tests of threads, locks, local data, queues" "$python" "lib$python-testsuite"
app_python_threads() { least=250 regression test_thread test_threading test_threading_local test_queue test_threadsignals; }

app python-signals "CPython's tests of signals, and of stacks told in handlers" "$python" "lib$python-testsuite"
app_python_signals() { limit=380 least=90 regression test_signal test_faulthandler; }

app python-futures "CPython's tests of pools of threads and of processes" "$python" "lib$python-testsuite"
app_python_futures() { limit=580 least=200 regression test_concurrent_futures; }

app python-multiprocessing "CPython's tests of processes that share queues, locks, pools" "$python" "lib$python-testsuite"
app_python_multiprocessing() { limit=580 least=300 regression test_multiprocessing_fork; }

app python-asyncio "CPython's tests of event loops, executors, streams" "$python" "lib$python-testsuite"
app_python_asyncio() { limit=580 least=2000 regression test_asyncio; }

app python-net "CPython's tests of sockets, select, epoll, servers in threads" "$python" "lib$python-testsuite"
app_python_net() { least=400 regression test_socket test_select test_epoll test_poll test_httpservers -i '*VSOCK*'; }

# Of the network these want no more than the machine's own.
app python-servers "CPython's tests of servers whose requests are threads or processes" "$python" "lib$python-testsuite"
app_python_servers() { resources=network least=20 regression test_socketserver; }

app python-processes "CPython's tests of fork, exec, wait and pipes" "$python" "lib$python-testsuite"
app_python_processes() { least=250 regression test_subprocess test_fork1 test_wait3 test_wait4 test_popen; }

app numpy "products of matrices by OpenBLAS's threads" python3-numpy libopenblas0-pthread
app_numpy() {
	OPENBLAS_NUM_THREADS=4 good /usr/bin/python3 -c '
import numpy as np
r = np.random.default_rng(1)
a, b = r.integers(0, 9, (500, 500)).astype(float), r.integers(0, 9, (500, 500)).astype(float)
right = (a.astype(int) @ b.astype(int))
for _ in range(20):
    assert (a @ b == right).all()
print("all good")'
}

app zeromq "8,000 messages to 8 workers and back, by 4 I/O threads" python3-zmq
app_zeromq() {
	good /usr/bin/python3 -c '
import threading, zmq
c = zmq.Context(io_threads=4)
out, back = c.socket(zmq.PUSH), c.socket(zmq.PULL)
to, fro = out.bind_to_random_port("tcp://127.0.0.1"), back.bind_to_random_port("tcp://127.0.0.1")
def work():
    i, o = c.socket(zmq.PULL), c.socket(zmq.PUSH)
    i.connect(f"tcp://127.0.0.1:{to}")
    o.connect(f"tcp://127.0.0.1:{fro}")
    while (m := i.recv()): o.send(b"%d" % (int(m) * 3))
    i.close(); o.close()
t = [threading.Thread(target=work) for _ in range(8)]
for x in t: x.start()
def feed():
    for i in range(8000): out.send(b"%d" % i)
f = threading.Thread(target=feed)
f.start()
assert sum(int(back.recv()) for _ in range(8000)) == 3 * 8000 * 7999 // 2
f.join()
while any(x.is_alive() for x in t):
    out.send(b"")
    for x in t: x.join(0.02)
out.close(0); back.close(); c.term()
print("all good")'
}

app node "a pool of 8: files, digests, zlib; 8 workers at one shared counter; children" nodejs
app_node() { UV_THREADPOOL_SIZE=8 good node "$here/source/node.js"; }

app ruby "50 threads, a queue, timeouts, children" ruby
app_ruby() {
	good ruby -e '
require "timeout"
q, r, m = SizedQueue.new(10), Queue.new, Mutex.new
sum = 0
t = 50.times.map { Thread.new { while (x = q.pop) != :end; m.synchronize { sum += x * x }; end; r << 1 } }
2000.times { |i| q << i }
50.times { q << :end }
t.each(&:join)
raise "sum" unless sum == 2664667000 && r.size == 50
begin; Timeout.timeout(0.05) { sleep 60 }; raise "slept"; rescue Timeout::Error; end
raise "children" unless 10.times.map { |i| Thread.new { `echo #{i}`.to_i } }.map(&:value) == (0..9).to_a
puts "all good"'
}

app perl "30 interpreters as threads, a shared queue" perl
app_perl() {
	good perl -e '
use threads; use threads::shared; use Thread::Queue;
my $q = Thread::Queue->new; my $sum :shared = 0;
my @t = map { threads->create(sub { while (defined(my $x = $q->dequeue)) { lock $sum; $sum += $x } 7 }) } 1..30;
$q->enqueue($_) for 1..3000; $q->end;
for (@t) { die "result" unless $_->join == 7 }
die "sum $sum" unless $sum == 4501500;
print "all good\n"'
}

app erlang "8 schedulers, 5,000 processes in a ring, files by dirty schedulers" erlang-base
app_erlang() {
	good erl -noshell -noinput +S 8:8 +SDio 4 -eval '
L = fun(F, N) -> receive {X, P} -> P ! {X + 1, self()}, case N of 1 -> ok; _ -> F(F, N - 1) end end end,
Self = self(),
Ring = fun() -> Last = lists:foldl(fun(_, To) -> spawn(fun() -> receive X -> To ! X + 1 end end) end, Self, lists:seq(1, 5000)), Last ! 0, receive 5000 -> ok end end,
[Ring() || _ <- lists:seq(1, 20)],
[spawn(fun() -> F = "f" ++ integer_to_list(I), ok = file:write_file(F, binary:copy(<<"x">>, I * 100)), {ok, B} = file:read_file(F), Self ! {done, byte_size(B)} end) || I <- lists:seq(1, 200)],
2010000 = lists:sum([receive {done, N} -> N end || _ <- lists:seq(1, 200)]),
io:format("all good~n"), halt().'
}

app java "pools, fork and join, monitors, 300 sleepers, collections of garbage" default-jdk-headless
app_java() { good java -Xmx256m "$here/source/Threads.java"; }

app java-pressure "8 threads in stack overflows, 8 that fill the heap; by three collectors" default-jdk-headless
app_java_pressure() {
	for collector in Serial Parallel G1; do good java -Xmx96m -Xss512k -XX:+Use${collector}GC "$here/source/Pressure.java"; done
}

# Go's runtime is refused by the command, and left alone where the object is preloaded all the same.
app go "a Go program, static, and one with C in it: refused, or it runs natively" golang-go gcc libc6-dev
app_go() {
	export GO111MODULE=off GOTOOLCHAIN=local GOCACHE=$cache/go
	cat >static.go <<-'P'
		package main
		import ("fmt"; "sync")
		func main() {
			var w sync.WaitGroup
			c := make(chan int)
			for i := 0; i < 100; i++ {
				w.Add(1)
				go func(i int) { c <- i; w.Done() }(i)
			}
			sum := 0
			for i := 0; i < 100; i++ { sum += <-c }
			w.Wait()
			if sum == 4950 { fmt.Println("all good") }
		}
	P
	sed 's|^import|// int twice(int x) { return 2 * x; }\nimport "C"\nimport|; s/sum == 4950/C.twice(C.int(sum)) == 9900/' static.go >mixed.go
	for p in static mixed; do
		go build -o $p $p.go
		good ./$p
		[ ${#preload[@]} -gt 0 ] || continue
		status=0
		"${heddle%/*}/heddle" run ./$p >refusal 2>&1 || status=$?
		[ $status -eq 126 ]
		grep -q "^heddle: ./$p: it is a Go program" refusal
	done
	[ ${#preload[@]} -eq 0 ] || grep -q "^heddle: runs natively: Go's runtime is present" said
}

app guile "20 threads, a mutex, futures" guile-3.0
app_guile() {
	export GUILE_AUTO_COMPILE=0
	good guile -c '
(use-modules (ice-9 threads) (ice-9 futures))
(define m (make-mutex)) (define n 0)
(define t (map (lambda (i) (call-with-new-thread (lambda () (do ((k 0 (+ k 1))) ((= k 500)) (with-mutex m (set! n (+ n 1)))) i))) (iota 20)))
(unless (equal? (map join-thread t) (iota 20)) (error "results"))
(unless (= n 10000) (error "count" n))
(unless (= (apply + (par-map (lambda (x) (* x x)) (iota 500))) 41541750) (error "sum"))
(display "all good\n")'
}

app sbcl "20 threads, a mutex, a waitqueue" sbcl
app_sbcl() {
	good sbcl --noinform --no-sysinit --no-userinit --non-interactive --eval '
(let ((m (sb-thread:make-mutex)) (c (sb-thread:make-waitqueue)) (n 0) (there 0))
  (let ((ts (loop for i below 20 collect (let ((i i)) (sb-thread:make-thread (lambda ()
      (sb-thread:with-mutex (m) (incf there) (sb-thread:condition-broadcast c) (loop while (< there 20) do (sb-thread:condition-wait c m)))
      (loop repeat 20000 do (sb-thread:with-mutex (m) (incf n))) i))))))
    (assert (= 190 (reduce (function +) (mapcar (function sb-thread:join-thread) ts))))
    (assert (= n 400000))
    (format t "all good~%")))'
}

# Its locks wake by signals.
app ecl "20 threads, a lock that is handed on by signals, a semaphore, a mailbox, one that is interrupted" ecl
app_ecl() {
	cat >t.lisp <<-'P'
		(let* ((l (mp:make-lock)) (n 0)
		       (ts (loop repeat 20 collect (mp:process-run-function "count"
		             (lambda () (dotimes (k 20000) (mp:with-lock (l) (incf n))) (make-array 100000))))))
		  (mapc (function mp:process-join) ts)
		  (assert (= n 400000)))
		(let ((s (mp:make-semaphore :count 0)))
		  (dotimes (i 10) (mp:process-run-function "post" (lambda () (sleep 0.01) (mp:signal-semaphore s))))
		  (dotimes (i 10) (mp:wait-on-semaphore s)))
		(let ((box (mp:make-mailbox :count 5)))
		  (dotimes (i 8) (let ((i i)) (mp:process-run-function "send" (lambda () (mp:mailbox-send box i)))))
		  (assert (= 28 (loop repeat 8 sum (mp:mailbox-read box)))))
		(let ((p (mp:process-run-function "sleep" (lambda () (sleep 100)))))
		  (sleep 0.1)
		  (mp:interrupt-process p (lambda () (mp:exit-process)))
		  (mp:process-join p))
		(format t "all good~%")
		(ext:quit 0)
	P
	good ecl --norc --shell t.lisp
}

app ocaml "20 threads, a mutex, a condition, events" ocaml-nox
app_ocaml() {
	cat >t.ml <<-'P'
		let m = Mutex.create () and c = Condition.create () and n = ref 0 and there = ref 0
		let work i =
		  Mutex.lock m; incr there; Condition.broadcast c;
		  while !there < 20 do Condition.wait c m done; Mutex.unlock m;
		  for _ = 1 to 1000 do Mutex.lock m; n := !n + i; Mutex.unlock m; if i = 7 then Thread.yield () done
		let () =
		  let t = List.init 20 (Thread.create work) in
		  List.iter Thread.join t;
		  assert (!n = 190000);
		  let ch = Event.new_channel () in
		  let p = Thread.create (fun () -> for i = 1 to 2000 do Event.sync (Event.send ch i) done) () in
		  let s = ref 0 in
		  for _ = 1 to 2000 do s := !s + Event.sync (Event.receive ch) done;
		  Thread.join p; assert (!s = 2001000); print_endline "all good"
	P
	ocamlfind ocamlopt -version >/dev/null 2>&1 || true
	ocamlc -I +threads unix.cma threads.cma -o t t.ml
	good ./t
}
