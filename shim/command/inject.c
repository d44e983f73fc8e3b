/* Finding of inject.h. */
#include "inject.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside this command, or where `make install` puts it, whatever PREFIX is. */
static bool find_library(char path[PATH_MAX])
{
	static const char *const places[] = { "libheddle.so", "../lib/heddle/libheddle.so" };
	char self[PATH_MAX], place[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if ((size_t)snprintf(place, sizeof(place), "%s/%s", self, places[i]) <
			    sizeof(place) &&
		    realpath(place, path) != NULL)
			return true;
	return false;
}

char *inject_value(void)
{
	const char *others = getenv("LD_PRELOAD");
	char library[PATH_MAX], *value;

	if (!find_library(library)) {
		fprintf(stderr, "heddle: libheddle.so: %s\n", strerror(errno));
		return NULL;
	}
	/* The loader takes these for the end of a name. */
	if (strpbrk(library, " :")) {
		fprintf(stderr, "heddle: %s: LD_PRELOAD knows no name with a space or colon\n",
			library);
		return NULL;
	}
	/* Behind others: what they wrap is ours. */
	if (asprintf(&value, "%s%s%s", others ? others : "", others && *others ? ":" : "",
		     library) < 0) {
		fprintf(stderr, "heddle: LD_PRELOAD: %s\n", strerror(errno));
		return NULL;
	}
	return value;
}
