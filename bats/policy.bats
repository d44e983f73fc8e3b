#!/usr/bin/env bats
# Policies: who runs next, by those that are built in and by one's own.
load common
bats_require_minimum_version 1.5.0
command=$top/build/heddle

# Six that are made ready one after the other, by one who runs on: they say in what order they run.
setup_jobs() {
	build jobs <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdio.h>
		enum { N = 6 };
		static sem_t go[N], up;
		static const char *const names[N] = { "job 40", "job 10", "vip 30", "job 60", "vip 20", "job 50" };
		static void *job(void *arg)
		{
			int i = (int)(long)arg;
			pthread_setname_np(pthread_self(), names[i]);
			sem_post(&up);
			sem_wait(&go[i]);
			printf("%s,", names[i]);
			return NULL;
		}
		int main(void)
		{
			pthread_t t[N];
			sem_init(&up, 0, 0);
			for (long i = 0; i < N; i++) {
				sem_init(&go[i], 0, 0);
				pthread_create(&t[i], NULL, job, (void *)i);
			}
			for (int i = 0; i < N; i++)
				sem_wait(&up);
			for (int i = 0; i < N; i++)
				sem_post(&go[i]);
			for (int i = 0; i < N; i++)
				pthread_join(t[i], NULL);
			return 0;
		}
	C
}

# policy SOURCE [NAME]: builds it as somebody outside would.
policy() {
	gcc -shared -fPIC -Wall -Wextra -Werror -I"$top/core" -x c -o "$work/${2:-own}.so" "$1"
}

# order POLICY [OPTION...]: what jobs says on one P.
order() {
	local of=$1
	shift
	run --separate-stderr timeout 60 "$command" run -p 1 --policy "$of" "$@" "$work/jobs"
	[ "$status" -eq 0 ]
}

@test "the order that each policy promises" {
	setup_jobs
	order fifo
	[ "$output" = "job 40,job 10,vip 30,job 60,vip 20,job 50," ]
	order lifo
	[ "$output" = "job 50,vip 20,job 60,vip 30,job 10,job 40," ]
	order go,runnext=off
	[ "$output" = "job 40,job 10,vip 30,job 60,vip 20,job 50," ]
	order go
	[ "$output" = "job 50,job 40,job 10,vip 30,job 60,vip 20," ]
}

@test "policies of one's own: the worked examples, which are short" {
	setup_jobs
	for example in "$top"/tests/policy/*.c; do
		[ "$(wc -l <"$example")" -le 60 ]
		policy "$example" "$(basename "$example" .c)"
	done
	cd "$work"
	order ./shortest.so
	[ "$output" = "job 10,vip 20,vip 30,job 40,job 50,job 60," ]
	[ -z "$stderr" ]
	order ./byname.so,vip
	[ "$output" = "vip 30,vip 20,job 40,job 10,job 60,job 50," ]
	[ -z "$stderr" ]
	order ./byname.so,job
	[ "$output" = "job 40,job 10,job 60,job 50,vip 30,vip 20," ]
}

@test "one that breaks a rule is named, and the program goes on under go" {
	setup_jobs
	cat >"$work/bad.c" <<-'C'
		#include <unistd.h>
		#include "policy.h"
		static struct heddle_thread *first, stranger;
		static char how;
		static int begin(const char *arguments, uint64_t seed)
		{
			(void)seed;
			how = arguments[0];
			return how == 'b';
		}
		static void on_ready(struct heddle_thread *t, int processor)
		{
			(void)processor;
			if (!first)
				first = t;
			while (how == 'r')
				;
		}
		static struct heddle_thread *pick_next(int processor)
		{
			(void)processor;
			while (how == 'p')
				;
			while (how == 'z')
				pause();
			return how == 'n' ? 0 : how == 's' ? &stranger : how == 'g' ? (void *)1234 : first;
		}
		const struct heddle_policy heddle_policy = {
			.version = HEDDLE_POLICY_VERSION,
			.name = "bad",
			.begin = begin,
			.on_ready = on_ready,
			.pick_next = pick_next,
		};
	C
	policy "$work/bad.c" bad
	while read -r how said; do
		for procs in 1 2; do
			run --separate-stderr timeout 60 "$command" run -p $procs --policy "$work/bad.so,$how" "$work/jobs"
			[ "$status" -eq 0 ]
			[ "$(tr , '\n' <<<"$output" | sort | tr '\n' ,)" = ",job 10,job 40,job 50,job 60,vip 20,vip 30," ]
			[ "$stderr" = "heddle: policy bad $said: the program goes on under go" ]
		done
	done <<-'END'
		b does not want to
		n picked none while some were runnable
		s picked a thread that is not runnable
		g picked a thread that is not runnable
		f picked a thread that is not runnable
		p does not come back
		r does not come back
		z does not come back
	END
}

@test "what is no policy is refused by the command, and ignored by the library in one line" {
	for text in go,x=1 fifo,steal=one lifo,steal=off pct,depth=0 go,local=257 go,grq=x rr,slice=11s nosuch go=1 ""; do
		run -2 "$command" run --policy "$text" true
		[[ $output == "heddle: --policy: '$text': "* ]]
	done
	run -2 "$command" run --policy "$work/none.so" true
	[ "$output" = "heddle: --policy: $work/none.so: No such file or directory" ]
	setup_jobs
	for text in nosuch go,x=1 "$work/none.so" "$work/jobs.c"; do
		: >"$work/jobs.c"
		run --separate-stderr env HEDDLE_POLICY="$text" LD_PRELOAD="$heddle" "$work/jobs"
		[ "$status" -eq 0 ]
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
		[[ $stderr == "heddle: policy $text: ignored: "* ]]
	done
}

@test "a seed names the order; without one it is drawn and said" {
	setup_jobs
	for policy in random pct chaos; do
		declare -A orders=()
		for seed in $(seq 20); do
			order $policy --seed "$seed"
			first=$output
			[ -z "$stderr" ]
			for again in 1 2 3; do
				order $policy --seed "$seed"
				[ "$output" = "$first" ]
			done
			orders[$first]=1
		done
		[ ${#orders[@]} -gt 5 ]
		order $policy
		[[ $stderr =~ ^"heddle: policy $policy: HEDDLE_SEED="([0-9]+)$ ]]
		first=$output
		order $policy --seed "${BASH_REMATCH[1]}"
		[ "$output" = "$first" ]
	done
}

@test "real programs under each policy" {
	cat >"$work/take.py" <<-'END'
		import threading, queue
		q, out = queue.Queue(3), []
		def take():
		    while (x := q.get()) is not None: out.append(x)
		ts = [threading.Thread(target=take) for _ in range(5)]
		for t in ts: t.start()
		for i in range(300): q.put(i)
		for t in ts: q.put(None)
		for t in ts: t.join()
		print(sum(out))
	END
	seq 300000 >"$work/in"
	for policy in fifo rr,slice=2ms lifo random cfs pct chaos,slice=1ms go,steal=off,spin=off; do
		for procs in 1 2 8; do
			export HEDDLE_SEED=7
			timeout 120 "$command" run -p $procs --policy "$policy" xz -T4 -0 -k -c --block-size=100KiB "$work/in" | xz -dc | cmp - "$work/in"
			run -0 timeout 120 "$command" run -p $procs --policy "$policy" python3 "$work/take.py"
			[ "$output" = 44850 ]
		done
	done
}

@test "the table at the end says under which policy it was" {
	setup_jobs
	run -0 "$command" run -p 1 --stats --policy pct:depth=2 --seed 5 "$work/jobs"
	[[ $output == *", pct:depth=2, seed 5"* ]]
}
