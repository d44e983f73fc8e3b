/* The lookup of real.h. Owns the table. */
#include "real.h"

#include <dlfcn.h>
#include <string.h>

#include "lookup.h"

struct real real_table;

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

static const char *hidden, *hidden_file;

static void *next(const char *name, bool answered)
{
	void *at = lookup_next(name);
	const char *file = at && answered ? lookup_hidden() : NULL;

	if (file && !hidden) {
		hidden = name;
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
	void *at;

	/* Of names in several versions dlsym gives the newest. A lookup that fails would call
	 * malloc, perhaps the program's, which may not be ready: so the table holds only what
	 * every glibc from 2.34 on has. */
#define CALL(type, name, params, args, road)                                                       \
	at = quick ? next(#name, (road) != 0) : dlsym(RTLD_NEXT, #name);                           \
	memcpy(&real_table.name, &at, sizeof(at));
#define ALIAS(...)
#define PLAIN CALL
#include "calls.def"
#undef PLAIN
#undef ALIAS
#undef CALL
	at = quick ? lookup_next("syscall") : dlsym(RTLD_NEXT, "syscall");
	memcpy(&real_table.syscall, &at, sizeof(at));
	return real_table.pthread_create && real_table.pthread_mutex_lock &&
	       real_table.pthread_exit;
}
