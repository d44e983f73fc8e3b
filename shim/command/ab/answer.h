/* What a run has answered, and whether another answered otherwise. Programs tell times and
 * addresses, and threads their lines in any order: so a text is compared in three ways, and the
 * strictest in which the first variant agrees with itself is the one that counts. */
#ifndef HEDDLE_AB_ANSWER_H
#define HEDDLE_AB_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum likeness {
	ALIKE_EXACTLY,
	ALIKE_BUT_NUMBERS, /* and the space about them */
	ALIKE_BUT_ORDER, /* of lines, and numbers */
	LIKENESSES,
};

struct answer {
	uint64_t hash[LIKENESSES];
};

struct answer answer_of(const char *text, size_t n);

/* answer_difference: the first line that tells two texts apart, for people, in one line; "" if it
 * was not found. */
void answer_difference(const char *a, size_t na, const char *b, size_t nb, enum likeness level,
		       char *to, size_t size);

#endif
