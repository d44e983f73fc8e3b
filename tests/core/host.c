/* See host.h. Under a sanitizer the Ms are real threads of libc's, since its runtime must
 * know them; otherwise the core makes its own. */
#define _GNU_SOURCE
#include "host.h"

#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gmp.h"
#include "os.h"
#include "preempt.h"
#include "san.h"
#include "sched.h"

static void *thread_main(void *arg)
{
	pthread_attr_t attr;
	void *lo;
	size_t len;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &lo, &len);
	pthread_attr_destroy(&attr);
	core_mstart(arg, (uintptr_t)lo, (uintptr_t)lo + len);
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
			preempt_deny(lo, lo + ph->p_memsz, strstr(info->dlpi_name, "/ld-") != NULL);
	}
	return 0;
}

void start_with(int procs, void (*fn)(struct core_config *))
{
	char number[16];
	struct core_config config = {
		.seed = test_seed(),
		.preempt = true,
		.debuglevel = 1,
		.gomaxprocs = number,
	};
	char *p = number + sizeof(number) - 1;

	*p = 0;
	do
		*--p = (char)('0' + procs % 10);
	while (procs /= 10);
	config.gomaxprocs = p;
	dl_iterate_phdr(look_at_object, NULL);
	if (SAN_ASYNC_PREEMPT)
		config.tls = (tls_below + 63) & ~(size_t)63;
	else
		config.newosproc = thread_start;
	if (getenv("HEDDLE_DEBUG"))
		config.debuglevel = atoi(getenv("HEDDLE_DEBUG"));
	if (getenv("HEDDLE_SCHEDTRACE"))
		config.schedtrace = (uint32_t)atoi(getenv("HEDDLE_SCHEDTRACE"));
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
		futex_wake(&grp->left, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

void group_wait(struct group *grp)
{
	uint32_t n;
	while ((n = ld_sc(&grp->left)) != 0)
		futex_wait(&grp->left, n, (uint32_t)FUTEX_ANY, NULL, 0);
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
