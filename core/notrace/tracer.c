/* No trace: the empty twin of tracing/tracer.c. */
#include "tracer.h"

#include <stddef.h>

#include "os.h"

static const char none[] = "heddle: no trace: this build has none\n";

void tracer_init(const char *path, int fd, uint64_t limit, tracer_name *name)
{
	(void)fd;
	(void)limit;
	(void)name;
	if (path)
		os_write2(none, sizeof(none) - 1);
}

void tracer_start(bool own)
{
	(void)own;
}

int32_t tracer_begin(const char *path)
{
	enum { ENOSYS_ = 38 };

	(void)path;
	return ENOSYS_;
}

int32_t tracer_end(void)
{
	return 0;
}

bool tracer_over(int32_t *error)
{
	*error = 0;
	return true;
}

void tracer_flush(void)
{
}

void tracer_renamed(struct g *gp)
{
	(void)gp;
}

void tracer_names(struct m *mp, struct g *gp)
{
	(void)mp;
	(void)gp;
}

int32_t tracer_threads(void)
{
	return 0;
}

void tracer_forked(void)
{
}
