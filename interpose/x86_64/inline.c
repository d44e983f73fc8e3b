/* libgomp makes its futex calls by an instruction of its own, at every barrier of a team. Left
 * alone, each that sleeps has a P until sysmon finds it, and a team of more threads than Ps is half
 * as fast as natively. Behind the instruction it compares with -ENOSYS, so there is room for a jump
 * (inline.S); what it jumps to is the futex of syscall().
 *
 * All of them or none: who waits in our queue is not woken by the kernel. So nothing is touched
 * unless the library is as gcc's sources say: each such place, with a branch behind it, has one
 * other system call, for kernels without private futexes, and there are no more. That nothing
 * jumps to the comparison is looked at by a test. */
#include "inline.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "mode.h"
#include "rawfutex.h"
#include "syscall.h"

/* syscall; cmp $-ENOSYS, %rax */
static const uint8_t wanted[] = { 0x0f, 0x05, 0x48, 0x83, 0xf8, 0xda };

enum {
	SITE = sizeof(wanted),
	COMPARISON = 2, /* where in it that begins */
	JUMP = 5, /* the size of one */
	MOST = 64,
	PAGE = 4096,
	/* A page for springboards is looked for so near. */
	NEAR = 1 << 30,
	STRIDE = 1 << 16,
};

/* lea -128(%rsp), %rsp; push, as far as it goes, and the rest of where to go on; jmp to entry. */
struct springboard {
	uint8_t redzone[5];
	uint8_t push;
	uint8_t low[4];
	uint8_t rest[4];
	uint8_t high[4];
	uint8_t jump[6];
	uint8_t entry[8];
};

_Static_assert(sizeof(struct springboard) == 32 && MOST * 32 <= PAGE, "one page of them");

static const struct springboard blank = {
	.redzone = { 0x48, 0x8d, 0x64, 0x24, 0x80 },
	.push = 0x68,
	.rest = { 0xc7, 0x44, 0x24, 0x04 },
	.jump = { 0xff, 0x25 },
};

struct library {
	const uint8_t *lo, *hi; /* its text */
	const uint8_t *sites[MOST];
	int n;
};

void inline_entry(void);
long inline_call(long nr, const long *regs);

/* From inline.S. */
long inline_call(long nr, const long *regs)
{
	long a[6], r;
	int saved = errno;
	bool ours = false;

	memcpy(a, regs, sizeof(a));
	if (nr == SYS_futex && (a[1] & FUTEX_PRIVATE_FLAG) && served()) {
		r = private_futex(a, &ours);
		errno = saved;
		if (ours)
			return r;
	}
	return arch_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct library *l = arg;

	(void)size;
	if (!strstr(info->dlpi_name, "/libgomp.so") && !strstr(info->dlpi_name, "/libgomp-"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X)) {
			l->lo = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);
			l->hi = l->lo + ph->p_memsz;
		}
	}
	return 1;
}

static bool is_site(const uint8_t *p)
{
	enum { JE = 0x74, JNE = 0x75, FAR = 0x0f };

	return memcmp(p, wanted, SITE) == 0 && (p[SITE] == JE || p[SITE] == JNE || p[SITE] == FAR);
}

/* False: the library is not as it should be. */
static bool find_sites(struct library *l)
{
	int calls = 0;

	for (const uint8_t *p = l->lo; p + SITE < l->hi; p++) {
		if (p[0] != wanted[0] || p[1] != wanted[1])
			continue;
		/* No code goes on so, but a distance in it may. */
		if (p[2] == 0 && p[3] == 0)
			continue;
		calls++;
		if (!is_site(p))
			continue;
		/* A write to two pages might be half done. */
		if (l->n == MOST || (uintptr_t)p % PAGE + JUMP > PAGE)
			return false;
		l->sites[l->n++] = p;
	}
	return l->n > 0 && calls == 2 * l->n;
}

static uint8_t *page_near(const uint8_t *at)
{
	uintptr_t base = (uintptr_t)at & ~(uintptr_t)(PAGE - 1);

	for (uintptr_t by = STRIDE; by < NEAR; by += STRIDE) {
		uintptr_t there = base - by;
		long r = arch_syscall6(SYS_mmap, (long)there, PAGE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (r == (long)there)
			return (uint8_t *)there;
		if (r == -EEXIST)
			continue;
		/* A kernel that does not know the flag, or no memory. */
		if (r >= 0)
			arch_syscall3(SYS_munmap, r, PAGE, 0);
		return NULL;
	}
	return NULL;
}

static void fill(struct springboard *b, const uint8_t *site)
{
	uintptr_t on = (uintptr_t)(site + SITE), entry = (uintptr_t)inline_entry;

	*b = blank;
	memcpy(b->low, &on, sizeof(b->low));
	memcpy(b->high, (uint8_t *)&on + sizeof(b->low), sizeof(b->high));
	memcpy(b->entry, &entry, sizeof(b->entry));
}

static bool put_code(int mem, const uint8_t *at, const uint8_t *code)
{
	return arch_syscall4(SYS_pwrite64, mem, (long)code, JUMP, (long)at) == JUMP;
}

/* By its file: a page that was made writable would have to be made executable again, which a policy
 * of the system's may forbid. */
static bool lead_away(const struct library *l, const struct springboard *boards)
{
	int mem = (int)arch_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/mem",
				     O_RDWR | O_CLOEXEC, 0);
	int n = 0;

	if (mem < 0)
		return false;
	for (; n < l->n; n++) {
		uint8_t code[JUMP] = { 0xe9 };
		const uint8_t *site = l->sites[n];
		int32_t by = (int32_t)((const uint8_t *)&boards[n] - (site + JUMP));
		memcpy(code + 1, &by, sizeof(by));
		if (!put_code(mem, site, code))
			break;
	}
	if (n < l->n)
		for (int i = 0; i < n; i++)
			put_code(mem, l->sites[i], wanted);
	arch_syscall3(SYS_close, mem, 0, 0);
	return n == l->n;
}

void inline_futexes(void)
{
	static bool done;
	struct library l = { 0 };
	struct springboard *boards;

	if (done)
		return;
	done = true;
	if (dl_iterate_phdr(find_library, &l) == 0 || !find_sites(&l))
		return;
	boards = (struct springboard *)page_near(l.lo);
	if (!boards)
		return;
	for (int i = 0; i < l.n; i++)
		fill(&boards[i], l.sites[i]);
	if (arch_syscall3(SYS_mprotect, (long)boards, PAGE, PROT_READ | PROT_EXEC) != 0 ||
	    !lead_away(&l, boards))
		arch_syscall3(SYS_munmap, (long)boards, PAGE, 0);
}
