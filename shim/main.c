/* The base under main: pthread_exit from the program's first thread unwinds to here. */
#include <stddef.h>

#include "base.h"
#include "real.h"
#include "thread.h"

typedef int main_fn(int, char **, char **);

static main_fn *program;

static int main_on_base(int argc, char **argv, char **envp)
{
	__pthread_unwind_buf_t buf;
	int r;

	if (base_setjmp(&buf, 0) != 0)
		thread_main_ended();
	__pthread_register_cancel(&buf);
	r = program(argc, argv, envp);
	__pthread_unregister_cancel(&buf);
	return r;
}

EXPORT int __libc_start_main(main_fn *fn, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*rtld_fini)(void), void *stack)
{
	program = fn;
	return real_table.__libc_start_main(served() ? main_on_base : fn, argc, argv, init, fini,
					    rtld_fini, stack);
}
