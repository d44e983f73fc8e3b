/* A cgroup with a quota of cpus, for a variant; where one may be made. Below our own where the
 * cpu controller is to be had there, else at the top. It refuses to change any that is there. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "variant.h"

enum { MADE = 16, PERIOD_US = 100000 };

static char made[MADE][PATH_MAX];
static int nmade;

/* Where a hierarchy is mounted: version 2, or that of version 1 which has the cpu controller. */
static bool mounted(bool second, char *at)
{
	char line[PATH_MAX * 2], where[PATH_MAX], kind[32], options[256];
	FILE *f = fopen("/proc/self/mounts", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %4095s %31s %255s", where, kind, options) != 3)
			continue;
		char padded[264];
		snprintf(padded, sizeof(padded), ",%s,", options);
		found = second ? strcmp(kind, "cgroup2") == 0
			       : strcmp(kind, "cgroup") == 0 && strstr(padded, ",cpu,");
	}
	if (f)
		fclose(f);
	if (found)
		strcpy(at, where);
	return found;
}

/* Our own path in that hierarchy. */
static bool own(bool second, char *path)
{
	char line[PATH_MAX], padded[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = 0;
		at[strcspn(at, "\n")] = 0;
		snprintf(padded, sizeof(padded), ",%s,", names + 1);
		found = second ? strcmp(names, ":") == 0 : strstr(padded, ",cpu,") != NULL;
		if (found)
			strcpy(path, at);
	}
	if (f)
		fclose(f);
	return found;
}

static bool put(const char *folder, const char *file, const char *text)
{
	char path[PATH_MAX + 64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = write(fd, text, strlen(text));
		close(fd);
	}
	return n > 0;
}

static bool limit(const char *folder, bool second, double cpus)
{
	char text[64], period[32];
	long us = (long)(cpus * PERIOD_US);

	if (second) {
		snprintf(text, sizeof(text), "%ld %d", us, PERIOD_US);
		return put(folder, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%ld", us);
	snprintf(period, sizeof(period), "%d", PERIOD_US);
	return put(folder, "cpu.cfs_period_us", period) && put(folder, "cpu.cfs_quota_us", text);
}

static int try_below(const char *parent, bool second, double cpus)
{
	char *folder = made[nmade], file[PATH_MAX + 64];
	int fd = -1;

	if (snprintf(folder, PATH_MAX, "%s/heddle-ab-%d-%d", parent, getpid(), nmade) >= PATH_MAX ||
	    mkdir(folder, 0755) != 0)
		return -1;
	if (limit(folder, second, cpus)) {
		snprintf(file, sizeof(file), "%s/cgroup.procs", folder);
		fd = open(file, O_WRONLY | O_CLOEXEC);
	}
	if (fd < 0) {
		int error = errno;
		rmdir(folder);
		errno = error;
	} else {
		nmade++;
	}
	return fd;
}

bool cgroup_make(struct variant *v)
{
	char top[PATH_MAX], path[PATH_MAX], parent[2 * PATH_MAX];

	errno = nmade < MADE ? ENOENT : E2BIG;
	for (int second = 1; second >= 0 && v->cgroup < 0 && nmade < MADE; second--) {
		if (!mounted(second, top) || !own(second, path))
			continue;
		snprintf(parent, sizeof(parent), "%s%s", top, path);
		v->cgroup = try_below(parent, second, v->quota);
		if (v->cgroup < 0 && strcmp(path, "/") != 0)
			v->cgroup = try_below(top, second, v->quota);
	}
	if (v->cgroup >= 0)
		return true;
	fprintf(stderr, "heddle ab: variant '%s': no cgroup with a quota can be made here: %s\n",
		v->text, strerror(errno));
	return false;
}

void cgroup_remove(void)
{
	while (nmade > 0)
		rmdir(made[--nmade]);
}
