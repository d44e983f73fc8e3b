/* The injected object's beginning: whether it serves, and bringing the scheduler up when
 * the program first creates a thread. Owns heddle_mode. Until then it costs the program
 * nothing but this constructor. Read next: interpose/thread.c. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base.h"
#include "config.h"
#include "core.h"
#include "cputimer.h"
#include "deadlock.h"
#include "early.h"
#include "ending.h"
#include "files.h"
#include "harvest.h"
#include "inline.h"
#include "loader.h"
#include "lookup.h"
#include "mode.h"
#include "once.h"
#include "os.h"
#include "points.h"
#include "policies.h"
#include "preempt.h"
#include "procs.h"
#include "real.h"
#include "record.h"
#include "runtimes.h"
#include "signals.h"
#include "stack.h"
#include "syscall.h"
#include "text.h"
#include "thread.h"
#include "tls_image.h"
#include "tracer.h"
#include "wire.h"

EARLY uint8_t heddle_mode = UNBOOTED;
EARLY static bool started;

enum { MOST_DENIED = 16 };

static void run_natively(const char *why, int error)
{
	char buf[256];
	struct text t = TEXT(buf);

	heddle_mode = NATIVE;
	text_put(&t, "heddle: runs natively: ");
	text_put(&t, why);
	if (error) {
		text_put(&t, ": error ");
		text_num(&t, error);
	}
	text_put(&t, "\n");
	text_write2(&t);
}

/* Natively it would be called, and so it is. */
static const char *hides_another(void)
{
	static char buf[192];
	struct text t = TEXT(buf);
	const char *file, *name = real_hidden(&file);

	if (!name)
		return NULL;
	text_put(&t, file);
	text_put(&t, " has its own ");
	text_put(&t, name);
	text_put(&t, ", and must be preloaded before heddle");
	return buf;
}

static void forking(void)
{
	process_forking();
	loader_forks();
}

static void forked(void)
{
	loader_forked();
	process_forked();
}

/* Also of those inside glibc (daemon, forkpty), which pass by any symbol. By glibc's own: Firefox
 * has one of that name, whose handlers run only where Firefox wants it. Its children took us for
 * their parent, and what they closed was waited for no more there. */
static void hears_of_forks(void)
{
	void *fn = lookup_libc("__register_atfork");
	__typeof__(&base_atfork) atfork = base_atfork;

	if (fn)
		memcpy(&atfork, &fn, sizeof(atfork));
	atfork(forking, forked, heddle_forked, NULL);
}

static void boot(void)
{
	const char *why;

	if (heddle_mode != UNBOOTED)
		return;
	config_read(environ);
	why = runtime_refused();
	/* The lookups below may call the program's malloc, and that may lock a mutex: which
	 * needs nothing but the tid. A sanitizer's runtime may call us before it is ready. */
	heddle_mode = why || config.off ? NATIVE : SERVING;
	if (!why && !harvest_init())
		why = "the thread's tid is not to be found";
	if (!real_resolve())
		why = "a symbol of glibc's is missing";
	/* Its threads are the kernel's, and valgrind's helgrind calls each first call a race. */
	if (why)
		real_complete();
	if (config.off) {
		heddle_mode = NATIVE;
		return;
	}
	if (!why)
		why = hides_another();
	if (why) {
		run_natively(why, 0);
		return;
	}
	loader_init();
	hears_of_forks();
}

FORKS void heddle_forked(void)
{
	once_forked();
	loader_child(started);
	files_forked();
	if (!started)
		return;
	started = false;
	ending_forked();
	record_forked();
	deadlock_forked();
	/* The thread that forked is the child's first; it is no G until it creates another. */
	thread_forked();
	core_forked();
}

void heddle_ending(void)
{
	if (!started)
		return;
	tracer_flush();
	ending_print();
	record_end();
}

__attribute__((constructor(101))) static void construct(void)
{
	boot();
}

bool mode_slow(void)
{
	if (heddle_mode == POINTS) {
		core_point();
		return true;
	}
	boot();
	return heddle_mode == SERVING;
}

bool heddle_started(void)
{
	return started;
}

/* What the loader's list told when it was last asked: the child of a fork may not be able to. */
static struct {
	bool known, executable;
	struct {
		uintptr_t lo, hi;
		enum denial how;
	} denied[MOST_DENIED];
	int ndenied;
} objects;

/* What GIVES puts there, by the linker. */
extern const char __start_gives[] __attribute__((visibility("hidden")));
extern const char __stop_gives[] __attribute__((visibility("hidden")));

/* libc's and the loader's text may be under a lock of theirs, whose other takers sysmon finds
 * asleep; ours never gives way. */
static int deny_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = info->dlpi_name;
	bool loader = strstr(name, "/ld-linux") != NULL, libc = strstr(name, "/libc.so") != NULL;
	uintptr_t own = (uintptr_t)heddle_start;

	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr, hi = lo + ph->p_memsz;
		bool ours = own >= lo && own < hi;
		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || !(loader || libc || ours) ||
		    objects.ndenied == MOST_DENIED)
			continue;
		objects.denied[objects.ndenied].lo = lo;
		objects.denied[objects.ndenied].hi = hi;
		objects.denied[objects.ndenied++].how = ours ? DENY_BUT_CALLS : DENY_AWHILE;
	}
	return 0;
}

/* As the loader has it: one object that asks, or does not say, and all stacks are executable. */
static int wants_executable(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_STACK)
			return (info->dlpi_phdr[i].p_flags & PF_X) != 0;
	/* The vDSO has none. */
	return info->dlpi_name && info->dlpi_name[0] == '/';
}

/* All that is asked of the loader before there are threads. */
static void ask_loader(void)
{
	objects.ndenied = 0;
	objects.executable = loader_walk(wants_executable, NULL) != 0;
	loader_walk(deny_text, NULL);
	harvest_ask();
	tls_init();
	process_init();
	cancel_find();
	unwind_find();
	objects.known = true;
}

/* After all other destructors. */
__attribute__((destructor(101))) static void destruct(void)
{
	heddle_ending();
}

/* Helpers of glibc's own, for aio or timers, may be there before the program's second thread, or
 * somebody's whom glibc does not know. */
static bool alone(void)
{
	enum { OF_ONE = 3 }; /* links: one for each, and what every folder has */
	struct stat tasks;

	/* Does nothing, and only for who is alone with his memory. But not all may ask. */
	if (arch_syscall3(SYS_unshare, CLONE_THREAD, 0, 0) == 0)
		return true;
	return arch_syscall4(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0) ==
		       0 &&
	       tasks.st_nlink == OF_ONE;
}

/* Others may stand anywhere in it. */
static bool may_patch(void)
{
	return config.patch && __libc_single_threaded && !loader_lost() && alone();
}

static void say_nothing(void)
{
}

/* qemu-user stands in for the kernel: it has no robust lists, enters handlers with a stack that is
 * not aligned as compiled code expects (7.2), and frames that go elsewhere are not its custom. */
static bool kernel_played(void)
{
	void *head;
	size_t len;

	return arch_owncall(SYS_get_robust_list, 0, (long)&head, (long)&len, 0, 0, 0) == -ENOSYS;
}

/* What is opened by then, and which instructions lead to ours, stays. */
void heddle_shuts_in(void)
{
	if (started || state_filtered() || loader_lost())
		return;
	files_keep();
	real_complete();
	if (may_patch()) {
		harvest_start(true);
		points_lead();
	}
}

static bool start(void)
{
	struct core_config c = {
		.gomaxprocs = config.gomaxprocs,
		.preempt = config.preempt,
		.softmcount = config.maxthreads,
		.debuglevel = config.debuglevel,
		.schedtrace = config.schedtrace,
		.scheddetail = config.scheddetail,
		.times = config.stats,
		.trace = config.trace,
		.tracelimit = config.tracelimit,
		.name = thread_called,
		.signalled = signals_wake,
		.sigdue = thread_due,
		.sigleft = signal_left,
		.failed = call_failed,
		.clocked = cputimers_look,
		.pursues = cancel_pursues,
		.divert = cancel_act,
		/* A signal may wake one; deadlock.c looks closer, if it was asked. */
		.alldead = say_nothing,
		.asleep = config.deadlock ? deadlock_look : NULL,
	};
	bool patches;
	int r;

	real_complete();
	c.rows = thread_rows(&c.nrows);
	/* Before any call: the filter may well end the process for one that the program itself
	 * never makes. */
	if (state_filtered()) {
		run_natively("the program filters its system calls", 0);
		return false;
	}
	if (kernel_played()) {
		run_natively("the kernel has no robust lists, as qemu-user has none", 0);
		return false;
	}
	if (!loader_lost()) {
		ask_loader();
	} else if (!objects.known) {
		run_natively("the loader's list is locked", 0);
		return false;
	}
	if (objects.executable)
		stackexecutable();
	c.tls = (tls_size() + 63) & ~(size_t)63;
	patches = may_patch();
	harvest_start(patches);
	if (patches)
		points_lead();
	c.host = thread_main_init();
	c.was = thread_first()->gp;
	c.self = &thread_first()->gp;
	c.alone = patches || alone();
	preempt_deny((uintptr_t)__start_gives, (uintptr_t)__stop_gives, DENY_HELD);
	for (int i = 0; i < objects.ndenied; i++)
		preempt_deny(objects.denied[i].lo, objects.denied[i].hi, objects.denied[i].how);
	policies_wanted(&c);
	c.traceopen = file_kept(FILE_TRACE) + 1;
	/* Before a handler can find the core. */
	handlers_start();
	r = core_init(&c);
	if (r < 0) {
		record_end();
		run_natively("the scheduler cannot start", -r);
		return false;
	}
	started = true;
	if (core_points())
		heddle_mode = POINTS;
	thread_main_started();
	/* On fewer Ps than it knows of cpus libgomp spins long for who has none: unless that is
	 * ended it is better to be taken for blocked and to go on without a P, as its threads do
	 * from the kernel. */
	if (patches && (core_procs() >= procs_affinity() || core_endsspins()))
		inline_futexes();
	thread_start_signals();
	if (config.stats)
		ending_begin(config.statsfile);
	return true;
}

bool heddle_start(void)
{
	/* On its way it asks for what may be refused; natively nobody asks. */
	int saved = errno;
	bool runs = started || start();

	errno = saved;
	return runs;
}
