/* The pages of mem.h, in a table by address. */
#include "mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, SLOTS = 512 };

struct slot {
	uint64_t page; /* its address plus one; 0: empty */
	unsigned char bytes[PAGE];
};

struct mem {
	int fd;
	struct slot slots[SLOTS];
};

struct mem *mem_of(int fd)
{
	struct mem *mem = malloc(sizeof(*mem));

	if (mem) {
		mem->fd = fd;
		mem_fresh(mem);
	}
	return mem;
}

struct mem *mem_open(pid_t pid)
{
	char path[64];
	struct mem *mem;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	mem = mem_of(fd);
	if (!mem)
		close(fd);
	return mem;
}

void mem_close(struct mem *mem)
{
	if (!mem)
		return;
	close(mem->fd);
	free(mem);
}

void mem_fresh(struct mem *mem)
{
	for (int i = 0; i < SLOTS; i++)
		mem->slots[i].page = 0;
}

static const unsigned char *page_at(struct mem *mem, uint64_t page)
{
	struct slot *slot = &mem->slots[page / PAGE % SLOTS];
	ssize_t n;

	if (slot->page == page + 1)
		return slot->bytes;
	if (page > INT64_MAX - PAGE)
		return NULL;
	slot->page = 0;
	n = pread(mem->fd, slot->bytes, PAGE, (off_t)page);
	if (n <= 0)
		return NULL;
	memset(slot->bytes + n, 0, (size_t)(PAGE - n));
	slot->page = page + 1;
	return slot->bytes;
}

bool mem_read(struct mem *mem, uint64_t at, void *to, size_t n)
{
	char *out = to;

	while (n > 0) {
		uint64_t page = at & ~(uint64_t)(PAGE - 1);
		size_t skip = (size_t)(at - page), part = PAGE - skip < n ? PAGE - skip : n;
		const unsigned char *bytes = page_at(mem, page);
		if (!bytes)
			return false;
		memcpy(out, bytes + skip, part);
		out += part;
		at += part;
		n -= part;
	}
	return true;
}
