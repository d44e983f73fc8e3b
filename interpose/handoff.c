/* Calls that are announced and made as they are: the PLAIN rows of calls.def, and a few that
 * need a word more. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <syslog.h>

#include "io.h"
#include "signals.h"
#include "wire.h"

/* The roads of PLAIN rows. AGAIN: it may be made again after an interruption. */
enum { HANDS = 0, ENDS = 1, SPAWNS = 2, REAPS = 4, LASTS = 8, AGAIN = 16 };

/* By which their kinds are told. */
enum plain {
#define ALIAS(...)
#define CALL(...)
#define PLAIN(type, name, ...) PLAIN_##name,
#include "calls.def"
#undef PLAIN
#undef CALL
#undef ALIAS
	PLAIN_sync,
	PLAIN_posix_spawn
};

struct call {
	struct thread *t;
	uint64_t kind;
	bool lent;
	int error; /* errno before */
	uint32_t handled; /* as t's */
};

static inline struct call announce(enum plain name, int road)
{
	struct call a = { .t = io_self(),
			  .kind = 1ULL << (KINDS_FD + name % KINDS_NAME),
			  .error = errno };

	if (road & SPAWNS) {
		state_settle();
		fd_allshared();
	}
	if (!a.t)
		return a;
	if (road & SPAWNS) {
		a.t->parent = true;
		core_begets();
	}
	a.t->points++;
	a.handled = ld_rlx(&a.t->handled);
	a.lent = io_lends(a.t, a.kind, road & LASTS);
	if (road & ENDS)
		cancel_blocks(a.t);
	else
		entersyscall();
	return a;
}

/* It was interrupted by a signal that another thread is to handle, which natively would not have
 * come here. */
static bool again(struct call a)
{
	if (!a.t || errno != EINTR || ld_rlx(&a.t->handled) != a.handled)
		return false;
	errno = a.error;
	return true;
}

static inline void announced(struct call a, int road)
{
	struct thread *t = a.t;

	if (t && unlikely(cancel_unblocks(t) != a.lent))
		io_lent(t, a.kind, road & LASTS, !a.lent);
	if (t && (road & (SPAWNS | REAPS)))
		signals_pull();
	if (road & SPAWNS)
		fd_allshared();
}

#define ALIAS(...)
#define CALL(...)
#define PLAIN(type, name, params, args, road)                                                      \
	EXPORT type name params                                                                    \
	{                                                                                          \
		struct call a = announce(PLAIN_##name, road);                                      \
		type r;                                                                            \
		do                                                                                 \
			r = real_table.name args;                                                  \
		while (((road)&AGAIN) && r == (type)-1 && unlikely(again(a)));                     \
		announced(a, road);                                                                \
		return r;                                                                          \
	}
#include "calls.def"
#undef PLAIN
#undef CALL
#undef ALIAS

EXPORT void sync(void)
{
	struct call a = announce(PLAIN_sync, LASTS);

	real_table.sync();
	announced(a, LASTS);
}

#define SPAWN(name)                                                                                \
	EXPORT int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,   \
			const posix_spawnattr_t *attr, char *const argv[], char *const envp[])     \
	{                                                                                          \
		struct thread *t = process_making(false);                                          \
		struct call a = announce(PLAIN_posix_spawn, SPAWNS);                               \
		pid_t own = 0, *to = pid ? pid : &own;                                             \
		int r = real_table.name(to, path, actions, attr, argv, envp);                      \
		process_made(t, r == 0 ? *to : -1);                                                \
		announced(a, SPAWNS);                                                              \
		return r;                                                                          \
	}
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

EXPORT void vsyslog(int priority, const char *format, va_list args)
{
	struct thread *t = io_self();

	if (t)
		entersyscall();
	real_table.vsyslog(priority, format, args);
	if (t)
		exitsyscall();
}

/* ---- opening: a FIFO waits for its other end ---- */

static int opened(struct thread *t, int dir, const char *path, int flags, int mode)
{
	uint32_t handled = ld_rlx(&t->handled);
	long r;

	cancel_blocks(t);
	do
		r = arch_syscall4(SYS_openat, dir, (long)path, flags, mode);
	while (r == -EINTR && ld_rlx(&t->handled) == handled);
	cancel_unblocks(t);
	if (r >= 0)
		fd_renewed((int)r);
	return (int)io_answer(r);
}

/* The last of the parameters, which if it was not given is not looked at. */
#define MODE_AFTER(flags)                                                                          \
	({                                                                                         \
		va_list args;                                                                      \
		int given;                                                                         \
		va_start(args, flags);                                                             \
		given = va_arg(args, int);                                                         \
		va_end(args);                                                                      \
		given;                                                                             \
	})

EXPORT int open(const char *path, int flags, ...)
{
	int mode = MODE_AFTER(flags);
	struct thread *t = io_self();

	return t ? opened(t, AT_FDCWD, path, flags, mode) : real_table.open(path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	int mode = MODE_AFTER(flags);
	struct thread *t = io_self();

	return t ? opened(t, dir, path, flags, mode) : real_table.openat(dir, path, flags, mode);
}

/* ---- streams: what is below them is closed where we do not see it ---- */

static int stream_close(FILE *file, int (**real)(FILE *))
{
	int saved = errno, fd, r;

	/* It may be the first call of all, in a library's constructor: this fills the table. */
	if (!served())
		return (*real)(file);
	fd = fileno(file);
	if (fd >= 0)
		fd_closing(fd);
	errno = saved;
	if (!io_self())
		return (*real)(file);
	entersyscall();
	r = (*real)(file);
	exitsyscall();
	if (fd >= 0)
		fd_closed(fd);
	return r;
}

/* What stands by the number then is another file, or none. */
static FILE *reopen(const char *path, const char *mode, FILE *file,
		    FILE *(**real)(const char *, const char *, FILE *))
{
	int saved = errno, fd;
	FILE *r;

	if (!served())
		return (*real)(path, mode, file);
	fd = fileno(file);
	if (fd >= 0)
		fd_closing(fd);
	errno = saved;
	if (!io_self())
		return (*real)(path, mode, file);
	entersyscall();
	r = (*real)(path, mode, file);
	exitsyscall();
	if (fd >= 0) {
		fd_renewed(fd);
		fd_closed(fd);
	}
	return r;
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *file)
{
	return reopen(path, mode, file, &real_table.freopen);
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	return reopen(path, mode, file, &real_table.freopen64);
}

EXPORT int fclose(FILE *file)
{
	return stream_close(file, &real_table.fclose);
}

EXPORT int pclose(FILE *file)
{
	int r = stream_close(file, &real_table.pclose);

	if (io_self())
		signals_pull();
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
