#!/usr/bin/env bats
# Traces: whole, true, and in nobody's way. trace.py reads them.
load common
load inside
bats_require_minimum_version 1.5.0
command=$top/build/heddle

teardown() {
	end_watched
}

# read_trace [--killed|--busy] FILE: sets found, by trace.py's names.
read_trace() {
	local line
	declare -gA found=()
	python3 "$top/bats/trace.py" "$@" >"$work/found" || return 1
	while IFS== read -r line value; do found[$line]=$value; done <"$work/found"
}

# goes_on PID N: once N threads of it have ended; it waits for a signal. Who was joined is there a little longer, and what
# goes on at the end of a process is in the totals or not.
goes_on() {
	comes "$1" have_ended "$@"
	kill -USR1 "$1"
}
have_ended() { "$command" stats "$1" --json 2>/dev/null | grep -q "\"finished\": $2,"; }

# Threads that take a lock, sleep and end. With an argument it is to be told when to end, by goes_on.
python_threads() {
	cat >"$work/threads.py" <<-'END'
		import signal, sys, threading, time
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		lock = threading.Lock()
		def work():
		    for _ in range(50):
		        with lock: sum(range(1000))
		        time.sleep(0.001)
		threads = [threading.Thread(target=work) for _ in range(10)]
		for t in threads: t.start()
		for t in threads: t.join()
		if len(sys.argv) > 1: signal.sigwait([signal.SIGUSR1])
	END
}

@test "python's threads: every run, every wait, and the totals of the scheduler" {
	python_threads
	for procs in 1 2 8; do
		"$command" run -p "$procs" --trace "$work/t$procs" python3 "$work/threads.py" told >"$work/said" 2>&1 3>&- &
		pid=$!
		goes_on "$pid" 10
		wait "$pid"
		[ ! -s "$work/said" ]
		read_trace "$work/t$procs"
		[ "${found[total_lost]}" -eq 0 ]
		[ "${found[total_procs]}" -eq "$procs" ]
		[ "${found[exits]}" -ge 10 ]
		[ "${found[wait_sleep]}" -ge 250 ]
		[ "$(stat -c %a "$work/t$procs")" = 600 ]
	done
}

@test "xz with eight threads" {
	head -c 8000000 /dev/urandom >"$work/big"
	run "$command" run -p 2 --trace "$work/t" xz -T8 -0 -k --block-size=500KiB "$work/big"
	[ "$status" -eq 0 ]
	# The last is perhaps not asleep yet.
	read_trace --busy "$work/t"
	[ "${found[total_lost]}" -eq 0 ]
	[ "${found[gs]}" -ge 9 ]
	[ "${found[wait_futex]}" -ge 8 ]
	[ "${found[arrows]}" -ge 8 ]
}

# Two that hand each other a lock; names; one that blocks in a call. With an argument it is to be told when to end.
pairs() {
	build pairs <<-'C'
		#include <pthread.h>
		#include <signal.h>
		#include <stdio.h>
		#include <unistd.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
		static int whose, fds[2];
		static void *take_turns(void *arg)
		{
			int me = arg != NULL;
			pthread_setname_np(pthread_self(), me ? "right" : "left");
			pthread_mutex_lock(&lock);
			for (int i = 0; i < 200; i++) {
				while (whose != me)
					pthread_cond_wait(&turn, &lock);
				whose = !me;
				pthread_cond_signal(&turn);
			}
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		static void *wait_for_byte(void *arg)
		{
			char c;
			read(fds[0], &c, 1);
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t[3];
			sigset_t told;
			int sig;
			(void)argv;
			sigemptyset(&told);
			sigaddset(&told, SIGUSR1);
			sigprocmask(SIG_BLOCK, &told, NULL);
			pipe(fds);
			pthread_create(&t[2], NULL, wait_for_byte, NULL);
			pthread_create(&t[0], NULL, take_turns, NULL);
			pthread_create(&t[1], NULL, take_turns, &lock);
			pthread_join(t[0], NULL);
			pthread_join(t[1], NULL);
			write(fds[1], "x", 1);
			pthread_join(t[2], NULL);
			printf("%p\n", (void *)&lock);
			fflush(stdout);
			if (argc > 1)
				sigwait(&told, &sig);
			return 0;
		}
	C
}

# traced_pairs PROCS: $work/t.
traced_pairs() {
	pairs
	"$command" run -p "$1" --trace "$work/t" "$work/pairs" told 3>&- &
	pid=$!
	goes_on "$pid" 3
	wait "$pid"
}

@test "who readied whom, who waited for what, and names" {
	traced_pairs 1
	read_trace "$work/t"
	[ "${found[arrows]}" -ge 200 ]
	[ "${found[wait_IO_read]}" -ge 1 ]
	grep -q '"name":"G [0-9]* left"' "$work/t"
	grep -q '"name":"G [0-9]* right"' "$work/t"
	grep -q '"name":"G 1 main"' "$work/t"
	grep -q '"name":"IO read","cat":"wait","args":{"w":3,"fd":[0-9]*}' "$work/t"
}

@test "a program that is killed leaves what it did, at whatever moment" {
	python_threads
	sed -i 's/range(50)/range(10**9)/' "$work/threads.py"
	for i in $(seq 12); do
		HEDDLE_TRACE=$work/k$i LD_PRELOAD=$heddle GOMAXPROCS=2 python3 "$work/threads.py" 3>&- &
		pid=$!
		until [ -s "$work/k$i" ] && [ "$(grep -c '"m":[0-9]*,"end":' "$work/k$i")" -ge 20 ]; do kill -0 "$pid"; done
		sleep "0.0$((i * 7))"
		kill -KILL "$pid"
		wait "$pid" || true
		read_trace --killed "$work/k$i"
		[ "${found[runs]}" -ge 10 ]
	done
}

@test "one that waits until it is killed: its waits stand in the file while it lives" {
	fifty_traced() { HEDDLE_TRACE=$work/t fifty; }
	fifty_traced
	# Its last second or two are not in the file yet.
	all_wait() { read_trace "$work/t" && [ "${found[open]}" -ge 50 ]; }
	comes "$pid" all_wait
	kill -KILL "$pid"
	ended "$pid"
	read_trace "$work/t"
	[ "${found[open]}" -ge 50 ]
}

# Four that give way all the time; and more that one makes ready in one go than a ring has room for.
storm() {
	build storm <<-'C'
		#include <pthread.h>
		#include <sched.h>
		enum { CROWD = 6000 };
		static pthread_barrier_t all;
		static void *crowd(void *arg)
		{
			pthread_barrier_wait(&all);
			return arg;
		}
		static void *storm(void *arg)
		{
			for (int i = 0; i < 400000; i++)
				sched_yield();
			return arg;
		}
		int main(void)
		{
			pthread_t t[4];
			for (int i = 0; i < 4; i++)
				pthread_create(&t[i], NULL, storm, NULL);
			for (int i = 0; i < 4; i++)
				pthread_join(t[i], NULL);
			pthread_attr_t small;
			pthread_attr_init(&small);
			pthread_attr_setstacksize(&small, 32768);
			pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
			pthread_barrier_init(&all, NULL, CROWD + 1);
			for (int i = 0; i < CROWD; i++)
				pthread_create(&t[0], &small, crowd, NULL);
			pthread_barrier_wait(&all);
			pthread_exit(NULL);
		}
	C
}

@test "more than can be written is counted and said, and the rest is true" {
	storm
	run "$command" run -p 2 --trace "$work/t" "$work/storm"
	[ "$status" -eq 0 ]
	read_trace "$work/t"
	[ "${found[total_lost]}" -gt 0 ]
	[ "${found[runs]}" -gt 1000 ]
}

@test "four thousand threads that wait to the end: each is there, named, and so is each P" {
	build many <<-'C'
		#include <pthread.h>
		#include <unistd.h>
		static pthread_barrier_t all;
		static void *waits(void *arg)
		{
			pthread_barrier_wait(&all);
			pause();
			return arg;
		}
		int main(void)
		{
			pthread_attr_t small;
			pthread_t t;
			pthread_attr_init(&small);
			pthread_attr_setstacksize(&small, 65536);
			pthread_barrier_init(&all, NULL, 4001);
			for (int i = 0; i < 4000; i++)
				pthread_create(&t, &small, waits, NULL);
			pthread_barrier_wait(&all);
			return 0;
		}
	C
	for procs in 1 8; do
		run "$command" run -p "$procs" --trace "$work/t$procs" "$work/many"
		[ "$status" -eq 0 ]
		# The last are perhaps not asleep yet.
		read_trace --busy "$work/t$procs"
		[ "${found[total_lost]}" -gt 0 ] || [ "${found[gs]}" -ge 4001 ]
		[ "${found[total_lost]}" -gt 0 ] || [ "${found[open]}" -ge 4000 ]
	done
}

@test "a file has a limit: there the trace ends, whole and true, and the program goes on" {
	storm
	run "$command" run -p 2 --trace "$work/t" --trace-limit 1M "$work/storm"
	[ "$status" -eq 0 ]
	[[ $output == "heddle: trace: $work/t: the trace ends here, for the file has reached its limit (HEDDLE_TRACE_LIMIT)" ]]
	[ "$(stat -c %s "$work/t")" -le 1048576 ]
	[ "$(stat -c %s "$work/t")" -ge 500000 ]
	read_trace "$work/t"
	[ "${found[total_cut]}" -eq 1 ]
	[ "${found[runs]}" -gt 500 ]
	run "$command" trace summarize "$work/t"
	[ "$status" -eq 0 ]
	[[ $output == *"the file had reached its limit"* ]]
	[[ $output != *"the scheduler counted"* ]]
	# Of one that ctl begins, too; and then of another.
	HEDDLE_TRACE_LIMIT=1m watched 2 python3 -c '
import threading, time
def work():
    while True: time.sleep(0.0001)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)'
	for name in one other; do
		"$command" ctl "$pid" "trace=$work/$name"
		until_said "$work/$name: the trace ends here, for" "$work/err"
		read_trace "$work/$name"
		[ "${found[total_cut]}" -eq 1 ]
		[ "$(stat -c %s "$work/$name")" -le 1048576 ]
	done
	run "$command" ctl "$pid" trace=off
	[ "$status" -eq 1 ]
	[[ $output == *"it is not traced"* ]]
}

@test "a limit that is none is said" {
	for bad in 1 many 5X -1 "" 1MM 99999999999G 1048575; do
		run "$command" run --trace-limit "$bad" true
		[ "$status" -eq 2 ]
		[[ $output == *"is no size of 1M or more"* ]]
		HEDDLE_TRACE_LIMIT=$bad run preloaded 2 /bin/true
		[ "$status" -eq 0 ]
		[[ $output == "heddle: HEDDLE_TRACE_LIMIT=$bad is no size of 1M or more"*", ignored" ]]
	done
	for good in 0 1M 3g 1024k 1048576; do
		run "$command" run --trace-limit "$good" true
		[ "$status" -eq 0 ]
		[ -z "$output" ]
	done
}

@test "no descriptor of the program's is taken" {
	cat >"$work/fds.py" <<-'END'
		import os, threading, time
		t = threading.Thread(target=time.sleep, args=(0.3,))
		t.start()
		time.sleep(0.2)
		print(sorted(os.listdir("/proc/self/fd"), key=int), os.open("/dev/null", 0))
		t.join()
	END
	preloaded 2 python3 "$work/fds.py" >"$work/without" 3>&-
	HEDDLE_TRACE=$work/t preloaded 2 python3 "$work/fds.py" >"$work/with" 3>&-
	[ -s "$work/t" ]
	[ -s "$work/with" ]
	[ "$(cat "$work/with")" = "$(cat "$work/without")" ]
}

@test "no file is written over, and no link followed" {
	python_threads
	echo precious >"$work/t"
	run "$command" run --trace "$work/t" python3 "$work/threads.py"
	[ "$status" -eq 2 ]
	[[ $output == *"is there already"* ]]
	ln -s "$work/elsewhere" "$work/link"
	run "$command" run --trace "$work/link" python3 "$work/threads.py"
	[ "$status" -eq 2 ]
	# By the variable alone: beside it.
	HEDDLE_TRACE=$work/link LD_PRELOAD=$heddle GOMAXPROCS=2 python3 "$work/threads.py" told 3>&- &
	pid=$!
	goes_on "$pid" 10
	wait "$pid"
	[ ! -e "$work/elsewhere" ]
	[ "$(cat "$work/t")" = precious ]
	read_trace "$work"/link.*
}

@test "a file that cannot be made or grow is said in a line, and no more" {
	python_threads
	HEDDLE_TRACE=$work/nowhere/t run preloaded 2 python3 "$work/threads.py"
	[ "$status" -eq 0 ]
	[[ $output == "heddle: trace: $work/nowhere/t: cannot be made: No such file or directory" ]]
	(
		ulimit -f 200
		HEDDLE_TRACE=$work/t preloaded 2 python3 "$work/threads.py" 2>"$work/err"
	)
	[[ $(cat "$work/err") == "heddle: trace: $work/t: the trace ends here: File too large" ]]
	python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) > 100' "$work/t"
}

# Eight threads that sleep and end, before and after what $1 names. Sets pid; each eight have ended, by goes_on, before it
# does the next.
oddity() {
	cat >"$work/odd.py" <<-'END'
		import os, resource, signal, sys, threading, time
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		def go():
		    threads = [threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(20)]) for _ in range(8)]
		    for t in threads: t.start()
		    for t in threads: t.join()
		    signal.sigwait([signal.SIGUSR1])
		def daemon():
		    if os.fork(): os._exit(0)
		    os.setsid()
		    os.chdir("/")
		    os.closerange(0, 64)
		    for _ in range(3): os.open("/dev/null", os.O_RDWR)
		def other_root():
		    os.chroot(sys.argv[2])
		    os.chdir("/")
		def other_user():
		    os.setgid(65534)
		    os.setuid(65534)
		do = {
		    "closes": lambda: os.closerange(0, 65536),
		    "daemon": daemon,
		    "chdir": lambda: os.chdir("/"),
		    "chroot": other_root,
		    "setuid": other_user,
		    "limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)),
		    "exec": lambda: os.environ.update(NEXT="") or os.execv(sys.executable, [sys.executable, sys.argv[0], "chdir"])
		}[sys.argv[1]]
		if "NEXT" not in os.environ: go()
		do()
		go()
	END
	cd "$work"
	"$command" run -p 2 --trace "$1.json" python3 odd.py "$1" "$work/root" 3>&- &
	pid=$!
	goes_on "$pid" 8
}
oddity_in_one() {
	oddity "$1"
	goes_on "$pid" 16
	wait "$pid"
	read_trace "$work/$1.json"
	[ "${found[exits]}" -eq 16 ]
}

@test "programs that close everything, become daemons, others or another user's, or change their root" {
	mkdir "$work/root"
	for odd in closes chdir limits; do oddity_in_one "$odd"; done
	if [ "$(id -u)" -eq 0 ]; then
		for odd in chroot setuid; do oddity_in_one "$odd"; done
	fi
	# What was and what comes are two processes, or one that is another program then.
	for odd in daemon exec; do
		oddity "$odd"
		# The next is there when its trace is.
		comes compgen -G "$work/$odd.json.*" >/dev/null
		pid=$(echo "$work/$odd".json.*)
		pid=${pid##*.}
		goes_on "$pid" 8
		ended "$pid"
		read_trace "$work/$odd.json.$pid"
		[ "${found[exits]}" -eq 8 ]
		read_trace --busy "$work/$odd.json"
		[ "${found[exits]}" -eq 8 ]
	done
	pid=
}

@test "a disk that is full ends the trace, not the program" {
	mkdir "$work/small"
	unshare --map-root-user -m mount -t tmpfs none "$work/small" 2>/dev/null || skip "no namespace of mounts"
	python_threads
	# Room for some of it, and for no event at all.
	for size in 32k 4k; do
		unshare --map-root-user -m sh -c "mount -t tmpfs -o size=$size none '$work/small' &&
			'$command' run -p 2 --trace '$work/small/t' python3 '$work/threads.py'; echo status=\$?
			'$command' trace summarize '$work/small/t'" >"$work/said" 2>&1
		grep -qx 'status=0' "$work/said"
		grep -qx "heddle: trace: $work/small/t: the trace ends here: No space left on device" "$work/said"
		grep -q "could grow no further" "$work/said"
	done
}

@test "a process of the same family has a file of its own; a program that is another's next has what was" {
	cat >"$work/family.py" <<-'END'
		import os, signal, sys, threading
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		def one():
		    t = threading.Thread(target=print); t.start(); t.join()
		    signal.sigwait([signal.SIGUSR1])
		one()
		child = os.fork()
		if child == 0:
		    one()
		    os._exit(0)
		os.waitpid(child, 0)
		print(child, flush=True)
		os.execv("/bin/true", ["true"])
	END
	HEDDLE_TRACE=$work/t LD_PRELOAD=$heddle GOMAXPROCS=2 python3 "$work/family.py" >"$work/said" 3>&- &
	pid=$!
	goes_on "$pid" 1
	comes compgen -G "$work/t.*" >/dev/null
	child=$(echo "$work"/t.*)
	child=${child##*.}
	goes_on "$child" 1
	wait "$pid"
	[ "$(tail -n 1 "$work/said")" = "$child" ]
	read_trace "$work/t.$child"
	[ "${found[exits]}" -ge 1 ]
	python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/t"
	grep -q '"end":"exit"' "$work/t"
}

@test "one with more rights than its user has is not traced" {
	[ "$(id -u)" -eq 0 ] || skip "it takes root to give rights"
	mkdir -m 777 "$work/open"
	printf '%s\n' '#include <pthread.h>' '#include <stdio.h>' '#include <sys/auxv.h>' \
		'static void *f(void *a) { return a; }' \
		'int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0);' \
		'printf("secure=%lu\n", getauxval(AT_SECURE)); }' >"$work/p.c"
	# Linked with it, for the loader does not preload into such.
	cp "$heddle" "$work/open/libheddle.so"
	gcc -o "$work/open/p" "$work/p.c" -Wl,--no-as-needed "$work/open/libheddle.so" -Wl,-rpath,"$work/open"
	for dir in "$BATS_RUN_TMPDIR" "$BATS_SUITE_TMPDIR" "$BATS_FILE_TMPDIR" "$work"; do
		chmod a+x "$dir" "$(dirname "$dir")"
	done
	HEDDLE_TRACE=$work/open/before run "$work/open/p"
	[[ $output == "secure=0" ]]
	[ -e "$work/open/before" ]
	chown 65534 "$work/open/p"
	chmod 4755 "$work/open/p"
	HEDDLE_TRACE=$work/open/t run "$work/open/p"
	[[ $output == "secure=1" ]] || skip "$work/open is mounted nosuid"
	[ ! -e "$work/open/t" ]
}

# A process that takes a lock and sleeps until it is killed, started as any other.
busy() {
	python_threads
	sed -i 's/range(50)/range(10**9)/; s/^for t in threads: t.join/print("ready", flush=True)\n&/' "$work/threads.py"
	watched 2 python3 "$work/threads.py"
}

@test "ctl trace=on and off: as often as one likes, each a file of its own" {
	busy
	cd "$work"
	for round in 1 2 3; do
		run "$command" ctl "$pid" trace=on
		[ "$status" -eq 0 ]
		[ "$output" = "$pid writes $work/heddle-$pid.json until trace=off" ]
		run "$command" ctl "$pid" "trace=$work/other"
		[ "$status" -eq 1 ]
		[[ $output == *"it is traced already"* ]]
		until grep -q '"runnable"' "heddle-$pid.json"; do :; done
		run "$command" ctl "$pid" trace=off
		[ "$status" -eq 0 ]
		read_trace "heddle-$pid.json"
		[ "${found[runs]}" -ge 1 ]
		[ "${found[total_whole]}" -eq 0 ]
		# It is over: nothing is added.
		mv "heddle-$pid.json" "t$round"
		cksum "t$round" >"sum$round"
	done
	run "$command" ctl "$pid" trace=off
	[ "$status" -eq 1 ]
	[[ $output == *"it is not traced"* ]]
	cat sum? | diff - <(cksum t1 t2 t3)
	kill -0 "$pid"
}

@test "ctl trace=on: who waited before is there, with a name; an idle process obeys, too" {
	fifty
	until_asleep
	run "$command" ctl "$pid" "trace=$work/t"
	[ "$status" -eq 0 ]
	run "$command" ctl "$pid" trace=off
	[ "$status" -eq 0 ]
	read_trace "$work/t"
	[ "${found[open]}" -ge 51 ]
	[ "${found[wait_futex]}" -ge 30 ]
	[ "${found[wait_sleep]}" -ge 20 ]
	[ "${found[named]}" -ge 1 ]
}

@test "ctl trace=off ends the trace of a program that was started with one" {
	python_threads
	sed -i 's/range(50)/range(10**9)/; s/^for t in threads: t.join/print("ready", flush=True)\n&/' "$work/threads.py"
	HEDDLE_TRACE=$work/t watched 2 python3 "$work/threads.py"
	run "$command" ctl "$pid" trace=off
	[ "$status" -eq 0 ]
	read_trace --killed "$work/t"
	[ "${found[total_whole]}" -eq 1 ]
	cp "$work/t" "$work/before"
	run "$command" ctl "$pid" "trace=$work/t"
	[ "$status" -eq 1 ]
	[[ $output == *"File exists"* ]]
	cmp "$work/t" "$work/before"
}

@test "ctl trace: mistakes" {
	fifty
	run "$command" ctl "$pid" trace=perhaps
	[ "$status" -eq 2 ]
	[[ $output == *"neither on nor off"* ]]
	run "$command" ctl "$pid" trace=/nowhere/t
	[ "$status" -eq 1 ]
	[[ $output == *"No such file"* ]]
	run "$command" ctl "$pid" trac=on
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean trace=on|off|PATH?"* ]]
}

@test "summarize: its sums are those of the trace, and it says whether the scheduler's agree" {
	traced_pairs 2
	"$command" trace summarize --top 100 "$work/t" >"$work/said"
	python3 - "$work/t" "$work/said" <<-'END'
		import collections, json, re, sys
		states = ["running", "runnable", "lock", "sleep", "IO", "blocked"]
		by_g, locks, waits, names = collections.defaultdict(collections.Counter), collections.Counter(), [], {}
		for e in json.load(open(sys.argv[1])):
		    if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == 2:
		        names[e["args"]["name"]] = e["tid"]
		    if e["ph"] != "X" or e["pid"] != 2: continue
		    name = "IO" if e["name"].startswith("IO") else "lock" if e["name"] == "futex" else "blocked" if e["name"] == "call" else e["name"]
		    by_g[e["tid"]][name] += e["dur"]
		    if name == "lock": locks[int(e["args"]["on"], 16)] += e["dur"]
		    if name == "runnable": waits.append(e["dur"])
		said = open(sys.argv[2]).read()
		rows = re.findall(r"^  (G \d+(?: \S.*?)?)  +([\d.]+(?: +[\d.]+){5})$", said, re.M)
		assert len(rows) == len(by_g), (len(rows), len(by_g))
		for name, row in rows:
		    for state, ms in zip(states, row.split()):
		        assert abs(by_g[names[name]][state] / 1000 - float(ms)) < 0.0011, (name, state, ms)
		longest = [float(w) for w in re.findall(r"^ +([\d.]+)  G \d+ at", said, re.M)]
		assert len(longest) == min(len(waits), 100)
		for ms, us in zip(longest, sorted(waits, reverse=True)):
		    assert abs(ms - us / 1000) < 0.0011, (ms, us)
		told = [(int(a, 16), float(ms)) for a, ms in re.findall(r"^  (0x\w+) +([\d.]+) ", said, re.M)]
		assert dict(told).keys() == locks.keys() or len(told) == 100
		for address, ms in told:
		    assert abs(locks[address] / 1000 - ms) < 0.0011, (address, ms)
		assert [ms for _, ms in told] == sorted((ms for _, ms in told), reverse=True)
		assert "scheduler counted" not in said and "missing" not in said, said
	END
	# The lock that the two handed to and fro, or its condition, is among the first.
	grep -q "^  G [0-9]* left " "$work/said"
}

@test "summarize: a killed program's trace, and files that are none" {
	pairs
	"$command" run -p 1 --trace "$work/t" "$work/pairs"
	head -c 20000 "$work/t" >"$work/cut"
	run "$command" trace summarize "$work/cut"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "The trace has no end"* ]]
	head -c 100000 /dev/urandom >"$work/noise"
	run "$command" trace summarize "$work/noise"
	[ "$status" -eq 1 ]
	[[ $output == *"no trace of heddle's"* ]]
	run "$command" trace summarize "$work/nowhere"
	[ "$status" -eq 1 ]
	[[ $output == *"No such file"* ]]
	run "$command" trace summarise "$work/t"
	[ "$status" -eq 2 ]
	[[ $output == *"did you mean summarize?"* ]]
}

@test "summarize: what was lost is said, and that the sums cannot agree" {
	storm
	"$command" run -p 2 --trace "$work/t" "$work/storm"
	run "$command" trace summarize "$work/t"
	[ "$status" -eq 0 ]
	[[ $output == *"events are missing"* ]]
	[[ $output == *"switches"*"the scheduler counted"* ]]
}

@test "the writer of a trace is nobody who could end a deadlock" {
	build circle <<-'C'
		#include <pthread.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static void *take(void *arg)
		{
			pthread_mutex_lock(&lock);
			return arg;
		}
		int main(void)
		{
			pthread_t t;
			pthread_mutex_lock(&lock);
			pthread_create(&t, NULL, take, NULL);
			pthread_join(t, NULL);
		}
	C
	run timeout 100 "$command" run -p 2 --deadlock=abort --trace "$work/t" "$work/circle"
	[ "$status" -eq 134 ]
	[[ $output == *"all threads are asleep"* ]]
	read_trace --killed "$work/t"
	[ "${found[open]}" -ge 2 ]
}
