#!/usr/bin/env bats
# heddle run --record and --replay: whose turn it was, each time; and that again.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

record() {
	rm -f "$work/log"
	run --separate-stderr timeout 100 "$command" run --record "$work/log" "$@"
}
replay() {
	run --separate-stderr timeout 100 "$command" run --replay "$work/log" "$@"
}

# Five threads that lock, post, wait, yield and sleep, and at the end say in what order.
setup_order() {
	build order <<-'C'
		#include <pthread.h>
		#include <sched.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <unistd.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static sem_t sem;
		static char order[200];
		static int n;
		static void *run(void *id)
		{
			for (int i = 0; i < 20; i++) {
				pthread_mutex_lock(&lock);
				order[n++] = *(char *)id;
				pthread_mutex_unlock(&lock);
				if (i % 5 == 0)
					sem_post(&sem);
				if (i % 7 == 0)
					sched_yield();
				if (i % 6 == 0)
					usleep(100);
				if (i % 5 == 3)
					sem_wait(&sem);
			}
			return NULL;
		}
		int main(void)
		{
			static char ids[] = "abcde";
			pthread_t t[5];
			sem_init(&sem, 0, 5);
			for (int i = 0; i < 5; i++)
				pthread_create(&t[i], NULL, run, &ids[i]);
			for (int i = 0; i < 5; i++)
				pthread_join(t[i], NULL);
			puts(order);
			return 0;
		}
	C
}

@test "a replay has the order of the record, 20 times of 20" {
	setup_order
	declare -A orders=()
	for policy in random chaos pct random chaos; do
		record --policy $policy "$work/order"
		[ "$status" -eq 0 ]
		[ -z "$stderr" ]
		[ ${#output} -eq 100 ]
		first=$output
		orders[$first]=1
		for _ in $(seq 20); do
			replay "$work/order"
			[ "$status" -eq 0 ]
			[ "$output" = "$first" ]
			[ -z "$stderr" ]
		done
	done
	[ ${#orders[@]} -gt 2 ]
	# Two bytes a turn, and a head.
	[ "$(stat -c %s "$work/log")" -lt 2000 ]
}

@test "without a policy it is random; each that keeps a queue will do" {
	setup_order
	for policy in "" fifo lifo cfs rr,slice=1; do
		record ${policy:+--policy $policy} "$work/order"
		[ "$status" -eq 0 ]
		first=$output
		replay "$work/order"
		[ "$status" -eq 0 ]
		[ "$output" = "$first" ]
	done
}

@test "threads that block in calls, or are stopped by the clock, have their turns again" {
	build calls <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/wait.h>
		#include <unistd.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static char order[20];
		static int n;
		static void note(char c)
		{
			pthread_mutex_lock(&lock);
			order[n++] = c;
			pthread_mutex_unlock(&lock);
		}
		static void *waits(void *arg)
		{
			for (int i = 0; i < 2; i++) {
				pid_t child = fork();
				if (child == 0) {
					usleep(80000);
					_exit(0);
				}
				waitpid(child, NULL, 0);
				note('w');
			}
			return arg;
		}
		static void *computes(void *id)
		{
			for (int i = 0; i < 3; i++) {
				for (volatile long k = 0; k < 20000000; k++)
					continue;
				note(*(char *)id);
			}
			return NULL;
		}
		static void *starts(void *arg)
		{
			if (system("sleep 0.1") == 0)
				note('s');
			return arg;
		}
		int main(void)
		{
			static char ids[] = "xy";
			pthread_t t[4];
			pthread_create(&t[0], NULL, waits, NULL);
			pthread_create(&t[1], NULL, computes, &ids[0]);
			pthread_create(&t[2], NULL, computes, &ids[1]);
			pthread_create(&t[3], NULL, starts, NULL);
			for (int i = 0; i < 4; i++)
				pthread_join(t[i], NULL);
			puts(order);
			return 0;
		}
	C
	for policy in random chaos rr,slice=5; do
		record --policy $policy "$work/calls"
		[ "$status" -eq 0 ]
		first=$output
		for _ in 1 2; do
			replay "$work/calls"
			[ "$status" -eq 0 ]
			[ "$output" = "$first" ]
			[ -z "$stderr" ]
		done
	done
}

@test "what is recorded of a program that dies, or is killed, is there" {
	planted=$top/build/explore
	# It dies in about every second run.
	for ((n = 0; n < 100; n++)); do
		record "$planted/order"
		[ "$status" -eq 0 ] || break
	done
	[ "$status" -eq 139 ]
	for _ in 1 2 3; do
		replay "$planted/order"
		[ "$status" -eq 139 ]
	done
	# It hangs in every fifth: whoever ends that asks nobody.
	for ((n = 0; n < 200; n++)); do
		rm -f "$work/log"
		HEDDLE_DEADLOCK=report "$command" run --record "$work/log" "$planted/abba" >"$work/out" 2>"$work/err" 3>&- &
		pid=$!
		comes "$pid" has "$work/err" '^Deadlock: ' 2>/dev/null || true
		if kill -KILL $pid 2>/dev/null; then break; fi
	done
	wait $pid || true
	for _ in 1 2 3; do
		replay --deadlock=abort "$planted/abba"
		[ "$status" -eq 134 ]
		[[ $stderr == *"all threads are asleep - deadlock!"* ]]
	done
}

@test "a program that departs from the log is ended, and it is said where" {
	build loops <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static int times;
		static void *run(void *arg)
		{
			for (int i = 0; i < times; i++) {
				pthread_mutex_lock(&lock);
				pthread_mutex_unlock(&lock);
			}
			return arg;
		}
		/* So many rounds, and so many threads; one that waits for nothing, if asked. */
		int main(int argc, char **argv)
		{
			pthread_t t[9];
			int n = atoi(argv[2]);
			times = atoi(argv[1]);
			if (argc > 3)
				pthread_mutex_lock(&lock);
			for (int i = 0; i < n; i++)
				pthread_create(&t[i], NULL, run, NULL);
			for (int i = 0; i < n; i++)
				pthread_join(t[i], NULL);
			puts("done");
			return 0;
		}
	C
	# No slice is over meanwhile, even if what the hypervisor takes is counted as theirs.
	record --policy rr,slice=10000 "$work/loops" 10 2
	[ "$status" -eq 0 ]
	replay "$work/loops" 10 2
	[ "$status" -eq 0 ]
	while read -r said arguments; do
		replay "$work/loops" $arguments
		[ "$status" -eq 125 ]
		[ -z "$output" ]
		[[ $stderr == "heddle: replay: the program departs from $work/log in turn "*" of "*": "*"${said//_/ }"* ]]
	done <<-'END'
		G_3_was_to_end_after_31_points,_and_goes_on_after_32 11 2
		G_3_was_to_end_after_31_points,_and_ends_after_28 9 2
		G_1_was_to_wait_after_4_points,_and_goes_on_after_5 10 3
		G_1_was_to_wait_after_4_points,_and_waits_after_2 10 1
		G_3_was_to_end_after_31_points,_and_waits_after_1 10 2 locked
	END
	build posts <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdlib.h>
		static sem_t sem[2];
		static void *run(void *s)
		{
			sem_wait(s);
			return NULL;
		}
		/* The first or the second goes first: the same calls. */
		int main(int argc, char **argv)
		{
			int first = atoi(argv[argc - 1]);
			pthread_t t[2];
			for (int i = 0; i < 2; i++)
				pthread_create(&t[i], NULL, run, &sem[i]);
			sem_post(&sem[first]);
			pthread_join(t[first], NULL);
			sem_post(&sem[!first]);
			pthread_join(t[!first], NULL);
			return 0;
		}
	C
	# So that both wait when the first is posted to.
	for seed in $(seq 20); do
		record --policy pct:depth=1 --seed $seed "$work/posts" 0
		[ "$status" -eq 0 ]
		replay "$work/posts" 1
		[ "$status" -eq 125 ]
		if [[ $stderr == *": it is the turn of G 3, which waits for another"* ]]; then return; fi
	done
	false
}

@test "a log that was altered, is none, or is of another program" {
	setup_order
	record "$work/order"
	[ "$status" -eq 0 ]
	first=$output
	cp "$work/log" "$work/good"
	# Each byte of the turns counts.
	size=$(stat -c %s "$work/log")
	for at in 512 513 600 $((size - 1)); do
		python3 -c 'import sys; b = bytearray(open(sys.argv[1], "rb").read()); b[int(sys.argv[2])] ^= 1; open(sys.argv[3], "wb").write(b)' \
			"$work/good" $at "$work/log"
		replay "$work/order"
		[ "$status" -eq 125 ]
		[ -z "$output" ]
		[ "$stderr" = "heddle: replay: $work/log: was altered" ]
	done
	head -c $((size - 1)) "$work/good" >"$work/log"
	replay "$work/order"
	[ "$stderr" = "heddle: replay: $work/log: was altered" ]
	for junk in "" "heddle" "$(seq 1000)"; do
		printf %s "$junk" >"$work/log"
		replay "$work/order"
		[ "$status" -eq 125 ]
		[ "$stderr" = "heddle: replay: $work/log: is no record" ]
	done
	# A shell on the way is no matter; another program runs as it likes.
	cp "$work/good" "$work/log"
	replay sh -c "$work/order; exit \$?"
	[ "$status" -eq 0 ]
	[ "$output" = "$first" ]
	cp "$work/order" "$work/other"
	replay "$work/other"
	[ "$status" -eq 0 ]
	[ "$stderr" = "heddle: replay: $work/log: is of another program: $work/order" ]
}

@test "mistakes: status 2, and nothing is run" {
	: >"$work/there"
	while read -r said arguments; do
		run --separate-stderr "$command" run $arguments touch "$work/ran"
		[ "$status" -eq 2 ]
		[[ $stderr == *"${said//_/ }"* ]]
		[ ! -e "$work/ran" ]
	done <<-END
		is_there_already --record $work/there
		No_such_file --replay $work/none
		are_for_-p_1 -p 2 --record $work/new
		are_for_-p_1 -p 2 --replay $work/there
		other_policies_than_go --policy go --record $work/new
		other_policies_than_go --policy go,steal=one --record $work/new
	END
	[ ! -e "$work/new" ]
}

@test "real programs" {
	head -c 1000000 /dev/urandom >"$work/random"
	seq 200000 >"$work/in"
	cat >"$work/take.py" <<-'END'
		import threading, queue
		q, out = queue.Queue(3), []
		def take(n):
		    while (x := q.get()) is not None: out.append(n)
		ts = [threading.Thread(target=take, args=[i]) for i in range(4)]
		for t in ts: t.start()
		for i in range(100): q.put(i)
		for t in ts: q.put(None)
		for t in ts: t.join()
		print(*out, sep="")
	END
	for line in "pigz -c -p 4 $work/random" "xz -T4 -0 -c --block-size=100KiB $work/in"; do
		rm -f "$work/log"
		timeout 100 "$command" run --record "$work/log" $line | cksum >"$work/first"
		timeout 100 "$command" run --replay "$work/log" $line | cksum | cmp - "$work/first"
	done
	record python3 "$work/take.py"
	first=$output
	for _ in 1 2 3; do
		replay python3 "$work/take.py"
		[ "$status" -eq 0 ]
		[ "$output" = "$first" ]
	done
}
