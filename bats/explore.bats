#!/usr/bin/env bats
# heddle explore: a program fails in some order of its threads, and in that order again. How often it finds what, and
# that natively it does not happen, is tested by make check-explore.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle
planted=$top/build/explore

explore() {
	run --separate-stderr timeout 300 "$command" explore "$@"
}

# field NAME: of the JSON in $work/json; of what was found, if it has such a field.
field() {
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); f = d["found"] or {}; print(f.get(sys.argv[2], d.get(sys.argv[2])))' \
		"$work/json" "$1"
}

# finds DEED PROGRAM [OPTION...]: it is found, and does the same in each replay.
finds() {
	local deed=$1 program=$2
	shift 2
	explore --seed 1 --json "$work/json" "$@" -- "$planted/$program"
	[ "$status" -eq 1 ]
	[ -z "$stderr" ]
	[ "$(field did)" = "$deed" ]
	[ "$(field run)" -le 1000 ]
	[ "$(field alike)" = "$(field replayed)" ]
	[[ $output == *$'\n    '"$(field replay)"$'\n'* ]]
}

@test "planted mistakes of depth 1, 2 and 3 are found, and found again" {
	finds signal order
	[[ $output == *": dies of signal 11 (Segmentation fault)"* ]]
	finds end early
	[[ $output == *": ends with status 1"*'line 1: "balance 20" became "balance '* ]]
	finds end torn
	[[ $output == *"20 of 20 runs of that do the same"* ]]
	finds deadlock circle --replays 3
}

@test "who waits for ever is shown with all threads, as heddle dump does" {
	# Programs of this test's own, for others run the planted ones beside it.
	cp "$planted"/{wakeup,abba} "$work"
	planted=$work
	finds deadlock wakeup --replays 2
	[[ $output == *": deadlock: all its threads wait for each other"* ]]
	[[ $output == *" main tid "*": joins G "*": futex 0x"*"consume+0x"* ]]
	finds deadlock abba --replays 2
	[[ $output == *$'\nDeadlock: G '*" waits for the mutex 0x"* ]]
	gone "$work/(wakeup|abba)"
}

@test "the command line that is printed has the failure again" {
	finds end early --replays 1
	line=$(field replay)
	for _ in 1 2 3; do
		run -1 bash -c "${line/heddle/"$command"}"
		[[ $output == "balance "* ]]
		[ "$output" != "balance 20" ]
	done
	finds deadlock abba --replays 1
	line=$(field replay)
	line=${line/heddle/"$command"}
	run -134 bash -c "${line/deadlock=report/deadlock=abort}"
}

# Three threads that note who goes before whom; with a word it says so, or hangs under a policy.
setup_race() {
	build race <<-'C'
		#include <pthread.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>
		static pthread_barrier_t all;
		static const char *wrong;
		static int place;
		static char order[4];
		static void *run(void *name)
		{
			pthread_barrier_wait(&all);
			order[__atomic_fetch_add(&place, 1, __ATOMIC_RELAXED)] = *(char *)name;
			return NULL;
		}
		int main(int argc, char **argv)
		{
			static char names[] = "abc";
			pthread_t t[3];
			wrong = argc > 1 ? argv[1] : "";
			pthread_barrier_init(&all, NULL, 3);
			for (int i = 0; i < 3; i++)
				pthread_create(&t[i], NULL, run, &names[i]);
			for (int i = 0; i < 3; i++)
				pthread_join(t[i], NULL);
			if (strcmp(wrong, "print") == 0)
				printf("order %s\nof threads %d\n", order, 3);
			else
				puts("of threads 3");
			if (strcmp(wrong, "hang") != 0 || !getenv("HEDDLE_POLICY") ||
			    strcmp(getenv("HEDDLE_POLICY"), "random") != 0)
				return 0;
			if (fork() == 0)
				pause();
			for (;;)
				usleep(10000);
		}
	C
}

@test "a program without a mistake: nothing is found, and that is said" {
	setup_race
	explore -n 60 --seed 3 -- "$work/race"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "heddle explore  $work/race" ]]
	[[ ${lines[1]} == "3 native runs: status 0, "* ]]
	[[ ${lines[2]} == "nothing found in 60 runs by seed 3, "* ]]
	[ ${#lines[@]} -eq 3 ]
	head -c 300000 /dev/urandom >"$work/random"
	explore -n 20 -- pigz -c -p 4 "$work/random"
	[ "$status" -eq 0 ]
	explore -n 10 -- xz -T4 -0 -c --block-size=50KiB "$work/random"
	[ "$status" -eq 0 ]
}

@test "what a program prints by right may be left out" {
	setup_race
	for how in ignore 'of threads [0-9]'; do
		explore -n 40 --seed 3 --output "$how" -- "$work/race" print
		[ "$status" -eq 0 ]
	done
	# Only that.
	explore --output 'order ...' --replays 2 -- "$work/race" print
	[[ $status -eq 1 || $output == *"what they print differs from run to run: it is not compared"* ]]
}

@test "one that hangs, though not all its threads wait, is ended with all that it started" {
	setup_race
	explore --timeout 12 --replays 1 --json "$work/json" -- "$work/race" hang
	[ "$status" -eq 1 ]
	[ "$(field did)" = hang ]
	[[ $output == *": hangs: it was ended after 12 s"* ]]
	[[ $output == *" main tid "*": sleep"* ]]
	gone "$work/race"
}

@test "native runs that fail are counted" {
	build coin <<-'C'
		#include <fcntl.h>
		#include <pthread.h>
		#include <unistd.h>
		static void *ends(void *arg) { return arg; }
		/* The second run fails, and no other. */
		int main(int argc, char **argv)
		{
			char runs[2];
			pthread_t t;
			int fd = open(argv[argc - 1], O_RDWR | O_CREAT | O_APPEND, 0600);
			pthread_create(&t, NULL, ends, NULL);
			pthread_join(t, NULL);
			write(fd, "x", 1);
			return lseek(fd, 0, SEEK_END) == 2;
		}
	C
	explore -n 5 -- "$work/coin" "$work/runs"
	[ "$status" -eq 0 ]
	[[ $output == *"3 native runs: status 0, "*$'\n1 of them did otherwise; the first: ends with status 1\n'* ]]
}

@test "after each call that may make another runnable it may be the other's turn" {
	build after <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdio.h>
		#include <stdlib.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
		static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
		static pthread_barrier_t barrier;
		static sem_t sem, up;
		static volatile int done, kind;
		static void *other(void *arg)
		{
			switch (kind) {
			case 1:
				sem_wait(&sem);
				break;
			case 2:
				pthread_mutex_lock(&lock);
				sem_post(&up);
				pthread_cond_wait(&cond, &lock);
				pthread_mutex_unlock(&lock);
				break;
			case 3:
				sem_post(&up);
				pthread_rwlock_rdlock(&rwlock);
				break;
			case 4:
				pthread_barrier_wait(&barrier);
				break;
			case 5:
				sem_post(&up);
				pthread_mutex_lock(&lock);
				break;
			}
			if (!done)
				puts("early");
			return arg;
		}
		int main(int argc, char **argv)
		{
			pthread_t t;
			kind = atoi(argv[argc - 1]);
			sem_init(&sem, 0, 0);
			sem_init(&up, 0, 0);
			pthread_barrier_init(&barrier, NULL, 2);
			if (kind == 3)
				pthread_rwlock_wrlock(&rwlock);
			if (kind == 5)
				pthread_mutex_lock(&lock);
			pthread_create(&t, NULL, other, NULL);
			if (kind == 2 || kind == 3 || kind == 5)
				sem_wait(&up);
			if (kind == 2) {
				pthread_mutex_lock(&lock);
				pthread_mutex_unlock(&lock);
			}
			switch (kind) {
			case 1: sem_post(&sem); break;
			case 2: pthread_cond_signal(&cond); break;
			case 3: pthread_rwlock_unlock(&rwlock); break;
			case 4: pthread_barrier_wait(&barrier); break;
			case 5: pthread_mutex_unlock(&lock); break;
			}
			done = 1;
			return pthread_join(t, NULL);
		}
	C
	for kind in 0 1 2 3 4 5; do
		early=0
		for seed in $(seq 20); do
			run -0 "$command" run -p 1 --policy pct:depth=2,steps=12 --seed "$seed" "$work/after" $kind
			[ "$output" != early ] || early=$((early + 1))
		done
		[ "$early" -gt 0 ]
		[ "$early" -lt 20 ]
	done
}

@test "mistakes, and what cannot be explored: status 2, and it is said why" {
	gcc -static -O1 -x c - -o "$work/static" <<<'int main(void) { return 0; }'
	while read -r said arguments; do
		explore $arguments
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ $stderr == *"${said//_/ }"* ]]
	done <<-END
		which_command
		is_no_number -n 0 true
		is_no_such_number --timeout never true
		is_a_second_pattern --output a --output b true
		No_such_file --stdin /nonexistent true
		Unmatched --output ( true
		heddle_cannot_serve_it $work/static
		nonexistent /nonexistent/program
	END
	explore true
	[ "$status" -eq 2 ]
	[[ $stderr == *"it has one thread: there is nothing to explore" ]]
}
