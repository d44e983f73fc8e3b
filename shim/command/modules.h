/* The objects that a process has mapped: what lies where, how its frames are unwound, and the names
 * of its functions. What the process says of itself is checked; its files are read, never mapped.
 */
#ifndef HEDDLE_COMMAND_MODULES_H
#define HEDDLE_COMMAND_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mem.h"

struct symbol {
	uint64_t at, size; /* the address as in the file */
	uint32_t name; /* in names */
};

struct module {
	uint64_t lo, hi; /* from its first mapping to the end of its last */
	uint64_t bias; /* of addresses in the file */
	uint64_t table, ntable; /* the search table of .eh_frame_hdr; 0: none */
	uint64_t segbase; /* what its entries are relative to */
	char *path;
	const char *name; /* of its file, in path */
	bool read; /* the symbols below */
	struct symbol *symbols; /* by address */
	uint32_t nsymbols;
	char *names;
	uint64_t names_size;
};

struct modules {
	pid_t pid;
	struct mem *mem;
	struct module *of;
	int n;
};

/* modules_read: NULL if the process is gone. module_at: that which holds an address; or NULL. */
struct modules *modules_read(pid_t pid, struct mem *mem);
void modules_free(struct modules *ms);
struct module *module_at(const struct modules *ms, uint64_t at);

/* module_symbol: the name of the function there, and how far it is in; or NULL. */
const char *module_symbol(const struct modules *ms, struct module *m, uint64_t at, uint64_t *in);

/* symbols_read: of m's file. symbols_free. In symbols.c. */
void symbols_read(const struct modules *ms, struct module *m);
void symbols_free(struct module *m);

#endif
