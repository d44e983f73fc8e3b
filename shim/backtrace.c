/* Mapped objects and stacks: backtrace.h. Owns the table of what is mapped. All memory that others
 * wrote is read by the kernel's hand (process_vm_readv), which fails where we would fault; names
 * come from the objects' dynamic symbols, as they lie in memory. */
#include "backtrace.h"

#include <elf.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "context.h"
#include "mode.h"
#include "os.h"
#include "syscall.h"

enum {
	MAX_MAPS = 4096,
	NAME = 32,
	LINE = 512,
	CHUNK = 64, /* of words */
	MAX_PHDRS = 16,
	MAX_DYNAMIC = 64,
	MAX_BUCKETS = 1 << 20,
};

struct map {
	uintptr_t lo, hi, offset;
	uint64_t inode;
	bool runs, private;
	char name[NAME];
};

static struct map maps[MAX_MAPS];
static int nmaps;

/* ---- memory ---- */

bool memory_read(uintptr_t at, void *to, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)at, n };
	long pid = arch_syscall3(SYS_getpid, 0, 0, 0);

	return arch_syscall6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0) ==
	       (long)n;
}

/* ---- what is mapped ---- */

static uint64_t hex(const char **s)
{
	uint64_t n = 0;

	for (;; (*s)++) {
		char c = **s;
		if (c >= '0' && c <= '9')
			n = n << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (uint64_t)(c - 'a' + 10);
		else
			return n;
	}
}

static void next_field(const char **s)
{
	while (**s && **s != ' ')
		(*s)++;
	while (**s == ' ')
		(*s)++;
}

static char printable(char c)
{
	return c >= ' ' && c < 127 ? c : '?';
}

/* "lo-hi rwxp offset dev inode path" */
static void add_map(const char *s)
{
	struct map *m = &maps[nmaps++];
	const char *name;
	int i = 0;

	m->lo = hex(&s);
	s += *s == '-';
	m->hi = hex(&s);
	next_field(&s);
	m->runs = s[0] && s[1] && s[2] == 'x';
	m->private = s[0] && s[1] && s[2] && s[3] == 'p';
	next_field(&s);
	m->offset = hex(&s);
	next_field(&s);
	next_field(&s);
	for (m->inode = 0; *s >= '0' && *s <= '9'; s++)
		m->inode = m->inode * 10 + (uint64_t)(*s - '0');
	next_field(&s);
	for (name = s; *s; s++)
		if (*s == '/')
			name = s + 1;
	for (; name[i] && i < NAME - 1; i++)
		m->name[i] = printable(name[i]);
	m->name[i] = 0;
}

bool maps_read(void)
{
	char buf[LINE], line[LINE];
	size_t have = 0;
	long fd = arch_syscall4(SYS_openat, -100 /* AT_FDCWD */, (long)"/proc/self/maps",
				02000000 /* O_CLOEXEC */, 0);
	long n;

	nmaps = 0;
	if (fd < 0)
		return false;
	while ((n = arch_syscall3(SYS_read, fd, (long)buf, sizeof(buf))) > 0) {
		for (long i = 0; i < n; i++) {
			if (buf[i] != '\n') {
				if (have < LINE - 1)
					line[have++] = buf[i];
				continue;
			}
			line[have] = 0;
			have = 0;
			if (nmaps < MAX_MAPS)
				add_map(line);
		}
	}
	arch_syscall3(SYS_close, fd, 0, 0);
	return n == 0 && nmaps > 0 && nmaps < MAX_MAPS;
}

static const struct map *map_at(uintptr_t at)
{
	int lo = 0, hi = nmaps;

	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (maps[mid].hi <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < nmaps && maps[lo].lo <= at ? &maps[lo] : NULL;
}

bool maps_private(uintptr_t at)
{
	const struct map *m = map_at(at);

	return m && m->private;
}

/* Where the object begins that has m; m itself where it cannot be told. */
static const struct map *object_of(const struct map *m)
{
	const struct map *first = m;

	while (m->inode != 0 && first > maps && first->offset != 0 && first[-1].inode == m->inode)
		first--;
	return first->offset == 0 ? first : m;
}

static bool is_ours(uintptr_t pc)
{
	const struct map *m = map_at(pc);

	return m && m == map_at((uintptr_t)heddle_start);
}

/* ---- names ---- */

struct object {
	uintptr_t bias;
	uintptr_t symbols, strings, hash;
};

static void read_dynamic(struct object *o, uintptr_t base, uintptr_t at)
{
	for (int i = 0; i < MAX_DYNAMIC; i++) {
		Elf64_Dyn d;
		uintptr_t value;

		if (!memory_read(at + (size_t)i * sizeof(d), &d, sizeof(d)) || d.d_tag == DT_NULL)
			return;
		/* The loader has made addresses of them, but not in the vDSO. */
		value = d.d_un.d_ptr < base ? d.d_un.d_ptr + o->bias : d.d_un.d_ptr;
		if (d.d_tag == DT_SYMTAB)
			o->symbols = value;
		else if (d.d_tag == DT_STRTAB)
			o->strings = value;
		else if (d.d_tag == DT_GNU_HASH)
			o->hash = value;
	}
}

static bool read_object(struct object *o, uintptr_t base)
{
	Elf64_Ehdr e;
	Elf64_Phdr ph[MAX_PHDRS];
	uintptr_t dynamic = 0;
	int n;

	*o = (struct object){ .bias = base };
	if (!memory_read(base, &e, sizeof(e)) || e.e_ident[0] != ELFMAG0 ||
	    e.e_ident[1] != ELFMAG1 || e.e_phentsize != sizeof(*ph))
		return false;
	n = e.e_phnum < MAX_PHDRS ? e.e_phnum : MAX_PHDRS;
	if (!memory_read(base + e.e_phoff, ph, (size_t)n * sizeof(*ph)))
		return false;
	for (int i = 0; i < n; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset == 0)
			o->bias = base - ph[i].p_vaddr;
	for (int i = 0; i < n; i++)
		if (ph[i].p_type == PT_DYNAMIC)
			dynamic = o->bias + ph[i].p_vaddr;
	if (dynamic)
		read_dynamic(o, base, dynamic);
	return o->symbols && o->strings && o->hash;
}

/* The symbols that are defined lie from *first on, to that returned: as the hash table has them. */
static uint32_t symbols_end(const struct object *o, uint32_t *first)
{
	uint32_t head[4], last = 0, word;
	uintptr_t buckets, chains;

	if (!memory_read(o->hash, head, sizeof(head)) || head[0] > MAX_BUCKETS ||
	    head[2] > MAX_BUCKETS)
		return 0;
	*first = head[1];
	buckets = o->hash + sizeof(head) + head[2] * sizeof(uint64_t);
	chains = buckets + head[0] * sizeof(word);
	for (uint32_t i = 0, part[CHUNK]; i < head[0]; i += CHUNK) {
		uint32_t n = head[0] - i < CHUNK ? head[0] - i : CHUNK;
		if (!memory_read(buckets + i * sizeof(word), part, n * sizeof(word)))
			return 0;
		for (uint32_t j = 0; j < n; j++)
			last = part[j] > last ? part[j] : last;
	}
	if (last < *first)
		return 0;
	do
		if (!memory_read(chains + (last - *first) * sizeof(word), &word, sizeof(word)))
			return 0;
	while (last++, !(word & 1) && last - *first < MAX_BUCKETS);
	return last;
}

static bool find_symbol(const struct object *o, uintptr_t pc, Elf64_Sym *found)
{
	uint32_t first = 0, end = symbols_end(o, &first);
	uintptr_t at = pc - o->bias;
	Elf64_Sym part[CHUNK];

	for (uint32_t i = first; i < end; i += CHUNK) {
		uint32_t n = end - i < CHUNK ? end - i : CHUNK;
		if (!memory_read(o->symbols + i * sizeof(*part), part, n * sizeof(*part)))
			return false;
		for (uint32_t j = 0; j < n; j++) {
			*found = part[j];
			if (ELF64_ST_TYPE(found->st_info) == STT_FUNC &&
			    found->st_shndx != SHN_UNDEF && at >= found->st_value &&
			    at - found->st_value < found->st_size)
				return true;
		}
	}
	return false;
}

/* A name of the object's, as much of it as fits a line. */
static void put_name(struct text *t, uintptr_t at)
{
	char c[2] = { 0, 0 };

	for (int i = 0; i < 80 && memory_read(at + (size_t)i, c, 1) && c[0]; i++) {
		c[0] = printable(c[0]);
		text_put(t, c);
	}
}

void backtrace_put(struct text *t, uintptr_t pc)
{
	enum { COLUMN = 48 };
	const struct map *m = map_at(pc), *begin;
	/* A call that does not return may be its function's last instruction. */
	uintptr_t within = pc - 1;
	size_t start = t->len;
	struct object o;
	Elf64_Sym s;

	text_put(t, "    ");
	if (!m) {
		text_hex(t, pc);
		text_put(t, "\n");
		return;
	}
	begin = object_of(m);
	if (read_object(&o, begin->lo) && find_symbol(&o, within, &s)) {
		put_name(t, o.strings + s.st_name);
		text_put(t, "+");
		text_hex(t, within - o.bias - s.st_value);
	} else {
		text_hex(t, within - o.bias);
	}
	do
		text_put(t, " ");
	while (t->len - start < COLUMN && t->len + 1 < t->cap);
	text_put(t, m->name);
	text_put(t, "\n");
}

/* ---- stacks ---- */

/* Is a call's the last instruction before pc? Direct, or by a register or a word of memory: with
 * as many bytes as its operand takes. */
static bool after_call(uintptr_t pc)
{
	enum { LONGEST = 7, DIRECT = 5 };
	static const uint8_t lengths[] = { 2, 3, 4, 6, 7 };
	uint8_t code[LONGEST];
	uint32_t distance;

	if (!memory_read(pc - LONGEST, code, sizeof(code)))
		return false;
	if (code[LONGEST - DIRECT] == 0xe8) {
		const struct map *m;
		distance = (uint32_t)code[3] | (uint32_t)code[4] << 8 | (uint32_t)code[5] << 16 |
			   (uint32_t)code[6] << 24;
		m = map_at(pc + (uintptr_t)(int64_t)(int32_t)distance);
		if (m && m->runs)
			return true;
	}
	for (size_t i = 0; i < sizeof(lengths); i++)
		if (code[LONGEST - lengths[i]] == 0xff &&
		    (code[LONGEST - lengths[i] + 1] & 0x38) == 0x10)
			return true;
	return false;
}

static bool may_return_to(uintptr_t pc)
{
	const struct map *m = map_at(pc);

	return m && m->runs && after_call(pc);
}

#define X(name, at) at_##name = at,
enum { ARCH_CONTEXT(X) };
#undef X

int backtrace_of(uintptr_t context, uintptr_t hi, uintptr_t *to)
{
	uintptr_t sp = context + ARCH_CONTEXT_SIZE, words[CHUNK];
	const struct map *m = map_at(sp);
	int n = 0;

	if (!m || !memory_read(context + at_rip, to, sizeof(*to)))
		return n;
	n++;
	if (hi == 0 || hi > m->hi)
		hi = m->hi;
	for (uintptr_t at = sp; at < hi; at += sizeof(words)) {
		size_t bytes = hi - at < sizeof(words) ? hi - at : sizeof(words);
		if (!memory_read(at, words, bytes))
			return n;
		for (size_t i = 0; i < bytes / sizeof(*words); i++) {
			if (!may_return_to(words[i]))
				continue;
			/* Those of ours at the stack's top are one, and others are none. */
			if (is_ours(words[i]) && n > 1)
				continue;
			n -= n == 1 && is_ours(words[i]) && is_ours(to[0]);
			if (n == BACKTRACE_FRAMES)
				return n;
			to[n++] = words[i];
		}
	}
	return n;
}
