/* Formatting for reports: see text.h. Owns no state. */
#include "text.h"

#include "os.h"

static void put(struct text *t, char c)
{
	if (t->len + 1 < t->cap) {
		t->buf[t->len++] = c;
		t->buf[t->len] = 0;
	}
}

void text_put(struct text *t, const char *s)
{
	while (*s)
		put(t, *s++);
}

static void put_base(struct text *t, uint64_t n, unsigned base)
{
	char digits[24];
	unsigned i = 0;

	do
		digits[i++] = "0123456789abcdef"[n % base];
	while (n /= base);
	while (i > 0)
		put(t, digits[--i]);
}

void text_unsigned(struct text *t, uint64_t n)
{
	put_base(t, n, 10);
}

void text_num(struct text *t, int64_t n)
{
	if (n < 0)
		put(t, '-');
	put_base(t, n < 0 ? 0 - (uint64_t)n : (uint64_t)n, 10);
}

void text_hex(struct text *t, uint64_t n)
{
	text_put(t, "0x");
	put_base(t, n, 16);
}

/* What may become of a file, in libc's words. */
enum { ERRORS = 133 };
static const char *const errors[ERRORS] = {
	[1] = "Operation not permitted",  [2] = "No such file or directory",
	[5] = "Input/output error",	  [13] = "Permission denied",
	[20] = "Not a directory",	  [21] = "Is a directory",
	[24] = "Too many open files",	  [27] = "File too large",
	[28] = "No space left on device", [30] = "Read-only file system",
	[36] = "File name too long",	  [40] = "Too many levels of symbolic links",
	[122] = "Disk quota exceeded",
};

void text_error(struct text *t, int error)
{
	if (error > 0 && error < ERRORS && errors[error]) {
		text_put(t, ": ");
		text_put(t, errors[error]);
	} else {
		text_put(t, ": error ");
		text_num(t, error);
	}
}

void text_write2(struct text *t)
{
	os_write2(t->buf, t->len);
	t->len = 0;
}
