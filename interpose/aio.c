/* Asynchronous reads and writes are glibc's own, and done by kernel threads that are none of ours.
 * But who asks for one is asked for its priority by which those of one descriptor are put in order,
 * and glibc asks the kernel, by the tid that it has in mind: one that the kernel does not know left
 * the priority to chance, and writes came in any order. */
#include <aio.h>

#include "io.h"
#include "os.h"
#include "wire.h"

struct asked {
	struct thread *t;
	pid_t tid;
};

/* In a call that is announced the kernel thread is nobody else's. */
static struct asked asks(void)
{
	struct asked a = { .t = io_self() };

	if (a.t) {
		entersyscall();
		a.tid = *a.t->harvest.tidaddr;
		*a.t->harvest.tidaddr = os_gettid();
	}
	return a;
}

static void has_asked(struct asked a)
{
	if (a.t) {
		*a.t->harvest.tidaddr = a.tid;
		exitsyscall();
	}
}

#define ASK(name, params, args)                                                                    \
	EXPORT int name params                                                                     \
	{                                                                                          \
		struct asked a = asks();                                                           \
		int r = real_table.name args;                                                      \
		has_asked(a);                                                                      \
		return r;                                                                          \
	}
ASK(aio_read, (struct aiocb * cb), (cb))
ASK(aio_read64, (struct aiocb64 * cb), (cb))
ASK(aio_write, (struct aiocb * cb), (cb))
ASK(aio_write64, (struct aiocb64 * cb), (cb))
ASK(aio_fsync, (int how, struct aiocb *cb), (how, cb))
ASK(aio_fsync64, (int how, struct aiocb64 *cb), (how, cb))
ASK(lio_listio, (int mode, struct aiocb *const list[], int n, struct sigevent *event),
    (mode, list, n, event))
ASK(lio_listio64, (int mode, struct aiocb64 *const list[], int n, struct sigevent *event),
    (mode, list, n, event))
