/* Finding and judging of target.h. */
#include "target.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf.h"

enum { SCRIPTS = 5, LINE = 512 };

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As execvp finds it. */
static bool find(const char *command, char *path)
{
	const char *dirs = getenv("PATH"), *end;

	if (strchr(command, '/'))
		return snprintf(path, PATH_MAX, "%s", command) < PATH_MAX && is_program(path);
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *dirs; dirs = *end ? end + 1 : end) {
		end = dirs + strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - dirs), end == dirs ? "." : dirs,
			     command) < PATH_MAX &&
		    is_program(path))
			return true;
	}
	return false;
}

/* The interpreter of a script at path, in its place; false if it is none. "env" passes on. */
static bool interpreter(char *path, bool *found)
{
	char line[LINE], *name, *word;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;

	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = 0;
	if (strncmp(line, "#!", 2) != 0)
		return false;
	line[strcspn(line, "\n")] = 0;
	name = strtok(line + 2, " \t");
	*found = name && find(name, path);
	if (!*found)
		return true;
	name = strrchr(path, '/') + 1;
	if (strcmp(name, "env") != 0)
		return true;
	while ((word = strtok(NULL, " \t")) && (*word == '-' || strchr(word, '=')))
		continue;
	*found = word && find(word, path);
	return true;
}

/* The kernel takes LD_PRELOAD from who gets rights by the file. */
static bool gives_rights(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
		return true;
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
		return true;
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static const char *sanitizer(const struct elf *e)
{
	static const struct {
		const char *object, *rt, *symbol, *why;
	} kinds[] = {
		{ "libasan.so", "libclang_rt.asan", "__asan_init",
		  "it has AddressSanitizer's runtime" },
		{ "libtsan.so", "libclang_rt.tsan", "__tsan_init",
		  "it has ThreadSanitizer's runtime" },
		{ "liblsan.so", "libclang_rt.lsan", "__lsan_init",
		  "it has LeakSanitizer's runtime" },
		{ "libmsan.so", "libclang_rt.msan", "__msan_init",
		  "it has MemorySanitizer's runtime" },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		for (int n = 0; n < e->nneeded; n++)
			if (strncmp(e->needed[n], kinds[i].object, strlen(kinds[i].object)) == 0 ||
			    strncmp(e->needed[n], kinds[i].rt, strlen(kinds[i].rt)) == 0)
				return kinds[i].why;
		if (elf_exports(e, kinds[i].symbol))
			return kinds[i].why;
	}
	return NULL;
}

static bool is_loader(const char *path)
{
	const char *name = strrchr(path, '/');

	return strncmp(name ? name + 1 : path, "ld-linux", 8) == 0;
}

static enum verdict judge(struct target *t, const struct elf *e)
{
	if (!e->wide)
		t->why = "it is of 32 bits";
	else if (e->machine != EM_X86_64)
		t->why = "it is for another kind of cpu";
	else if (elf_note(e, "Go"))
		t->why = "it is a Go program, whose runtime has threads of its own making";
	else if (e->interp[0] == 0 && !is_loader(t->path))
		t->why = "it is statically linked";
	else if (strstr(e->interp, "ld-musl"))
		t->why = "its C library is musl, not glibc";
	else if (gives_rights(t->path))
		t->why = "it is set-user-id, set-group-id or has capabilities";
	if (t->why)
		return TARGET_REFUSED;
	t->why = sanitizer(e);
	return t->why ? TARGET_NATIVE : TARGET_SERVED;
}

enum verdict target_check(const char *command, struct target *t)
{
	enum verdict verdict = TARGET_MISSING;
	struct elf *e = malloc(sizeof(*e));
	bool found = find(command, t->path);

	t->why = NULL;
	for (int i = 0; found && i < SCRIPTS && interpreter(t->path, &found); i++)
		continue;
	if (found && e && elf_open(e, t->path))
		verdict = judge(t, e);
	if (found && e)
		elf_close(e);
	free(e);
	return verdict;
}
