/* See host.h. Under a sanitizer the Ms are real threads of libc's, since its runtime must
 * know them; otherwise the core makes its own. */
#include "host.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "gmp.h"
#include "os.h"
#include "preempt.h"
#include "san.h"
#include "sched.h"

static void own_stack(uintptr_t *lo, uintptr_t *hi)
{
	pthread_attr_t attr;
	void *base;
	size_t len;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &base, &len);
	pthread_attr_destroy(&attr);
	*lo = (uintptr_t)base;
	*hi = (uintptr_t)base + len;
}

static void *thread_main(void *arg)
{
	uintptr_t lo, hi;

	own_stack(&lo, &hi);
	core_mstart(arg, lo, hi);
	return NULL;
}

static int thread_start(struct m *mp)
{
	pthread_t t;
	return -pthread_create(&t, NULL, thread_main, mp);
}

bool can_preempt(void)
{
	return SAN_ASYNC_PREEMPT;
}

/* What the core does itself if there is no newosproc. */
static void bare_thread(void *arg)
{
	struct m *mp = arg;
	core_mstart(mp, mp->g0.stack.lo, mp->g0.stack.hi);
}

static int start_all_but_sysmon(struct m *mp)
{
	if (mp == sched.sysmonm)
		return 0;
	if (!SAN_ASYNC_PREEMPT)
		return thread_start(mp);
	long r = arch_clone(mp->g0.stack.hi, bare_thread, mp, mp->g0.fsbase, &mp->tid);
	return r < 0 ? (int)r : 0;
}

void without_sysmon(struct core_config *config)
{
	config->newosproc = start_all_but_sysmon;
	config->preempt = false;
}

void without_preemption(struct core_config *config)
{
	config->preempt = false;
}

/* In the release build debuglevel is a constant. */
bool has_dcheck(void)
{
	return !__builtin_constant_p(debuglevel);
}

void expect_broken(const char *row, void (*fn)(void))
{
	char said[1024] = "", wanted[64] = "heddle: ";
	size_t len = 0;
	ssize_t n;
	int status, fds[2];
	pid_t pid;

	strcat(strcat(wanted, row), " is broken");
	EXPECT_EQ(pipe(fds), 0);
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], STDERR_FILENO);
		fn();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	EXPECT(waitpid(pid, &status, 0) == pid);
	if (!strstr(said, wanted))
		test_say("  no '%s' but: %s", wanted, said);
	EXPECT(strstr(said, wanted) != NULL);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGABRT);
}

void skipped(const char *why)
{
	test_say("  skipped: %s", why);
}

/* Preemption keeps off libc and the loader, and the room that errno and its like need. */
static size_t tls_below;

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	bool program = info->dlpi_name[0] == 0;

	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr;
		if (ph->p_type == PT_TLS)
			tls_below += ph->p_memsz + ph->p_align;
		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && !program)
			preempt_deny(lo, lo + ph->p_memsz,
				     strstr(info->dlpi_name, "/ld-") ? DENY_ALWAYS : DENY_AWHILE);
	}
	return 0;
}

void configure(struct core_config *config, int procs)
{
	static char number[16];
	char *p = number + sizeof(number) - 1;

	do
		*--p = (char)('0' + procs % 10);
	while (procs /= 10);
	*config = (struct core_config){
		.seed = test_seed(),
		.preempt = true,
		.debuglevel = 1,
		.gomaxprocs = p,
	};
	own_stack(&config->stacklo, &config->stackhi);
	tls_below = 0;
	dl_iterate_phdr(look_at_object, NULL);
	if (SAN_ASYNC_PREEMPT)
		config->tls = (tls_below + 63) & ~(size_t)63;
	else
		config->newosproc = thread_start;
	if (getenv("HEDDLE_DEBUG"))
		config->debuglevel = atoi(getenv("HEDDLE_DEBUG"));
	if (getenv("HEDDLE_SCHEDTRACE"))
		config->schedtrace = (uint32_t)atoi(getenv("HEDDLE_SCHEDTRACE"));
	config->trace = getenv("HEDDLE_TRACE");
}

void hold(struct mutex *l)
{
	pin(getg());
	lock(l);
}

void let_go(struct mutex *l)
{
	unlock(l);
	unpin(getg());
}

void start_with(int procs, void (*fn)(struct core_config *))
{
	struct core_config config;

	configure(&config, procs);
	if (fn)
		fn(&config);
	EXPECT_EQ(core_init(&config), 0);
}

void start(int procs)
{
	start_with(procs, NULL);
}

void group_done(struct group *grp)
{
	if (add_sc(&grp->left, (uint32_t)-1) == 1)
		futex_wake(&grp->left, FUTEX_ANY, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
}

void group_wait(struct group *grp)
{
	uint32_t n;
	while ((n = ld_sc(&grp->left)) != 0)
		futex_wait(&grp->left, n, (uint32_t)FUTEX_ANY, NULL, 0);
}

void raise_by(ATOMIC(uint32_t) *word, uint32_t by)
{
	add_sc(word, by);
	futex_wake(word, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static bool raised(ATOMIC(uint32_t) *word, uint32_t least, const struct deadline *d)
{
	uint32_t n;
	int r = 0;

	while ((n = ld_sc(word)) < least && r == 0) {
		r = futex_wait(word, n, (uint32_t)FUTEX_ANY, d, 0);
		if (r == -EAGAIN)
			r = 0;
	}
	return n >= least;
}

void wait_raised(ATOMIC(uint32_t) *word, uint32_t least)
{
	EXPECT(raised(word, least, NULL));
}

bool raised_within(ATOMIC(uint32_t) *word, uint32_t least, uint64_t ns)
{
	struct deadline d = { CLOCK_MONOTONIC, nanotime() + ns };

	return raised(word, least, &d);
}

void until_waiting(struct g *gp)
{
	while (ld_acq(&gp->status) != GWAITING)
		gosched();
}

struct g *go(void (*fn)(void *), void *arg)
{
	struct g *gp = NULL;
	EXPECT_EQ(newproc(fn, arg, SMALL_STACK, &gp), 0);
	return gp;
}

uint64_t now_ns(void)
{
	return nanotime();
}

void sleep_ns(uint64_t ns)
{
	EXPECT_EQ(gosleep(1, nanotime() + ns), 0);
}

void burn_ns(uint64_t ns)
{
	uint64_t until = nanotime() + ns;
	while (nanotime() < until)
		arch_relax();
}

static ATOMIC(uint64_t) computed;

void compute(uint64_t n)
{
	uint64_t x = n;

	while (n-- > 0)
		x = x * 6364136223846793005u + 1442695040888963407u;
	st_rlx(&computed, x);
}

void compute_until(ATOMIC(uint32_t) *stop)
{
	uint64_t x = 1, n = 0;

	while (!ld_rlx(stop)) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		n++;
	}
	st_rlx(&computed, x + n);
}

int kernel_tid(void)
{
	return os_gettid();
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return (uint32_t)(x >> 32) % n;
}
