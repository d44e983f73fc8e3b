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

# Five pass point after point, each at a lock of its own: what is the longest that one of them stands still, in points of
# the others?
@test "by lot and by chaos nobody is forgotten" {
	build forgotten <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		enum { N = 5, POINTS = 20000 };
		static long points, most;
		static void *walk(void *arg)
		{
			pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
			long last = points;
			while (points < POINTS) {
				pthread_mutex_lock(&own);
				if (points - last > most)
					most = points - last;
				last = ++points;
				pthread_mutex_unlock(&own);
			}
			return arg;
		}
		int main(void)
		{
			pthread_t t[N];
			for (int i = 0; i < N; i++)
				pthread_create(&t[i], NULL, walk, NULL);
			for (int i = 0; i < N; i++)
				pthread_join(t[i], NULL);
			printf("%ld\n", most);
			return 0;
		}
	C
	for seed in 1 2 3 4 5; do
		run "$command" run -p 1 --policy random --seed $seed "$work/forgotten"
		[ "$status" -eq 0 ]
		[ "$output" -lt 100 ]
		run "$command" run -p 1 --policy chaos --seed $seed "$work/forgotten"
		[ "$status" -eq 0 ]
		[ "$output" -lt 1500 ]
	done
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
	order ./fullest.so
	[ "$output" = "job 40,job 10,vip 30,job 60,vip 20,job 50," ]
	[ -z "$stderr" ]
	order ./byname.so,vip
	[ "$output" = "vip 30,vip 20,job 40,job 10,job 60,job 50," ]
	[ -z "$stderr" ]
	order ./byname.so,job
	[ "$output" = "job 40,job 10,job 60,job 50,vip 30,vip 20," ]
}

# Twenty are made ready at one of two processors, while the other is busy; then they are all its, for
# who made them so does not give way. Before that, only one of the two serves them all.
setup_twenty() {
	build twenty <<-'C'
		#include <pthread.h>
		#include <semaphore.h>
		#include <stdatomic.h>
		enum { N = 20 };
		static sem_t up, go;
		static atomic_int busy, over, ran;
		/* Who only looked would be found to spin, and give way. */
		static double compute(double x)
		{
			for (int i = 0; i < 100; i++)
				x = x / 3 + i;
			return x;
		}
		static void *keep(void *arg)
		{
			double x = 1;
			busy = 1;
			while (!over)
				x = compute(x);
			return x > 0 ? arg : NULL;
		}
		static void *job(void *arg)
		{
			sem_post(&up);
			sem_wait(&go);
			ran++;
			return arg;
		}
		static void *lead(void *arg)
		{
			pthread_t keeper, t[N];
			double x = 1;
			pthread_create(&keeper, NULL, keep, NULL);
			while (!busy)
				x = compute(x);
			for (int i = 0; i < N; i++)
				pthread_create(&t[i], NULL, job, NULL);
			for (int i = 0; i < N; i++)
				sem_wait(&up);
			for (int i = 0; i < N; i++)
				sem_post(&go);
			over = 1;
			while (ran < N)
				x = compute(x);
			pthread_join(keeper, NULL);
			for (int i = 0; i < N; i++)
				pthread_join(t[i], NULL);
			return x > 0 ? arg : NULL;
		}
		int main(void)
		{
			pthread_t leader;
			pthread_create(&leader, NULL, lead, NULL);
			return pthread_join(leader, NULL);
		}
	C
}

@test "whom one's own policy steals from, and how many" {
	setup_twenty
	# A letter for each theft: how many there were, from a for none.
	cat >"$work/tell.c" <<-'C'
		#include <unistd.h>
		#include "policy.h"
		static char how;
		static int begin(const char *arguments, uint64_t seed)
		{
			(void)seed;
			how = arguments[0];
			return 0;
		}
		static uint64_t slice(struct heddle_thread *t)
		{
			(void)t;
			return (uint64_t)60 * 1000 * 1000 * 1000;
		}
		static uint32_t steal(int thief, const uint32_t *queued, int processors, int *victim)
		{
			uint32_t n;
			char said;
			for (*victim = 0; *victim < processors - 1 && queued[*victim] == 0; ++*victim)
				;
			n = queued[*victim];
			said = *victim == thief ? '!' : (char)('a' + n);
			if (how == 'S')
				*victim = thief;
			if (how == 'X')
				*victim = -5;
			while (how == 'L')
				;
			if (how == '0' || (how >= 'a' && write(2, &said, 1) < 0))
				return 0;
			return how == 'o' ? 1 : how == 'h' ? (n + 1) / 2 : how == 's' ? 7 : 100;
		}
		const struct heddle_policy heddle_policy = {
			.version = HEDDLE_POLICY_VERSION,
			.name = "tell",
			.begin = begin,
			.slice = slice,
			.steal = steal,
		};
	C
	policy "$work/tell.c" tell
	while read -r how said; do
		run --separate-stderr timeout 60 "$command" run -p 2 --policy "$work/tell.so,$how" "$work/twenty"
		echo "$how: $stderr"
		[ "$status" -eq 0 ]
		# Who has ended is joined: one or two at a time.
		[[ $stderr =~ ^[bc]*$said[bc]*$ ]]
	done <<-'END'
		one utsrqponmlkjihgfed
		half ukf
		seven ung
		all u
	END
	while read -r how said; do
		run --separate-stderr timeout 60 "$command" run -p 2 --policy "$work/tell.so,$how" "$work/twenty"
		[ "$status" -eq 0 ]
		[ "$stderr" = "heddle: policy tell $said: the program goes on under go" ]
	done <<-'END'
		0 stole none while some were runnable
		S stole none while some were runnable
		X stole none while some were runnable
		L does not come back
	END
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
	for text in go,x=1 fifo,steal=one lifo,steal=off pct,depth=0 go,local=257 go,grq=x go,grq=1 go,grq=2 rr,slice=11s nosuch go=1 ""; do
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
	# No slice is so short that the clock has a say.
	for policy in {random,pct,chaos},slice=5000ms; do
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
	policy "$top/tests/policy/fullest.c" fullest
	for policy in "$work/fullest.so" fifo rr,slice=2ms lifo random cfs pct chaos,slice=1ms go,steal=off,spin=off; do
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
