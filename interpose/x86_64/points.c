/* glibc's read and write call a function of glibc's own, which acts on cancellations that glibc
 * knows of. That call leads to us first (patch.c). Where it is not found a cancellation finds stdio
 * only where it blocks (cancel.c): who prints on and on never ends. */
#include "points.h"

#include <stdint.h>
#include <string.h>

#include "patch.h"
#include "real.h"
#include "thread.h"

/* What stands before the call, and behind it. */
struct about {
	uint8_t nbefore, nbehind;
	uint8_t before[4], behind[24];
};

/* Until 2.40 that function stands before the system call, and has no arguments; theirs have been
 * put by, and what it returned is kept. */
#define ARGUMENTS                                                                                  \
	0x48, 0x8b, 0x54, 0x24, 0x18, /* mov 24(%rsp), %rdx */                                     \
		0x48, 0x8b, 0x74, 0x24, 0x10, /* mov 16(%rsp), %rsi */                             \
		0x41, 0x89, 0xc0, /* mov %eax, %r8d */                                             \
		0x8b, 0x7c, 0x24, 0x08 /* mov 8(%rsp), %edi */
static const struct about looks[] = {
	{ 0, 21, {}, { ARGUMENTS, 0x31, 0xc0, 0x0f, 0x05 } }, /* xor %eax, %eax; syscall */
	{ 0, 24, {}, { ARGUMENTS, 0xb8, 1, 0, 0, 0, 0x0f, 0x05 } }, /* mov $1, %eax; syscall */
};

/* From 2.41 on it makes the system call, of the number that is pushed. */
#define RETURNS 0x48, 0x83, 0xc4, 0x18, 0xc3 /* add $24, %rsp; ret */
static const struct about calls[] = {
	{ 4, 5, { 0x6a, 0, 0x31, 0xc9 }, { RETURNS } }, /* push $0; xor %ecx, %ecx */
	{ 4, 5, { 0x6a, 1, 0x31, 0xc9 }, { RETURNS } }, /* push $1; xor %ecx, %ecx */
};

/* jmp to what comes instead, the word behind it. */
static const struct springboard blank = { { 0xff, 0x25 } };
enum { ENTRY = 6 };

typedef int looking(void);
typedef long calling(long, long, long, long, long, long, long);

/* What both call themselves. */
static uintptr_t called;

static int looks_first(void)
{
	cancel_library();
	return ((looking *)called)();
}

static long calls_then(long a, long b, long c, long d, long e, long f, long number)
{
	cancel_library();
	return ((calling *)called)(a, b, c, d, e, f, number);
}

/* The place of the call in fn, NULL: there is none. */
static const uint8_t *call_of(const uint8_t *fn, const struct text_range *text,
			      const struct about *about)
{
	enum { SOON = 128 };

	if (fn < text->lo || fn + SOON > text->hi)
		return NULL;
	for (const uint8_t *at = fn + about->nbefore; at < fn + SOON - PATCH_SIZE - about->nbehind;
	     at++)
		if (at[0] == PATCH_CALL &&
		    memcmp(at - about->nbefore, about->before, about->nbefore) == 0 &&
		    memcmp(at + PATCH_SIZE, about->behind, about->nbehind) == 0)
			return patch_fits(at) ? at : NULL;
	return NULL;
}

static uintptr_t target_of(const uint8_t *call)
{
	int32_t by;

	memcpy(&by, call + 1, sizeof(by));
	return (uintptr_t)(call + PATCH_SIZE) + (uintptr_t)(intptr_t)by;
}

/* Do both lead to entry now? */
static bool lead(const struct about *about, uintptr_t entry)
{
	struct text_range text = { .name = "/libc.so" };
	struct patch p[2] = { { .board = blank }, { .board = blank } };
	const uint8_t *fns[2];

	if (!patch_text(&text))
		return false;
	memcpy(&fns[0], &real_table.read, sizeof(fns[0]));
	memcpy(&fns[1], &real_table.write, sizeof(fns[1]));
	for (int i = 0; i < 2; i++) {
		p[i].site = call_of(fns[i], &text, &about[i]);
		if (!p[i].site)
			return false;
		memcpy(p[i].board.code + ENTRY, &entry, sizeof(entry));
	}
	if (target_of(p[0].site) != target_of(p[1].site))
		return false;
	called = target_of(p[0].site);
	return patch(p, 2);
}

void points_lead(void)
{
	if (!called && !lead(looks, (uintptr_t)looks_first))
		lead(calls, (uintptr_t)calls_then);
}
