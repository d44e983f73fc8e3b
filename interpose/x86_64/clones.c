/* Where glibc calls clone3: one place, in a function of that name which glibc keeps to itself. The
 * call and the test of its result behind it make room for a jump (patch.c). */
#include "clones.h"

#include <stddef.h>
#include <string.h>

#include "patch.h"
#include "real.h"

/* mov $435, %eax; syscall; test %rax, %rax; jl; je or a longer form of either. */
static const uint8_t wanted[] = { 0xb8, 0xb3, 0x01, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x85, 0xc0 };

/* jmp to clone_entry, the word behind it. */
static const struct springboard blank = { { 0xff, 0x25 } };
enum { MOV = 5, ENTRY = 6 };

__thread struct clone_taker *clone_taker;
__thread uintptr_t clone_stack;

_Static_assert(offsetof(struct clone_args, stack) == 40, "clone_entry knows it");

void clone_entry(void);

/* Where clone_entry goes on. */
uintptr_t clone_resume __attribute__((visibility("hidden")));

/* NULL: there is none, or more than one. */
static const uint8_t *only_call(const uint8_t *lo, const uint8_t *hi)
{
	const uint8_t *found = NULL;

	for (const uint8_t *at = lo; at + sizeof(wanted) <= hi; at++)
		if (memcmp(at, wanted, sizeof(wanted)) == 0) {
			if (found)
				return NULL;
			found = at;
		}
	return found;
}

/* Soon behind clone; a walk through all of the text takes most of a millisecond. */
static const uint8_t *call_in(const struct text_range *text)
{
	enum { SOON = 1 << 13 };
	const uint8_t *from, *found = NULL;

	memcpy(&from, &real_table.clone, sizeof(from));
	if (from >= text->lo && from + SOON <= text->hi)
		found = only_call(from, from + SOON);
	return found ? found : only_call(text->lo, text->hi);
}

bool clones_catch(const void *create, bool may)
{
	static bool caught, done;
	struct text_range text = { .name = "/libc.so" };
	struct patch p = { .site = NULL, .board = blank };
	uintptr_t entry = (uintptr_t)clone_entry;
	const uint8_t *call;

	if (done || !may)
		return caught;
	done = true;
	if (!patch_text(&text) || (const uint8_t *)create < text.lo ||
	    (const uint8_t *)create >= text.hi)
		return false;
	call = call_in(&text);
	if (!call || !patch_fits(call + MOV))
		return false;
	p.site = call + MOV;
	memcpy(p.board.code + ENTRY, &entry, sizeof(entry));
	clone_resume = (uintptr_t)p.site + PATCH_SIZE;
	caught = patch(&p, 1);
	return caught;
}
