/* dlsym of a library by its handle, dlvsym, and opening with RTLD_DEEPBIND: who asks the C library
 * for a call by name (ctypes and other foreign functions, Free Pascal's threads, a wrapper in front
 * of heddle that wants a version of it, a module that is to be bound to its own libraries) would
 * pass heddle by, and half the process would be told of the kernel's threads. Their entries are in
 * dlsym.S. */
#include <dlfcn.h>
#include <stddef.h>

#include "atomic.h"
#include "guard.h"
#include "lookup.h"
#include "mode.h"
#include "os.h"
#include "signals.h"
#include "thread.h"

typedef void *lookup(void *library, const char *name);
typedef void *versioned_lookup(void *library, const char *name, const char *version);
typedef void *opener(const char *file, int mode);
typedef void *space_opener(long space, const char *file, int mode);

lookup symbol_of;
lookup *symbol_real(void);

/* Those here are not in the table, which may be filled by dlsym. */
static void *real_of(ATOMIC(void *) *known, const char *name)
{
	/* Relaxed: whoever comes first finds the same, and nothing goes with it. */
	void *real = ld_rlx(known);

	if (!real) {
		real = lookup_behind(name);
		st_rlx(known, real);
	}
	return real;
}

lookup *symbol_real(void)
{
	static ATOMIC(void *) known;

	return (lookup *)real_of(&known, "dlsym");
}

void *symbol_of(void *library, const char *name)
{
	void *at = symbol_real()(library, name), *ours;

	if (!at || !served())
		return at;
	/* Only in place of the very one that ours calls: a wrapper's, which is behind heddle, would
	 * be called by ours again. */
	ours = lookup_before(name, at);
	return ours ? ours : at;
}

/* A version of ours there is hardly any (exports.sh), so whoever asks for one looks past heddle,
 * and past others that have no versions. */
struct versioned {
	void *ours; /* or NULL: what the real one says */
	versioned_lookup *real;
};

struct versioned symbol_versioned(void *library, const char *name, const char *version,
				  const void *caller);

struct versioned symbol_versioned(void *library, const char *name, const char *version,
				  const void *caller)
{
	static ATOMIC(void *) known;
	struct versioned v = { NULL, (versioned_lookup *)real_of(&known, "dlvsym") };
	const struct link_map *from = NULL;
	Dl_info info;
	void *at;

	if (!served())
		return v;
	if (library == RTLD_NEXT &&
	    (!dladdr1(caller, &info, (void **)(uintptr_t)&from, RTLD_DL_LINKMAP) ||
	     !lookup_reaches(from, name)))
		return v;
	at = v.real(library, name, version);
	if (at)
		v.ours = lookup_before(name, at);
	return v;
}

/* The objects that are bound to themselves find the C library before heddle: it has heddle's, then.
 * Before they are bound, for their constructors may run threads. */
static void before_binding(void)
{
	static const char passes_by[] =
		"heddle: what is opened with RTLD_DEEPBIND passes heddle by: "
		"the C library's symbols are not to be written\n";
	static ATOMIC(uint32_t) one_at_a_time;
	static ATOMIC(bool) replaced;

	/* Acquire: pairs with the release below. */
	if (ld_acq(&replaced) || !served())
		return;
	guard_lock(&one_at_a_time);
	/* They look for them by name and place. */
	real_complete();
	cancel_find();
	handlers_find();
	if (!ld_rlx(&replaced) && !lookup_replace())
		os_write2(passes_by, sizeof(passes_by) - 1);
	st_rel(&replaced, true);
	guard_unlock(&one_at_a_time);
}

opener *symbols_open(const char *file, int mode);

opener *symbols_open(const char *file, int mode)
{
	static ATOMIC(void *) known;

	(void)file;
	if (mode & RTLD_DEEPBIND)
		before_binding();
	return (opener *)real_of(&known, "dlopen");
}

space_opener *symbols_mopen(long space, const char *file, int mode);

space_opener *symbols_mopen(long space, const char *file, int mode)
{
	static ATOMIC(void *) known;

	(void)file;
	/* Others have a C library of their own. */
	if (space == LM_ID_BASE && (mode & RTLD_DEEPBIND))
		before_binding();
	return (space_opener *)real_of(&known, "dlmopen");
}
