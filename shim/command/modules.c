/* Mapped objects, by /proc/PID/maps and by their ELF headers in memory: modules.h. */
#include "modules.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_MODULES = 16384,
	MAX_HEADERS = 64,
	/* Of .eh_frame_hdr: the only encodings that linkers write. */
	HDR_VERSION = 1,
	PCREL_SDATA4 = 0x1b,
	UDATA4 = 0x03,
	DATAREL_SDATA4 = 0x3b,
	ENTRY = 8, /* of its table */
};

static void find_table(struct module *m, struct mem *mem, uint64_t at, uint64_t size)
{
	struct {
		uint8_t version, eh_frame, count, table;
		int32_t where;
		uint32_t n;
	} hdr;

	if (!mem_read(mem, at, &hdr, sizeof(hdr)) || hdr.version != HDR_VERSION ||
	    hdr.eh_frame != PCREL_SDATA4 || hdr.count != UDATA4 || hdr.table != DATAREL_SDATA4)
		return;
	if (size < sizeof(hdr) || hdr.n > (size - sizeof(hdr)) / ENTRY)
		return;
	m->segbase = at;
	m->table = at + sizeof(hdr);
	m->ntable = hdr.n;
}

static void read_headers(struct module *m, struct mem *mem)
{
	Elf64_Phdr ph[MAX_HEADERS];
	Elf64_Ehdr eh;
	bool based = false;

	if (!mem_read(mem, m->lo, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_phentsize != sizeof(*ph) ||
	    eh.e_phnum > MAX_HEADERS ||
	    !mem_read(mem, m->lo + eh.e_phoff, ph, eh.e_phnum * sizeof(*ph)))
		return;
	for (int i = 0; i < eh.e_phnum && !based; i++) {
		if (ph[i].p_type != PT_LOAD || ph[i].p_offset != 0)
			continue;
		m->bias = m->lo - ph[i].p_vaddr;
		based = true;
	}
	for (int i = 0; i < eh.e_phnum && based; i++)
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			find_table(m, mem, m->bias + ph[i].p_vaddr, ph[i].p_memsz);
}

/* One line of maps. A file's first mapping is of its beginning, the others follow. */
static bool add_line(struct modules *ms, uint64_t lo, uint64_t hi, uint64_t offset,
		     const char *path)
{
	struct module *last = ms->n > 0 ? &ms->of[ms->n - 1] : NULL, *more;

	if (last && offset != 0 && strcmp(last->path, path) == 0) {
		last->hi = hi;
		return true;
	}
	if (offset != 0 || ms->n == MAX_MODULES)
		return true;
	if ((ms->n & (ms->n - 1)) == 0) {
		more = realloc(ms->of, (ms->n ? 2 * (size_t)ms->n : 1) * sizeof(*more));
		if (!more)
			return false;
		ms->of = more;
	}
	last = &ms->of[ms->n];
	*last = (struct module){ .lo = lo, .hi = hi, .path = strdup(path) };
	if (!last->path)
		return false;
	last->name = strrchr(last->path, '/');
	last->name = last->name ? last->name + 1 : last->path;
	ms->n++;
	return true;
}

struct modules *modules_read(pid_t pid, struct mem *mem)
{
	struct modules *ms = calloc(1, sizeof(*ms));
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = ms ? fopen(path, "re") : NULL;
	if (!maps) {
		free(ms);
		return NULL;
	}
	ms->pid = pid;
	ms->mem = mem;
	while (getline(&line, &room, maps) > 0) {
		unsigned long long lo, hi, offset;
		int at = 0;
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %n", &lo, &hi, &offset, &at) < 3 ||
		    at == 0 || (line[at] != '/' && strcmp(line + at, "[vdso]") != 0))
			continue;
		if (!add_line(ms, lo, hi, offset, line + at))
			break;
	}
	free(line);
	fclose(maps);
	for (int i = 0; i < ms->n; i++)
		read_headers(&ms->of[i], mem);
	return ms;
}

void modules_free(struct modules *ms)
{
	if (!ms)
		return;
	for (int i = 0; i < ms->n; i++) {
		symbols_free(&ms->of[i]);
		free(ms->of[i].path);
	}
	free(ms->of);
	free(ms);
}

struct module *module_at(const struct modules *ms, uint64_t at)
{
	int low = 0, high = ms->n;

	while (low < high) {
		int mid = (low + high) / 2;
		struct module *m = &ms->of[mid];
		if (at < m->lo)
			high = mid;
		else if (at >= m->hi)
			low = mid + 1;
		else
			return m;
	}
	return NULL;
}

const char *module_symbol(const struct modules *ms, struct module *m, uint64_t at, uint64_t *in)
{
	uint64_t where = at - m->bias;
	uint32_t low = 0, high;

	if (!m->read)
		symbols_read(ms, m);
	high = m->nsymbols;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (m->symbols[mid].at <= where)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return NULL;
	*in = where - m->symbols[low - 1].at;
	/* Those of assembly may have no size. */
	if (m->symbols[low - 1].size != 0 && *in >= m->symbols[low - 1].size)
		return NULL;
	return m->names + m->symbols[low - 1].name;
}
