#!/usr/bin/env bats
# What heddle costs a process that has one thread, as most that a shell starts: pages, of which each
# costs more than what is done on it. Against a library that is preloaded and does nothing.
load common

setup() {
	gcc -shared -fPIC -x c /dev/null -o "$work/empty.so"
	cat >"$work/pages.c" <<'C'
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
/* The fewest pages of 20 starts of a program; or else of forks, in the child and in the parent. */
int main(int argc, char **argv)
{
	long fewest = 1 << 20;
	for (int i = 0; i < 20; i++) {
		struct rusage before, after, its;
		long pages;
		pid_t pid;
		int status;
		getrusage(RUSAGE_SELF, &before);
		if (argc > 1) {
			if (posix_spawn(&pid, argv[1], NULL, NULL, argv + 1, environ) != 0)
				return 1;
		} else if ((pid = fork()) == 0) {
			_exit(0);
		}
		if (wait4(pid, &status, 0, &its) != pid || status != 0)
			return 1;
		getrusage(RUSAGE_SELF, &after);
		pages = its.ru_minflt + (argc > 1 ? 0 : after.ru_minflt - before.ru_minflt);
		fewest = pages < fewest ? pages : fewest;
	}
	printf("%ld\n", fewest);
	return 0;
}
C
	gcc -D_GNU_SOURCE "$work/pages.c" -o "$work/pages"
}

# within N [PROGRAM]: with heddle at most N pages more than with the empty library.
within() {
	local empty ours
	empty=$(LD_PRELOAD="$work/empty.so" "$work/pages" "${@:2}")
	ours=$(LD_PRELOAD="$heddle" "$work/pages" "${@:2}")
	echo "$ours pages, with an empty library $empty"
	[ "$ours" -le $((empty + $1)) ]
}

@test "a start takes at most eight pages more than with an empty library" {
	within 8 /bin/true
}

@test "a fork takes at most four pages more than with an empty library, in the child and in the parent" {
	within 4
}
