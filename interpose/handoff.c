/* Calls that are announced and made as they are: the PLAIN rows of calls.def, and a few that
 * need a word more. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <syslog.h>

#include "io.h"

static inline struct thread *announce(bool point)
{
	struct thread *t = io_self();

	if (t && point)
		cancel_blocks(t);
	else if (t)
		entersyscall();
	return t;
}

static inline void announced(struct thread *t)
{
	if (t)
		cancel_unblocks(t);
}

#define ALIAS(...)
#define CALL(...)
#define HANDS false
#define ENDS true
#define PLAIN(type, name, params, args, road)                                                      \
	EXPORT type name params                                                                    \
	{                                                                                          \
		struct thread *t = announce(road);                                                 \
		type r = real_table.name args;                                                     \
		announced(t);                                                                      \
		return r;                                                                          \
	}
#include "calls.def"
#undef PLAIN
#undef ENDS
#undef HANDS
#undef CALL
#undef ALIAS

EXPORT void sync(void)
{
	struct thread *t = announce(false);

	real_table.sync();
	announced(t);
}

EXPORT void vsyslog(int priority, const char *format, va_list args)
{
	struct thread *t = announce(false);

	real_table.vsyslog(priority, format, args);
	announced(t);
}

/* ---- opening: a FIFO waits for its other end ---- */

static int opened(struct thread *t, int dir, const char *path, int flags, int mode)
{
	long r;

	cancel_blocks(t);
	r = arch_syscall4(SYS_openat, dir, (long)path, flags, mode);
	cancel_unblocks(t);
	if (r >= 0)
		fd_renewed((int)r);
	return (int)io_answer(r);
}

/* A mode that was not given is not looked at. */
EXPORT int open(const char *path, int flags, ...)
{
	struct thread *t;
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	t = io_self();
	return t ? opened(t, AT_FDCWD, path, flags, mode) : real_table.open(path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	struct thread *t;
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	t = io_self();
	return t ? opened(t, dir, path, flags, mode) : real_table.openat(dir, path, flags, mode);
}

/* ---- streams: what is below them is closed where we do not see it ---- */

static void stream_closing(FILE *file)
{
	int saved = errno, fd = fileno(file);

	if (fd >= 0)
		fd_closing(fd);
	errno = saved;
}

EXPORT int fclose(FILE *file)
{
	int r;

	if (!io_self())
		return real_table.fclose(file);
	stream_closing(file);
	entersyscall();
	r = real_table.fclose(file);
	exitsyscall();
	return r;
}

EXPORT int pclose(FILE *file)
{
	int r;

	if (!io_self())
		return real_table.pclose(file);
	stream_closing(file);
	entersyscall();
	r = real_table.pclose(file);
	exitsyscall();
	return r;
}

EXPORT void syslog(int priority, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsyslog(priority, format, args);
	va_end(args);
}

SAME(__open, open);
SAME(open64, open);
SAME(__open64, open);
SAME(openat64, openat);
