/* Where a function of glibc's makes its system call. Newer ones make it in a function that many
 * share and that has no name outside, so it is looked for: in the code, and in what that calls. */
#include "syscalls_of.h"

#include <link.h>

/* Of those whose size is not known, so much is looked at. */
enum { UNKNOWN = 160, DEPTH = 4 };

struct search {
	uintptr_t at, lo, hi; /* the text that holds `at` */
	uintptr_t *found;
	int n, most;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr;
		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X) && s->at - lo < ph->p_memsz) {
			s->lo = lo;
			s->hi = lo + ph->p_memsz;
			return 1;
		}
	}
	return 0;
}

static void note(struct search *s, uintptr_t pc)
{
	for (int i = 0; i < s->n; i++)
		if (s->found[i] == pc)
			return;
	if (s->n < s->most)
		s->found[s->n++] = pc;
}

/* Byte by byte: what looks like a call and is none leads to a function that is not asked for, and
 * whose system calls nobody will be found at in a read or a write. */
static void search(struct search *s, uintptr_t at, size_t size, int depth)
{
	enum { CALL = 0xe8, JUMP = 0xe9, ESCAPE = 0x0f, SYSCALL = 0x05, SIZE = 5 };

	for (uintptr_t p = at; p < at + size && p + SIZE <= s->hi; p++) {
		const uint8_t *code = (const uint8_t *)p;
		if (code[0] == ESCAPE && code[1] == SYSCALL) {
			note(s, p + 2);
		} else if ((code[0] == CALL || code[0] == JUMP) && depth > 1) {
			int32_t by;
			__builtin_memcpy(&by, code + 1, sizeof(by));
			uintptr_t target = p + SIZE + (uintptr_t)(intptr_t)by;
			if (target >= s->lo && target < s->hi)
				search(s, target, UNKNOWN, depth - 1);
		}
	}
}

int syscalls_of(const void *fn, size_t size, uintptr_t *found, int most)
{
	struct search s = { .at = (uintptr_t)fn, .found = found, .most = most };

	if (dl_iterate_phdr(find_text, &s) != 0)
		search(&s, s.at, size, DEPTH);
	return s.n;
}
