/* Instructions of a library's, led to ours. */
#ifndef HEDDLE_PATCH_H
#define HEDDLE_PATCH_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	PATCH_SIZE = 5, /* of the instructions that give way: those of a jump */
	PATCH_MOST = 64,
	PATCH_CALL = 0xe8, /* a call's first byte */
};

/* Code of ours that a jump of the library's can reach; it goes on wherever it likes. */
struct springboard {
	uint8_t code[32];
};

struct patch {
	/* PATCH_SIZE bytes, in one page, which nobody is in the midst of. A call stays one. */
	const uint8_t *site;
	struct springboard board;
};

/* patch_text: the library whose path's last part begins so: its text. False: there is none. */
struct text_range {
	const char *name;
	const uint8_t *lo, *hi;
};
bool patch_text(struct text_range *text);

/* patch_fits: true if a jump there would be in one page. */
bool patch_fits(const uint8_t *site);

/* patch: all of them, or, if that cannot be, none. Context: the only thread. */
bool patch(const struct patch *p, int n);

#endif
