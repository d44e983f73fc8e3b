/* The search of libraries.h: the rpath of who asks, LD_LIBRARY_PATH, the usual folders. */
#include "libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool in_folder(const char *folder, size_t n, const char *origin, const char *name,
		      char *path)
{
	static const char token[] = "$ORIGIN";
	size_t skip = sizeof(token) - 1;
	int made;

	if (n >= skip && strncmp(folder, token, skip) == 0)
		made = snprintf(path, PATH_MAX, "%s%.*s/%s", origin, (int)(n - skip), folder + skip,
				name);
	else
		made = snprintf(path, PATH_MAX, "%.*s/%s", (int)n, folder, name);
	return made < PATH_MAX && access(path, R_OK) == 0;
}

/* In one of several, parted by colons. */
static bool in_folders(const char *folders, const char *origin, const char *name, char *path)
{
	while (folders && *folders) {
		size_t n = strcspn(folders, ":");
		if (n > 0 && in_folder(folders, n, origin, name, path))
			return true;
		folders += n + (folders[n] == ':');
	}
	return false;
}

static void find(struct library *lib, const struct elf *asks, const char *asker)
{
	static const char usual[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:"
				    "/usr/lib64:/lib:/usr/lib:/usr/local/lib";
	char origin[PATH_MAX];

	/* That of the file, not of a link to it. */
	if (!realpath(asker, origin))
		snprintf(origin, sizeof(origin), "%s", asker);
	*(strrchr(origin, '/') ? strrchr(origin, '/') : origin) = 0;
	if (strchr(lib->name, '/'))
		snprintf(lib->path, sizeof(lib->path), "%s", lib->name);
	else if (!in_folders(asks->runpath, origin, lib->name, lib->path) &&
		 !in_folders(getenv("LD_LIBRARY_PATH"), origin, lib->name, lib->path) &&
		 !in_folders(usual, origin, lib->name, lib->path))
		lib->path[0] = 0;
}

static int add(struct library *to, int n, const struct elf *asks, const char *asker)
{
	for (int i = 0; i < asks->nneeded && n < MAX_LIBRARIES; i++) {
		int at = 0;
		while (at < n && strcmp(to[at].name, asks->needed[i]) != 0)
			at++;
		if (at < n)
			continue;
		memset(&to[n], 0, sizeof(to[n]));
		memcpy(to[n].name, asks->needed[i], sizeof(to[n].name));
		find(&to[n++], asks, asker);
	}
	return n;
}

int libraries_of(const char *program, struct library *to)
{
	struct elf *e = malloc(sizeof(*e));
	int n = 0;

	if (!e)
		return 0;
	if (elf_open(e, program))
		n = add(to, 0, e, program);
	elf_close(e);
	for (int i = 0; i < n; i++) {
		if (to[i].path[0] == 0)
			continue;
		if (elf_open(e, to[i].path)) {
			to[i].tls = elf_tls(e);
			to[i].calls = elf_calls(e);
			n = add(to, n, e, to[i].path);
		}
		elf_close(e);
	}
	free(e);
	return n;
}
