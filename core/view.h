/* What another process may see of this one's scheduler, and how it finds it.
 *
 * A page, mapped from a memfd named VIEW_NAME, says where `sched` is and where a table of rows:
 * the fields of the core's structs by name, with offset and size, so that a reader of another
 * build finds its way. The rest a reader takes from the process's memory (/proc/PID/mem), which
 * costs the process nothing, and works when it is stopped or hung. The page takes orders, too.
 *
 * Nothing of it is in the file system, in the program's table of descriptors, or left behind by
 * a death: sysmon keeps the memfd in a table of its own, and where it has none there is no page.
 * Who may read is the kernel's business: it asks for the right to trace the process. */
#ifndef HEDDLE_VIEW_H
#define HEDDLE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "atomic.h"

#define VIEW_NAME "heddle"
#define VIEW_MAGIC 0x656c64646568u /* "heddle" */

enum {
	VIEW_VERSION = 1,
	VIEW_BYTES = 4096,
	VIEW_PATH = 2048, /* in the page: from the root on, ended by 0; for who orders to write */
};

/* A field of a struct: its offset and size. A struct: its size, with an empty name. A value of
 * an enum, or a number: size 0. */
struct view_row {
	char of[12];
	char name[20];
	char text[48]; /* of a counter */
	uint32_t at;
	uint32_t size;
};

struct view_table {
	uint64_t rows; /* an address */
	uint32_t n;
	uint32_t rowsize;
};

enum view_ordered {
	VIEW_PROCS = 1, /* GOMAXPROCS; 1 .. the row max of the row procs */
	VIEW_THREADS = 2, /* the soft limit on kernel threads; 0: none */
	VIEW_SLICE = 3, /* how long a G runs while others wait, in ms */
	VIEW_TRACE = 4, /* 1: a trace begins, in the file that VIEW_PATH names; 0: it ends */
};

struct view_page {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	int32_t pid; /* these three as the process itself sees them */
	int32_t systid; /* sysmon's, in whose table is */
	int32_t fd; /* this page */
	uint32_t spare;
	uint64_t born; /* CLOCK_MONOTONIC, ns */
	uint64_t sched;
	struct view_table core, host;

	/* An order is a number never used before, times 256, plus what is ordered; above 32 bits
	 * its argument. Who gives it raises `wake` to 1 and wakes who sleeps there, by a shared
	 * futex. The answer is the order's lower half, above it 0 or an error number. Of two orders
	 * at a time one may be lost: the answer says whose was heard. */
	ATOMIC(uint32_t) wake;
	ATOMIC(uint64_t) order __attribute__((aligned(8)));
	ATOMIC(uint64_t) answer;
};

#define VIEW_FIELD(type, field, as)                                                                \
	{                                                                                          \
#type, as, "", (uint32_t) __builtin_offsetof(struct type, field),                  \
			(uint32_t)sizeof(((struct type *)0)->field)                                \
	}
#define VIEW_SIZE(type)                                                                            \
	{                                                                                          \
#type, "", "", 0, (uint32_t)sizeof(struct type)                                    \
	}
#define VIEW_NUMBER(of, name, value)                                                               \
	{                                                                                          \
		of, name, "", (uint32_t)(value), 0                                                 \
	}

/* view_open: makes the page. view_round: looks for orders. view_ordered: is one due? All
 * for sysmon. view_forked: in the child of a fork, which does not have the parent's page. */
void view_open(const struct view_row *host, uint32_t n);
void view_round(uint64_t now);
bool view_ordered(void);

/* view_path: what stands at VIEW_PATH, as far as there is room. For who carries an order out. */
void view_path(char *to, uint32_t size);
void view_forked(void);

/* view_page: this process's, or NULL. */
const struct view_page *view_page(void);

#endif
