/* An ELF file, of any quality: what kind it is, and what it asks for. */
#ifndef HEDDLE_COMMAND_ELF_H
#define HEDDLE_COMMAND_ELF_H

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { ELF_HEADERS = 64, ELF_NEEDED = 128, ELF_NAME = 256 };

struct elf {
	int fd;
	bool wide; /* of 64 bits: else nothing below is known but the machine */
	uint16_t machine;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[ELF_HEADERS];
	int nph;
	char interp[PATH_MAX]; /* "": it has none */
	char needed[ELF_NEEDED][ELF_NAME];
	int nneeded;
	char runpath[PATH_MAX];
};

/* elf_open: false if it is no ELF file. elf_close: in any case. */
bool elf_open(struct elf *e, const char *path);
void elf_close(struct elf *e);

/* elf_note: has it a note of that owner? elf_exports: a dynamic symbol that begins so? */
bool elf_note(const struct elf *e, const char *owner);
bool elf_exports(const struct elf *e, const char *prefix);

/* elf_calls: about how many system calls its text makes by itself. elf_tls: bytes of thread-local
 * data. */
uint64_t elf_calls(const struct elf *e);
uint64_t elf_tls(const struct elf *e);

#endif
