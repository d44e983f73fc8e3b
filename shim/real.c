/* The lookup of real.h. Owns the table. */
#include "real.h"

#include <dlfcn.h>
#include <string.h>

#include "lookup.h"

struct real real_table;

bool real_resolve(void)
{
	bool quick = lookup_begin();
	void *at;

	/* Of names in several versions dlsym gives the newest. A lookup that fails would call
	 * malloc, perhaps the program's, which may not be ready: so the table holds only what
	 * every glibc from 2.34 on has. */
#define CALL(type, name, params, args, road)                                                       \
	at = quick ? lookup_next(#name) : dlsym(RTLD_NEXT, #name);                                 \
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
