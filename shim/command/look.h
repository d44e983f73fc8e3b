/* A look into a process that heddle serves: finding its page (core/view.h), and reading what the
 * page tells of. All that comes from the process is taken as if an enemy had written it: addresses
 * are read, never followed; sizes and lists are bounded. */
#ifndef HEDDLE_COMMAND_LOOK_H
#define HEDDLE_COMMAND_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mem.h"
#include "view.h"

struct view {
	pid_t pid;
	struct mem *mem;
	struct view_page page;
	struct view_row *rows;
	uint32_t nrows;
};

/* view_of: of a process; NULL, and *why in words, if there is none to be had. view_in: of a page
 * at that address of a memory, which it takes. */
struct view *view_of(pid_t pid, const char **why);
struct view *view_in(pid_t pid, struct mem *mem, uint64_t at);
void view_close(struct view *v);

/* view_tid: the number that a kernel thread of the process has here, which may be in another pid
 * namespace; 0 if it cannot be told. */
pid_t view_tid(const struct view *v, uint64_t tid);

/* A struct of the process: which fields are wanted, by name, all of them numbers. Those that it
 * does not have read as 0. */
enum { SHAPE_FIELDS = 24 };
struct shape {
	const char *of;
	const char *names[SHAPE_FIELDS + 1];
	int n; /* of them; this and the rest by shape_find */
	struct {
		uint32_t at, size;
	} fields[SHAPE_FIELDS];
	uint32_t size;
};

/* shape_find: fills in where they are; false if there is no such struct. shape_read: those of the
 * one at that address. */
bool shape_find(const struct view *v, struct shape *shape);
bool shape_read(const struct view *v, const struct shape *shape, uint64_t at, uint64_t *out);

/* view_row: a row by its two names; or NULL. view_name: the value's name in an enum; "?". */
const struct view_row *view_row(const struct view *v, const char *of, const char *name);
const char *view_name(const struct view *v, const char *of, uint64_t value);

/* view_number: an enum's value or another number of the table, or otherwise. */
uint64_t view_number(const struct view *v, const char *of, const char *name, uint64_t otherwise);

/* view_text: a string of at most size - 1 bytes that the struct at that address contains. */
bool view_text(const struct view *v, const char *of, const char *name, uint64_t at, char *to,
	       size_t size);

#endif
