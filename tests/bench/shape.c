/* The shape of the hot paths: how many instructions and system calls an operation takes, against
 * the budgets of a table. Counts, not times: what else the machine does changes nothing.
 *
 * `shape BUILD TABLE [WORD...]` runs the rows of TABLE, or those that contain a WORD. Each is a
 * row of a program of BUILD that marks the beginning and the end of its OPS operations in steady
 * state (bench.h). Between the marks every thread but the one that runs them is stopped, sysmon
 * above all, and that one is stepped by ptrace(2): what the processor does in user mode is counted
 * one by one, in the program, in libc and in heddle alike. It needs no performance counters. Not
 * counted is what the machine decides: how long the vDSO takes to tell the time, and the system
 * call at each switch where the cpu does not let a program load its FS base.
 *
 * Next: budgets.def, and `measure` in bench.c. */
#include "shape.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROW_SECONDS = 120, THREADS = 64, NUMBERS = 512, LINE = 256, PATH = 4096 + LINE + 64 };

static struct {
	pid_t pid;
	pid_t thread[THREADS]; /* all that live, as far as we know */
	int threads;
	uintptr_t vdso, vdso_end;
	char why[LINE]; /* it has failed */
} child;

static struct count {
	uint64_t instructions;
	uint64_t calls[NUMBERS];
	uint64_t loads; /* of the FS base, by the kernel */
} count;

/* What it takes to ask for one, where otherwise there is a single instruction. */
enum { LOAD_INSTRUCTIONS = 12, HWCAP2_FSGSBASE = 2 };

static bool fail(const char *why)
{
	if (!child.why[0])
		snprintf(child.why, sizeof(child.why), "%s", why);
	return false;
}

static void thread_add(pid_t tid)
{
	for (int i = 0; i < child.threads; i++)
		if (child.thread[i] == tid)
			return;
	if (child.threads < THREADS)
		child.thread[child.threads++] = tid;
	else
		fail("too many threads");
}

static void thread_remove(pid_t tid)
{
	for (int i = 0; i < child.threads; i++)
		if (child.thread[i] == tid)
			child.thread[i] = child.thread[--child.threads];
}

/* It sleeps in the kernel, so it holds no lock of the scheduler's for which the one that is stepped
 * would wait. What a stop leaves in RAX is how the kernel remembers to make the call again. */
static bool sleeps(pid_t tid)
{
	struct user_regs_struct r;
	long long rax;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r) != 0)
		return false;
	rax = (long long)r.rax;
	return (long long)r.orig_rax >= 0 && (rax == -EINTR || (rax <= -512 && rax >= -516));
}

/* Stops a thread where it sleeps; one that is busy may go on until it does. */
static void hold(pid_t tid)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0 ||
		    waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) {
			thread_remove(tid);
			return;
		}
		if (status >> 16 == PTRACE_EVENT_STOP && sleeps(tid))
			return;
		ptrace(PTRACE_CONT, tid, NULL, status >> 16 ? 0 : WSTOPSIG(status));
		sched_yield();
	}
}

static void others(pid_t tid, bool held)
{
	pid_t all[THREADS];
	int n = 0;

	for (int i = 0; i < child.threads; i++)
		if (child.thread[i] != tid)
			all[n++] = child.thread[i];
	for (int i = 0; i < n; i++) {
		if (held)
			hold(all[i]);
		else
			ptrace(PTRACE_CONT, all[i], NULL, NULL);
	}
}

static bool is_mark(pid_t tid)
{
	siginfo_t si;

	return ptrace(PTRACE_GETSIGINFO, tid, NULL, &si) == 0 && si.si_signo == SIGTRAP &&
	       si.si_code == SI_KERNEL;
}

static void find_vdso(void)
{
	char path[64], line[LINE];
	unsigned long lo, hi;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)child.pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &lo, &hi) == 2) {
			child.vdso = lo;
			child.vdso_end = hi;
		}
	if (f)
		fclose(f);
}

/* The number of the call that the thread is about to make, or -1. *counts: is the instruction one
 * that counts? */
static long long about_to_call(pid_t tid, bool *counts)
{
	struct user_regs_struct r;
	unsigned char code[2] = { 0 };
	struct iovec here = { code, sizeof(code) }, there;

	*counts = true;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &r) != 0)
		return -1;
	*counts = r.rip < child.vdso || r.rip >= child.vdso_end;
	there = (struct iovec){ (void *)(uintptr_t)r.rip, sizeof(code) };
	if (process_vm_readv(child.pid, &here, 1, &there, 1, 0) != sizeof(code))
		return -1;
	return code[0] == 0x0f && code[1] == 0x05 ? (long long)r.rax : -1;
}

/* From the mark at which the thread stands to the next one. */
static bool step(pid_t tid)
{
	int status;

	find_vdso();
	others(tid, true);
	for (;;) {
		bool counts;
		long long number = about_to_call(tid, &counts);
		if (ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) != 0 ||
		    waitpid(tid, &status, __WALL) != tid)
			return fail("the thread could not be stepped");
		if (!WIFSTOPPED(status))
			return fail("the thread ended between its marks");
		if (status >> 16 != 0)
			return fail("a thread was made between the marks");
		if (WSTOPSIG(status) != SIGTRAP)
			return fail("a signal came between the marks");
		if (is_mark(tid))
			break;
		count.instructions += counts;
		if (number == SYS_arch_prctl && !(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
			count.loads++;
		else if (number >= 0)
			count.calls[number < NUMBERS ? number : 0]++;
	}
	others(tid, false);
	return true;
}

static pid_t begin(char **words, char **env)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (char **e = env; *e; e++)
			putenv(*e);
		raise(SIGSTOP);
		execv(words[0], words);
		_exit(127);
	}
	return pid;
}

enum verdict { COUNTED, WRONG, CANNOT };

/* Runs a program to its end, and counts between its marks. */
static enum verdict counted(char **words, char **env)
{
	int status, marks = 0;
	pid_t tid;

	memset(&child, 0, sizeof(child));
	memset(&count, 0, sizeof(count));
	child.pid = begin(words, env);
	waitpid(child.pid, &status, WUNTRACED);
	if (ptrace(PTRACE_SEIZE, child.pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE) != 0) {
		kill(child.pid, SIGKILL);
		waitpid(child.pid, &status, 0);
		return CANNOT;
	}
	thread_add(child.pid);
	kill(child.pid, SIGCONT);
	alarm(ROW_SECONDS);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		int signal = 0;
		if (!WIFSTOPPED(status)) {
			thread_remove(tid);
			if (tid != child.pid)
				continue;
			alarm(0);
			if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
				fail("it did not end well");
			break;
		}
		thread_add(tid);
		if (status >> 16 == 0 && WSTOPSIG(status) == SIGTRAP && is_mark(tid)) {
			marks++;
			if (!step(tid)) {
				kill(child.pid, SIGKILL);
				continue;
			}
		} else if (status >> 16 == 0 && WSTOPSIG(status) != SIGCONT) {
			signal = WSTOPSIG(status);
		}
		ptrace(PTRACE_CONT, tid, NULL, signal);
	}
	if (marks != 1)
		fail("it has not marked one beginning and one end");
	return child.why[0] ? WRONG : COUNTED;
}

static uint64_t all_calls(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < NUMBERS; i++)
		sum += count.calls[i];
	return sum;
}

static void say_calls(void)
{
	for (int i = 0; i < NUMBERS; i++)
		if (count.calls[i])
			printf("  %.2f of call %d\n", (double)count.calls[i] / BENCH_OPS, i);
}

static const char *build, *table;
static int passed, failed, skipped;

/* One row of the table: PROGRAM ROW INSTRUCTIONS CALLS. */
static void row(char *program, char *name, double instructions, double calls)
{
	char path[PATH], preload[PATH], shape[PATH];
	bool core = strcmp(program, "core_bench") == 0;
	char *words[] = { path, name, NULL };
	char *env[] = { shape,		 "GOMAXPROCS=1",	"HEDDLE_PREEMPT=off",
			"HEDDLE_SEED=1", core ? NULL : preload, NULL };
	double found, called;

	snprintf(path, sizeof(path), "%s/%s/%s", build, core ? "release/tests/bench" : "bench",
		 program);
	snprintf(shape, sizeof(shape), "BENCH_SHAPE=%s", name);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s/libheddle.so", build);
	switch (counted(words, env)) {
	case CANNOT:
		printf("%-11s %-18s skipped: ptrace: %s\n", program, name, strerror(errno));
		skipped++;
		return;
	case WRONG:
		printf("not ok %s %s: %s\n", program, name, child.why);
		failed++;
		return;
	case COUNTED:
		break;
	}
	found = (double)(count.instructions - LOAD_INSTRUCTIONS * count.loads) / BENCH_OPS;
	called = (double)all_calls() / BENCH_OPS;
	if (found > instructions || called > calls) {
		printf("not ok %s %s: %.1f instructions and %.2f system calls an operation; "
		       "the budget of %s is %.0f and %.2f\n",
		       program, name, found, called, table, instructions, calls);
		say_calls();
		failed++;
	} else {
		printf("%-11s %-18s %8.1f of %6.0f instructions, %5.2f of %5.2f system calls\n",
		       program, name, found, instructions, called, calls);
		passed++;
	}
	fflush(stdout);
}

/* That it counts rightly: here is what it must find. */
enum { KNOWN = 203, KNOWN_CALL = SYS_getppid };

static void known(void)
{
	__asm__ volatile("int3\n"
			 "mov $100, %%ecx\n"
			 "1: dec %%ecx\n"
			 "jnz 1b\n"
			 "mov %0, %%eax\n"
			 "syscall\n"
			 "int3\n" ::"i"(KNOWN_CALL)
			 : "rax", "rcx", "r11", "memory");
}

static void count_known(void)
{
	char *words[] = { "/proc/self/exe", "known", NULL }, *env[] = { NULL };
	enum verdict v = counted(words, env);

	if (v == COUNTED && count.instructions == KNOWN && count.calls[KNOWN_CALL] == 1) {
		passed++;
	} else if (v != CANNOT) {
		printf("not ok the count of what is known: %s %lu instructions, not %d\n",
		       child.why, count.instructions, KNOWN);
		failed++;
	}
}

static bool chosen(const char *line, int argc, char **argv)
{
	for (int i = 3; i < argc; i++)
		if (strstr(line, argv[i]))
			return true;
	return argc == 3;
}

static void on_alarm(int sig)
{
	(void)sig;
	kill(child.pid, SIGKILL);
	fail("it has not come to its end in time");
}

/* One cpu for both: a step is two switches between them, which others need not come between if we
 * may say so. */
static void share_cpu(void)
{
	cpu_set_t one;

	setpriority(PRIO_PROCESS, 0, -15);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
	char line[LINE], program[LINE], name[LINE];
	double instructions, calls;
	FILE *f;

	if (argc == 2 && strcmp(argv[1], "known") == 0) {
		known();
		return 0;
	}
	if (argc < 3 || !(f = fopen(argv[2], "re"))) {
		fprintf(stderr, "usage: shape BUILD TABLE [WORD...]\n");
		return 2;
	}
	build = realpath(argv[1], NULL);
	table = argv[2];
	signal(SIGALRM, on_alarm);
	share_cpu();
	count_known();
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%255s %255s %lf %lf", program, name, &instructions, &calls) !=
		    4) {
			printf("not ok %s: no row: %s", argv[2], line);
			failed++;
		} else if (chosen(line, argc, argv)) {
			row(program, name, instructions, calls);
		}
	}
	printf("shape: %d passed, %d failed\n", passed + skipped, failed);
	return failed > 0;
}
