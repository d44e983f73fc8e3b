/* libgomp makes its futex calls by an instruction of its own, at every barrier of a team. Left
 * alone, each that sleeps has a P until sysmon finds it, and a team of more threads than Ps is half
 * as fast as natively. Behind the instruction it compares with -ENOSYS, so there is room for a jump
 * (patch.c, inline.S); what it jumps to is the futex of syscall().
 *
 * All of them or none: who waits in our queue is not woken by the kernel. So nothing is touched
 * unless the library is as gcc's sources say: each such place, with a branch behind it, has one
 * other system call, for kernels without private futexes, and there are no more. That nothing
 * jumps to the comparison is looked at by a test. */
#include "inline.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#include "mode.h"
#include "patch.h"
#include "preempt.h"
#include "rawfutex.h"
#include "syscall.h"

/* syscall; cmp $-ENOSYS, %rax */
static const uint8_t wanted[] = { 0x0f, 0x05, 0x48, 0x83, 0xf8, 0xda };

enum { SITE = sizeof(wanted) };

/* lea -128(%rsp), %rsp; push, as far as it goes, and the rest of where to go on; jmp to entry. */
static const struct springboard blank = { { 0x48, 0x8d, 0x64, 0x24, 0x80, /* 0 */
					    0x68, 0,	0,    0,    0, /* 5 */
					    0xc7, 0x44, 0x24, 0x04, 0,	  0, 0, 0, /* 10 */
					    0xff, 0x25, 0,    0,    0,	  0, /* 18 */
					    0,	  0,	0,    0,    0,	  0, 0, 0 } }; /* 24 */
enum { LOW = 6, HIGH = 14, ENTRY = 24 };

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

static bool is_site(const uint8_t *p)
{
	enum { JE = 0x74, JNE = 0x75, FAR = 0x0f };

	return memcmp(p, wanted, SITE) == 0 && (p[SITE] == JE || p[SITE] == JNE || p[SITE] == FAR);
}

static void fill(struct patch *p, const uint8_t *site)
{
	uintptr_t on = (uintptr_t)(site + SITE), entry = (uintptr_t)inline_entry;

	p->site = site;
	p->board = blank;
	memcpy(p->board.code + LOW, &on, 4);
	memcpy(p->board.code + HIGH, (uint8_t *)&on + 4, 4);
	memcpy(p->board.code + ENTRY, &entry, sizeof(entry));
}

/* How many; 0: the library is not as it should be. */
static int find_sites(const struct text_range *t, struct patch *found)
{
	int calls = 0, n = 0;

	for (const uint8_t *p = t->lo; p + SITE < t->hi; p++) {
		if (p[0] != wanted[0] || p[1] != wanted[1])
			continue;
		/* No code goes on so, but a distance in it may. */
		if (p[2] == 0 && p[3] == 0)
			continue;
		calls++;
		if (!is_site(p))
			continue;
		if (n == PATCH_MOST || !patch_fits(p))
			return 0;
		fill(&found[n++], p);
	}
	return calls == 2 * n ? n : 0;
}

void inline_futexes(void)
{
	static bool done;
	struct text_range soname = { .name = "/libgomp.so" }, vendored = { .name = "/libgomp-" };
	struct text_range *text = &soname;
	struct patch patches[PATCH_MOST];
	int n;

	if (done)
		return;
	done = true;
	if (!patch_text(text))
		text = &vendored;
	if (text == &vendored && !patch_text(text))
		return;
	n = find_sites(text, patches);
	if (n > 0 && patch(patches, n))
		spin_library((uintptr_t)text->lo, (uintptr_t)text->hi);
}
