/* Finds functions in the vDSO by its ELF tables, since libc's own pointers to them are
 * private. Owns no state; trusts the image, which the kernel made, but not that it is
 * there. Refuses symbol versions: the kernel has never had two of one name.
 * Next: os.c, which calls the clock it finds. */
#include "vdso.h"

#include <elf.h>
#include <stddef.h>

#include "os.h"

enum { PAGE = 4096 };

struct image {
	uintptr_t bias; /* what an address in the file needs to be one in memory */
	const Elf64_Phdr *phdr;
	unsigned phnum;
	const Elf64_Sym *symtab;
	const char *strtab;
	const uint32_t *hash; /* DT_HASH, or NULL */
	const uint32_t *gnuhash; /* DT_GNU_HASH, or NULL */
};

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static bool image_segments(struct image *im, const void *at)
{
	const Elf64_Ehdr *eh = at;

	if (!eh || eh->e_ident[0] != ELFMAG0 || eh->e_ident[1] != ELFMAG1 ||
	    eh->e_ident[2] != ELFMAG2 || eh->e_ident[3] != ELFMAG3 ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	*im = (struct image){ .phnum = eh->e_phnum };
	im->phdr = (const Elf64_Phdr *)((uintptr_t)at + eh->e_phoff);
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *ph = &im->phdr[i];
		if (ph->p_type == PT_LOAD) {
			im->bias = (uintptr_t)at + ph->p_offset - ph->p_vaddr;
			return true;
		}
	}
	return false;
}

/* The kernel maps the file and relocates nothing: each address in it needs the bias. */
static bool image_dynamic(struct image *im)
{
	const Elf64_Dyn *dyn = NULL;

	for (unsigned i = 0; i < im->phnum; i++)
		if (im->phdr[i].p_type == PT_DYNAMIC)
			dyn = (const Elf64_Dyn *)(im->bias + im->phdr[i].p_vaddr);
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		uintptr_t at = im->bias + dyn->d_un.d_ptr;
		switch (dyn->d_tag) {
		case DT_SYMTAB:
			im->symtab = (const Elf64_Sym *)at;
			break;
		case DT_STRTAB:
			im->strtab = (const char *)at;
			break;
		case DT_HASH:
			im->hash = (const uint32_t *)at;
			break;
		case DT_GNU_HASH:
			im->gnuhash = (const uint32_t *)at;
			break;
		}
	}
	return im->symtab && im->strtab;
}

/* ELF nowhere says how long a symbol table is. DT_HASH happens to have one chain entry
 * a symbol; of DT_GNU_HASH, which newer kernels have alone, the last symbol of the last
 * chain is the last of all. */
static uint32_t image_symbols(const struct image *im)
{
	if (im->hash)
		return im->hash[1];
	if (!im->gnuhash)
		return 0;

	uint32_t nbuckets = im->gnuhash[0], first = im->gnuhash[1], bloom = im->gnuhash[2];
	const uint32_t *bucket = im->gnuhash + 4 + (size_t)bloom * 2;
	const uint32_t *chain = bucket + nbuckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < nbuckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static bool callable(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info), bind = ELF64_ST_BIND(sym->st_info);

	/* Some cpus' vDSOs are assembly that never said what it is. */
	return sym->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE) &&
	       (bind == STB_GLOBAL || bind == STB_WEAK);
}

void *vdso_symbol_in(const void *image, const char *name)
{
	struct image im;

	if (!image_segments(&im, image) || !image_dynamic(&im))
		return NULL;
	for (uint32_t i = 0, n = image_symbols(&im); i < n; i++) {
		const Elf64_Sym *sym = &im.symtab[i];
		if (callable(sym) && same(im.strtab + sym->st_name, name))
			return (void *)(im.bias + sym->st_value);
	}
	return NULL;
}

bool vdso_text_in(const void *image, uintptr_t *lo, uintptr_t *hi)
{
	struct image im;

	*lo = *hi = 0;
	if (!image_segments(&im, image))
		return false;
	for (unsigned i = 0; i < im.phnum; i++) {
		const Elf64_Phdr *ph = &im.phdr[i];
		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		*lo = (im.bias + ph->p_vaddr) & ~(uintptr_t)(PAGE - 1);
		*hi = (im.bias + ph->p_vaddr + ph->p_memsz + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
		return true;
	}
	return false;
}

static const void *image(void)
{
	return (const void *)os_auxv(OS_AT_SYSINFO_EHDR);
}

void *vdso_symbol(const char *name)
{
	return vdso_symbol_in(image(), name);
}

bool vdso_text(uintptr_t *lo, uintptr_t *hi)
{
	return vdso_text_in(image(), lo, hi);
}
