/* Asynchronous reads and writes are glibc's own, and done by kernel threads that are none of ours.
 * But glibc puts those of one descriptor in the order of the priorities of who asked for them, and
 * asks the kernel for that, by the tid that it has in mind, once: where the kernel does not know
 * it, the priority is what lies on the stack, and writes come in any order. */
#include <aio.h>

#include "io.h"
#include "os.h"
#include "wire.h"

/* Has glibc ask now. In a call that is announced the kernel thread is nobody else's; but its tid
 * may be that by which glibc knows another thread, and so is not to be seen in glibc's own locks.
 */
static struct thread *asks(void)
{
	struct thread *t = io_self();
	struct sched_param param;
	int policy;

	if (!t)
		return NULL;
	entersyscall();
	if (!t->owns) {
		*t->harvest.tidaddr = os_gettid();
		real_table.pthread_getschedparam(t->harvest.thread, &policy, &param);
		*t->harvest.tidaddr = t->tid;
	}
	return t;
}

#define ASK(name, params, args)                                                                    \
	EXPORT int name params                                                                     \
	{                                                                                          \
		struct thread *t = asks();                                                         \
		int r = real_table.name args;                                                      \
		if (t)                                                                             \
			exitsyscall();                                                             \
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
