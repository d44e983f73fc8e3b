/* The checks that look.h promises. */
#include "look.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

enum {
	MAX_ROWS = 1024, /* of one table */
	MAX_ROW = 1024, /* bytes: rows of a later build may be longer */
	MAX_STRUCT = 64 * 1024,
};

/* Appends a table of the process's to v->rows. */
static bool read_rows(struct view *v, const struct view_table *table)
{
	struct view_row *more;

	if (table->n == 0)
		return true;
	if (table->n > MAX_ROWS || table->rowsize < sizeof(struct view_row) ||
	    table->rowsize > MAX_ROW)
		return false;
	more = realloc(v->rows, (v->nrows + table->n) * sizeof(*more));
	if (!more)
		return false;
	v->rows = more;
	for (uint32_t i = 0; i < table->n; i++) {
		struct view_row *row = &more[v->nrows];
		if (!mem_read(v->mem, table->rows + (uint64_t)i * table->rowsize, row,
			      sizeof(*row)))
			return false;
		row->of[sizeof(row->of) - 1] = 0;
		row->name[sizeof(row->name) - 1] = 0;
		row->text[sizeof(row->text) - 1] = 0;
		/* They are printed, too. */
		say_clean(row->name);
		say_clean(row->text);
		v->nrows++;
	}
	return true;
}

struct view *view_in(pid_t pid, struct mem *mem, uint64_t at)
{
	struct view *v = calloc(1, sizeof(*v));

	if (!v) {
		mem_close(mem);
		return NULL;
	}
	v->pid = pid;
	v->mem = mem;
	if (mem_read(mem, at, &v->page, sizeof(v->page)) && v->page.magic == VIEW_MAGIC &&
	    v->page.version == VIEW_VERSION && v->page.size >= sizeof(v->page) &&
	    read_rows(v, &v->page.core) && read_rows(v, &v->page.host))
		return v;
	view_close(v);
	return NULL;
}

void view_close(struct view *v)
{
	if (!v)
		return;
	mem_close(v->mem);
	free(v->rows);
	free(v);
}

/* The address of the page; 0: there is none. *shim: the library is there. */
static uint64_t find_page(FILE *maps, bool *shim)
{
	char *line = NULL;
	size_t room = 0;
	uint64_t found = 0;

	while (found == 0 && getline(&line, &room, maps) > 0) {
		unsigned long long lo, hi, offset;
		char *name = strchr(line, '/');

		if (!name || sscanf(line, "%llx-%llx %*s %llx", &lo, &hi, &offset) != 3)
			continue;
		name[strcspn(name, "\n")] = 0;
		if (strstr(name, "/libheddle.so"))
			*shim = true;
		if (strcmp(name, "/memfd:" VIEW_NAME " (deleted)") == 0 && offset == 0 &&
		    hi - lo == VIEW_BYTES)
			found = lo;
	}
	free(line);
	return found;
}

static const char *refused(int error)
{
	return error == ENOENT || error == ESRCH ? "there is no such process"
	       : error == EACCES || error == EPERM
		       ? "you may not look into this process (another user's, or ptrace is "
			 "restricted: see /proc/sys/kernel/yama/ptrace_scope)"
		       : strerror(error);
}

/* The innermost number of a process or thread, by its file in /proc; 0: not to be had. */
static uint64_t innermost(const char *path)
{
	uint64_t number = 0;
	char line[256];
	FILE *status = fopen(path, "re");

	while (status && fgets(line, sizeof(line), status)) {
		char *last = strrchr(line, '\t');
		if (strncmp(line, "NSpid:", 6) == 0 && last)
			number = strtoull(last, NULL, 10);
	}
	if (status)
		fclose(status);
	return number;
}

static const char nothing_seen[] =
	"heddle is there, but nothing is to be seen: the program made no thread, "
	"or the kernel refuses what it takes (heddle doctor)";

struct view *view_of(pid_t pid, const char **why)
{
	char path[64];
	bool shim = false;
	struct view *v;
	struct mem *mem;
	uint64_t at;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps) {
		*why = refused(errno);
		return NULL;
	}
	errno = 0;
	at = find_page(maps, &shim);
	if (at == 0) {
		*why = errno == EACCES || errno == EPERM ? refused(errno)
		       : shim				 ? nothing_seen
							 : "heddle does not serve this process";
		fclose(maps);
		return NULL;
	}
	fclose(maps);
	mem = mem_open(pid);
	if (!mem) {
		*why = refused(errno);
		return NULL;
	}
	v = view_in(pid, mem, at);
	if (!v) {
		*why = "its page is not of a kind that this heddle understands";
		return NULL;
	}
	/* Its parent's, of a fork behind heddle's back. */
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (innermost(path) != (uint64_t)(uint32_t)v->page.pid) {
		*why = nothing_seen;
		view_close(v);
		return NULL;
	}
	return v;
}

const struct view_row *view_row(const struct view *v, const char *of, const char *name)
{
	for (uint32_t i = 0; i < v->nrows; i++)
		if (strcmp(v->rows[i].of, of) == 0 && strcmp(v->rows[i].name, name) == 0)
			return &v->rows[i];
	return NULL;
}

const char *view_name(const struct view *v, const char *of, uint64_t value)
{
	for (uint32_t i = 0; i < v->nrows; i++)
		if (v->rows[i].at == value && strcmp(v->rows[i].of, of) == 0)
			return v->rows[i].name;
	return "?";
}

uint64_t view_number(const struct view *v, const char *of, const char *name, uint64_t otherwise)
{
	const struct view_row *row = view_row(v, of, name);

	return row ? row->at : otherwise;
}

bool shape_find(const struct view *v, struct shape *shape)
{
	const struct view_row *whole = view_row(v, shape->of, "");

	if (!whole || whole->size == 0 || whole->size > MAX_STRUCT)
		return false;
	shape->size = whole->size;
	for (shape->n = 0; shape->names[shape->n]; shape->n++) {
		int i = shape->n;
		const struct view_row *row = view_row(v, shape->of, shape->names[i]);
		shape->fields[i].at = shape->fields[i].size = 0;
		if (!row || row->at > shape->size || row->size > shape->size - row->at)
			continue;
		shape->fields[i].at = row->at;
		shape->fields[i].size = row->size;
	}
	return true;
}

bool shape_read(const struct view *v, const struct shape *shape, uint64_t at, uint64_t *out)
{
	for (int i = 0; i < shape->n; i++) {
		uint32_t size = shape->fields[i].size;
		out[i] = 0;
		/* Little-endian: a shorter one is the beginning. */
		if (size <= sizeof(*out) &&
		    !mem_read(v->mem, at + shape->fields[i].at, &out[i], size))
			return false;
	}
	return true;
}

bool view_text(const struct view *v, const char *of, const char *name, uint64_t at, char *to,
	       size_t size)
{
	const struct view_row *row = view_row(v, of, name);
	size_t n = row ? row->size : 0;

	to[0] = 0;
	if (n > size - 1)
		n = size - 1;
	if (n == 0 || !mem_read(v->mem, at + row->at, to, n)) {
		to[0] = 0;
		return false;
	}
	to[n] = 0;
	return true;
}

pid_t view_tid(const struct view *v, uint64_t tid)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", v->pid, (pid_t)tid);
	if (innermost(path) == tid)
		return (pid_t)tid;
	snprintf(path, sizeof(path), "/proc/%d/task", v->pid);
	tasks = opendir(path);
	while (tasks && found == 0 && (entry = readdir(tasks)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", v->pid, entry->d_name);
		if (entry->d_name[0] != '.' && innermost(path) == tid)
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (tasks)
		closedir(tasks);
	return found;
}
