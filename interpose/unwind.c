/* Where the unwinder's functions are, for unwind.S. */
#include <dlfcn.h>
#include <stddef.h>

#include "os.h"

void *unwinder(int which);

void *unwinder(int which)
{
	static const char *const names[] = { "_Unwind_Resume", "__gcc_personality_v0" };
	static ATOMIC(void *) found[2];
	void *fn = ld_rlx(&found[which]);
	void *library;

	if (fn)
		return fn;
	library = dlopen("libgcc_s.so.1", RTLD_NOW);
	fn = library ? dlsym(library, names[which]) : NULL;
	if (!fn)
		os_abort();
	st_rlx(&found[which], fn);
	return fn;
}
