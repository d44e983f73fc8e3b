/* Reading of elf.h. All of the file is taken for wrong until it fits; nothing is mapped. */
#include "elf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 64 * 1024, MAX_DYNAMIC = 4096, MAX_SECTIONS = 1 << 14, PAGE = 4096 };
static const uint64_t most = 256u << 20; /* of one table */

static bool read_all(int fd, uint64_t at, void *to, size_t n)
{
	return at <= INT64_MAX - n && pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

static void read_text(int fd, uint64_t at, char *to, size_t room)
{
	ssize_t n = at <= INT64_MAX - room ? pread(fd, to, room - 1, (off_t)at) : 0;

	to[n > 0 ? n : 0] = 0;
}

static const Elf64_Phdr *header(const struct elf *e, uint32_t type)
{
	for (int i = 0; i < e->nph; i++)
		if (e->ph[i].p_type == type)
			return &e->ph[i];
	return NULL;
}

/* Where in the file an address is; 0: nowhere. */
static uint64_t offset_of(const struct elf *e, uint64_t address)
{
	for (int i = 0; i < e->nph; i++)
		if (e->ph[i].p_type == PT_LOAD && address >= e->ph[i].p_vaddr &&
		    address - e->ph[i].p_vaddr < e->ph[i].p_filesz)
			return address - e->ph[i].p_vaddr + e->ph[i].p_offset;
	return 0;
}

static void read_dynamic(struct elf *e)
{
	const Elf64_Phdr *ph = header(e, PT_DYNAMIC);
	uint64_t strings = 0, n = ph ? ph->p_filesz / sizeof(Elf64_Dyn) : 0;
	Elf64_Dyn d;

	if (n > MAX_DYNAMIC)
		n = MAX_DYNAMIC;
	for (uint64_t i = 0; i < n; i++)
		if (read_all(e->fd, ph->p_offset + i * sizeof(d), &d, sizeof(d)) &&
		    d.d_tag == DT_STRTAB)
			strings = offset_of(e, d.d_un.d_ptr);
	for (uint64_t i = 0; strings != 0 && i < n; i++) {
		if (!read_all(e->fd, ph->p_offset + i * sizeof(d), &d, sizeof(d)) ||
		    d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_NEEDED && e->nneeded < ELF_NEEDED)
			read_text(e->fd, strings + d.d_un.d_val, e->needed[e->nneeded++], ELF_NAME);
		else if (d.d_tag == DT_RUNPATH || d.d_tag == DT_RPATH)
			read_text(e->fd, strings + d.d_un.d_val, e->runpath, sizeof(e->runpath));
	}
}

bool elf_open(struct elf *e, const char *path)
{
	const Elf64_Phdr *interp;
	struct stat st;

	memset(e, 0, sizeof(*e));
	e->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (e->fd < 0 || fstat(e->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !read_all(e->fd, 0, &e->eh, sizeof(e->eh)) ||
	    memcmp(e->eh.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	e->machine = e->eh.e_machine;
	e->wide = e->eh.e_ident[EI_CLASS] == ELFCLASS64;
	if (!e->wide || e->eh.e_phentsize != sizeof(*e->ph) || e->eh.e_phnum > ELF_HEADERS ||
	    !read_all(e->fd, e->eh.e_phoff, e->ph, e->eh.e_phnum * sizeof(*e->ph)))
		return true;
	e->nph = e->eh.e_phnum;
	interp = header(e, PT_INTERP);
	if (interp && interp->p_filesz < sizeof(e->interp))
		read_text(e->fd, interp->p_offset, e->interp, interp->p_filesz + 1);
	read_dynamic(e);
	return true;
}

void elf_close(struct elf *e)
{
	if (e->fd >= 0)
		close(e->fd);
}

bool elf_note(const struct elf *e, const char *owner)
{
	struct {
		uint32_t name, desc, type;
		char owner[8];
	} note;

	for (int i = 0; i < e->nph; i++) {
		uint64_t at = e->ph[i].p_offset, left = e->ph[i].p_filesz;
		if (e->ph[i].p_type != PT_NOTE || left > most)
			continue;
		while (left >= sizeof(note) && read_all(e->fd, at, &note, sizeof(note))) {
			uint64_t size = 12 + (((uint64_t)note.name + 3) & ~(uint64_t)3) +
					(((uint64_t)note.desc + 3) & ~(uint64_t)3);
			note.owner[sizeof(note.owner) - 1] = 0;
			if (note.name <= sizeof(note.owner) && strcmp(note.owner, owner) == 0)
				return true;
			if (size >= left)
				break;
			at += size;
			left -= size;
		}
	}
	return false;
}

static void *read_section(const struct elf *e, const Elf64_Shdr *s)
{
	void *to = s->sh_size != 0 && s->sh_size < most ? malloc(s->sh_size) : NULL;

	if (to && !read_all(e->fd, s->sh_offset, to, s->sh_size)) {
		free(to);
		to = NULL;
	}
	return to;
}

bool elf_exports(const struct elf *e, const char *prefix)
{
	Elf64_Shdr s, names;
	bool found = false;

	if (!e->wide || e->eh.e_shentsize != sizeof(s) || e->eh.e_shnum > MAX_SECTIONS)
		return false;
	for (unsigned i = 0; i < e->eh.e_shnum && !found; i++) {
		Elf64_Sym *symbols;
		char *text;
		if (!read_all(e->fd, e->eh.e_shoff + i * sizeof(s), &s, sizeof(s)) ||
		    s.sh_type != SHT_DYNSYM || s.sh_link >= e->eh.e_shnum ||
		    !read_all(e->fd, e->eh.e_shoff + s.sh_link * sizeof(s), &names, sizeof(names)))
			continue;
		symbols = read_section(e, &s);
		text = read_section(e, &names);
		if (symbols && text) {
			text[names.sh_size - 1] = 0;
			for (uint64_t n = 0; n < s.sh_size / sizeof(*symbols) && !found; n++)
				found = symbols[n].st_shndx != SHN_UNDEF &&
					symbols[n].st_name < names.sh_size &&
					strncmp(text + symbols[n].st_name, prefix,
						strlen(prefix)) == 0;
		}
		free(symbols);
		free(text);
	}
	return found;
}

/* A number below 512 goes to eax some bytes before: without that the two bytes are part of
 * something else, more often than not. */
static bool has_number(const uint8_t *text, ssize_t at)
{
	enum { MOV_EAX = 0xb8, NEAR = 24 };

	for (ssize_t i = at - 1; i >= 0 && i > at - NEAR; i--)
		if (text[i] == MOV_EAX && i + 5 <= at && text[i + 2] < 2 && text[i + 3] == 0 &&
		    text[i + 4] == 0)
			return true;
	return false;
}

uint64_t elf_calls(const struct elf *e)
{
	/* One that is cut by the end of a block is missed. */
	static uint8_t block[BLOCK];
	uint64_t found = 0;

	for (int i = 0; i < e->nph; i++) {
		uint64_t at = e->ph[i].p_offset, left = e->ph[i].p_filesz;
		if (e->ph[i].p_type != PT_LOAD || !(e->ph[i].p_flags & PF_X))
			continue;
		while (left > 0 && at < INT64_MAX - BLOCK) {
			ssize_t n = pread(e->fd, block, left < BLOCK ? left : BLOCK, (off_t)at);
			if (n <= 0)
				break;
			for (ssize_t b = 0; b + 1 < n; b++)
				found += block[b] == 0x0f && block[b + 1] == 0x05 &&
					 has_number(block, b);
			at += (uint64_t)n;
			left -= (uint64_t)n;
		}
	}
	return found;
}

uint64_t elf_tls(const struct elf *e)
{
	const Elf64_Phdr *ph = header(e, PT_TLS);

	return ph ? ph->p_memsz : 0;
}
