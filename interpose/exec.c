/* Becoming another program: the kernel thread that does it takes along what the thread set for
 * itself (state_settle). In the child of a vfork no thread is to be found, and nothing is done. */
#include <stdarg.h>
#include <unistd.h>

#include "cputimer.h"
#include "mutex.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "thread.h"
#include "tracer.h"
#include "wire.h"

/* A handler that runs meanwhile sets t->becoming aside (sighandler.c), for it may jump away. */
struct thread *exec_begins(void)
{
	struct thread *t = served() && heddle_started() ? thread_self() : NULL;

	if (!t)
		return NULL;
	state_settle();
	tracer_flush();
	/* From here on it stays on its kernel thread. */
	entersyscall();
	exec_holds(t);
	return t;
}

/* No handler runs here, nor in exec_lets_go: it would find the half of it. */
void exec_holds(struct thread *t)
{
	uint64_t mask = os_sigmask(~signal_bit(SIG_PREEMPT));

	cputimers_stop();
	preempt_hold();
	signals_feed(t);
	robust_becomes(t, true);
	st_rlx(&t->becoming, true);
	os_sigmask(mask);
}

void exec_lets_go(struct thread *t)
{
	uint64_t mask = os_sigmask(~signal_bit(SIG_PREEMPT));

	st_rlx(&t->becoming, false);
	robust_becomes(t, false);
	signals_unfeed(t);
	preempt_release();
	cputimers_go();
	os_sigmask(mask);
}

void exec_failed(struct thread *t)
{
	if (!t)
		return;
	exec_lets_go(t);
	exitsyscall();
}

#define EXEC(name, params, args)                                                                   \
	EXPORT int name params                                                                     \
	{                                                                                          \
		struct thread *t = exec_begins();                                                  \
		int r = real_table.name args;                                                      \
		exec_failed(t);                                                                    \
		return r;                                                                          \
	}

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
EXEC(execveat, (int dir, const char *path, char *const argv[], char *const envp[], int flags),
     (dir, path, argv, envp, flags))

/* The arguments that follow, up to a NULL, as an array on the caller's stack: it may be a child of
 * vfork, or in a handler. */
#define GATHER(argv, args, arg)                                                                    \
	va_list args;                                                                              \
	size_t n_##argv = 1, i_##argv = 1;                                                         \
	char **argv;                                                                               \
	va_start(args, arg);                                                                       \
	while (va_arg(args, char *))                                                               \
		n_##argv++;                                                                        \
	va_end(args);                                                                              \
	argv = __builtin_alloca((n_##argv + 1) * sizeof(*argv));                                   \
	argv[0] = (char *)(uintptr_t)arg;                                                          \
	va_start(args, arg);                                                                       \
	while ((argv[i_##argv++] = va_arg(args, char *)) != NULL)                                  \
	continue

EXPORT int execl(const char *path, const char *arg, ...)
{
	GATHER(argv, args, arg);
	va_end(args);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	GATHER(argv, args, arg);
	va_end(args);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *envp;

	GATHER(argv, args, arg);
	/* It stands behind the NULL. */
	envp = va_arg(args, char *const *);
	va_end(args);
	return execve(path, argv, envp);
}
