/* The look-up of lookup.h: ELF's hash tables of the GNU kind, read in place. */
#include "lookup.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomic.h"
#include "early.h"
#include "mode.h"

enum { OBJECTS = 256, HIDDEN = 0x8000, WORD_BITS = 64 };

/* What of an object the search needs; the table's parts as the format has them. */
static struct object {
	uintptr_t base;
	const char *file;
	const ElfW(Sym) * symbols;
	const char *names;
	size_t names_size;
	const uint16_t *versions;
	const uint64_t *bloom;
	const uint32_t *buckets, *chains;
	uint32_t nbuckets, first, nbloom, shift;
} objects[OBJECTS];
EARLY static struct object own;
EARLY static int nobjects;
EARLY static int found, libc; /* where the last search ended, and where one for libc does */
EARLY static bool begun;

/* As strcmp, which may be that of a sanitizer's runtime, and it is searched for names before that
 * has begun. */
static bool is(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* As the loader hashes. */
static struct lookup_name sought(const char *name)
{
	struct lookup_name n = { name, 1, 5381 };

	for (const char *c = name; *c; c++, n.size++)
		n.hash = n.hash * 33 + (unsigned char)*c;
	return n;
}

static uint64_t eight(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* Is that symbol called so? Its own name may be shorter, and the last of all. */
static bool is_called(const struct object *o, const ElfW(Sym) * s, const struct lookup_name *n)
{
	const char *its = o->names + s->st_name;
	size_t last = n->size - sizeof(uint64_t);

	if (s->st_name > o->names_size || n->size > o->names_size - s->st_name)
		return false;
	if (n->size < sizeof(uint64_t))
		return is(n->text, its);
	for (size_t i = 0; i < last; i += sizeof(uint64_t))
		if (eight(n->text + i) != eight(its + i))
			return false;
	return eight(n->text + last) == eight(its + last);
}

static bool describe(struct object *o, const struct link_map *map)
{
	const uint32_t *hash = NULL;

	*o = (struct object){ .file = NULL };
	o->base = map->l_addr;
	o->file = map->l_name;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)d->d_un.d_ptr;
		switch (d->d_tag) {
		case DT_GNU_HASH:
			hash = at;
			break;
		case DT_SYMTAB:
			o->symbols = at;
			break;
		case DT_STRTAB:
			o->names = at;
			break;
		case DT_STRSZ:
			o->names_size = d->d_un.d_val;
			break;
		case DT_VERSYM:
			o->versions = at;
			break;
		}
	}
	if (!hash || !o->symbols || !o->names)
		return false;
	/* The kernel's own object is not relocated, and has nothing for us. */
	if ((uintptr_t)hash < o->base)
		return true;
	o->nbuckets = hash[0];
	o->first = hash[1];
	o->nbloom = hash[2];
	o->shift = hash[3];
	o->bloom = (const uint64_t *)(const void *)(hash + 4);
	o->buckets = hash + 4 + 2 * o->nbloom;
	o->chains = o->buckets + o->nbuckets;
	return true;
}

/* Symbols that an object asks for come before those it has. */
static bool wants(const struct object *o, const char *name)
{
	for (uint32_t i = 1; i < o->first; i++)
		if (o->symbols[i].st_shndx == SHN_UNDEF &&
		    is(o->names + o->symbols[i].st_name, name))
			return true;
	return false;
}

bool lookup_wanted(const char *name)
{
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		struct object o;
		if (describe(&o, map) && o.nbuckets != 0 && wants(&o, name))
			return true;
	}
	return false;
}

bool lookup_begin(void)
{
	const struct link_map *map = _r_debug.r_map;

	nobjects = 0;
	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	if (!map || !describe(&own, map))
		return false;
	while ((map = map->l_next) != NULL) {
		if (nobjects == OBJECTS || !describe(&objects[nobjects], map))
			return false;
		nobjects += objects[nobjects].nbuckets != 0;
	}
	if (!lookup_next("gnu_get_libc_version"))
		return false;
	libc = found;
	begun = true;
	return true;
}

/* The symbols of that name, in whatever version: the first, or the one after s; NULL: no more. */
static const ElfW(Sym) *
	another(const struct object *o, const struct lookup_name *n, const ElfW(Sym) * s)
{
	uint32_t i, h = n->hash;

	if (s) {
		i = (uint32_t)(s - o->symbols);
		if (o->chains[i++ - o->first] & 1)
			return NULL;
	} else {
		uint64_t word = o->bloom[h / WORD_BITS % o->nbloom];
		if (!(word >> h % WORD_BITS & word >> (h >> o->shift) % WORD_BITS & 1))
			return NULL;
		i = o->buckets[h % o->nbuckets];
		if (i < o->first)
			return NULL;
	}
	for (;; i++) {
		uint32_t entry = o->chains[i - o->first];
		s = &o->symbols[i];
		if ((entry | 1) == (h | 1) && s->st_shndx != SHN_UNDEF && is_called(o, s, n))
			return s;
		if (entry & 1)
			return NULL;
	}
}

/* In its default version. */
static const ElfW(Sym) * find(const struct object *o, const struct lookup_name *n)
{
	const ElfW(Sym) *s = another(o, n, NULL);

	while (s && o->versions && (o->versions[s - o->symbols] & HIDDEN))
		s = another(o, n, s);
	return s;
}

static void *in_order(const struct lookup_name *name, int *in)
{
	for (int k = 0; k < nobjects; k++) {
		const ElfW(Sym) *s = find(&objects[k], name);
		if (!s)
			continue;
		*in = k;
		/* One that the loader chooses when it is asked. */
		if (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC)
			return dlsym(RTLD_NEXT, name->text);
		return (void *)(objects[k].base + s->st_value);
	}
	return NULL;
}

void *lookup_named(const struct lookup_name *name)
{
	int in;

	return in_order(name, &in);
}

const char *lookup_ahead(const struct lookup_name *name)
{
	for (int k = 0; k < libc; k++)
		if (find(&objects[k], name))
			return objects[k].file;
	return NULL;
}

void *lookup_next(const char *name)
{
	struct lookup_name n = sought(name);

	return in_order(&n, &found);
}

void *lookup_libc(const char *name)
{
	struct lookup_name n = sought(name);
	const ElfW(Sym) *s = begun ? find(&objects[libc], &n) : NULL;

	return s ? (void *)(objects[libc].base + s->st_value) : NULL;
}

/* Does ours stand for that version of the same name? One without a version stands for all. */
static bool stands_for(const ElfW(Sym) * ours, const struct object *o, const ElfW(Sym) * s)
{
	uint16_t version = own.versions ? own.versions[ours - own.symbols] : VER_NDX_GLOBAL;

	if (ours->st_shndx == SHN_ABS)
		return false;
	return (version & ~HIDDEN) <= VER_NDX_GLOBAL || !o->versions ||
	       (version & HIDDEN) == (o->versions[s - o->symbols] & HIDDEN);
}

void *lookup_before(const char *name, const void *next)
{
	struct lookup_name n = sought(name);
	const ElfW(Sym) *ours = own.nbuckets ? another(&own, &n, NULL) : NULL, *s = NULL;
	int k;

	if (!ours)
		return NULL;
	for (k = 0; k < nobjects && !s; k++)
		s = another(&objects[k], &n, NULL);
	while (s && objects[k - 1].base + s->st_value != (uintptr_t)next)
		s = another(&objects[k - 1], &n, s);
	while (s && ours && !stands_for(ours, &objects[k - 1], s))
		ours = another(&own, &n, ours);
	return s && ours ? (void *)(own.base + ours->st_value) : NULL;
}

void *lookup_behind(const char *name)
{
	const struct link_map *map = _r_debug.r_map;
	void *at = NULL;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	while (map && !at && (map = map->l_next) != NULL)
		at = lookup_in(map, name);
	return at;
}

void *lookup_in(const struct link_map *object, const char *name)
{
	struct lookup_name n = sought(name);
	struct object o;
	const ElfW(Sym) *s = NULL;

	if (describe(&o, object) && o.nbuckets != 0)
		s = find(&o, &n);
	return s ? (void *)(o.base + s->st_value) : NULL;
}

bool lookup_reaches(const struct link_map *from, const char *name)
{
	struct lookup_name n = sought(name);
	bool behind = !from;

	/* Not past heddle: what is there may be unloaded meanwhile. */
	for (const struct link_map *map = _r_debug.r_map; map && map->l_ld != _DYNAMIC;
	     map = map->l_next) {
		const ElfW(Sym) * s;
		struct object o;
		if (behind && describe(&o, map) && o.nbuckets != 0 && (s = find(&o, &n)) &&
		    (!o.versions || o.versions[s - o.symbols] > VER_NDX_GLOBAL))
			return false;
		behind |= map == from;
	}
	return behind;
}

struct span {
	uintptr_t lo, hi;
};

/* Those of the calls that ours look up at any time. */
static bool finds(const char *name)
{
	return is(name, "dlopen") || is(name, "dlmopen") || is(name, "dlsym") || is(name, "dlvsym");
}

/* The C library's symbols that stand for what ours of that name covers: notes where they are, or
 * has them say ours. */
static void replace(const ElfW(Sym) * ours, struct span *at, bool now)
{
	const struct object *c = &objects[libc];
	const char *name = own.names + ours->st_name;
	struct lookup_name n = sought(name);
	const ElfW(Sym) * s;

	if (finds(name))
		return;
	/* A wrapper's own, behind heddle, may ask for libc's yet, and ours calls the wrapper's. */
	for (int k = 0; k < libc; k++)
		if (find(&objects[k], &n))
			return;
	for (s = another(c, &n, NULL); s; s = another(c, &n, s)) {
		if (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC || !stands_for(ours, c, s))
			continue;
		/* Relaxed: the loader, on whatever thread, reads the old value or the new one. */
		if (now)
			st_rlx(&((ElfW(Sym) *)(uintptr_t)s)->st_value,
			       own.base + ours->st_value - c->base);
		at->lo = at->lo < (uintptr_t)s ? at->lo : (uintptr_t)s;
		at->hi = at->hi > (uintptr_t)(s + 1) ? at->hi : (uintptr_t)(s + 1);
	}
}

static void replace_all(struct span *at, bool now)
{
	for (uint32_t b = 0; b < own.nbuckets; b++) {
		uint32_t i = own.buckets[b];
		if (i < own.first)
			continue;
		do
			replace(&own.symbols[i], at, now);
		while (!(own.chains[i++ - own.first] & 1));
	}
}

bool lookup_replace(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct span at = { UINTPTR_MAX, 0 };

	if (!begun)
		return false;
	replace_all(&at, false);
	at.lo &= -page;
	if (mprotect((void *)at.lo, at.hi - at.lo, PROT_READ | PROT_WRITE) != 0)
		return false;
	replace_all(&at, true);
	mprotect((void *)at.lo, at.hi - at.lo, PROT_READ);
	return true;
}

size_t lookup_size(const char *name, const void *fn)
{
	struct lookup_name n = sought(name);
	const void *symbol = NULL;
	Dl_info info;

	for (int k = 0; k < nobjects; k++) {
		const ElfW(Sym) *s = find(&objects[k], &n);
		if (s && objects[k].base + s->st_value == (uintptr_t)fn)
			return s->st_size;
	}
	if (!dladdr1(fn, &info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) || !symbol)
		return 0;
	return ((const ElfW(Sym) *)symbol)->st_size;
}

const char *lookup_hidden(void)
{
	return found != libc ? objects[found].file : NULL;
}
