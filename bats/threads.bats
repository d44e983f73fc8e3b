#!/usr/bin/env bats
# Threads are Gs on few kernel threads.
load common
load few

@test "a thousand threads that synchronise need no more than GOMAXPROCS + 3 kernel threads" {
	build many <<'C'
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
enum { N = 1000 };
static pthread_barrier_t all;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t s;
static int go, in;
static void *work(void *arg)
{
	pthread_barrier_wait(&all);
	pthread_mutex_lock(&m);
	in++;
	while (!go)
		pthread_cond_wait(&c, &m);
	pthread_mutex_unlock(&m);
	sem_post(&s);
	return arg;
}
/* But for those that are about to end: heddle has each thread made by glibc, and sends its kernel thread away. */
static int kernel_threads(void)
{
	enum { PF_EXITING = 4 };
	struct dirent *e;
	int n = 0;
	DIR *d = opendir("/proc/self/task");
	while ((e = readdir(d))) {
		char path[300], line[512] = "", *after;
		unsigned flags = PF_EXITING;
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
		FILE *f = e->d_name[0] != '.' ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		after = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
		if (after)
			sscanf(after, ") %*c %*d %*d %*d %*d %*d %u", &flags);
		n += !(flags & PF_EXITING);
		fclose(f);
	}
	closedir(d);
	return n;
}
int main(void)
{
	static pthread_t t[N];
	int most = 0, n;
	pthread_barrier_init(&all, NULL, N);
	sem_init(&s, 0, 0);
	for (int i = 0; i < N; i++)
		if (pthread_create(&t[i], NULL, work, NULL) != 0)
			return 1;
	do {
		n = kernel_threads();
		most = n > most ? n : most;
		pthread_mutex_lock(&m);
		n = in;
		pthread_mutex_unlock(&m);
	} while (n < N);
	pthread_mutex_lock(&m);
	go = 1;
	pthread_cond_broadcast(&c);
	pthread_mutex_unlock(&m);
	for (int i = 0; i < N; i++)
		sem_wait(&s);
	n = kernel_threads();
	printf("%d\n", n > most ? n : most);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	return 0;
}
C
	for procs in 1 2 4; do
		run preloaded $procs "$work/many"
		[ "$status" -eq 0 ]
		echo "GOMAXPROCS=$procs: $output"
		[ "$output" -le $((procs + 3)) ]
	done
	run "$work/many"
	[ "$output" -gt 900 ]
}

@test "a hundred thousand threads live at once" {
	build lots <<'C'
#include <pthread.h>
#include <stdio.h>
enum { N = 100000 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int go;
static long sum;
static pthread_t t[N];
static void *work(void *arg)
{
	pthread_mutex_lock(&m);
	while (!go)
		pthread_cond_wait(&c, &m);
	sum += (long)arg;
	pthread_mutex_unlock(&m);
	return arg;
}
int main(void)
{
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (long i = 0; i < N; i++)
		if (pthread_create(&t[i], &a, work, (void *)i) != 0)
			return printf("only %ld\n", i), 1;
	pthread_mutex_lock(&m);
	go = 1;
	pthread_cond_broadcast(&c);
	pthread_mutex_unlock(&m);
	for (long i = 0; i < N; i++) {
		void *r;
		pthread_join(t[i], &r);
		if ((long)r != i)
			return 2;
	}
	printf("%ld\n", sum);
	return 0;
}
C
	HEDDLE_STATS=$work/stats run preloaded 2 "$work/lots"
	[ "$status" -eq 0 ]
	[ "$output" = 4999950000 ]
	[ "$(figure threads "$work/stats")" -gt 100000 ]
	# Where the kernel keeps a thread for long, for memory, another goes on.
	gave=$(($(figure retakecall "$work/stats") + $(figure retakeblock "$work/stats")))
	[ "$(figure kernelthreads "$work/stats")" -le $((2 + 3 + (gave < 20 ? gave : 20))) ]
}

@test "a program that never creates a thread has one kernel thread" {
	run preloaded 2 awk '/^Threads:/ { print $2 }' /proc/self/status
	[ "$output" = 1 ]
}

@test "thread-local C++ objects are destroyed, exceptions and cancellation unwind" {
	cat >"$work/cxx.cc" <<'C'
#include <cstdio>
#include <cxxabi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
static int locals, frames, within, forced, any;
static void count(int &n) { __sync_fetch_and_add(&n, 1); }
struct Local { int n = 1; ~Local() { __sync_fetch_and_add(&locals, n); } };
struct Frame { ~Frame() { count(frames); } };
/* While one is cancelled another is thrown, and caught. */
struct Throws {
	~Throws()
	{
		try { throw std::runtime_error("within"); } catch (std::exception &) { count(within); }
	}
};
static thread_local Local local;
static sem_t never;
static void waits()
{
	Frame f;
	try {
		Throws t;
		sem_wait(&never);
	} catch (std::exception &) {
		abort(); /* it is none of these */
	} catch (abi::__forced_unwind &) {
		count(forced);
		throw;
	}
}
static void *cancelled(void *)
{
	Frame f;
	try { waits(); } catch (...) { count(any); throw; }
	return nullptr;
}
static void ends() { Frame f; std::string s(100, 'x'); pthread_exit(nullptr); }
static void *exits(void *)
{
	Frame f;
	try { ends(); } catch (...) { Throws t; count(any); throw; }
	return nullptr;
}
static void *swallows(void *)
{
	try { sem_wait(&never); } catch (...) { }
	return nullptr;
}
int main(int argc, char **)
{
	sem_init(&never, 0, 0);
	std::vector<std::thread> all;
	for (int i = 0; i < 50; i++)
		all.emplace_back([] {
			local.n = 2;
			try { throw std::runtime_error("thrown"); } catch (std::exception &e) { local.n++; }
		});
	for (auto &t : all) t.join();
	pthread_t t; void *r;
	for (int i = 0; i < 20; i++) {
		pthread_create(&t, nullptr, cancelled, nullptr);
		pthread_cancel(t);
		pthread_join(t, &r);
		if (r != PTHREAD_CANCELED) return 1;
		pthread_create(&t, nullptr, exits, nullptr);
		pthread_join(t, nullptr);
	}
	printf("%d %d %d %d %d\n", locals, frames, within, forced, any);
	fflush(stdout);
	if (argc > 1) {
		pthread_create(&t, nullptr, swallows, nullptr);
		pthread_cancel(t);
		pthread_join(t, nullptr);
		puts("swallowed");
	}
}
C
	g++ -std=c++20 -O1 -pthread "$work/cxx.cc" -o "$work/cxx"
	ulimit -c 0
	for how in "" "preloaded 1" "preloaded 2" "preloaded 8"; do
		# shellcheck disable=SC2086  # words
		run $how "$work/cxx"
		[ "$status" -eq 0 ]
		[ "$output" = "150 80 40 20 40" ]
		# Who does not let it pass ends the process.
		# shellcheck disable=SC2086  # words
		run $how "$work/cxx" swallows
		[ "$status" -eq 134 ]
		[ "${lines[0]}" = "150 80 40 20 40" ]
		[ "${lines[1]}" = "FATAL: exception not rethrown" ]
	done
}

@test "a library with thread-local variables comes while threads live, and goes" {
	echo '__thread int here = 7; int *where(void) { return &here; }' | gcc -shared -fPIC -x c - -o "$work/lib.so"
	build load <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { N = 200 };
static pthread_barrier_t b;
static int *(*where)(void);
static void *work(void *arg)
{
	pthread_barrier_wait(&b);
	pthread_barrier_wait(&b);
	if (*where() != 7)
		abort();
	*where() = (int)(long)arg;
	pthread_barrier_wait(&b);
	if (*where() != (int)(long)arg)
		abort();
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t t[N];
	pthread_barrier_init(&b, NULL, N + 1);
	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < N; i++)
			pthread_create(&t[i], NULL, work, (void *)i);
		pthread_barrier_wait(&b);
		void *lib = dlopen(argv[1], RTLD_NOW);
		*(void **)&where = dlsym(lib, "where");
		pthread_barrier_wait(&b);
		pthread_barrier_wait(&b);
		for (int i = 0; i < N; i++)
			pthread_join(t[i], NULL);
		dlclose(lib);
	}
	puts("good");
}
C
	for procs in 1 2; do
		run preloaded $procs "$work/load" "$work/lib.so"
		[ "$output" = good ]
	done
}

@test "thread-local variables of a library that came while threads live begin fresh" {
	echo '__thread int here = 7; int *where(void) { return &here; }' | gcc -shared -fPIC -x c - -o "$work/lib.so"
	build fresh <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int *(*where)(void);
static void *work(void *arg)
{
	if (where && (*where())++ != 7)
		abort();
	return arg;
}
static void *waits(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}
int main(int argc, char **argv)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_t t;
	pthread_mutex_lock(&m);
	pthread_create(&t, NULL, waits, &m);
	*(void **)&where = dlsym(dlopen(argv[1], RTLD_NOW), "where");
	pthread_mutex_unlock(&m);
	pthread_join(t, NULL);
	for (int i = 0; i < 50; i++) {
		pthread_create(&t, NULL, work, NULL);
		pthread_join(t, NULL);
	}
	puts("good");
}
C
	for procs in 1 2; do
		run preloaded $procs "$work/fresh" "$work/lib.so"
		[ "$output" = good ]
	done
}

@test "a library's constructor joins a thread that ends in the midst of a pthread_once" {
	gcc -shared -fPIC -x c - -o "$work/lib.so" <<'C'
#include <pthread.h>
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void within(void)
{
	pthread_exit(NULL);
}
static void *ends(void *arg)
{
	pthread_once(&once, within);
	return arg;
}
__attribute__((constructor)) static void begins(void)
{
	pthread_t t;
	pthread_create(&t, NULL, ends, NULL);
	pthread_join(t, NULL);
}
C
	build joins <<'C'
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *frames[4];
	/* The unwinder is there from here on: natively too it is not waited for otherwise. */
	backtrace(frames, 4);
	if (dlopen(argv[1], RTLD_NOW))
		puts("good");
}
C
	for procs in 1 2; do
		run preloaded $procs timeout 20 "$work/joins" "$work/lib.so"
		[ "$output" = good ]
	done
}

@test "a library that brought the unwinder, and threw through a pthread_once, goes and comes" {
	# No symbol of it is unique in the process: so it does go.
	g++ -shared -fPIC -static-libstdc++ -Wl,--exclude-libs,ALL -x c++ - -o "$work/lib.so" <<'C'
#include <pthread.h>
static pthread_once_t once;
static void throws()
{
	throw 42;
}
extern "C" int caught()
{
	once = PTHREAD_ONCE_INIT;
	try {
		pthread_once(&once, throws);
	} catch (int n) {
		return n;
	}
	return 0;
}
C
	build comes <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
static void *nothing(void *arg)
{
	return arg;
}
int main(int argc, char **argv)
{
	pthread_t t;
	pthread_create(&t, NULL, nothing, NULL);
	pthread_join(t, NULL);
	for (int i = 0; i < 4; i++) {
		int (*caught)(void);
		void *lib = dlopen(argv[1], RTLD_NOW);
		*(void **)&caught = dlsym(lib, "caught");
		if (caught() != 42)
			return 1;
		dlclose(lib);
		/* Another takes the place. */
		mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	puts("good");
}
C
	for procs in 1 2; do
		run preloaded $procs "$work/comes" "$work/lib.so"
		[ "$output" = good ]
	done
}

@test "HEDDLE_MAXTHREADS: calls that end wait their turn; blocks that do not get a thread each, and a line" {
	build blocks <<'C'
#include "kthreads.h"
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long ms, rounds;
/* Not private: only the kernel knows who waits. */
static _Atomic unsigned gate;
static _Atomic int entered, done;
/* Without a time: until the gate opens. */
static void *work(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
		entered++;
		syscall(SYS_futex, &gate, FUTEX_WAIT, 0, ms ? &t : NULL, NULL, 0);
	}
	done++;
	return arg;
}
int main(int argc, char **argv)
{
	int n = atoi(argv[1]), most = 0, now;
	pthread_t t[100];
	(void)argc;
	ms = atol(argv[2]);
	rounds = atol(argv[3]);
	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, work, NULL) != 0)
			return 1;
	while (done < n) {
		now = kernel_threads();
		most = now > most ? now : most;
		/* Each but the last is in the call, and has a thread. */
		if (!ms && entered == n && now >= n && !gate) {
			gate = 1;
			syscall(SYS_futex, &gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		}
		usleep(1000);
	}
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("%d\n", most);
}
C
	# All are in it before the first comes back.
	run preloaded 2 "$work/blocks" 30 0 1
	[ "$status" -eq 0 ]
	[ "$output" -ge 30 ]
	HEDDLE_MAXTHREADS=8 run preloaded 2 "$work/blocks" 30 5 10
	[ "$status" -eq 0 ]
	# It may give way to a machine that lets nobody run for a tenth of a second.
	most=$(sed -n 's/.*HEDDLE_MAXTHREADS gives way to //p' <<<"$output" | tail -n 1)
	[ "${lines[-1]}" -le "${most:-8}" ]
	HEDDLE_MAXTHREADS=4 run preloaded 1 "$work/blocks" 6 0 1
	[ "$status" -eq 0 ]
	[[ $output == *"heddle: all are blocked or wired: HEDDLE_MAXTHREADS gives way to 5"* ]]
	[ "${lines[-1]}" -le 9 ]
	HEDDLE_MAXTHREADS=some run preloaded 2 "$work/blocks" 2 1 1
	[ "$status" -eq 0 ]
	[[ $output == *"HEDDLE_MAXTHREADS=some is no number"* ]]
}

@test "stacks are executable where the program asks for it" {
	build nested <<'C'
#include <pthread.h>
#include <stdio.h>
static void __attribute__((noinline)) call(void (*fn)(void)) { fn(); }
static void *work(void *arg)
{
	volatile int called = 0;
	void inner(void) { called = 1; }
	call(inner);
	printf("%d\n", called);
	return arg;
}
int main(void)
{
	pthread_t t;
	return pthread_create(&t, NULL, work, NULL) || pthread_join(t, NULL);
}
C
	run preloaded 2 "$work/nested"
	[ "$status" -eq 0 ]
	[ "$output" = 1 ]
}

@test "the first call of all may be a library's, before heddle's constructor" {
	cat >"$work/first.c" <<'C'
#include <stdio.h>
__attribute__((constructor)) static void first(void) { fclose(fopen("/dev/null", "r")); }
C
	gcc -shared -fPIC "$work/first.c" -o "$work/first.so"
	echo 'int main(void) { return 5; }' | gcc -x c - -o "$work/main" -x none -Wl,--no-as-needed "$work/first.so"
	run preloaded 2 "$work/main"
	[ "$status" -eq 5 ]
	HEDDLE=off run preloaded 2 "$work/main"
	[ "$status" -eq 5 ]
}

@test "threads that wait for each other with sched_yield take turns on one cpu" {
	build turns <<'C'
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
enum { N = 20000 };
static atomic_int turn;
static void *take(void *mine)
{
	for (int i = 0; i < N; i++) {
		while (turn % 2 != (mine != NULL))
			sched_yield();
		turn++;
	}
	return mine;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, take, &t);
	take(NULL);
	pthread_join(t, NULL);
	printf("%d\n", turn);
}
C
	cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	run taskset -c "$cpu" timeout 100 env GOMAXPROCS=2 LD_PRELOAD="$heddle" "$work/turns"
	[ "$status" -eq 0 ]
	[ "$output" = 40000 ]
}

@test "who makes a thread goes on before that begins, though whom heddle wakes be put in its place on the cpu" {
	build begins <<'C'
#include <pthread.h>
#include <stdio.h>
#include <time.h>
enum { N = 500, LONG_US = 2000 };
static volatile int made, begun, early;
static void *begins(void *arg)
{
	early += !made;
	begun = 1;
	return arg;
}
static long now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
int main(void)
{
	for (int i = 0; i < N; i++) {
		long until = now_us() + LONG_US;
		pthread_t t;
		made = begun = 0;
		pthread_create(&t, NULL, begins, NULL);
		made = 1;
		while (!begun && now_us() < until)
			;
		pthread_join(t, NULL);
	}
	printf("%d\n", early);
	return early >= N / 4;
}
C
	cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	taskset -c "$cpu" "$work/begins"
	for p in 1 2 8; do
		GOMAXPROCS=$p LD_PRELOAD=$heddle taskset -c "$cpu" "$work/begins"
	done
}

@test "main may come back with its frame pointer and nothing else, as Free Pascal's does" {
	cat >"$work/halt.c" <<'C'
#include <pthread.h>
#include <stdio.h>
void *back, *frame;
static void *f(void *arg) { return arg; }
void body(void)
{
	pthread_t t;
	void *r;
	pthread_create(&t, 0, f, (void *)5);
	pthread_join(t, &r);
	printf("%ld\n", (long)r);
}
__asm__(".globl main; .type main, @function; main:\n\t"
	"movq (%rsp), %rax; movq %rax, back(%rip); movq %rbp, frame(%rip)\n\t"
	"subq $0x1008, %rsp; call body\n\t"
	"xorl %ebx, %ebx; xorl %r12d, %r12d; xorl %r13d, %r13d; xorl %r14d, %r14d; xorl %r15d, %r15d\n\t"
	"movl $7, %eax; movq frame(%rip), %rbp; pushq back(%rip); ret\n\t"
	".size main, . - main");
C
	gcc -O1 -pthread "$work/halt.c" -o "$work/halt"
	run "$work/halt"
	[ "$status" -eq 7 ]
	for p in 1 2 8; do
		run preloaded $p "$work/halt"
		[ "$status" -eq 7 ]
		[ "$output" = 5 ]
	done
}

@test "what runs at exit may end the first thread, and so the process" {
	build leaves <<'C'
#include <pthread.h>
#include <stdlib.h>
static void *f(void *arg) { return arg; }
static void leave(void) { pthread_exit(NULL); }
int main(void)
{
	pthread_t t;
	atexit(leave);
	pthread_create(&t, NULL, f, NULL);
	pthread_join(t, NULL);
	return 5;
}
C
	run "$work/leaves"
	[ "$status" -eq 0 ]
	for p in 1 2 8; do
		run timeout -s KILL 100 env GOMAXPROCS=$p LD_PRELOAD="$heddle" "$work/leaves"
		[ "$status" -eq 0 ]
	done
}

@test "a thread that takes the cpus which all have needs no kernel thread of its own, nor one that gives its own back" {
	cat >"$work/binds.py" <<-'END'
		import os, threading
		usual, n = os.sched_getaffinity(0), 30
		here, go = threading.Barrier(n + 1), threading.Event()
		def binds(i):
		    os.sched_setaffinity(0, usual)
		    if i % 2:
		        os.sched_setaffinity(0, {max(usual)})
		        assert os.sched_getaffinity(0) == {max(usual)}
		        os.sched_setaffinity(0, usual)
		    assert os.sched_getaffinity(0) == usual
		    here.wait()
		    go.wait()
		threads = [threading.Thread(target=binds, args=(i,)) for i in range(n)]
		for t in threads: t.start()
		here.wait()
		print(len(os.listdir("/proc/self/task")))
		go.set()
		for t in threads: t.join()
	END
	[ "$(python3 "$work/binds.py")" -eq 31 ]
	[ "$(GOMAXPROCS=2 LD_PRELOAD=$heddle python3 "$work/binds.py")" -le 12 ]
}

@test "a thread that is given the policy which it has needs no kernel thread of its own: Ada's tasks are" {
	cat >"$work/given.py" <<-'END'
		import ctypes, os, threading
		libc, usual, n = ctypes.CDLL(None), os.sched_getscheduler(0), 30
		here, go = threading.Barrier(n + 1), threading.Event()
		def waits():
		    here.wait()
		    here.wait()
		    go.wait()
		threads = [threading.Thread(target=waits) for i in range(n)]
		for t in threads:
		    t.start()
		    assert libc.pthread_setschedparam(ctypes.c_ulong(t.ident), usual, bytes(4)) == 0
		here.wait()
		here.wait()
		print(len(os.listdir("/proc/self/task")))
		go.set()
		for t in threads: t.join()
	END
	[ "$(python3 "$work/given.py")" -eq 31 ]
	[ "$(GOMAXPROCS=2 LD_PRELOAD=$heddle python3 "$work/given.py")" -le 12 ]
}

@test "a memory policy that was put back is none: libnuma tries one and does" {
	cat >"$work/tries.py" <<-'END'
		import ctypes, os, platform, threading
		call, n = {"x86_64": 238, "aarch64": 237}[platform.machine()], 30
		here, go = threading.Barrier(n + 1), threading.Event()
		def policy(mode):
		    if ctypes.CDLL(None).syscall(call, mode, None, 0) != 0:
		        print("31")
		        os._exit(0)
		def waits():
		    here.wait()
		    go.wait()
		first = threading.Thread(target=go.wait)
		first.start()
		policy(4)
		policy(0)
		threads = [threading.Thread(target=waits) for i in range(n)]
		for t in threads: t.start()
		here.wait()
		print(len(os.listdir("/proc/self/task")))
		go.set()
		for t in threads + [first]: t.join()
	END
	[ "$(python3 "$work/tries.py")" -ge 31 ]
	tasks=$(GOMAXPROCS=2 LD_PRELOAD=$heddle python3 "$work/tries.py")
	if [ "$tasks" -eq 31 ]; then skip "the kernel has no memory policies"; fi
	[ "$tasks" -le 12 ]
}

# Each needs a record of its own, and now and then the records are at an end. Slices are short, so that many end in there.
@test "makers of threads that stay do not wait for one that was stopped in the midst" {
	build makers <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { MAKERS = 6, EACH = 1000 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static void *stays(void *arg)
{
	pthread_mutex_lock(&m);
	for (;;)
		pthread_cond_wait(&c, &m);
	return arg;
}
static void *makes(void *arg)
{
	pthread_t t;
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 16384);
	for (int i = 0; i < EACH; i++)
		if (pthread_create(&t, &a, stays, NULL) != 0)
			abort();
	return arg;
}
int main(void)
{
	pthread_t t[MAKERS];
	for (int i = 0; i < MAKERS; i++)
		pthread_create(&t[i], NULL, makes, NULL);
	for (int i = 0; i < MAKERS; i++)
		pthread_join(t[i], NULL);
	puts("all made");
	fflush(stdout);
	_exit(0);
}
C
	for p in 1 2; do
		run timeout 60 env HEDDLE_POLICY=go:slice=100us GOMAXPROCS=$p LD_PRELOAD="$heddle" "$work/makers"
		[ "$status" -eq 0 ]
		[ "$output" = "all made" ]
	done
}
