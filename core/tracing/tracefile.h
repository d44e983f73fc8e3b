/* The file of a trace: an array of JSON that is whole after each write. What is to stand in it is
 * put into a buffer, piece by piece; each write takes it in the place of the end that the file had,
 * and closes it anew.
 *
 * So a SIGKILL leaves a whole file, unless it comes in the midst of a write: that may stop at the
 * edge of a page. Then the closing bracket is missing, which the format allows. No order of writes
 * is better: the array must end in a later page than before, and one write cannot do both at once
 * for a page that goes and one that comes. */
#ifndef HEDDLE_TRACEFILE_H
#define HEDDLE_TRACEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRACEFILE_BYTES = 8 * 1024 * 1024, /* the buffer */
	TRACEFILE_FULL = 128 * 1024, /* of what stays: then it had better be written */
	TRACEFILE_END = 256 * 1024, /* the longest end */
	TRACEFILE_LAST = TRACEFILE_BYTES / 2, /* and of one that may be the last */
	TRACEFILE_RESERVE = 512 * 1024, /* of a limit, for what was put and an end */
	TRACEFILE_PIECE = 512, /* what is put between two looks at its room */
	TRACEFILE_LEAST = 1024 * 1024, /* of what a limit may be */
};

struct tracefile {
	int fd;
	uint64_t at; /* where the end stands */
	uint64_t size; /* with it */
	uint64_t most; /* that size may be */
	char *buf;
	char *to; /* the end of what was put */
};

/* tracefile_make: a descriptor of it, or -errno: nothing may be there. tracefile_open: begins it;
 * 0, or -errno: then fd is closed. Its user keeps to the limit: 0 is none, less than
 * TRACEFILE_LEAST is taken for that. tracefile_full: what was put must be the last, but for an end,
 * and one piece or a buffer of TRACEFILE_FULL. tracefile_write: what was put up to `stays` stays,
 * the rest is the end, and is put anew each time. Returns 0 or -errno: then the file is as before,
 * and must be closed. */
int tracefile_make(const char *path);
int tracefile_open(struct tracefile *f, int fd, uint64_t limit);
int tracefile_write(struct tracefile *f, const char *stays);
void tracefile_close(struct tracefile *f);

/* put: a constant string. */
#define put(f, text)                                                                               \
	do {                                                                                       \
		__builtin_memcpy((f)->to, "" text, sizeof(text) - 1);                              \
		(f)->to += sizeof(text) - 1;                                                       \
	} while (0)

/* put_number, put_hex; put_time: of ns, in µs; put_text: up to n letters, those that JSON allows in
 * a string and one byte in UTF-8; '?' for others. */
void put_number(struct tracefile *f, uint64_t n);
void put_hex(struct tracefile *f, uint64_t n);
void put_time(struct tracefile *f, uint64_t ns);
void put_text(struct tracefile *f, const char *text, size_t n);

static inline size_t put_sofar(const struct tracefile *f)
{
	return (size_t)(f->to - f->buf);
}

static inline bool tracefile_full(const struct tracefile *f)
{
	return f->at + put_sofar(f) > f->most - TRACEFILE_RESERVE;
}

#endif
