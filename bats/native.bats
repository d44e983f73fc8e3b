#!/usr/bin/env bats
# If heddle cannot serve, the program runs natively and one line on stderr says why.
load common

setup() {
	cat >"$work/p.c" <<'C'
#include <pthread.h>
#include <stdio.h>
static void *f(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	void *r;
	pthread_create(&t, 0, f, (void *)5);
	pthread_join(t, &r);
	printf("%ld\n", (long)r);
}
C
	gcc -pthread "$work/p.c" -o "$work/p"
}

@test "HEDDLE=off is silent and native" {
	run env HEDDLE=off LD_PRELOAD="$heddle" strace -f -e trace=clone,clone3 "$work/p"
	[ "$status" -eq 0 ]
	[[ $output == *5* ]]
	[[ $output != *heddle* ]]
	[ "$(grep -c 'clone3*(' <<<"$output")" -eq 1 ]
}

@test "a sanitizer's runtime is left alone" {
	gcc -fsanitize=address -pthread "$work/p.c" -o "$work/asan"
	run env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$heddle" "$work/asan"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: AddressSanitizer's runtime is present" ]
	[ "${lines[1]}" = 5 ]
}

@test "wine and qemu's user emulation are left alone" {
	# Each is known by what it shows of itself.
	for mark in "safe_syscall_base qemu's user emulation is present" "wine_main_preload_info wine's loader is present"; do
		echo "char ${mark%% *}[16];" >"$work/mark.c"
		gcc -rdynamic -pthread "$work/p.c" "$work/mark.c" -o "$work/marked"
		run env LD_PRELOAD="$heddle" "$work/marked"
		[ "$status" -eq 0 ]
		[ "${lines[0]}" = "heddle: runs natively: ${mark#* }" ]
		[ "${lines[1]}" = 5 ]
		run "$top/build/heddle" run "$work/marked"
		[ "$status" -eq 0 ]
		[[ ${lines[0]} == *": it is "*": it runs natively" ]]
	done
}

@test "Go's runtime is left alone" {
	# As its linker notes a build.
	cat >"$work/note.s" <<'S'
	.section .note.go.buildid, "a", @note
	.p2align 2
	.long 4, 8, 4
	.ascii "Go\0\0"
	.ascii "heddle/1"
	.section .note.GNU-stack, "", @progbits
S
	gcc -pthread "$work/p.c" "$work/note.s" -o "$work/go"
	run env LD_PRELOAD="$heddle" "$work/go"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: Go's runtime is present" ]
	[ "${lines[1]}" = 5 ]
}

@test "valgrind is left alone" {
	# As it puts its own objects beside us.
	gcc -shared -x c /dev/null -o "$work/vgpreload_core-amd64-linux.so"
	run env LD_PRELOAD="$work/vgpreload_core-amd64-linux.so:$heddle" "$work/p"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: valgrind is present" ]
	[ "${lines[1]}" = 5 ]
}

@test "helgrind finds no race in a program that has none" {
	command -v valgrind >/dev/null || skip "without valgrind"
	sed 's/^static void \*f.*/#include <unistd.h>\nstatic void *f(void *arg) { usleep(1); return arg; }/; s/^	pthread_join/	usleep(1);\n&/' "$work/p.c" >"$work/u.c"
	gcc -pthread "$work/u.c" -o "$work/u"
	run env LD_PRELOAD="$heddle" valgrind --tool=helgrind -q --error-exitcode=77 "$work/u"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: valgrind is present" ]
	[ "${lines[1]}" = 5 ]
}

@test "a program that qemu-user runs is left alone" {
	command -v qemu-x86_64 >/dev/null || skip "without qemu-user"
	run env GOMAXPROCS=2 qemu-x86_64 -E LD_PRELOAD="$heddle" "$work/p"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: the kernel has no robust lists, as qemu-user has none" ]
	[ "${lines[1]}" = 5 ]
}

@test "a process that Mozilla's sandbox is to confine is left alone, the one that confines it is not" {
	# As it is put into each of them; the browser's own process loads it with the rest.
	echo 'int confine;' | gcc -shared -fPIC -x c - -o "$work/libmozsandbox.so"
	run env LD_PRELOAD="$work/libmozsandbox.so:$heddle" "$work/p"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: Mozilla's sandbox is present" ]
	[ "${lines[1]}" = 5 ]
	sed "s|^	void \*r;|&\n	if (!dlopen(\"$work/libmozsandbox.so\", RTLD_NOW))\n		return 1;|; 1i #include <dlfcn.h>" "$work/p.c" >"$work/b.c"
	gcc -pthread "$work/b.c" -o "$work/b"
	run preloaded 2 "$work/b"
	[ "$status" -eq 0 ]
	[ "$output" = 5 ]
}

@test "a program that filters its system calls before it has threads is left alone" {
	cat >"$work/f.c" <<'C'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static struct sock_filter code[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_tid_address, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_robust_list, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
int filter(int raw)
{
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return raw ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
		   : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
C
	for raw in 0 1; do
		sed "s/^	void \*r;/&\n	extern int filter(int);\n	if (filter($raw))\n		return 1;/" "$work/p.c" >"$work/q.c"
		gcc -D_GNU_SOURCE -pthread "$work/q.c" "$work/f.c" -o "$work/filters"
		run preloaded 2 "$work/filters"
		[ "$status" -eq 0 ]
		[ "${lines[0]}" = "heddle: runs natively: the program filters its system calls" ]
		[ "${lines[1]}" = 5 ]
	done
}

@test "a library behind heddle has its own usleep: it is called, as natively; before heddle it is in nobody's way" {
	sed 's/^static void \*f.*/#include <unistd.h>\n&/; s/{ return arg; }/{ usleep(1); return arg; }/' "$work/p.c" >"$work/u.c"
	gcc -pthread "$work/u.c" -o "$work/u"
	printf '#include <stdio.h>\nint usleep(unsigned us) { puts("own"); return us != 1; }\n' |
		gcc -shared -fPIC -x c - -o "$work/libown.so"
	run env LD_PRELOAD="$heddle:$work/libown.so" "$work/u"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = "heddle: runs natively: $work/libown.so has its own usleep, and must be preloaded before heddle" ]
	[ "${lines[1]}" = own ]
	[ "${lines[2]}" = 5 ]
	for how in "LD_PRELOAD=$work/libown.so:$heddle" "LD_PRELOAD=$work/libown.so $top/build/heddle"; do
		# shellcheck disable=SC2086  # words
		run env $how "$work/u"
		[ "$status" -eq 0 ]
		[ "${lines[0]}" = own ]
		[ "${lines[1]}" = 5 ]
	done
}

@test "a library before heddle that asks for a version of what it wraps has heddle's" {
	cat >"$work/w.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static int turn;
static void *plays(void *me)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec until = { .tv_sec = time(NULL) + 100 };
	pthread_mutex_lock(&lock);
	while (turn < 200) {
		while (turn % 2 != (me != 0) && turn < 200)
			if (pthread_cond_timedwait(&cond, &lock, &until))
				return &turn;
		turn++;
		pthread_cond_broadcast(&cond);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}
int main(void)
{
	pthread_t t;
	void *late;
	pthread_create(&t, NULL, plays, &turn);
	late = plays(NULL);
	return pthread_join(t, late ? NULL : &late) || late;
}
C
	gcc -pthread "$work/w.c" -o "$work/w"
	cat >"$work/v.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	if (!next)
		next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"), puts("wrapped");
	return next(c, m, until);
}
C
	gcc -D_GNU_SOURCE -shared -fPIC "$work/v.c" -o "$work/libv.so"
	run env LD_PRELOAD="$work/libv.so:$heddle" timeout 30 "$work/w"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = wrapped ]
}

@test "a module that is bound to its own libraries first has heddle's calls, from its constructors on" {
	cat >"$work/module.c" <<'C'
#include <pthread.h>
static pthread_t waiter;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int over;
static void *waits(void *arg)
{
	pthread_mutex_lock(&m);
	while (!over)
		pthread_cond_wait(&c, &m);
	pthread_mutex_unlock(&m);
	return arg;
}
__attribute__((constructor)) static void begin(void) { pthread_create(&waiter, NULL, waits, NULL); }
int end(void)
{
	pthread_mutex_lock(&m);
	over = 1;
	pthread_cond_signal(&c);
	pthread_mutex_unlock(&m);
	return pthread_join(waiter, NULL);
}
void unlock(pthread_rwlock_t *l) { pthread_rwlock_unlock(l); }
int create(pthread_t *t, void *(*fn)(void *)) { return pthread_create(t, NULL, fn, NULL); }
int mine(void) { return 5; }
int own(void) { return mine(); }
C
	cat >"$work/opens.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
static sem_t sem;
static volatile int handled;
static void handles(int sig) { handled += sig == SIGUSR1; }
static void *posts(void *arg) { return sem_post(&sem) ? &sem : arg; }
int mine(void) { return 3; }
int main(int argc, char **argv)
{
	static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	void *module, *ended;
	pthread_t t;
	if (argc > 2) /* the first thread is there before */
		pthread_create(&t, NULL, posts, NULL), pthread_join(t, NULL);
	module = argc > 3 ? dlmopen(LM_ID_BASE, argv[1], RTLD_NOW | RTLD_DEEPBIND)
			  : dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
	void (*unlock)(pthread_rwlock_t *) = dlsym(module, "unlock");
	int (*create)(pthread_t *, void *(*)(void *)) = dlsym(module, "create");
	int (*end)(void) = dlsym(module, "end"), (*own)(void) = dlsym(module, "own");
	for (int i = 0; i < 3; i++)
		pthread_rwlock_rdlock(&l), unlock(&l);
	pthread_rwlock_wrlock(&l);
	unlock(&l);
	pthread_rwlock_wrlock(&l);
	create(&t, posts);
	while (sem_wait(&sem))
		continue;
	signal(SIGUSR1, handles);
	raise(SIGUSR1);
	return pthread_join(t, &ended) || ended || end() || own() != 5 || handled != 1;
}
C
	gcc -D_GNU_SOURCE -shared -fPIC "$work/module.c" -o "$work/module.so"
	gcc -D_GNU_SOURCE -pthread -rdynamic "$work/opens.c" -o "$work/opens"
	for p in 1 2 8; do
		run preloaded $p timeout 30 "$work/opens" "$work/module.so"
		[ "$status" -eq 0 ]
		[ -z "$output" ]
		run preloaded $p timeout 30 "$work/opens" "$work/module.so" later
		[ "$status" -eq 0 ]
		run preloaded $p timeout 30 "$work/opens" "$work/module.so" later base
		[ "$status" -eq 0 ]
	done
}

@test "a wrapper behind heddle that asks for what it wraps only after such an open does not call itself" {
	cat >"$work/wraps.c" <<'C'
#include <dlfcn.h>
#include <unistd.h>
int close(int fd)
{
	static int (*next)(int), within;
	if (within++)
		_exit(9);
	if (!next)
		next = dlsym(RTLD_NEXT, "close");
	int r = next(fd);
	within--;
	return r;
}
C
	cat >"$work/closes.c" <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
static void *closes(void *arg) { return close(dup(1)) ? &closes : arg; }
int main(int argc, char **argv)
{
	pthread_t t;
	void *result;
	if (!dlopen(argv[argc - 1], RTLD_NOW | RTLD_DEEPBIND))
		return 2;
	pthread_create(&t, NULL, closes, NULL);
	pthread_join(t, &result);
	return result != NULL;
}
C
	echo 'int nothing;' | gcc -shared -fPIC -x c - -o "$work/nothing.so"
	gcc -D_GNU_SOURCE -shared -fPIC "$work/wraps.c" -o "$work/libwraps.so"
	gcc -D_GNU_SOURCE -pthread "$work/closes.c" "$work/libwraps.so" -o "$work/closes"
	run preloaded 2 timeout 30 "$work/closes" "$work/nothing.so"
	[ "$status" -eq 0 ]
}

@test "a program may write over its environment" {
	cat >"$work/e.c" <<'C'
#include <pthread.h>
#include <string.h>
#include <unistd.h>
static void *f(void *arg) { return arg; }
int main(void)
{
	pthread_t t;
	for (char **e = environ; *e; e++)
		memset(*e, 'x', strlen(*e));
	pthread_create(&t, 0, f, 0);
	return pthread_join(t, 0);
}
C
	gcc -D_GNU_SOURCE -pthread "$work/e.c" -o "$work/e"
	run preloaded 2 "$work/e"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "a junk value is named in one line and ignored, whichever variable it is of" {
	while read -r name kind; do
		junk=soup
		procs=2
		case $name:$kind in
		*:BOOL) said="heddle: $name=soup is neither on nor off, ignored" ;;
		*:NUMBER) said="heddle: $name=soup is no number in its range, ignored" ;;
		*:STATS) said="heddle: $name=soup is neither on nor off nor a path from the root on, ignored" ;;
		*:DEADLOCK) said="heddle: $name=soup is neither report nor abort nor off, ignored" ;;
		*:SIZE) said="heddle: $name=soup is no size of 1M or more, as in 500M or 2G, nor 0, ignored" ;;
		GOMAXPROCS:*) said="heddle: GOMAXPROCS=soup is not a number from 1 to 1024; using "[0-9]* ;;
		HEDDLE_POLICY:*) said="heddle: policy soup: ignored: the policies are go, "* ;;
		HEDDLE_REPLAY:*) said="heddle: replay: "*"/soup: GOMAXPROCS is not 1" ;;
		HEDDLE_RECORD:*) junk=/no/such/file procs=1 said="heddle: record: /no/such/file: "* ;;
		HEDDLE_TRACE:*) junk=/no/such/file said="heddle: trace: /no/such/file: cannot be made: No such file or directory" ;;
		HEDDLE_ONLY:*) said= ;; # any text is a pattern, and this one is of others
		*) said="nobody has told this test what is said of $name" ;;
		esac
		run env GOMAXPROCS=$procs "$name=$junk" LD_PRELOAD="$heddle" "$work/p"
		echo "$name: $output"
		[ "$status" -eq 0 ]
		[ "${lines[-1]}" = 5 ]
		[ "$(grep -c "$junk" <<<"$output")" -eq "$([ -z "$said" ] && echo 0 || echo 1)" ]
		# shellcheck disable=SC2053  # a pattern
		[[ -z $said || ${lines[0]} == $said ]]
	done < <(sed -n 's/^VARIABLE("\([A-Z_]*\)", \([A-Z]*\),.*/\1 \2/p' "$top/shim/variables.def")
	run env HEDDLE_SEED=soup HEDDLE_DEBUG=9 HEDDLE_PREEMPT=maybe LD_PRELOAD="$heddle" "$work/p"
	[ "$status" -eq 0 ]
	[ "${#lines[@]}" -eq 4 ]
	[[ $output == *"HEDDLE_SEED=soup is no number in its range, ignored"* ]]
	[[ $output == *"HEDDLE_DEBUG=9 is no number in its range, ignored"* ]]
	[[ $output == *"HEDDLE_PREEMPT=maybe is neither on nor off, ignored"* ]]
	[[ $output == *5 ]]
}

# As natively; with kernel threads limited, where each thread is made by one.
@test "creations that fail give EAGAIN, leave nothing, and one that may succeed does" {
	build fails <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
enum { FIRST = 500, TIMES = 20000 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *waits(void *arg)
{
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	return arg;
}
static long status(const char *name)
{
	char line[256];
	long n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (n < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			n = atol(line + strlen(name));
	fclose(f);
	return n;
}
static void limit(int what, long n)
{
	struct rlimit l;
	getrlimit(what, &l);
	l.rlim_cur = n < 0 ? l.rlim_max : (rlim_t)n;
	if (setrlimit(what, &l) != 0)
		exit(1);
}
static int bad(const pthread_attr_t *attr, int times)
{
	pthread_t t;
	int n = 0;
	for (int i = 0; i < times; i++)
		n += pthread_create(&t, attr, waits, NULL) != EAGAIN;
	return n;
}
int main(int argc, char **argv)
{
	int space = argc > 1 && strcmp(argv[1], "space") == 0, what = space ? RLIMIT_AS : RLIMIT_NPROC;
	pthread_attr_t attr, huge;
	pthread_t held, t;
	long rss, size;
	void *r;
	/* Root has no limit; and nobody else is this one. */
	if (!space && getuid() == 0 && setuid(100000 + (uid_t)getpid()) != 0)
		return 2;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)64 << 20);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, (size_t)1 << 46);
	/* What ended is taken again without anything new: it is held. */
	pthread_mutex_lock(&m);
	if (pthread_create(&held, NULL, waits, NULL) != 0)
		return 3;
	limit(what, space ? (status("VmSize:") + 32 * 1024) * 1024 : 1);
	if (bad(&attr, FIRST) != 0)
		return 4;
	rss = status("VmRSS:");
	size = status("VmSize:");
	if (bad(&attr, TIMES) != 0 || (space && bad(&huge, FIRST) != 0))
		return 5;
	rss = status("VmRSS:") - rss;
	size = status("VmSize:") - size;
	limit(what, -1);
	if (pthread_create(&t, &attr, waits, &attr) != 0)
		return 6;
	pthread_mutex_unlock(&m);
	if (pthread_join(t, &r) != 0 || r != &attr || pthread_join(held, NULL) != 0)
		return 7;
	if (rss > 1024 || size > 1024)
		return printf("%ld KiB, and %ld of addresses\n", rss, size), 8;
	puts("good");
	return 0;
}
C
	run "$work/fails" space
	[ "$output" = good ]
	run "$work/fails" threads
	[ "$output" = good ]
	for procs in 1 2 8; do
		run preloaded $procs "$work/fails" space
		[ "$output" = good ]
	done
	for what in space threads; do
		HEDDLE_PATCH=off run preloaded 2 "$work/fails" $what
		[ "$output" = good ]
	done
}

@test "without room for threads creation gives EAGAIN" {
	cat >"$work/l.c" <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *f(void *arg) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); return arg; }
int main(void)
{
	static pthread_t t[100000];
	int n = 0, r;
	pthread_mutex_lock(&m);
	while (n < 100000 && (r = pthread_create(&t[n], 0, f, 0)) == 0)
		n++;
	pthread_mutex_unlock(&m);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], 0);
	printf("%d %s\n", n > 10, r == EAGAIN ? "EAGAIN" : "?");
}
C
	gcc -pthread "$work/l.c" -o "$work/l"
	run bash -c "ulimit -v 1000000; LD_PRELOAD=$heddle $work/l"
	[ "$output" = "1 EAGAIN" ]
}

@test "a library has a pthread_self of its own, which begins by a call of heddle's: it is not for heddle to call" {
	printf '%s\n' '#include <unistd.h>' 'unsigned long pthread_self(void) { int fd[2]; return pipe(fd) ? 0 : 42; }' |
		gcc -shared -fPIC -x c - -o "$work/libself.so"
	sed 's/^	printf.*/&\n	printf("%lu\\n", (unsigned long)pthread_self());/' "$work/p.c" >"$work/self.c"
	gcc -pthread "$work/self.c" "$work/libself.so" -o "$work/self"
	run preloaded 2 "$work/self"
	[ "$status" -eq 0 ]
	[ "${lines[*]}" = "5 42" ]
}
