/* A jump in place of other instructions, or a call of another, to a page nearby, from where all of
 * ours can be reached. Nothing is touched where any of this is not as expected. */
#include "patch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "syscall.h"

enum {
	PAGE = 4096,
	/* A page for springboards is looked for so near. */
	NEAR = 1 << 30,
	STRIDE = 1 << 16,
};

_Static_assert(sizeof(struct springboard) * PATCH_MOST <= PAGE, "one page of them");

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct text_range *t = arg;
	const char *file = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!file || strncmp(file, t->name, strlen(t->name)) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X)) {
			t->lo = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);
			t->hi = t->lo + ph->p_memsz;
		}
	}
	return 1;
}

bool patch_text(struct text_range *text)
{
	return dl_iterate_phdr(find_text, text) != 0;
}

bool patch_fits(const uint8_t *site)
{
	return (uintptr_t)site % PAGE + PATCH_SIZE <= PAGE;
}

static struct springboard *page_near(const uint8_t *at)
{
	uintptr_t base = (uintptr_t)at & ~(uintptr_t)(PAGE - 1);

	/* In long steps, beyond the object that it is in; and then all over. */
	for (int pass = 0; pass < 2; pass++)
		for (uintptr_t by = STRIDE; by < NEAR; by += pass ? STRIDE : by) {
			uintptr_t there = base - by;
			long r = arch_syscall6(SYS_mmap, (long)there, PAGE, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
					       -1, 0);
			if (r == (long)there)
				return (struct springboard *)there;
			if (r == -EEXIST)
				continue;
			/* A kernel that does not know the flag, or no memory. */
			if (r >= 0)
				arch_syscall3(SYS_munmap, r, PAGE, 0);
			return NULL;
		}
	return NULL;
}

static bool put_code(int mem, const uint8_t *at, const uint8_t *code)
{
	return arch_syscall4(SYS_pwrite64, mem, (long)code, PATCH_SIZE, (long)at) == PATCH_SIZE;
}

/* By its file: a page that was made writable would have to be made executable again, which a policy
 * of the system's may forbid. */
static bool lead_away(const struct patch *p, int n, const struct springboard *boards)
{
	uint8_t was[PATCH_MOST][PATCH_SIZE];
	int mem = (int)arch_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/mem",
				     O_RDWR | O_CLOEXEC, 0);
	int done = 0;

	if (mem < 0)
		return false;
	for (; done < n; done++) {
		const uint8_t *site = p[done].site;
		uint8_t code[PATCH_SIZE] = { site[0] == PATCH_CALL ? PATCH_CALL : 0xe9 };
		int32_t by = (int32_t)((const uint8_t *)&boards[done] - (site + PATCH_SIZE));
		memcpy(was[done], site, PATCH_SIZE);
		memcpy(code + 1, &by, sizeof(by));
		if (!put_code(mem, site, code))
			break;
	}
	if (done < n)
		for (int i = 0; i < done; i++)
			put_code(mem, p[i].site, was[i]);
	arch_syscall3(SYS_close, mem, 0, 0);
	return done == n;
}

bool patch(const struct patch *p, int n)
{
	struct springboard *boards = page_near(p[0].site);

	if (!boards)
		return false;
	for (int i = 0; i < n; i++)
		boards[i] = p[i].board;
	if (arch_syscall3(SYS_mprotect, (long)boards, PAGE, PROT_READ | PROT_EXEC) == 0 &&
	    lead_away(p, n, boards))
		return true;
	arch_syscall3(SYS_munmap, (long)boards, PAGE, 0);
	return false;
}
