# Tools: of developers, of those who search, of those who measure.

app git "a repository of 600 files: packed by 4 threads, indexed, searched by 8; gc" git
app_git() {
	if [ ! -d "$cache/repo" ]; then
		text 8
		git init -q "$cache/repo.$$"
		(cd "$cache/repo.$$" && split -a 3 -n 600 "$file" part- && git add . &&
			git -c user.name=a -c user.email=a@b commit -qm a && mv "$cache/repo.$$" "$cache/repo")
	fi
	cp -r "$cache/repo" repo
	cd repo
	under git -c pack.threads=4 repack -q -a -d -f --window=20
	under git index-pack --threads=4 -o ../again.idx .git/objects/pack/*.pack >../sum
	git fsck --full --strict
	under git grep --threads 8 -c 'lin *ro' >../found
	grep -c 'lin *ro' part-* | grep -v ':0$' | cmp - ../found
	# Loose objects, some that nobody wants any more, and the pack: of them one pack is made.
	for i in {1..40}; do echo "$i" >>part-aaa; git -c gc.auto=0 -c user.name=a -c user.email=a@b commit -qam "$i"; done
	git reset -q --hard HEAD~10
	git rev-list --objects HEAD | cut -d' ' -f1 | sort >../wanted
	under git -c pack.threads=4 -c gc.reflogExpire=now -c gc.reflogExpireUnreachable=now gc -q --prune=now
	[ "$(git count-objects -v | grep -E '^(count|packs|garbage):' | tr -d '\n')" = "count: 0packs: 1garbage: 0" ]
	git fsck --full --strict --no-reflogs
	git cat-file --batch-all-objects --batch-check='%(objectname)' | sort | cmp - ../wanted
}

app ripgrep "600 files searched by 8 threads" ripgrep
app_ripgrep() {
	text 64
	split -a 3 -n 600 "$file" part-
	for i in 1 2 3 4; do under rg --no-config -j 8 -c 'l[aeiou]n|ros+t' part-* | sort >found; done
	grep -cE 'l[aeiou]n|ros+t' part-* | grep -v ':0$' | sort | cmp - found
}

app fd "8,000 files found by 8 threads" fd-find
app_fd() {
	mkdir -p {a..j}/{a..j}
	for d in */*; do (cd "$d" && touch f{1..80}.txt); done
	for i in 1 2 3 4 5; do under fdfind -j 8 -t f '7\.txt$' >found; done
	find . -name '*7.txt' | cut -c3- | sort | cmp - <(sed 's|^\./||' found | sort)
}

app sort "a million lines by 4 threads" coreutils
app_sort() {
	cached lines awk 'BEGIN { x = 1; for (i = 0; i < 1000000; i++) { x = (x * 48271) % 2147483647; print x } }'
	cached sorted sort --parallel=1 "$file"
	under sort --parallel=4 -S 40M "$cache/lines" | cmp - "$file"
}

app lld "16 objects linked by 4 threads; the program works" lld gcc libc6-dev
app_lld() { linked -fuse-ld=lld -Wl,--threads=4; }

app mold "16 objects linked by 4 threads; the program works" mold gcc libc6-dev
app_mold() { linked -fuse-ld=mold -Wl,--threads -Wl,--thread-count=4; }

# linked FLAGS...: gcc's driver starts the linker, which inherits what it is under.
linked() {
	for i in {1..16}; do
		seq 1 400 | sed "s/.*/int f${i}_&(int x) { return x + &; }/" >f$i.c
	done
	echo 'int f16_7(int); int main(void) { return f16_7(35) != 42; }' >main.c
	gcc -g -c f*.c main.c
	for i in 1 2 3; do under gcc "$@" -o linked ./*.o; done
	./linked
}

app rustc "a program compiled as 16 units; it works" rustc
app_rustc() {
	under rustc --edition 2021 -O -C codegen-units=16 -o built "$here/source/rust.rs"
	[ "$(./built)" = "all good" ]
}

app cargo "7 crates, 4 at once; the program works" cargo rustc
app_cargo() {
	mkdir -p src
	{
		printf '[package]\nname = "all"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
		printf 'c%d = { path = "c%d" }\n' 1 1 2 2 3 3 4 4 5 5 6 6
	} >Cargo.toml
	for i in 1 2 3 4 5 6; do
		mkdir -p c$i/src
		printf '[package]\nname = "c%d"\nversion = "0.1.0"\nedition = "2021"\n' $i >c$i/Cargo.toml
		echo "pub fn f(x: u32) -> Vec<u32> { let mut v: Vec<_> = (0..x).map(|y| y * $i % 7).collect(); v.sort(); v }" >c$i/src/lib.rs
	done
	echo 'fn main() { println!("{}", c1::f(9).len() + c2::f(9).len() + c3::f(9).len() + c4::f(9).len() + c5::f(9).len() + c6::f(9).len()) }' >src/main.rs
	CARGO_NET_OFFLINE=true CARGO_HOME=$run/home under cargo build -q --offline -j4
	[ "$(target/debug/all)" = 54 ]
}

app gdb "a threaded program stopped, looked at and continued; 8 workers read its symbols" gdb gcc libc6-dev
app_gdb() {
	program threads -g
	under gdb -nx -q -batch -iex 'set debuginfod enabled off' -iex 'maint set worker-threads 8' \
		-ex 'set exec-wrapper env -u LD_PRELOAD' -ex 'set pagination off' -ex 'break meet' -ex run -ex 'info threads' \
		-ex 'thread apply all bt 3' -ex delete -ex continue "$file" >said 2>&1
	grep -q 'hit Breakpoint 1, .*meet' said
	grep -q 'all good' said
	grep -q 'exited normally' said
}

app sysbench "64 threads that yield and lock; 64 that lock; 8 that compute; 16 that write memory" sysbench
app_sysbench() {
	under sysbench --threads=64 --events=3000 --time=60 threads --thread-yields=100 --thread-locks=4 run >out
	events 3000
	under sysbench --threads=64 mutex --mutex-num=64 --mutex-locks=3000 --mutex-loops=100 run >out
	events 64
	under sysbench --threads=8 --events=2000 --time=60 cpu --cpu-max-prime=5000 run >out
	events 2000
	under sysbench --threads=16 memory --memory-block-size=1K --memory-total-size=256M run >out
	grep -q '256.00 MiB transferred' out
}
events() { [ "$(sed -n 's/.*total number of events: *//p' out)" -eq "$1" ]; }

app sysbench-fileio "16 threads, 40,000 checked reads and writes" sysbench
app_sysbench_fileio() {
	local with="--file-num=16 --file-total-size=32M --validate=on --threads=16 --events=40000 --time=60 --file-fsync-freq=200"
	# shellcheck disable=SC2086  # words
	sysbench $with fileio prepare >out
	# shellcheck disable=SC2086
	under sysbench $with fileio --file-test-mode=rndrw run >out
	[ "$(sed -n 's/.*total number of events: *//p' out)" -ge 40000 ]
}

app fio "8 jobs as threads, every block checked: psync, posixaio, libaio, mmap" fio
app_fio() {
	for engine in psync posixaio libaio mmap; do
		under fio --thread --name=j --numjobs=8 --ioengine=$engine --iodepth=8 --rw=randrw --bs=4k --size=2m \
			--verify=crc32c --verify_fatal=1 --group_reporting --output-format=terse --terse-version=3 >out
		# Field 5 is the error, 6 the KiB that were read, 47 those that were written.
		[ "$(grep '^3;' out | awk -F';' '{ print ($5 == 0) && ($6 + $47 >= 16384) }')" -eq 1 ]
		rm -f j.*
	done
}

# stressed STRESSOR OPTION...: it verifies itself.
stressed() {
	under stress-ng --temp-path . --oomable --verify --timeout 30 --"$1" 1 "${@:2}" >said 2>&1
	grep -q 'successful run completed' said
	! grep -E 'fail:|error:|skipped' said | grep -v 'skipped: 0$'
}

app stress-ng-threads "6 stressors of threads, verified" stress-ng
app_stress_ng_threads() {
	stressed pthread --pthread-ops 3000
	stressed mutex --mutex-ops 60000
	stressed nanosleep --nanosleep-ops 500
	stressed affinity --affinity-ops 500
	stressed tee --tee-ops 1000
	stressed aio --aio-ops 5000
}

app stress-ng-processes "6 stressors of processes, verified" stress-ng
app_stress_ng_processes() {
	stressed futex --futex-ops 20000
	stressed fork --fork-ops 400
	stressed vfork --vfork-ops 500
	stressed clone --clone-ops 200
	stressed switch --switch-ops 50000
	stressed mq --mq-ops 30000
}

app stress-ng-signals "9 stressors of signals, timers and semaphores, verified" stress-ng
app_stress_ng_signals() {
	stressed sem --timeout 3
	stressed sigq --sigq-ops 20000
	stressed sigchld --sigchld-ops 500
	stressed timer --timer-ops 5000
	stressed itimer --itimer-ops 500
	stressed sigpending --sigpending-ops 20000
	stressed sigsuspend --sigsuspend-ops 5000
	stressed signest --signest-ops 2000
	stressed kill --kill-ops 20000
}

# Latencies of threads that sleep, wait for signals, semaphores, mutexes that inherit priorities: that they had
# their turns is looked at, not how late. The first to have had all ends the others.
app rt-tests "cyclictest, signaltest, ptsematest, pi_stress" rt-tests
app_rt_tests() {
	under cyclictest -q -t 4 -i 1000 -l 300 >said
	[ "$(grep -cE '^T: .* C: +[1-9]' said)" -eq 4 ]
	grep -qE '^T: .* C: +300 ' said
	under signaltest -q -t 4 -l 300 >said
	[ "$(grep -cE '^T: .* C: +300 ' said)" -eq 4 ]
	under ptsematest -q -t 2 -i 1000 -l 300 >said
	[ "$(grep -cE '^#[13] -> #[02], Min' said)" -eq 2 ]
	grep -q 'Cycles 300$' said
	under pi_stress -q -g 2 -i 500 >said
	[ "$(sed -n 's/^Total inversion performed: //p' said)" -ge 500 ]
}
