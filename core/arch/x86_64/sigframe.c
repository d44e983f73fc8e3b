/* The kernel's signal frame on x86-64, for G preemption: sigsave.h has the contract.
 *
 * The frame is, upwards: return address, ucontext, siginfo; and, wherever the kernel
 * aligned it, the extended cpu state that uc_mcontext.fpregs points to. The state's
 * length is in its software-reserved bytes. */
#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "atomic.h"
#include "extras.h"
#include "os.h"
#include "sigsave.h"

enum {
	FP_MAGIC1 = 0x46505853,
	FP_SW_OFFSET = 464, /* in the legacy area of 512 bytes */
	FP_LEGACY = 512,
	XSAVE_PARTS = 8,
	XSAVE_COMPUTE = 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7, /* AVX; of AVX-512 masks, halves, high */
	COMEBACK_STACK = 4096,
	PAGE = 4096,
	RED_ZONE = 128,
	EFLAGS_PLAIN = 0x202, /* no direction, no trap, no alignment check */
	/* The kernel's ucontext ends with a mask of 64 bits, glibc's with one of 1024. */
	UC_SIZE = offsetof(ucontext_t, uc_sigmask) + 8,
};

/* In whole words. Without the magic2 that ends it, and half a word, the kernel takes the registers
 * of vectors for none. */
static size_t fpstate_size(const void *fp)
{
	const uint32_t *sw = (const uint32_t *)((const char *)fp + FP_SW_OFFSET);
	/* magic1, extended_size */
	return sw[0] == FP_MAGIC1 ? (sw[1] + (size_t)7) & ~(size_t)7 : FP_LEGACY;
}

size_t arch_sigframe_size(void)
{
	size_t frame = (size_t)os_auxv(OS_AT_MINSIGSTKSZ);

	if (frame == 0)
		frame = 4 * PAGE;
	return (sizeof(struct sigsave) + COMEBACK_STACK + UC_SIZE + frame + PAGE - 1) &
	       ~(size_t)(PAGE - 1);
}

static void copy_words(uintptr_t to, const void *from, size_t n)
{
	for (size_t i = 0; i < n / 8; i++)
		((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
}

bool arch_sigsave(struct sigsave *save, const void *uc, struct gobuf *buf, void (*comeback)(void *))
{
	const ucontext_t *from = uc;
	const void *fp = from->uc_mcontext.fpregs;
	size_t fpsize = fp ? fpstate_size(fp) : 0;
	uintptr_t end = (uintptr_t)save + save->size;
	uintptr_t fp_at = (end - fpsize) & ~(uintptr_t)63;
	/* The kernel reads the frame at the stack pointer less 8 when it ends. */
	uintptr_t uc_at = (fp_at - UC_SIZE - 64) & ~(uintptr_t)15;
	uintptr_t top = (uc_at - 64) & ~(uintptr_t)15;

	if (fpsize > save->size || top < (uintptr_t)(save + 1) + COMEBACK_STACK / 2)
		return false;
	copy_words(uc_at, uc, UC_SIZE);
	copy_words(fp_at, fp, fpsize);
	if (fp)
		((ucontext_t *)uc_at)->uc_mcontext.fpregs = (void *)fp_at;
	save->uc = uc_at;
	arch_context_init(buf, top, comeback, save);
	return true;
}

void arch_sigredirect(void *uc, const struct gobuf *buf)
{
	greg_t *regs = ((ucontext_t *)uc)->uc_mcontext.gregs;
	fpregset_t fp = ((ucontext_t *)uc)->uc_mcontext.fpregs;

	/* What the G left on the x87 stack, and its flags, are no business of the next. One by one:
	 * the program may have asked that what is not aligned traps. */
	if (fp) {
		*(volatile uint16_t *)&fp->swd = 0;
		*(volatile uint16_t *)&fp->ftw = 0;
	}
	regs[REG_RIP] = (greg_t)arch_switch_landing;
	regs[REG_RSP] = (greg_t)buf->sp;
	regs[REG_EFL] = EFLAGS_PLAIN;
}

bool arch_sigmove(int sig, const void *info, void *at, uintptr_t alt, size_t size,
		  void (*fn)(int, void *, void *))
{
	enum { INFO_SIZE = 128, ALIGNING = 128 };
	ucontext_t *uc = at;
	greg_t *regs = uc->uc_mcontext.gregs;
	const void *fp = uc->uc_mcontext.fpregs;
	size_t fpsize = fp ? fpstate_size(fp) : 0;
	bool enters = arch_sigsp(at) - alt >= size;
	uintptr_t hi = enters && size ? alt + size : arch_sigsp(at) - RED_ZONE;
	uintptr_t fp_at = (hi - fpsize) & ~(uintptr_t)63;
	uintptr_t info_at = fp_at - INFO_SIZE;
	uintptr_t uc_at = (info_at - UC_SIZE) & ~(uintptr_t)15;
	uintptr_t sp = uc_at - sizeof(uintptr_t);

	if (enters && size && size < fpsize + INFO_SIZE + UC_SIZE + ALIGNING)
		return false;
	copy_words(fp_at, fp, fpsize);
	copy_words(info_at, info, INFO_SIZE);
	copy_words(uc_at, uc, UC_SIZE);
	if (fp)
		((ucontext_t *)uc_at)->uc_mcontext.fpregs = (void *)fp_at;
	/* The return address: unwinders know the end of a handler by the code there. */
	*(uintptr_t *)sp = ((const uintptr_t *)at)[-1];
	regs[REG_RDI] = sig;
	regs[REG_RSI] = (greg_t)info_at;
	regs[REG_RDX] = (greg_t)uc_at;
	regs[REG_RSP] = (greg_t)sp;
	regs[REG_RIP] = (greg_t)fn;
	regs[REG_EFL] = EFLAGS_PLAIN;
	/* A handler begins with a fresh one. */
	uc->uc_mcontext.fpregs = NULL;
	*(uint64_t *)&uc->uc_sigmask = ~(uint64_t)0;
	return true;
}

void arch_sigdivert(void *at, void (*fn)(void))
{
	ucontext_t *uc = at;
	greg_t *regs = uc->uc_mcontext.gregs;
	uintptr_t pc = arch_sigpc(uc);
	greg_t *sp;

	/* On its way into a frame: that is where it was interrupted. */
	if (pc >= (uintptr_t)arch_sigreturn && pc < (uintptr_t)arch_sigreturn_end)
		regs = ((ucontext_t *)regs[REG_RDI])->uc_mcontext.gregs;
	sp = (greg_t *)(((uintptr_t)regs[REG_RSP] - RED_ZONE - 2 * sizeof(*sp)) & ~(uintptr_t)15);
	sp[0] = regs[REG_RIP];
	sp[1] = regs[REG_RSP];
	regs[REG_RSP] = (greg_t)sp;
	regs[REG_RIP] = (greg_t)arch_diverted;
	regs[REG_RDI] = (greg_t)fn;
	regs[REG_EFL] = EFLAGS_PLAIN;
}

void arch_sigrefused(void *at)
{
	enum { NO_SUCH_CALL = -38 };
	ucontext_t *uc = at;

	/* The kernel left the number of the call there. */
	uc->uc_mcontext.gregs[REG_RAX] = NO_SUCH_CALL;
}

enum { SYSCALL_0 = 0x0f, SYSCALL_1 = 0x05, INTERRUPTED = -4 };

bool arch_sigaftercall(const void *uc)
{
	const uint8_t *pc = (const uint8_t *)arch_sigpc(uc);

	return pc[-2] == SYSCALL_0 && pc[-1] == SYSCALL_1;
}

bool arch_sigcall(const void *at)
{
	const greg_t *regs = ((const ucontext_t *)at)->uc_mcontext.gregs;
	const uint8_t *pc = (const uint8_t *)regs[REG_RIP];

	if (pc[0] == SYSCALL_0 && pc[1] == SYSCALL_1)
		return true;
	return regs[REG_RAX] == INTERRUPTED && pc[-2] == SYSCALL_0 && pc[-1] == SYSCALL_1;
}

bool arch_sigcallout(void *at, long nr)
{
	greg_t *regs = ((ucontext_t *)at)->uc_mcontext.gregs;
	const uint8_t *pc = (const uint8_t *)regs[REG_RIP];

	if (regs[REG_RAX] != nr || pc[0] != SYSCALL_0 || pc[1] != SYSCALL_1)
		return false;
	regs[REG_RAX] = INTERRUPTED;
	regs[REG_RIP] += 2;
	return true;
}

static bool waits_for_completions(uint32_t nr)
{
	enum { IO_GETEVENTS = 208, IO_PGETEVENTS = 333, IO_URING_ENTER = 426 };

	return nr == IO_GETEVENTS || nr == IO_PGETEVENTS || nr == IO_URING_ENTER;
}

/* The number of the call that the instruction before pc made: what was moved to eax, from a
 * register that calls keep (mov %r32, %eax) just before, or as it is (mov $imm, %eax) somewhere
 * before. */
static uint32_t number_of(const uint8_t *pc, const greg_t *regs)
{
	enum { MOV = 0x89, REX_R = 0x44, MOV_IMM = 0xb8, BEFORE = 2, MOST = 32 };
	static const uint8_t kept[] = { [3] = REG_RBX,	[5] = REG_RBP,	[12] = REG_R12,
					[13] = REG_R13, [14] = REG_R14, [15] = REG_R15 };
	const uint8_t *at = pc - BEFORE;

	if (at[-2] == MOV && (at[-1] & 0xc7) == 0xc0) {
		int from = (at[-1] >> 3 & 7) | (at[-3] == REX_R ? 8 : 0);
		return kept[from] ? (uint32_t)regs[kept[from]] : 0;
	}
	for (int i = 5; i < MOST; i++) {
		const uint8_t *imm = at - i + 1;
		uint32_t nr = imm[0] | (uint32_t)imm[1] << 8;
		if (at[-i] == MOV_IMM && (imm[2] | imm[3]) == 0 && waits_for_completions(nr))
			return nr;
	}
	return 0;
}

void arch_sigredo(void *at)
{
	greg_t *regs = ((ucontext_t *)at)->uc_mcontext.gregs;
	const uint8_t *pc = (const uint8_t *)regs[REG_RIP];
	uint32_t nr;

	if (regs[REG_RAX] != INTERRUPTED || pc[-2] != SYSCALL_0 || pc[-1] != SYSCALL_1)
		return;
	nr = number_of(pc, regs);
	if (!waits_for_completions(nr))
		return;
	regs[REG_RAX] = nr;
	regs[REG_RIP] -= 2;
}

bool arch_sigfutex(const void *at, uintptr_t *addr, int *op)
{
	enum { NR_FUTEX = 202 };
	const greg_t *regs = ((const ucontext_t *)at)->uc_mcontext.gregs;
	const uint8_t *pc = (const uint8_t *)regs[REG_RIP];

	/* To be made, perhaps again; or over. Its arguments are where they were. */
	if (regs[REG_RAX] == INTERRUPTED)
		pc -= 2;
	else if (regs[REG_RAX] != NR_FUTEX)
		return false;
	*addr = (uintptr_t)regs[REG_RDI];
	*op = (int)regs[REG_RSI];
	return pc[0] == SYSCALL_0 && pc[1] == SYSCALL_1;
}

/* Of what XSAVE keeps behind the legacy area: where the registers are that compute. */
static const struct part {
	uint32_t at, size;
} * parts_of_xsave(void)
{
	enum { LEAF = 13 };
	static struct part parts[XSAVE_PARTS];
	static ATOMIC(bool) known;
	uint32_t c, d;

	/* Acquire: pairs with the release below. Who comes meanwhile writes the same. */
	if (ld_acq(&known))
		return parts;
	for (uint32_t i = 0; i < XSAVE_PARTS; i++)
		if (!(XSAVE_COMPUTE >> i & 1) ||
		    !__get_cpuid_count(LEAF, i, &parts[i].size, &parts[i].at, &c, &d))
			parts[i].size = 0;
	st_rel(&known, true);
	return parts;
}

static uint64_t mixed(uint64_t sum, const void *at, size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		sum = (sum ^ ((const uint64_t *)at)[i]) * 0x9e3779b97f4a7c15u;
	return sum;
}

/* All registers of vectors and of the x87. Those that are as at the start have no words there. */
static uint64_t mixed_vectors(const struct _libc_fpstate *fp)
{
	const char *area = (const char *)fp;
	uint64_t sum = mixed(mixed(0, fp->_st, sizeof(fp->_st)), fp->_xmm, sizeof(fp->_xmm)), has;
	const struct part *parts = parts_of_xsave();

	if (fpstate_size(fp) <= FP_LEGACY)
		return sum;
	has = *(const uint64_t *)(const void *)(area + FP_LEGACY);
	for (int i = 0; i < XSAVE_PARTS; i++)
		if ((has >> i & 1) && parts[i].size != 0 &&
		    parts[i].at + parts[i].size <= fpstate_size(fp))
			sum = mixed(sum, area + parts[i].at, parts[i].size);
	return sum;
}

void arch_sigregs(const void *at, struct sigregs *to)
{
	const ucontext_t *uc = at;
	const greg_t *regs = uc->uc_mcontext.gregs;
	const struct _libc_fpstate *fp = uc->uc_mcontext.fpregs;
	int n = 0;

	for (int i = REG_R8; i <= REG_RCX; i++)
		to->others[n++] = (uint64_t)regs[i];
	to->sp = (uintptr_t)regs[REG_RSP];
	to->pc = (uintptr_t)regs[REG_RIP];
	to->vector = fp ? mixed_vectors(fp) : 0;
}

uintptr_t arch_sigpc(const void *uc)
{
	return (uintptr_t)((const ucontext_t *)uc)->uc_mcontext.gregs[REG_RIP];
}

uintptr_t arch_sigsp(const void *uc)
{
	return (uintptr_t)((const ucontext_t *)uc)->uc_mcontext.gregs[REG_RSP];
}

uint64_t arch_sigmaskof(const void *uc)
{
	return *(const uint64_t *)&((const ucontext_t *)uc)->uc_sigmask;
}

void arch_sigblock(void *uc, uint64_t set)
{
	*(uint64_t *)&((ucontext_t *)uc)->uc_sigmask |= set;
}

/* The kernel has room for tiles only of a kernel thread that has used some; of a frame with more
 * than that it restores no registers but those of SSE. */
static void make_room_for_tiles(void)
{
	static const struct {
		uint8_t palette, start, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} one = { .palette = 1, .bytes = { 64 }, .rows = { 1 } };
	uint32_t state, high;

	__asm__ volatile("xgetbv" : "=a"(state), "=d"(high) : "c"(1));
	if (!(state & TILES_STATE))
		__asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" : : "m"(one));
}

void arch_sigrebind(void *frame, void *sigstack, size_t len)
{
	ucontext_t *uc = frame;

	if (ld_rlx(&arch_extras) & EXTRA_TILES)
		make_room_for_tiles();
	uc->uc_stack.ss_sp = sigstack;
	uc->uc_stack.ss_size = len;
	uc->uc_stack.ss_flags = 0;
}
