/* The images of thread-local storage. Owns the list of modules whose variables lie at a
 * fixed distance from the FS base; those of libraries loaded later are asked for anew at
 * each thread's end. libc's own stay: malloc's cache is among them. */
#include "tls_image.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "atomic.h"
#include "loader.h"
#include "tls.h"

enum { MAX_MODULES = 256 };

struct module {
	ptrdiff_t at; /* from the FS base */
	const void *image;
	size_t filled, size;
};

static struct module modules[MAX_MODULES];
static int nmodules;
static size_t most; /* the room of static storage, that for libraries to come included */
static size_t widest; /* and takes */
static ATOMIC(uint32_t) others; /* modules that are not in the list may exist */
static ATOMIC(unsigned long long) adds; /* how many objects had come when none did */
static ATOMIC(unsigned long long) seen; /* at the last look */
static unsigned long long subs; /* and gone, when the list was made */
static void (*call_dtors)(void);

static bool spared(const struct dl_phdr_info *info)
{
	const char *name = info->dlpi_name;

	if (strstr(name, "/libc.so") || strstr(name, "/ld-linux"))
		return true;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr;
		if (ph->p_type == PT_LOAD && (uintptr_t)tls_reset - lo < ph->p_memsz)
			return true;
	}
	return false;
}

static const ElfW(Phdr) * tls_of(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			return &info->dlpi_phdr[i];
	return NULL;
}

static const void *image_of(const struct dl_phdr_info *info, const ElfW(Phdr) * tls)
{
	return (const void *)(info->dlpi_addr + tls->p_vaddr);
}

/* How far below each FS base a module's variables begin; 0: they are not static. */
static size_t below(const struct dl_phdr_info *info)
{
	uintptr_t fs = arch_getfs(), at = (uintptr_t)info->dlpi_tls_data;

	return at != 0 && at < fs && fs - at <= most ? fs - at : 0;
}

static int list_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Phdr) *tls = tls_of(info);
	size_t at = tls ? below(info) : 0;

	(void)size;
	(void)arg;
	st_rlx(&adds, info->dlpi_adds);
	st_rlx(&seen, info->dlpi_adds);
	subs = info->dlpi_subs;
	if (at > widest)
		widest = at;
	if (!tls || spared(info))
		return 0;
	if (at == 0 || nmodules == MAX_MODULES) {
		st_rlx(&others, 1);
		return 0;
	}
	struct module *m = &modules[nmodules++];
	m->at = -(ptrdiff_t)at;
	m->image = image_of(info, tls);
	m->filled = tls->p_filesz;
	m->size = tls->p_memsz;
	return 0;
}

/* As glibc has it. What is not static may lie right below: malloc maps it there. */
static size_t room(void)
{
	enum { LIKELY = 1 << 16 };
	void *at = dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
	void (*ask)(size_t *, size_t *);
	size_t size = LIKELY, align;

	memcpy(&ask, &at, sizeof(at));
	if (ask)
		ask(&size, &align);
	return size;
}

void tls_init(void)
{
	static bool asked; /* once: in the child of a fork the loader may be locked */
	void *at;

	if (!asked) {
		at = dlsym(RTLD_DEFAULT, "__call_tls_dtors");
		memcpy(&call_dtors, &at, sizeof(at));
		most = room();
		asked = true;
	}
	nmodules = 0;
	widest = 0;
	loader_walk(list_module, NULL);
}

size_t tls_size(void)
{
	return widest;
}

void tls_call_destructors(void)
{
	if (call_dtors)
		call_dtors();
}

static void reset(void *at, const void *image, size_t filled, size_t size)
{
	memcpy(at, image, filled);
	memset((char *)at + filled, 0, size - filled);
}

static bool listed(const void *image)
{
	for (int i = 0; i < nmodules; i++)
		if (modules[i].image == image)
			return true;
	return false;
}

struct renewal {
	unsigned long long made; /* so many had come when the thread was made */
	bool lacks;
};

/* No data: the thread has not touched them; or it was there before the library, which has static
 * storage all the same, and the loader does not say where. */
static int reset_other(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Phdr) *tls = tls_of(info);
	uintptr_t at = (uintptr_t)info->dlpi_tls_data;
	struct renewal *r = arg;

	(void)size;
	st_rlx(&seen, info->dlpi_adds);
	if (!tls || spared(info))
		return 0;
	if (at != 0)
		reset((void *)at, image_of(info, tls), tls->p_filesz, tls->p_memsz);
	else if (info->dlpi_adds != r->made && !listed(image_of(info, tls)))
		r->lacks = true;
	return 0;
}

/* Of those that went one may be in the list. */
static int see_change(struct dl_phdr_info *info, size_t size, void *now)
{
	const ElfW(Phdr) *tls = tls_of(info);

	(void)size;
	*(unsigned long long *)now = info->dlpi_adds;
	if (info->dlpi_subs != subs || (tls && !spared(info) && !listed(image_of(info, tls)))) {
		st_rlx(&others, 1);
		return 1;
	}
	return info->dlpi_adds == ld_rlx(&adds);
}

/* Looks at one object, unless libraries came since the last look. */
static void see_changes(void)
{
	unsigned long long now;

	if (loader_walk(see_change, &now) == 0)
		st_rlx(&adds, now);
}

unsigned long long tls_seen(void)
{
	return ld_rlx(&seen);
}

bool tls_asks(void)
{
	return ld_rlx(&others) != 0;
}

bool tls_reset(unsigned long long made, bool asks)
{
	struct renewal r = { made, false };
	uintptr_t fs;

	if (asks) {
		loader_walk(reset_other, &r);
		return !r.lacks;
	}
	see_changes();
	if (ld_rlx(&others))
		return false;
	fs = arch_getfs();
	for (int i = 0; i < nmodules; i++)
		reset((void *)(fs + (uintptr_t)modules[i].at), modules[i].image, modules[i].filled,
		      modules[i].size);
	return true;
}
