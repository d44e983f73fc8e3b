/* The lookup of real.h. Owns the table. */
#include "real.h"

#include <dlfcn.h>
#include <string.h>

#include "atomic.h"
#include "early.h"
#include "lookup.h"
#include "mode.h"

EARLY struct real real_table;

/* Which roads do without the real call. */
enum {
	LOCAL = 0,
	WAKES = 0,
	PARKS = 1,
	HANDS = 0,
	ENDS = 0,
	SPAWNS = 0,
	REAPS = 0,
	LASTS = 0,
	AGAIN = 0,
	NEVER = 0
};

/* The names of the table, one behind the other, and of each what is known of it here; without
 * pointers, which the loader would have to relocate. */
#define ALIAS(...)
#define PLAIN CALL
#define CALL(type, name, params, args, road) #name "\0"
static const char names[] =
#include "calls.def"
	"syscall";
#undef CALL
#define CALL(type, name, params, args, road) { LOOKUP_HASH(#name), sizeof(#name), (road) != 0 },
static const struct {
	uint32_t hash;
	uint8_t size;
	bool answered;
} rows[] = {
#include "calls.def"
	CALL(long, syscall, , , LOCAL)
};
#undef CALL
#define CALL(type, name, params, args, road)                                                       \
	_Static_assert(sizeof(#name) <= LOOKUP_LONGEST + 1, #name " is hashed whole");
#include "calls.def"
#undef CALL
#undef PLAIN
#undef ALIAS
enum { ROWS = sizeof(rows) / sizeof(*rows) };
_Static_assert(sizeof(real_table) == ROWS * sizeof(void *), "a row for each");

/* In the arch folder: where row n stands until its symbol is looked up, 16 * n bytes from here;
 * from there real_late is called. */
extern const char real_late_entries[];
enum { LATE_ENTRY = 16 };
void *real_late(uint32_t n);

EARLY static const char *hidden, *hidden_file;

static void *late_entry(uint32_t n)
{
	return (void *)((uintptr_t)real_late_entries + (uintptr_t)n * LATE_ENTRY);
}

static ATOMIC(void *) *row_of(uint32_t n)
{
	return (ATOMIC(void *) *)(void *)&real_table + n;
}

/* Any thread may, several at once, in a handler, too: it takes no lock. The first to have found it
 * has: who comes later, after real_complete, may have found ours in the real one's place. */
static void *find(uint32_t n, const char *name)
{
	void *at = lookup_named(&(struct lookup_name){ name, rows[n].size, rows[n].hash });

	return cas_rlx(row_of(n), late_entry(n), at) ? at : ld_rlx(row_of(n));
}

void *real_late(uint32_t n)
{
	const char *name = names;

	for (uint32_t i = 0; i < n; i++)
		name += rows[i].size;
	return find(n, name);
}

void real_complete(void)
{
	EARLY static ATOMIC(bool) complete;
	const char *name = names;

	/* Acquire: pairs with the release below: who takes an address finds the real one. */
	if (ld_acq(&complete))
		return;
	for (uint32_t i = 0; i < ROWS; i++) {
		if (ld_rlx(row_of(i)) == late_entry(i))
			find(i, name);
		name += rows[i].size;
	}
	st_rel(&complete, true);
}

const char *real_hidden(const char **file)
{
	*file = hidden_file;
	return hidden;
}

bool real_resolve(void)
{
	bool quick = lookup_begin();
	const char *text = names;

	/* Of names in several versions dlsym gives the newest. A lookup that fails would call
	 * malloc, perhaps the program's, which may not be ready: so the table holds only what
	 * every glibc from 2.34 on has. */
	for (uint32_t i = 0; i < ROWS; i++) {
		struct lookup_name name = { text, rows[i].size, rows[i].hash };
		st_rlx(row_of(i), quick ? late_entry(i) : dlsym(RTLD_NEXT, text));
		if (quick && rows[i].answered && !hidden && (hidden_file = lookup_ahead(&name)))
			hidden = text;
		text += name.size;
	}
	return real_table.pthread_create && real_table.pthread_mutex_lock &&
	       real_table.pthread_exit;
}
