/* The lookup of real.h. Owns the table. */
#include "real.h"

#include <dlfcn.h>
#include <string.h>

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

EARLY static const char *hidden, *hidden_file;

static void *next(const struct lookup_name *name, bool answered)
{
	void *at = lookup_named(name);
	const char *file = at && answered ? lookup_hidden() : NULL;

	if (file && !hidden) {
		hidden = name->text;
		hidden_file = file;
	}
	return at;
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
	for (int i = 0; i < ROWS; i++) {
		struct lookup_name name = { text, rows[i].size, rows[i].hash };
		void *at = quick ? next(&name, rows[i].answered) : dlsym(RTLD_NEXT, text);
		memcpy((char *)&real_table + (size_t)i * sizeof(at), &at, sizeof(at));
		text += name.size;
	}
	return real_table.pthread_create && real_table.pthread_mutex_lock &&
	       real_table.pthread_exit;
}
