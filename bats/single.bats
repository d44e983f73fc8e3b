#!/usr/bin/env bats
# What heddle costs a process that has one thread, as most that a shell starts, and one that forks: pages, of which each
# costs more than what is done on it. Against a library that is preloaded and does nothing.
load common

setup() {
	gcc -shared -fPIC -x c /dev/null -o "$work/empty.so"
	cat >"$work/pages.c" <<'C'
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void *stays(void *arg)
{
	pause();
	return arg;
}
/* The fewest pages of 20 starts of a program; or else of forks, in the child and in the parent; without a name among threads. */
int main(int argc, char **argv)
{
	long fewest = 1 << 20;
	pthread_t t;
	if (argc > 1 && !*argv[1])
		argc = pthread_create(&t, NULL, stays, NULL) == 0 ? 1 : 0;
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
	gcc -D_GNU_SOURCE -pthread "$work/pages.c" -o "$work/pages"
}

# fewest LIBRARY [PROGRAM]: of five processes, for where the kernel puts things it draws by lot.
fewest() {
	for _ in 1 2 3 4 5; do LD_PRELOAD="$1" "$work/pages" "${@:2}"; done | sort -n | head -n 1
}

# within N MOST [PROGRAM]: with heddle at most N pages more than with the empty library. Where that has more than MOST the
# kernel maps files page by page, and it is the size of a library that counts.
within() {
	local empty ours
	empty=$(fewest "$work/empty.so" "${@:3}")
	ours=$(fewest "$heddle" "${@:3}")
	echo "$ours pages, with an empty library $empty"
	[ "$empty" -le "$2" ] || skip "an empty library has $empty"
	[ "$ours" -le $((empty + $1)) ]
}

@test "a start takes at most nine pages more than with an empty library" {
	within 9 90 /bin/true
}

@test "a fork takes at most four pages more than with an empty library, in the child and in the parent" {
	within 4 40
}

@test "a fork of a process with threads takes at most twelve pages more than with an empty library" {
	within 12 45 ""
}

@test "the first call of each finds its own, with all that it was given: in a handler, in a vfork's child, after a library with its own scope" {
	cat >"$work/first.c" <<'C'
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static int end[2];
static int letter, status;
static void handler(int sig)
{
	struct iovec v = { "h", 1 };
	letter = writev(end[1], &v, 1) == 1 ? sig : 0;
}
static int child(void *arg)
{
	_exit(*(int *)arg);
}
int main(int argc, char **argvs)
{
	static char stack[65536];
	char *argv[] = { "true", NULL }, in[8];
	int five = 5;
	pid_t pid, tid = 0;
	/* From here on whoever looks in the C library finds heddle's. */
	if (argc > 1 && !dlopen(argvs[1], RTLD_NOW | RTLD_DEEPBIND))
		return 1;
	/* The sixth of its own is on the stack. */
	char *page = (char *)syscall(SYS_mmap, NULL, 4096L, (long)(PROT_READ | PROT_WRITE),
				     (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
	struct iovec v = { page, 4 };
	page[0] = 'm';
	if (pipe(end) != 0)
		return 1;
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	printf("%c %d %zd\n", page[0], letter, readv(end[0], &v, 1));
	pid = clone(child, stack + sizeof(stack), CLONE_PARENT_SETTID | SIGCHLD, &five, &tid, NULL, NULL);
	waitpid(pid, &status, 0);
	printf("%d %d\n", tid == pid, WEXITSTATUS(status));
	pid = vfork();
	if (pid == 0) {
		dup2(end[1], 9);
		execvp("true", argv);
	}
	if (wait4(pid, &status, 0, NULL) == pid)
		printf("%d\n", status);
	close(end[1]);
	printf("%d ", poll(&(struct pollfd){ .fd = end[0], .events = POLLIN }, 1, 1000));
	printf("%d ", select(0, NULL, NULL, NULL, &(struct timeval){ 0, 1 }));
	printf("%zd\n", read(end[0], in, 8));
	return 0;
}
C
	gcc -D_GNU_SOURCE "$work/first.c" -o "$work/first"
	run "$work/first"
	[ "$status" -eq 0 ]
	local natively=$output
	for how in "HEDDLE=on $work/first" "HEDDLE=on $work/first libm.so.6" "HEDDLE=off $work/first"; do
		# shellcheck disable=SC2086  # words
		run timeout 20 env LD_PRELOAD="$heddle" $how
		echo "$how: $output"
		[ "$status" -eq 0 ]
		[ "$output" = "$natively" ]
	done
}

@test "who looks a call's own up while the C library's symbols are made to say heddle's has found it" {
	cat >"$work/late.c" <<'C'
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>
static volatile int reads, held, done;
__attribute__((noinline)) void opened(void)
{
	__asm__ volatile("");
}
/* A kernel thread that heddle knows nothing of. */
static int other(void *arg)
{
	reads = 1;
	read(-1, arg, 0);
	done = 1;
	for (;;)
		pause();
}
int main(void)
{
	static char stack[65536];
	clone(other, stack + sizeof(stack),
	      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, 0);
	/* By gdb, when the other is about to look. */
	while (!held)
		;
	if (!dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND))
		return 1;
	opened();
	while (!done)
		;
	return 0;
}
C
	gcc -g -D_GNU_SOURCE "$work/late.c" -o "$work/late"
	cat >"$work/steps" <<-'G'
		set breakpoint pending on
		set confirm off
		break real_late if reads == 1
		run
		set var held = 1
		set scheduler-locking on
		delete
		tbreak opened
		thread 1
		continue
		set scheduler-locking off
		continue
	G
	run timeout 60 gdb -q -batch -nx -ex "set environment LD_PRELOAD $heddle" -x "$work/steps" "$work/late"
	echo "$output"
	[[ $output == *"exited normally"* ]]
}
