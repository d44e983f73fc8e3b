/* Before their system call glibc's read and write call a function of glibc's own, which acts on
 * cancellations that glibc knows of. That call leads to us first (patch.c). Where there is none a
 * cancellation finds stdio only where it blocks (cancel.c): who prints on and on never ends. */
#include "points.h"

#include <stdint.h>
#include <string.h>

#include "patch.h"
#include "real.h"
#include "thread.h"

/* The arguments, that were put by for the call, and what it returned: */
static const uint8_t behind[] = {
	0x48, 0x8b, 0x54, 0x24, 0x18, /* mov 24(%rsp), %rdx */
	0x48, 0x8b, 0x74, 0x24, 0x10, /* mov 16(%rsp), %rsi */
	0x41, 0x89, 0xc0, /* mov %eax, %r8d */
	0x8b, 0x7c, 0x24, 0x08, /* mov 8(%rsp), %edi */
};
/* xor %eax, %eax or mov $1, %eax; syscall. */
static const uint8_t reads[] = { 0x31, 0xc0, 0x0f, 0x05 };
static const uint8_t writes[] = { 0xb8, 1, 0, 0, 0, 0x0f, 0x05 };

/* jmp to point, the word behind it. */
static const struct springboard blank = { { 0xff, 0x25 } };
enum { ENTRY = 6 };

static int (*glibcs)(void);

static int point(void)
{
	cancel_library();
	return glibcs();
}

/* The place of the call in fn, NULL: there is none. */
static const uint8_t *call_of(const uint8_t *fn, const struct text_range *text, const uint8_t *call,
			      size_t n)
{
	enum { SOON = 128 };

	if (fn < text->lo || fn + SOON > text->hi)
		return NULL;
	for (const uint8_t *at = fn; at < fn + SOON - PATCH_SIZE - sizeof(behind) - n; at++)
		if (at[0] == PATCH_CALL && memcmp(at + PATCH_SIZE, behind, sizeof(behind)) == 0 &&
		    memcmp(at + PATCH_SIZE + sizeof(behind), call, n) == 0)
			return patch_fits(at) ? at : NULL;
	return NULL;
}

static uintptr_t target_of(const uint8_t *call)
{
	int32_t by;

	memcpy(&by, call + 1, sizeof(by));
	return (uintptr_t)(call + PATCH_SIZE) + (uintptr_t)(intptr_t)by;
}

void points_lead(void)
{
	struct text_range text = { .name = "/libc.so" };
	struct patch p[2] = { { .board = blank }, { .board = blank } };
	uintptr_t entry = (uintptr_t)point, target;
	const uint8_t *fn;

	if (glibcs || !patch_text(&text))
		return;
	memcpy(&fn, &real_table.read, sizeof(fn));
	p[0].site = call_of(fn, &text, reads, sizeof(reads));
	memcpy(&fn, &real_table.write, sizeof(fn));
	p[1].site = call_of(fn, &text, writes, sizeof(writes));
	if (!p[0].site || !p[1].site || target_of(p[0].site) != target_of(p[1].site))
		return;
	target = target_of(p[0].site);
	memcpy(&glibcs, &target, sizeof(glibcs));
	for (int i = 0; i < 2; i++)
		memcpy(p[i].board.code + ENTRY, &entry, sizeof(entry));
	patch(p, 2);
}
