/* Finding and judging of target.h. */
#include "target.h"

#include <errno.h>
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

/* NULL, or why it is no program that the kernel would begin with. */
static const char *obstacle(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return errno == EACCES ? "you may not enter its folder" : "there is no such file";
	if (S_ISDIR(st.st_mode))
		return "it is a folder";
	if (!S_ISREG(st.st_mode))
		return "it is no file";
	return access(path, X_OK) == 0 ? NULL : "it is not executable (chmod +x makes it so)";
}

/* As execvp finds it, which passes over what is not executable; NULL, or why not. */
static const char *find(const char *command, char *path)
{
	const char *dirs = getenv("PATH"), *end, *why = NULL;
	char first[PATH_MAX] = "";

	path[0] = 0;
	if (!*command || strlen(command) >= PATH_MAX)
		return "it is no name of a program";
	if (strchr(command, '/')) {
		strcpy(path, command);
		return obstacle(path);
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *dirs; dirs = *end ? end + 1 : end) {
		const char *here;
		end = dirs + strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - dirs), end == dirs ? "." : dirs,
			     command) >= PATH_MAX)
			continue;
		here = obstacle(path);
		if (!here)
			return NULL;
		if (!why && access(path, F_OK) == 0) {
			why = here;
			strcpy(first, path);
		}
	}
	strcpy(path, why ? first : command);
	if (!why && access(command, F_OK) == 0)
		why = "it is not in PATH, but here: ./ before its name makes that clear";
	return why ? why : "there is no such program in PATH";
}

/* The interpreter of a script at path, in its place; false if it is none. "env" passes on. */
static bool interpreter(char *path, const char **why)
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
	*why = name ? obstacle(name) : "it is a script that names no interpreter";
	if (name)
		strcpy(path, name);
	if (*why)
		return true;
	name = strrchr(path, '/');
	if (!name || strcmp(name, "/env") != 0)
		return true;
	while ((word = strtok(NULL, " \t")) && (*word == '-' || strchr(word, '=')))
		continue;
	*why = word ? find(word, path) : NULL;
	return true;
}

/* The kernel takes LD_PRELOAD from who gets rights by the file: from anybody, from us? */
static bool gives_rights(const char *path, bool *us)
{
	struct stat st;
	bool user, group, some;

	*us = false;
	if (stat(path, &st) != 0)
		return false;
	user = (st.st_mode & S_ISUID) != 0;
	group = (st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP);
	some = getxattr(path, "security.capability", NULL, 0) > 0;
	*us = (user && st.st_uid != geteuid()) || (group && st.st_gid != getegid()) ||
	      (some && geteuid() != 0);
	return user || group || some;
}

static const char *runtime(const struct elf *e)
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
		{ NULL, NULL, "safe_syscall_base", "it is qemu's user emulation" },
		{ NULL, NULL, "wine_main_preload_info", "it is wine's loader" },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		for (int n = 0; kinds[i].object && n < e->nneeded; n++)
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
	bool us;

	t->gives_rights = gives_rights(t->path, &us);
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
	else if (us)
		t->why = "it is set-user-id, set-group-id or has capabilities";
	if (t->why)
		return TARGET_REFUSED;
	if (e->interp[0] != 0 && (t->why = obstacle(e->interp)) != NULL) {
		memcpy(t->path, e->interp, sizeof(t->path));
		return TARGET_MISSING;
	}
	t->why = runtime(e);
	return t->why ? TARGET_NATIVE : TARGET_SERVED;
}

/* What the kernel does not know and execvp gives to /bin/sh: text. */
static bool is_text(const struct elf *e)
{
	char head[LINE];
	ssize_t n = e->fd >= 0 ? pread(e->fd, head, sizeof(head), 0) : -1;

	return n >= 0 && memchr(head, 0, (size_t)n) == NULL;
}

/* Opens what is going to run. Whether it could or not, it is for elf_close(). */
static bool open_program(struct target *t, struct elf *e)
{
	if (elf_open(e, t->path))
		return true;
	if (!is_text(e))
		return false;
	t->script = true;
	elf_close(e);
	strcpy(t->path, "/bin/sh");
	return elf_open(e, t->path);
}

enum verdict target_check(const char *command, struct target *t)
{
	enum verdict verdict = TARGET_MISSING;
	struct elf *e = malloc(sizeof(*e));

	t->script = t->gives_rights = false;
	t->why = e ? find(command, t->path) : "there is no memory left";
	for (int i = 0; !t->why && i < SCRIPTS && interpreter(t->path, &t->why); i++)
		t->script = true;
	if (!t->why) {
		if (open_program(t, e))
			verdict = judge(t, e);
		else
			t->why = e->fd < 0 ? "it may not be read"
					   : "it is neither an ELF program nor a script";
		elf_close(e);
	}
	free(e);
	return verdict;
}
