/* Text for reports, built in a fixed buffer without libc; what does not fit is cut. */
#ifndef HEDDLE_TEXT_H
#define HEDDLE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char *buf;
	size_t cap; /* of buf, the closing 0 included */
	size_t len;
};

#define TEXT(array)                                                                                \
	{                                                                                          \
		.buf = (array), .cap = sizeof(array), .len = 0                                     \
	}

void text_put(struct text *t, const char *s);
void text_num(struct text *t, int64_t n);
void text_unsigned(struct text *t, uint64_t n);
void text_hex(struct text *t, uint64_t n);

/* text_error: a colon, and what an errno of files means. */
void text_error(struct text *t, int error);

/* text_write2: sends it to standard error in one write and empties it. */
void text_write2(struct text *t);

#endif
