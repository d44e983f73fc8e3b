/* Names of functions, from a file's .symtab; where it was stripped, from what was stripped off it,
 * if that is installed, or .dynsym. Every offset in a file is taken for wrong until it fits. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules.h"

enum { MAX_SECTIONS = 1 << 14, MAX_ID = 64 };
static const uint64_t most = 512u << 20; /* of one section */

static void *read_at(int fd, uint64_t at, uint64_t n)
{
	char *to = n != 0 && n <= most && at <= INT64_MAX - most ? malloc(n) : NULL;
	uint64_t have = 0;

	while (to && have < n) {
		ssize_t r = pread(fd, to + have, n - have, (off_t)(at + have));
		if (r <= 0) {
			free(to);
			return NULL;
		}
		have += (uint64_t)r;
	}
	return to;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct symbol *)a)->at, y = ((const struct symbol *)b)->at;

	return (x > y) - (x < y);
}

/* Keeps the functions of a table. */
static void take(struct module *m, const Elf64_Sym *table, uint64_t n)
{
	m->symbols = malloc(n * sizeof(*m->symbols));
	if (!m->symbols)
		return;
	for (uint64_t i = 0; i < n; i++) {
		unsigned type = ELF64_ST_TYPE(table[i].st_info);
		if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
		    table[i].st_shndx == SHN_UNDEF || table[i].st_name == 0 ||
		    table[i].st_name >= m->names_size || table[i].st_value == 0)
			continue;
		if (m->names[table[i].st_name] == 0)
			continue;
		m->symbols[m->nsymbols++] = (struct symbol){ .at = table[i].st_value,
							     .size = table[i].st_size,
							     .name = table[i].st_name };
	}
	qsort(m->symbols, m->nsymbols, sizeof(*m->symbols), by_address);
}

static bool read_table(struct module *m, int fd, const Elf64_Shdr *sections, unsigned n,
		       uint32_t type)
{
	for (unsigned i = 0; i < n; i++) {
		const Elf64_Shdr *s = &sections[i], *names;
		Elf64_Sym *table;

		if (s->sh_type != type || s->sh_link >= n || s->sh_entsize != sizeof(*table))
			continue;
		names = &sections[s->sh_link];
		if (names->sh_type != SHT_STRTAB)
			continue;
		table = read_at(fd, s->sh_offset, s->sh_size);
		m->names = read_at(fd, names->sh_offset, names->sh_size);
		m->names_size = names->sh_size;
		if (table && m->names) {
			m->names[m->names_size - 1] = 0;
			/* Their versions are no part of them. */
			for (uint64_t c = 0; c < m->names_size; c++)
				m->names[c] = m->names[c] == '@' ? 0 : m->names[c];
			take(m, table, s->sh_size / sizeof(*table));
			free(table);
			return m->nsymbols > 0;
		}
		free(table);
		free(m->names);
		m->names = NULL;
	}
	return false;
}

/* A file with its sections; fd -1: it is none that can be read. */
struct file {
	int fd;
	unsigned n;
	Elf64_Shdr *sections;
};

static void file_close(struct file *f)
{
	free(f->sections);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct file){ .fd = -1 };
}

static bool file_open(struct file *f, const char *path)
{
	Elf64_Ehdr eh;
	struct stat st;

	/* It could be a device or a pipe by now. */
	*f = (struct file){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) };
	if (f->fd >= 0 && fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    pread(f->fd, &eh, sizeof(eh), 0) == sizeof(eh) &&
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) == 0 && eh.e_ident[EI_CLASS] == ELFCLASS64 &&
	    eh.e_shentsize == sizeof(*f->sections) && eh.e_shnum <= MAX_SECTIONS) {
		f->n = eh.e_shnum;
		f->sections = read_at(f->fd, eh.e_shoff, f->n * sizeof(*f->sections));
	}
	if (!f->sections)
		file_close(f);
	return f->sections != NULL;
}

static bool read_symbols(struct module *m, const struct file *f, uint32_t type)
{
	if (read_table(m, f->fd, f->sections, f->n, type))
		return true;
	symbols_free(m);
	return false;
}

/* The build id among notes, in hex. */
static bool id_among(const char *notes, uint64_t size, char to[2 * MAX_ID + 1])
{
	Elf64_Nhdr h;

	for (uint64_t at = 0; size - at >= sizeof(h);) {
		uint64_t name, id, end;
		memcpy(&h, notes + at, sizeof(h));
		name = at + sizeof(h);
		id = name + ((uint64_t)h.n_namesz + 3) / 4 * 4;
		end = id + ((uint64_t)h.n_descsz + 3) / 4 * 4;
		if (end > size)
			return false;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    memcmp(notes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0 &&
		    h.n_descsz > 1 && h.n_descsz <= MAX_ID) {
			for (uint32_t i = 0; i < h.n_descsz; i++)
				sprintf(to + 2 * i, "%02x", (unsigned char)notes[id + i]);
			return true;
		}
		at = end;
	}
	return false;
}

static bool build_id(const struct file *f, char to[2 * MAX_ID + 1])
{
	bool found = false;

	for (unsigned i = 0; i < f->n && !found; i++) {
		const Elf64_Shdr *s = &f->sections[i];
		char *notes = s->sh_type == SHT_NOTE ? read_at(f->fd, s->sh_offset, s->sh_size)
						     : NULL;
		found = notes && id_among(notes, s->sh_size, to);
		free(notes);
	}
	return found;
}

/* What the distribution has put apart, where gdb looks for it: in the process's root, or in ours.
 */
static bool read_apart(const struct modules *ms, struct module *m, const struct file *of)
{
	char id[2 * MAX_ID + 1], path[PATH_MAX];
	bool found = false;
	struct file f;

	if (!build_id(of, id))
		return false;
	for (int ours = 0; ours < 2 && !found; ours++) {
		char root[64] = "";
		if (!ours)
			snprintf(root, sizeof(root), "/proc/%d/root", ms->pid);
		snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id,
			 id + 2);
		if (!file_open(&f, path))
			continue;
		found = read_symbols(m, &f, SHT_SYMTAB);
		file_close(&f);
	}
	return found;
}

void symbols_read(const struct modules *ms, struct module *m)
{
	char path[PATH_MAX + 64];
	struct file f;

	m->read = true;
	/* As the process sees it: it may be in another root. */
	snprintf(path, sizeof(path), "/proc/%d/root%s", ms->pid, m->path);
	if (!file_open(&f, path))
		return;
	if (!read_symbols(m, &f, SHT_SYMTAB) && !read_apart(ms, m, &f))
		read_symbols(m, &f, SHT_DYNSYM);
	file_close(&f);
}

void symbols_free(struct module *m)
{
	free(m->symbols);
	free(m->names);
	m->symbols = NULL;
	m->names = NULL;
	m->nsymbols = 0;
}
