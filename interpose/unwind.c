/* Where the unwinder's functions are, for unwind.S; and its loading. */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lookup.h"
#include "os.h"
#include "thread.h"

static const char *const names[] = { "_Unwind_Resume", "__gcc_personality_v0" };
enum { FUNCTIONS = sizeof(names) / sizeof(names[0]) };

static ATOMIC(void *) functions[FUNCTIONS];
static __typeof__(&_dl_find_object) object_of;
static __typeof__(&backtrace) glibc_backtrace;

void *unwinder(int which, uintptr_t caller);

void unwind_find(void)
{
	void *fn = lookup_next("_dl_find_object");

	memcpy(&object_of, &fn, sizeof(fn));
	fn = lookup_next("backtrace");
	if (fn && !lookup_hidden())
		memcpy(&glibc_backtrace, &fn, sizeof(fn));
}

void unwind_load(void)
{
	void *none[1];

	/* glibc sees to it that the unwinder is there, and stays. */
	if (glibc_backtrace)
		glibc_backtrace(none, 0);
}

/* Without the loader's locks, which others may hold who wait for the thread that is unwound. */
static bool found_about(uintptr_t caller)
{
	struct dl_find_object found;
	void *fns[FUNCTIONS];

	if (!glibc_backtrace || !object_of || object_of((void *)caller, &found) != 0)
		return false;
	for (int i = 0; i < FUNCTIONS; i++) {
		fns[i] = lookup_in(found.dlfo_link_map, names[i]);
		if (!fns[i])
			return false;
	}
	for (int i = 0; i < FUNCTIONS; i++)
		st_rlx(&functions[i], fns[i]);
	return true;
}

static void find_all(void)
{
	void *library = dlopen("libgcc_s.so.1", RTLD_NOW);

	for (int i = 0; i < FUNCTIONS; i++) {
		void *fn = library ? dlsym(library, names[i]) : NULL;
		if (!fn)
			os_abort();
		st_rlx(&functions[i], fn);
	}
}

/* It asks for the personality first, and the unwinder itself is then the caller. */
void *unwinder(int which, uintptr_t caller)
{
	if (!ld_rlx(&functions[which])) {
		unwind_load();
		if (!found_about(caller))
			find_all();
	}
	return ld_rlx(&functions[which]);
}
