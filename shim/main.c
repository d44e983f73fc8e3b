/* The base under main: pthread_exit from the program's first thread unwinds to here. */
#include <stddef.h>
#include <stdlib.h>

#include "base.h"
#include "early.h"
#include "mode.h"
#include "real.h"
#include "thread.h"

typedef int main_fn(int, char **, char **);

EARLY static main_fn *program;

static int main_on_base(int argc, char **argv, char **envp)
{
	__pthread_unwind_buf_t buf;

	if (base_setjmp(&buf, 0) != 0)
		thread_main_ended();
	__pthread_register_cancel(&buf);
	/* As glibc's own caller of main, which never uses its frame again: Free Pascal's main comes
	 * back with the stack and all registers but the frame pointer as they were where it halted.
	 * And what exit calls may call pthread_exit. */
	exit(program(argc, argv, envp));
}

EXPORT int __libc_start_main(main_fn *fn, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*rtld_fini)(void), void *stack)
{
	program = fn;
	return real_table.__libc_start_main(served() ? main_on_base : fn, argc, argv, init, fini,
					    rtld_fini, stack);
}
