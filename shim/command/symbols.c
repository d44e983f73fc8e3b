/* Names of functions, from a file's .symtab, or .dynsym where it was stripped. Every offset in the
 * file is taken for wrong until it fits. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules.h"

enum { MAX_SECTIONS = 1 << 14 };
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

/* As the process sees it: it may be in another root. */
static int open_file(const struct modules *ms, const struct module *m)
{
	char path[PATH_MAX + 64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root%s", ms->pid, m->path);
	/* It could be a device or a pipe by now. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void symbols_read(const struct modules *ms, struct module *m)
{
	Elf64_Shdr *sections = NULL;
	Elf64_Ehdr eh;
	int fd = open_file(ms, m);

	m->read = true;
	if (fd < 0)
		return;
	if (pread(fd, &eh, sizeof(eh), 0) == sizeof(eh) &&
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) == 0 && eh.e_ident[EI_CLASS] == ELFCLASS64 &&
	    eh.e_shentsize == sizeof(*sections) && eh.e_shnum <= MAX_SECTIONS)
		sections = read_at(fd, eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(*sections));
	if (sections && !read_table(m, fd, sections, eh.e_shnum, SHT_SYMTAB)) {
		symbols_free(m);
		read_table(m, fd, sections, eh.e_shnum, SHT_DYNSYM);
	}
	free(sections);
	close(fd);
}

void symbols_free(struct module *m)
{
	free(m->symbols);
	free(m->names);
	m->symbols = NULL;
	m->names = NULL;
	m->nsymbols = 0;
}
