#!/usr/bin/env bats
# A cpu that does not let a program load its FS base is served all the same: each switch asks the kernel.
load common

# As if the kernel had told our processes of the cpu, in AT_HWCAP2, what $TOLD says: children of theirs, too.
setup() {
	gcc -shared -fPIC -x c - -D_GNU_SOURCE -o "$work/told.so" <<'C'
#include <elf.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static long take(const char *path, void *to, size_t n)
{
	int fd = open(path, O_RDONLY);
	long r = read(fd, to, n);
	close(fd);
	return r;
}
/* The kernel lets a process say what it was told, with all that it knows of its memory: as it is. */
__attribute__((constructor)) static void tell(void)
{
	static Elf64_auxv_t auxv[64], now[64];
	char line[4096] = "", *at;
	uint64_t field[52] = { 0 };
	long n = take("/proc/self/auxv", auxv, sizeof(auxv)), i;
	take("/proc/self/stat", line, sizeof(line) - 1);
	at = strrchr(line, ')') + 3;
	for (i = 4; i < 52; i++)
		field[i] = strtoull(at = strchr(at, ' ') + 1, NULL, 10);
	struct prctl_mm_map map = { .start_code = field[26], .end_code = field[27], .start_stack = field[28],
		.start_data = field[45], .end_data = field[46], .start_brk = field[47],
		.arg_start = field[48], .arg_end = field[49], .env_start = field[50], .env_end = field[51],
		.brk = (uintptr_t)sbrk(0), .auxv = (void *)auxv, .auxv_size = (unsigned)n, .exe_fd = -1u };
	for (i = 0; auxv[i].a_type != AT_HWCAP2; i++)
		if (auxv[i].a_type == AT_NULL)
			_exit(99);
	auxv[i].a_un.a_val = strtoull(getenv("TOLD"), NULL, 10);
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) != 0 || take("/proc/self/auxv", now, sizeof(now)) != n ||
	    memcmp(auxv, now, (size_t)n) != 0)
		_exit(99);
}
C
	build turns <<'C'
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static void *yields(void *arg)
{
	for (int i = 0; i < 1000; i++)
		sched_yield();
	return arg;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, yields, NULL);
	yields(NULL);
	pthread_join(t, NULL);
	puts("good");
}
C
	TOLD=0 LD_PRELOAD=$work/told.so "$work/turns" || skip "this kernel lets no process say what it was told"
}

# loads TOLD: how many times the kernel is asked to load the FS base while two threads yield to each other.
loads() {
	rm -f "$work/calls"
	timeout 60 strace -f -o "$work/calls" -e trace=arch_prctl -E TOLD="$1" -E GOMAXPROCS=1 -E LD_PRELOAD="$heddle:$work/told.so" \
		"$work/turns" >"$work/out" || true
	grep -c ARCH_SET_FS "$work/calls" || true
}

@test "heddle believes what the kernel tells of the cpu, and loads the FS base that way" {
	[ "$(loads 0)" -ge 1500 ]
	[ "$(cat "$work/out")" = good ]
	# Told that it may do so itself it tries, whether it lives or not.
	ulimit -c 0
	[ "$(loads 2)" -lt 100 ]
}

@test "threads and mutexes are as they are elsewhere" {
	# Where there is no other way, make check-threads has seen the rest.
	ways=2
	[ $(($(od -An -v -t u8 -w16 /proc/self/auxv | awk '$1 == 26 { print $2 }') & 2)) -eq 0 ] || ways="1 2 8"
	for procs in $ways; do
		for program in threads mutex; do
			run env TOLD=0 GOMAXPROCS="$procs" LD_PRELOAD="$heddle:$work/told.so" "$top/build/conformance/${program}_test"
			echo "GOMAXPROCS=$procs: $output"
			[ "$status" -eq 0 ]
			[[ ${lines[-1]} =~ :\ [1-9][0-9]*\ passed,\ 0\ failed$ ]]
			[[ $output != *heddle:* ]]
		done
	done
}
