/* For libFuzzer (make fuzz): a program's or a library's file. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf.h"
#include "modules.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct target target;
	static struct elf elf;
	struct modules ms = { .pid = getpid() };
	struct module m = { .path = (char[64]){ 0 } };
	int fd = memfd_create("elf", 0);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		__builtin_trap();
	snprintf(m.path, 64, "/proc/%d/fd/%d", ms.pid, fd);
	if (elf_open(&elf, m.path)) {
		elf_note(&elf, "Go");
		elf_exports(&elf, "__asan_init");
		elf_calls(&elf);
		elf_tls(&elf);
	}
	elf_close(&elf);
	target_check(m.path, &target);
	symbols_read(&ms, &m);
	for (uint64_t at = 0; at < n; at += 64) {
		uint64_t in;
		module_symbol(&ms, &m, at, &in);
	}
	symbols_free(&m);
	close(fd);
	return 0;
}
