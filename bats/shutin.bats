#!/usr/bin/env bats
# A program that gives up its right to files before its first thread, as xz does: what the user asked to see is seen.
load common
command=$top/build/heddle
source "$BATS_TEST_DIRNAME/few.bash"

# It can open nothing any more. "child": its child makes threads before it does. "again": at first it gives up little, and
# becomes itself.
setup_file() {
	cat >"$BATS_FILE_TMPDIR/shuts.c" <<-'C'
		#include <errno.h>
		#include <fcntl.h>
		#include <linux/landlock.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <sys/prctl.h>
		#include <sys/syscall.h>
		#include <sys/wait.h>
		#include <unistd.h>
		static pthread_barrier_t all;
		static void *meets(void *arg)
		{
			pthread_barrier_wait(&all);
			return arg;
		}
		static int threads(int n)
		{
			pthread_t t[40];
			pthread_barrier_init(&all, NULL, n);
			for (int i = 0; i < n; i++)
				if (pthread_create(&t[i], NULL, meets, NULL) != 0)
					return 1;
			for (int i = 0; i < n; i++)
				pthread_join(t[i], NULL);
			return 0;
		}
		int main(int argc, char **argv)
		{
			int again = argc > 1 && argv[1][0] == 'a';
			struct landlock_ruleset_attr all = { .handled_access_fs = again ? LANDLOCK_ACCESS_FS_MAKE_BLOCK : (1 << 13) - 1 };
			int set = syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
			int status = 0;
			if (set < 0)
				return 77;
			if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, set, 0))
				return 1;
			if (again)
				return execl(argv[0], argv[0], NULL);
			if (open("/dev/null", O_RDONLY) != -1 || errno != EACCES)
				return 1;
			if (argc > 1) {
				if (fork() == 0)
					return threads(20);
				wait(&status);
			}
			puts(argv[0] + 2);
			return threads(40) || status;
		}
	C
	gcc -D_GNU_SOURCE -pthread "$BATS_FILE_TMPDIR/shuts.c" -o "$BATS_FILE_TMPDIR/shuts"
}

setup() {
	cp "$BATS_FILE_TMPDIR/shuts" "$work/shuts"
	cd "$work"
	local status=0
	./shuts >native || status=$?
	[ "$status" -ne 77 ] || skip "the kernel has no Landlock"
	[ "$status" -eq 0 ]
}

# said_no_more: than the seed.
said_no_more() { if grep -v SEED said; then return 1; fi; }

@test "the statistics are written, of few kernel threads, each process its own" {
	: >in
	the_same_on_few 41 0 ./shuts
	rm stats
	HEDDLE_STATS=$work/stats preloaded 2 ./shuts child 2>said
	[ "$(wc -l <stats)" -eq 1 ]
	grep -q ' threads=42 ' stats
	# Its child cannot open one.
	[ "$(grep -c 'heddle: HEDDLE_STATS: .*: Permission denied' said)" -eq 1 ]
}

@test "a trace is written" {
	HEDDLE_TRACE=$work/trace preloaded 2 ./shuts 2>said
	[ ! -s said ]
	python3 "$BATS_TEST_DIRNAME/trace.py" trace >/dev/null
}

@test "a record is written, and replayed" {
	"$command" run --policy random --seed 5 --record log -- ./shuts 2>said
	said_no_more
	[ -s log ]
	"$command" run --replay log -- ./shuts >out 2>said
	cmp native out
	said_no_more
}

@test "who gives up something and becomes another program has not used up its record, nor one that it fills" {
	"$command" run --policy random --seed 5 --record log -- ./shuts again 2>said
	[ -s log ]
	"$command" run --replay log -- ./shuts >out
	cmp native out
	cp log before
	HEDDLE_RECORD=$work/log HEDDLE_POLICY=random preloaded 1 ./shuts 2>said
	grep -q 'heddle: record: .*/log: is there already' said
	cmp before log
}
