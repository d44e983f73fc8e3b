/* What the cpu folder does in C: thread blocks, fresh contexts, the FS base on cpus
 * that guard it. The switch itself is switch.S. */
#include <asm/prctl.h>
#include <cpuid.h>

#include "atomic.h"
#include "context.h"
#include "cpu.h"
#include "extras.h"
#include "os.h"
#include "syscall.h"
#include "tls.h"

__thread struct g *heddle_g;

/* With what is not 0 from the start: among the rest it would be alone on a page which each process
 * would have to be given as it starts. */
bool arch_fsgsbase __attribute__((section(".data")));

/* Read by switch.S: the first at each switch. The second is for contexts that were saved before:
 * what all threads had then. */
ATOMIC(uint8_t) arch_extras;
uint32_t arch_pkru_before __attribute__((visibility("hidden")));

void arch_start(void);

bool arch_loads_bases(void)
{
	enum { HWCAP2_FSGSBASE = 2 };

	return (os_auxv(OS_AT_HWCAP2) & HWCAP2_FSGSBASE) != 0;
}

void arch_init(void)
{
	arch_fsgsbase = arch_loads_bases();
}

uintptr_t arch_getfs(void)
{
	uintptr_t base = 0;
	if (arch_fsgsbase)
		__asm__ volatile("rdfsbase %0" : "=r"(base));
	else
		arch_syscall3(__NR_arch_prctl, ARCH_GET_FS, (long)&base, 0);
	return base;
}

void arch_setfs_slow(uintptr_t base)
{
	arch_syscall3(__NR_arch_prctl, ARCH_SET_FS, (long)base, 0);
}

/* The part of a thread block above the FS base that compiled code may look at: the
 * self pointer at 0 and 16, the stack guard at 40, the pointer guard at 48; libc's own
 * fields behind them are left room and stay zero. */
enum { TCB_SIZE = 2496 };

size_t arch_tls_size(size_t below)
{
	return ((below + 63) & ~(size_t)63) + TCB_SIZE;
}

uintptr_t arch_tls_init(void *mem, size_t below)
{
	uintptr_t fs = (uintptr_t)mem + ((below + 63) & ~(size_t)63);
	uintptr_t *tcb = (uintptr_t *)fs;
	uintptr_t guard, pointer_guard;

	__asm__ volatile("movq %%fs:40, %0\n\tmovq %%fs:48, %1" : "=r"(guard), "=r"(pointer_guard));
	tcb[0] = fs;
	tcb[2] = fs;
	tcb[5] = guard;
	tcb[6] = pointer_guard;
	return fs;
}

static uint32_t rdpkru(void)
{
	uint32_t pkru, high;

	__asm__ volatile("rdpkru" : "=a"(pkru), "=d"(high) : "c"(0));
	return pkru;
}

void arch_context_init(struct gobuf *buf, uintptr_t top, void (*entry)(void *), void *arg)
{
	uintptr_t *sp = (uintptr_t *)(top - 16 - 72);
	uint32_t mxcsr;
	uint16_t x87, flags;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1\n\tfnstsw %2"
			 : "=m"(mxcsr), "=m"(x87), "=m"(flags));
	/* The exceptions that were raised stay so, as in a thread of the kernel's; but for an
	 * unmasked one of the x87, which would trap in the first instruction. */
	flags &= x87 & 0x3f;
	sp[0] = (uint64_t)x87 << 32 | mxcsr;
	sp[1] = ld_rlx(&arch_extras) & EXTRA_PKRU ? rdpkru() | (uintptr_t)1 << 48 : 0;
	sp[1] |= (uintptr_t)flags << 32;
	sp[2] = 0;
	sp[3] = 0;
	sp[4] = (uintptr_t)arg;
	sp[5] = (uintptr_t)entry;
	sp[6] = 0;
	sp[7] = 0;
	sp[8] = (uintptr_t)arch_start + 1;
	buf->sp = (uintptr_t)sp;
}

void arch_use_pkru(void)
{
	enum { LEAF = 7, OSPKE = 1 << 4 };
	uint32_t a, b, c, d;

	if ((ld_acq(&arch_extras) & EXTRA_PKRU) || !__get_cpuid_count(LEAF, 0, &a, &b, &c, &d) ||
	    !(c & OSPKE))
		return;
	arch_pkru_before = rdpkru();
	/* Release: who sees it finds that value. */
	or_sc(&arch_extras, EXTRA_PKRU);
}

bool arch_has_tiles(void)
{
	enum { ARCH_GET_XCOMP_PERM_ = 0x1022, TILE_DATA = 1 << 18 };
	uint64_t permitted = 0;

	return arch_syscall3(__NR_arch_prctl, ARCH_GET_XCOMP_PERM_, (long)&permitted, 0) == 0 &&
	       (permitted & TILE_DATA);
}

void arch_use_tiles(void)
{
	enum { LEAF = 7, AMX_TILE = 1 << 24 };
	uint32_t a, b, c, d;

	/* Nothing goes with it: a context that was saved before has none, and says so. */
	if (__get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & AMX_TILE))
		or_sc(&arch_extras, EXTRA_TILES);
}
