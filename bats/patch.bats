#!/usr/bin/env bats
# Instructions of libgomp's (its futex calls) and of glibc's (its clone; calls in its read and write) that are led to heddle.
load common

# counter TEXT: the first number in the line of --stats that begins so.
counter() {
	tr -d , <<<"$output" | sed -n "s/^ *$1 *\([0-9]*\).*/\1/p"
}

@test "an OpenMP team of more threads than Ps sleeps in heddle, on few kernel threads" {
	gcc -O1 -fopenmp -x c - -o "$work/omp" <<'C'
#include <stdio.h>
int main(void)
{
	long sum = 0;
	for (int round = 0; round < 500; round++) {
#pragma omp parallel for reduction(+ : sum) num_threads(8)
		for (int i = 0; i < 8000; i++)
			sum += i;
#pragma omp parallel num_threads(8)
		{
#pragma omp critical
			sum++;
#pragma omp barrier
#pragma omp single
			sum++;
		}
	}
	printf("%ld\n", sum);
}
C
	export OMP_WAIT_POLICY=passive HEDDLE_STATS=1
	run preloaded "$(nproc)" timeout 100 "$work/omp"
	[ "$status" -eq 0 ]
	[[ $output == *"$("$work/omp")"* ]]
	[ "$(counter 'kernel threads')" -le $(($(nproc) + 4)) ]
	[ "$(counter parks)" -ge 1000 ]
	# As it was: they sleep in the kernel, where sysmon finds them.
	HEDDLE_PATCH=off run preloaded "$(nproc)" timeout 100 "$work/omp"
	[ "$status" -eq 0 ]
	[[ $output == *"$("$work/omp")"* ]]
	[ "$(counter parks)" -lt 100 ]
	# On fewer Ps than cpus, too, where it cannot tell.
	run preloaded 1 timeout 100 "$work/omp"
	[ "$status" -eq 0 ]
	[ "$(counter parks)" -ge 1000 ]
	[ "$(counter unannounced)" -lt 100 ]
}

# What inline.c takes for granted.
@test "no jump in this machine's libgomp leads to where a call of its own was" {
	lib=$(gcc -print-file-name=libgomp.so.1)
	objdump -d --no-show-raw-insn "$lib" >"$work/code"
	awk '
		/\tsyscall/ { called = 1; next }
		called && /cmp +\$0xffffffffffffffda,%rax/ { sub(":", "", $1); behind[$1] = 1; n++ }
		{ called = 0 }
		/\tj[a-z]+ +[0-9a-f]+ / || /\tcall +[0-9a-f]+ / { to[$3] = 1 }
		END { for (a in behind) bad += a in to; print n, bad + 0; exit n == 0 || bad > 0 }' "$work/code"
}

# The library is made here, with one such call in it, all registers and the red zone in use.
@test "a call of its own that parks keeps registers and red zone, as the kernel does" {
	gcc -shared -fPIC -x assembler - -Wl,-soname,libgomp-test.so -o "$work/libgomp-test.so" <<'S'
	.globl waits
	.type waits, @function
/* int waits(word): 0; or the number of what was lost. */
waits:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, kept(%rip)
	mov %rdi, word(%rip)
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	mov $0x1111*(\n+1), %eax
	movd %eax, %xmm\n
	pshufd $0, %xmm\n, %xmm\n
	movl $0x2222*(\n+1), -8*(\n+1)(%rsp)
	.endr
	xor %r10d, %r10d
	.irp r, rbx,rbp,r8,r9,r12,r13,r14,r15
	mov $0x5a5a5a5a, %\r
	.endr
	mov $128, %esi
	mov $0, %edx
	mov $202, %eax
	syscall
	cmp $-38, %rax
	je 9f
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	cmpl $0x2222*(\n+1), -8*(\n+1)(%rsp)
	jne 2f
	movd %xmm\n, %ecx
	cmp $0x1111*(\n+1), %ecx
	jne 3f
	pshufd $0xff, %xmm\n, %xmm\n
	movd %xmm\n, %ecx
	cmp $0x1111*(\n+1), %ecx
	jne 3f
	.endr
	.irp r, rbx,rbp,r8,r9,r12,r13,r14,r15
	cmp $0x5a5a5a5a, %\r
	jne 4f
	.endr
	cmp word(%rip), %rdi
	jne 5f
	cmp $128, %rsi
	jne 5f
	test %rdx, %rdx
	jne 5f
	test %r10, %r10
	jne 5f
	cmp kept(%rip), %rsp
	jne 6f
	jmp 8f
9:	mov $202, %eax
	syscall
	mov $1, %eax
	jmp 8f
2:	mov $2, %eax
	jmp 8f
3:	mov $3, %eax
	jmp 8f
4:	mov $4, %eax
	jmp 8f
5:	mov $5, %eax
	jmp 8f
6:	mov $6, %eax
8:	mov kept(%rip), %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.size waits, . - waits
	.local kept, word
	.comm kept, 8
	.comm word, 8
	.section .note.GNU-stack, "", @progbits
S
	gcc -O1 -pthread -x c - -x none -o "$work/waits" "$work/libgomp-test.so" -Wl,-rpath,"$work" <<'C'
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int waits(uint32_t *word);
static uint32_t word;
static void *wakes(void *arg)
{
	double x = 1;
	/* Until it is asleep: then one is woken. */
	do
		for (int i = 0; i < 100; i++)
			x = x / 3 + i;
	while (syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1) != 1);
	return x > 0 ? arg : NULL;
}
int main(void)
{
	pthread_t t;
	int r;
	pthread_create(&t, NULL, wakes, NULL);
	r = waits(&word);
	pthread_join(t, NULL);
	printf("%d\n", r);
	return r;
}
C
	run timeout 20 "$work/waits"
	[ "$output" = 0 ]
	for procs in $(nproc) 64; do
		# Who waits in the kernel would never be woken.
		run preloaded $procs timeout 20 "$work/waits"
		[ "$output" = 0 ]
		[ "$status" -eq 0 ]
	done
}

@test "a thread is made without a kernel thread of its own, and leaves its maker's as it was" {
	build many <<'C'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 300 };
static pthread_barrier_t all;
static __thread int own = 7;

static void *thread(void *arg)
{
	sigset_t mask;
	errno = (int)(long)arg;
	own += (int)(long)arg;
	pthread_barrier_wait(&all);
	if (pthread_sigmask(SIG_SETMASK, NULL, &mask) || !sigismember(&mask, SIGUSR1) ||
	    sigismember(&mask, SIGUSR2) || errno != (int)(long)arg || own != 7 + (int)(long)arg)
		return NULL;
	return arg;
}

int main(void)
{
	static pthread_t threads[THREADS + 1];
	sigset_t mask, after;
	void *result;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_barrier_init(&all, NULL, THREADS);
	for (long i = 1; i <= THREADS; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)i) != 0)
			return 1;
	if (pthread_sigmask(SIG_SETMASK, NULL, &after) || memcmp(&mask, &after, 8) != 0)
		return 2;
	for (long i = 1; i <= THREADS; i++)
		if (pthread_join(threads[i], &result) != 0 || result != (void *)i)
			return 3;
	puts("all right");
}
C
	[ "$("$work/many")" = "all right" ]
	for procs in 1 2 8; do
		run preloaded $procs "$work/many"
		[ "$status" -eq 0 ]
		[ "$output" = "all right" ]
	done
	# The first, and the few that the scheduler runs on.
	calls=$(GOMAXPROCS=2 strace -f -c -e trace=clone,clone3 -E LD_PRELOAD="$heddle" "$work/many" 2>&1 |
		awk '$NF ~ /^clone/ { n += $4 } END { print n + 0 }')
	[ "$calls" -le 20 ]
	calls=$(GOMAXPROCS=2 HEDDLE_PATCH=off strace -f -c -e trace=clone,clone3 -E LD_PRELOAD="$heddle" "$work/many" 2>&1 |
		awk '$NF ~ /^clone/ { n += $4 } END { print n + 0 }')
	[ "$calls" -ge 300 ]
}

@test "a thread whose maker waits for it, or it for its maker, is made by the kernel" {
	gcc -shared -fPIC -x c - -o "$work/libwrap.so" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
struct start {
	void *(*fn)(void *);
	void *arg;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int known;
static void *begin(void *arg)
{
	struct start start = *(struct start *)arg;
	free(arg);
	pthread_mutex_lock(&lock);
	known++;
	pthread_mutex_unlock(&lock);
	return start.fn(start.arg);
}
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");
	struct start *start = malloc(sizeof(*start));
	int r;
	*start = (struct start){ fn, arg };
	pthread_mutex_lock(&lock);
	r = real(t, attr, begin, start);
	pthread_mutex_unlock(&lock);
	return r;
}
C
	# Its helper is none of heddle's, as the lookup is glibc's.
	gcc -shared -fPIC -x c - -o "$work/libhelp.so" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
void *__libc_calloc(size_t, size_t);
int left;
static void *help(void *arg)
{
	for (;;)
		pause();
	return arg;
}
void *calloc(size_t n, size_t size)
{
	if (left > 0 && --left == 0) {
		int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
			dlsym(RTLD_NEXT, "pthread_create");
		pthread_t t;
		real(&t, NULL, help, NULL);
	}
	return __libc_calloc(n, size);
}
C
	cat >"$work/some.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
extern int left __attribute__((weak));
static pthread_barrier_t all;
static void *thread(void *arg)
{
	pthread_barrier_wait(&all);
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t[8];
	pthread_barrier_init(&all, NULL, 9);
	for (int i = 0; i < 8; i++) {
		if (i == 4 && &left)
			left = argc > 1 ? atoi(argv[1]) : 0;
		pthread_create(&t[i], NULL, thread, NULL);
	}
	pthread_barrier_wait(&all);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	puts("all right");
}
C
	for lib in wrap help; do
		gcc -pthread -o "$work/$lib" "$work/some.c" -L"$work" -Wl,--no-as-needed -l$lib -Wl,-rpath,"$work"
		for n in 1 2 3 4 5 6; do
			run timeout 20 "$work/$lib" $n
			[ "$output" = "all right" ]
			run preloaded 2 timeout 20 "$work/$lib" $n
			[ "$output" = "all right" ]
		done
	done
}
