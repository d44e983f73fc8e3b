/* heddle doctor: what works on this machine, and for one program. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "commands.h"
#include "libraries.h"
#include "say.h"
#include "target.h"

static int troubles;

/* One finding: good, worth a word, or bad. */
enum mark { GOOD, SO_SO, BAD };

static void say(enum mark mark, const char *what, const char *found)
{
	static const char *const marks[] = { "ok", "--", "NO" };

	troubles += mark == BAD;
	printf("  %s%s%s  %-20s %s\n", mark == GOOD ? "" : bold(), marks[mark],
	       mark == GOOD ? "" : plain(), what, found);
}

static void cpu(void)
{
	enum { HWCAP2_FSGSBASE = 2 };
	cpu_set_t cpus;
	char text[64];

	say(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE ? GOOD : SO_SO, "cpu",
	    getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE
		    ? "x86-64 with FSGSBASE: a switch needs no system call"
		    : "x86-64 without FSGSBASE: each switch is a system call, slower");
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return;
	snprintf(text, sizeof(text), "%d to run on", CPU_COUNT(&cpus));
	say(GOOD, "cpus", text);
}

static bool guards(void)
{
	enum { GUARD_INSTALL = 102, PAGE = 4096 };
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok = at != MAP_FAILED && madvise(at, PAGE, GUARD_INSTALL) == 0;

	if (at != MAP_FAILED)
		munmap(at, PAGE);
	return ok;
}

/* As sysmon asks, with arguments that cannot be served. */
static bool own_table(void)
{
	return syscall(SYS_pidfd_open, 0, 0) < 0 && errno == EINVAL &&
	       syscall(SYS_pidfd_getfd, -1, -1, 0) < 0 && errno == EBADF &&
	       syscall(SYS_close_range, 1, 0, 0) < 0 && errno == EINVAL;
}

/* The page of core/view.h. */
static bool page(void)
{
	int fd = memfd_create("heddle", MFD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void the_kernel(void)
{
	struct utsname u;
	long barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	uname(&u);
	say(GOOD, "kernel", u.release);
	if (barrier > 0 && (barrier & MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		say(GOOD, "membarrier", "yes");
	else
		say(SO_SO, "membarrier", "refused: locks are slower when they are contended");
	say(guards() ? GOOD : SO_SO, "guard pages",
	    guards() ? "by madvise: a thread's stack costs no mapping"
		     : "by mprotect (Linux 6.13 has better): two mappings to a thread's stack");
	if (own_table() && page())
		say(GOOD, "own descriptors",
		    "yes: the monitor's take none of the program's numbers");
	else
		say(SO_SO, "own descriptors",
		    "refused: the monitor's share the program's table; ps, top, dump and ctl see "
		    "nothing");
	syscall(SYS_io_uring_setup, 0, NULL);
	say(GOOD, "io_uring",
	    errno == ENOSYS || errno == EPERM ? "refused; heddle does not need it"
					      : "there; heddle does not use it");
}

static void c_library(void)
{
	int major = 0, minor = 0;
	char text[64];

	sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor);
	snprintf(text, sizeof(text), "%s%s", gnu_get_libc_version(),
		 major == 2 && minor >= 34 ? "" : ": 2.34 is needed; programs run natively");
	say(major == 2 && minor >= 34 ? GOOD : BAD, "glibc", text);
}

/* The number in a file of the kernel's; -1: none, or "max". */
static long number_in(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static long pids_of_cgroup(void)
{
	char line[PATH_MAX], path[PATH_MAX + 64];
	FILE *f = fopen("/proc/self/cgroup", "re");
	long n = -1;

	while (f && n < 0 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::", 3) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/pids.max", line + 3);
		n = number_in(path);
	}
	if (f)
		fclose(f);
	return n < 0 ? number_in("/sys/fs/cgroup/pids.max") : n;
}

static void limit(const char *what, long n, long enough, const char *means)
{
	char text[160];

	if (n < 0)
		snprintf(text, sizeof(text), "none");
	else
		snprintf(text, sizeof(text), "%ld%s%s", n, n < enough ? ": " : "",
			 n < enough ? means : "");
	say(n < 0 || n >= enough ? GOOD : SO_SO, what, text);
}

static void limits(void)
{
	enum { FEW_THREADS = 64, MAPPINGS = 65530 };
	struct rlimit r;

	limit("max_map_count", number_in("/proc/sys/vm/max_map_count"), MAPPINGS,
	      "stacks of many threads may not fit");
	limit("threads-max", number_in("/proc/sys/kernel/threads-max"), FEW_THREADS, "few");
	limit("pids of the cgroup", pids_of_cgroup(), FEW_THREADS,
	      "heddle run --max-threads keeps a program below it");
	if (getrlimit(RLIMIT_NPROC, &r) == 0)
		limit("ulimit -u", r.rlim_cur == RLIM_INFINITY ? -1 : (long)r.rlim_cur, FEW_THREADS,
		      "few");
	if (getrlimit(RLIMIT_AS, &r) == 0)
		limit("ulimit -v", r.rlim_cur == RLIM_INFINITY ? -1 : (long)(r.rlim_cur >> 10),
		      4 << 20, "KiB: stacks are reserved as large as glibc's");
}

static void looking(void)
{
	long scope = number_in("/proc/sys/kernel/yama/ptrace_scope");

	if (scope > 0 && geteuid() != 0)
		say(SO_SO, "ptrace_scope",
		    "restricted: ps, stats, dump, top and ctl need root on this machine");
	else
		say(GOOD, "ptrace_scope", "ps, stats, dump, top and ctl may look");
}

/* What is known to live badly with few kernel threads. */
static const char *remark(const struct library *lib)
{
	static const struct {
		const char *name, *remark;
	} known[] = {
		{ "libgomp.so", "spins between parallel loops: OMP_WAIT_POLICY=passive helps" },
		{ "libgo.so", "gccgo's own scheduler: its threads are not heddle's" },
		{ "libasan.so", "a sanitizer: the program runs natively" },
		{ "libtsan.so", "a sanitizer: the program runs natively" },
		{ "liblsan.so", "a sanitizer: the program runs natively" },
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strncmp(lib->name, known[i].name, strlen(known[i].name)) == 0)
			return known[i].remark;
	return "";
}

static bool is_libc(const struct library *lib)
{
	return strncmp(lib->name, "libc.so", 7) == 0 || strncmp(lib->name, "ld-linux", 8) == 0;
}

/* What a file has of its own that counts here, behind its name. */
static void say_file(const char *what, const char *path, uint64_t tls, uint64_t calls,
		     const char *remark)
{
	char text[PATH_MAX + 160];
	int n = snprintf(text, sizeof(text), "%s", path);

	if (tls != 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      ", %llu bytes of thread-local data", (unsigned long long)tls);
	if (calls != 0)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu system calls of its own",
			      (unsigned long long)calls);
	if (*remark)
		snprintf(text + n, sizeof(text) - (size_t)n, "; %s", remark);
	say(*remark ? SO_SO : GOOD, what, text);
}

static void about_libraries(const char *path)
{
	struct library *libs = calloc(MAX_LIBRARIES, sizeof(*libs));
	int n = libs ? libraries_of(path, libs) : 0;

	for (int i = 0; i < n; i++) {
		struct library *lib = &libs[i];
		say_clean(lib->name);
		say_clean(lib->path);
		if (lib->path[0] == 0)
			say(SO_SO, lib->name, "not found by the usual ways");
		else
			say_file(lib->name, lib->path, lib->tls, is_libc(lib) ? 0 : lib->calls,
				 remark(lib));
	}
	free(libs);
}

/* Of a program that runs, on heddle or not: how. */
static void about_program(const struct target *t, const char *how)
{
	struct elf *e = malloc(sizeof(*e));
	bool open = e && elf_open(e, t->path);

	say_file(t->path, how, open ? elf_tls(e) : 0, open ? elf_calls(e) : 0, "");
	if (e)
		elf_close(e);
	free(e);
	if (t->gives_rights)
		say(SO_SO, "rights",
		    "it gives some, by set-id or capabilities: whom it does, it is refused");
	about_libraries(t->path);
}

static const char *how_served(const struct target *t)
{
	return t->script ? "runs on heddle, and what it starts, if that can" : "runs on heddle";
}

static int program(const char *name)
{
	struct target *t = malloc(sizeof(*t));
	char clean[PATH_MAX];
	enum verdict verdict;

	if (!t)
		return FAILED;
	verdict = target_check(name, t);
	snprintf(clean, sizeof(clean), "%s", name);
	say_clean(clean);
	printf("\n%s%s%s\n", bold(), clean, plain());
	say_clean(t->path);
	if (t->script && t->path[0])
		say(GOOD, "script", "it is its interpreter that runs:");
	switch (verdict) {
	case TARGET_MISSING:
		say(BAD, t->path[0] ? t->path : "program", t->why);
		break;
	case TARGET_REFUSED:
		say(BAD, t->path, t->why);
		break;
	case TARGET_NATIVE:
		say(SO_SO, t->path, t->why);
		about_libraries(t->path);
		break;
	case TARGET_SERVED:
		about_program(t, how_served(t));
		break;
	}
	free(t);
	return verdict == TARGET_SERVED ? DONE : FAILED;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct scan scan;
	int found, status = DONE;

	scan_begin(&scan, self, argc, argv);
	found = scan_next(&scan);
	if (found != SCAN_END)
		return scan_status(found);
	printf("%sheddle " HEDDLE_VERSION " here%s\n", bold(), plain());
	cpu();
	the_kernel();
	c_library();
	limits();
	looking();
	for (int i = 0; i < scan.noperands; i++)
		if (program(scan.operands[i]) != DONE)
			status = FAILED;
	return troubles ? FAILED : status;
}

const struct command command_doctor = {
	.name = "doctor",
	.operands = "[PROGRAM...]",
	.what = "Says what works on this machine and for a program, and what does not.",
	.more = "ok: as it should be. --: it works, but. NO: it does not. Who makes system calls of its own\n"
		"may block unannounced, which is noticed some milliseconds late. What a program loads later\n"
		"is not seen. Exit status: 1 if one would not run on heddle.\n",
	.run = run,
	.early = true,
};
